"""Offsets clamped by a selection are read as vectors on CPUs where a tile is inside of the bound."""
import pytest

SOURCE = '''
import tegula
import tegula.language as tl


@tegula.jit
def k(x, out, n, stride, FORM: tl.constexpr):
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    if FORM == "below":
        i = tl.where(i < n, i, 0)
    elif FORM == "above":
        i = tl.where(n > i, i, 0)
    elif FORM == "one":
        i = tl.where(i < n, i, 1)
    else:
        i = tl.where(i < n, i + 1, 0)
    j = tl.arange(0, 64)
    tl.store(out + j[:, None] * 64 + j[None, :], tl.load(x + j[:, None] * stride + i[None, :]))
'''


@pytest.mark.parametrize("form, vectors", [("below", True), ("above", True), ("one", False), ("other", False)])
def test_clamped_offsets_are_linear(tegula, tmp_path, form, vectors):
    (tmp_path / "t.py").write_text(SOURCE)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, n:i32, stride:i32", "-c", f"FORM='{form}'", "-t", "cpu:avx2", "--remarks", "-o", "t.o")
    assert p.returncode == 0, p.stderr
    assert ("[oneByOne]" not in p.stdout + p.stderr) == vectors, p.stderr
