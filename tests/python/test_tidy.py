"""tools/tidy.py finds each mistake that it is there for, and nothing in a tree without one."""
import subprocess
import sys
from pathlib import Path

import pytest

TIDY = Path(__file__).resolve().parents[2] / "tools/tidy.py"

CLEAN = {
    "include/weir/weir.h": "#ifndef WEIR_WEIR_H\n#define WEIR_WEIR_H\nint weir_x(void);\n#endif\n",
    "src/base/error.h": "#ifndef BASE_ERROR_H\n#define BASE_ERROR_H\n#include <stdint.h>\nint64_t error_x(void);\n#endif\n",
    "src/base/mem.c": '#include "base/error.h"\n\n#include <stdlib.h>\n\nvoid f(void *p)\n{\n\tfree(p);\n}\n',
    "src/io/file.h": "#ifndef IO_FILE_H\n#define IO_FILE_H\nint io_x(void);\n#endif\n",
    "src/io/file_impl.h": "#ifndef IO_FILE_IMPL_H\n#define IO_FILE_IMPL_H\nint io_y(void);\n#endif\n",
    "src/io/file.c": '/* free( in a comment */\n#include "io/file.h"\n\n#include "base/error.h"\n#include "weir/weir.h"\n'
    '#include "io/file_impl.h"\n\n#include <stdio.h>\n\nint io_x(void)\n{\n\ttable->free(1);\n\tputs("system(");\n'
    "\treturn 0;\n}\n",
    "src/store/heap.h": "#ifndef STORE_HEAP_H\n#define STORE_HEAP_H\nint heap_x(void);\n#endif\n",
    "tests/c/io/file_test.c": '#include "io/file_impl.h"\n\n#include <stdlib.h>\n\nvoid f(void *p)\n{\n\tfree(p);\n}\n',
}

# path, its text, what the finding says; None where nothing may be found
PLANTED = [
    ("src/io/file.c", '#include "base/error.h"\n#include "io/file.h"\n', "own header"),
    ("src/io/file.c", "int x;\n", "own header"),
    ("src/io/a.c", '#include <stdio.h>\n#include "base/error.h"\n', "before the system's headers"),
    ("src/io/a.c", '#include "io/file.h"\n#include "base/error.h"\n', "order of the layers"),
    ("src/io/a.h", '#ifndef A_H\n#define A_H\n#include <stdint.h>\n#include "base/error.h"\n#endif\n', "before the system's"),
    ("src/io/a.c", '#include "file.h"\n', "write the folder too"),
    ("src/base/a.c", '#include "io/file.h"\n', "base must not include io"),
    ("src/io/a.c", '#include "store/heap.h"\n', "io must not include store"),
    ("src/store/a.c", '#include "io/file.h"\n', "store must not include io"),
    ("src/ops/a.c", '#include "io/file.h"\n', None),
    ("src/ops/a.c", '#include "format/format.h"\n', None),
    ("src/ops/a.c", '#include "format/parquet/x.h"\n', "ops must not include format"),
    ("src/format/a.c", '#include "ops/op.h"\n', "format must not include ops"),
    ("src/format/parquet/a.c", '#include "io/file.h"\n', None),
    ("src/exec/a.c", "int f(void);\n\n#if 1\n#include \"cli/x.h\"\n#endif\n", "exec must not include cli"),
    ("src/exec/a.c", "#include <pthread.h>\n", "knows no threads"),
    ("src/io/a.c", "#include <Python.h>\n", "only pyext knows Python"),
    ("src/plan/a.c", '#include "io/file_impl.h"\n', "own folder alone"),
    ("tests/c/plan/a_test.c", '#include "io/file_impl.h"\n', "own folder alone"),
    ("src/io/a.c", "void f(void *p)\n{\n\tfree(p);\n}\n", "free() is banned"),
    ("src/io/a.c", "void *f(void)\n{\n\treturn malloc (1);\n}\n", "malloc() is banned"),
    ("src/io/a.c", "char *f(void)\n{\n\treturn strdup(\"a\");\n}\n", "strdup() is banned"),
    ("src/io/a.c", "void f(void *p)\n{\n\tfree(p); /* tidy-allow: jansson made it */\n}\n", None),
    ("src/io/a.c", "void f(void *p)\n{\n\tfree(p); /* tidy-allow: */\n}\n", "free() is banned"),
    ("src/io/a.c", "void f(void)\n{\n\tmmap(0, 0);\n}\n", "mmap() is banned"),
    ("src/store/a.c", "void f(void)\n{\n\tmmap(0, 0);\n}\n", None),
    ("src/base/a.c", "void f(char *a)\n{\n\tstrcpy(a, \"b\");\n}\n", "strcpy() is banned"),
    ("tests/c/io/a_test.c", "int f(char *a)\n{\n\treturn atoi(a);\n}\n", "atoi() is banned"),
    ("src/base/a.c", "void f(int a)\n{\n\tassert(a);\n}\n", "assert() is banned"),
    ("src/base/a.c", "void f(int a)\n{\n\tWEIR_ASSERT(a);\n\tstatic_assert(1, \"\");\n}\n", None),
    ("src/base/a.c", "int weir_a(void)\n{\n\treturn 1;\n}\n", "nobody calls it"),
    ("src/base/a.c", "int weir_a(void)\n{\n\treturn 1; /* weir_a() */\n}\n", "nobody calls it"),
    ("src/base/a.c", "int weir_a(void)\n{\n\treturn 1;\n}\n\nint x = sizeof(weir_a());\n", None),
    ("docs/a.md", "text \n", "blanks at the end"),
    ("src/base/a.c", "int x;", "no newline"),
    ("src/base/a.c", "int x;\n" * 1001, "more than 1000"),
    ("src/base/a.c", "\t/* " + "x" * 108 + " */\n", "more than 120 columns"),
    ("src/base/a.c", '\tf("' + "x" * 120 + '");\n', None),
    ("src/base/a.c", "int x;\n" * 1000, None),
    ("src/base/a.c", "/* TO" "DO: more */\n", "unfinished"),
    ("src/base/a.h", "size_t f(void);\n", "does not compile alone"),
    ("src/base/a_template.h", "TYPE f(void);\n", None),
    ("docs/a.md", "see /" "work/x\n", "path of one machine"),
    ("docs/a.md", "from pypi" ".org\n", "path of one machine"),
]


def tidy(root, *options):
    ended = subprocess.run([sys.executable, str(TIDY), "--root", str(root), *options], capture_output=True, text=True)
    assert ended.stderr == ""
    assert ended.returncode == (1 if ended.stdout else 0)
    return ended.stdout.splitlines()


def plant(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_clean_tree_has_no_findings(tmp_path):
    plant(tmp_path, CLEAN)
    assert tidy(tmp_path) == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("path, text, expected", PLANTED)
def test_a_planted_mistake_is_found(tmp_path, path, text, expected):
    plant(tmp_path, CLEAN)
    plant(tmp_path, {path: text})
    found = tidy(tmp_path)
    if expected is None:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].startswith(path + ":") and expected in found[0]


def test_fix_puts_includes_in_order_and_keeps_the_rest(tmp_path):
    plant(tmp_path, CLEAN)
    plant(tmp_path, {"src/io/file.c": '/* a */\n#include "io/file_impl.h" /* why */\n#include "base/error.h"\n'
                                      '#include "io/file.h"\n\n#include <stdio.h>\n\nint x; \n#include "io/file_impl.h"\n'
                                      '#include "base/error.h"\n'})
    assert len(tidy(tmp_path)) > 1
    assert tidy(tmp_path, "--fix") == []
    assert (tmp_path / "src/io/file.c").read_text() == (
        '/* a */\n#include "io/file.h"\n#include "base/error.h"\n#include "io/file_impl.h" /* why */\n\n'
        '#include <stdio.h>\n\nint x;\n#include "io/file_impl.h"\n#include "base/error.h"\n')
    for path, text in CLEAN.items():
        assert path == "src/io/file.c" or (tmp_path / path).read_text() == text
