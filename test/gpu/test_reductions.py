"""Reductions that loops add up are combined across threads after the loop. Reductions of several rows: all of a thread's own work stands in front of the exchanges between lanes, which then run side by side."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def row_max(x, out, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    tl.store(out + r, tl.max(tl.load(x + r[:, None] * C + c[None, :]), 1))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_lanes_exchange_behind_what_threads_do_alone(target):
    x, out = np.zeros((64, 64), np.float32), np.zeros(64, np.float32)
    ptx = row_max.warmup(x, out, 64, 64, num_warps=4, grid=(1,), device="sim").compile_for(target).stage("ptx")
    steps = re.findall(r"\b(max\.f32|shfl\.sync)", ptx)
    first = steps.index("shfl.sync")
    exchanges = steps.count("shfl.sync")
    assert exchanges > 4 and first > 4  # several rows a thread, several elements a row
    assert steps[first:].count("max.f32") == exchanges  # each combines what came from another lane


@tegula.jit
def running(x, out, n, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, F: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    total = tl.zeros([C if AXIS == 0 else R], tl.float32)
    largest = float("-inf")
    for i in range(n):
        t = tl.load(x + i * R * C + r[:, None] * C + c[None, :])
        if F == "sum":
            total += tl.sum(t, AXIS)
        else:
            largest = tl.maximum(largest, tl.max(t))
    tl.store(out + (c if AXIS == 0 else r), total + largest)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("R, C, axis, f", [(16, 32, 0, "sum"), (64, 64, 0, "sum"), (64, 64, 1, "sum"), (2, 1024, 1, "sum"), (4, 256, 0, "max")])
def test_loops_that_add_up_do_not_exchange(R, C, axis, f, target):
    x, out = np.zeros((64, R, C), np.float32), np.zeros(max(R, C), np.float32)
    ptx = running.warmup(x, out, 64, R, C, axis, f, num_warps=4, grid=(1,), device="sim").compile_for(target).stage("ptx")
    label = re.search(r"(?s)(\$L__BB0_\d+):(?=.*bra(?:\.uni)?\s+\1;)", ptx)
    loop, rest = re.split(rf"bra(?:\.uni)?\s+{re.escape(label[1])};", ptx[label.start():], maxsplit=1)
    exchange = re.compile(r"bar\.sync|shfl\.sync|redux|[ls][dt]\.shared")
    assert "ld.global" in loop and not exchange.search(loop)
    assert exchange.search(rest)


@tegula.jit
def rows_of_large_tile(x, out, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, BLOCK)
    t = tl.exp(tl.load(x + r[:, None] * cols + c[None, :], mask=c[None, :] < cols, other=0.0).to(tl.float32))
    tl.store(out + r[:, None] * cols + c[None, :], (t / tl.sum(t, 1)[:, None]).to(tl.bfloat16), mask=c[None, :] < cols)


# Loops over parts (gpu/parts/SplitTiles.h), whose parts have one access of 16 bytes of each row a thread, or several of one row.
@pytest.mark.parametrize("rows, block", [(4, 32768), (8, 32768), (1, 65536)])
def test_loops_over_parts_do_not_exchange(rows, block):
    x = np.zeros((rows, block), np.uint16).view(ml_dtypes.bfloat16)
    gpu = rows_of_large_tile.warmup(x, x, block, rows, block, num_warps=4, grid=(1,), device="sim").compile_for("sm_90a").stage("gpu")
    loops = re.findall(r"(?ms)^  [^\n]*\bfor [^\n]*rolled = 1.*?^  }", gpu)
    assert len(loops) == 2 and not any("shared" in loop for loop in loops)


# A loop over the rows, which reads each once, where a row is short enough for straight code.
@pytest.mark.parametrize("rows, block", [(4, 8192), (4, 16384)])
def test_rows_that_fit_are_read_once(rows, block):
    x = np.zeros((rows, block), np.uint16).view(ml_dtypes.bfloat16)
    gpu = rows_of_large_tile.warmup(x, x, block, rows, block, num_warps=4, grid=(1,), device="sim").compile_for("sm_90a").stage("gpu")
    loops = re.findall(r"(?ms)^  [^\n]*\bfor [^\n]*rolled = 1.*?^  }", gpu)
    assert len(loops) == 1 and len(re.findall(r"\bload ", gpu)) == 1


@tegula.jit
def folded(x, out, ROUNDS: tl.constexpr):
    i = tl.arange(0, 1024)
    v = tl.load(x + i)
    for j in tl.static_range(ROUNDS):
        v = tl.sum(tl.reshape(tl.interleave(v, v * j), [2, 1024]), 0)
    tl.store(out + i, v)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_copies_do_not_add_up_in_a_row_of_reductions(target):
    """Each leaves twice as many copies of its elements among the threads."""
    x = np.zeros(1024, np.float32)
    ptx = folded.warmup(x, x, 8, num_warps=4, grid=(1,), device="sim").compile_for(target).stage("ptx")
    assert len(ptx.splitlines()) < 8 * 400  # 1100 a round as long as all threads got all of the tile


@tegula.jit
def narrow_sum(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    t = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out, tl.sum(t))
    tl.store(out + 1, tl.sum(t * t))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_sums_add_two_at_a_time(dtype):
    x, out = (np.arange(1024) % 5 - 2).astype(dtype), np.zeros(2, dtype)
    made = narrow_sum.warmup(x, out, 1024, BLOCK=1024, num_warps=1, grid=(1,), device="sim")
    name = "f16" if dtype == np.float16 else "bf16"
    ptx = made.compile_for("sm_90a").stage("ptx")
    # 32 elements a thread: 15 additions of words for each sum, and 16 squares.
    assert len(re.findall(rf"fma\.rn\.{name}x2", ptx)) == 2 * 15 + 16
    narrow_sum[(1,)](x, out, 1000, BLOCK=1024, num_warps=1, device="sim")
    y = x[:1000].astype(np.float64)
    assert out.astype(np.float64).tolist() == [y.sum(), (y * y).sum().astype(dtype).astype(np.float64)]


@tegula.jit
def columns(x, out, rows, PER: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, AXIS: tl.constexpr):
    r, c = tl.arange(0, BR), tl.arange(0, BC)
    acc = tl.zeros([BR, BC], tl.float32)
    for off in range(0, PER, BR):
        acc += tl.load(x + (off + r)[:, None] * BC + c[None, :], mask=(off + r)[:, None] < rows, other=0.0).to(tl.float32)
    tl.atomic_add(out + (c if AXIS == 0 else r), tl.sum(acc, axis=AXIS))


@pytest.mark.parametrize("BR, BC, axis, warps", [(8, 512, 0, 8), (16, 128, 0, 4), (32, 64, 0, 4), (16, 256, 0, 8), (8, 512, 1, 4), (4, 1024, 1, 8), (64, 128, 0, 16)])
def test_parts_of_warps_are_read_where_the_sum_is_wanted(BR, BC, axis, warps):
    """One exchange through shared memory, not a second one behind the reduction."""
    x = (np.arange(256 * BC) % 7 - 3).astype(ml_dtypes.bfloat16).reshape(256, BC)
    out = np.zeros((BC, BR)[axis], np.float32)
    made = columns.warmup(x, out, 250, 256, BR, BC, axis, num_warps=warps, grid=(1,), device="sim").compile_for("sm_90a")
    exchanges = re.findall(r"= (convert|reduce) [^\n]*shared = ", made.stage("gpu"))
    assert exchanges == ["convert"]
    columns[(1,)](x, out, 250, 256, BR, BC, axis, num_warps=warps, device="sim")
    wide = x[:250].astype(np.float32)
    assert (out == (wide.sum(0) if axis == 0 else np.pad(wide, ((0, 6), (0, 0))).reshape(-1, BR, BC).sum((0, 2)))).all()


@tegula.jit
def largest_of_rows(x, out, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    tl.store(out + r, tl.max(tl.load(x + r[:, None] * C + c[None, :]).to(tl.float32), 1))


def test_parts_of_warps_are_made_of_words():
    """The maximum of bf16 is taken two at a time in each warp, also where the parts of warps are read in another layout."""
    x, out = np.zeros((32, 1024), ml_dtypes.bfloat16), np.zeros(32, np.float32)
    made = largest_of_rows.warmup(x, out, 32, 1024, num_warps=4, grid=(1,), device="sim").compile_for("sm_90a")
    assert re.findall(r"= (convert|reduce) [^\n]*shared = ", made.stage("gpu")) == ["convert"]
    assert "max.bf16x2" in made.stage("ptx")


@tegula.jit
def running_columns(x, out, T, D, BT: tl.constexpr, BD: tl.constexpr):
    """Running sums down the columns, chunk by chunk, and the sum of the chunk for those behind."""
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    before = tl.zeros([BD], tl.float32)
    for start in range(0, T, BT):
        at = (start + tl.arange(0, BT))[:, None] * D + d[None, :]
        v = tl.load(x + at).to(tl.float32)
        tl.store(out + at, (before[None, :] + tl.cumsum(v, 0)).to(out.dtype.element_ty))
        before += tl.sum(v, 0)


# The sum takes what the scan takes, which has a column in few threads, and is carried as the running sums need it: nothing but the two conversions of the tile meets.
@pytest.mark.parametrize("BT, BD", [(16, 32), (64, 64)])
def test_sums_beside_scans_work_as_those_do(BT, BD):
    x, out = np.zeros((1024, 256), ml_dtypes.bfloat16), np.zeros((1024, 256), ml_dtypes.bfloat16)
    ptx = running_columns.warmup(x, out, 1024, 256, BT, BD, num_warps=4, grid=(8,), device="sim").compile_for("sm_90a").stage("ptx")
    label = re.search(r"(?s)(\$L__BB0_\d+):(?=.*bra(?:\.uni)?\s+\1;)", ptx)
    loop = ptx[label.start():ptx.rindex(f"{label[1]};")]
    assert loop.count("bar.sync") <= 4


@tegula.jit
def merge(mean1, m21, n1, mean2, m22, n2):
    n = n1 + n2
    delta = mean2 - mean1
    share = tl.where(n == 0.0, 0.0, n2 / n)
    return mean1 + delta * share, m21 + m22 + delta * delta * n1 * share, n


@tegula.jit
def moments(x, out, N: tl.constexpr, SUM: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    if SUM:
        tl.store(out, tl.sum(v))
    else:
        mean, m2, n = tl.reduce((v, tl.zeros([N], tl.float32), tl.full([N], 1.0, tl.float32)), 0, merge)
        tl.store(out, mean)
        tl.store(out + 1, m2 / n)


# What eight warps have found is put together in three steps by lanes where a step is long, by all threads from vectors of parts where it is an addition.
@pytest.mark.parametrize("warps, is_sum, shuffles", [(8, False, 3 * (5 + 3)), (4, False, 3 * 5), (2, False, 3 * 5), (8, True, 5), (16, True, 5 + 4)])
def test_long_steps_across_warps_are_few(warps, is_sum, shuffles):
    x, out = np.zeros(1024, np.float32), np.zeros(2, np.float32)
    ptx = moments.warmup(x, out, 1024, is_sum, num_warps=warps, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")
    assert ptx.count("shfl.sync") == shuffles


@pytest.mark.parametrize("warps", [2, 4, 8, 16])
def test_moments(warps):
    x, out = (np.arange(1024) % 37).astype(np.float32), np.zeros(2, np.float32)
    moments[(1,)](x, out, 1024, False, num_warps=warps, device="sim")
    assert np.allclose(out, [x.mean(), x.var()], rtol=1e-5)


@tegula.jit
def running_sums(x, out, n, N: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + at, tl.cumsum(v, 0, reverse=REVERSE) + tl.sum(v), mask=at < n)


# What is scanned crosses shared memory as it was loaded, in 16 bits: 16 elements of a thread are two vectors each way. The parts of warps are read as vectors, too.
@pytest.mark.parametrize("warps, parts", [(4, 1), (8, 2)])
def test_scans_take_what_was_loaded(warps, parts):
    n = 512 * warps
    x, out = np.zeros(n, ml_dtypes.bfloat16), np.zeros(n, np.float32)
    ptx = running_sums.warmup(x, out, n, n, False, num_warps=warps, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")
    crossing = ptx[:ptx.index("shfl.sync")]
    assert crossing.count("st.shared.v4") == crossing.count("ld.shared.v4") == 2 and ".b16" not in "".join(line for line in crossing.splitlines() if "shared" in line)
    assert len(re.findall(r"ld\.shared\.(?:v4\.)?\w+", ptx[ptx.index("shfl.sync.up"):])) >= 2 * parts


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("warps", [1, 4, 8, 16])
def test_running_sums(warps, reverse):
    x, out = (np.arange(2048) % 23 - 11).astype(ml_dtypes.bfloat16), np.zeros(2048, np.float32)
    running_sums[(1,)](x, out, 2001, 2048, reverse, num_warps=warps, device="sim")
    v = x[:2001].astype(np.float64)
    want = (np.cumsum(v[::-1])[::-1] if reverse else np.cumsum(v)) + v.sum()
    assert (out[:2001] == want).all()


@tegula.jit
def nearest(x, c, out, K, D: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The number of the row of `c` that is nearest to each row of `x`."""
    rows, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    t = tl.load(x + rows[:, None] * D + d[None, :])
    best, at = tl.full((BN, ), 3.4e38, tl.float32), tl.zeros((BN, ), tl.int32)
    for first in range(0, K, BK):
        columns = first + tl.arange(0, BK)
        tile = tl.load(c + columns[None, :] * D + d[:, None], mask=(columns < K)[None, :], other=0.0)
        distance = tl.where((columns < K)[None, :], -2.0 * tl.dot(t, tile), 3.4e38)
        least, where = tl.min(distance, axis=1), tl.argmin(distance, axis=1)
        at = tl.where(least < best, first + where, at)
        best = tl.minimum(best, least)
    tl.store(out + rows, at)


def test_a_place_is_found_once_beside_a_loops_counter():
    # LLVM's strength reduction wrote the search for the least index anew in the 64 bits of the counter.
    rng = np.random.default_rng(1)
    x, c = (rng.integers(-3, 4, (n, 64)).astype(np.float16) for n in (64, 200))
    out = np.zeros(64, np.int32)
    nearest[(1, )](x, c, out, 200, 64, 64, 64, device="sim")
    scores = -2 * x.astype(np.float32) @ c.astype(np.float32).T
    assert (out == scores.argmin(1)).all()
    ptx = nearest.warmup(x, c, out, 200, 64, 64, 64, grid=(1, ), device="sim").compile_for("sm_90a").stage("ptx")
    assert "min.s64" not in ptx and len(re.findall(r"min\.s32", ptx)) >= 32


@tegula.jit
def moments_of_columns(x_ptr, mean_ptr, var_ptr, N: tl.constexpr, BX: tl.constexpr, BR: tl.constexpr):
    """Welford's method along rows of columns that lie next to each other: the lanes of a warp share out both axes."""
    x = tl.program_id(0) * BX + tl.arange(0, BX)[:, None]
    r = tl.arange(0, BR)[None, :]
    v = tl.load(x_ptr + x + r * N)
    mean, m2, weight = tl.reduce((v, tl.zeros([BX, BR], tl.float32), tl.full([BX, BR], 1.0, tl.float32)), 1, joined_moments)
    tl.store(mean_ptr + x, mean[:, None])
    tl.store(var_ptr + x, m2[:, None] / BR)


@tegula.jit
def joined_moments(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    weight = weight_1 + weight_2
    share = tl.where(weight == 0.0, 0.0, weight_2 / weight)
    return mean_1 + delta * share, m2_1 + m2_2 + delta * delta * weight_1 * share, weight


@pytest.mark.parametrize("bx, br, warps, most", [(16, 256, 16, 16), (64, 64, 8, 8), (8, 128, 8, 4)])
def test_parts_of_warps_are_shared_out_among_lanes(bx, br, warps, most):
    x = np.random.default_rng(2).standard_normal((br, 64)).astype(np.float32)
    mean, var = np.zeros(64, np.float32), np.zeros(64, np.float32)
    kernel = moments_of_columns[(64 // bx,)](x, mean, var, 64, bx, br, num_warps=warps, device="sim")
    np.testing.assert_allclose(mean, x.mean(0), atol=1e-6)
    np.testing.assert_allclose(var, x.var(0), rtol=1e-5)
    ptx = kernel.compile_for("sm_90a").stage("ptx")
    behind = ptx[ptx.index("bar.sync"):]
    assert len(re.findall(r"ld\.shared", behind)) <= 3 * most  # of three values, before all threads read all parts of all results they have


@tegula.jit
def best_of_columns(x, value, index, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    m, i = tl.max(tl.load(x + r[:, None] * C + c[None, :]), 0, return_indices=True)
    tl.store(value + c, m)
    tl.store(index + c, i)


def test_indices_of_a_thread_are_not_compared():
    """A thread's elements come from the last row to the first, so that the smaller index wins by coming later: of 32 rows each of 4 lanes has eight, for four columns."""
    x, out = np.zeros((32, 32), np.float32), np.zeros(32, np.int32)
    ptx = best_of_columns.warmup(x, x, out, 32, 32, num_warps=1, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")
    assert len(re.findall(r"setp\.(le|lt|ge|gt)\.s32", ptx)) == 0
