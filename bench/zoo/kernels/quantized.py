"""Matrix products of small types: int8, fp8 with one scale and with scales of 128-blocks, weights of 4 and 8 bits with scales and zeros of groups."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from zoo.table import Entry, Launch, cdiv, configs, shapes


@triton.jit
def scaled_int8(a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """int8 x int8 in int32, scaled by a's rows and b's columns; b is N x K."""
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    group = pid // (GROUP * num_n)
    size = min(num_m - group * GROUP, GROUP)
    pid_m = group * GROUP + (pid % (GROUP * num_n)) % size
    pid_n = (pid % (GROUP * num_n)) // size
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a_ptrs = a_ptr + (rm % M)[:, None] * K + rk[None, :]
    b_ptrs = b_ptr + (rn % N)[None, :] * K + rk[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=rk[None, :] < K - k * BK, other=0)
        b = tl.load(b_ptrs, mask=rk[:, None] < K - k * BK, other=0)
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
        a_ptrs += BK
        b_ptrs += BK
    sa = tl.load(sa_ptr + rm, mask=rm < M, other=0.0)
    sb = tl.load(sb_ptr + rn, mask=rn < N, other=0.0)
    c = acc.to(tl.float32) * sa[:, None] * sb[None, :]
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], c.to(c_ptr.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def fp8_pointers(a_ptr, b_ptr, c_ptr, scale_a, scale_b, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, IMPRECISE: tl.constexpr):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    group = pid // (GROUP * num_n)
    size = min(num_m - group * GROUP, GROUP)
    pid_m = group * GROUP + (pid % (GROUP * num_n)) % size
    pid_n = (pid % (GROUP * num_n)) // size
    rm = (pid_m * BM + tl.arange(0, BM)) % M
    rn = (pid_n * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    a_ptrs = a_ptr + rm[:, None] * K + rk[None, :]
    b_ptrs = b_ptr + rk[:, None] + rn[None, :] * K
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=rk[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc, max_num_imprecise_acc=IMPRECISE)
        a_ptrs += BK
        b_ptrs += BK
    acc *= scale_a * scale_b
    cm = pid_m * BM + tl.arange(0, BM)
    cn = pid_n * BN + tl.arange(0, BN)
    tl.store(c_ptr + cm[:, None] * N + cn[None, :], acc.to(c_ptr.dtype.element_ty), mask=(cm[:, None] < M) & (cn[None, :] < N))


@triton.jit
def fp8_persistent(a_desc, b_desc, c_desc, scale_a, scale_b, M, N, K, SMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_m * num_n, SMS, flatten=True):
        group = tile // (GROUP * num_n)
        size = min(num_m - group * GROUP, GROUP)
        m = (group * GROUP + (tile % (GROUP * num_n)) % size) * BM
        n = ((tile % (GROUP * num_n)) // size) * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BK)):
            acc = tl.dot(a_desc.load([m, k * BK]), b_desc.load([n, k * BK]).T, acc)
        c_desc.store([m, n], (acc * (scale_a * scale_b)).to(c_desc.dtype))


@triton.jit
def fp8_blocks(a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """Activations scaled by 1 x 128 blocks, weights (N x K) by 128 x 128: each block's product is scaled before it is added."""
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    group = pid // (GROUP * num_n)
    size = min(num_m - group * GROUP, GROUP)
    pid_m = group * GROUP + (pid % (GROUP * num_n)) % size
    pid_n = (pid % (GROUP * num_n)) // size
    rm = (pid_m * BM + tl.arange(0, BM)) % M
    rn = (pid_n * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    scales_k = tl.cdiv(K, 128)
    a_ptrs = a_ptr + (rm[:, None] * K + rk[None, :])
    b_ptrs = b_ptr + (rk[:, None] + rn[None, :] * K)
    sa_ptrs = sa_ptr + rm * scales_k
    sb_ptrs = sb_ptr + (rn // 128) * scales_k
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=rk[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=rk[:, None] < K - k * BK, other=0.0)
        at = k * BK // 128
        sa = tl.load(sa_ptrs + at)
        sb = tl.load(sb_ptrs + at)
        acc += tl.dot(a, b) * sa[:, None] * sb[None, :]
        a_ptrs += BK
        b_ptrs += BK
    cm = pid_m * BM + tl.arange(0, BM)
    cn = pid_n * BN + tl.arange(0, BN)
    tl.store(c_ptr + cm[:, None] * N + cn[None, :], acc.to(c_ptr.dtype.element_ty), mask=(cm[:, None] < M) & (cn[None, :] < N))


@triton.jit
def w4a16(a_ptr, b_ptr, scales_ptr, zeros_ptr, c_ptr, M, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Eight weights along K in an int32; a scale and a zero (packed eight along N) for each G rows of K."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a_ptrs = a_ptr + rm[:, None] * K + rk[None, :]
    b_ptrs = b_ptr + (rk[:, None] // 8) * N + rn[None, :]
    shift_k = (rk % 8) * 4
    shift_n = (rn % 8) * 4
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=rm[:, None] < M, other=0.0)
        b = tl.load(b_ptrs)
        group = k * BK // G
        scale = tl.load(scales_ptr + group * N + rn)
        zero = tl.load(zeros_ptr + group * (N // 8) + rn // 8)
        zero = ((zero >> shift_n) & 0xF)
        w = (b >> shift_k[:, None]) & 0xF
        w = ((w - zero[None, :]).to(tl.float32) * scale[None, :].to(tl.float32)).to(a.dtype)
        acc = tl.dot(a, w, acc)
        a_ptrs += BK
        b_ptrs += (BK // 8) * N
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(c_ptr.dtype.element_ty), mask=rm[:, None] < M)


@triton.jit
def w4a16_interleaved(a_ptr, b_ptr, scales_ptr, c_ptr, M, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two weights in a byte, taken apart by tl.join; symmetric around 8."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=rm[:, None] < M, other=0.0)
        packed = tl.load(b_ptr + rn[:, None] * (K // 2) + k // 2 + tl.arange(0, BK // 2)[None, :])
        low = (packed & 0xF).to(tl.int8) - 8
        high = (packed >> 4).to(tl.int8) - 8
        w = tl.reshape(tl.join(low, high), (BN, BK))
        scale = tl.load(scales_ptr + rn * (K // G) + k // G)
        w = w.to(a.dtype) * scale[:, None].to(a.dtype)
        acc += tl.dot(a, tl.trans(w))
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(c_ptr.dtype.element_ty), mask=rm[:, None] < M)


@triton.jit
def w8a16(a_ptr, b_ptr, scales_ptr, zeros_ptr, c_ptr, M, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), num_stages=3):
        kk = k * BK + rk
        a = tl.load(a_ptr + rm[:, None] * K + kk[None, :], mask=(rm[:, None] < M) & (kk[None, :] < K), other=0.0)
        w = tl.load(b_ptr + kk[:, None] * N + rn[None, :], mask=kk[:, None] < K, other=0)
        group = k * BK // G
        scale = tl.load(scales_ptr + group * N + rn).to(tl.float32)
        zero = tl.load(zeros_ptr + group * N + rn).to(tl.float32)
        w = ((w.to(tl.float32) - zero[None, :]) * scale[None, :]).to(a.dtype)
        acc += tl.dot(a, w)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(c_ptr.dtype.element_ty), mask=rm[:, None] < M)


def tiles(s, c):
    return cdiv(s.M, c.BM) * cdiv(s.N, c.BN)


PRODUCT = dict(outputs=("c",), flops=lambda s: 2 * s.M * s.N * s.K, sustained=True)
BIG = shapes("M N K", (8192, 8192, 8192), (4096, 4096, 4096), (4096, 14336, 4096))
TILES = configs("BM BN BK GROUP num_warps num_stages", (64, 64, 64, 8, 4, 3), (128, 128, 128, 8, 8, 3), (128, 256, 128, 8, 8, 3), (128, 128, 128, 8, 4, 4), (128, 256, 64, 8, 8, 4), (64, 128, 128, 8, 4, 4))

int8 = Entry("matmul int8", inputs=lambda m, s, t: dict(a=m.integers((s.M, s.K), -127, 128, "int8"), b=m.integers((s.N, s.K), -127, 128, "int8"), sa=m.uniform((s.M,), "fp32", 0.001, 0.01),
             sb=m.uniform((s.N,), "fp32", 0.001, 0.01), c=m.empty((s.M, s.N), "bf16")),
             reference=lambda x, a, s: (x.float(a.a) @ x.swapaxes(x.float(a.b), 0, 1)) * a.sa[:, None] * a.sb[None, :], shapes=BIG, small=shapes("M N K", (72, 88, 160)), dtypes=("int8",), **PRODUCT)


@int8.spelling("pointers", TILES)
def _(a, s, c):
    return Launch(scaled_int8, (tiles(s, c),), (a.a, a.b, a.sa, a.sb, a.c, s.M, s.N, s.K), **vars(c))


def fp8_inputs(m, s, t):
    return dict(a=m.normal((s.M, s.K), t), b=m.normal((s.N, s.K), t), c=m.empty((s.M, s.N), "bf16"))


fp8 = Entry("matmul fp8", inputs=fp8_inputs, reference=lambda x, a, s: (a.a @ x.swapaxes(a.b, 0, 1)) * 0.125, shapes=BIG, small=shapes("M N K", (72, 80, 160)), dtypes=("fp8e4", "fp8e5"), **PRODUCT)


@fp8.spelling("pointers", TILES)
def _(a, s, c):
    return Launch(fp8_pointers, (tiles(s, c),), (a.a, a.b, a.c, 0.5, 0.25, s.M, s.N, s.K), IMPRECISE=None, **vars(c))


@fp8.spelling("pointers, accumulation in chunks", TILES[:4])
def _(a, s, c):
    return Launch(fp8_pointers, (tiles(s, c),), (a.a, a.b, a.c, 0.5, 0.25, s.M, s.N, s.K), IMPRECISE=c.BK // 2, **vars(c))


@fp8.spelling("persistent host descriptors", TILES)
def _(a, s, c):
    programs = min(132, tiles(s, c))
    described = lambda t, rows, cols, bm, bn: TensorDescriptor(t, [rows, cols], [cols, 1], [bm, bn])
    return Launch(fp8_persistent, (programs,), (described(a.a, s.M, s.K, c.BM, c.BK), described(a.b, s.N, s.K, c.BN, c.BK), described(a.c, s.M, s.N, c.BM, c.BN), 0.5, 0.25,
                                                s.M, s.N, s.K), SMS=programs, **vars(c))


def block_inputs(m, s, t):
    return dict(fp8_inputs(m, s, t), sa=m.uniform((s.M, cdiv(s.K, 128)), "fp32", 0.01, 0.1), sb=m.uniform((cdiv(s.N, 128), cdiv(s.K, 128)), "fp32", 0.01, 0.1))


def block_reference(x, a, s):
    wide_a = a.a * x.repeat(a.sa, 128, 1)[:, :s.K]
    wide_b = a.b * x.repeat(x.repeat(a.sb, 128, 0), 128, 1)[:s.N, :s.K]
    return wide_a @ x.swapaxes(wide_b, 0, 1)


blocks = Entry("matmul fp8 by blocks of 128", inputs=block_inputs, reference=block_reference, shapes=BIG[1:] + shapes("M N K", (64, 7168, 4096)), small=shapes("M N K", (72, 144, 272)), dtypes=("fp8e4",), **PRODUCT)


@blocks.spelling("pointers", configs("BM BN BK GROUP num_warps num_stages", (64, 64, 128, 8, 4, 3), (128, 128, 128, 8, 8, 3), (64, 128, 128, 8, 4, 4), (128, 128, 128, 8, 4, 3), (64, 256, 128, 8, 8, 3), (128, 128, 64, 8, 8, 4)))
def _(a, s, c):
    return Launch(fp8_blocks, (tiles(s, c),), (a.a, a.b, a.sa, a.sb, a.c, s.M, s.N, s.K), **vars(c))


GROUPED = shapes("M N K G", (16, 8192, 8192, 128), (1, 4096, 4096, 128), (4096, 8192, 8192, 128))
FEW = configs("BM BN BK num_warps num_stages", (16, 32, 64, 4, 4), (16, 64, 128, 4, 4), (16, 128, 64, 4, 4), (64, 128, 64, 4, 3), (128, 128, 64, 8, 3))


def nibbles(x, packed, count, axis):
    """The values of 4 bits in the elements of `packed`, lowest first, along `axis`."""
    parts = x.stack([(packed >> (4 * i)) & 0xF for i in range(count)], axis=axis + 1)
    shape = list(packed.shape)
    shape[axis] *= count
    return x.float(parts.reshape(shape))


def w4_reference(x, a, s):
    w = nibbles(x, a.b, 8, 0) - x.repeat(nibbles(x, a.zeros, 8, 1), s.G, 0)
    return a.a @ (w * x.repeat(a.scales, s.G, 0))


def low_inputs(m, s, t):
    low, high = -2**31, 2**31
    return dict(a=m.normal((s.M, s.K), t), b=m.integers((s.K // 8, s.N), low, high, "int32"), scales=m.uniform((s.K // s.G, s.N), t, 0.001, 0.01),
                zeros=m.integers((s.K // s.G, s.N // 8), low, high, "int32"), c=m.empty((s.M, s.N), t))


w4 = Entry("matmul w4a16", inputs=low_inputs, reference=w4_reference, shapes=GROUPED, small=shapes("M N K G", (5, 128, 256, 128)), dtypes=("fp16", "bf16"), **{**PRODUCT, "sustained": False})


@w4.spelling("pointers, int32, zeros", FEW)
def _(a, s, c):
    return Launch(w4a16, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.a, a.b, a.scales, a.zeros, a.c, s.M, s.N, s.K), G=s.G, **vars(c))


def byte_reference(x, a, s):
    return a.a @ x.swapaxes((nibbles(x, a.b, 2, 1) - 8) * x.repeat(a.scales, s.G, 1), 0, 1)


w4_bytes = Entry("matmul w4a16 by bytes", inputs=lambda m, s, t: dict(a=m.normal((s.M, s.K), t), b=m.integers((s.N, s.K // 2), 0, 256, "uint8"), scales=m.uniform((s.N, s.K // s.G), t, 0.001, 0.01),
                 c=m.empty((s.M, s.N), t)), reference=byte_reference, shapes=GROUPED, small=shapes("M N K G", (5, 128, 256, 128)), dtypes=("bf16", "fp16"), **{**PRODUCT, "sustained": False})


@w4_bytes.spelling("tl.join, tl.trans", FEW)
def _(a, s, c):
    return Launch(w4a16_interleaved, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.a, a.b, a.scales, a.c, s.M, s.N, s.K), G=s.G, **vars(c))


w8 = Entry("matmul w8a16", inputs=lambda m, s, t: dict(a=m.normal((s.M, s.K), t), b=m.integers((s.K, s.N), 0, 256, "uint8"), scales=m.uniform((s.K // s.G, s.N), t, 0.001, 0.01),
           zeros=m.integers((s.K // s.G, s.N), 100, 150, "uint8"), c=m.empty((s.M, s.N), t)),
           reference=lambda x, a, s: a.a @ ((x.float(a.b) - x.repeat(x.float(a.zeros), s.G, 0)) * x.repeat(a.scales, s.G, 0)), shapes=GROUPED,
           small=shapes("M N K G", (5, 128, 256, 128)), dtypes=("bf16", "fp16"), **{**PRODUCT, "sustained": False})


@w8.spelling("pointers, zeros", configs("BM BN BK num_warps", (16, 32, 64, 4), (16, 64, 128, 4), (16, 128, 64, 4), (64, 128, 64, 4), (128, 128, 64, 8)))
def _(a, s, c):
    return Launch(w8a16, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.a, a.b, a.scales, a.zeros, a.c, s.M, s.N, s.K), G=s.G, **vars(c))
