"""Elementwise kernels: addition, GLU variants, rotary embedding, dropout, random numbers, quantization, Adam."""
import triton
import triton.language as tl
from triton.language.extra import libdevice
from zoo.table import Entry, Launch, cdiv, configs, next_power_of_2, shapes


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def add_descriptors(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, [n], [1], [BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, [n], [1], [BLOCK])
    at = tl.program_id(0) * BLOCK
    out.store([at], x.load([at]) + y.load([at]))


@triton.jit
def add_persistent(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in tl.range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=3):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def glu(x_ptr, out_ptr, cols, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """A row of x holds gate and up side by side."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = c < cols
    gate = tl.load(x_ptr + row * 2 * cols + c, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * cols + cols + c, mask=mask, other=0.0).to(tl.float32)
    if KIND == "swiglu":
        h = gate * tl.sigmoid(gate)
    elif KIND == "geglu":
        h = 0.5 * gate * (1 + libdevice.tanh(0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)))
    else:
        h = tl.maximum(gate, 0.0)
    tl.store(out_ptr + row * cols + c, (h * up).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def swiglu_backward(gate_ptr, up_ptr, dy_ptr, dgate_ptr, dup_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    c = tl.arange(0, BLOCK)
    mask = c < cols
    gate = tl.load(gate_ptr + row + c, mask=mask, other=0).to(tl.float32)
    up = tl.load(up_ptr + row + c, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row + c, mask=mask, other=0).to(tl.float32)
    sig = tl.sigmoid(gate)
    silu = gate * sig
    tl.store(dup_ptr + row + c, (dy * silu).to(dup_ptr.dtype.element_ty), mask=mask)
    tl.store(dgate_ptr + row + c, (dy * up * (silu * (1 - sig) + sig)).to(dgate_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rotary_halves(q_ptr, cos_ptr, sin_ptr, out_ptr, H, D: tl.constexpr, BH: tl.constexpr):
    """One token's heads: the first half of each rotates against the second."""
    token = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * BH + tl.arange(0, BH)
    d = tl.arange(0, D // 2)
    cos = tl.load(cos_ptr + token * (D // 2) + d)
    sin = tl.load(sin_ptr + token * (D // 2) + d)
    at = token * H * D + h[:, None] * D + d[None, :]
    mask = (h < H)[:, None]
    x1 = tl.load(q_ptr + at, mask=mask, other=0.0).to(tl.float32)
    x2 = tl.load(q_ptr + at + D // 2, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, (x1 * cos - x2 * sin).to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(out_ptr + at + D // 2, (x2 * cos + x1 * sin).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rotary_pairs(q_ptr, cos_ptr, sin_ptr, out_ptr, H, D: tl.constexpr, BH: tl.constexpr):
    """Neighbours rotate: split and interleave."""
    token = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * BH + tl.arange(0, BH)
    d = tl.arange(0, D)
    at = token * H * D + h[:, None] * D + d[None, :]
    mask = (h < H)[:, None]
    x = tl.load(q_ptr + at, mask=mask, other=0.0).to(tl.float32)
    even, odd = tl.split(tl.reshape(x, (BH, D // 2, 2)))
    cos = tl.load(cos_ptr + token * (D // 2) + tl.arange(0, D // 2))[None, :]
    sin = tl.load(sin_ptr + token * (D // 2) + tl.arange(0, D // 2))[None, :]
    y = tl.interleave(even * cos - odd * sin, odd * cos + even * sin)
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def seeded_dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def masked_dropout(x_ptr, keep_ptr, out_ptr, n, p, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.load(keep_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.where(keep != 0, x / (1 - p), 0.0).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def random_integers(out_ptr, n, seed, BLOCK: tl.constexpr):
    """Four numbers of each counter."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, at)
    quarter = n // 4
    mask = at < quarter
    tl.store(out_ptr + at, a.to(tl.int32, bitcast=True), mask=mask)
    tl.store(out_ptr + quarter + at, b.to(tl.int32, bitcast=True), mask=mask)
    tl.store(out_ptr + 2 * quarter + at, c.to(tl.int32, bitcast=True), mask=mask)
    tl.store(out_ptr + 3 * quarter + at, d.to(tl.int32, bitcast=True), mask=mask)


@triton.jit
def random_normal(out_ptr, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.randn(seed, at), mask=at < n)


@triton.jit
def quantize_rows(x_ptr, q_ptr, scale_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    x = tl.load(x_ptr + row * cols + c, mask=mask, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), 0), 1e-8) / 127.0
    q = libdevice.rint(x / scale)
    tl.store(q_ptr + row * cols + c, q.to(tl.int8), mask=mask)
    tl.store(scale_ptr + row, scale)


@triton.jit
def quantize_fp8_groups(x_ptr, q_ptr, scale_ptr, n, G: tl.constexpr, GROUPS: tl.constexpr):
    g = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    at = g[:, None] * G + tl.arange(0, G)[None, :]
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), 1), 1e-4) / 448.0
    q = tl.clamp(x / scale[:, None], -448.0, 448.0)
    tl.store(q_ptr + at, q.to(q_ptr.dtype.element_ty), mask=mask)
    tl.store(scale_ptr + g, scale, mask=g * G < n)


@triton.jit
def dequantize_rows(q_ptr, scale_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = c < cols
    q = tl.load(q_ptr + row * cols + c, mask=mask, other=0).to(tl.float32)
    tl.store(out_ptr + row * cols + c, (q * tl.load(scale_ptr + row)).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def adam(p_ptr, g_ptr, m_ptr, v_ptr, n, lr, beta1, beta2, eps, decay, correction1, correction2, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    p = tl.load(p_ptr + offsets, mask=mask).to(tl.float32)
    g = tl.load(g_ptr + offsets, mask=mask).to(tl.float32)
    m = tl.load(m_ptr + offsets, mask=mask)
    v = tl.load(v_ptr + offsets, mask=mask)
    p *= 1 - lr * decay
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    p -= lr * (m / correction1) / (tl.sqrt(v / correction2) + eps)
    tl.store(p_ptr + offsets, p.to(p_ptr.dtype.element_ty), mask=mask)
    tl.store(m_ptr + offsets, m, mask=mask)
    tl.store(v_ptr + offsets, v, mask=mask)


N = shapes("n", 1 << 24, 1 << 26)
SMALL_N = shapes("n", 1000)
BLOCKS = configs("BLOCK num_warps", (256, 4), (1024, 4), (2048, 8), (4096, 8), (1024, 8), (512, 2))
ROWS = shapes("rows cols", (16384, 4096), (8192, 14336))
SMALL = shapes("rows cols", (5, 300))
COLUMNS = configs("BLOCK num_warps", (128, 4), (1024, 4), (2048, 8), (4096, 8))
WARPS = configs("num_warps", 4, 8, 16, 32)
TWO = ("bf16", "fp32")

adding = Entry("add", inputs=lambda m, s, t: dict(x=m.normal((s.n,), t), y=m.normal((s.n,), t), out=m.empty((s.n,), t)), outputs=("out",), reference=lambda x, a, s: a.x + a.y, shapes=N,
               small=SMALL_N, dtypes=TWO, bytes=lambda s, e: 3 * s.n * e, library=lambda torch, a, s: torch.add(a.x, a.y, out=a.out))


@adding.spelling("pointers", BLOCKS)
def _(a, s, c):
    return Launch(add, (cdiv(s.n, c.BLOCK),), (a.x, a.y, a.out, s.n), **vars(c))


@adding.spelling("descriptors in the kernel", configs("BLOCK num_warps", (256, 4), (256, 2), (128, 4), (64, 2)))
def _(a, s, c):
    return Launch(add_descriptors, (cdiv(s.n, c.BLOCK),), (a.x, a.y, a.out, s.n), **vars(c))


@adding.spelling("persistent", configs("BLOCK PROGRAMS num_warps", (256, 4, 4), (1024, 1056, 4), (4096, 264, 8), (2048, 528, 8)))
def _(a, s, c):
    return Launch(add_persistent, (c.PROGRAMS,), (a.x, a.y, a.out, s.n), BLOCK=c.BLOCK, num_warps=c.num_warps)


GLU = {"swiglu": lambda x, g: x.silu(g), "geglu": lambda x, g: x.gelu(g), "reglu": lambda x, g: x.where(g > 0, g, 0.0)}


def glu_entry(kind):
    e = Entry(kind, inputs=lambda m, s, t: dict(x=m.normal((s.rows, 2 * s.cols), t), out=m.empty((s.rows, s.cols), t)), outputs=("out",),
              reference=lambda x, a, s: GLU[kind](x, a.x[:, :s.cols]) * a.x[:, s.cols:], shapes=ROWS, small=SMALL, dtypes=TWO, bytes=lambda s, e: 3 * s.rows * s.cols * e)

    @e.spelling("blocks of columns", COLUMNS)
    def _(a, s, c):
        return Launch(glu, (s.rows, cdiv(s.cols, c.BLOCK)), (a.x, a.out, s.cols), KIND=kind, **vars(c))
    return e


swiglu, geglu, reglu = map(glu_entry, GLU)


def swiglu_grad_reference(x, a, s):
    sig = x.sigmoid(a.gate)
    silu = a.gate * sig
    return a.dy * a.up * (silu * (1 - sig) + sig), a.dy * silu


swiglu_grad = Entry("swiglu backward", inputs=lambda m, s, t: dict({k: m.normal((s.rows, s.cols), t) for k in ("gate", "up", "dy")}, dgate=m.empty((s.rows, s.cols), t), dup=m.empty((s.rows, s.cols), t)),
                    outputs=("dgate", "dup"), reference=swiglu_grad_reference, shapes=ROWS, small=SMALL, dtypes=TWO, bytes=lambda s, e: 5 * s.rows * s.cols * e)


@swiglu_grad.spelling("one block", WARPS)
def _(a, s, c):
    return Launch(swiglu_backward, (s.rows,), (a.gate, a.up, a.dy, a.dgate, a.dup, s.cols), BLOCK=next_power_of_2(s.cols), **vars(c))


def rotary_reference(x, a, s, pairs):
    v, cos, sin = a.q, a.cos[:, None, :], a.sin[:, None, :]
    x1, x2 = (v[..., 0::2], v[..., 1::2]) if pairs else (v[..., :s.D // 2], v[..., s.D // 2:])
    y1, y2 = x1 * cos - x2 * sin, x2 * cos + x1 * sin
    return x.stack((y1, y2), axis=-1).reshape(v.shape) if pairs else x.concatenate((y1, y2), axis=-1)


def rotary_entry(name, kernel, pairs):
    e = Entry(name, inputs=lambda m, s, t: dict(q=m.normal((s.T, s.H, s.D), t), cos=m.uniform((s.T, s.D // 2), "fp32", -1.0), sin=m.uniform((s.T, s.D // 2), "fp32", -1.0),
              out=m.empty((s.T, s.H, s.D), t)), outputs=("out",), reference=lambda x, a, s: rotary_reference(x, a, s, pairs), shapes=shapes("T H D", (16384, 32, 128), (65536, 8, 64)),
              small=shapes("T H D", (7, 5, 32)), dtypes=TWO, bytes=lambda s, e: 2 * s.T * s.H * s.D * e)

    @e.spelling("heads of a token", configs("BH num_warps", (4, 4), (8, 4), (16, 4), (32, 8), (1, 1)))
    def _(a, s, c):
        return Launch(kernel, (s.T, cdiv(s.H, c.BH)), (a.q, a.cos, a.sin, a.out, s.H), D=s.D, **vars(c))
    return e


halves = rotary_entry("rotary halves", rotary_halves, False)
neighbours = rotary_entry("rotary pairs", rotary_pairs, True)
dropout = Entry("dropout", inputs=lambda m, s, t: dict(x=m.normal((s.n,), t), keep=m.integers((s.n,), 0, 2, "int8"), out=m.empty((s.n,), t)), outputs=("out",),
                reference=lambda x, a, s: x.where(a.keep != 0, a.x / 0.75, 0.0), shapes=N, small=SMALL_N, dtypes=TWO, bytes=lambda s, e: (2 * e + 1) * s.n)


@dropout.spelling("mask", BLOCKS)
def _(a, s, c):
    return Launch(masked_dropout, (cdiv(s.n, c.BLOCK),), (a.x, a.keep, a.out, s.n, 0.25), **vars(c))


M0, M1 = 0xD2511F53, 0xCD9E8D57


def philox(x, counter, seed):
    """The four words of Philox 4x32-10 with a counter of 32 bits, in 64-bit integers."""
    c = [counter, counter * 0, counter * 0, counter * 0]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32

    def product(m, v):
        low = (m & 0xFFFF) * v  # 64-bit integers are signed: the product in two halves
        high = (m >> 16) * v + (low >> 16)
        return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)
    for _ in range(10):
        h0, l0 = product(M0, c[0])
        h1, l1 = product(M1, c[2])
        c = [h1 ^ c[1] ^ k0, l1, h0 ^ c[3] ^ k1, l0]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def signed(x, v):
    return x.where(v >= 1 << 31, v - (1 << 32), v)


def uniform_of(x, word):
    v = signed(x, word)
    return x.where(v < 0, -v - 1, v) * 4.6566127342e-10


SEED = 1234567
seeded = Entry("dropout by seed", inputs=lambda m, s, t: dict(x=m.normal((s.n,), t), out=m.empty((s.n,), t)), outputs=("out",),
               reference=lambda x, a, s: x.where(uniform_of(x, philox(x, x.arange(s.n), SEED)[0]) > 0.25, a.x / 0.75, 0.0), shapes=N, small=SMALL_N, dtypes=TWO, bytes=lambda s, e: 2 * e * s.n)


@seeded.spelling("tl.rand", BLOCKS)
def _(a, s, c):
    return Launch(seeded_dropout, (cdiv(s.n, c.BLOCK),), (a.x, a.out, s.n, 0.25, SEED), **vars(c))


integers = Entry("random integers", inputs=lambda m, s, t: dict(out=m.empty((s.n,), "int32")), outputs=("out",),
                 reference=lambda x, a, s: signed(x, x.concatenate(philox(x, x.arange(s.n // 4), SEED))), shapes=N, small=SMALL_N, dtypes=("int32",), bytes=lambda s, e: 4 * s.n)


@integers.spelling("tl.randint4x", BLOCKS[:4])
def _(a, s, c):
    return Launch(random_integers, (cdiv(s.n // 4, c.BLOCK),), (a.out, s.n, SEED), **vars(c))


def normal_reference(x, a, s):
    u = [x.float(uniform_of(x, w)) for w in philox(x, x.arange(s.n), SEED)[:2]]
    u1 = x.where(u[0] < 1e-7, 1e-7, u[0])
    return x.sqrt(-2 * x.log(u1)) * x.cos(6.283185307179586 * u[1])


normal = Entry("random normal", inputs=lambda m, s, t: dict(out=m.empty((s.n,), t)), outputs=("out",), reference=normal_reference, shapes=N[:1], small=SMALL_N, dtypes=("fp32",), bytes=lambda s, e: e * s.n)


@normal.spelling("tl.randn", BLOCKS[:4])
def _(a, s, c):
    return Launch(random_normal, (cdiv(s.n, c.BLOCK),), (a.out, s.n, SEED), **vars(c))


def int8_reference(x, a, s):
    scale = x.amax(x.abs(a.x), axis=1) / 127
    return x.round(a.x / scale[:, None]), scale


quantize = Entry("quantize to int8", inputs=lambda m, s, t: dict(x=m.normal((s.rows, s.cols), t), q=m.empty((s.rows, s.cols), "int8"), scale=m.empty((s.rows,), "fp32")), outputs=("q", "scale"),
                 reference=int8_reference, shapes=ROWS, small=SMALL, dtypes=TWO, bytes=lambda s, e: s.rows * s.cols * (e + 1), tolerance=1.01 / 127)


@quantize.spelling("one block", WARPS)
def _(a, s, c):
    return Launch(quantize_rows, (s.rows,), (a.x, a.q, a.scale, s.cols), BLOCK=next_power_of_2(s.cols), **vars(c))


def fp8_reference(x, a, s):
    v = a.x.reshape(-1, s.G)
    scale = x.amax(x.abs(v), axis=1) / 448
    return v / scale[:, None], scale


quantize8 = Entry("quantize to fp8 by groups", inputs=lambda m, s, t: dict(x=m.normal((s.n // s.G, s.G), t), q=m.empty((s.n // s.G, s.G), "fp8e4"), scale=m.empty((s.n // s.G,), "fp32")),
                  outputs=("q", "scale"), reference=fp8_reference, shapes=shapes("n G", (1 << 26, 128), (1 << 26, 32)), small=shapes("n G", (1280, 128)), dtypes=TWO,
                  bytes=lambda s, e: s.n * (e + 1), tolerance=0.08)


@quantize8.spelling("tile of groups", configs("GROUPS num_warps", (4, 4), (1, 1), (16, 4), (32, 8)))
def _(a, s, c):
    return Launch(quantize_fp8_groups, (cdiv(s.n // s.G, c.GROUPS),), (a.x, a.q, a.scale, s.n), G=s.G, **vars(c))


dequantize = Entry("dequantize", inputs=lambda m, s, t: dict(q=m.integers((s.rows, s.cols), -127, 128, "int8"), scale=m.uniform((s.rows,), "fp32"), out=m.empty((s.rows, s.cols), t)), outputs=("out",),
                   reference=lambda x, a, s: x.float(a.q) * a.scale[:, None], shapes=ROWS, small=SMALL, dtypes=TWO, bytes=lambda s, e: s.rows * s.cols * (e + 1))


@dequantize.spelling("blocks of columns", COLUMNS)
def _(a, s, c):
    return Launch(dequantize_rows, (s.rows, cdiv(s.cols, c.BLOCK)), (a.q, a.scale, a.out, s.cols), **vars(c))


def adam_reference(x, a, s):
    m = 0.9 * a.m + 0.1 * a.g
    v = 0.99 * a.v + 0.01 * a.g * a.g
    return a.p * (1 - 1e-3 * 0.1) - 1e-3 * (m / 0.5) / (x.sqrt(v / 0.25) + 1e-8), m, v


optimizer = Entry("fused Adam", inputs=lambda m, s, t: dict(p=m.normal((s.n,), t), g=m.normal((s.n,), t), m=m.normal((s.n,), "fp32"), v=m.uniform((s.n,), "fp32")), outputs=("p", "m", "v"),
                  restored=("p", "m", "v"), reference=adam_reference, shapes=N, small=SMALL_N, dtypes=TWO, bytes=lambda s, e: s.n * (3 * e + 16))


@optimizer.spelling("pointers", BLOCKS)
def _(a, s, c):
    return Launch(adam, (cdiv(s.n, c.BLOCK),), (a.p, a.g, a.m, a.v, s.n, 1e-3, 0.9, 0.99, 1e-8, 0.1, 0.5, 0.25), **vars(c))
