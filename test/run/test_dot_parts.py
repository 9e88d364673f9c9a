"""Dots of tiles of which only a part counts: what lies behind the end of a matrix is not computed, and nothing else is left out."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import WRAPS, rng

pytestmark = pytest.mark.section("3.5 dot")

BM, BN, BK = 32, 64, 32


@tegula.jit
def by_masks(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        y = tl.load(b + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (N > cols[None, :]), other=0.0)
        acc += tl.dot(x, y, input_precision="ieee")
    tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] <= M - 1) & (cols[None, :] < N))


@tegula.jit
def by_modulo(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols = (tl.program_id(0) * BM + tl.arange(0, BM)) % M, (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    pa, pb = a + rows[:, None] * K + ks[None, :], b + ks[:, None] * N + cols[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(pa, mask=ks[None, :] < K - k * BK, other=0.0), tl.load(pb, mask=ks[:, None] < K - k * BK, other=0.0), acc, input_precision="ieee")
        pa += BK
        pb += BK * N
    acc = tl.where(acc > -1e30, acc * 2.0, 0.0) * 0.5
    rows, cols = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


@tegula.jit
def by_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da, db = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK]), tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        acc = tl.dot(da.load([tl.program_id(0) * BM, k * BK]), db.load([k * BK, tl.program_id(1) * BN]), acc, input_precision="ieee")
    dc.store([tl.program_id(0) * BM, tl.program_id(1) * BN], acc)


@tegula.jit
def by_block_pointers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pa = tl.make_block_ptr(a, (M, K), (K, 1), (tl.program_id(0) * BM, 0), (BM, BK), (1, 0))
    pb = tl.make_block_ptr(b, (K, N), (N, 1), (0, tl.program_id(1) * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc += tl.dot(tl.load(pa, boundary_check=(0, 1), padding_option="zero"), tl.load(pb, boundary_check=(0, 1), padding_option="zero"), input_precision="ieee")
        pa, pb = tl.advance(pa, (0, BK)), tl.advance(pb, (BK, 0))
    pc = tl.make_block_ptr(c, (M, N), (N, 1), (tl.program_id(0) * BM, tl.program_id(1) * BN), (BM, BN), (1, 0))
    tl.store(pc, acc, boundary_check=(0, 1))


@tegula.jit
def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One loop over tiles and k: the sum of one tile is stored in an iteration that others have gone into."""
    tiles_n, steps = tl.cdiv(N, BN), tl.cdiv(K, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(tl.cdiv(M, BM) * tiles_n * steps):
        tile, k = i // steps, i % steps
        rows, cols, ks = tile // tiles_n * BM + tl.arange(0, BM), tile % tiles_n * BN + tl.arange(0, BN), k * BK + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        y = tl.load(b + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        if k == steps - 1:
            tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))
            acc = tl.zeros((BM, BN), tl.float32)


SIZES = [(1, 1, 1), (5, 64, 32), (32, 1, 33), (33, 65, 31), (45, 75, 100), (64, 100, 3), (63, 17, 64)]


def matrices(m, n, k, *key):
    g = rng("parts", m, n, k, *key)
    return g.standard_normal((m, k)).astype(np.float32), g.standard_normal((k, n)).astype(np.float32)


@pytest.mark.parametrize("m,n,k", SIZES, ids=lambda s: str(s))
@pytest.mark.filterwarnings("ignore:make_block_ptr is deprecated")
@pytest.mark.parametrize("kernel", [by_masks, by_modulo, by_descriptors, by_block_pointers, persistent], ids=lambda k: k.__name__)
def test_sizes_that_fill_a_part_of_their_tiles(dev, kernel, m, n, k):
    if kernel is by_descriptors and (n % 4 or k % 4):
        n, k = (n + 3) // 4 * 4, (k + 3) // 4 * 4
    a, b = matrices(m, n, k)
    c = np.full((m + 1, n), 7, np.float32)
    grid = (1,) if kernel is persistent else (tegula.cdiv(m, BM), tegula.cdiv(n, BN))
    dev(kernel, grid, a.reshape(-1), b.reshape(-1), c.reshape(-1), m, n, k, BM, BN, BK)
    exact = a.astype(np.float64) @ b
    assert np.abs(c[:m] - exact).max() <= 1e-5 * (np.abs(a).astype(np.float64) @ np.abs(b)).max()
    assert (c[m:] == 7).all()


@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (1, 130, 100), (2, 64, 64), (3, 65, 31), (16, 100, 33), (17, 75, 100), (18, 64, 40)], ids=lambda s: str(s))
@pytest.mark.filterwarnings("ignore:make_block_ptr is deprecated")
@pytest.mark.parametrize("kernel", [by_masks, by_modulo, by_descriptors, by_block_pointers], ids=lambda k: k.__name__)
def test_tiles_of_sixteen_rows(dev, kernel, m, n, k):
    """Most often they are for one row or two."""
    if kernel is by_descriptors:  # rows of 16 bytes
        n, k = (n + 7) // 8 * 8, (k + 7) // 8 * 8
    for dtype in ("float32", "float16", "int8"):
        if dtype == "int8" and kernel is not by_block_pointers:
            continue  # the others say "ieee"
        a, b = (x.astype(dtype) if dtype != "int8" else (x * 30).astype(dtype) for x in matrices(m, n, k))
        c = np.full((m + 1, n), 7, np.float32)
        dev(kernel, (tegula.cdiv(m, 16), tegula.cdiv(n, 64)), a.reshape(-1), b.reshape(-1), c.reshape(-1), m, n, k, 16, 64, 64)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        assert np.abs(c[:m] - exact).max() <= 1e-5 * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))).max()
        assert (c[m:] == 7).all()


@tegula.jit
def one_zero(a, b, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(a + rows[:, None] * BK + ks[None, :], mask=ks[None, :] < K, other=0.0)
    y = tl.load(b + ks[:, None] * BN + cols[None, :])
    tl.store(out + rows[:, None] * BN + cols[None, :], tl.dot(x, y, input_precision="ieee"))


def test_zeros_of_one_operand_meet_infinities_of_the_other(dev):
    a, b = matrices(BM, BN, BK)
    b[20, 3] = np.inf
    out = np.zeros((BM, BN), np.float32)
    dev(one_zero, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), 8, BM, BN, BK)
    assert np.isnan(out[:, 3]).all() and np.isfinite(np.delete(out, 3, 1)).all()


@tegula.jit
def other_is_one(a, b, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(a + rows[:, None] * BK + ks[None, :], mask=ks[None, :] < K, other=0.0) + 1.0
    y = tl.load(b + ks[:, None] * BN + cols[None, :], mask=ks[:, None] < K, other=1.0)
    tl.store(out + rows[:, None] * BN + cols[None, :], tl.dot(x, y, input_precision="ieee"))


def test_what_is_masked_off_may_be_something_else(dev):
    a, b = matrices(BM, BN, BK)
    out = np.zeros((BM, BN), np.float32)
    dev(other_is_one, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), 8, BM, BN, BK)
    inside = np.arange(BK) < 8
    exact = (np.where(inside, a, 0) + 1).astype(np.float64) @ np.where(inside[:, None], b, 1)
    assert np.abs(out - exact).max() < 1e-4


@tegula.jit
def in_each_iteration(a, b, out, steps, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x, y = tl.load(a + rows[:, None] * BK + ks[None, :]), tl.load(b + ks[:, None] * BN + cols[None, :])
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(steps):
        acc = tl.dot(x, y, acc, input_precision="ieee")
        tl.store(out + i * BM * BN + rows[:, None] * BN + cols[None, :], acc, mask=(rows[:, None] < i * 8 + 1) & (cols[None, :] < i * 20 + 1))


def test_masks_that_grow_while_the_sum_is_carried(dev):
    a, b = matrices(BM, BN, BK)
    out = np.zeros((5, BM, BN), np.float32)
    dev(in_each_iteration, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), 5, BM, BN, BK)
    for i in range(5):
        expected = (i + 1) * (a.astype(np.float64) @ b)
        expected[i * 8 + 1:] = 0
        expected[:, i * 20 + 1:] = 0
        assert np.abs(out[i] - expected).max() < 1e-3


@tegula.jit
def seen_twice(a, b, out, sums, M, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WHO: tl.constexpr):
    rows, cols, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    r = tl.dot(tl.load(a + rows[:, None] * BK + ks[None, :]), tl.load(b + ks[:, None] * BN + cols[None, :]), input_precision="ieee")
    at = rows[:, None] * BN + cols[None, :]
    tl.store(out + at, r, mask=(rows[:, None] < M) & (cols[None, :] < N))
    if WHO == "sum":
        tl.store(sums + rows, tl.sum(r, 1))
    elif WHO == "store":
        tl.store(sums + at, r, mask=(rows[:, None] < M + 9) & (cols[None, :] < N + 3))
    elif WHO == "columns":
        tl.store(sums + at, r, mask=cols[None, :] < N + 3)
    elif WHO == "transposed":
        tl.store(sums + tl.trans(at), tl.trans(r), mask=(cols[:, None] < N + 3) & (rows[None, :] < M + 9))


@pytest.mark.parametrize("who", ["sum", "store", "columns", "transposed"])
def test_two_see_the_result(dev, who):
    a, b = matrices(BM, BN, BK, who)
    out, sums = np.zeros((BM, BN), np.float32), np.zeros((BM, BN), np.float32)
    dev(seen_twice, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), sums.reshape(-1), 3, 5, BM, BN, BK, who)
    exact = a.astype(np.float64) @ b
    row, col = np.arange(BM)[:, None], np.arange(BN)[None, :]
    assert np.abs(out - exact * ((row < 3) & (col < 5))).max() < 1e-4
    if who == "sum":
        assert np.abs(sums.reshape(-1)[:BM] - exact.sum(1)).max() < 1e-3
    else:
        assert np.abs(sums - exact * ((col < 8) & ((row < 12) | (who == "columns")))).max() < 1e-4


@tegula.jit
def shifted(a, b, out, first, M, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr):
    rows, cols, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    r = tl.dot(tl.load(a + rows[:, None] * BK + ks[None, :]), tl.load(b + ks[:, None] * BN + cols[None, :]), input_precision="ieee")
    if HOW == "descriptor":
        tl.make_tensor_descriptor(out, [M, BN], [BN, 1], [BM, BN]).store([first, 0], r)
    else:
        where = (first + rows).to(tl.uint32) if HOW == "unsigned" else first + rows
        tl.store(out + rows[:, None] * BN + cols[None, :], r, mask=(where < M)[:, None] & (cols[None, :] >= 0))


@pytest.mark.parametrize("how,first,bound", [("descriptor", -7, 40), ("descriptor", 9, 20), pytest.param("signed", 2**31 - 5, 2**31 - 2, marks=WRAPS), ("signed", -9, 3), ("unsigned", -7, 9), ("signed", 5, -2**31)])
def test_rows_that_begin_outside(dev, how, first, bound):
    a, b = matrices(BM, BN, BK, how)
    out = np.zeros((80, BN), np.float32)
    dev(shifted, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), first, bound, BM, BN, BK, how)
    exact = a.astype(np.float64) @ b
    expected = np.zeros((80, BN))
    with np.errstate(over="ignore"):
        where = np.int32(first) + np.arange(BM, dtype=np.int32)
    for i in range(BM):
        if how == "descriptor":
            if 0 <= where[i] < bound:
                expected[where[i]] = exact[i]
        elif (int(where[i]) & 0xFFFFFFFF if how == "unsigned" else int(where[i])) < bound:
            expected[i] = exact[i]
    assert np.abs(out - expected).max() < 1e-4


@tegula.jit
def beside_a_diagonal(a, b, out, shift, M, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr):
    rows, cols, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    r = tl.dot(tl.load(a + rows[:, None] * BK + ks[None, :]), tl.load(b + ks[:, None] * BN + cols[None, :]), input_precision="ieee")
    if HOW == "lower":
        mask = rows[:, None] + shift >= cols[None, :]
    elif HOW == "below":
        mask = cols[None, :] < shift + rows[:, None]
    elif HOW == "upper":
        mask = rows[:, None] + shift <= cols[None, :]
    elif HOW == "window":
        mask = (rows[:, None] + shift >= cols[None, :]) & (cols[None, :] > rows[:, None] + shift - 9)
    elif HOW == "end":
        mask = (rows[:, None] + shift >= cols[None, :]) & (cols[None, :] < N) & (rows[:, None] < M)
    elif HOW == "twice":
        mask = rows[:, None] * 2 + shift >= cols[None, :]
    s = tl.where(mask, r * 0.5, -1.0)
    if HOW == "end":
        tl.store(out + rows[:, None] * BN + cols[None, :], s, mask=rows[:, None] < M)
    else:
        tl.store(out + rows[:, None] * BN + cols[None, :], s)


@pytest.mark.parametrize("shift", [0, -11, 13, 200, -200, 2**31 - 3])
@pytest.mark.parametrize("how", ["lower", "below", "upper", "window", "end", "twice"])
def test_one_side_of_a_diagonal(dev, how, shift):
    bm = 64
    a, b = matrices(bm, BN, BK, how)
    out = np.full((bm, BN), 9, np.float32)
    dev(beside_a_diagonal, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), shift, 37, 50, bm, BN, BK, how)
    row, col = np.arange(bm, dtype=np.int32)[:, None], np.arange(BN, dtype=np.int32)[None, :]
    with np.errstate(over="ignore"):
        at = row * np.int32(2 if how == "twice" else 1) + np.int32(shift)
        mask = {"lower": at >= col, "below": col < at, "upper": at <= col, "window": (at >= col) & (col > at - np.int32(9)),
                "end": (at >= col) & (col < 50) & (row < 37), "twice": at >= col}[how]
    expected = np.where(mask, 0.5 * (a.astype(np.float64) @ b), -1)
    if how == "end":
        expected[37:] = 9
    assert np.abs(out - expected).max() < 1e-4


@tegula.jit
def select_behind(a, b, out, plain, M, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, CARRIED: tl.constexpr):
    """What a select looks at in part another looks at as a whole, or in the next iteration."""
    rows, cols, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x, y = tl.load(a + rows[:, None] * BK + ks[None, :]), tl.load(b + ks[:, None] * BN + cols[None, :])
    at = rows[:, None] * BN + cols[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(3):
        acc = tl.dot(x, y, acc, input_precision="ieee")
        if CARRIED:
            acc = tl.where(rows[:, None] < M * (i + 1), acc, 1.0)
        else:
            tl.store(out + at, tl.where(rows[:, None] < M, acc, 1.0), mask=cols[None, :] < 40)
    tl.store(plain + at, acc, mask=cols[None, :] < 60)


@pytest.mark.parametrize("carried", [False, True])
def test_selects_and_others(dev, carried):
    a, b = matrices(BM, BN, BK, carried)
    out, plain = np.zeros((2, BM, BN), np.float32)
    dev(select_behind, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), plain.reshape(-1), 7, BM, BN, BK, carried)
    row, col, one = np.arange(BM)[:, None], np.arange(BN)[None, :], a.astype(np.float64) @ b
    acc = 0
    for i in range(3):
        acc = acc + one
        if carried:
            acc = np.where(row < 7 * (i + 1), acc, 1)
    assert np.abs(plain - np.where(col < 60, acc, 0)).max() < 1e-3
    if not carried:
        assert np.abs(out - np.where(col < 40, np.where(row < 7, acc, 1), 0)).max() < 1e-3


@tegula.jit
def up_to(a, b, out, lines, ones, bound, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    r = tl.dot(tl.load(a + rows[:, None] * BK + ks[None, :]), tl.load(b + ks[:, None] * BN + cols[None, :]), input_precision="ieee")
    at = rows[:, None] * BN + cols[None, :]
    tl.store(out + at, r, mask=cols.to(tl.int64)[None, :] <= bound)
    tl.store(lines + at, 1.0, mask=(rows.to(tl.int64)[:, None] <= bound) & (cols[None, :] >= 0))
    tl.store(ones + cols, 1.0, mask=cols.to(tl.int64) <= bound)


@pytest.mark.parametrize("bound", [2**63 - 1, 2**63 - 2, 2**63 - 63, 40, 0, -1, -2**63, 1 - 2**63])
def test_bounds_at_the_ends_of_64_bits(dev, bound):
    """"All" and "nothing" as numbers: distances to them do not wrap around."""
    a, b = matrices(BM, BN, BK, "ends")
    out, lines, ones = np.zeros((BM, BN), np.float32), np.zeros((BM, BN), np.float32), np.zeros(BN, np.float32)
    dev(up_to, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), lines.reshape(-1), ones, bound, BM, BN, BK)
    row, col = np.arange(BM)[:, None], np.arange(BN)[None, :]
    assert np.abs(out - (a.astype(np.float64) @ b) * (col <= bound)).max() < 1e-4
    assert (lines == np.broadcast_to(row <= bound, lines.shape)).all() and (ones == (col[0] <= bound)).all()


@tegula.jit
def masks_of_masks(a, b, out, M, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, LEVELS: tl.constexpr):
    rows, cols, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    r = tl.dot(tl.load(a + rows[:, None] * BK + ks[None, :]), tl.load(b + ks[:, None] * BN + cols[None, :]), input_precision="ieee")
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    for i in tl.static_range(LEVELS):
        mask = (mask & (cols[None, :] < N + i)) & (mask & (rows[:, None] < M + i))
    tl.store(out + rows[:, None] * BN + cols[None, :], r, mask=mask)


def test_masks_made_of_one_another(dev):
    """Each comparison is looked at once, not once for each way to it: 2^40 ways."""
    a, b = matrices(BM, BN, BK, "ways")
    out = np.zeros((BM, BN), np.float32)
    dev(masks_of_masks, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), 9, 17, BM, BN, BK, 40)
    assert np.abs(out - (a.astype(np.float64) @ b) * ((np.arange(BM)[:, None] < 9) & (np.arange(BN)[None, :] < 17))).max() < 1e-4


@tegula.jit
def in_parts_of_k(a, b, c, M, N, K, PARTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.program_id(2) * BK + tl.arange(0, BK)
    pa, pb = a + (rows % M)[:, None] * K + ks[None, :], b + ks[:, None] * N + (cols % N)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK * PARTS)):
        acc = tl.dot(tl.load(pa, mask=ks[None, :] < K - k * (BK * PARTS), other=0.0), tl.load(pb, mask=ks[:, None] < K - k * (BK * PARTS), other=0.0), acc, input_precision="ieee")
        pa += BK * PARTS
        pb += BK * PARTS * N
    tl.atomic_add(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N), sem="relaxed")


@pytest.mark.parametrize("k", [1, 31, 33, 64, 97, 200, 261, 777])
@pytest.mark.parametrize("parts", [3, 4])
def test_parts_of_k_end_with_the_matrix(dev, parts, k):
    """Rounds that lie apart: each ends with the matrix, perhaps in the middle, or lies behind it. What is added to memory is seen where the atomic's mask says."""
    m, n = 45, 75
    a, b = (np.round(x * 2) for x in matrices(m, n, k))  # any order of sums is exact
    c = np.full((m + 1, n), 7, np.float32)
    dev(in_parts_of_k, (tegula.cdiv(m, BM), tegula.cdiv(n, BN), parts), a.reshape(-1), b.reshape(-1), c.reshape(-1), m, n, k, parts, BM, BN, BK)
    assert np.array_equal(c[:m], a @ b + 7) and (c[m:] == 7).all()
