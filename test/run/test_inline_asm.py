"""§3.6 inline_asm_elementwise: PTX on every device, the CPU's own assembly on CPUs, packs, several results, broadcasting."""
import platform

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, assert_same, assert_ulp, d, rng, values

pytestmark = pytest.mark.section("3.6 elementwise")

bf16, f8e5 = ml_dtypes.bfloat16, ml_dtypes.float8_e5m2


@tegula.jit
def apply(x, y, out, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, DTYPE: tl.constexpr, PACK: tl.constexpr, TWO: tl.constexpr, PURE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    if TWO:
        r = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [tl.load(x + i), tl.load(y + i)], DTYPE, PURE, PACK)
    else:
        r = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [tl.load(x + i)], DTYPE, PURE, PACK)
    tl.static_assert(r.dtype == DTYPE)
    tl.store(out + i, r)


def u(x, bits=32):
    return x.view(f"u{bits // 8}")


def by_bits(f):
    """A function of Python's integers, on the bits of each element."""
    return lambda *a: np.array([f(*(int(v) for v in row)) & 0xffffffff for row in zip(*(u(x) for x in a))], np.uint32).view(np.int32)


def signed(x):
    return (x & 0xffffffff) - ((x & 0x80000000) << 1)


def tf32(x):
    return ((u(x) + np.uint32(0x1000)) & np.uint32(0xffffe000)).view(np.float32)


def perm(a, b, c):
    bytes_ = [((b << 32 | a) >> (8 * i)) & 255 for i in range(8)]
    r = 0
    for i in range(4):
        which = c >> (4 * i)
        byte = bytes_[which & 7]
        r |= (255 * (byte >> 7) if which & 8 else byte) << (8 * i)
    return r


def field(a, c):
    pos, length = c & 255, (c >> 8) & 255
    return (a >> pos) & ((1 << length) - 1)


def signed_field(a, c):
    pos, length = c & 255, min((c >> 8) & 255, 32)
    v = (signed(a) >> pos) & ((1 << length) - 1)
    return v - (1 << length) if length and v >> (length - 1) else v


def insert(a, b, c):
    pos, length = c & 255, min((c >> 8) & 255, 32)
    mask = ((1 << length) - 1) << pos & 0xffffffff
    return (a << pos & mask) | (b & ~mask)


def dot4(a, b):
    byte = lambda x, i: ((x >> (8 * i)) & 255) - (((x >> (8 * i)) & 128) << 1)
    return sum(byte(a, i) * byte(b, i) for i in range(4)) + 7


# Name -> text, constraints, dtypes of the operands, dtype of the result, pack, what it computes.
EXACT = {
    "shift": ("shl.b32 $0, $1, 3;", "=r,r", ["int32"], "int32", 1, lambda x: x << 3),
    # The amount counts in full.
    "far": ("shl.b32 $0, $1, $2;", "=r,r,r", ["int32", "count"], "int32", 1, by_bits(lambda x, n: x << n if n < 32 else 0)),
    "far_right": ("shr.s32 $0, $1, $2;", "=r,r,r", ["int32", "count"], "int32", 1, by_bits(lambda x, n: signed(x) >> n)),
    "bytes": ("and.b32 $0, $1, 0x1F1F1F1F; shl.b32 $0, $0, 3;", "=&r,r", ["uint8"], "uint8", 4, lambda x: (x & 31) << 3),
    "bytes_in_halves": ("not.b16 $0, $1;", "=h,h", ["uint8"], "uint8", 2, lambda x: ~x),
    "eight_bytes": ("xor.b32 $0, $2, 0x01010101; xor.b32 $1, $3, 0x02020202;", "=&r,=r,r,r", ["uint8"], "uint8", 8,
                    lambda x: x ^ np.tile(np.repeat(np.uint8([1, 2]), 4), len(x) // 8)),
    "swap_pairs": ("prmt.b32 $0, $1, $1, 0x1032;", "=r,r", ["int16"], "int16", 2, lambda x: x.reshape(-1, 2)[:, ::-1].ravel()),
    "byte_order": ("prmt.b32 $0, $1, 0, 0x0123;", "=r,r", ["int32"], "int32", 1, lambda x: x.byteswap()),
    "permute": ("prmt.b32 $0, $1, 0x80ff7f01, $2;", "=r,r,r", ["int32", "int32"], "int32", 1, by_bits(lambda a, c: perm(a, 0x80ff7f01, c))),
    "lop3": ("lop3.b32 $0, $1, $2, 0x0ff00ff0, 0x6a;", "=r,r,r", ["int32", "int32"], "int32", 1, by_bits(lambda a, b: (a & b) ^ 0x0ff00ff0)),
    # Nibbles become the low bits of 128.0, which is subtracted.
    "int4_to_bf16": ("{ .reg .b32 t, one, less; lop3.b32 t, $1, 0x000F000F, 0x43004300, 0xea; mov.b32 one, 0x3F803F80; mov.b32 less, 0xC300C300;\n"
                     "fma.rn.bf16x2 $0, t, one, less; }", "=r,r", ["uint16"], "bfloat16", 2, lambda x: (x & 15).astype(np.float32).astype(bf16)),
    "fp8_to_f16": ("prmt.b32 $0, 0, $2, 0x5040;\n  prmt.b32 $1, 0, $2, 0x7060;", "=&r,=r,r", ["float8e5"], "float16", 4, lambda x: x.astype(np.float16)),
    "to_bf16_pairs": ("cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", ["float32"], "bfloat16", 2, lambda x: x.astype(bf16)),
    "to_f16_pairs": ("cvt.rn.f16x2.f32 $0, $2, $1;", "=r,r,r", ["float32"], "float16", 2, lambda x: x.astype(np.float16)),
    "tf32": ("cvt.rna.tf32.f32 $0, $1;", "=r, r", ["float32"], "float32", 1, tf32),
    "guards": ("{ .reg .pred p; setp.gt.s32 p, $1, 0; @p add.s32 $0, $1, 5; @!p sub.s32 $0, $1, 5; }", "=&r,r", ["int32"], "int32", 1,
               by_bits(lambda x: x + 5 if signed(x) > 0 else x - 5)),
    "two_conditions": ("{ .reg .pred p, q; setp.lt.s32 p|q, $1, $2; setp.eq.or.s32 p, $1, 7, p; selp.b32 $0, $1, $2, p; @q add.u32 $0, $0, 1; }", "=&r,r,r",
                       ["int32", "int32"], "int32", 1,
                       by_bits(lambda a, b: (a if signed(a) < signed(b) or a == 7 else b) + (signed(a) >= signed(b)))),
    "scopes": ("{ .reg .b32 t<2>, u; mov.b32 t0, 1; { .reg .b32 t0; mov.b32 t0, 100; add.u32 u, t0, $1; } // the other t0\n"
               " add.u32 t1, u, t0; /* and */ mov.b32 $0, t1; }", "=r,r", ["int32"], "int32", 1, lambda x: x + np.int32(101)),
    "wide": ("mul.wide.s32 $0, $1, $2;", "=l,r,r", ["int32", "int32"], "int64", 1, lambda a, b: a.astype(np.int64) * b),
    "high": ("mul.hi.u32 $0, $1, $2;", "=r,r,r", ["int32", "int32"], "int32", 1, by_bits(lambda a, b: a * b >> 32)),
    "mad": ("mad.lo.s32 $0, $1, $2, $1;", "=r,r,r", ["int32", "int32"], "int32", 1, by_bits(lambda a, b: a * b + a)),
    "halves_of_64": ("{ .reg .b32 lo, hi; mov.b64 {lo, hi}, $1; add.u32 $0, lo, hi; }", "=r,l", ["int64"], "int32", 1,
                     lambda x: (x.view(np.uint32)[0::2] + x.view(np.uint32)[1::2]).view(np.int32)),
    "field": ("{ .reg .b32 n; shr.u32 n, $2, 8; bfe.u32 $0, $1, $2, n; }", "=r,r,r", ["int32", "field"], "int32", 1, by_bits(field)),
    "signed_field": ("{ .reg .b32 n; shr.u32 n, $2, 8; bfe.s32 $0, $1, $2, n; }", "=r,r,r", ["int32", "field"], "int32", 1, by_bits(signed_field)),
    "insert": ("{ .reg .b32 n; shr.u32 n, $2, 8; bfi.b32 $0, $1, 0x12345678, $2, n; }", "=r,r,r", ["int32", "field"], "int32", 1,
               by_bits(lambda a, c: insert(a, 0x12345678, c))),
    "reverse": ("brev.b32 $0, $1;", "=r,r", ["int32"], "int32", 1, by_bits(lambda x: int(f"{x:032b}"[::-1], 2))),
    "highest": ("bfind.u32 $0, $1;", "=r,r", ["int32"], "int32", 1, by_bits(lambda x: x.bit_length() - 1)),
    "funnel": ("shf.l.wrap.b32 $0, $1, $2, $2;", "=r,r,r", ["int32", "int32"], "int32", 1, by_bits(lambda a, b: ((b << 32 | a) << (b & 31)) >> 32)),
    "funnel_right": ("shf.r.clamp.b32 $0, $1, $1, $2;", "=r,r,r", ["int32", "count"], "int32", 1, by_bits(lambda a, n: (a << 32 | a) >> min(n, 32))),
    "dot_of_bytes": ("dp4a.s32.s32 $0, $1, $2, 7;", "=r,r,r", ["int32", "int32"], "int32", 1, by_bits(dot4)),
    "saturated": ("add.sat.s32 $0, $1, $2;", "=r,r,r", ["int32", "int32"], "int32", 1,
                  lambda a, b: np.clip(a.astype(np.int64) + b, -2**31, 2**31 - 1).astype(np.int32)),
    "to_byte": ("cvt.sat.u8.s32 $0, $1;", "=r,r", ["int32"], "int32", 1, lambda x: np.clip(x, 0, 255)),
    "sign_of_byte": ("cvt.s32.s8 $0, $1;", "=r,r", ["int32"], "int32", 1, lambda x: x.astype(np.int8).astype(np.int32)),
    "rounded": ("cvt.rni.s32.f32 $0, $1;", "=r,f", ["float32"], "int32", 1, lambda x: np.rint(x).astype(np.int32)),
    "ceiling": ("cvt.rpi.s32.f32 $0, $1;", "=r,f", ["float32"], "int32", 1, lambda x: np.ceil(x).astype(np.int32)),
    "integral": ("cvt.rni.f32.f32 $0, $1;", "=f,f", ["float32"], "float32", 1, np.rint),
    "f32": ("{ .reg .f32 t; add.rn.f32 t, $1, 0f3FC00000; mul.rn.f32 $0, t, $2; }", "=f,f,f", ["float32", "float32"], "float32", 1,
            lambda a, b: (a + np.float32(1.5)) * b),
    "f64": ("add.f64 $0, $1, 0.5;", "=d,d", ["float64"], "float64", 1, lambda x: x + 0.5),
    "extrema": ("{ .reg .f32 t; min.f32 t, $1, 1.0; max.f32 $0, t, $2; }", "=f,f,f", ["float32", "float32"], "float32", 1, lambda a, b: np.maximum(np.minimum(a, 1), b)),
    "half": ("neg.f16 $0, $1;", "=h,h", ["float16"], "float16", 1, lambda x: -x),
    "half_pairs": ("fma.rn.f16x2 $0, $1, $1, $2;", "=r,r,r", ["small16", "small16"], "float16", 2,
                   lambda a, b: (a.astype(np.float64) * a.astype(np.float64) + b.astype(np.float64)).astype(np.float16)),
    "saturated_half": ("mul.sat.f16x2 $0, $1, $2;", "=r,r,r", ["small16", "small16"], "float16", 2, lambda a, b: np.clip(a * b, 0, 1) + np.float16(0)),
    "bits": ("xor.b32 $0, $1, 0x80000000;", "=r,r", ["float32"], "float32", 1, lambda x: -x),
    "bool": ("xor.b32 $0, $1, 1;", "=r,r", ["int1"], "int1", 1, lambda x: ~x),
    "tied": ("add.s32 $0, $0, $2;", "=r,0,r", ["int32", "int32"], "int32", 1, lambda a, b: a + b),
    "nothing": ("", "=r,0", ["int32"], "int32", 1, lambda x: x),
    "clobbers": ("add.s32 ${0}, ${1}, 1;", "=r,r,~{memory}", ["int32"], "int32", 1, lambda x: x + np.int32(1)),
}


def operand(name, n, key):
    if name == "count":
        return values(d("int32"), n, key, low=0, high=40)
    if name == "field":
        return (values(d("int32"), n, key, low=0, high=40) | values(d("int32"), n, (key, 1), low=0, high=40) << 8).astype(np.int32)
    if name == "small16":
        return (rng(n, key).integers(-64, 64, n) / 32).astype(np.float16)
    if name == "float8e5":
        return (np.arange(n) * 7 % 0x7c | (np.arange(n) & 1) << 7).astype(np.uint8).view(f8e5)
    return values(d(name), n, key)


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("name", EXACT)
def test_exact(dev, name, pure):
    text, constraints, operands, result, pack, f = EXACT[name]
    n = 512
    x = [operand(o, n, (name, i)) for i, o in enumerate(operands)]
    out = np.zeros(n, d(result).np)
    dev(apply, (1,), x[0], x[-1], out, text, constraints, d(result).tl, pack, len(x) == 2, pure, n)
    with np.errstate(all="ignore"):
        assert_same(out, f(*x).astype(d(result).np))


# Text, the function, the error in units in the last place that the instruction may have.
APPROXIMATE = {
    "ex2": ("ex2.approx.ftz.f32 $0, $1;", np.exp2, 2),
    "lg2": ("{ .reg .f32 t; abs.f32 t, $1; add.f32 t, t, 0f40000000; lg2.approx.ftz.f32 $0, t; }", lambda x: np.log2(np.abs(x) + 2), 4),
    "rcp": ("rcp.approx.ftz.f32 $0, $1;", lambda x: 1 / x, 2),
    "sqrt": ("{ .reg .f32 t; abs.ftz.f32 t, $1; sqrt.approx.f32 $0, t; }", lambda x: np.sqrt(np.abs(x)), 2),
    "rsqrt": ("{ .reg .f32 t; abs.ftz.f32 t, $1; rsqrt.approx.f32 $0, t; }", lambda x: 1 / np.sqrt(np.abs(x)), 3),
    "div": ("div.full.f32 $0, 0f40400000, $1;", lambda x: 3 / x, 3),
    "tanh": ("tanh.approx.f32 $0, $1;", np.tanh, 2**13),
    "cos": ("cos.approx.f32 $0, 0f3F000000;", lambda x: np.full_like(x, np.cos(0.5)), 64),
}


@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximate(dev, name):
    text, f, ulps = APPROXIMATE[name]
    x = values(d("float32"), 256, name)
    out = np.zeros_like(x)
    dev(apply, (1,), x, x, out, text, "=f,f", tl.float32, 1, False, True, 256)
    assert_ulp(out, f(x.astype(np.float64)), ulps)


@tegula.jit
def two_results(a, b, c, e, N: tl.constexpr):
    i = tl.arange(0, N)
    (whole, most) = tl.inline_asm_elementwise(
        asm="""
        {
            // four bytes as floats, and the larger of each and a float
            .reg .b8 tmp<4>;
            mov.b32 {tmp0, tmp1, tmp2, tmp3}, $8;
            cvt.rn.f32.u8 $0, tmp0;
            cvt.rn.f32.u8 $1, tmp1;
            cvt.rn.f32.u8 $2, tmp2;
            cvt.rn.f32.u8 $3, tmp3;
            max.f32 $4, $0, $9;
            max.f32 $5, $1, $10;
            max.f32 $6, $2, $11;
            max.f32 $7, $3, $12;
        }
        """,
        constraints=("=r,=r,=r,=r,=r,=r,=r,=r,"
                     "r,r,r,r,r"),
        args=[tl.load(a + i), tl.load(b + i)],
        dtype=(tl.float32, tl.float32),
        is_pure=True,
        pack=4,
    )
    tl.store(c + i, whole)
    tl.store(e + i, most)


def test_two_results(dev):
    n = 1024
    a, b = values(d("uint8"), n, 0), values(d("float32"), n, 1, low=0, high=255)
    c, e = np.zeros(n, np.float32), np.zeros(n, np.float32)
    dev(two_results, (1,), a, b, c, e, n)
    assert_same(c, a.astype(np.float32))
    assert_same(e, np.maximum(a, b))


@tegula.jit
def mixed_results(x, out, out2, PURE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.inline_asm_elementwise("cvt.s64.s32 $0, $2; cvt.rn.f32.s32 $1, $2;", "=&l,=f,r", (tl.load(x + i),), (tl.int64, tl.float32), PURE, 1)
    tl.store(out + i, a)
    tl.store(out2 + i, b)


@pytest.mark.parametrize("pure", [True, False])
def test_results_of_several_types(dev, pure):
    x = values(d("int32"), 128)
    out, out2 = np.zeros(128, np.int64), np.zeros(128, np.float32)
    dev(mixed_results, (1,), x, out, out2, pure, 128)
    assert_same(out, x.astype(np.int64))
    assert_same(out2, x.astype(np.float32))


@tegula.jit
def broadcasts(x, y, out, s, M: tl.constexpr, N: tl.constexpr):
    row, col = tl.load(x + tl.arange(0, M))[:, None], tl.load(y + tl.arange(0, N))[None, :]
    r = tl.inline_asm_elementwise("mad.lo.s32 $0, $1, $2, $3; add.s32 $0, $0, $4;", "=&r,r,r,r,r", [row, col, s, 1000], tl.int32, True, 1)
    tl.static_assert(r.shape == (M, N))
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], r)


def test_broadcasting(dev):
    x, y = values(d("int32"), 8, 0), values(d("int32"), 32, 1)
    out = np.zeros((8, 32), np.int32)
    dev(broadcasts, (1,), x, y, out, 77, 8, 32)
    with np.errstate(all="ignore"):
        assert_same(out, x[:, None] * y[None, :] + np.int32(1077))


@tegula.jit
def scalars(out, n, p):
    a = tl.inline_asm_elementwise("add.s32 $0, $1, 5;", "=r,r", [n], tl.int32, True, 1)
    tl.static_assert(a.shape == ())
    tl.store(out, a)
    tl.store(out + 1, tl.inline_asm_elementwise("mov.u32 $0, 42;", "=r", [], tl.int32, is_pure=True, pack=1))
    tl.store(out + 2, tl.inline_asm_elementwise("and.b32 $0, $1, 0xff00;", "=r,r", [n.to(tl.uint8)], tl.uint8, True, 4).to(tl.int32))
    address = tl.inline_asm_elementwise("mov.u64 $0, $1;", "=l,l", [p], tl.int64, True, 1)
    tl.store(out + 3, (address == p.to(tl.int64)).to(tl.int32))
    two = tl.inline_asm_elementwise("add.s16 $0, $1, 1;", "=h,h", [n.to(tl.int16)], (tl.int16,), False, 1)
    tl.store(out + 4, two[0].to(tl.int32))
    # One block of two elements, executed four at a time.
    pair = tl.inline_asm_elementwise("xor.b32 $0, $1, 0x0f0f0f0f;", "=r,r", [tl.arange(0, 2).to(tl.uint8)], tl.uint8, True, 4)
    tl.store(out + 5 + tl.arange(0, 2), pair.to(tl.int32))
    # A pointer as the result.
    q = tl.inline_asm_elementwise("add.s64 $0, $1, 4;", "=l,l", [out + 6], tl.pointer_type(tl.int32), True, 1)
    tl.store(q, 99)


def test_scalars(dev):
    out, p = np.zeros(8, np.int32), np.zeros(4, np.int64)
    dev(scalars, (1,), out, 1234, p)
    # Of the four copies of a scalar in a register the first one is the result.
    assert_same(out, np.array([1239, 42, 0, 1, 1235, 15, 14, 99], np.int32))


@tegula.jit
def add_one(x):
    return tl.inline_asm_elementwise("add.s32 $0, $1, 1;", "=r,r", [x], tl.int32, True, 1)


@tegula.jit
def larger(a, b):
    return tl.inline_asm_elementwise("max.s32 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, True, 1)


@tegula.jit
def anywhere(x, out, k, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + i)
    for _ in range(k):
        v = add_one(v)
        if k > 2:
            v = tl.inline_asm_elementwise("add.s32 $0, $1, 2;", "=r,r", [v], tl.int32, False, 1)
    tl.store(out + tl.arange(0, M), tl.reduce(v, 1, larger))
    tl.store(out + M + tl.arange(0, N), tl.associative_scan(tl.sum(v, 0), 0, larger))
    tl.store(out + M + N + tl.arange(0, M), tl.map_elementwise(add_one, tl.max(v, 1)))
    odd = tl.arange(0, 24)
    tl.store(out + 2 * M + N + odd, add_one(odd))


@pytest.mark.parametrize("k", [1, 3])
def test_anywhere_in_a_kernel(dev, k):
    m, n = 4, 64
    x = values(d("int32"), m * n, k, low=-1000, high=1000)
    out = np.zeros(2 * m + n + 24, np.int32)
    dev(anywhere, (1,), x, out, k, m, n)
    v = x.reshape(m, n) + (k if k <= 2 else 3 * k)
    assert_same(out, np.concatenate([v.max(1), np.maximum.accumulate(v.sum(0)), v.max(1) + 1, np.arange(24) + 1]).astype(np.int32))


@tegula.jit
def two_dimensions(x, out, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] + M * tl.arange(0, N)[None, :]
    v = tl.load(x + i)
    # Groups are neighbours in a row, whatever the order in memory.
    r = tl.inline_asm_elementwise("prmt.b32 $0, $1, $1, 0x0123;", "=r,r", [v], tl.uint8, True, 4)
    tl.store(out + i, r)


@pytest.mark.parametrize("m, n", [(16, 32), (64, 2), (1, 8)])
def test_groups_of_a_block(dev, m, n):
    x = values(d("uint8"), m * n, (m, n))
    out = np.zeros_like(x)
    dev(two_dimensions, (1,), x, out, m, n)
    assert_same(out.reshape(n, m).T.reshape(-1, 4), np.ascontiguousarray(x.reshape(n, m).T).reshape(-1, 4)[:, ::-1])


@tegula.jit
def clock(out):
    before = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], tl.int64, is_pure=False, pack=1)
    tl.inline_asm_elementwise("nanosleep.u32 $1; mov.u32 $0, 0;", "=r,r", [100], tl.int32, is_pure=False, pack=1)
    after = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], tl.int64, is_pure=False, pack=1)
    sm = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], tl.int32, is_pure=True, pack=1)
    tl.store(out, (after >= before).to(tl.int32))
    tl.store(out + 1, (sm >= 0).to(tl.int32))


def test_clock(dev):
    out = np.zeros(2, np.int32)
    dev(clock, (1,), out)
    assert_same(out, np.array([1, 1], np.int32))


@tegula.jit
def fetched_ahead(x, out, n):
    i = tl.arange(0, 64)
    tl.inline_asm_elementwise("prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [x + i], tl.int32, is_pure=False, pack=1)
    tl.inline_asm_elementwise("{ .reg .pred p; setp.lt.s32 p, $2, 3; @p prefetch.global.L2::evict_last [$1]; prefetchu.L1 [$1]; mov.u32 $0, 0; }", "=r,l,r", [x + i, i], tl.int32, is_pure=False, pack=1)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0), mask=i < n)


def test_prefetch(dev):
    x, out = values(d("int32"), 64), np.zeros(64, np.int32)
    dev(fetched_ahead, (1,), x, out, 50)
    assert_same(out, np.where(np.arange(64) < 50, x, 0))


@tegula.jit
def fetched_nowhere(x):
    tl.inline_asm_elementwise("prefetch.global.L3 [$1]; mov.u32 $0, 0;", "=r,l", [x], tl.int32, is_pure=False, pack=1)


@tegula.jit
def low_half(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.inline_asm_elementwise("not.b32 $0, $1;", "=r,r", [tl.load(x + i)], tl.int64, is_pure=True, pack=1))


def test_low_half(dev):
    """Of 64 bits in a PTX register of 32, as Triton and LLVM have it; flashinfer's and kraken's barriers give `dtype` of an address."""
    if dev.name == "cpu":
        pytest.skip("a CPU's own registers have no such names")
    x, out = values(d("int32"), 64), np.zeros(64, np.int64)
    dev(low_half, (1,), x, out, 64)
    assert_same(out, (~x).view(np.uint32).astype(np.int64))


@tegula.jit
def few_meet(out):
    tl.inline_asm_elementwise("bar.sync 1; mov.u32 $0, 0;", "=r", [], tl.int32, is_pure=False, pack=1)
    tl.store(out, 1)


@tegula.jit
def barrier():
    tl.inline_asm_elementwise("bar.sync 0;", "=r", [], tl.int32, is_pure=False, pack=1)


@tegula.jit
def butterfly(x, scratch, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for s in tl.static_range(4):
        tl.store(scratch + i, v)
        barrier()
        other = tl.load(scratch + (i ^ (1 << s)))
        v = tl.where((i & (1 << s)) == 0, v + other, other - v)
        barrier()
    tl.store(x + i, v)


def test_barrier(dev):
    """lmdeploy's Hadamard transform exchanges by memory, with a barrier of its own."""
    x = values(d("int32"), 16)
    got = x.copy()
    dev(butterfly, (1,), got, np.zeros(16, np.int32), 16)
    assert_same(got, np.array([[(-1) ** bin(i & j).count("1") for j in range(16)] for i in range(16)], np.int32) @ x)


def test_what_only_a_gpu_does(dev):
    if dev.name.startswith("cuda"):
        pytest.skip("about what has no GPU")
    with pytest.raises(CompileError, match="bar.sync 1.*only `bar.sync 0` has a meaning here"):
        dev(few_meet, (1,), np.zeros(1, np.int32))
    with pytest.raises(CompileError, match="prefetch.global.L3.*there is no such cache"):
        dev(fetched_nowhere, (1,), np.zeros(1, np.int32))


# ---- the CPU's own assembly

CPU = {
    "x86_64": {
        "add": ("leal ($1,$2), $0", "=r,r,r", ["int32", "int32"], "int32", 1, lambda a, b: a + b),
        "tied": ("subl $2, $0", "=r,0,r,~{flags}", ["int32", "int32"], "int32", 1, lambda a, b: a - b),
        "named": ("leal (%ecx,%r8d), %eax", "={eax},{ecx},{r8d}", ["int32", "int32"], "int32", 1, lambda a, b: a + b),
        "float": ("sqrtss $1, $0", "=x,x", ["positive"], "float32", 1, np.sqrt),
        "double": ("movapd $1, $0\n\taddsd $1, $0", "=&x,x", ["float64"], "float64", 1, lambda x: x + x),
        "bits_of_float": ("movl $1, $0\n\txorl $$0x80000000, $0", "=&r,r,~{flags}", ["float32"], "float32", 1, lambda x: -x),
        "bytes": ("movl $1, $0\n\tnotl $0", "=&r,r", ["uint8"], "uint8", 4, lambda x: ~x),
        "wide": ("movq $1, $0\n\tbswapq $0", "=&r,r", ["int64"], "int64", 1, lambda x: x.byteswap()),
    },
    "aarch64": {
        "add": ("add ${0:w}, ${1:w}, ${2:w}", "=r,r,r", ["int32", "int32"], "int32", 1, lambda a, b: a + b),
        "float": ("fsqrt ${0:s}, ${1:s}", "=w,w", ["positive"], "float32", 1, np.sqrt),
        "bytes": ("mvn ${0:w}, ${1:w}", "=r,r", ["uint8"], "uint8", 4, lambda x: ~x),
        "wide": ("rev $0, $1", "=r,r", ["int64"], "int64", 1, lambda x: x.byteswap()),
    },
}.get(platform.machine(), {})


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("name", CPU)
def test_assembly_of_the_cpu(dev, name, pure):
    if dev.name != "cpu":
        pytest.skip("CPUs only")
    text, constraints, operands, result, pack, f = CPU[name]
    x = [values(d("float32"), 64, 0, low=0, high=9) if o == "positive" else operand(o, 64, (name, i)) for i, o in enumerate(operands)]
    out = np.zeros(64, d(result).np)
    dev(apply, (1,), x[0], x[-1], out, text, constraints, d(result).tl, pack, len(x) == 2, pure, 64)
    with np.errstate(all="ignore"):
        assert_same(out, f(*x).astype(d(result).np))


@tegula.jit
def swap_on_x86(x, y, out, out2, s, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.inline_asm_elementwise("movl $3, $0; movl $2, $1", "=&r,=r,r,r", [tl.load(x + i), tl.load(y + i)], (tl.int32, tl.int32), True, 1)
    tl.store(out + i, a)
    tl.store(out2 + i, b)
    c, e = tl.inline_asm_elementwise("movl $3, $0; movl $2, $1", "=&r,=r,r,r", [s, s + 1], (tl.int32, tl.int32), False, 1)
    tl.store(out, c * 1000 + e)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86")
def test_several_results_of_the_cpu(dev):
    if dev.name != "cpu":
        pytest.skip("CPUs only")
    x, y = values(d("int32"), 64, 0), values(d("int32"), 64, 1)
    out, out2 = np.zeros_like(x), np.zeros_like(x)
    dev(swap_on_x86, (1,), x, y, out, out2, 7, 64)
    assert out[0] == 8007
    assert_same(out[1:], y[1:])
    assert_same(out2, x)


@tegula.jit
def fp8_pairs(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    r = tl.inline_asm_elementwise("cvt.rn.satfinite.e4m3x2.f32 $0, $2, $1;", "=h,f,f", [v], tl.float8e4nv, True, 2)
    tl.store(out + i, r)


def test_assembler_names_the_line():
    """GPUs before sm_89 have no such instruction; what the assembler says of it leads to the kernel."""
    x, out = values(d("float32"), 256), np.zeros(256, ml_dtypes.float8_e4m3fn)
    kernel = fp8_pairs[(1,)](x, out, 256, device="cpu")
    assert_same(out, np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn))
    if tegula._core.assembler() == "none":
        pytest.skip("no assembler")
    assert kernel.compile_for("sm_90a").stage("cubin")[:4] == b"\x7fELF"
    line = fp8_pairs.fn.__code__.co_firstlineno + 4
    with pytest.raises(tegula.PTXASError, match=rf"cvt.rn.satfinite.e4m3x2(.|\n)*from .*test_inline_asm.py:{line}\b"):
        kernel.compile_for("sm_80").stage("cubin")


E2M1, E2M3, E3M2 = ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn


@tegula.jit
def any_types(x, out, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, IN: tl.constexpr, DTYPE: tl.constexpr, PACK: tl.constexpr, N: tl.constexpr, M: tl.constexpr):
    r = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [tl.load(x + tl.arange(0, N)).to(IN, bitcast=True)], DTYPE, True, PACK)
    tl.store(out + tl.arange(0, M), r)


# What GPUs before sm_100 do not have; not run on a GPU.
def with_pairs(inner):
    return inner.reshape(-1, 2)


def small_floats():
    special = [0, -0.0, np.inf, -np.inf, np.nan, 2.0**-126, 2.0**-149, -2.0**-140, 3.4e38, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6, -5, 7, -7, 28, 30, 0.0625, 0.03125, 0.1875]
    g = rng(4096, "small")
    return np.concatenate([np.array(special + [1.0] * (32 - len(special))), g.normal(size=2016) * 4, np.exp2(g.integers(-149, 128, 2048)) * g.choice([-1, 1, 1.5, 1.25], 2048)]).astype(np.float32)


def coded(x, t):
    """Saturated, to nearest, NaN to the largest."""
    largest = float(ml_dtypes.finfo(t).max)
    return np.where(np.isnan(x), largest, np.clip(x, -largest, largest)).astype(np.float32).astype(t).view(np.uint8)


@pytest.mark.parametrize("name, t", [("e2m1", E2M1), ("e2m3", E2M3), ("e3m2", E3M2)])
def test_floats_of_few_bits(dev, name, t):
    if dev.name == "cuda":
        pytest.skip("instructions of sm_100")
    x = small_floats()
    few = name == "e2m1"
    register, size = ("b8", "u8") if few else ("b16", "u16")
    out = np.zeros(len(x), np.int32)
    text = f"{{ .reg .{register} t; cvt.rn.satfinite.{name}x2.f32 t, $3, $2; cvt.u32.{size} $0, t; mov.b32 $1, 0; }}"
    dev(any_types, (1,), x, out, text, "=r,=r,f,f", tl.float32, tl.int32, 2, len(x), len(x))
    pairs = with_pairs(coded(x, t)).astype(np.int32)
    assert_same(out[::2], pairs[:, 0] | pairs[:, 1] << (4 if few else 8))
    # Back, to pairs of float16; each code.
    codes = np.arange(256 if few else 64, dtype=np.uint32)
    given = codes if few else codes | (63 - codes) << 8
    out = np.zeros(2 * len(codes), np.float16)
    text = f"{{ .reg .{register} t; cvt.{size}.u32 t, $2; cvt.rn.f16x2.{name}x2 $0, t; mov.b32 $1, $0; }}"
    dev(every_code, (1,), given, out, text, len(codes))
    low, high = (given & 15, given >> 4) if few else (given & 63, given >> 8)
    want = np.stack([v.astype(np.uint8).view(t).astype(np.float16) for v in (low, high)], 1).ravel()
    assert_same(out, want)


@tegula.jit
def every_code(codes, out, ASM: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.inline_asm_elementwise(ASM, "=r,=r,r", [tl.load(codes + i)], (tl.uint32, tl.uint32), True, 1)
    tl.store(out + 2 * i, (a & 0xffff).to(tl.uint16).to(tl.float16, bitcast=True))
    tl.store(out + 2 * i + 1, (b >> 16).to(tl.uint16).to(tl.float16, bitcast=True))


def test_powers_of_two(dev):
    if dev.name == "cuda":
        pytest.skip("instructions of sm_100")
    x = np.abs(small_floats())
    up = np.zeros(len(x), np.int32)
    dev(any_types, (1,), x, up, "{ .reg .b16 t; cvt.rp.satfinite.ue8m0x2.f32 t, 0.0, $1; cvt.u32.u16 $0, t; }", "=r,f", tl.float32, tl.int32, 1, len(x), len(x))
    with np.errstate(all="ignore"):
        exponent = np.ceil(np.log2(x.astype(np.float64))) + 127
    assert_same(up, np.where(np.isnan(x), 255, np.clip(np.where(x == 0, 0, exponent), 0, 254)).astype(np.int32))
    codes = np.arange(256, dtype=np.uint32)
    out = np.zeros(256, np.float32)
    dev(any_types, (1,), codes, out, "{ .reg .b16 t; cvt.u16.u32 t, $1; cvt.rn.bf16x2.ue8m0x2 $0, t; shl.b32 $0, $0, 16; }", "=r,r", tl.uint32, tl.float32, 1, 256, 256)
    assert_same(out, np.where(codes == 255, np.nan, 2.0 ** (codes.astype(np.float64) - 127)).astype(bf16).astype(np.float32))


@pytest.mark.parametrize("kind", ["f16x2", "e2m1x4"])
def test_random_rounding(dev, kind):
    """Up with the probability of what is lost; exact numbers stay."""
    if dev.name == "cuda":
        pytest.skip("instructions of sm_100")
    n = 1 << 14
    random = rng(n, kind).integers(-2**31, 2**31, n).astype(np.int32)
    out = np.zeros(n, np.int32)
    for x in (1.0, -1.5, 1.25 if kind == "e2m1x4" else 1 + 2.0**-12, 0.125, -5.0):
        dev(rounded, (1,), random, out, x, kind == "f16x2", n)
        if kind == "f16x2":
            got = out.view(np.uint32).astype(np.uint32).reshape(-1, 1).view(np.uint16).view(np.float16)
        else:
            got = np.stack([(out >> (4 * k) & 15).astype(np.uint8).view(E2M1) for k in range(4)])
        got = got.astype(np.float64)
        assert len(np.unique(got)) <= 2 and abs(got.mean() - x) < 0.02 * abs(x)
        if x in (1.0, -1.5):
            assert (got == x).all()


@tegula.jit
def rounded(random, out, x, HALF: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.full((N,), x, tl.float32)
    if HALF:
        r = tl.inline_asm_elementwise("cvt.rs.f16x2.f32 $0, $1, $1, $2;", "=r,f,r", [v, tl.load(random + i)], tl.int32, True, 1)
    else:
        r = tl.inline_asm_elementwise("{ .reg .b16 t; cvt.rs.satfinite.e2m1x4.f32 t, {$1, $1, $1, $1}, $2; cvt.u32.u16 $0, t; }", "=r,f,r", [v, tl.load(random + i)], tl.int32, True, 1)
    tl.store(out + i, r)


@tegula.jit
def one_line(x, n, out):
    i = tl.arange(0, 32)
    v = tl.load(x + i)
    tl.store(out + i, tl.inline_asm_elementwise("neg.s32 $0, $1; add.s32 $0, $0, 5;", "=r,r", [v], tl.int32, True, 1))
    w = n ^ 1
    tl.store(out + 32, w ^ tl.inline_asm_elementwise("lop3.b32 $0, $1, $2, $3, 0x96;", "=r,r,r,r", [w, w, n], tl.int32, True, 1))


def test_statements_in_one_line_and_one_register_twice(dev):
    x, out = np.arange(32, dtype=np.int32), np.zeros(33, np.int32)
    dev(one_line, (1,), x, 6, out)
    np.testing.assert_array_equal(out, np.append(5 - x, 1))


@tegula.jit
def branch_on_lop3(a, b, c, x, out):
    if tl.inline_asm_elementwise("lop3.b32 $0, $1, $2, $3, 0x96;", "=r,r,r,r", [a, b, c], tl.int32, True, 1):
        v = 7
    else:
        v = tl.load(x)
    tl.store(out, v)


@pytest.mark.parametrize("c, want", [(6, 3), (5, 7)])
def test_branch_on_lop3(dev, c, want):
    out = np.zeros(1, np.int32)
    dev(branch_on_lop3, (1,), 2, 4, c, np.array([3], np.int32), out)
    assert out[0] == want
