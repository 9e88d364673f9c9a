"""What CPU kernels fetch ahead."""
import re
import pytest

AHEAD = '''
import tegula
import tegula.language as tl


@tegula.jit
def k(x, y, M, N, C: tl.constexpr, FORM: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, C)
    if FORM == "row":
        a = tl.load(x + row * N + c, mask=c < N, other=-float("inf"))
        e = tl.exp(a - tl.max(a, 0))
        tl.store(y + row * N + c, e / tl.sum(e, 0), mask=c < N)
    elif FORM == "rows":
        for r in range(row, M, tl.num_programs(0)):
            a = tl.load(x + r * N + c, mask=c < N, other=-float("inf"))
            e = tl.exp(a - tl.max(a, 0))
            tl.store(y + r * N + c, e / tl.sum(e, 0), mask=c < N)
    elif FORM == "pieces":
        x += row * N
        total = tl.zeros((C,), tl.float32)
        for s in range(0, N, C):
            total += tl.load(x + s + c, mask=s + c < N, other=0.0)
        mean = tl.sum(total, 0) / N
        squares = tl.zeros((C,), tl.float32)
        for s in range(0, N, C):
            a = tl.load(x + s + c, mask=s + c < N, other=0.0) - mean
            squares += a * a
        rstd = tl.rsqrt(tl.sum(squares, 0) / N)
        for s in range(0, N, C):
            tl.store(y + row * N + s + c, (tl.load(x + s + c, mask=s + c < N) - mean) * rstd, mask=s + c < N)
    elif FORM == "squares":
        a = tl.load(x + row * N + c, mask=c < N, other=0.0)
        a -= tl.sum(a, 0) / N
        tl.store(y + row * N + c, a * tl.rsqrt(tl.sum(a * a, 0) / N), mask=c < N)
    elif FORM == "once":
        tl.store(y + row, tl.sum(tl.load(x + row * N + c, mask=c < N, other=0.0), 0))
    else:
        a = tl.load(x + row * N + c, mask=c < N, other=0.0)
        tl.store(x + row * N + c, a * tl.sum(a, 0), mask=c < N)
'''


def test_squares_are_no_time_to_fetch(tegula, tmp_path):
    """The pass that only squares does not fetch: the last one does, which streams."""
    (tmp_path / "t.py").write_text(AHEAD)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, y:*f32:16, M:i32, N:i32", "-c", "FORM='squares'", "-c", "C=1024", "-t", "cpu:avx2", "--emit", "cpu")
    assert p.returncode == 0, p.stderr
    nests = re.split(r"\n *nest ", p.stdout)
    assert [i for i, n in enumerate(nests) if "\n    ahead" in n or " ahead %" in n] == [len(nests) - 1], p.stdout


@pytest.mark.parametrize("form, where, fetches", [("row", "", 1), ("rows", " of the next round", 1), ("pieces", "", 1), ("once", "", 0), ("in place", "", 0)])
def test_rows_are_fetched_while_the_one_before_comes_from_caches(tegula, tmp_path, form, where, fetches):
    """By the second nest that walks a row; by none where that stores into the memory that is read."""
    (tmp_path / "t.py").write_text(AHEAD)
    args = ["compile", "t.py::k", "--sig", "x:*f32:16, y:*f32:16, M:i32, N:i32", "-c", f"FORM='{form}'", "-c", "C=1024", "-t", "cpu:avx2", "--emit"]
    p = tegula(*args, "cpu")
    assert p.returncode == 0, p.stderr
    assert re.findall(r"\n *ahead %\S+ = load [^:\n]*: tensor<1024xf32>(.*)", p.stdout) == [where] * fetches, p.stdout
    p = tegula(*args, "llvm")
    assert ("call void @llvm.prefetch" in p.stdout) == bool(fetches), p.stdout
