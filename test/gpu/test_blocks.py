"""How many blocks kernels ask to have on a multiprocessor (targets/nvidia/occupancy/Occupancy.h)."""
import re
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


def wish(kernel, *args, **options):
    made = kernel.warmup(*args, grid=(1,), device="sim", **options)
    found = re.search(r"\.minnctapersm (\d+)", made.compile_for("sm_90a").stage("ptx"))
    return int(found[1]) if found else None


@tegula.jit
def divergence(x, y, out, n, stride, BLOCK: tl.constexpr):
    x += tl.program_id(0) * n
    out += tl.program_id(0) * stride
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        a = tl.load(x + at, mask=at < n)
        b = tl.load(y + at, mask=at < n)
        tl.store(out + at, tl.exp(a) * (a - b), mask=at < n)


def test_no_loads_ahead_over_barriers():
    """A loop that stores to what it loads has barriers, over which no load of a later iteration is moved: such loads want no registers."""
    x, y, out = (np.zeros(1 << 16, np.float32) for _ in range(3))
    apart, in_place = wish(divergence, x, y, out, 1 << 16, 48, 4096, num_warps=4), wish(divergence, x, y, x, 1 << 16, 48, 4096, num_warps=4)
    assert (apart, in_place) == (5, 9)


@tegula.jit
def two_products(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    gate = tl.zeros((BM, BN), tl.float32)
    up = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        gate = tl.dot(x, tl.load(b + n[None, :] * K + (i + k)[:, None]), gate)
        up = tl.dot(x, tl.load(b + (BN + n)[None, :] * K + (i + k)[:, None]), up)
    tl.store(c + m[:, None] * BN + n[None, :], gate * up)


@pytest.mark.parametrize("columns, blocks", [(64, 4), (128, 3), (256, None)])
def test_two_products(columns, blocks):
    """Results and addresses: 64 + 40 registers, 128 + 40; the results of 256 columns fill a thread's."""
    a, c = np.zeros((512, 512), ml_dtypes.bfloat16), np.zeros((64, columns), np.float32)
    assert wish(two_products, a, a, c, 512, 64, columns, 32, num_warps=4, num_stages=2) == blocks


@pytest.mark.parametrize("columns, blocks", [(64, 4), (128, 2)])
def test_operands_through_registers(columns, blocks):
    """Rows of 511 elements, which no copy takes: 128 + 40 registers for addresses leave room for three blocks, 40 for operands and some beside them do not."""
    a, c = np.zeros((512, 511), ml_dtypes.bfloat16), np.zeros((64, columns), np.float32)
    assert wish(two_products, a, a, c, 511, 64, columns, 32, num_warps=4, num_stages=2) == blocks


@tegula.jit
def scaled_products(a, b, c, scale, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        product = tl.dot(tl.load(a + m[:, None] * K + (i + k)[None, :]), tl.load(b + n[None, :] * K + (i + k)[:, None]))
        sums += product * tl.load(scale + i)
    tl.store(c + m[:, None] * BN + n[None, :], sums)


@pytest.mark.parametrize("columns, blocks", [(64, 4), (128, 3), (256, None)])
def test_sums_beside_results(columns, blocks):
    """A result that is added to a sum when it is there has registers beside that sum's: asking for as many blocks as results alone leave room for would be assembled in vain."""
    a, c = np.zeros((512, 512), ml_dtypes.bfloat16), np.zeros((64, columns), np.float32)
    assert wish(scaled_products, a, a, c, c, 512, 64, columns, 32, num_warps=4, num_stages=2) == blocks


def test_one_block_more_up_to_sixteen_warps():
    """The assembler takes 156 registers where 128 do without spills: four blocks of four warps for three."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
    from zoo import check, load
    row = next(r for r in load.rows(load.entries("tegula"), "gpu") if r.name == "attention backward dk dv / block pointers / H=64 N=4096 D=64 / bf16")
    config = next(c for c in row.spelling.configs_for(row.shape) if c.BM == 32 and c.BN == 32)
    kernel = list(check.compiled_for(row, config, "sm_90a"))[1]
    assert kernel.n_regs == 128 and kernel.n_spills == 0 and 4 * (kernel.metadata.shared + 1024) <= 228 << 10


@tegula.jit
def products(w, x, y, n, K, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BN, BK), tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        acc += tl.load(w + rows[:, None] * K + at[None, :], mask=(rows[:, None] < n) & (at[None, :] < K), other=0.0) * tl.load(x + at, mask=at < K, other=0.0)[None, :]
    tl.store(y + rows, tl.sum(acc, axis=1), mask=rows < n)


@pytest.mark.parametrize("tile, blocks", [((16, 64), 9), ((16, 256), 6), ((32, 128), 6)])
def test_sixteen_warps_keep_memory_busy(tile, blocks):
    """Loads of four iterations leave registers for nine blocks of 16 x 64 floats, and for six where each thread loads eight elements of x; twelve would have all in flight that memory takes, but a grid may be smaller than that."""
    w, x = np.zeros((64, 4096), np.float32), np.zeros(4096, np.float32)
    assert wish(products, w, x, x, 64, 4096, *tile, num_warps=4) == blocks


@tegula.jit
def copies(x, out, n, BLOCK: tl.constexpr):
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@pytest.mark.parametrize("words, blocks", [(8, 16), (16, 16), (32, 10)])
def test_copies_have_one_iteration_under_way(words, blocks):
    """No load is moved over the store of the iteration before, so that a loop of copies wants registers for one iteration."""
    x, out = np.zeros(1 << 16, np.float32), np.zeros(1 << 16, np.float32)
    assert wish(copies, x, out, 1 << 16, words * 128, num_warps=4) == blocks


@tegula.jit
def running_moments(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    mean = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.int32)
    steps = tl.cdiv(n, BLOCK)
    for i in range(0, steps - 1):
        a = tl.load(x + row + i * BLOCK + at).to(tl.float32)
        next_mean = mean + (a - mean) / (i + 1)
        squares += (a - next_mean) * (a - mean)
        count += 1
        mean = next_mean
    last = (steps - 1) * BLOCK + at
    mask = last < n
    a = tl.load(x + row + last, mask=mask).to(tl.float32)
    next_mean = tl.where(mask, mean + (a - mean) / steps, mean)
    squares = tl.where(mask, squares + (a - next_mean) * (a - mean), squares)
    count += mask.to(tl.int32)
    center = tl.sum(next_mean * count) / n
    scale = tl.rsqrt(tl.sum(squares + count * (next_mean - center) * (next_mean - center)) / n)
    for i in range(0, steps):
        cols = i * BLOCK + at
        a = tl.load(x + row + cols, mask=cols < n, other=0.0).to(tl.float32)
        tl.store(y + row + cols, (a - center) * scale, mask=cols < n)


def test_what_is_done_once_beside_loops_may_go_step_by_step():
    """80 words of the last, masked step beside loops of divisions that have 32, which are not counted: five blocks of eight warps are tried."""
    x = np.zeros(1 << 16, ml_dtypes.bfloat16)
    assert wish(running_moments, x, x.copy(), 1 << 14, BLOCK=4096, num_warps=8) == 5


@tegula.jit
def shannon(x, y, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        a = tl.load(x + row + at, mask=at < n, other=float("-inf")).to(tl.float32)
        b = tl.load(y + row + at, mask=at < n, other=float("-inf")).to(tl.float32)
        top = tl.maximum(tl.max(a), tl.max(b))
        p = tl.exp(a - top) * tl.exp(top)
        q = tl.exp(b - top) * tl.exp(top)
        middle = tl.log(0.5 * p + 0.5 * q)
        tl.store(out + row + at, p * (a - middle) + q * (b - middle), mask=at < n)


def test_many_elements_of_a_thread_come_one_after_the_other():
    """Without products, 32 elements of a thread: what an element needs stands together, so that few are alive at once."""
    x = np.zeros(1 << 16, ml_dtypes.bfloat16)
    made = shannon.warmup(x, x.copy(), x.astype(np.float32), 1 << 15, BLOCK=32768, num_warps=32, grid=(1,), device="sim")
    ptx = made.compile_for("sm_90a").stage("ptx")
    exponentials = [m.start() for m in re.finditer(r"ex2\.approx", ptx)]
    assert len(exponentials) >= 64
    assert ptx.count("fma.rn.f32", exponentials[3], exponentials[7]) >= 8  # of the logarithm of one element


@tegula.jit
def gated_heads(x, gate, w, out, D: tl.constexpr, ROWS: tl.constexpr):
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None] * D + tl.arange(0, D)[None, :]
    a = tl.load(x + at).to(tl.float32)
    scale = tl.rsqrt(tl.sum(a * a, axis=1) / D + 1e-5)
    y = a * scale[:, None] * tl.load(w + tl.arange(0, D)).to(tl.float32)[None, :]
    g = tl.load(gate + at).to(tl.float32)
    tl.store(out + at, y * g * tl.sigmoid(g))


@pytest.mark.parametrize("element, rows, warps, blocks", [(ml_dtypes.bfloat16, 32, 4, 8), (np.float16, 32, 8, 6), (np.float32, 16, 4, 8)])
def test_straight_code_keeps_narrow_loads_packed(element, rows, warps, blocks):
    """Two tiles of 32 elements a thread in bf16 are 32 words, which are widened again where they are used; 64 registers do without spills."""
    x = np.zeros((64, 128), element)
    assert wish(gated_heads, x, x.copy(), x[0].copy(), x.copy(), 128, rows, num_warps=warps) == blocks


def test_iterations_that_wait_for_quotients_want_all_warps():
    """Nothing that is loaded ahead shortens a chain of divisions: sixteen blocks of four warps, not twelve with loads ahead."""
    x = np.zeros(1 << 16, ml_dtypes.bfloat16)
    assert wish(running_moments, x, x.copy(), 1 << 14, BLOCK=128, num_warps=4) == 16
