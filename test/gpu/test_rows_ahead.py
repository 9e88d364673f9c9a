"""Rows that a loop loads ahead: of scales and zeros beside the operands of dots, which come as far ahead as the operands do, so that no iteration waits for what it has asked for itself; and of
loops without dots that ask for stages."""
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import registers
from test_rings import loop_of


def loop(kernel, rest, weights, stages, more=""):
    pointers = {"a_ptr": "bf16", "b_ptr": weights, "scales_ptr": "bf16", **({"zeros_ptr": more} if more else {}), "c_ptr": "bf16"}
    return loop_of(registers.run("compile", f"bench/zoo/kernels/quantized.py::{kernel}", "--sig", registers.signature(pointers, f"M:i32:16, N:i32:16, K:i32:16, G:128, {rest}"),
                                 "-t", "sm_90a", "--num-stages", str(stages), "--emit", "gpu"))


def loads(lines):
    """Results of loads from global memory."""
    return [m[1] for line in lines if (m := re.match(r" *(%[\w.]+) = load ", line))]


# Rows have fewer elements than the block has threads: a word for each of some threads, which is what a copy can be.
@pytest.mark.parametrize("tile", ["BM:16, BN:32, BK:64", "BM:16, BN:128, BK:64", "BM:64, BN:128, BK:64"])
def test_narrow_rows_are_copied(tile):
    lines = loop("w8a16", tile, "u8", 3, more="u8")
    assert sum(" async_copy " in line for line in lines) == 4 and not loads(lines)


# Scales that lie apart, two bytes each, cannot be copied: what was loaded in the last iteration is stored in this one, and behind that the next are loaded.
@pytest.mark.parametrize("tile", ["BM:16, BN:64, BK:128", "BM:64, BN:128, BK:64"])
def test_what_cannot_be_copied_is_loaded_an_iteration_before_it_is_stored(tile):
    lines = loop("w4a16_interleaved", tile, "u8", 4)
    (loaded,) = loads(lines)
    used = [i for i, line in enumerate(lines) if re.search(rf"{re.escape(loaded)}(?![\w.])", line)]
    assert len(used) == 2 and lines[used[1]].strip().startswith("yield")
    # A warp that waits for the load has started its copies.
    copies = [i for i, line in enumerate(lines) if " async_copy " in line]
    assert len(copies) == 2 and "shared_store" in lines[copies[-1] + 2] and copies[-1] + 2 < used[0]


# Three rows ahead take 96 registers of 128 that sixteen warps on an SM leave a thread; of short rows they cost nothing.
@pytest.mark.parametrize("columns, warps, stages, ahead", [(8192, 8, 4, 1), (8192, 8, 2, 1), (1024, 8, 4, 3), (8192, 16, 3, 2)])
def test_rows_of_loops_without_dots_leave_the_registers_of_sixteen_warps(columns, warps, stages, ahead):
    sig = registers.signature({"x_ptr": "fp32", "out_ptr": "fp32"}, f"rows:i32:16, cols:i32:16, stride_x:i32:16, stride_out:i32:16, BLOCK:{columns}, LOG:False, STAGES:{stages}")
    gpu = registers.run("compile", "bench/zoo/kernels/rows.py::softmax_persistent", "--sig", sig, "-t", "sm_90a", "--num-warps", str(warps), "--emit", "gpu")
    assert len(loads(gpu[:gpu.index(" = for ")].splitlines())) == ahead and len(loads(loop_of(gpu))) == 1


# Rows and columns that scale what a dot gives are loaded by the threads that hold the accumulator: nothing but the wait for the copies holds a block up in an iteration.
@pytest.mark.parametrize("tile, warps", [("BM:64, BN:64, BK:128", 4), ("BM:64, BN:128, BK:128", 4), ("BM:128, BN:128, BK:128", 8), ("BM:64, BN:256, BK:128", 8)])
def test_scales_of_accumulators_do_not_change_threads(tile, warps):
    lines = scaled_by_blocks(tile, warps)
    assert len(loads(lines)) == 2 and sum(" shared_barrier" in line for line in lines) == 1
    assert not any(" convert " in line or "meet" in line for line in lines)


# Two accumulators of 128 registers leave none for them.
def test_scales_of_large_accumulators_cross_shared_memory():
    lines = scaled_by_blocks("BM:128, BN:128, BK:128", 4)
    assert len(loads(lines)) == 2 and sum(" convert " in line for line in lines) == 2


def scaled_by_blocks(tile, warps):
    sig = registers.signature({"a_ptr": "fp8", "b_ptr": "fp8", "sa_ptr": "fp32", "sb_ptr": "fp32", "c_ptr": "bf16"}, f"M:i32:16, N:i32:16, K:i32:16, {tile}, GROUP:8")
    return loop_of(registers.run("compile", "bench/zoo/kernels/quantized.py::fp8_blocks", "--sig", sig, "-t", "sm_90a", "--num-warps", str(warps), "--emit", "gpu"))


def instructions(kernel, pointers, rest, *more):
    """PTX of the largest loop of a kernel."""
    ptx = [line.strip() for line in registers.run("compile", f"bench/zoo/kernels/{kernel}", "--sig", registers.signature(pointers, rest), "-t", "sm_90a", "--emit", "ptx", *more).splitlines()]
    labels = {line[:-1]: i for i, line in enumerate(ptx) if re.fullmatch(r"\$L\w+:", line)}
    jumps = [(labels[m[1]], i) for i, line in enumerate(ptx) if (m := re.search(r"\bbra(?:\.uni)?\s+(\$L\w+);", line)) and labels.get(m[1], i) < i]
    return ptx[slice(*max(jumps, key=lambda j: j[1] - j[0]))]


# Scales of the rows of a transposed operand lie a stride apart of which nothing is known: each thread loads that of its row, as the lanes of a warp share eight of them.
def test_scales_a_stride_apart_are_loaded_where_they_are_used():
    lines = loop("w4a16_interleaved", "BM:16, BN:32, BK:64", "u8", 4)
    assert len(loads(lines)) == 1 and not any(" convert " in line for line in lines)


# What is loaded three iterations ahead is in one of four registers until it is used: the body stands four times in the loop, as a move
# would wait for the load that it moves.
def test_what_is_loaded_ahead_stays_in_its_register():
    pointers = {"a_ptr": "bf16", "b_ptr": "u8", "scales_ptr": "bf16", "c_ptr": "bf16"}
    lines = instructions("quantized.py::w4a16_interleaved", pointers, "M:i32:16, N:i32:16, K:i32:16, G:128, BM:16, BN:32, BK:64", "--num-stages", "4")
    loaded = [m[1] for line in lines if (m := re.search(r"ld\.global\.b16 (%rs\d+)", line))]
    assert len(set(loaded)) == 4 and sum("cp.async.wait_group" in line for line in lines) == 4


# Rows of a loop that asks for stages; bodies that four copies of would not fit into the instruction cache stay as they are.
@pytest.mark.parametrize("columns, warps, stages, copies", [(1024, 8, 2, 2), (1024, 8, 4, 4), (8192, 4, 2, 1)])
def test_bodies_stand_in_loops_as_often_as_rows_are_ahead(columns, warps, stages, copies):
    rest = f"rows:i32:16, cols:i32:16, stride_x:i32:16, stride_out:i32:16, BLOCK:{columns}, LOG:False, STAGES:{stages}"
    lines = instructions("rows.py::softmax_persistent", {"x_ptr": "fp32", "out_ptr": "fp32"}, rest, "--num-warps", str(warps))
    assert sum("st.global" in line for line in lines) == copies * columns // (32 * warps) // 4


# Blocks of so little that all threads of a multiprocessor leave memory idle are loaded ahead, too, though threads do not meet.
@pytest.mark.parametrize("block, warps, copies", [(256, 4, 3), (1024, 4, 1)])
def test_small_blocks_of_loops_that_ask_are_loaded_ahead(block, warps, copies):
    lines = instructions("pointwise.py::add_persistent", {"x_ptr": "bf16", "y_ptr": "bf16", "out_ptr": "bf16"}, f"n:i32:16, BLOCK:{block}", "--num-warps", str(warps))
    assert sum("ld.global" in line for line in lines) == 2 * copies and sum("st.global" in line for line in lines) == copies
