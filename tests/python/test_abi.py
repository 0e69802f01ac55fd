"""Programs compiled against earlier headers run with today's library (tests/abi)."""
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOW = ROOT / "include"
EARLIER = sorted(path for path in (ROOT / "tests/abi").iterdir() if path.is_dir())


def text_of(folder):
    text = "\n".join(path.read_text() for path in sorted((folder / "weir").glob("*.h")) if path.name != "arrow_abi.h")
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def structs(folder):
    """{struct: [field]} of what is not opaque."""
    found = {}
    for name, body in re.findall(r"\bstruct (weir_\w+) \{\n(.*?)\n\};", text_of(folder), flags=re.DOTALL):
        fields = []
        for line in body.split(";"):
            pointer = re.search(r"\(\*(\w+)\)\(", line)
            if pointer:
                fields.append(pointer.group(1))
            elif line.strip():
                fields += [re.search(r"(\w+)\s*$", part).group(1) for part in line.split(",")]
        found[name] = fields
    return found


def enumerators(folder):
    return [name for body in re.findall(r"\benum weir_\w+ \{(.*?)\}", text_of(folder), flags=re.DOTALL)
            for name in re.findall(r"\b(WEIR_\w+)", body)]


def functions(folder):
    return {re.search(r"\b(weir_\w+)\s*\(", declaration).group(1)
            for declaration in re.findall(r"^WEIR_API\b([^;{]*)", text_of(folder), flags=re.MULTILINE)}


def compiled(folder, source, path, weir_build):
    (path / "t.c").write_text(source)
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", f"-I{folder}", path / "t.c", "-o", path / "t", f"-L{weir_build}",
                    "-lweir", f"-Wl,-rpath,{weir_build}"], check=True)
    return subprocess.run([path / "t"], check=True, capture_output=True, text=True).stdout


def layout(folder, names, enums, path, weir_build):
    """Lines of what each field's place and size and each enumerator's number are."""
    lines = [f'printf("{struct}.{field} %zu %zu\\n", offsetof(struct {struct}, {field}), '
             f'sizeof(((struct {struct} *)0)->{field}));' for struct, fields in names.items() for field in fields]
    lines += [f'printf("{name} %d\\n", (int){name});' for name in enums]
    return compiled(folder, "#include <weir/weir.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n"
                    + "\n".join(lines) + "\nreturn 0;\n}\n", path, weir_build)


def test_the_first_program(tmp_path, weir_build):
    program = (ROOT / "tests/abi/program.c").read_text()
    assert compiled(EARLIER[0], program, tmp_path, weir_build).split()[1] == "100000"


@pytest.mark.parametrize("folder", EARLIER, ids=lambda path: path.name)
def test_nothing_moved(folder, tmp_path, weir_build):
    names, enums = structs(folder), enumerators(folder)
    assert names
    assert layout(folder, names, enums, tmp_path, weir_build) == layout(NOW, names, enums, tmp_path, weir_build)
    now = enumerators(NOW)
    assert [name for name in now if name in enums] == enums


@pytest.mark.parametrize("folder", EARLIER, ids=lambda path: path.name)
def test_every_function_is_still_there(folder, tmp_path, weir_build):
    calls = "\n".join(f'if (!(void *)&{name}) return 1;' for name in sorted(functions(folder)))
    assert functions(folder) <= functions(NOW)
    (tmp_path / "t.c").write_text("#include <weir/weir.h>\nint main(void)\n{\n" + calls + "\nreturn 0;\n}\n")
    subprocess.run(["gcc", "-Wno-address", f"-I{folder}", tmp_path / "t.c", "-o", tmp_path / "t", f"-L{weir_build}", "-lweir",
                    f"-Wl,-rpath,{weir_build}"], check=True)
    subprocess.run([tmp_path / "t"], check=True)


def test_structs_say_their_size():
    """Each struct that may grow begins with struct_size; the one that may not says so."""
    for name, fields in structs(NOW).items():
        assert fields[0] == "struct_size" or name == "weir_option", name
