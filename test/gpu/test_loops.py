"""Registers of a thread where loops add up tiles, where they load single elements under masks, and where all threads of a multiprocessor would spill."""
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import tegula
import tegula.language as tl

sys.path.insert(0, str(Path(__file__).parent))
import registers


def use(kernel, signature, constants, warps):
    out = registers.run("compile", f"bench/zoo/kernels/{kernel}", "--sig", f"{signature}, {constants}", "-t", "sm_90a", "--num-warps", str(warps), "--info")
    m = re.search(r"(\d+) registers per thread, (\d+) bytes spilled", out)
    return (int(m[1]), int(m[2])) if m else out


ROWS = "x_ptr:*bf16:16, out_ptr:*fp32:16, rows:i32:16, cols:i32:16"


# Before: 72, 47, 60 registers.
@pytest.mark.parametrize("kernel, constants, warps, most", [("sum_last_tile", "BR:16, BC:256", 4, 48), ("sum_first", "PER:256, BR:32, BC:64", 4, 40), ("sum_first", "PER:128, BR:16, BC:256", 8, 40)])
def test_a_thread_adds_what_it_holds_to_one_element(kernel, constants, warps, most):
    taken, spilled = use(f"reduce.py::{kernel}", ROWS, constants, warps)
    assert taken <= most and spilled == 0


def test_three_quarters_of_the_threads_do_not_spill():
    rows = "X:*fp32:16, Y:*fp32:16, W:*fp32:16, B:*fp32:16, Mean:*fp32:16, Rstd:*fp32:16, stride:i32:16, N:i32:16, eps:fp32"
    assert use("norms.py::layer_norm_block", rows, "BLOCK:1024", 4) == (40, 0)


# An odd row: no vectors, and the iterations inside of it load without masks. Sixteen single elements are too many to be loaded an iteration ahead.
def test_loads_of_single_elements_need_no_predicates():
    signature = "logits_ptr:*fp32:16, labels_ptr:*i64:16, loss_ptr:*fp32:16, lse_ptr:*fp32:16, cols:i32, stride:i32, smoothing:fp32, BLOCK:4096"
    ptx = registers.run("compile", "bench/zoo/kernels/rows.py::cross_entropy_online", "--sig", signature, "-t", "sm_90a", "--num-warps", "8", "--emit", "ptx")
    loads = re.findall(r"^\s*(@%p\d+ )?ld\.global\.[bf]32", ptx, re.M)
    assert loads.count("") >= 16 and sum(bool(p) for p in loads) == 16


def test_weights_from_outside_of_a_loop_are_moved_once(tmp_path):
    """Weights lie by columns, rows do not: a convolution over time, whose last rows are carried, works as its rows lie, and the weights go there in front of the loop."""
    source = tmp_path / "taps.py"
    source.write_text("""
import tegula
import tegula.language as tl
@tegula.jit
def taps(x, w, y, T, D: tl.constexpr):
    d = tl.arange(0, D)
    w0, w1 = tl.load(w + 2 * d + 1).to(tl.float32), tl.load(w + 2 * d).to(tl.float32)
    last = tl.load(x + d).to(tl.float32)
    for t in range(1, T):
        now = tl.load(x + t * D + d).to(tl.float32)
        tl.store(y + t * D + d, (w1 * last + w0 * now).to(tl.bfloat16))
        last = now
""")
    gpu = registers.run("compile", f"{source}::taps", "--sig", "x:*bf16:16, w:*bf16:16, y:*bf16:16, T:i32, D:512", "-t", "sm_90a", "--num-warps", "4", "--emit", "gpu")
    before, loop = gpu.split(" = for ")
    assert before.count(" = convert ") == 2 and "convert" not in loop and loop.count("{vec = 4}") == 2


SCAN = "x_ptr:*{0}:16, dt_ptr:*{0}:16, A_ptr:*fp32:16, B_ptr:*{0}:16, C_ptr:*{0}:16, D_ptr:*fp32:16, y_ptr:*{0}:16, T:i32:16, DIM:i32:16, N:16, BD:{1}"


@pytest.mark.parametrize("element, channels, warps, moves", [("bf16", 64, 4, 1), ("fp32", 64, 4, 1), ("bf16", 16, 1, 1), ("bf16", 64, 2, 3), ("fp32", 128, 4, 3)])
def test_the_largest_tile_decides_where_rows_of_its_loop_live(element, channels, warps, moves):
    """Rows of x and dt are read as the state wants them, and the row of skips from outside of the loop goes there: only y is moved. Where a thread would read too much of them, they are as memory has them;
    then what the state needs of them is moved, and its sum to where it is stored."""
    gpu = registers.run("compile", "bench/zoo/kernels/scans.py::selective_scan", "--sig", SCAN.format(element, channels), "-t", "sm_90a", "--num-warps", str(warps), "--emit", "gpu")
    assert gpu.split(" = for ")[1].count(" = convert ") == moves


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_heads_in_groups_are_turned_at_once(warps):
    """Four heads of 32, or none: `range(first, min(first + 4, 32))` with `first` a multiple of 4 is no loop, and no address but the first is computed."""
    ptx = registers.run("compile", "bench/zoo/kernels/rows_tiles.py::rotary_heads", "--sig", "Q:*bf16:16, COS:*bf16:16, SIN:*bf16:16, stride:i32:16, HEADS:32, HALF:64", "-t", "sm_90a", "--num-warps", str(warps), "--emit", "ptx")
    assert ptx.count("st.global") == 8 and ptx.count("bra") == 1 and ptx.count("mul.wide") <= 6


@tegula.jit
def turned(q, cos, sin, limit, stride, HEADS: tl.constexpr, HALF: tl.constexpr, GROUP: tl.constexpr, STEP: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, HALF)
    c = tl.load(cos + row * HALF + at, mask=at < limit)
    s = tl.load(sin + row * HALF + at, mask=at < limit)
    first = tl.program_id(1) * GROUP
    total = 0
    for head in range(first, min(first + GROUP, HEADS), STEP):
        low = q + row * stride + head * 2 * HALF + at
        a = tl.load(low, mask=at < limit, other=0.0)
        b = tl.load(low + HALF, mask=at < limit, other=0.0)
        tl.store(low, a * c - b * s, mask=at < limit)
        tl.store(low + HALF, b * c + a * s, mask=at < limit)
        total += head
    tl.store(q + row * stride + HEADS * 2 * HALF + tl.program_id(1), total.to(tl.float32))


@pytest.mark.parametrize("heads", [1, 4, 6, 32])
@pytest.mark.parametrize("group, step", [(2, 1), (4, 1), (4, 2), (8, 1), (6, 4)])
def test_groups_of_iterations(heads, group, step):
    """Groups that are whole and groups that are not, one that has nothing to do, and what a loop hands on to what is behind it."""
    half, limit, groups = 16, 11, -(-heads // group) + 1
    stride = heads * 2 * half + 64
    rng = np.random.default_rng(1)
    q, cos, sin = rng.standard_normal((2, stride)).astype(np.float32), *rng.standard_normal((2, 2, half)).astype(np.float32)
    want = q.copy()
    pairs = q[:, :heads * 2 * half].reshape(2, heads, 2, half)
    new = pairs.copy()
    for g in range(groups):
        mine = range(g * group, min(g * group + group, heads), step)
        for h in mine:
            a, b = pairs[:, h, 0, :limit], pairs[:, h, 1, :limit]
            new[:, h, 0, :limit], new[:, h, 1, :limit] = a * cos[:, :limit] - b * sin[:, :limit], b * cos[:, :limit] + a * sin[:, :limit]
        want[:, heads * 2 * half + g] = sum(mine)
    want[:, :heads * 2 * half] = new.reshape(2, -1)
    turned[(2, groups)](q, cos, sin, limit, stride, heads, half, group, step, num_warps=1, device="sim")
    np.testing.assert_allclose(q, want, atol=1e-5)


@tegula.jit
def looking_ahead(x, out, TOTAL: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * GROUP
    end = tl.minimum(first + GROUP, TOTAL)
    at = tl.arange(0, BLOCK)
    for row in range(first, end):
        v = tl.load(x + row * BLOCK + at)
        if row + 2 < end:
            tl.store(out + row * BLOCK + at, v + tl.load(x + (row + 2) * BLOCK + at))


def test_groups_whose_iterations_look_ahead(group=4):
    """The loop's own tests are gone, but not one of the program against the same end."""
    x = np.random.default_rng(1).standard_normal((32, 128)).astype(np.float32)
    out, ahead = np.zeros_like(x), np.flatnonzero(np.arange(32) % group < group - 2)
    looking_ahead[(32 // group,)](x, out, 32, group, 128, device="sim")
    want = np.zeros_like(x)
    want[ahead] = x[ahead] + x[ahead + 2]
    np.testing.assert_array_equal(out, want)


@tegula.jit
def weighed(words, planes, out, n, stride, WORDS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, ), tl.int32)
    for k in range(WORDS):
        word = tl.load(words + at * WORDS + k, mask=at < n, other=0)
        total += (word & tl.load(planes + k)) + 2 * (word & tl.load(planes + stride + k))
    tl.store(out + at, total, mask=at < n)


@pytest.mark.parametrize("words, loads", [(4, 12), (8, 24), (12, None)])
def test_short_loops_that_load_are_no_loops(words, loads):
    """As often as a constant says, up to eight times: addresses are constants apart."""
    ptx = registers.run("compile", "test/gpu/test_loops.py::weighed", "--sig", f"words:*i32:16, planes:*i32:16, out:*i32:16, n:i32, stride:i32, WORDS:{words}, BLOCK:64", "-t", "sm_90a", "--num-warps", "2", "--emit", "ptx")
    assert ("bra" not in ptx and ptx.count("ld.global") == loads) if loads else "bra" in ptx
    rng = np.random.default_rng(1)
    a, p = rng.integers(-2**20, 2**20, (100, words), dtype=np.int32), rng.integers(-2**20, 2**20, (2, words), dtype=np.int32)
    out = np.zeros(100, np.int32)
    weighed[(2, )](a, p, out, 100, words, words, 64, num_warps=2, device="sim")
    np.testing.assert_array_equal(out, ((a & p[0]) + 2 * (a & p[1])).sum(1))
