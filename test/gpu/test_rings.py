"""Rings of loops as deep as memory and their neighbours on the SM allow: slots, what the copies overwrite, how far ahead they are."""
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import registers

SM_BYTES, RESERVED = 233472, 1024  # of an SM of Hopper; of each block on it


def signature(kernel, block, causal=False):
    """Tiles of attention: rows, keys, D."""
    if kernel == "matmul":
        return registers.matmul("bf16", *block)
    if kernel == "matmul_descriptors":
        return registers.signature({"a": "bf16", "b": "bf16", "c": "bf16"}, f"M:i32:16, N:i32:16, K:i32:16, BM:{block[0]}, BN:{block[1]}, BK:{block[2]}")
    return registers.signature({"q": "bf16", "k": "bf16", "v": "bf16", "out": "bf16"},
                               f"scale:fp32, N:i32:16, BM:{block[0]}, BN:{block[1]}, D:{block[2]}, CAUSAL:{causal}")


def compiled(kernel, block, warps, stages, *more, causal=False):
    return registers.run("compile", f"bench/gpu_kernels.py::{kernel}", "--sig", signature(kernel, block, causal), "-t", "sm_90a", "--num-warps", str(warps),
                         "--num-stages", str(stages), *more)


def rings(gpu):
    return [int(n) for n in re.findall(r"shared_alloc \{slots = (\d+)[^}]*\} : shared<\d+x\d+x\w+", gpu) if n != "1"]


def place(lines, pattern):
    return next(i for i, line in enumerate(lines) if re.search(pattern, line))


def loop_of(gpu):
    """Lines of the kernel's only loop."""
    lines = gpu.splitlines()
    first = place(lines, " = for ")
    return lines[first:first + place(lines[first:], "^  }$")]


# One slot for each stage that was asked for, where more would keep a second block off the SM: of four warps, and of eight. Registers must suffice as well.
@pytest.mark.parametrize("kernel, block, warps, slots", [("attention", (64, 64, 128), 4, [3, 3]), ("attention_pointers", (64, 64, 128), 4, [3, 3]),
                                                         ("matmul", (128, 128, 64), 4, [3, 3]), ("matmul_descriptors", (128, 128, 64), 4, [3, 3]),
                                                         ("matmul", (128, 128, 64), 8, [3, 3]), ("matmul_descriptors", (128, 128, 64), 8, [3, 3])])
def test_slots_leave_room_for_a_second_block(kernel, block, warps, slots):
    assert rings(compiled(kernel, block, warps, 3, "--emit", "gpu")) == slots
    shared = int(re.search(r"(\d+) bytes of shared memory", compiled(kernel, block, warps, 3, "--info"))[1])
    assert 2 * (shared + RESERVED) <= SM_BYTES


# So do computed operands (w4a16) with the slot that lets the last iteration's dots run on when the next ones start; with four stages there is no room for two anyway. The words they are
# computed of have a slot for each iteration ahead (one is not listed).
@pytest.mark.parametrize("stages, slots, blocks", [(2, [3, 3], 2), (3, [2, 4, 2], 2), (4, [3, 5, 3], 1)])
def test_computed_operands_leave_room_too(stages, slots, blocks):
    sig = registers.signature({"a": "bf16", "b": "i8", "scale": "bf16", "c": "bf16"}, "M:i32:16, N:i32:16, K:i32:16, BM:128, BN:128, BK:64")
    out = [registers.run("compile", "bench/gpu_kernels.py::matmul_w4", "--sig", sig, "-t", "sm_90a", "--num-warps", "8", "--num-stages", str(stages), *what) for what in (["--emit", "gpu"], ["--info"])]
    assert rings(out[0]) == slots and SM_BYTES // (int(re.search(r"(\d+) bytes of shared memory", out[1])[1]) + RESERVED) == blocks


@pytest.mark.parametrize("columns, warps, stages, slots, blocks", [(128, 8, 3, 2, 2), (64, 4, 3, 3, 2), (64, 8, 3, 3, 2), (32, 4, 5, 3, 3)])
def test_rows_that_indices_find_leave_room(tmp_path, columns, warps, stages, slots, blocks):
    """A part of the stages was asked for for the indices: a slot less where one block more fits then (weights' gradients of a sparse convolution)."""
    source = tmp_path / "gathered.py"
    source.write_text("""
import tegula
import tegula.language as tl
@tegula.jit
def gathered(x, y, rows, c, n, BM: tl.constexpr, BN: tl.constexpr, BP: tl.constexpr):
    p, i, j = tl.arange(0, BP), tl.arange(0, BM), tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for at in range(0, n, BP):
        row = tl.load(rows + at + p, mask=at + p < n, other=0)
        a = tl.load(x + row[:, None] * BM + i[None, :], mask=(at + p < n)[:, None], other=0.0)
        b = tl.load(y + (at + p)[:, None] * BN + j[None, :], mask=(at + p < n)[:, None], other=0.0)
        sums = tl.dot(tl.trans(a), b, sums)
    tl.store(c + i[:, None] * BN + j[None, :], sums)
""")
    sig = f"x:*fp16:16, y:*fp16:16, rows:*i32:16, c:*fp32:16, n:i32, BM:{columns}, BN:64, BP:128"
    gpu, info = [registers.run("compile", f"{source}::gathered", "--sig", sig, "-t", "sm_90a", "--num-warps", str(warps), "--num-stages", str(stages), *what) for what in (["--emit", "gpu"], ["--info"])]
    assert rings(gpu) == [slots, slots]
    assert min(SM_BYTES // (int(re.search(r"(\d+) bytes of shared memory", info)[1]) + RESERVED), 16 // warps) == blocks


def test_one_stage_of_a_launch_is_two_beside_asynchronous_dots(tmp_path):
    """A third slot is one that a dot still reads. What a loop asks for itself stays, and so do dots by mma.sync."""
    source = tmp_path / "staged.py"
    source.write_text("""
import tegula
import tegula.language as tl
@tegula.jit
def product(a, b, c, K, BM: tl.constexpr, ONE: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((BM, 64), tl.float32)
    for i in tl.range(0, K, 64, num_stages=1) if ONE else range(0, K, 64):
        acc = tl.dot(tl.load(a + m[:, None] * K + i + k[None, :]), tl.load(b + (i + k)[:, None] * 64 + n[None, :]), acc)
    tl.store(c + m[:, None] * 64 + n[None, :], acc)
""")

    def emitted(rows, one):
        return registers.run("compile", f"{source}::product", "--sig", f"a:*bf16:16, b:*bf16:16, c:*fp32:16, K:i32:16, BM:{rows}, ONE:{one}", "-t", "sm_90a", "--num-stages", "1", "--emit", "gpu")
    assert rings(emitted(64, False)) == [3, 3] and not rings(emitted(64, True)) and not rings(emitted(32, False))


def test_rows_beside_dots_have_rings_in_little_memory(tmp_path):
    """Slots of rows are not padded to those of tiles: else the last KB was missing for the log-sum-exp of backward attention, which was converted between threads behind two barriers in each iteration."""
    gpu = registers.run("compile", "bench/zoo/kernels/backward.py::dkdv_kernel", "--sig",
                        "Q:*bf16:16, K:*bf16:16, V:*bf16:16, DO:*bf16:16, DK:*bf16:16, DV:*bf16:16, Lse:*fp32:16, Delta:*fp32:16, sm_scale:fp32, N:i32:16, BM:128, BN:64, D:128, CAUSAL:False",
                        "-t", "sm_90a", "--num-warps", "8", "--num-stages", "2", "--emit", "gpu")
    assert "convert" not in "\n".join(loop_of(gpu)) and len(re.findall(r"shared_alloc .* : shared<128xf32", gpu)) == 2


# A block that has the SM for itself anyway, or as many warps as keep the tensor cores busy.
@pytest.mark.parametrize("kernel, block, warps, slots", [("matmul_descriptors", (128, 256, 64), 8, [4, 4]), ("matmul", (128, 256, 64), 8, [4, 4]),
                                                         ("matmul_descriptors", (128, 256, 64), 4, [4, 4])])
def test_otherwise_there_are_more(kernel, block, warps, slots):
    assert rings(compiled(kernel, block, warps, 3, "--emit", "gpu")) == slots


@pytest.mark.parametrize("kernel, slots", [("attention", [3, 3]), ("attention_pointers", [3, 3])])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_128_rows_and_keys_is_pipelined(kernel, slots, causal):
    gpu = compiled(kernel, (128, 128, 128), 8, 2, "--emit", "gpu", "--remarks", causal=causal)
    assert rings(gpu) == slots and "not pipelined" not in gpu and "partitions {" in gpu


@pytest.mark.parametrize("kernel, slots", [("attention", [2, 2]), ("attention_pointers", [2, 2])])
def test_attention_with_256_columns_is_pipelined(kernel, slots):
    gpu = compiled(kernel, (128, 64, 256), 8, 2, "--emit", "gpu", "--remarks")
    assert rings(gpu) == slots and "not pipelined" not in gpu


def test_keys_and_values_have_barriers_of_their_own():
    """A slot of keys is given back in the iteration that reads it, one of values in the next one: two slots are enough for copies ahead. There is a barrier more for the iteration before the first one."""
    gpu = compiled("attention", (128, 64, 256), 8, 2, "--emit", "gpu")
    made = re.findall(r"(%\d+) = barrier_alloc \{slots = (?:2, arrivals = |3, arrivals = (?=8))(\d)", gpu)
    loop = gpu[gpu.index("{pipelined = 1}"):]
    free = {slot: barrier for barrier, slot in re.findall(r"%\d+ = shared_slot (%\d+), (%slot|%last) : shared<1xi64>\n(?=(?:.*\n)*?.*barrier_arrive)", loop) if (barrier, "8") in made}
    assert [n for _, n in made] == ["1", "8", "1", "8"] and free == {"%slot": made[1][0], "%last": made[3][0]}
    assert re.findall(r"barrier_alloc \{slots = ([2-9])", gpu) == ["2", "2", "2", "3"]


@pytest.mark.parametrize("causal", [False, True])
def test_slots_are_given_back_without_a_condition(causal):
    """The first iteration, which follows none, arrives at a spare barrier; under a condition the assembler puts the arrival at the end of the iteration."""
    gpu = compiled("attention", (128, 128, 128), 8, 2, "--emit", "gpu", causal=causal)
    arrivals = set(re.findall(r"barrier_arrive %\d+, (%[\w.]+)\n", gpu))
    assert arrivals and all(re.search(rf"{v} = const {{value = (1|true)}} : i1", gpu) for v in arrivals)
    assert re.findall(r"barrier_alloc \{slots = ([2-9])", gpu) == ["3", "4"]


@pytest.mark.parametrize("block, producer", [((128, 64, 64), False), ((128, 32, 64), False), ((128, 128, 64), True), ((128, 64, 128), True)])
def test_two_blocks_of_eight_warps_need_no_producer(block, producer):
    """Where the registers of the dots leave room for a neighbour, so does shared memory, and the second dot is a step late all the same."""
    gpu = compiled("attention", block, 8, 3, "--emit", "gpu")
    assert ("partitions {" in gpu) == producer and gpu.count(" dot ") == 3 + producer
    if not producer:
        shared = int(re.search(r"(\d+) bytes of shared memory", compiled("attention", block, 8, 3, "--info"))[1])
        assert 2 * (shared + RESERVED) <= SM_BYTES


def occupancy(file, kernel, sig, warps, stages):
    """Blocks on a multiprocessor by shared memory and by registers; bytes spilled."""
    out = registers.run("compile", f"bench/zoo/kernels/{file}.py::{kernel}", "--sig", sig, "-t", "sm_90a", "--num-warps", str(warps), "--num-stages", str(stages), "--info")
    number = lambda text: int(re.search(rf"(\d+) {text}", out)[1])
    return SM_BYTES // (number("bytes of shared memory") + RESERVED), 65536 // (32 * warps * ((number("registers per thread") + 7) // 8 * 8)), number("bytes spilled")


GRADIENTS = "Q:*bf16:16, K:*bf16:16, V:*bf16:16, DO:*bf16:16, "


def test_what_is_computed_of_a_dot_waits_for_a_neighbour():
    """P and dS have a slot each, and queries one less, as the wait for the scores is one for the last iteration's dots anyway; rows have the bytes that they need. H200: one block 497 TFLOP/s, two of Triton's 542."""
    sig = GRADIENTS + "DK:*bf16:16, DV:*bf16:16, Lse:*fp32:16, Delta:*fp32:16, sm_scale:fp32, N:i32:16, BM:64, BN:64, D:128, CAUSAL:False"
    by_shared, by_registers, spilled = occupancy("backward", "dkdv_kernel", sig, 4, 2)
    assert (by_shared, by_registers, spilled) == (2, 2, 0)


def test_loops_over_heads_leave_room_for_neighbours():
    """Only a loop over tiles has as many programs as there are multiprocessors."""
    strides = "stride_qh:i32:16, stride_qm:i32:16, stride_qd:1, stride_kh:i32:16, stride_kn:i32:16, stride_kd:1"
    sig = GRADIENTS + f"DK:*bf16:16, DV:*bf16:16, Lse:*fp32:16, Delta:*fp32:16, sm_scale:fp32, {strides}, N:i32:16, GROUP:8, BM:64, BN:64, D:128"
    assert occupancy("backward_kinds", "keys_of_groups", sig, 4, 2)[0] == 2


def test_loops_that_store_what_they_go_through_leave_room_for_a_neighbour():
    """A gated delta rule's states, 256 programs: one block for 117 KB 205 us on an H200, Triton's two 153. Only whoever ends tiles in a branch has a block on each multiprocessor."""
    sig = "k_ptr:*bf16:16, w_ptr:*bf16:16, u_ptr:*bf16:16, g_ptr:*fp32:16, h_ptr:*bf16:16, new_ptr:*bf16:16, T:i32:16, DV:128, BT:64, BV:32"
    assert occupancy("products_libraries", "delta_states", sig, 4, 2) == (2, 3, 0)


def test_attention_by_four_warps_over_tiles_leaves_room_for_a_neighbour():
    """H200: one block for 148 KB 341 TFLOP/s, Triton's two 467."""
    described = "".join(f"{x}_desc:tensordesc<bf16[64, 128]>, " for x in "qkvo")
    assert occupancy("attention_models", "by_counter", described + "Counter:*i32:16, sm_scale:fp32, H:i32, N:i32:16, tiles:i32:16, BM:64, BN:64, D:128", 4, 3)[:2] == (2, 2)


def test_two_blocks_are_worth_more_than_a_producer_that_is_asked_for(tmp_path):
    """H200, D=64, 128x64 by eight warps: 382 TFLOP/s with one, 476 without; 128x128 leaves no room for two."""
    asks = tmp_path / "kernels.py"
    asks.write_text(re.sub(r" in range\((0, (?:full|N), BN)\)", r" in tl.range(\1, warp_specialize=True)", Path(registers.ROOT, "bench/gpu_kernels.py").read_text()))
    emitted = lambda block, stages: registers.run("compile", f"{asks}::attention", "--sig", signature("attention", block), "-t", "sm_90a", "--num-warps", "8", "--num-stages", str(stages), "--emit", "gpu", "--remarks")
    two, one = emitted((128, 64, 64), 3), emitted((128, 128, 64), 2)
    assert "partitions" not in two and "two blocks find room on a multiprocessor, and hide more [notSpecialized]" in two and "partitions" in one


def test_a_few_spills_for_a_second_block_with_dots():
    """H200: 158 registers and one block 311 TFLOP/s, Triton's two 406."""
    sig = "Q:*bf16:16, K:*bf16:16, V:*bf16:16, Out:*bf16:16, Lse:*fp32:16, sm_scale:fp32, stride_h:i32:16, stride_n:i32:16, N:i32:16, BM:128, BN:64, D:64, CAUSAL:True"
    by_shared, by_registers, spilled = occupancy("attention_spellings", "full_and_masked", sig, 8, 3)
    assert (by_shared >= 2, by_registers) == (True, 2) and spilled <= 64


@pytest.mark.parametrize("kernel, block, warps, blocks", [("attention", (128, 64, 64), 8, 2), ("attention_pointers", (128, 64, 64), 8, 2), ("attention_pointers", (128, 64, 128), 8, 1), ("attention_pointers", (64, 64, 128), 4, 2),
                                                          ("attention_pointers", (64, 64, 64), 4, 4), ("matmul", (128, 128, 64), 8, 2), ("matmul", (128, 256, 64), 8, None)])
def test_loops_with_dots_wish_for_the_blocks_they_planned_for(kernel, block, warps, blocks):
    """The assembler spends registers freely otherwise."""
    wish = re.search(r"\.minnctapersm (\d+)", compiled(kernel, block, warps, 3, "--emit", "ptx", causal=True))
    assert (int(wish[1]) if wish else None) == blocks


def test_what_follows_a_loop_leaves_its_neighbour_the_registers(tmp_path):
    """An activation of the whole tile took 200 registers, so that one block ran on rings that were meant for two."""
    source = tmp_path / "gelu.py"
    source.write_text("""
import tegula
import tegula.language as tl
@tegula.jit
def gelu(a, b, bias, c, K):
    m, k = tl.arange(0, 128), tl.arange(0, 64)
    acc = tl.zeros([128, 128], tl.float32)
    for i in range(0, K, 64):
        acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)[None, :]), tl.load(b + m[None, :] * K + (i + k)[:, None]), acc)
    acc += tl.load(bias + m)[None, :]
    acc = 0.5 * acc * (1 + tl.erf(acc * 0.7071))
    tl.store(c + m[:, None] * 128 + m[None, :], acc)
""")
    sig = "a:*bf16:16, b:*bf16:16, bias:*fp32:16, c:*fp32:16, K:i32:16"
    info = registers.run("compile", f"{source}::gelu", "--sig", sig, "-t", "sm_90a", "--num-warps", "8", "--num-stages", "3", "--info")
    assert int(re.search(r"(\d+) registers", info)[1]) <= 128 and " 0 bytes spilled" in info, info


def test_a_stage_more_behind_the_first_dot():
    """Two stages were asked for: the third has room where the tile of the dot in front of the loop gives its bytes to the rings."""
    assert rings(compiled("attention", (64, 64, 256), 4, 2, "--emit", "gpu")) == [3, 3]


@pytest.mark.parametrize("block, late", [((128, 64, 256), True), ((128, 64, 128), False)])
@pytest.mark.parametrize("causal", [False, True])
def test_second_dot_by_pointers_is_late_where_products_are_long(block, late, causal):
    """Else the first one is an iteration ahead."""
    gpu = compiled("attention_pointers", block, 8, 2, "--emit", "gpu", causal=causal)
    assert gpu.count(" dot ") == 3 + late and bool(re.search(r" = dot %\w+, %\w+, %\w+ .*\n(.*\n){0,12}.* = dot_wait .*pending = 1", gpu)) == late


LOOKED_UP = """
import tegula
import tegula.language as tl
@tegula.jit
def biased(q, k, v, table, out, N, FAR):
    m, n, d = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    tq = tl.load(q + m[:, None] * 64 + d[None, :])
    acc = tl.zeros([64, 64], tl.float32)
    for i in range(0, N, 64):
        distance = (i + n)[None, :] - m[:, None]
        s = tl.dot(tq, tl.load(k + (i + n)[None, :] * 64 + d[:, None])) + tl.load(table + DISTANCE)
        acc = tl.dot(tl.exp2(s).to(tl.bfloat16), tl.load(v + (i + n)[:, None] * 64 + d[None, :]), acc)
    tl.store(out + m[:, None] * 64 + d[None, :], acc)
"""


@pytest.mark.parametrize("distance, slots", [("tl.minimum(tl.maximum(distance, -FAR), FAR) + FAR", [3, 3]), ("tl.where(distance < FAR, distance, FAR)", [3, 3]), ("distance + FAR", [3, 3, 4])])
def test_tables_are_looked_up_by_loads(tmp_path, distance, slots):
    """A copy of elements that each have an address of their own takes a turn for each; sums of what rows and columns have lie side by side."""
    source = tmp_path / "looked_up.py"
    source.write_text(LOOKED_UP.replace("DISTANCE", distance))
    gpu = registers.run("compile", f"{source}::biased", "--sig", "q:*bf16:16, k:*bf16:16, v:*bf16:16, table:*fp32:16, out:*fp32:16, N:i32:16, FAR:i32", "-t", "sm_90a", "--num-warps", "4",
                        "--num-stages", "3", "--emit", "gpu", "--remarks")
    assert rings(gpu) == slots, gpu
    assert ("each element has an address of its own" in gpu) == (len(slots) == 2)


@pytest.mark.parametrize("bias, slots", [("bf16", [2, 2, 2]), ("fp32", [2, 2])])
def test_a_bias_leaves_the_memory_to_the_tiles_of_dots(tmp_path, bias, slots):
    """128 x 128 scores and D=128: beside rings of keys and values there is room for two tiles of a bias of 16 bits, not for those of 32."""
    source = tmp_path / "biased.py"
    source.write_text("""
import tegula
import tegula.language as tl
@tegula.jit
def biased(q, k, v, bias, out, N):
    m, d = tl.arange(0, 128), tl.arange(0, 128)
    tq = tl.load(q + m[:, None] * 128 + d[None, :])
    acc = tl.zeros([128, 128], tl.float32)
    for n in range(0, N, 128):
        s = tl.dot(tq, tl.load(k + (n + m)[None, :] * 128 + d[:, None])) + tl.load(bias + m[:, None] * N + (n + m)[None, :])
        acc = tl.dot(tl.exp2(s).to(tl.bfloat16), tl.load(v + (n + m)[:, None] * 128 + d[None, :]), acc)
    tl.store(out + m[:, None] * 128 + d[None, :], acc)
""")
    sig = f"q:*bf16:16, k:*bf16:16, v:*bf16:16, bias:*{bias}:16, out:*fp32:16, N:i32:16"
    gpu = registers.run("compile", f"{source}::biased", "--sig", sig, "-t", "sm_90a", "--num-warps", "8", "--num-stages", "2", "--emit", "gpu", "--remarks")
    assert rings(gpu) == slots and "not pipelined" not in gpu


# Copies ahead beside two dots: with less work on elements than the products take, they stand under a branch, which keeps that work behind the products. D=64 has more work; a block of one warpgroup
# shares the SM with others; with 128 x 128 scores the first dot is not one iteration ahead, so the work waits for it, and the second one for the work; 256 columns leave no registers, and 128 keys of four warps none that cost no neighbour.
@pytest.mark.parametrize("block, warps, stages, branch", [((128, 128, 64), 8, 3, False), ((64, 64, 128), 4, 3, False), ((128, 128, 128), 8, 2, False),
                                                          ((64, 128, 128), 4, 2, True), ((64, 64, 256), 4, 2, True)])
def test_copies_beside_two_dots(block, warps, stages, branch):
    loop = loop_of(compiled("attention_pointers", block, warps, stages, "--emit", "gpu"))
    assert any(line.lstrip().startswith("if ") for line in loop) == branch and sum("async_copy" in line for line in loop) == 2


# The deepest rings that fit, with a remark: of loops whose warps copy themselves, and with a producer.
@pytest.mark.parametrize("block, warps, stages, slots", [((128, 128, 128), 4, 4, 3), ((128, 128, 128), 8, 5, 3), ((64, 64, 256), 8, 3, 2), ((128, 64, 256), 8, 4, 2)])
def test_fewer_stages_than_asked_for_are_said(block, warps, stages, slots):
    out = compiled("attention", block, warps, stages, "--emit", "gpu", "--remarks")
    assert rings(out)[:2] == [slots, slots]
    said = re.search(r"pipelined with (\d+) stages, not (\d+): those take (\d+) bytes of shared memory, a block has (\d+) ", out)
    assert said and [int(n) for n in said.groups()[:2]] == [slots, stages] and int(said[3]) > int(said[4])


def test_copies_fill_what_the_last_iteration_read():
    """Behind the wait for its dots, and while the next one runs."""
    loop = loop_of(compiled("attention", (64, 64, 128), 4, 3, "--emit", "gpu"))
    assert place(loop, "dot_wait") < place(loop, "barrier_arrive") < place(loop, r"dot .*x128xf32") < place(loop, "one = 1") < place(loop, "tma_copy")


@pytest.mark.parametrize("block, warps, slots, ahead", [((128, 256, 64), 4, 4, 3), ((128, 128, 32), 8, 5, 3)])
def test_copies_start_as_far_ahead_as_the_stages_allow(block, warps, slots, ahead):
    gpu = compiled("matmul_descriptors", block, warps, 3, "--emit", "gpu")
    assert rings(gpu) == [slots, slots]
    assert gpu[:gpu.index(" = for ")].count("tma_copy") == 2 * ahead and "\n".join(loop_of(gpu)).count("tma_copy") == 2


@pytest.mark.parametrize("depth, stages, slots", [(128, 3, 2), (128, 5, 2), (192, 3, 3), (1024, 3, 3)])
def test_no_more_slots_than_iterations(tmp_path, depth, stages, slots):
    source = tmp_path / "short.py"
    source.write_text("""
import tegula
import tegula.language as tl
@tegula.jit
def short(a, b, c, K: tl.constexpr):
    m, k = tl.arange(0, 128), tl.arange(0, 64)
    acc = tl.zeros([128, 128], tl.float32)
    for i in range(0, K, 64):
        acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)[None, :]), tl.load(b + m[None, :] * K + (i + k)[:, None]), acc)
    tl.store(c + m[:, None] * 128 + m[None, :], acc)
""")
    sig = f"a:*bf16:16, b:*bf16:16, c:*fp32:16, K:{depth}"
    assert rings(registers.run("compile", f"{source}::short", "--sig", sig, "-t", "sm_90a", "--num-warps", "8", "--num-stages", str(stages), "--emit", "gpu")) == [slots, slots]


# Products that run into the next iteration hide the conversion of weights; where a grid has more blocks for a multiprocessor, those hide more, and one slot for what is converted leaves them room.
@pytest.mark.parametrize("programs, converted, pending", [(64, 3, 1), (4096, 1, 0)])
def test_weights_that_are_converted_leave_room_in_a_crowd(programs, converted, pending):
    sig = "a_ptr:*bf16:16, b_ptr:*i8:16, scale_ptr:*bf16:16, c_ptr:*bf16:16, M:i32:16, N:i32:16, K:i32:16, BM:64, BN:64, BK:128"
    gpu = registers.run("compile", "bench/zoo/kernels/products_libraries.py::widened", "--sig", sig, "-t", "sm_90a", "--num-warps", "4", "--num-stages", "2", "--programs", str(programs), "--emit", "gpu")
    slots = {shape: int(n) for n, shape in re.findall(r"shared_alloc \{slots = (\d+)[^}]*\} : shared<(\d+x\d+x\w+)", gpu)}
    waits = [int(n) for line in loop_of(gpu) for n in re.findall(r"dot_wait.*pending = (\d+)", line)]
    assert slots["128x64xbf16"] == converted and waits == [pending]


# Where there are no slots for the tiles that the last iteration's dot still reads, without copying less far ahead: copies wait for that dot, and all threads for each other, while this iteration's runs.
@pytest.mark.parametrize("block, warps, stages", [((128, 128, 128), 8, 3), ((64, 128, 128), 4, 4)])
def test_copies_start_behind_the_wait_where_memory_is_short(block, warps, stages):
    gpu = compiled("matmul", block, warps, stages, "--emit", "gpu")
    loop = loop_of(gpu)
    order = [place(loop, p) for p in (" = dot ", "dot_wait .*pending = 1", "async_copy")]
    barriers = [i for i, line in enumerate(loop) if "shared_barrier" in line]
    assert rings(gpu) == [stages, stages] and gpu[:gpu.index(" = for ")].count("async_copy") == 2 * (stages - 1)
    assert order == sorted(order) and len(barriers) == 2 and barriers[0] < order[0] and order[1] < barriers[1] < order[2]


GATED = "gate_ptr:*bf16:16, up_ptr:*bf16:16, w_ptr:*bf16:16, out_ptr:*bf16:16, M:i32:16, N:i32:16, K:i32:16, "


def test_what_is_computed_in_a_loop_stays_in_registers():
    """silu(gate) * up as the A of a product: no ring for it, so that two blocks have room. The last operation stands behind the wait for the product that reads those registers. H200: one block 798 us."""
    run = lambda *what: registers.run("compile", "bench/zoo/kernels/products_libraries.py::gated_rows", "--sig", GATED + "BM:128, BN:128, BK:64", "-t", "sm_90a", "--num-warps", "8", "--num-stages", "3", *what)
    gpu = run("--emit", "gpu")
    loop = loop_of(gpu)
    assert rings(gpu) == [2, 2, 3] and not any(" convert " in line or "shared_store" in line for line in loop)
    a = re.search(r" = dot (%[\w.]+), ", "\n".join(loop))[1]
    assert place(loop, "dot_wait") < place(loop, re.escape(a) + " = fmul ") < place(loop, " = dot ")
    assert occupancy("products_libraries", "gated_rows", GATED + "BM:128, BN:128, BK:64", 8, 3) == (2, 2, 0)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_what_is_computed_of_descriptor_loads_stays_in_registers(tmp_path, dtype):
    """As fragments of the tiles that TMA brings."""
    (tmp_path / "gated.py").write_text("""
import tegula
import tegula.language as tl
@tegula.jit
def gated(a, b, c, M, N, K):
    A, B = tl.make_tensor_descriptor(a, (M, K), (K, 1), (128, 64)), tl.make_tensor_descriptor(b, (N, K), (K, 1), (128, 64))
    pm, pn = tl.program_id(0) * 128, tl.program_id(1) * 128
    acc = tl.zeros((128, 128), tl.float32)
    for i in range(0, K, 64):
        x = A.load([pm, i]).to(tl.float32)
        acc = tl.dot((x * tl.sigmoid(x)).to(tl.bfloat16), B.load([pn, i]).T, acc)
    tl.store(c + (pm + tl.arange(0, 128))[:, None] * N + (pn + tl.arange(0, 128))[None, :], acc)
""")
    gpu = registers.run("compile", f"{tmp_path}/gated.py::gated", "--sig", f"a:*{dtype}:16, b:*bf16:16, c:*fp32:16, M:i32:16, N:i32:16, K:i32:16", "-t", "sm_90a", "--num-warps", "8", "--num-stages", "3", "--emit", "gpu")
    body = gpu[gpu.rindex(" = for "):]
    assert body.count("= shared_load") == 1 and "async_mma" in body and "shared_store" not in body and not re.search(r" = convert .*bf16", body[:body.index("\n  }")])


EXPERTS = "x_ptr:*fp8e4nv:16, w_ptr:*fp8e4nv:16, sx_ptr:*fp32:16, sw_ptr:*fp32:16, out_ptr:*bf16:16, sorted_ids:*i32:16, expert_ids:*i32:16, valid:i32:16, rows_in:i32:16, N:i32:16, K:i32:16, TOP_K:8, BM:32, BN:128, BK:128, GROUP:16"


def test_tiles_that_are_read_from_their_rings_take_no_scratch():
    """Conversions to the registers of mma.sync are reads of rings: three blocks in a crowd, which 16 KB beside the rings left two. H200: 252 -> 225 us, Triton's three 216."""
    info = registers.run("compile", "bench/zoo/kernels/products_libraries.py::experts_by_blocks", "--sig", EXPERTS, "-t", "sm_90a", "--num-warps", "4", "--num-stages", "4", "--programs", "2048", "--info")
    assert 3 * (int(re.search(r"(\d+) bytes of shared memory", info)[1]) + RESERVED) <= SM_BYTES


@pytest.mark.parametrize("block, vec", [((64, 128, 64), 16), ((64, 64, 128), 8)])
def test_bytes_that_are_only_widened_are_copied_by_sixteen(block, vec):
    """Where their rows fill all banks that way."""
    sig = f"a_ptr:*bf16:16, b_ptr:*i8:16, scale_ptr:*bf16:16, c_ptr:*bf16:16, M:i32:16, N:i32:16, K:i32:16, BM:{block[0]}, BN:{block[1]}, BK:{block[2]}"
    gpu = registers.run("compile", "bench/zoo/kernels/products_libraries.py::widened", "--sig", sig, "-t", "sm_90a", "--num-warps", "4", "--num-stages", "3", "--emit", "gpu")
    bytes_ = re.search(rf"(%\d+) = shared_alloc .*shared<{block[2]}x{block[1]}xi8", gpu)[1]
    slots = re.findall(rf"(%\d+) = shared_slot {bytes_}, ", gpu)
    assert {int(n) for n in re.findall(rf"async_copy (?:{'|'.join(slots)}), .*vec = (\d+)", gpu)} == {vec}


def test_products_that_add_to_zero_are_pipelined(tmp_path):
    """The zero is no tile of a ring (random program 1434)."""
    (tmp_path / "zero.py").write_text("""
import tegula
import tegula.language as tl
@tegula.jit
def products(x, out, stride):
    k, m, n = tl.arange(0, 32), tl.arange(0, 64), tl.arange(0, 32)
    for i in tl.range(0, 3, 1, num_stages=3, warp_specialize=True, disallow_acc_multi_buffer=True, disable_licm=True):
        product = tl.dot(tl.load(x + m[:, None] * stride + k[None, :]), tl.load(x + k[:, None] + n[None, :] * stride))
        tl.store(out + m[:, None] * 32 + n[None, :] + i * 2048, product)
""")
    gpu = registers.run("compile", f"{tmp_path}/zero.py::products", "--sig", "x:*fp16:16, out:*fp32:16, stride:i32:16", "-t", "sm_90a", "--num-warps", "4", "--emit", "gpu")
    assert " dot " in gpu


HALF_SUMS = "a_ptr:*fp16:16, b_ptr:*fp16:16, c_ptr:*fp16:16, M:i32:16, N:i32:16, K:i32:16, "


@pytest.mark.parametrize("block, warps, stages, slots", [("BM:64, BN:64, BK:16", 8, 1, [6, 6]), ("BM:64, BN:64, BK:32", 4, 3, [4, 4])])
def test_small_tiles_by_many_warps_are_copied_farther_ahead(block, warps, stages, slots):
    """As far as 48 KiB under way on an SM, while no block is lost: 4 KB an iteration by eight warps in three blocks. Where four warps have room for more blocks, the stages that were asked for do. H200: 1243 us one iteration ahead,
    1118 with these."""
    assert rings(registers.run("compile", "bench/zoo/kernels/products.py::half_sums", "--sig", HALF_SUMS + block, "-t", "sm_90a", "--num-warps", str(warps), "--num-stages", str(stages), "--emit", "gpu")) == slots


EIGHT_BITS = "Q:*fp8e4nv:16, K:*fp8e4nv:16, V:*fp8e4nv:16, QScale:*fp32:16, KScale:*fp32:16, VScale:*fp32:16, Out:*fp16:16, N:i32:16, H:i32:16, "


@pytest.mark.parametrize("block, warps, ahead", [("BM:128, BN:64, D:64", 4, False), ("BM:128, BN:128, D:128", 8, False), ("BM:128, BN:128, D:64", 8, True)])
def test_the_next_scores_are_computed_ahead_where_sums_behind_products_leave_room(block, warps, ahead):
    """fp8 products are added to the sums behind them, which takes the registers of a result more beside the next scores. H200, D=64, 128x64 by four warps: 1303 us with them, 1124 without; D=128, 128x128 by eight 905, 807."""
    gpu = registers.run("compile", "bench/zoo/kernels/attention_models.py::scaled_eight_bits", "--sig", EIGHT_BITS + block, "-t", "sm_90a", "--num-warps", str(warps), "--num-stages", "3", "--emit", "gpu")
    before = gpu[:gpu.rindex(" = for ")]
    assert (" = dot " in before) == ahead


@pytest.mark.parametrize("block, warps, stages, programs, slots", [((64, 256, 32), 4, 4, 4096, [4, 4]), ((64, 256, 32), 4, 4, 64, [5, 5]), ((64, 256, 32), 4, 3, 4096, [4, 4]), ((64, 64, 32), 4, 3, 4096, [4, 4])])
def test_no_stage_to_spare_where_much_is_under_way(block, warps, stages, programs, slots):
    """Three iterations of 20 KB in two blocks are enough; two of them, and a block alone, have a stage to spare, as smaller tiles do."""
    assert rings(compiled("matmul_descriptors", block, warps, stages, "--programs", str(programs), "--emit", "gpu")) == slots


def test_descriptions_of_slots_take_one_addition():
    """What does not change about the address of a ring is in front of its loop: no bits are cut out of it beside the products (of 128 x 64 + 64 x 128, four warps, 94 instructions an iteration for 104)."""
    ptx = compiled("matmul", (128, 128, 64), 4, 3, "--emit", "ptx")
    loop = ptx[ptx.index("cp.async.wait_group"):]
    before = loop[:loop.index("wgmma.mma_async")]
    assert "bfe.u32" not in before and "shr.u32" not in before


@pytest.mark.parametrize("rows, kept", [(64, True), (128, False)])
def test_places_of_rings_are_kept_where_registers_have_room(rows, kept):
    """Attention of 128 columns by four warps: results and weights of 128 rows fill a thread's registers, so that no word of descriptions stays in one through the loop: the place is cut out of the slot's address each time."""
    ptx = compiled("attention_pointers", (rows, 64, 128), 4, 3, "--emit", "ptx")
    loop = ptx[ptx.index("cp.async.wait_group", ptx.index("cp.async.wait_group") + 1):]
    assert ("bfe.u32" in loop[:loop.index("wgmma.mma_async")]) != kept
