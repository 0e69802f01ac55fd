#!/usr/bin/env python3
"""Checks what a compiler does not: include order, layers, reach into another folder's _impl.h, banned calls, machine
paths, file sizes, wide lines of C, trailing blanks, functions that nobody calls, and that each header compiles alone.
The rules are told in CONTRIBUTING.md.

    tools/tidy.py [--fix] [--root DIR]

Prints one finding a line (path:line: what) and exits with 1 if there are any. A banned call with a good reason carries
the reason on its line: /* tidy-allow: why */. --fix first mends what can be mended: runs of includes are put in order,
blanks at line ends removed.
"""
import argparse
import os
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Left never includes right; folders of one rank do not include each other.
LAYERS = [["base"], ["arrow"], ["vector"], ["expr"], ["store", "io"], ["format", "ops"], ["plan"], ["exec"],
          ["backend"], ["observe"], ["api"], ["cli", "pyext"]]
RANK = {folder: rank for rank, group in enumerate(LAYERS) for folder in group}
RANK["weir"] = -1  # the public header
# The read and write operators know formats by their table, and where a range begins.
ACROSS = {("ops", "format/format.h"), ("ops", "format/cuts.h")}

LINES_MAX = 1000
COLUMNS_MAX = 120  # of C, tabs being eight; a message stays whole, and so does a drawing
STAYS_WHOLE = re.compile(r'"|[─│┌┐└┘├┤┬┴┼▶]')
SOURCE_ENDS = (".c", ".h", ".py")

ALLOCATES = ["malloc", "calloc", "realloc", "reallocarray", "free", "strdup", "strndup", "aligned_alloc",
             "posix_memalign", "memalign", "asprintf", "vasprintf"]
NEVER = {
    "strcpy": "memcpy with a known length", "strcat": "memcpy with a known length", "sprintf": "snprintf",
    "vsprintf": "vsnprintf", "gets": "fgets", "strtok": "strchr", "atoi": "strtol", "atol": "strtol",
    "atoll": "strtoll", "atof": "strtod", "system": "posix_spawn", "alloca": "an arena",
}
# Headers that only some folders may see.
KEPT_APART = [
    (re.compile(r"^Python\.h$"), lambda folder: folder == "pyext", "only pyext knows Python"),
    (re.compile(r"^(pthread|threads)\.h$"), lambda folder: folder != "exec", "the executor knows no threads"),
]
ELSEWHERE = re.compile(r"(?<![\w.])/(?:work|farm|root)/|pypi\.org|deb\.debian\.org|files\.pythonhosted")
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
DEFINED = re.compile(r"^(?!static\b)\w[^\n;{}=#]*?\b(weir_\w+)\([^;{}]*\)\n\{", re.MULTILINE)
NAMED = re.compile(r"\bweir_\w+")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')


class Tidy:
    def __init__(self, root):
        self.root = root
        self.findings = []
        self.defined = {}  # functions of src that other files could call: where they are
        self.declared = set()  # those that a header names
        self.named = Counter()  # how often each is named in code, its definition and its declaration too

    def found(self, path, line, what):
        self.findings.append((str(path), line, what))

    def files(self):
        if (self.root / ".git").exists():
            out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=self.root, check=True,
                                 capture_output=True, text=True).stdout
            names = [Path(name) for name in out.split("\0") if name]
        else:
            names = [path.relative_to(self.root) for path in self.root.rglob("*")]
        return sorted(name for name in set(names) if (self.root / name).is_file())

    def check(self, compiler):
        headers = []
        for path in self.files():
            if path.parts[:2] in (("tests", "data"), ("docs", "img")) or path.parts[:3] == ("tests", "fuzz", "corpus"):
                continue
            try:
                text = (self.root / path).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            self.check_text(path, text)
            if path.suffix == ".py":
                self.named.update(NAMED.findall(text))
            if path.suffix in (".c", ".h"):
                self.check_c(path, text)
            if path.suffix == ".h" and path.parts[0] in ("src", "include") and not path.stem.endswith("_template"):
                headers.append(path)
        self.check_used()
        if compiler:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(lambda header: self.check_compiles(header, compiler), headers))
        return sorted(self.findings)

    def check_text(self, path, text):
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if line != line.rstrip():
                self.found(path, number, "blanks at the end of the line")
            if ELSEWHERE.search(line):
                self.found(path, number, "a path of one machine, or the host of a package registry")
            if path.suffix in SOURCE_ENDS and UNFINISHED.search(line) and path.name != "tidy.py":
                self.found(path, number, "a note of unfinished work: finish it, or open an issue")
        if text and not text.endswith("\n"):
            self.found(path, len(lines), "no newline at the end of the file")
        if path.suffix in SOURCE_ENDS and len(lines) - 1 > LINES_MAX:
            self.found(path, 1, f"{len(lines) - 1} lines, more than {LINES_MAX}: which second noun moved in?")

    def check_c(self, path, text):
        code = blank_comments_and_strings(text)
        for number, line in enumerate(text.split("\n"), 1):
            if len(line.expandtabs(8)) > COLUMNS_MAX and not STAYS_WHOLE.search(line):
                self.found(path, number, f"a line of more than {COLUMNS_MAX} columns")
        self.check_includes(path, text, code)
        self.check_calls(path, text, code)
        self.named.update(NAMED.findall(code))
        if path.suffix == ".h":
            self.declared.update(NAMED.findall(code))
        if path.parts[0] == "include":
            self.named.update(NAMED.findall(code))  # the public ones are called elsewhere
        elif path.parts[0] == "src" and path.suffix == ".c":
            for match in DEFINED.finditer(code):
                self.defined[match.group(1)] = (path, code.count("\n", 0, match.start(1)) + 1)

    def check_used(self):
        for name, (path, line) in self.defined.items():
            if self.named[name] <= 1 + (name in self.declared):
                self.found(path, line, f"{name}: nobody calls it")

    def check_calls(self, path, text, code):
        in_src = path.parts[0] in ("src", "include")
        folder = path.parts[1] if path.parts[0] == "src" else None
        banned = {name: f"use {instead}" for name, instead in NEVER.items()}
        if in_src:
            banned["assert"] = "use WEIR_ASSERT or WEIR_DCHECK"
            if folder != "base":
                banned.update({name: "use base/mem.h or an arena" for name in ALLOCATES})
            if folder not in ("base", "store"):
                banned.update({name: "use base/mem.h or the store" for name in ("mmap", "mmap64", "mremap")})
        # Members of method tables (x->free(…), x.free(…)) are other functions.
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(banned) + r")\s*\(")
        originals = text.split("\n")
        for number, line in enumerate(code.split("\n"), 1):
            for match in pattern.finditer(line):
                if not re.search(r"tidy-allow: \w", originals[number - 1]):
                    self.found(path, number, f"{match.group(1)}() is banned here: {banned[match.group(1)]}")

    def check_includes(self, path, text, code):
        in_src = path.parts[0] == "src"
        folder = path.parts[1] if in_src and len(path.parts) > 2 else None
        inside = path.relative_to("src") if in_src else None
        top = list(top_includes(text, code))
        for number, quoted, angled in all_includes(text, code):
            if quoted:
                self.check_reach(path, number, folder, inside, quoted)
            else:
                for pattern, may, why in KEPT_APART:
                    if folder and pattern.match(angled) and not may(folder):
                        self.found(path, number, f"<{angled}> is out of reach here: {why}")
        if path.parts[0] not in ("src", "include"):
            return

        own = str(inside.with_suffix(".h")) if in_src and path.suffix == ".c" else None
        if own and (self.root / "src" / own).exists():
            if not top or top[0][1] != own:
                self.found(path, top[0][0] if top else 1, f'the first include must be the own header, "{own}"')
            top = [include for include in top if include[1] != own]
        rank_before, angled_before = -2, False
        for number, quoted, angled in top:
            if angled:
                angled_before = True
                continue
            head = quoted.split("/")[0]
            rank = RANK.get(head) if head != "weir" else None  # the public headers may stand anywhere among them
            if angled_before:
                self.found(path, number, f'"{quoted}" must stand before the system\'s headers')
            elif rank is not None and rank < rank_before:
                self.found(path, number, f'"{quoted}" must stand further up, in the order of the layers')
            rank_before = rank if rank is not None else rank_before

    def check_reach(self, path, number, folder, inside, quoted):
        target = Path(quoted)
        head = target.parts[0]
        if folder:
            if head not in RANK:
                self.found(path, number, f'"{quoted}": write the folder too, as in "base/error.h"')
                return
            rank, target_rank = RANK.get(folder), RANK[head]
            if rank is not None and head != folder and target_rank >= rank and (folder, quoted) not in ACROSS:
                self.found(path, number, f"{folder} must not include {head}: left never includes right")
        if target.stem.endswith("_impl"):
            # Tests of a folder and micro benchmarks look inside; folders in it are part of it.
            mirrored = path.parts[:2] == ("bench", "micro") or (
                path.parts[:2] == ("tests", "c") and len(path.parts) > 3 and path.parts[2] == head)
            if not (inside and target.parent in inside.parents) and not mirrored:
                self.found(path, number, f'"{quoted}" belongs to its own folder alone')

    def fix(self):
        for path in self.files():
            if path.suffix not in (".c", ".h") or path.parts[0] not in ("src", "include", "tests", "bench"):
                continue
            text = (self.root / path).read_text(encoding="utf-8")
            lines = [line.rstrip() for line in text.split("\n")]
            own = str(path.relative_to("src").with_suffix(".h")) if path.parts[0] == "src" else None
            run = []
            for number, quoted, _ in [*top_includes(text, blank_comments_and_strings(text)), (0, None, None)]:
                if run and (not quoted or number != run[-1][0] + 1):
                    ordered = sorted(run, key=lambda item: (item[1] != own, RANK.get(item[1].split("/")[0], 99), item[1]))
                    moved = [lines[from_number - 1] for from_number, _ in ordered]
                    lines[run[0][0] - 1:run[-1][0]] = moved
                    run = []
                if quoted:
                    run.append((number, quoted))
            if "\n".join(lines) != text:
                (self.root / path).write_text("\n".join(lines), encoding="utf-8")

    def check_compiles(self, header, compiler):
        command = [*compiler, "-x", "c", "-std=gnu11", "-fsyntax-only", "-D_GNU_SOURCE", "-DWEIR_KERNEL_SUFFIX=_base",
                   "-Iinclude", "-Isrc", str(header)]
        if header.parts[:2] == ("src", "pyext"):
            command += ["-isystem", sysconfig.get_path("include")]
        ended = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
        if ended.returncode:
            error = next((line for line in ended.stderr.splitlines() if "error:" in line), ended.stderr.strip())
            self.found(header, 1, f"does not compile alone: {error}")


def blank_comments_and_strings(text):
    """The same text with the inside of comments, strings and character constants as blanks; lines stay in place."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def all_includes(text, code):
    """(line, quoted name or None, angled name or None) of each include that is not in a comment."""
    for number, (line, bare) in enumerate(zip(text.split("\n"), code.split("\n")), 1):
        match = INCLUDE.match(line)
        if match and bare.lstrip().startswith("#"):
            yield number, match.group(1), match.group(2)


def top_includes(text, code):
    """The includes before the first line of code, those under a condition left out; an include guard is none."""
    includes = {number: (number, quoted, angled) for number, quoted, angled in all_includes(text, code)}
    depth, guarded, continued = 0, False, False
    for number, line in enumerate(code.split("\n"), 1):
        bare = line.strip()
        was_continued, continued = continued, bare.endswith("\\")
        if not bare or was_continued:
            continue
        if not bare.startswith("#"):
            if depth == 0 and not bare.startswith('extern "C"'):
                return
            continue
        word = re.match(r"#\s*(\w*)", bare).group(1)
        if word == "ifndef" and not guarded and depth == 0 and bare.endswith("_H"):
            guarded = True
        elif word in ("if", "ifdef", "ifndef"):
            depth += 1
        elif word == "endif":
            depth = max(depth - 1, 0)
        elif number in includes and depth == 0:
            yield includes[number]


def main():
    parser = argparse.ArgumentParser(description="Checks what a compiler does not.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--no-compile", action="store_true", help="leave out that each header compiles alone")
    parser.add_argument("--fix", action="store_true", help="mend include order and blanks at line ends first")
    options = parser.parse_args()
    compiler = None if options.no_compile else os.environ.get("CC", "cc").split()
    tidy = Tidy(options.root.resolve())
    if options.fix:
        tidy.fix()
    findings = tidy.check(compiler)
    for path, line, what in findings:
        print(f"{path}:{line}: {what}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
