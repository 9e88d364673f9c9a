"""Dots of which one row is stored: CPUs add up products (OneRow.h)."""
import pytest

np = pytest.importorskip("numpy")

KERNEL = '''
import tegula, tegula.language as tl
@tegula.jit
def k(x, w, v, out, M, N, K, FORM: tl.constexpr, BK: tl.constexpr):
    m, n, j = tl.program_id(1) * 16 + tl.arange(0, 16), tl.program_id(0) * 32 + tl.arange(0, 32), tl.arange(0, BK)
    acc = tl.full((16, 32), 2.0 if FORM == "begun" else 0.0, tl.float32)
    more = tl.zeros((16, 32), tl.float32)
    ones = tl.zeros((16, BK), x.dtype.element_ty) + 1.0
    rows = m % M if FORM == "wraps" else m
    for s in range(0, K, BK):
        inside = j[None, :] < K - s
        a = tl.load(x + rows[:, None] * K + s + j[None, :], mask=inside if FORM == "wraps" else inside & (m[:, None] < M), other=0.0)
        if FORM == "transposed":
            b = tl.load(w + (s + j)[:, None] + n[None, :] * K, mask=(j[:, None] < K - s) & (n[None, :] < N), other=0.0)
        elif FORM == "turned":
            b = tl.trans(tl.load(w + (s + j)[None, :] + n[:, None] * K, mask=(j[None, :] < K - s) & (n[:, None] < N), other=0.0))
        else:
            b = tl.load(w + (s + j)[:, None] * N + n[None, :], mask=(j[:, None] < K - s) & (n[None, :] < N), other=0.0)
        if FORM == "scaled":
            a = (a * 2).to(a.dtype)
        if FORM == "loaded":
            a = tl.load(x + tl.load(v + rows, mask=m < M, other=0)[:, None] * K + s + j[None, :], mask=inside & (m[:, None] < M), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32" if FORM == "tf32" else "ieee")
        if FORM == "two":
            more = tl.dot(ones.to(b.dtype), b, more, input_precision="ieee")
    if FORM == "two":
        acc += more
    if FORM == "columns":
        acc += tl.sum(acc, 0)[None, :]
    elif FORM == "atomic":
        tl.atomic_add(out + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
    if FORM != "atomic":
        tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m[:, None] <= M - 1 if FORM == "at most" else m[:, None] < M) & (n[None, :] < N))
'''
SUMMED = ["masks", "wraps", "transposed", "turned", "begun", "scaled", "two", "at most", "loaded", "atomic"]


def plan(tegula, tmp_path, form, rows="1", elem="f32", target="cpu:avx2"):
    (tmp_path / "t.py").write_text(KERNEL)
    p = tegula("compile", "t.py::k", "--sig", f"x:*{elem}:16, w:*{elem}:16, v:*i32:16, out:*f32:16, M:{rows}, N:i32:16, K:i32:16", "-c", f"FORM='{form}'", "-c", "BK=64", "-t", target, "--emit", "cpu")
    assert p.returncode == 0, p.stderr
    return p.stdout


@pytest.mark.parametrize("form", SUMMED)
@pytest.mark.parametrize("elem", ["f32", "bf16"])
def test_a_dot_for_one_row_is_a_sum(tegula, tmp_path, form, elem):
    text = plan(tegula, tmp_path, form, elem=elem, target="cpu:avx512")
    assert "dot buffers" not in text, text


def test_rows_of_weights_are_read_from_end_to_end(tegula, tmp_path):
    """The loop over k is done for one row of a turned tile after the other."""
    assert "for each row of the tile" in plan(tegula, tmp_path, "transposed")


def test_short_pieces_of_rows_stay_a_dot(tegula, tmp_path):
    """Four vectors of sums are one line of bf16 with AVX2, unless rows lie along k."""
    assert ["dot buffers" in plan(tegula, tmp_path, form, elem=elem) for form, elem in (("masks", "bf16"), ("masks", "f32"), ("transposed", "bf16"))] == [True, False, False]


@pytest.mark.parametrize("form, rows", [("masks", "i32"), ("masks", "2"), ("columns", "1"), ("tf32", "1")])
def test_other_dots_stay(tegula, tmp_path, form, rows):
    """More rows may be stored, somebody looks at all of them, or operands are cut to ten bits."""
    assert "dot buffers" in plan(tegula, tmp_path, form, rows)


@pytest.mark.parametrize("form", SUMMED + ["columns"])
@pytest.mark.parametrize("target", ["cpu", "cpu:avx2", "cpu:x86-64"])
def test_sums_are_those_of_the_dot(tegula, tmp_path, form, target):
    """Integers, so that any order of sums is exact. Programs of further rows store nothing."""
    (tmp_path / "t.py").write_text(KERNEL)
    for n, k in [(64, 64), (80, 272), (48, 16)]:
        rng = np.random.default_rng(k)
        x, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((1, k), (k, n)))
        want = x @ w * (2 if form == "scaled" else 1) + (2 if form == "begun" else 0) + (w.sum(0) if form == "two" else 0)
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "w.npy", w.T.copy() if form in ("transposed", "turned") else w)
        p = tegula("run", "t.py::k", "--grid", "cdiv(N, 32), 2", "-a", "x=@x.npy", "-a", "w=@w.npy", "-a", "v=zeros:i32[16]", "-a", f"out=zeros:f32[4,{n}]", "-a", "M=1", "-a", f"N={n}", "-a", f"K={k}",
                   "-c", f"FORM='{form}'", "-c", "BK=64", "-d", "cpu", "--save", "out=o.npy", env={"TEGULA_CPU_TARGET": target})
        assert p.returncode == 0, p.stderr
        got = np.load(tmp_path / "o.npy")
        assert np.array_equal(got[0], want[0] * (2 if form == "columns" else 1)) and not got[1:].any(), (n, k)


SMALL = '''
import tegula, tegula.language as tl
@tegula.jit
def k(x, y, FORM: tl.constexpr):
    i = tl.arange(0, 1024)
    v = tl.load(x + i)
    if FORM == "nibbles":
        v = (v >> (i % 8) * 4 & 15) - (v >> 28 & 15)
    elif FORM == "product":
        v = (v & 15) * (i & 31)
    tl.store(y + i, v.to(tl.bfloat16))
'''


@pytest.mark.parametrize("elem, form, rounds", [("i8", "", False), ("u8", "", False), ("i16", "", True), ("i32", "nibbles", False), ("i32", "product", True)])
def test_small_numbers_are_bf16_without_rounding(tegula, tmp_path, elem, form, rounds):
    """Numbers of eight bits and less, weights, are numbers of bf16; others are rounded by adding 32767."""
    (tmp_path / "c.py").write_text(SMALL)
    p = tegula("compile", "c.py::k", "--sig", f"x:*{elem}:16, y:*bf16:16", "-c", f"FORM='{form}'", "-t", "cpu:avx2", "--emit", "llvm")
    assert p.returncode == 0 and ("32767" in p.stdout) == rounds, p.stdout
    values = np.arange(1024, dtype=np.int64).astype({"i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32}[elem]) * (0x01234567 if elem == "i32" else 1)
    np.save(tmp_path / "x.npy", values)
    p = tegula("run", "c.py::k", "--grid", "1", "-a", "x=@x.npy", "-a", "y=zeros:bf16[1024]", "-c", f"FORM='{form}'", "-d", "cpu", "--save", "y=y.npy")
    assert p.returncode == 0, p.stderr
    i = np.arange(1024)
    want = values.astype(np.int64)
    want = (want >> i % 8 * 4 & 15) - (want >> 28 & 15) if form == "nibbles" else (want & 15) * (i & 31) if form == "product" else want
    got = np.load(tmp_path / "y.npy")
    got = (got.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(got[np.abs(want) <= 256], want[np.abs(want) <= 256])
