"""Convolutions: two dimensions as an implicit matrix product (NHWC), one dimension by channel, causal."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, cdiv, configs, shapes


@triton.jit
def conv2d(x_ptr, w_ptr, bias_ptr, out_ptr, B, H, W, C, OC, OH, OW, KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr):
    """x B x H x W x C, w OC x KH x KW x C: rows are output pixels; the taps are outer loops, the channels the inner one."""
    pixels = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    ow = pixels % OW
    oh = pixels // OW % OH
    b = pixels // (OW * OH)
    acc = tl.zeros((BM, BN), tl.float32)
    for kh in range(KH):
        for kw in range(KW):
            h = oh * STRIDE - PAD + kh
            w = ow * STRIDE - PAD + kw
            inside = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (b < B)
            row = ((b * H + h) * W + w) * C
            for c0 in range(0, C, BK):
                c = c0 + tl.arange(0, BK)
                x = tl.load(x_ptr + row[:, None] + c[None, :], mask=inside[:, None] & (c[None, :] < C), other=0.0)
                k = tl.load(w_ptr + ((n[None, :] * KH + kh) * KW + kw) * C + c[:, None], mask=(n[None, :] < OC) & (c[:, None] < C), other=0.0)
                acc = tl.dot(x, k, acc)
    acc += tl.load(bias_ptr + n, mask=n < OC, other=0.0)[None, :]
    tl.store(out_ptr + pixels[:, None] * OC + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=(pixels[:, None] < B * OH * OW) & (n[None, :] < OC))


@triton.jit
def conv2d_flat(x_ptr, w_ptr, bias_ptr, out_ptr, B, H, W, C, OC, OH, OW, KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                BK: tl.constexpr):
    """One loop over taps and channels together; the tap of each k is computed."""
    pixels = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    h0 = pixels // OW % OH * STRIDE - PAD
    w0 = pixels % OW * STRIDE - PAD
    b = pixels // (OW * OH)
    K = KH * KW * C
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        tap = k // C
        h = h0[:, None] + (tap // KW)[None, :]
        w = w0[:, None] + (tap % KW)[None, :]
        at = ((b[:, None] * H + h) * W + w) * C + (k % C)[None, :]
        x = tl.load(x_ptr + at, mask=(h >= 0) & (h < H) & (w >= 0) & (w < W) & (k < K)[None, :] & (b < B)[:, None], other=0.0)
        y = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(n < OC)[None, :] & (k < K)[:, None], other=0.0)
        acc += tl.dot(x, y)
    acc += tl.load(bias_ptr + n, mask=n < OC, other=0.0)[None, :]
    tl.store(out_ptr + pixels[:, None] * OC + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=(pixels[:, None] < B * OH * OW) & (n[None, :] < OC))


@triton.jit
def conv1d(x_ptr, w_ptr, bias_ptr, out_ptr, T, D, TAPS: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr):
    """Causal, each channel for itself, then SiLU: what stands before a state space."""
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    base = tl.program_id(2).to(tl.int64) * T * D
    acc = tl.zeros((BT, BD), tl.float32) + tl.load(bias_ptr + d, mask=d < D, other=0.0).to(tl.float32)[None, :]
    for i in tl.static_range(TAPS):
        at = t - (TAPS - 1) + i
        x = tl.load(x_ptr + base + at[:, None] * D + d[None, :], mask=(at[:, None] >= 0) & (at[:, None] < T) & (d[None, :] < D), other=0.0).to(tl.float32)
        acc += x * tl.load(w_ptr + d * TAPS + i, mask=d < D, other=0.0).to(tl.float32)[None, :]
    out = acc * tl.sigmoid(acc)
    tl.store(out_ptr + base + t[:, None] * D + d[None, :], out.to(out_ptr.dtype.element_ty), mask=(t[:, None] < T) & (d[None, :] < D))


def out_size(s):
    return (s.H + 2 * s.PAD - s.KH) // s.STRIDE + 1, (s.W + 2 * s.PAD - s.KW) // s.STRIDE + 1


def inputs(m, s, t):
    oh, ow = out_size(s)
    return dict(x=m.normal((s.B, s.H, s.W, s.C), t), w=m.normal((s.OC, s.KH, s.KW, s.C), t, (s.KH * s.KW * s.C)**-0.5), bias=m.normal((s.OC,), t), out=m.empty((s.B, oh, ow, s.OC), t),
                padded=m.zeros((s.B, s.H + 2 * s.PAD, s.W + 2 * s.PAD, s.C), "fp32"))


def reference(x, a, s):
    oh, ow = out_size(s)
    a.padded[:, s.PAD:s.PAD + s.H, s.PAD:s.PAD + s.W] = a.x
    out = 0
    for kh in range(s.KH):
        for kw in range(s.KW):
            view = a.padded[:, kh:kh + (oh - 1) * s.STRIDE + 1:s.STRIDE, kw:kw + (ow - 1) * s.STRIDE + 1:s.STRIDE]
            out = out + view.reshape(-1, s.C) @ x.swapaxes(a.w[:, kh, kw], 0, 1)
    return out.reshape(s.B, oh, ow, s.OC) + a.bias


def flops(s):
    oh, ow = out_size(s)
    return 2 * s.B * oh * ow * s.OC * s.KH * s.KW * s.C


two = Entry("convolution", inputs=inputs, outputs=("out",), reference=reference, flops=flops, dtypes=("bf16", "fp16"), small=shapes("B H W C OC KH KW STRIDE PAD", (2, 9, 7, 24, 40, 3, 3, 2, 1)),
            shapes=shapes("B H W C OC KH KW STRIDE PAD", (32, 56, 56, 256, 256, 3, 3, 1, 1), (32, 56, 56, 128, 256, 3, 3, 2, 1), (32, 28, 28, 512, 512, 1, 1, 1, 0)))
TILES = configs("BM BN BK num_warps num_stages", (32, 32, 32, 4, 3), (128, 128, 64, 8, 3), (128, 128, 32, 4, 4), (64, 128, 64, 4, 4), (128, 256, 64, 8, 3))
for name, kernel in ("loops over taps", conv2d), ("one loop", conv2d_flat):
    @two.spelling(name, TILES)
    def _(a, s, c, kernel=kernel):
        oh, ow = out_size(s)
        return Launch(kernel, (cdiv(s.B * oh * ow, c.BM), cdiv(s.OC, c.BN)), (a.x, a.w, a.bias, a.out, s.B, s.H, s.W, s.C, s.OC, oh, ow), KH=s.KH, KW=s.KW, STRIDE=s.STRIDE, PAD=s.PAD, **vars(c))


def one_reference(x, a, s):
    out = a.bias[None, None, :] + a.x * a.w[:, s.TAPS - 1]
    for i in range(1, s.TAPS):
        moved = x.concatenate((a.x[:, :i] * 0, a.x[:, :-i]), axis=1)
        out = out + moved * a.w[:, s.TAPS - 1 - i]
    return x.silu(out)


one = Entry("causal convolution by channel", inputs=lambda m, s, t: dict(x=m.normal((s.B, s.T, s.D), t), w=m.normal((s.D, s.TAPS), t), bias=m.normal((s.D,), t), out=m.empty((s.B, s.T, s.D), t)),
            outputs=("out",), reference=one_reference, shapes=shapes("B T D TAPS", (8, 4096, 4096, 4), (64, 1024, 2048, 4)), small=shapes("B T D TAPS", (2, 30, 40, 4)), dtypes=("bf16", "fp32"),
            bytes=lambda s, e: 2 * s.B * s.T * s.D * e)


@one.spelling("tiles", configs("BT BD num_warps", (16, 32, 4), (64, 64, 4), (8, 256, 4), (32, 128, 4), (16, 256, 8)))
def _(a, s, c):
    return Launch(conv1d, (cdiv(s.T, c.BT), cdiv(s.D, c.BD), s.B), (a.x, a.w, a.bias, a.out, s.T, s.D), TAPS=s.TAPS, **vars(c))
