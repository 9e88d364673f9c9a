"""Registers and spills of the benchmark's kernels do not get worse (registers.txt; registers.py --record after a change that is meant)."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import registers

ASSEMBLER, TABLE = registers.recorded()


@pytest.fixture(scope="session")
def assembler():
    now = registers.assembler()
    assert now != "none", "install scripts/requirements.txt: it brings the assembler"
    if now != ASSEMBLER:
        pytest.skip(f"recorded with {ASSEMBLER}, this is {now}")


@pytest.mark.parametrize("row, target", registers.CASES, ids=[f"{row[0].replace(' ', '-')}-{target}" for row, target in registers.CASES])
def test_not_worse(assembler, row, target):
    assert (row[0], target) in TABLE, "not recorded: run test/gpu/registers.py --record"
    assert not registers.complaint(TABLE[row[0], target], registers.measure(row, target))


def test_nothing_else_is_recorded():
    assert set(TABLE) == {(row[0], target) for row, target in registers.CASES}


def test_complaints():
    was = {"registers": 100, "spills": 0, "shared": 0}
    assert registers.complaint(was, dict(was, registers=108)) == ""
    assert "takes 109 registers, recorded are 100" in registers.complaint(was, dict(was, registers=109))
    assert "spills 4 bytes" in registers.complaint(was, dict(was, registers=80, spills=4))
    assert "does not compile" in registers.complaint(was, "error") and registers.complaint(None, "error") == ""
