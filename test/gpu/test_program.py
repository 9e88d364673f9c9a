"""Kernels that libnvJitLink makes worse code of are assembled by ptxas as a program, if one is there whose code a driver can load (runtime/cuda/AssemblerProgram.h)."""
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import registers

FAKE = registers.ROOT / "build/lib/libfakecuda.so"
PROGRAM = r"""#!/bin/sh
echo "$*" >> {log}
{then}
"""
ASSEMBLES = r"""for out; do :; done; printf '\177ELF' > "$out"; echo "ptxas info    : Used 77 registers" """


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """A function: registers of a row of registers.py, or what is said where it is not assembled, and the calls of a program that does `then`."""
    if registers.assembler() == "none":
        pytest.skip("needs libnvJitLink")

    def run(name, then, driver="/nonexistent"):
        program, log = tmp_path / "ptxas", tmp_path / "log"
        program.write_text(PROGRAM.format(log=log, then=then))
        program.chmod(0o755)
        monkeypatch.setitem(registers.ENVIRONMENT, "TEGULA_PTXAS", str(program))
        monkeypatch.setitem(registers.ENVIRONMENT, "TEGULA_LIBCUDA", str(driver))
        assert str(program) in registers.assembler(), "a part of the key of caches"
        numbers = registers.measure(next(r for r in registers.rows() if r[0] == name), "sm_90a")
        return numbers["registers"] if isinstance(numbers, dict) else numbers, log.read_text().splitlines() if log.exists() else []

    return run


def test_kernels_with_setmaxnreg(taken):
    used, calls = taken("attention 128", ASSEMBLES)
    assert used == 77 and len(calls) == 1
    assert re.fullmatch(r"-v -arch=sm_90a -O3 /proc/self/fd/\d+ -o /proc/self/fd/\d+", calls[0].replace(" -lineinfo", ""))


def test_a_driver_that_can_load_them(taken, monkeypatch):
    """Driver (12.8) and library (12.9) are fake. The program is asked for its version by the process that compiles, once."""
    assert FAKE.exists(), "build the target fakecuda"
    monkeypatch.setitem(registers.ENVIRONMENT, "TEGULA_NVJITLINK", str(FAKE.with_name("libfakejitlink.so")))
    used, calls = taken("attention 128", f'[ "$1" = --version ] && echo "release 12.8, V12.8.93" && exit\n{ASSEMBLES}', FAKE)
    assert used == 77 and calls[0] == "--version" and len(calls) == 2
    used, calls = taken("attention 128", f'[ "$1" = --version ] && echo "release 13.0, V13.0.1" && exit\n{ASSEMBLES}', FAKE)
    assert "known once the code was assembled" in used and calls[2:] == ["--version"], "newer than the driver, which is left to do it"


def test_no_others(taken):
    used, calls = taken("add", ASSEMBLES)
    assert used != 77 and not calls


def test_the_library_does_what_a_program_fails_at(taken):
    used, calls = taken("attention 128", "exit 1")
    assert used > 77 and calls
