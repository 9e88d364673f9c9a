"""Statements of inline assembly: PTX that every device takes (docs/differences.md), and what it means in numpy.

A row: text, constraints, dtypes of the operands, dtypes of the results, elements in a pack, meaning. The meaning gets arrays of the operands' dtypes and
gives the results. Of floats only what is exact or correctly rounded everywhere is here."""
import numpy as np


def by_words(f):
    """A function of 32-bit words for operands of packs, which are neighbours in row-major order."""

    def apply(*xs):
        shape, dtype = xs[0].shape, xs[0].dtype
        words = [np.ascontiguousarray(x).reshape(-1).view(np.uint32) for x in xs]
        return np.asarray(f(*words), np.uint32).view(dtype).reshape(shape)

    return apply


def permuted(x, y):
    """prmt.b32 with 0x5140: bytes 0 and 1 of both words by turns."""
    byte = lambda w, k: w >> np.uint32(8 * k) & np.uint32(255)
    return byte(x, 0) | byte(y, 0) << np.uint32(8) | byte(x, 1) << np.uint32(16) | byte(y, 1) << np.uint32(24)


def field(x):
    """bfe.s32 from bit 5 on, 9 bits."""
    return x << np.int32(18) >> np.int32(23)


ASSEMBLY = {
    "add": ("add.s32 $0, $1, $2;", "=r,r,r", ("int32", "int32"), ("int32", ), 1, lambda x, y: x + y),
    "mad": ("mad.lo.s32 $0, $1, $2, $3;", "=r,r,r,r", ("int32", ) * 3, ("int32", ), 1, lambda x, y, z: x * y + z),
    "least": ("min.u32 $0, $1, $2;", "=r,r,r", ("uint32", "uint32"), ("uint32", ), 1, np.minimum),
    "field": ("bfe.s32 $0, $1, 5, 9;", "=r,r", ("int32", ), ("int32", ), 1, field),
    "lop3": ("lop3.b32 $0, $1, $2, $3, 0x96;", "=r,r,r,r", ("int32", ) * 3, ("int32", ), 1, lambda x, y, z: x ^ y ^ z),
    "long": ("sub.s64 $0, $1, $2;", "=l,l,l", ("int64", "int64"), ("int64", ), 1, lambda x, y: x - y),
    "both": ("{ .reg .s32 t; add.s32 t, $2, $3; sub.s32 $1, $2, $3; mov.s32 $0, t; }", "=&r,=&r,r,r", ("int32", "int32"), ("int32", "int32"), 1,
             lambda x, y: (x + y, x - y)),
    "chosen": ("{ .reg .pred p; setp.lt.f32 p, $1, $2; selp.s32 $0, 7, -3, p; }", "=r,f,f", ("float32", "float32"), ("int32", ), 1,
               lambda x, y: np.where(x < y, np.int32(7), np.int32(-3))),
    "widened": ("cvt.f64.f32 $0, $1;", "=d,f", ("float32", ), ("float64", ), 1, lambda x: x.astype(np.float64)),
    "rounded": ("add.rn.f32 $0, $1, $2;", "=f,f,f", ("float32", "float32"), ("float32", ), 1, lambda x, y: x + y),
    "bytes": ("prmt.b32 $0, $1, $2, 0x5140;", "=r,r,r", ("uint8", "uint8"), ("uint8", ), 4, by_words(permuted)),
    "halves": ("xor.b32 $0, $1, $2; not.b32 $0, $0;", "=&r,r,r", ("int16", "int16"), ("int16", ), 2, by_words(lambda x, y: ~(x ^ y))),
    "pairs": ("and.b32 $0, $1, 0xff00ff00;", "=r,r", ("int8", ), ("int8", ), 4, by_words(lambda x: x & np.uint32(0xff00ff00))),
}


def meaning(name, args):
    """The results, as a list."""
    *_, results, _, f = ASSEMBLY[name]
    shape = np.broadcast_shapes(*(np.shape(a) for a in args))
    out = f(*(np.array(np.broadcast_to(a, shape)) for a in args))
    return [np.asarray(r) for r in (out if len(results) > 1 else [out])]
