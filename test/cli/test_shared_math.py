"""Elementary functions that CPUs compute in functions of the module, which leave rare arguments to others."""
import re

import pytest

SOURCE = """
import tegula
import tegula.language as tl


@tegula.jit
def k(x, y, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(y + o, tl.{}(tl.load(x + o)))
"""


def usual_and_rare(tegula, tmp_path, function, target):
    (tmp_path / "k.py").write_text(SOURCE.format(function))
    r = tegula("compile", "k.py::k", "--sig", "x:*f32:16, y:*f32:16", "-c", "BLOCK=1024", "-t", target, "--emit", "llvm")
    assert r.returncode == 0, r.stderr
    body = re.search(rf"define internal [^\n]*@tegula\.{function}\.f32x\d+\(.*?\n}}", r.stdout, re.S)[0]
    return body.split("\nrare:")


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("function", ["sin", "cos"])
def test_small_angles_are_reduced_as_floats(tegula, tmp_path, function, target):
    usual, rare = usual_and_rare(tegula, tmp_path, function, target)
    assert "double" not in usual and "call " in rare and f"@tegula.{function}.large." in rare


@pytest.mark.parametrize("function", ["log", "log2"])
def test_logarithms_of_usual_numbers_choose_nothing(tegula, tmp_path, function):
    usual, rare = usual_and_rare(tegula, tmp_path, function, "cpu:avx2")
    assert usual.count(" icmp ") == 1 and " fcmp " not in usual and f"@tegula.{function}.any." in rare
