"""Loops whose dots multiply more bits than they load: what is loaded comes ahead, by copies as narrow as it is, and little but its widening stands between
it and the tensor cores. dot_scaled does no more than the same kernel with the widening written out."""
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import registers


def compiled(fmt, tile, warps, stages, by_hand, stage="ptx", scale_stride="i32:16"):
    t, g = ("u8", 16) if fmt == "e2m1" else ("fp8", 32)
    pointers = {"a": t, "sa": "u8", "b": t, "sb": "u8", "c": "bf16"}
    rest = ("M:i32:16, N:i32:16, K:i32:16, stride_a:i32:16, stride_b:i32:16, "
            f"stride_sa:{scale_stride}, stride_sb:{scale_stride}, BM:{tile[0]}, BN:{tile[1]}, BK:{tile[2]}, GROUP:8, FORMAT:'{fmt}', G:{g}, BY_HAND:{by_hand}")
    return registers.run("compile", "bench/gpu_kernels.py::matmul_mx", "--sig", registers.signature(pointers, rest), "-t", "sm_90a", "--emit", stage,
                         "--num-warps", str(warps), "--num-stages", str(stages))


def loop_of(ptx):
    """Instructions of the loop with the tensor cores' in it."""
    lines = [line.strip() for line in ptx.splitlines()]
    labels = {line[:-1]: i for i, line in enumerate(lines) if re.fullmatch(r"\$L\w+:", line)}
    bodies = []
    for i, line in enumerate(lines):
        m = re.search(r"\bbra(?:\.uni)?\s+(\$L\w+);", line)
        if m and labels.get(m[1], i) < i and any("wgmma.mma" in x for x in lines[labels[m[1]]:i]):
            bodies.append(lines[labels[m[1]]:i])
    return [line for line in max(bodies, key=len) if line.endswith(";") or "wgmma" in line]


def count(loop, pattern):
    return sum(1 for line in loop if re.search(pattern, line))


SHAPES = [((128, 128, 128), 4, 3), ((128, 128, 64), 8, 3), ((64, 128, 128), 4, 4), ((128, 256, 128), 8, 2)]


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("tile, warps, stages", SHAPES)
@pytest.mark.parametrize("fmt, per_element", [("e4m3", 4.2), ("e2m1", 5.1)])
def test_operands_and_scales_are_loaded_ahead(fmt, per_element, tile, warps, stages, by_hand):
    loop = loop_of(compiled(fmt, tile, warps, stages, by_hand))
    elements = (tile[0] + tile[1]) * tile[2] // (32 * warps)  # of a thread
    copied = sum(int(m[1]) for line in loop if (m := re.search(r"cp\.async\.c[ag]\.shared\.global .*, (\d+)(?:, |;)", line)))
    assert copied == elements // (2 if fmt == "e2m1" else 1)
    # Scales, a few registers of them; the ring's barriers and the one in front of the dot are all.
    groups = tile[2] // (16 if fmt == "e2m1" else 32)
    assert 2 <= count(loop, r"ld\.global") <= max(2, (tile[0] + tile[1]) * groups // (32 * warps))
    assert 2 <= count(loop, r"\bbar(rier)?\.sync") <= 3
    assert count(loop, r"wgmma\.mma") and len(loop) < per_element * elements + 55


@pytest.mark.parametrize("fmt", ["e4m3", "e2m1"])
@pytest.mark.parametrize("tile, warps, stages", SHAPES)
def test_the_library_does_no_more_than_one_would_write(fmt, tile, warps, stages):
    library, by_hand = (len(loop_of(compiled(fmt, tile, warps, stages, h))) for h in (False, True))
    assert library < 1.1 * by_hand


def test_scales_of_any_alignment():
    """Bytes: an iteration ahead in registers, then in a ring."""
    loop = loop_of(compiled("e4m3", (128, 128, 64), 8, 3, False, scale_stride="i32"))
    assert count(loop, r"ld\.global\.\S*[bus]8\b") == 2 and count(loop, r"\bbar(rier)?\.sync") == 2
    first = next(i for i, line in enumerate(loop) if "ld.global" in line)
    assert first < next(i for i, line in enumerate(loop) if "cp.async.wait_group" in line) < next(i for i, line in enumerate(loop) if "wgmma.mma" in line)


# Bytes of the operands as they are loaded (a slot for each iteration ahead: they are read first), and widened: three slots, two where one more block fits the SM then, or as memory allows, one.
@pytest.mark.parametrize("tile, stages, slots", [((64, 64, 64), 3, 2), ((128, 128, 64), 4, 3), ((128, 128, 128), 3, 2), ((128, 256, 128), 2, 1)])
def test_computed_operands_take_the_slots_that_fit(tile, stages, slots):
    gpu = compiled("e4m3", tile, 8 if tile[1] == 256 else 4, stages, False, "gpu")
    rings = re.findall(r"shared_alloc \{slots = (\d+)[^}]*\} : shared<(\d+)x(\d+)x(\w+)", gpu)
    wide = {int(n) for n, rows, columns, t in rings if t == "bf16" and int(rows) * int(columns) >= 64 * 64}
    narrow = {int(n) for n, _, _, t in rings if t == "f8e4m3fn"}
    assert wide == {slots} and len(narrow) == 1 and min(narrow) >= stages - 1


def test_scales_of_long_iterations_come_one_ahead():
    """An iteration whose products take as long as memory needs its scales one iteration ahead; a short one as far ahead as its copies (prefetch-loads.ir). Copies stand under a branch, as scales are
    stored among them, and so the products are a loop."""
    gpu = compiled("e2m1", (128, 256, 64), 8, 3, False, "gpu")
    loop = next(line for line in gpu.splitlines() if " = for " in line)
    assert re.search(r"%p: tensor<128x\d+xi8", loop) and "%p.1" not in loop
    assert re.search(r"dot .*rounds = 4", gpu)


def test_bytes_of_w4a16_are_computed_four_at_a_time():
    """Reading them one by one, as mma.sync wants them, would save the way through shared memory and cost more instructions than that."""
    pointers = {"a": "bf16", "b": "i8", "scale": "bf16", "c": "bf16"}
    ptx = registers.run("compile", "bench/gpu_kernels.py::matmul_w4", "--sig", registers.signature(pointers, "M:i32:16, N:i32:16, K:i32:16, BM:16, BN:64, BK:128"), "-t", "sm_90a",
                        "--num-warps", "4", "--num-stages", "4", "--emit", "ptx")
    assert "ld.shared.v4" in ptx and not re.search(r"ld\.shared\.[us]8", ptx)


def zoo(kernel, tile, target, weights="u8", more=()):
    pointers = {"a_ptr": "bf16", "b_ptr": weights, "scales_ptr": "bf16", **dict(more), "c_ptr": "bf16"}
    return registers.run("compile", f"bench/zoo/kernels/quantized.py::{kernel}", "--sig", registers.signature(pointers, f"M:i32:16, N:i32:16, K:i32:16, G:128, {tile}"),
                         "-t", target, "--num-stages", "4", "--emit", "ptx")


# What stands side by side in memory along the contraction does so in a thread, for both operands, until a word of bytes is a word.
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_few_rows_read_bytes_by_words(target):
    ptx = zoo("w4a16_interleaved", "BM:16, BN:64, BK:128", target)
    assert "mma.sync" in ptx and ptx.count("ldmatrix") == 2 and ptx.count("ld.shared.v4.b32") == 8 + 1 and not re.search(r"ld\.shared\.\w8\b|cvt\.rn\.\w+\.[su](8|16|32)\b", ptx)


def test_columns_of_bytes_leave_the_instructions_order():
    """Weights that are consecutive along N have nothing to gain from it, and ldmatrix brings the other operand."""
    assert "ldmatrix" in zoo("w8a16", "BM:16, BN:64, BK:64", "sm_90a", more={"zeros_ptr": "u8"}.items())
