"""The text of a dot by multiply-adds does not grow with its contraction, nor that of other work with its tile: the assembler's time goes with it."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def matmul(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), ACC)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + k[None, :] + i)
        y = tl.load(b + (k[:, None] + i) * N + n[None, :])
        acc = tl.dot(x, y, acc, input_precision="ieee", out_dtype=ACC)
    tl.store(c + m[:, None] * N + n[None, :], acc)


def products(t, tile, warps, target):
    """Multiply-adds in the PTX."""
    bm, bn, bk = tile
    a, b, c = np.zeros((bm, bk), t), np.zeros((bk, bn), t), np.zeros((bm, bn), t)
    kernel = matmul.warmup(a, b, c, bn, bk, bm, bn, bk, tl.float64 if t == np.float64 else tl.float32, grid=(1,), device="sim", num_warps=warps)
    ptx = kernel.compile_for(target).stage("ptx")
    return len(re.findall(r"\bfma\.rn\.f", ptx))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("t, tile, warps", [(np.float32, (128, 256), 8), (np.float32, (64, 64), 4), (np.float64, (64, 64), 4)])
def test_contraction_is_a_loop(t, tile, warps, target):
    counts = {depth: products(t, (*tile, depth), warps, target) for depth in (32, 64)}
    sums = tile[0] * tile[1] // (32 * warps)
    assert counts[32] == counts[64] and sums <= counts[32] <= 1024 and counts[32] % sums == 0


@tegula.jit
def multiply_add(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.fma(tl.load(x + i), tl.load(y + i), tl.load(x)))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("t, name", [(np.float16, "f16"), (ml_dtypes.bfloat16, "bf16")])
def test_narrow_multiply_adds_are_instructions(t, name, target):
    """Two elements an instruction where a thread has pairs, else one; nothing in double."""
    for n, each in (1024, f"fma.rn.{name}x2"), (128, f"fma.rn.{name}"):
        x = np.zeros(n, t)
        ptx = multiply_add.warmup(x, x, x, n, grid=(1,), device="sim").compile_for(target).stage("ptx")
        assert re.findall(r"\bfma\S+", ptx) == [each] * max(1, n // 256) and ".f64" not in ptx


@tegula.jit
def chain(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.exp(tl.sin(v)) + tl.log(v * v + 1))


@tegula.jit
def division(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, i // tl.load(x + i).to(tl.int32))


@tegula.jit
def softmax(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + i, e / tl.sum(e, 0))


@tegula.jit
def sum_of_range(x, out, N: tl.constexpr):
    tl.store(out, tl.sum(tl.arange(0, N)))


@pytest.mark.parametrize("kernel", [chain, division, softmax, sum_of_range])
def test_large_tiles_are_done_in_loops(kernel):
    def lines(n):
        made = kernel.warmup(np.zeros(n, np.float32), np.zeros(n, np.float32), n, grid=(1,), device="sim", num_warps=4)
        ptx = made.compile_for("sm_90a").stage("ptx")
        return len(ptx.splitlines())

    assert lines(1 << 19) < 1.1 * lines(1 << 16) < 2000


@tegula.jit
def copies(x, y, n, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [n, 64], [64, 1], [8, 64])
    to = tl.make_tensor_descriptor(y, [n, 64], [64, 1], [8, 64])
    for i in tl.static_range(N):
        to.store([i * 8, 0], source.load([i * 8, 0]))


def test_copies_by_descriptor_do_not_branch():
    """LLVM looks at all uses of a condition for each branch on it: a thousand copies took 12 s."""

    def branches(n):
        a = np.zeros((8, 64), np.float32)
        ptx = copies.warmup(a, a, 8 * n, n, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")
        assert ptx.count("cp.async.bulk.tensor.2d.shared") == n  # of two boxes, which two warps share
        return len(re.findall(r"\bbra\b(?! again)", ptx))

    assert branches(4) == branches(8) == 0


@tegula.jit
def matmul_by_descriptors(a, b, c, K, W: tl.constexpr):
    da, db = tl.make_tensor_descriptor(a, [128, K], [K, 1], [128, 64]), tl.make_tensor_descriptor(b, [K, 128], [128, 1], [64, 128])
    acc = tl.zeros((128, 128), tl.float32)
    for k in tl.range(0, K, 64, warp_specialize=W):
        acc = tl.dot(da.load([0, k]), db.load([k, 0]), acc)
    tl.store(c + tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :], acc)


@pytest.mark.parametrize("specialized", [False, True])
def test_barriers_of_a_producer_are_made_under_a_branch(specialized):
    """The assembler makes better code of it. Of a predicate on each it makes a branch around each."""
    a, c = np.zeros((128, 128), np.float16), np.zeros((128, 128), np.float32)
    ptx = matmul_by_descriptors.warmup(a, a, c, 128, specialized, grid=(1,), device="sim", num_warps=8).compile_for("sm_90a").stage("ptx")
    assert ("setmaxnreg" in ptx) == specialized
    # All of both rings by one statement, behind which threads meet once.
    rows = re.findall(r"(?:\tmbarrier\.init[^\n]*\n)+", ptx)
    assert len(rows) == 1 and rows[0].count("mbarrier.init") >= 6
    assert bool(re.search(r"@!%p\d+ bra \tskip;\n\tmbarrier\.init", ptx)) != specialized
    assert len(re.findall(r"bar\.sync|barrier\.sync", ptx[:ptx.index("cp.async.bulk.tensor")])) == 1


@tegula.jit
def checked_sums(x, out, n, COUNT: tl.constexpr):
    a = n
    for j in tl.static_range(COUNT):
        a = a * n + j
    tl.store(out, a)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_assertions_share_their_end(target):
    x = np.zeros(8, np.float32)
    lines = {}
    for count in (4, 8):
        ptx = checked_sums.warmup(x, x, 3, count, grid=(1,), device="sim", debug=True).compile_for(target).stage("ptx")
        assert ptx.count("trap;") == 1 and ptx.count("atom.global.sys") == 1
        lines[count] = len(ptx.splitlines())
    assert lines[8] - lines[4] < 4 * 2 * 15  # two checks a round


def test_assertions_on_cpus_hand_no_number_to_a_common_end():
    x = np.zeros(1, np.int32)
    llvm = checked_sums.warmup(x, x, 3, 40, grid=(1,), device="cpu", debug=True).stage("llvm")
    assert llvm.count("call void @tegula.fault(") >= 40
    assert all(line.count("], [") < 8 for line in llvm.splitlines() if " phi " in line)


@tegula.jit
def butterflies(x, out, ROWS: tl.constexpr, N: tl.constexpr, LOG: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    for i in tl.static_range(LOG):
        a, b = tl.split(tl.permute(tl.reshape(v, (ROWS * N // (2 << i), 2, 1 << i)), (0, 2, 1)))
        v = tl.reshape(tl.permute(tl.join(a + b, a - b), (0, 2, 1)), (ROWS, N))
    tl.store(out + at, v)


@pytest.mark.parametrize("rows", [1, 16])
def test_split_and_join_make_no_copies(rows):
    """Each stage of a Hadamard transform adds and subtracts once for each pair, however the threads hold the pairs: with one element a thread both
    threads of a pair compute it."""
    x = np.zeros((rows, 128), np.float32)
    ptx = butterflies.warmup(x[:, 1:], x, rows, 128, 7, grid=(1,), device="sim", num_warps=4).compile_for("sm_90a").stage("ptx")
    assert len(re.findall(r"\b(add|sub)(\.rn)?\.f32", ptx)) <= 7 * max(2, rows)


def test_stages_exchange_each_bit_once():
    """Five bits of a lane are exchanged with registers that no later stage is about, two more on the way to the vectors of a store: sixteen pairs of 32 elements each, with three selections."""
    x = np.zeros((1, 1024), np.float32)
    ptx = butterflies.warmup(x, x, 1, 1024, 10, grid=(1,), device="sim", num_warps=1).compile_for("sm_90a").stage("ptx")
    assert ptx.count("shfl.sync") <= 7 * 16 and ptx.count("selp") <= 7 * 48


@tegula.jit
def counted(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    v = v - ((v >> 1) & 0x55555555)
    v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
    v = (((v + (v >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24
    tl.store(out + tl.arange(0, N), v)


def test_bits_counted_by_hand():
    x = np.zeros(256, np.uint32)
    ptx = counted.warmup(x, np.zeros_like(x), 256, grid=(1,), device="sim", num_warps=4).compile_for("sm_90a").stage("ptx")
    assert ptx.count("popc.b32") == 2 and "mul.lo" not in ptx


@tegula.jit
def sorted_row(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.sort(tl.load(x + tl.arange(0, N))))


def test_words_of_64_bits_are_sorted_as_they_are():
    """Runs that fall reverse the comparisons; to complement the elements takes two instructions for each."""
    x = np.zeros(256, np.int64)
    ptx = sorted_row.warmup(x, np.zeros_like(x), 256, grid=(1,), device="sim", num_warps=1).compile_for("sm_90a").stage("ptx")
    assert not re.search(r"(not|xor)\.b64", ptx)


@tegula.jit
def logarithms(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.log(tl.load(x + tl.arange(0, N))))


def test_special_logarithms_are_found_by_two_comparisons():
    """And a third one is for subnormals."""
    x = np.zeros(128, np.float32)
    ptx = logarithms.warmup(x, np.zeros_like(x), 128, grid=(1,), device="sim", num_warps=4).compile_for("sm_90a").stage("ptx")
    assert ptx.count("setp.") <= 3 and len(re.findall(r"(fma|mul|add|sub)\.(rn\.)?f32", ptx)) <= 14


@tegula.jit
def shifted(x, out, n, stride, N: tl.constexpr):
    i = tl.program_id(1) * N + tl.arange(0, N)
    at = tl.program_id(0).to(tl.int64) * stride + i
    tl.store(out + at, tl.load(x + at, mask=i < n) + 1, mask=i < n)


def test_registers_of_a_tile_share_an_address():
    """A multiple of the block and a position in it have no bit in common, so their sum does not wrap and its constants are parts of the instructions."""
    x = np.zeros(1 << 16, np.int16)
    kernel = shifted.warmup(x, x, 50257, 50257, 4096, grid=(2, 4), device="sim", num_warps=8)
    ptx = kernel.compile_for("sm_90a").stage("ptx")
    assert len(re.findall(r"(?:mul|mad)\.wide", ptx)) <= 6 and len(re.findall(r"ld\.global\.[bu]16", ptx)) == 16


@tegula.jit
def quantized(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.extra.libdevice.rint(tl.load(x + i) * 3.0).to(out.dtype.element_ty))


@pytest.mark.parametrize("t, name", [(np.int8, "s8"), (np.uint8, "u8"), (np.int16, "s16"), (np.uint16, "u16")])
def test_a_float_becomes_a_small_integer_by_one_instruction(t, name):
    """Rounded to nearest and saturated by cvt alone: no bounds, no sum with 2^23."""
    x = np.zeros(1024, np.float32)
    kernel = quantized.warmup(x, x.astype(t), 1024, grid=(1,), device="sim", num_warps=4)
    ptx = kernel.compile_for("sm_90a").stage("ptx")
    assert ptx.count("cvt.rni.f32.f32") == 8 and ptx.count(f"cvt.rzi.{name}.f32") == 8
    assert not re.search(r"\b(min|max)\.[su]32|add(\.rn)?\.f32|abs\.f32", ptx)


@tegula.jit
def normals(out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.randn(7, i), mask=i < n)


@tegula.jit
def waves(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.sin(tl.load(x + i)))


def calls(kernel):
    return len(re.findall(r"\bcall\.uni|\bcall\b", kernel.compile_for("sm_90a").stage("ptx")))


# An angle below 2^17 for certain needs no function for large ones.
def test_angles_of_random_numbers_are_small():
    out = np.zeros(1024, np.float32)
    assert calls(normals.warmup(out, 1000, 1024, grid=(1,), device="sim")) == 0
    assert calls(waves.warmup(out, out, 1024, grid=(1,), device="sim")) > 0


@tegula.jit
def gated_gradients(gate, up, dy, dgate, dup, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0) * cols, tl.arange(0, BLOCK)
    mask = c < cols
    g = tl.load(gate + row + c, mask=mask, other=0).to(tl.float32)
    u = tl.load(up + row + c, mask=mask, other=0).to(tl.float32)
    d = tl.load(dy + row + c, mask=mask, other=0).to(tl.float32)
    s = tl.sigmoid(g)
    tl.store(dup + row + c, (d * g * s).to(dup.dtype.element_ty), mask=mask)
    tl.store(dgate + row + c, (d * u * (g * s * (1 - s) + s)).to(dgate.dtype.element_ty), mask=mask)


# 64 elements of three tensors are 96 registers and more before the first is used: one loop over parts, which reads nothing again, leaves room for a second block.
@pytest.mark.parametrize("dtype, warps, parts", [(ml_dtypes.bfloat16, 8, 2), (np.float32, 8, 4), (np.float32, 16, 1)])
def test_element_wise_work_on_many_words_is_done_in_parts(dtype, warps, parts):
    x = [np.zeros(16384, dtype) for _ in range(5)]
    ptx = gated_gradients.warmup(*x, 14336, 16384, num_warps=warps, grid=(8,), device="sim").compile_for("sm_90a").stage("ptx")
    assert len(re.findall(r"ld\.global\.v4", ptx)) == 3 * 16384 * x[0].itemsize // 16 // (32 * warps) // parts
