# The front door. Each target first installs what is missing (tools/bootstrap), so that it works on a fresh Debian 12.
#
#   make            build build/weir, build/libweir.so and the Python package in build/python
#   make wheel      a wheel for any Linux of 2022 and later, in build/wheels
#   make demo       build, and show weir at work
#   make test       all quick tests; the last line counts them
#   make test-full  the same, fault sweeps, each fuzz target for FUZZ_SECONDS
#   make bench      benchmarks against Polars, DuckDB, pyarrow (BENCH_ARGS=…), then make bench-functions and bench-exchanges
#   make bench-functions  Python functions against Ray Data, Daft, Polars and DataLoader (BENCH_ARGS=…)
#   make bench-exchanges  sort, group, join and shuffle against Polars and DuckDB (BENCH_ARGS=…)
#   make fuzz       each fuzz target for FUZZ_SECONDS (60)
#   make format     clang-format over all C files, includes in order
#   make install    into PREFIX (/usr/local), below DESTDIR
#   make clean      remove the build folders

VENV ?= .venv
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
BENCH_ARGS ?=
export VENV

PYTHON = $(VENV)/bin/python
NINJA = $(VENV)/bin/ninja

.PHONY: all wheel demo test test-full bench bench-functions bench-exchanges fuzz format install clean bootstrap bootstrap-test \
	bootstrap-bench

all: bootstrap
	@tools/configure build -Dprefix=$(PREFIX)
	@$(NINJA) -C build --quiet product

wheel: bootstrap
	@$(PYTHON) tools/wheel.py build/wheels

demo: all
	@WEIR_BUILD=build tools/demo.sh

test: bootstrap-test
	@$(PYTHON) tools/run_tests.py

test-full: bootstrap-test
	@$(PYTHON) tools/run_tests.py --full --fuzz-seconds $(FUZZ_SECONDS)

bench: bootstrap-bench all
	@WEIR_BUILD=build $(PYTHON) bench/run.py $(BENCH_ARGS)
	@[ -n "$(BENCH_ARGS)" ] || $(MAKE) --no-print-directory bench-functions bench-exchanges

bench-functions: bootstrap-bench all
	@WEIR_PYTHON=build/python $(PYTHON) bench/functions.py $(BENCH_ARGS)

bench-exchanges: bootstrap-bench all
	@WEIR_PYTHON=build/python $(PYTHON) bench/exchanges.py $(BENCH_ARGS)

fuzz: bootstrap-test
	@$(PYTHON) tools/run_tests.py --only fuzz --fuzz-seconds $(FUZZ_SECONDS)

format: bootstrap-test
	@git ls-files '*.c' '*.h' | xargs clang-format -i
	@$(PYTHON) tools/tidy.py --fix

install: all
	@$(VENV)/bin/meson install -C build --no-rebuild

clean:
	rm -rf build build-asan build-tsan build-fuzz

bootstrap:
	@tools/bootstrap

bootstrap-test:
	@tools/bootstrap --test

bootstrap-bench:
	@tools/bootstrap --bench
