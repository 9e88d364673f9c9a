"""Loops over k in shallow tiles: CPUs do several rounds as one (JoinRounds.h)."""
import re

import pytest

np = pytest.importorskip("numpy")

KERNEL = '''
import tegula, tegula.language as tl
@tegula.jit
def k(x, w, out, M, N, K, FORM: tl.constexpr, BK: tl.constexpr):
    m, n, j = tl.program_id(0) * 32 + tl.arange(0, 32), tl.program_id(1) * 64 + tl.arange(0, 64), tl.arange(0, BK)
    acc = tl.zeros((32, 64), tl.float16 if FORM == "half" else tl.float32)
    other = 1.0 if FORM == "ones" else 0.0
    px, pw = x + (m % M)[:, None] * K + j[None, :], w + j[:, None] * N + n[None, :]
    inner = n[None, :] < N
    if FORM == "transposed":
        pw = w + n[:, None] * K + j[None, :]
        inner = n[:, None] < N
    at = 0
    for s in range(0, K if FORM != "count" else tl.cdiv(K, BK), BK if FORM != "count" else 1):
        left = K - (s * BK if FORM == "count" else s)
        if FORM == "descriptor":
            a = tl.make_tensor_descriptor(x, [M, K], [K, 1], [32, BK]).load([tl.program_id(0) * 32, s])
            b = tl.make_tensor_descriptor(w, [K, N], [N, 1], [BK, 64]).load([s, tl.program_id(1) * 64])
        elif FORM == "transposed":
            a = tl.load(px, mask=j[None, :] < left, other=other)
            b = tl.load(pw, mask=(j[None, :] < left) & inner, other=other).T
            pw += BK
        else:
            a = tl.load(px, mask=j[None, :] < left, other=other)
            b = tl.load(pw + at * N if FORM == "offset" else pw, mask=(j[:, None] < left) & inner, other=other)
            if FORM != "offset":
                pw += BK * N
        px += BK
        at += BK
        if FORM == "scaled":
            acc = tl.dot(a, b * 2.0, acc, input_precision="ieee")
        elif FORM == "half":
            acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=tl.float16)
        else:
            acc = tl.dot(a, b, acc, input_precision="ieee")
        if FORM == "stored":
            tl.store(out + tl.arange(0, 32), 0.0)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
'''
SIGNATURE = "x:*{0}:16, w:*{0}:16, out:*f32:16, M:i32, N:i32:16, K:i32:16"
JOINED = ["bound", "count", "transposed", "offset", "descriptor"]


def plan(tegula, tmp_path, form, depth, target, elem="f32"):
    (tmp_path / "t.py").write_text(KERNEL)
    p = tegula("compile", "t.py::k", "--sig", SIGNATURE.format(elem), "-c", f"FORM='{form}'", "-c", f"BK={depth}", "-t", target, "--emit", "cpu")
    assert p.returncode == 0, p.stderr
    return p.stdout


@pytest.mark.parametrize("form", JOINED)
@pytest.mark.parametrize("depth", [16, 64])
@pytest.mark.parametrize("target, panel", [("cpu:avx2", 256), ("cpu:avx512", 128)])
def test_shallow_rounds_are_joined_to_a_panel(tegula, tmp_path, form, depth, target, panel):
    """As deep as a panel of the target's first cache, the left operand still where it lies; the loops end with the k that are left."""
    [dot] = re.findall(r"dot buffers .*", plan(tegula, tmp_path, form, depth, target))
    assert f"B by panels of {panel} rows" in dot and "A where it lies" in dot and "as far as operands are not zero" in dot, dot


def test_sums_of_half_precision_are_joined_as_floats(tegula, tmp_path):
    """The loop carries them as float32 (AccumulateDots), so no round rounds them."""
    [dot] = re.findall(r"dot buffers .*", plan(tegula, tmp_path, "half", 32, "cpu:avx2", "f16"))
    assert "panels of 256 rows" in dot, dot


@pytest.mark.parametrize("form, elem", [("scaled", "f32"), ("stored", "f32"), ("ones", "f32")])
def test_other_loops_keep_their_rounds(tegula, tmp_path, form, elem):
    """What is masked off would not be zero, or something else happens there."""
    [dot] = re.findall(r"dot buffers .*", plan(tegula, tmp_path, form, 32, "cpu:avx2", elem))
    assert "panels of 32 rows" in dot, dot


def test_deep_tiles_stay(tegula, tmp_path):
    assert "panels of 256 rows" in plan(tegula, tmp_path, "bound", 256, "cpu:avx2")


@pytest.mark.parametrize("form", JOINED)
@pytest.mark.parametrize("target", ["cpu", "cpu:avx2", "cpu:x86-64"])
def test_ends_of_the_matrix(tegula, tmp_path, form, target):
    """One round or less, several, and a part of the last one; integers, so that any order of sums is exact."""
    (tmp_path / "t.py").write_text(KERNEL)
    for m, n, k in [(33, 80, 16), (5, 64, 4), (64, 112, 300), (40, 96, 2064)]:
        rng = np.random.default_rng(k)
        x, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n)))
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "w.npy", w.T.copy() if form == "transposed" else w)
        p = tegula("run", "t.py::k", "--grid", "cdiv(M, 32), cdiv(N, 64)", "-a", "x=@x.npy", "-a", "w=@w.npy", "-a", f"out=zeros:f32[{m},{n}]", "-a", f"M={m}", "-a", f"N={n}", "-a", f"K={k}",
                   "-c", f"FORM='{form}'", "-c", "BK=16", "-d", "cpu", "--save", "out=o.npy", env={"TEGULA_CPU_TARGET": target})
        assert p.returncode == 0, p.stderr
        assert np.array_equal(np.load(tmp_path / "o.npy"), x @ w), (m, n, k)


APART = KERNEL.replace("tl.arange(0, BK)\n", "tl.program_id(2) * BK + tl.arange(0, BK)\n").replace("BK if FORM", "BK * 3 if FORM").replace("px += BK", "px += BK * 3").replace("pw += BK * N", "pw += BK * N * 3")


def test_rounds_that_lie_apart_end_with_the_matrix(tegula, tmp_path):
    """As those of a product in three parts of k: so many whole rounds are inside, and so many k of the next."""
    (tmp_path / "t.py").write_text(APART)
    p = tegula("compile", "t.py::k", "--sig", SIGNATURE.format("f32"), "-c", "FORM='bound'", "-c", "BK=32", "-t", "cpu:avx2", "--emit", "llvm")
    assert p.returncode == 0 and re.search(r"udiv i\d+ %\w+, 96\n", p.stdout), p.stdout + p.stderr
