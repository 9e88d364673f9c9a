"""Kernels in C++ and in the language's own syntax are the same tile IR, and their values have the types that C++ takes them for (twins/)."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIB = ROOT / "build/lib"
TWINS = Path(__file__).parent / "twins"
COMPILERS = [c for c in ("g++-12", "clang++-19") if shutil.which(c)] or [c for c in ("g++", "clang++") if shutil.which(c)]


def build(compiler, source, folder, *flags):
    """The program of one C++ file."""
    program = folder / source.stem
    warnings = ["-Wall", "-Wextra", "-Werror"]
    p = subprocess.run([compiler, "-std=c++20", *warnings, *flags, f"-I{ROOT / 'include'}", source, "-o", program, f"-L{LIB}", "-ltegula", f"-Wl,-rpath,{LIB}"], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    return program


@pytest.mark.parametrize("compiler", COMPILERS)
def test_twins(compiler, tmp_path):
    program = build(compiler, TWINS / "twins.cpp", tmp_path)
    p = subprocess.run([program, TWINS / "kernels.py", TWINS / "structs.py"], capture_output=True, text=True, env={**os.environ, "TEGULA_CACHE_DIR": ""})
    assert p.returncode == 0, p.stdout + p.stderr
    assert p.stdout.count(": same\n") > 28
