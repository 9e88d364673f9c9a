"""Mistakes that C++ compilers refuse, each with its sentence: files of fail/ have one `#if` branch a mistake (`#ifdef NAME // sentence`), and a right program in `#else`."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILERS = [c for c in ("g++-12", "clang++-19") if shutil.which(c)] or [c for c in ("g++", "clang++") if shutil.which(c)]
FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-fno-diagnostics-color", f"-I{ROOT / 'include'}"]
MISTAKE = re.compile(r"^#\s*(?:ifdef|elif defined) (\w+) // (.*)$", re.M)
CASES = [(f, *m) for f in sorted((Path(__file__).parent / "fail").glob("*.cpp")) for m in [(None, None), *MISTAKE.findall(f.read_text())]]
assert COMPILERS and len(CASES) > 5


def compile_cpp(compiler, *args):
    return subprocess.run([compiler, *FLAGS, *map(str, args)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def headers(tmp_path_factory):
    """By compiler: the option that puts all public headers before a file, compiled once."""
    options = {}
    for c in COMPILERS:
        all_headers = tmp_path_factory.mktemp(c) / "all.hpp"
        all_headers.write_text("".join(f"#include <tegula/{h.name}>\n" for h in sorted((ROOT / "include/tegula").glob("*.hpp"))) + "#include <vector>\n")
        p = compile_cpp(c, "-x", "c++-header", all_headers, "-o", f"{all_headers}.{'pch' if 'clang' in c else 'gch'}")
        assert p.returncode == 0, p.stderr
        options[c] = ["-include", all_headers]
    return options


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("file,name,sentence", CASES, ids=[f"{f.stem}-{n or 'right'}" for f, n, _ in CASES])
def test_mistake(headers, compiler, file, name, sentence):
    p = compile_cpp(compiler, "-fsyntax-only", *headers[compiler], *([f"-D{name}"] if name else []), file)
    if name is None:
        assert p.returncode == 0, p.stderr
        return
    assert p.returncode != 0, "this compiles"
    assert sentence in p.stderr, p.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flags", [["-fno-exceptions", "-fno-rtti"], ["-std=c++23"], ["-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion"]], ids=["bare", "c++23", "strict"])
def test_headers_under(compiler, flags, tmp_path):
    """Programs of other flags than ours include the headers without a warning; each header by itself."""
    headers = sorted(h.relative_to(ROOT / "include") for h in (ROOT / "include/tegula").rglob("*.hpp"))
    for name, text in [("all", "".join(f"#include <{h}>\n" for h in headers)), ("last", f"#include <{headers[-1]}>\n")]:
        source = tmp_path / f"{name}.cpp"
        source.write_text(text)
        p = compile_cpp(compiler, *flags, "-fsyntax-only", source)
        assert p.returncode == 0, p.stderr
    right = Path(__file__).parent / "fail/tile.cpp"
    p = compile_cpp(compiler, *flags, "-fsyntax-only", right)
    assert p.returncode == 0, p.stderr
