"""Attention in spellings of other people (bench/zoo): what they cost in common is not theirs."""
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import registers

POINTERS = "Q:*bf16:16, K:*bf16:16, V:*bf16:16, Out:*bf16:16, "


def compiled(kernel, signature, warps, stages, *more):
    return registers.run("compile", f"bench/zoo/kernels/{kernel}", "--sig", signature, "-t", "sm_90a", "--num-warps", str(warps), "--num-stages", str(stages), *more)


# Four products and a comparison for each exponential that keeps subnormal results; one product otherwise.
@pytest.mark.parametrize("kernel", ["advanced", "normalised"])
def test_exponentials_beside_a_one_are_flushed(kernel):
    ptx = compiled(f"attention_spellings.py::{kernel}", POINTERS + "Lse:*fp32:16, sm_scale:fp32, stride_h:i32:16, stride_n:i32:16, N:i32:16, BM:64, BN:64, D:64, CAUSAL:True", 4, 3, "--emit", "ptx")
    assert ptx.count("ex2.approx.ftz.f32") >= 34 and "ex2.approx.f32" not in ptx


# Fragments and sums that are made while another dot runs: ptxas serializes all dots of the loop (C7513), so that one is waited for, but not what is computed beside it.
def test_dots_of_two_tiles_are_not_serialized():
    gpu = compiled("attention_kinds.py::two_tiles", POINTERS + "sm_scale:fp32, N:i32:16, BM:64, BN:64, D:64", 4, 3, "--emit", "gpu").splitlines()
    dots = [i for i, line in enumerate(gpu) if " = dot " in line and "async = 1" in line]
    assert len(dots) == 4
    waits = [i for i, line in enumerate(gpu) if " = dot_wait " in line and dots[2] < i < dots[3]]
    exponentials = [i for i, line in enumerate(gpu) if " = exp2 " in line and "64x64" in line]
    assert waits and exponentials[1] < waits[0]


# An instruction that begins a sum does not read it: zeroes would be moved into its registers, which is waited for as well (C7517).
def test_sums_that_begin_at_zero_are_not_read():
    ptx = compiled("attention_kinds.py::two_tiles", POINTERS + "sm_scale:fp32, N:i32:16, BM:64, BN:64, D:64", 4, 3, "--emit", "ptx")
    loop = ptx[ptx.index("wgmma.mma_async"):]
    assert len(re.findall(r"mov\.f32", loop)) <= 16


# Fragments of 8 bits are exchanged between the lanes of a warp: the second dot is late all the same. With the next first dot ahead instead, the loop had too few registers (C7512).
@pytest.mark.parametrize("keys, d", [(128, 128), (64, 128), (128, 64)])
def test_second_dots_of_8_bits_are_late(keys, d):
    pointers = "Q:*fp8e5:16, K:*fp8e5:16, V:*fp8e5:16, Out:*fp16:16, "
    gpu = compiled("attention_kinds.py::eight_bits", pointers + f"sm_scale:fp32, N:i32:16, BM:128, BN:{keys}, D:{d}", 8, 2, "--emit", "gpu")
    assert re.findall(r"dot_wait [^{]*\{pending = (\d)", gpu)[:3] == ["1", "0", "0"]  # both of the loop's, the last
    assert ["async = 1" in line for line in gpu.splitlines() if " = dot " in line] == [False, True, True, True]  # with stages to spare the first iteration is not the loop's; its dot is waited for at once


def dots_of(ptx):
    """(loops of rounds, products) of each statement with dots"""
    statements = [text.split("// end inline asm")[0] for text in ptx.split("// begin inline asm")]
    return [(text.count("again:"), text.count("wgmma.mma_async")) for text in statements if "wgmma.mma_async" in text]


DESCRIBED = "".join(f"{x}d:tensordesc<bf16[128, 128]>, " for x in "qkvo")


# The assembler takes milliseconds for each product, and as long for a copy of the softmax: where the sum begins at zero, and block copies fill few stages, the first iteration is one of the loop's. Its late dot computes nothing that the second one's reads.
def test_first_iterations_are_in_the_loop():
    sig = DESCRIBED + "Lse:*fp32:16, sm_scale:fp32, N:i32:16, BM:128, BN:128, D:128, CAUSAL:False"
    gpu = compiled("attention_styles.py::long_first", sig, 8, 2, "--emit", "gpu")
    dots = [line.split("dot ")[1].split("{")[0].strip().split(", ") for line in gpu.splitlines() if " = dot " in line]
    assert len(dots) == 3 and gpu.count(" = exp2 ") == 2
    for dot in dots[1:]:
        assert re.search(re.escape(dot[2]) + r" = select %\w+, %\w+, %", gpu)
    ptx = compiled("attention_styles.py::long_first", sig, 8, 2, "--emit", "ptx")
    assert dots_of(ptx) == [(0, 8)] * 3
    assert len(re.findall(r"selp\.f32", ptx[:ptx.index("bra.uni", ptx.rindex("wait_group.sync.aligned 1"))])) <= 8  # of the sums none


# Where it is not, nothing runs beside the first dot, so its products are two in a loop.
def test_first_dot_of_late_ones_is_a_loop():
    sig = DESCRIBED + "Lse:*fp32:16, sm_scale:fp32, N:i32:16, BM:128, BN:128, D:128, CAUSAL:True"
    ptx = compiled("attention_styles.py::long_first", sig, 8, 2, "--emit", "ptx")
    assert dots_of(ptx) == [(0, 8), (0, 8), (0, 8), (1, 2), (0, 8), (0, 8), (0, 8)]
    # Where threads copy the tiles, the order that ptxas gives the main loop then lost more than it gained.
    sig = "Q:*bf16:16, K:*bf16:16, V:*bf16:16, Out:*bf16:16, Lse:*fp32:16, sm_scale:fp32, N:i32:16, BM:128, BN:128, D:128, CAUSAL:1"
    assert "again:\n" not in compiled("attention.py::attention_block_pointers", sig, 8, 2, "--emit", "ptx")


# A branch of the author's around the mask is a selection while dots are staggered, and a branch again behind. Left where it was, the dots waited at once, and ptxas serialized them (C7514).
def test_second_dots_are_late_beside_branches_around_masks():
    sig = POINTERS + "Lse:*fp32:16, sm_scale:fp32, stride_h:i32:16, stride_n:i32:16, N:i32:16, BM:128, BN:128, D:128, CAUSAL:True"
    gpu = compiled("attention_spellings.py::scaled_queries", sig, 8, 2, "--emit", "gpu")
    assert re.findall(r"dot_wait [^{]*\{pending = (\d)", gpu)[:4] == ["0", "1", "0", "0"]
    assert re.search(r" = if %\w+ : tensor<128x128xf32, \w+> \{\n\s*yield", gpu)


# A scale for each block of keys: one element, which the iteration before loads.
def test_single_elements_are_loaded_ahead():
    sig = "Q:*i8:16, K:*i8:16, V:*fp16:16, Qs:*fp32:16, Ks:*fp32:16, Out:*fp16:16, N:i32:16, BM:64, BN:64, D:64"
    gpu = compiled("attention_kinds.py::int8_scores", sig, 4, 3, "--emit", "gpu")
    loop = gpu[gpu.index(" = for "):]
    load = re.search(r"(%[\w.]+) = load (%[\w.]+), (%[\w.]+) : f32", loop)
    assert load and re.search(r"yield .*" + re.escape(load[1]) + r"\b", loop) and not re.search(r"= load %[\w.]+ : f32", loop)


# Scaled queries of two loops lie in one tile: with one for each loop there was no memory for the stages of a producer.
def test_scaled_queries_of_two_loops_have_one_tile():
    sig = DESCRIBED + "Lse:*fp32:16, sm_scale:fp32, N:i32:16, BM:128, BN:128, D:128, CAUSAL:True"
    gpu = compiled("attention_styles.py::long_first", sig, 8, 2, "--emit", "gpu")
    assert gpu.count(" = to_shared %q") == 1 and "partitions" in gpu
    assert gpu.count("shared_alloc {slots = 3") == 2  # the block that was loaded and the scaled one have the same bytes


# Tiles in turn: registers of the first dot, whose first round alone does not read them, would be live from tile to tile (260 bytes of spills, C7512), so they are cleared; without a loop around they are not.
def test_sums_of_a_tile_are_not_live_from_the_last_one():
    cleared = r"mov\.b32 \t%f\d+, 0;"
    sig = DESCRIBED + "Lse:*fp32:16, sm_scale:fp32, {}N:i32:16, BM:128, BN:128, D:128, CAUSAL:True"
    ptx = compiled("attention_styles.py::tiles_in_turn", sig.format("H:i32:16, "), 8, 2, "--emit", "ptx")
    assert len(re.findall(cleared, ptx)) == 64
    assert not re.findall(cleared, compiled("attention_styles.py::long_first", sig.format(""), 8, 2, "--emit", "ptx"))


# Threads of a producer that copy masked rows know how far those lie apart: an address for each row of two tiles took 64 of 88 registers, and spilled (505 TFLOP/s, 620 by steps, H200). Without masks they stay: steps are
# multiplications in the loop (0.90-1.09).
def test_addresses_of_masked_rows_follow_from_the_first():
    sig = POINTERS + "Lse:*fp32:16, sm_scale:fp32, stride_h:i32:16, stride_n:i32:16, N:i32:16, BM:128, BN:128, D:128, CAUSAL:False"
    ptx = compiled("attention_styles.py::block_pointers_checked", sig, 8, 2, "--emit", "ptx")
    producer = ptx[ptx.index("setmaxnreg.dec"):ptx.index("setmaxnreg.inc")]
    assert producer.count("cp.async.cg") == 32 and producer.count("add.s64") <= 52  # 30 of them from row to row
