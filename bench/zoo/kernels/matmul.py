"""Matrix product, in the ways it is published: what differs is how the operands are read, how K ends and who loops over the tiles."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from zoo.table import Entry, Launch, cdiv, configs, shapes

PROGRAMS = 132  # SMs of an H100 or H200


@triton.jit
def tile_of(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of a tile: tiles go down GROUP rows before they go right, for the L2 cache."""
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    width = GROUP * num_n
    group = pid // width
    first = group * GROUP
    rows = min(num_m - first, GROUP)
    return first + ((pid % width) % rows), (pid % width) // rows


@triton.jit
def modulo(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid_m, pid_n = tile_of(tl.program_id(axis=0), M, N, BM, BN, GROUP)
    offs_am = (pid_m * BM + tl.arange(0, BM)) % M
    offs_bn = (pid_n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BM + tl.arange(0, BM)
    offs_cn = pid_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


@triton.jit
def as_words(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    """C = A @ B^T of what is float32 in any case: operands of 16 bits as users widen them, float32 in more terms than one."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    columns = tl.program_id(1) * BN + tl.arange(0, BN)[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        along = start + tl.arange(0, BK)[None, :]
        x = tl.load(A + rows * K + along, mask=(rows < M) & (along < K), other=0.0).to(tl.float32)
        y = tl.load(B + columns * K + along, mask=(columns < N) & (along < K), other=0.0).to(tl.float32)
        total += tl.dot(x, tl.trans(y), input_precision=PRECISION)
    across = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    tl.store(C + rows * N + across, total.to(C.dtype.element_ty), mask=(rows < M) & (across < N))


@triton.jit
def masked(A, B, C, M, N, K, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN_K: tl.constexpr, STAGES: tl.constexpr):
    """Masks in place of the modulo, the offsets computed anew in each iteration, the depth of the pipeline on the loop."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for k0 in tl.range(0, K, BK, num_stages=STAGES):
        k = k0 + tl.arange(0, BK)
        if EVEN_K:
            x = tl.load(A + m[:, None] * lda + k[None, :], mask=m[:, None] < M, other=0)
            y = tl.load(B + k[:, None] * ldb + n[None, :], mask=n[None, :] < N, other=0)
        else:
            x = tl.load(A + m[:, None] * lda + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0)
            y = tl.load(B + k[:, None] * ldb + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0)
        acc += tl.dot(x, y)
    tl.store(C + m[:, None] * ldc + n[None, :], acc.to(C.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def block_pointers(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid_m, pid_n = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    a_block = tl.make_block_ptr(base=a_ptr, shape=(M, K), strides=(stride_am, 1), offsets=(pid_m * BM, 0), block_shape=(BM, BK), order=(1, 0))
    b_block = tl.make_block_ptr(base=b_ptr, shape=(K, N), strides=(stride_bk, 1), offsets=(0, pid_n * BN), block_shape=(BK, BN), order=(1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(a, b)
        a_block = tl.advance(a_block, (0, BK))
        b_block = tl.advance(b_block, (BK, 0))
    c_block = tl.make_block_ptr(base=c_ptr, shape=(M, N), strides=(stride_cm, 1), offsets=(pid_m * BM, pid_n * BN), block_shape=(BM, BN), order=(1, 0))
    tl.store(c_block, acc.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def host_descriptors(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid_m, pid_n = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    off_m = pid_m * BM
    off_n = pid_n * BN
    off_k = 0
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        a = a_desc.load([off_m, off_k])
        b = b_desc.load([off_n, off_k])
        acc = tl.dot(a, b.T, acc)
        off_k += BK
    c_desc.store([off_m, off_n], acc.to(c_desc.dtype))


@triton.jit
def kernel_descriptors(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    pid_m, pid_n = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(tl.cdiv(K, BK)):
        acc += tl.dot(a_desc.load([pid_m * BM, k * BK]), b_desc.load([k * BK, pid_n * BN]))
    c_desc.store([pid_m * BM, pid_n * BN], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def persistent(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SMS: tl.constexpr,
               SPECIALIZE: tl.constexpr, SUBTILE: tl.constexpr):
    """A program goes through many tiles; with SUBTILE the result leaves in two halves, which need half of the shared memory."""
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    k_tiles = tl.cdiv(K, BK)
    for tile_id in tl.range(tl.program_id(0), tiles, SMS, flatten=True, warp_specialize=SPECIALIZE):
        pid_m, pid_n = tile_of(tile_id, M, N, BM, BN, GROUP)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for ki in range(k_tiles):
            a = a_desc.load([pid_m * BM, ki * BK])
            b = b_desc.load([pid_n * BN, ki * BK])
            acc = tl.dot(a, b.T, acc)
        if SUBTILE:
            halves = tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            c_desc.store([pid_m * BM, pid_n * BN], left.to(c_desc.dtype))
            c_desc.store([pid_m * BM, pid_n * BN + BN // 2], right.to(c_desc.dtype))
        else:
            c_desc.store([pid_m * BM, pid_n * BN], acc.to(c_desc.dtype))


@triton.jit
def persistent_pointers(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                        GROUP: tl.constexpr, SMS: tl.constexpr):
    """One loop over all (tile, k), which begins a tile under an `if` and ends it under another: written before compilers flattened loops."""
    start = tl.program_id(0)
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    k_tiles = tl.cdiv(K, BK)
    mine = tiles // SMS
    if start < tiles % SMS:
        mine += 1
    tile_id = start - SMS
    ki = -1
    pid_m = 0
    pid_n = 0
    offs_k = tl.arange(0, BK)
    offs_am = tl.arange(0, BM)
    offs_bn = tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, k_tiles * mine):
        ki = tl.where(ki == k_tiles - 1, 0, ki + 1)
        if ki == 0:
            tile_id += SMS
            pid_m, pid_n = tile_of(tile_id, M, N, BM, BN, GROUP)
            offs_am = pid_m * BM + tl.arange(0, BM)
            offs_bn = pid_n * BN + tl.arange(0, BN)
            offs_am = tl.where(offs_am < M, offs_am, 0)
            offs_bn = tl.where(offs_bn < N, offs_bn, 0)
            offs_am = tl.max_contiguous(tl.multiple_of(offs_am, BM), BM)
            offs_bn = tl.max_contiguous(tl.multiple_of(offs_bn, BN), BN)
        k = ki * BK + offs_k
        a = tl.load(a_ptr + (offs_am[:, None] * stride_am + k[None, :]), mask=offs_k[None, :] < K - ki * BK, other=0.0)
        b = tl.load(b_ptr + (k[:, None] * stride_bk + offs_bn[None, :]), mask=offs_k[:, None] < K - ki * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        if ki == k_tiles - 1:
            offs_cm = pid_m * BM + tl.arange(0, BM)
            offs_cn = pid_n * BN + tl.arange(0, BN)
            tl.store(c_ptr + stride_cm * offs_cm[:, None] + offs_cn[None, :], acc.to(c_ptr.dtype.element_ty), mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))
            acc = tl.zeros((BM, BN), dtype=tl.float32)


def inputs(m, s, t):
    return dict(a=m.normal((s.M, s.K), t), b=m.normal((s.K, s.N), t), bt=m.normal((s.N, s.K), t), c=m.empty((s.M, s.N), t), d=m.empty((s.M, s.N), t))


TILES = configs("BM BN BK GROUP num_warps num_stages", (64, 64, 32, 8, 4, 3), (128, 128, 64, 8, 8, 3), (128, 128, 64, 8, 4, 4), (128, 256, 64, 8, 8, 3),
                (256, 128, 64, 8, 8, 3), (64, 128, 64, 8, 4, 4), (128, 128, 32, 4, 4, 5), (64, 256, 32, 8, 4, 4))
MNK = shapes("M N K", (8192, 8192, 8192), (4096, 4096, 4096), (8192, 8192, 512), (1024, 1024, 8192))
SMALL = shapes("M N K", (96, 72, 80))
COMMON = dict(inputs=inputs, shapes=MNK, small=SMALL, dtypes=("bf16", "fp16"), flops=lambda s: 2 * s.M * s.N * s.K, sustained=True)


def tiles(s, c):
    return cdiv(s.M, c.BM) * cdiv(s.N, c.BN)


matmul = Entry("matmul", outputs=("c",), reference=lambda x, a, s: a.a @ a.b, library=lambda torch, a, s: torch.mm(a.a, a.b), **COMMON)


@matmul.spelling("pointers, modulo", TILES)
def _(a, s, c):
    return Launch(modulo, (tiles(s, c),), (a.a, a.b, a.c, s.M, s.N, s.K, s.K, 1, s.N, 1, s.N, 1), **vars(c))


@matmul.spelling("pointers, masks, stages on the loop", configs("BM BN BK num_warps STAGES", (64, 64, 32, 4, 3), (128, 128, 64, 8, 3), (128, 256, 64, 8, 3), (64, 128, 64, 4, 4)))
def _(a, s, c):
    return Launch(masked, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.a, a.b, a.c, s.M, s.N, s.K, s.K, s.N, s.N), EVEN_K=s.K % c.BK == 0, **vars(c))


@matmul.spelling("block pointers", TILES)
def _(a, s, c):
    return Launch(block_pointers, (tiles(s, c),), (a.a, a.b, a.c, s.M, s.N, s.K, s.K, s.N, s.N), **vars(c))


@matmul.spelling("descriptors in the kernel", TILES)
def _(a, s, c):
    return Launch(kernel_descriptors, (tiles(s, c),), (a.a, a.b, a.c, s.M, s.N, s.K), **vars(c))


@matmul.spelling("persistent pointers", TILES)
def _(a, s, c):
    programs = min(PROGRAMS, tiles(s, c))
    return Launch(persistent_pointers, (programs,), (a.a, a.b, a.c, s.M, s.N, s.K, s.K, s.N, s.N), SMS=programs, **vars(c))


nt = Entry("matmul B transposed", outputs=("c",), reference=lambda x, a, s: a.a @ x.swapaxes(a.bt, 0, 1), library=lambda torch, a, s: torch.mm(a.a, a.bt.T), **COMMON)


def described(a, s, c, store_n):
    return (TensorDescriptor(a.a, [s.M, s.K], [s.K, 1], [c.BM, c.BK]), TensorDescriptor(a.bt, [s.N, s.K], [s.K, 1], [c.BN, c.BK]),
            TensorDescriptor(a.c, [s.M, s.N], [s.N, 1], [c.BM, store_n]), s.M, s.N, s.K)


@nt.spelling("pointers, strides", TILES)
def _(a, s, c):
    return Launch(modulo, (tiles(s, c),), (a.a, a.bt, a.c, s.M, s.N, s.K, s.K, 1, 1, s.K, s.N, 1), **vars(c))


@nt.spelling("host descriptors", TILES)
def _(a, s, c):
    return Launch(host_descriptors, (tiles(s, c),), described(a, s, c, c.BN), **vars(c))


def persistent_launch(a, s, c, specialize, subtile):
    programs = min(PROGRAMS, tiles(s, c))
    return Launch(persistent, (programs,), described(a, s, c, c.BN // 2 if subtile else c.BN), SMS=programs, SPECIALIZE=specialize, SUBTILE=subtile, **vars(c))


@nt.spelling("persistent", TILES)
def _(a, s, c):
    return persistent_launch(a, s, c, False, False)


@nt.spelling("persistent, result in halves", TILES)
def _(a, s, c):
    return persistent_launch(a, s, c, False, True)


@nt.spelling("persistent, warp_specialize", TILES)
def _(a, s, c):
    return persistent_launch(a, s, c, True, False)


tn = Entry("matmul A transposed", outputs=("c",), inputs=lambda m, s, t: dict(at=m.normal((s.K, s.M), t), b=m.normal((s.K, s.N), t), c=m.empty((s.M, s.N), t)),
           reference=lambda x, a, s: x.swapaxes(a.at, 0, 1) @ a.b, shapes=shapes("M N K", (4096, 4096, 8192), (1024, 1024, 16384)), small=SMALL, dtypes=("bf16", "fp32"),
           flops=lambda s: 2 * s.M * s.N * s.K, library=lambda torch, a, s: torch.mm(a.at.T, a.b))


@tn.spelling("pointers, strides", TILES[:6])
def _(a, s, c):
    return Launch(modulo, (tiles(s, c),), (a.at, a.b, a.c, s.M, s.N, s.K, 1, s.M, s.N, 1, s.N, 1), **vars(c))


words = Entry("matmul of TF32", outputs=("c",), inputs=lambda m, s, t: dict(a=m.normal((s.M, s.K), t), b=m.normal((s.K, s.N), t), c=m.empty((s.M, s.N), t)),
              reference=lambda x, a, s: a.a @ a.b, shapes=shapes("M N K", (4096, 4096, 4096), (1024, 1024, 4096)), small=SMALL, dtypes=("fp32",), flops=lambda s: 2 * s.M * s.N * s.K,
              library=lambda torch, a, s: torch.mm(a.a, a.b))
WORD_TILES = configs("BM BN BK GROUP num_warps num_stages", (64, 64, 32, 8, 4, 3), (128, 128, 32, 8, 8, 3), (128, 128, 32, 8, 4, 3), (128, 256, 32, 8, 8, 3), (64, 128, 64, 8, 4, 2), (128, 64, 16, 8, 4, 4))


@words.spelling("pointers, modulo", WORD_TILES)
def _(a, s, c):
    return Launch(modulo, (tiles(s, c),), (a.a, a.b, a.c, s.M, s.N, s.K, s.K, 1, s.N, 1, s.N, 1), **vars(c))


@words.spelling("block pointers", WORD_TILES)
def _(a, s, c):
    return Launch(block_pointers, (tiles(s, c),), (a.a, a.b, a.c, s.M, s.N, s.K, s.K, s.N, s.N), **vars(c))


@words.spelling("descriptors in the kernel", WORD_TILES)
def _(a, s, c):
    return Launch(kernel_descriptors, (tiles(s, c),), (a.a, a.b, a.c, s.M, s.N, s.K), **vars(c))


several = Entry("matmul in several terms", outputs=("c",), inputs=lambda m, s, t: dict(a=m.normal((s.M, s.K), t), b=m.normal((s.N, s.K), t), c=m.empty((s.M, s.N), t)),
                reference=lambda x, a, s: a.a @ x.swapaxes(a.b, 0, 1), shapes=shapes("M N K", (2048, 2048, 2048), (4096, 32, 16384)), small=SMALL, dtypes=("fp32", "bf16"), flops=lambda s: 2 * s.M * s.N * s.K)


@several.spelling("widened, pointers", configs("BM BN BK PRECISION num_warps num_stages", (32, 32, 32, "tf32x3", 4, 3), (64, 64, 32, "tf32x3", 4, 3), (128, 64, 32, "tf32x3", 8, 2), (16, 32, 64, "tf32x3", 4, 3),
                                                (32, 64, 128, "tf32", 4, 2), (128, 128, 64, "tf32", 8, 3), (64, 64, 32, "bf16x3", 4, 3)))
def _(a, s, c):
    return Launch(as_words, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.a, a.b, a.c, s.M, s.N, s.K), **vars(c))


skinny = Entry("matmul of few rows", outputs=("c",), inputs=inputs, reference=lambda x, a, s: a.a @ x.swapaxes(a.bt, 0, 1), shapes=shapes("M N K", (16, 8192, 8192), (64, 4096, 14336)),
               small=shapes("M N K", (16, 72, 160)), dtypes=("bf16", "fp16"), bytes=lambda s, e: e * (s.N * s.K + s.M * (s.N + s.K)), library=lambda torch, a, s: torch.mm(a.a, a.bt.T))


@skinny.spelling("pointers, strides", configs("BM BN BK GROUP num_warps num_stages", (16, 64, 64, 1, 4, 4), (16, 32, 256, 1, 4, 4), (16, 64, 128, 1, 4, 5), (16, 128, 128, 1, 4, 4), (64, 64, 128, 1, 4, 4)))
def _(a, s, c):
    return Launch(modulo, (tiles(s, c),), (a.a, a.bt, a.c, s.M, s.N, s.K, s.K, 1, 1, s.K, s.N, 1), **vars(c))
