"""tegula compile: what CPUs make of loops that carry tiles of sums."""
import re

import pytest


ROWS = '''
import tegula, tegula.language as tl
@tegula.jit
def k(x, v, y, N, FORM: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * 8 + tl.arange(0, 8)
    acc = tl.zeros((8, C), tl.float32)
    best = 0.0
    for s in range(0, N, C):
        c = s + tl.arange(0, C)
        if FORM == "columns":
            acc += tl.load(x + (s + tl.arange(0, 8))[:, None] * N + tl.arange(0, C)[None, :])
        elif FORM == "apart":
            acc += tl.load(x + r[:, None] * N + 2 * c[None, :])
        else:
            acc += tl.load(x + r[:, None] * N + c[None, :])
        if FORM == "vector":
            acc *= tl.load(v + c)[None, :]
        if FORM == "stored":
            tl.store(v + c, 0.0)
        if FORM == "reduced":
            best = tl.maximum(best, tl.max(tl.max(acc, 1), 0))
        if FORM == "turned" and C == 8:
            acc = acc.T
    tl.store(y + r, tl.sum(acc, 1) + best)
'''


@pytest.mark.parametrize("form, columns, each", [("sum", 64, True), ("vector", 64, True), ("sum", 1024, True), ("sum", 2048, False), ("columns", 64, False), ("apart", 64, False), ("stored", 64, False),
                                                 ("reduced", 64, False), ("turned", 8, False)])
def test_loops_accumulate_row_by_row(tegula, tmp_path, form, columns, each):
    """Where all they do is to add short pieces of rows, each next to the one before."""
    (tmp_path / "t.py").write_text(ROWS)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, v:*f32:16, y:*f32:16, N:i32", "-c", f"FORM='{form}'", "-c", f"C={columns}", "-t", "cpu:avx2", "--emit", "cpu")
    assert p.returncode == 0 and ("for each row of the tile" in p.stdout) == each, p.stdout + p.stderr


TOTALS = '''
import tegula, tegula.language as tl
@tegula.jit
def k(x, y, z, N, FORM: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    acc = tl.zeros((R, C), tl.float16 if FORM == "half" else tl.float32)
    for s in range(0, N, C):
        m = (s + c < N)[None, :]
        v = tl.load(x + r[:, None] * N + s + c[None, :], mask=m, other=0.0)
        if FORM == "half":
            acc += v.to(tl.float16)
        elif FORM == "maximum":
            acc = tl.maximum(acc, v)
        elif FORM == "product":
            acc *= v
        elif FORM == "selected":
            acc = tl.where(m, acc + v, acc)
        elif FORM == "nested":
            for t in range(N):
                acc += v * t
        elif FORM == "scaled":
            acc = acc * 0.5 + v
        else:
            acc += v
        if FORM == "looked at":
            tl.store(z + s, tl.max(tl.max(acc, 1), 0))
    if FORM == "stored":
        tl.store(z + r[:, None] * C + c[None, :], acc)
    if FORM == "all":
        tl.store(y, tl.sum(acc))
    elif FORM == "columns":
        tl.store(y + c, tl.sum(acc, 0))
    elif FORM == "maximum":
        tl.store(y + r, tl.max(acc, 1))
    else:
        tl.store(y + r, tl.sum(acc, 1).to(tl.float32))
'''


@pytest.mark.parametrize("form, shape, target, carried", [
    ("sum", (4, 1024), "cpu:avx512", "4"), ("sum", (4, 128), "cpu:avx512", None), ("sum", (4, 128), "cpu:avx2", "4"), ("sum", (4, 64), "cpu:avx2", None), ("selected", (4, 1024), "cpu:avx2", "4"),
    ("nested", (4, 1024), "cpu:avx2", "4"), ("maximum", (4, 1024), "cpu:avx2", "4"), ("columns", (16, 32), "cpu:avx2", "32"), ("columns", (16, 32), "cpu:avx512", "32"), ("all", (4, 1024), "cpu:avx2", "4"),
    ("half", (4, 1024), "cpu:avx2", None), ("product", (4, 1024), "cpu:avx2", None), ("scaled", (4, 1024), "cpu:avx2", None), ("looked at", (4, 1024), "cpu:avx2", None), ("stored", (4, 1024), "cpu:avx2", None)])
def test_tiles_that_are_reduced_behind_a_loop_are_carried_reduced(tegula, tmp_path, form, shape, target, carried):
    """Where nobody sees more of them, unless a row fits into registers: what it carries is `carried`, None: the tile."""
    (tmp_path / "t.py").write_text(TOTALS)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, y:*f32:16, z:*f32:16, N:i32", "-c", f"FORM='{form}'", "-c", f"R={shape[0]}", "-c", f"C={shape[1]}", "-t", target, "--emit", "cpu")
    assert p.returncode == 0, p.stderr
    loops = re.findall(r" = for .*? : tensor<([\dx]+)xf\d\d>", p.stdout)
    assert loops and set(loops) == {carried or f"{shape[0]}x{shape[1]}"}, p.stdout
    assert ("into buffer" in p.stdout) == (carried is not None)
    if carried:
        assert ("for each row of the tile" in p.stdout) == (form in ("sum", "selected", "maximum", "all")), p.stdout


@pytest.mark.parametrize("columns, target, kept", [(8, "cpu:avx2", True), (32, "cpu:avx2", True), (64, "cpu:avx2", True), (128, "cpu:avx2", False), (32, "cpu:avx512", True), (128, "cpu:avx512", True)])
def test_sums_of_a_row_stay_in_registers(tegula, tmp_path, columns, target, kept):
    """Up to eight vectors: the loop adds what it loads and stores nothing."""
    (tmp_path / "t.py").write_text(ROWS)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, v:*f32:16, y:*f32:16, N:i32", "-c", "FORM='sum'", "-c", f"C={columns}", "-t", target, "--emit", "llvm")
    assert p.returncode == 0, p.stderr
    lines = p.stdout.split("\n")
    begin = next(i for i, l in enumerate(lines) if l.startswith("for:"))
    end = next(i for i, l in enumerate(lines) if i > begin and "load volatile" in l)  # asks whether the launch was cancelled
    loop = "\n".join(lines[begin:end])
    assert "fadd" in loop and ("store" not in loop) == kept, loop


BESIDE = '''
import tegula, tegula.language as tl
@tegula.jit
def k(x, y, M, N, FORM: tl.constexpr):
    r, c = tl.arange(0, 32), tl.arange(0, 512)
    m = (r < M)[:, None] if FORM == "rows" else (c < N)[None, :] if FORM == "columns" else (r % 3 < M)[:, None]
    v = tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0.0)
    if FORM == "columns":
        tl.store(y + c, tl.sum(v, 0))
    else:
        tl.store(y + r, tl.sum(v, 1))
'''


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("form, ends", [("rows", True), ("columns", True), ("scattered", False)])
def test_masks_that_do_not_change_along_a_loop_end_it(tegula, tmp_path, target, form, ends):
    """Rows or columns of a tile that are masked off as a whole are not walked along."""
    (tmp_path / "t.py").write_text(BESIDE)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, y:*f32:16, M:i32, N:i32", "-c", f"FORM='{form}'", "-t", target, "--emit", "llvm")
    assert p.returncode == 0 and (re.search(r"%ends\S* = icmp", p.stdout) is not None) == ends, p.stdout + p.stderr


WHOLE = '''
import tegula, tegula.language as tl
@tegula.jit
def k(x, y, N, FORM: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=(r[:, None] < N) & (c[None, :] < N), other=0.0)
    if FORM == "all":
        tl.store(y, tl.sum(v))
    elif FORM == "rows":
        tl.store(y, tl.max(tl.max(v, 1), 0))
    elif FORM == "columns":
        tl.store(y, tl.sum(tl.sum(v, 0), 0))
    elif FORM == "mixed":
        tl.store(y, tl.max(tl.sum(v, 1), 0))
    elif FORM == "half":
        tl.store(y, tl.sum(v.to(tl.float16)))
    elif FORM == "boxes":
        tl.store(y, tl.sum(tl.sum(tl.sum(v.reshape(R // 4, 4, C), 2), 1), 0))
'''


@pytest.mark.parametrize("form, rows, columns, first", [("all", 32, 64, True), ("rows", 32, 64, True), ("columns", 32, 64, True), ("boxes", 32, 64, True), ("mixed", 32, 64, False), ("half", 32, 64, False), ("all", 1, 1024, False), ("all", 256, 4, False)])
def test_whole_tiles_are_reduced_along_their_columns_first(tegula, tmp_path, form, rows, columns, first):
    """If the operation is one, in any order, and a row is a vector at least."""
    (tmp_path / "t.py").write_text(WHOLE)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, y:*f32:16, N:i32", "-c", f"FORM='{form}'", "-c", f"R={rows}", "-c", f"C={columns}", "-t", "cpu:avx2", "--emit", "cpu")
    assert p.returncode == 0, p.stderr
    nests = re.findall(r"^  nest ([\dx]+) axis (\d)", p.stdout, re.M)
    shape = f"{rows}x{columns}" if form != "boxes" else f"{rows // 4}x4x{columns}"
    assert (nests[0] == (shape, "0") and len(nests) == shape.count("x") + 1) == first, nests


TIMES_VECTOR = '''
import tegula, tegula.language as tl
@tegula.jit
def k(a, x, y, M, N, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    acc = tl.zeros((R, C), tl.float32)
    for s in range(0, N, C):
        c = s + tl.arange(0, C)
        acc += tl.load(a + r[:, None] * N + c[None, :], mask=(r[:, None] < M) & (c[None, :] < N), other=0.0) * tl.load(x + c, mask=c < N, other=0.0)[None, :]
    tl.store(y + r, tl.sum(acc, 1), mask=r < M)
'''


@pytest.mark.parametrize("target, masked", [("cpu:avx2", "maskload"), ("cpu:avx512", "llvm.masked.load")])
def test_what_rows_have_in_common_is_under_the_masks_of_the_round(tegula, tmp_path, target, masked):
    """The vector is loaded in each of the two versions, and in neither in front of them, where no mask is known to be true."""
    (tmp_path / "t.py").write_text(TIMES_VECTOR)
    p = tegula("compile", "t.py::k", "--sig", "a:*f32:16, x:*f32:16, y:*f32:16, M:i32, N:i32", "-c", "R=16", "-c", "C=64", "-t", target, "--emit", "llvm")
    assert p.returncode == 0, p.stderr
    front = re.search(r"\nfor:.*?br i1 [^\n]*%inside", p.stdout, re.S)[0]
    assert masked in p.stdout and masked not in front
