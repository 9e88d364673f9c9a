"""Matrix products as libraries spell them beyond the tutorials: 8-bit operands whichever way they lie, scales of rows, channels and blocks, weights of 4 bits by shifts and by tables, gathered rows, sparse blocks, several products in one loop,
partial sums joined by a second kernel."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from zoo.table import Entry, Launch, cdiv, configs, shapes


@triton.jit
def strided(a_ptr, b_ptr, c_ptr, scale, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SUM: tl.constexpr):
    """Operands by strides: any of the four forms of a product."""
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    first = (pid // (GROUP * num_n)) * GROUP
    rows = min(num_m - first, GROUP)
    m = (first + (pid % (GROUP * num_n)) % rows) * BM + tl.arange(0, BM)
    n = ((pid % (GROUP * num_n)) // rows) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + (m % M)[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + (n % N)[None, :] * stride_bn
    acc = tl.zeros((BM, BN), SUM)
    for k0 in range(0, K, BK):
        a = tl.load(a_ptrs, mask=k[None, :] < K - k0, other=0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - k0, other=0)
        acc = tl.dot(a, b, acc, out_dtype=SUM)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    tl.store(c_ptr + m[:, None] * N + n[None, :], (acc.to(tl.float32) * scale).to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def descriptors_of_bytes(a_desc, b_desc, c_desc, scale, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SUM: tl.constexpr):
    """B row-major."""
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), SUM)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc, out_dtype=SUM)
    c_desc.store([m, n], (acc.to(tl.float32) * scale).to(c_desc.dtype))


def tiles(s, c):
    return cdiv(s.M, c.BM) * cdiv(s.N, c.BN)


PRODUCT = dict(outputs=("c",), flops=lambda s: 2 * s.M * s.N * s.K)
BYTE_TILES = configs("BM BN BK GROUP num_warps num_stages", (64, 64, 64, 8, 4, 3), (128, 128, 64, 8, 8, 3), (128, 128, 128, 8, 8, 3), (128, 256, 64, 8, 8, 3), (64, 128, 128, 8, 4, 4), (128, 128, 128, 8, 4, 3), (32, 64, 128, 8, 4, 3))
BYTE_SHAPES = shapes("M N K", (4096, 4096, 4096), (512, 7168, 2048))


def byte_inputs(m, s, t, a, b):
    make = lambda shape: m.integers(shape, -127, 128, "int8") if t == "int8" else m.normal(shape, t)
    return dict(a=make(a), b=make(b), c=m.empty((s.M, s.N), "bf16"))


def sum_of(a):
    return tl.int32 if "int8" in str(a.a.dtype) else tl.float32


def steps(rows, columns, is_turned):
    """Strides of a matrix of so many rows and columns, or of one whose transpose is stored."""
    return (1, rows) if is_turned else (columns, 1)


for form, a_turned, b_turned in ("row-major", False, False), ("A transposed", True, False), ("both transposed", True, True):
    entry = Entry(f"matmul of bytes, {form}", inputs=lambda m, s, t, at=a_turned, bt=b_turned: byte_inputs(m, s, t, (s.K, s.M) if at else (s.M, s.K), (s.N, s.K) if bt else (s.K, s.N)),
                  reference=lambda x, a, s, at=a_turned, bt=b_turned: (x.swapaxes(x.float(a.a), 0, 1) if at else x.float(a.a)) @ (x.swapaxes(x.float(a.b), 0, 1) if bt else x.float(a.b)) * 0.01,
                  shapes=BYTE_SHAPES, small=shapes("M N K", (80, 96, 160)), dtypes=("fp8e4", "int8"), **PRODUCT)
    globals()["bytes_" + form.replace(" ", "_").replace("-", "_")] = entry

    @entry.spelling("pointers, strides", BYTE_TILES)
    def _(a, s, c, at=a_turned, bt=b_turned):
        return Launch(strided, (tiles(s, c),), (a.a, a.b, a.c, 0.01, s.M, s.N, s.K, *steps(s.M, s.K, at), *steps(s.K, s.N, bt)), SUM=sum_of(a), **vars(c))

    if form == "row-major":
        @entry.spelling("host descriptors", configs("BM BN BK num_warps num_stages", (64, 64, 64, 4, 3), (128, 128, 128, 8, 3), (128, 256, 64, 8, 3), (128, 128, 128, 4, 3), (64, 128, 64, 4, 4)))
        def _(a, s, c):
            d = lambda t, rows, columns, block: TensorDescriptor(t, [rows, columns], [columns, 1], block)
            return Launch(descriptors_of_bytes, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (d(a.a, s.M, s.K, [c.BM, c.BK]), d(a.b, s.K, s.N, [c.BK, c.BN]), d(a.c, s.M, s.N, [c.BM, c.BN]), 0.01, s.K), SUM=sum_of(a), **vars(c))


# ---- scales of rows and columns

@triton.jit
def int8_channels(a_ptr, b_ptr, sa_ptr, sb_ptr, bias_ptr, c_ptr, M, N, K, stride_bk, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Weights [K, N] in int8 with a scale for each channel, activations with one for each token, and a bias."""
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :]
    acc = tl.zeros((BM, BN), tl.int32)
    for _ in range(0, K, BK):
        a = tl.load(a_ptrs, mask=m[:, None] < M, other=0)
        b = tl.load(b_ptrs, mask=n[None, :] < N, other=0)
        acc += tl.dot(a, b)
        a_ptrs += BK
        b_ptrs += BK * stride_bk
    sa = tl.load(sa_ptr + m, mask=m < M)
    sb = tl.load(sb_ptr + n, mask=n < N)
    bias = tl.load(bias_ptr + n, mask=n < N)
    out = acc.to(tl.float32) * sa[:, None] * sb[None, :] + bias[None, :]
    tl.store(c_ptr + m[:, None] * N + n[None, :], out.to(c_ptr.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])


channels = Entry("matmul int8, scales of channels", inputs=lambda m, s, t: dict(byte_inputs(m, s, t, (s.M, s.K), (s.K, s.N)), sa=m.uniform((s.M,), "fp32", 0.001, 0.01), sb=m.uniform((s.N,), "fp32", 0.001, 0.01), bias=m.normal((s.N,), "fp32")),
                 reference=lambda x, a, s: (x.float(a.a) @ x.float(a.b)) * a.sa[:, None] * a.sb[None, :] + a.bias, shapes=shapes("M N K", (2048, 4096, 4096), (16, 8192, 8192)), small=shapes("M N K", (40, 96, 256)), dtypes=("int8",), **PRODUCT)


@channels.spelling("pointers", configs("BM BN BK num_warps num_stages", (16, 64, 128, 4, 4), (16, 256, 64, 4, 3), (32, 32, 128, 4, 4), (64, 128, 128, 4, 3), (128, 128, 64, 8, 4), (128, 256, 128, 8, 3), (256, 64, 64, 8, 2)))
def _(a, s, c):
    return Launch(int8_channels, (cdiv(s.N, c.BN), cdiv(s.M, c.BM)), (a.a, a.b, a.sa, a.sb, a.bias, a.c, s.M, s.N, s.K, s.N), **vars(c))


@triton.jit
def rowwise(a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    """fp8 with a scale for each row of A and of B (N x K); SPLIT programs share K, and add to C what they have."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    part = tl.program_id(2)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in tl.range(part * BK, K, BK * SPLIT):
        k = k0 + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None], other=0.0)
        b = tl.load(b_ptr + n[:, None] * K + k[None, :], mask=(n < N)[:, None], other=0.0)
        acc = tl.dot(a, tl.trans(b), acc)
    acc *= tl.load(sa_ptr + m, mask=m < M, other=0.0)[:, None]
    acc *= tl.load(sb_ptr + n, mask=n < N, other=0.0)[None, :]
    at = c_ptr + m[:, None] * N + n[None, :]
    inside = (m < M)[:, None] & (n < N)[None, :]
    if SPLIT == 1:
        tl.store(at, acc.to(c_ptr.dtype.element_ty), mask=inside)
    else:
        tl.atomic_add(at, acc.to(c_ptr.dtype.element_ty), mask=inside, sem="relaxed")


rows_scaled = Entry("matmul fp8 rowwise", inputs=lambda m, s, t: dict(a=m.normal((s.M, s.K), t), b=m.normal((s.N, s.K), t), c=m.zeros((s.M, s.N), "fp32"), sa=m.uniform((s.M,), "fp32", 0.01, 0.1), sb=m.uniform((s.N,), "fp32", 0.01, 0.1)),
                    reference=lambda x, a, s: (a.a @ x.swapaxes(a.b, 0, 1)) * a.sa[:, None] * a.sb[None, :], shapes=shapes("M N K", (2048, 4096, 4096), (16, 4096, 14336)), small=shapes("M N K", (40, 80, 512)), dtypes=("fp8e4",), zeroed=("c",), tolerance=0.05, **PRODUCT)


@rows_scaled.spelling("pointers, tl.trans", configs("BM BN BK SPLIT num_warps num_stages", (16, 64, 128, 4, 4, 4), (16, 256, 64, 2, 4, 3), (64, 128, 128, 1, 4, 4), (128, 128, 64, 1, 8, 5), (128, 256, 128, 1, 8, 3), (64, 64, 256, 1, 4, 2), (256, 64, 64, 1, 8, 4)))
def _(a, s, c):
    return Launch(rowwise, (cdiv(s.M, c.BM), cdiv(s.N, c.BN), c.SPLIT), (a.a, a.b, a.sa, a.sb, a.c, s.M, s.N, s.K), **vars(c))


# ---- several products in one kernel

@triton.jit
def lora(x_ptr, w_ptr, down_ptr, up_ptr, out_ptr, scaling, M, N, K, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """x @ w + (x @ down) @ up * scaling: two dots in the loop, one behind it."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    r = tl.arange(0, R)
    acc = tl.zeros((BM, BN), tl.float32)
    low = tl.zeros((BM, R), tl.float32)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + k[:, None] * N + n[None, :]
    d_ptrs = down_ptr + k[:, None] * R + r[None, :]
    for _ in range(0, tl.cdiv(K, BK)):
        x = tl.load(x_ptrs, mask=m[:, None] < M, other=0.0)
        acc = tl.dot(x, tl.load(w_ptrs), acc)
        low = tl.dot(x, tl.load(d_ptrs), low)
        x_ptrs += BK
        w_ptrs += BK * N
        d_ptrs += BK * R
    up = tl.load(up_ptr + r[:, None] * N + n[None, :])
    acc += tl.dot((low * scaling).to(up.dtype), up)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=m[:, None] < M)


adapted = Entry("matmul with LoRA", outputs=("out",), inputs=lambda m, s, t: dict(x=m.normal((s.M, s.K), t), w=m.normal((s.K, s.N), t), down=m.uniform((s.K, s.R), t, -0.2, 0.2), up=m.uniform((s.R, s.N), t, -0.2, 0.2), out=m.empty((s.M, s.N), t)),
                reference=lambda x, a, s: a.x @ a.w + (a.x @ a.down) @ a.up * 2.0, flops=lambda s: 2 * s.M * s.N * s.K, shapes=shapes("M N K R", (4096, 4096, 4096, 16), (512, 8192, 4096, 64)), small=shapes("M N K R", (72, 128, 128, 16)), dtypes=("bf16", "fp16"))


@adapted.spelling("pointers", configs("BM BN BK num_warps num_stages", (64, 64, 32, 4, 3), (128, 128, 64, 8, 3), (64, 128, 64, 4, 4), (128, 64, 32, 4, 5), (32, 128, 64, 4, 3)))
def _(a, s, c):
    return Launch(lora, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.x, a.w, a.down, a.up, a.out, 2.0, s.M, s.N, s.K), R=s.R, **vars(c))


@triton.jit
def gated(x_desc, gate_up_desc, out_desc, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """GLU with the gate's and the other rows in one matrix (2 N x K): two dots share x."""
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    gate = tl.zeros((BM, BN), tl.float32)
    up = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = x_desc.load([m, k])
        gate = tl.dot(x, gate_up_desc.load([n, k]).T, gate)
        up = tl.dot(x, gate_up_desc.load([N + n, k]).T, up)
    inner = 0.7978845608 * (gate + 0.044715 * gate * gate * gate)
    out_desc.store([m, n], (gate / (1 + tl.exp(-2 * inner)) * up).to(out_desc.dtype))


glu = Entry("matmul GEGLU, two products", outputs=("out",), inputs=lambda m, s, t: dict(x=m.normal((s.M, s.K), t), w=m.uniform((2 * s.N, s.K), t, -0.2, 0.2), out=m.empty((s.M, s.N), t)),
            reference=lambda x, a, s: x.gelu(a.x @ x.swapaxes(a.w[:s.N], 0, 1)) * (a.x @ x.swapaxes(a.w[s.N:], 0, 1)), flops=lambda s: 4 * s.M * s.N * s.K, shapes=shapes("M N K", (4096, 11008, 4096)), small=shapes("M N K", (64, 128, 128)), dtypes=("bf16",))


@glu.spelling("host descriptors", configs("BM BN BK num_warps num_stages", (64, 64, 32, 4, 3), (128, 128, 64, 8, 3), (128, 64, 64, 4, 4), (64, 128, 64, 8, 4), (64, 64, 128, 4, 2)))
def _(a, s, c):
    d = lambda t, rows, columns, block: TensorDescriptor(t, [rows, columns], [columns, 1], block)
    return Launch(gated, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (d(a.x, s.M, s.K, [c.BM, c.BK]), d(a.w, 2 * s.N, s.K, [c.BN, c.BK]), d(a.out, s.M, s.N, [c.BM, c.BN]), s.N, s.K), **vars(c))


# ---- which rows and blocks take part

@triton.jit
def gathered(x_ptr, index_ptr, w_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows of x by index; w is N x K."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    row = tl.load(index_ptr + m, mask=m < M, other=0).to(tl.int64)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        x = tl.load(x_ptr + row[:, None] * K + (k0 + k)[None, :])
        w = tl.load(w_ptr + n[:, None] * K + (k0 + k)[None, :])
        acc += tl.dot(x, w.T)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=m[:, None] < M)


def gathered_inputs(m, s, t):
    return dict(x=m.normal((s.ROWS, s.K), t), index=m.integers((s.M,), 0, s.ROWS), w=m.normal((s.N, s.K), t), out=m.empty((s.M, s.N), t))


rows_by_index = Entry("matmul of gathered rows", outputs=("out",), inputs=gathered_inputs, reference=lambda x, a, s: a.x[x.long(a.index)] @ x.swapaxes(a.w, 0, 1), flops=lambda s: 2 * s.M * s.N * s.K,
                      shapes=shapes("M N K ROWS", (4096, 4096, 4096, 16384), (256, 8192, 2048, 16384)), small=shapes("M N K ROWS", (72, 256, 128, 100)), dtypes=("fp16", "bf16"))


@rows_by_index.spelling("pointers", configs("BM BN BK num_warps num_stages", (64, 64, 64, 4, 3), (128, 128, 64, 8, 3), (64, 128, 64, 4, 4), (128, 256, 64, 8, 3), (16, 128, 128, 4, 3), (128, 64, 128, 4, 2)))
def _(a, s, c):
    return Launch(gathered, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.x, a.index, a.w, a.out, s.M, s.N, s.K), **vars(c))


@triton.jit
def block_sparse(a_ptr, b_ptr, starts_ptr, blocks_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A is dense; of B only the blocks of BK x BN that a list names for each block of columns, stored one behind the other."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1)
    n = tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(tl.load(starts_ptr + column), tl.load(starts_ptr + column + 1)):
        at = tl.load(blocks_ptr + i)
        a = tl.load(a_ptr + m[:, None] * K + (at * BK + k)[None, :])
        b = tl.load(b_ptr + i * (BK * BN) + k[:, None] * BN + n[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * N + (column * BN + n)[None, :], acc.to(c_ptr.dtype.element_ty))


def sparse_inputs(m, s, t):
    columns, depth = s.N // s.BN, s.K // s.BK
    kept = [[j for j in range(depth) if (j * 7 + i * 3) % 4 == 0] for i in range(columns)]
    starts = [0]
    for each in kept:
        starts.append(starts[-1] + len(each))
    return dict(a=m.normal((s.M, s.K), t), b=m.normal((starts[-1], s.BK, s.BN), t), starts=m.array(starts), blocks=m.array([j for each in kept for j in each]), c=m.empty((s.M, s.N), t))


def sparse_reference(x, a, s):
    starts, blocks = [int(v) for v in a.starts], [int(v) for v in a.blocks]
    return x.concatenate([sum(a.a[:, blocks[i] * s.BK:(blocks[i] + 1) * s.BK] @ a.b[i] for i in range(starts[c], starts[c + 1])) for c in range(s.N // s.BN)], axis=1)


sparse = Entry("matmul of sparse blocks", outputs=("c",), inputs=sparse_inputs, reference=sparse_reference, flops=lambda s: 2 * s.M * s.N * s.K // 4, shapes=shapes("M N K BN BK", (4096, 4096, 4096, 128, 64), (4096, 4096, 4096, 64, 32)),
               small=shapes("M N K BN BK", (128, 64, 256, 32, 32)), dtypes=("bf16",))


@sparse.spelling("lists of blocks", configs("BM num_warps num_stages", (64, 4, 3), (128, 8, 3), (128, 4, 4), (32, 4, 2)))
def _(a, s, c):
    return Launch(block_sparse, (cdiv(s.M, c.BM), s.N // s.BN), (a.a, a.b, a.starts, a.blocks, a.c, s.N, s.K), BN=s.BN, BK=s.BK, **vars(c))


# ---- weights of 4 bits

@triton.jit
def w4_tables(a_ptr, b_ptr, table_ptr, scales_ptr, c_ptr, M, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """NF4: two codes in a byte (N x K / 2), whose values a table of 16 has; a scale for each G columns of a row."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (k0 + k)[None, :], mask=(m < M)[:, None], other=0.0)
        code = tl.load(b_ptr + n[None, :] * (K // 2) + ((k0 + k) // 2)[:, None])
        code = (code >> ((k % 2) * 4).to(tl.uint8)[:, None]) & 15
        scale = tl.load(scales_ptr + n * (K // G) + k0 // G)
        w = tl.load(table_ptr + code.to(tl.int32)) * scale[None, :]
        acc = tl.dot(a, w.to(a.dtype), acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m < M)[:, None])


@triton.jit
def w4_shifts(a_ptr, b_ptr, scales_ptr, zeros_ptr, c_ptr, M, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Weights packed eight along N in AWQ's order (0 4 1 5 2 6 3 7), K x N / 8, taken apart by tl.interleave and shifts."""
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n8 = tl.program_id(0) * (BN // 8) + tl.arange(0, BN // 8)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    order = ((tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]).reshape(8)
    shifts = tl.broadcast_to((order * 4)[None, :], (BK * (BN // 8), 8)).reshape((BK, BN))
    zero_shifts = tl.broadcast_to((order * 4)[None, :], (BN // 8, 8)).reshape((1, BN))
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (k0 + k)[None, :], mask=(m < M)[:, None], other=0.0)
        b = tl.load(b_ptr + (k0 + k)[:, None] * (N // 8) + n8[None, :])
        b = tl.interleave(b, b)
        b = tl.interleave(b, b)
        b = tl.interleave(b, b)
        z = tl.load(zeros_ptr + (k0 // G) * (N // 8) + n8[None, :])
        z = tl.interleave(z, z)
        z = tl.interleave(z, z)
        z = tl.interleave(z, z)
        scale = tl.load(scales_ptr + (k0 // G) * N + n)
        w = (((b >> shifts) & 15) - ((z >> zero_shifts) & 15)).to(scale.dtype) * scale[None, :]
        acc = tl.dot(a, w, acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m < M)[:, None])


def unpacked(x, packed, order, axis):
    parts = x.stack([(packed >> (4 * i)) & 15 for i in order], axis=axis + 1)
    shape = list(packed.shape)
    shape[axis] *= len(order)
    return parts.reshape(shape)


FOUR = dict(outputs=("c",), flops=lambda s: 2 * s.M * s.N * s.K, shapes=shapes("M N K G", (2048, 4096, 4096, 128), (16, 8192, 8192, 128)), small=shapes("M N K G", (20, 128, 256, 64)), dtypes=("fp16",))
FOUR_TILES = configs("BM BN BK num_warps num_stages", (16, 64, 64, 4, 3), (16, 128, 64, 4, 4), (32, 64, 64, 2, 2), (64, 128, 64, 4, 3), (128, 128, 32, 8, 4))
by_tables = Entry("matmul w4a16 by tables", inputs=lambda m, s, t: dict(a=m.normal((s.M, s.K), t), b=m.integers((s.N, s.K // 2), 0, 256, "uint8"), table=m.normal((16,), "fp32"), scales=m.uniform((s.N, s.K // s.G), "fp32", 0.01, 0.1), c=m.empty((s.M, s.N), t)),
                  reference=lambda x, a, s: a.a @ x.swapaxes(a.table[x.long(unpacked(x, a.b, range(2), 1))] * x.repeat(a.scales, s.G, 1), 0, 1), **FOUR)
AWQ = (0, 4, 1, 5, 2, 6, 3, 7)
by_shifts = Entry("matmul w4a16 by shifts", inputs=lambda m, s, t: dict(a=m.normal((s.M, s.K), t), b=m.integers((s.K, s.N // 8), -2**31, 2**31, "int32"), scales=m.uniform((s.K // s.G, s.N), t, 0.01, 0.1),
                  zeros=m.integers((s.K // s.G, s.N // 8), -2**31, 2**31, "int32"), c=m.empty((s.M, s.N), t)),
                  reference=lambda x, a, s: a.a @ ((x.float(unpacked(x, a.b, AWQ, 1)) - x.repeat(x.float(unpacked(x, a.zeros, AWQ, 1)), s.G, 0)) * x.repeat(a.scales, s.G, 0)), **FOUR)


@by_tables.spelling("pointers", FOUR_TILES)
def _(a, s, c):
    return Launch(w4_tables, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.a, a.b, a.table, a.scales, a.c, s.M, s.N, s.K), G=s.G, **vars(c))


@by_shifts.spelling("interleave", FOUR_TILES)
def _(a, s, c):
    return Launch(w4_shifts, (cdiv(s.N, c.BN), cdiv(s.M, c.BM)), (a.a, a.b, a.scales, a.zeros, a.c, s.M, s.N, s.K), G=s.G, **vars(c))


# ---- sums in halves, few rows, partial sums joined by a second kernel

@triton.jit
def half_sums(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float16)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc, out_dtype=tl.float16)
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


halves = Entry("matmul of half sums", inputs=lambda m, s, t: dict(a=m.uniform((s.M, s.K), t, -0.2, 0.2), b=m.uniform((s.K, s.N), t, -0.2, 0.2), c=m.empty((s.M, s.N), t)), reference=lambda x, a, s: a.a @ a.b, shapes=shapes("M N K", (4096, 4096, 4096)),
               small=shapes("M N K", (256, 256, 128)), dtypes=("fp16",), tolerance=0.05, **PRODUCT)


@halves.spelling("pointers", configs("BM BN BK num_warps num_stages", (64, 64, 32, 4, 3), (128, 128, 32, 4, 4), (128, 256, 64, 8, 3), (256, 64, 32, 4, 3), (128, 128, 64, 8, 6), (64, 64, 16, 8, 1), (32, 128, 32, 4, 2)))
def _(a, s, c):
    return Launch(half_sums, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.a, a.b, a.c, s.M, s.N, s.K), **vars(c))


@triton.jit
def partial_products(a_ptr, b_ptr, parts_ptr, M, N, K, per_part, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One stretch of K for each program along z; b is K x N."""
    part = tl.program_id(2)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    first = part * per_part
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(first, min(first + per_part, K), BK):
        k = k0 + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(parts_ptr + part * M * N + m[:, None] * N + n[None, :], acc, mask=m[:, None] < M)


@triton.jit
def joined(parts_ptr, c_ptr, count, total, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(count):
        acc += tl.load(parts_ptr + i * total + at, mask=at < total, other=0.0)
    tl.store(c_ptr + at, acc.to(c_ptr.dtype.element_ty), mask=at < total)


split = Entry("matmul split-K, joined", inputs=lambda m, s, t: dict(a=m.normal((s.M, s.K), t), b=m.normal((s.K, s.N), t), parts=m.empty((8, s.M, s.N), "fp32"), c=m.empty((s.M, s.N), t)), reference=lambda x, a, s: a.a @ a.b,
              shapes=shapes("M N K", (16, 4096, 16384), (256, 256, 32768), (1, 8192, 8192)), small=shapes("M N K", (9, 256, 500)), dtypes=("bf16",), **PRODUCT)


@split.spelling("two kernels, decode", configs("BM BN BK PARTS num_warps num_stages", (16, 64, 64, 4, 4, 4), (16, 256, 64, 8, 4, 3), (16, 32, 256, 8, 4, 3), (32, 32, 128, 8, 4, 4), (64, 64, 64, 8, 4, 4), (16, 128, 32, 4, 8, 6)))
def _(a, s, c):
    options = {k: v for k, v in vars(c).items() if k != "PARTS"}
    per_part = cdiv(cdiv(s.K, c.PARTS), c.BK) * c.BK
    return [Launch(partial_products, (cdiv(s.M, c.BM), cdiv(s.N, c.BN), c.PARTS), (a.a, a.b, a.parts, s.M, s.N, s.K, per_part), **options),
            Launch(joined, (cdiv(s.M * s.N, 1024),), (a.parts, a.c, c.PARTS, s.M * s.N), BLOCK=1024)]


@triton.jit
def added(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The sum outside of the dot; operands by strides, of any extents."""
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BM)
    m = (pid % num_m) * BM + tl.arange(0, BM)
    n = (pid // num_m) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + (m % M)[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + (n % N)[None, :] * stride_bn
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - i * BK, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - i * BK, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


outside = Entry("matmul fp8, sums outside", inputs=lambda m, s, t: dict(a=m.normal((s.M, s.K), t), b=m.normal((s.N, s.K), t), c=m.empty((s.M, s.N), "bf16")), reference=lambda x, a, s: a.a @ x.swapaxes(a.b, 0, 1),
                shapes=shapes("M N K", (4096, 4096, 4096)), small=shapes("M N K", (72, 80, 160)), dtypes=("fp8e4",), **PRODUCT)


@outside.spelling("pointers", configs("BM BN BK num_warps num_stages", (64, 64, 64, 4, 3), (128, 256, 128, 8, 3), (128, 128, 128, 4, 4), (128, 128, 128, 8, 3), (64, 256, 128, 4, 3)))
def _(a, s, c):
    return Launch(added, (tiles(s, c),), (a.a, a.b, a.c, s.M, s.N, s.K, s.K, 1, 1, s.K), **vars(c))


UNALIGNED = configs("BM BN BK num_warps num_stages", (64, 64, 32, 4, 3), (128, 128, 32, 4, 4), (128, 128, 64, 8, 3), (64, 128, 64, 4, 4), (128, 256, 64, 8, 3))
for form, a_turned, b_turned in (("row-major", False, False), ("A transposed", True, False), ("B transposed", False, True), ("both transposed", True, True)):
    entry = Entry(f"matmul of unaligned rows, {form}", inputs=lambda m, s, t, at=a_turned, bt=b_turned: dict(a=m.normal((s.K, s.M) if at else (s.M, s.K), t), b=m.normal((s.N, s.K) if bt else (s.K, s.N), t), c=m.empty((s.M, s.N), t)),
                  reference=lambda x, a, s, at=a_turned, bt=b_turned: (x.swapaxes(a.a, 0, 1) if at else a.a) @ (x.swapaxes(a.b, 0, 1) if bt else a.b),
                  shapes=shapes("M N K", (1000, 3000, 2050)), small=shapes("M N K", (70, 75, 131)), dtypes=("bf16",), **PRODUCT)
    globals()["unaligned_" + form.replace(" ", "_").replace("-", "_")] = entry

    @entry.spelling("pointers, strides", UNALIGNED)
    def _(a, s, c, at=a_turned, bt=b_turned):
        return Launch(added, (tiles(s, c),), (a.a, a.b, a.c, s.M, s.N, s.K, *steps(s.M, s.K, at), *steps(s.K, s.N, bt)), **vars(c))
