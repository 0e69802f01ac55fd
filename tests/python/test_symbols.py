"""libweir exports what the public header declares, and nothing else."""
import ctypes
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def declared():
    names = set()
    for header in (ROOT / "include/weir").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
        text = re.sub(r"^#.*(?:\\\n.*)*", "", text, flags=re.MULTILINE)
        # The name is what stands before the parameters of the declaration, a returned function pointer aside.
        for declaration in re.findall(r"\bWEIR_API\b([^;{]*)", text):
            names.add(re.search(r"\b(weir_\w+)\s*(?:\(|$)", declaration.strip()).group(1))
    return names


def test_exported_symbols_are_the_declared_ones(weir_build):
    out = subprocess.run(["nm", "-D", "--defined-only", str(weir_build / "libweir.so")],
                         capture_output=True, text=True, check=True).stdout
    exported = {line.split()[2].split("@")[0] for line in out.splitlines()}
    assert exported == declared()


def test_version_is_the_same_everywhere(libweir, weir_command):
    libweir.weir_version.restype = ctypes.c_char_p
    version = libweir.weir_version().decode()
    assert f"version: '{version}'" in (ROOT / "meson.build").read_text()
    shown = subprocess.run([weir_command, "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["weir", version]
