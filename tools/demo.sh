#!/usr/bin/env bash
# Shows weir at work on data that it makes itself, in some seconds. WEIR_BUILD names the folder with the command (build).
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$(cd "${WEIR_BUILD:-build}" && pwd):$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/weir-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
exec 2>&1

say() { printf '\n# %s\n' "$1"; }

# Prints a command as one would type it, and runs it.
run() {
	local word line=
	for word in "$@"; do
		case $word in
		*\'*) word="\"$word\"" ;;
		*[!A-Za-z0-9_./=,:-]*) word="'$word'" ;;
		esac
		line+=" $word"
	done
	printf '$%s\n' "$line"
	"$@"
}

say "Twenty million orders, made by weir itself and written as Parquet."
run weir range 20M then with 'key = id * 7919 % 20000003, flag = "A" if id % 3 == 0 else "R" if id % 3 == 1 else "N"' \
	then select 'orderkey = key, price = key % 104950 + 0.5, discount = key % 11 / 100, flag' \
	then write orders/
run du -sh orders

say "What is in there? The schema and the count come from footers alone."
run weir schema orders/
run weir count orders/
run weir head orders/ -n 5 --output table

say "Read, filter, compute, write, within 256 MiB."
run weir read 'orders/*.parquet' then filter 'price > 50000 and flag in ("A","R")' \
	then with 'total = price * (1 - discount)' then select orderkey,total then write out/ --memory-limit 256M --stats
run weir count out/
run weir read out/ then limit 3 --output table

say "What would be done, and what is pushed into the read: two columns, and row groups that cannot match are skipped."
run weir explain "read orders/ then filter 'price > 104000' then select orderkey then limit 10"

say "Into a pipe it speaks CSV, JSON lines or Arrow."
printf '%s\n' "\$ weir read out/ then filter 'total > 104940' then write - --format jsonl | head -n 3"
(weir read out/ then filter 'total > 104940' then write - --format jsonl || true) | head -n 3

say "CSV there and back: types are inferred; what is in it?"
run weir convert out/ total.csv.gz
run weir stats total.csv.gz --output table
run weir sample total.csv.gz -n 3 --output table
printf 'city;since;people\nOslo;1048-01-01;717710\n"Zürich; west";;"421 878"\n' >cities.csv
run weir read cities.csv --delimiter ';' --output table

say "Mistakes are named."
printf 'Bergen;1070-05-23\n' >>cities.csv
run weir count cities.csv --delimiter ';' || true
run weir read orders/ then filter 'prise > 50000' || true
run weir read orders/ then filter 'orderkey % (orderkey - 15838) == 1' then count || true
