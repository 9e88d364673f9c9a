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
