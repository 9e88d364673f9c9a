# tl.extra.libdevice: integer functions and parts of float64.
import tegula.language as tl
from tegula import jit


@jit(exact=True)
def _integer(x):
    t = tl.to_tensor(x)
    tl.static_assert(t.dtype.is_int() and t.dtype.primitive_bitwidth >= 32, "libdevice: a 32-bit or 64-bit integer is expected")
    return t


@jit(exact=True)
def _unsigned(x):
    return x.to(tl.uint64 if x.dtype.primitive_bitwidth == 64 else tl.uint32, bitcast=True)


@jit(exact=True)
def mulhi(arg0, arg1):
    x, y = tl.broadcast(_integer(arg0), _integer(arg1))
    tl.static_assert(x.dtype == y.dtype, "libdevice.mulhi: both factors must have one type")
    high = tl.umulhi(x, y)
    if x.dtype.is_int_signed():
        # Each negative factor counted 2**bits too much.
        return high - tl.where(x < 0, y, 0) - tl.where(y < 0, x, 0)
    else:
        return high


@jit(exact=True)
def _low24(x, SHIFT: tl.constexpr):
    return (x << SHIFT) >> SHIFT


@jit(exact=True)
def mul24(arg0, arg1):
    # Signed or unsigned by the type; 24 bits of each factor, the low 32 of the product.
    x = _integer(arg0)
    y = _integer(arg1)
    tl.static_assert(x.dtype.primitive_bitwidth == 32 and y.dtype.primitive_bitwidth == 32, "libdevice.mul24: 32-bit integers are expected")
    return _low24(x, 8) * _low24(y, 8)


@jit(exact=True)
def hadd(arg0, arg1):
    x = _integer(arg0)
    y = _integer(arg1)
    return (x & y) + ((x ^ y) >> 1)


@jit(exact=True)
def rhadd(arg0, arg1):
    x = _integer(arg0)
    y = _integer(arg1)
    return (x | y) - ((x ^ y) >> 1)


@jit(exact=True)
def sad(arg0, arg1, arg2):
    # |x - y| + z, all modulo 2**32.
    x = _integer(arg0)
    y = _integer(arg1)
    z = _integer(arg2)
    d = tl.where(x > y, _unsigned(x) - _unsigned(y), _unsigned(y) - _unsigned(x))
    return (d + _unsigned(z)).to(z.dtype, bitcast=True)


@jit(exact=True)
def brev(arg0):
    x = _integer(arg0)
    w = _unsigned(x)
    bits: tl.constexpr = x.dtype.primitive_bitwidth
    all_ones: tl.constexpr = (1 << bits) - 1
    for k in tl.static_range(6 if bits == 64 else 5):
        w = _swap(w, 1 << k, all_ones // ((1 << (1 << k)) + 1))
    return w.to(x.dtype, bitcast=True)


@jit(exact=True)
def _swap(w, SHIFT: tl.constexpr, MASK: tl.constexpr):
    return ((w >> SHIFT) & MASK) | ((w & MASK) << SHIFT)


@jit(exact=True)
def ffs(arg0):
    # One more than the position of the lowest bit, 0 for 0.
    x = _integer(arg0)
    w = _unsigned(x)
    low = (w & (~w + 1)).to(x.dtype, bitcast=True)
    return tl.where(x == 0, 0, x.dtype.primitive_bitwidth - tl.extra.libdevice.clz(low)).to(tl.int32)


@jit(exact=True)
def _byte(x, y, selector, K: tl.constexpr):
    s = (selector >> (4 * K)) & 7
    word = tl.where(s < 4, x, y)
    return ((word >> ((s & 3) * 8)) & 255) << (8 * K)


@jit(exact=True)
def byte_perm(arg0, arg1, arg2):
    x = _integer(arg0)
    a = _unsigned(x)
    b = _unsigned(_integer(arg1))
    s = _unsigned(_integer(arg2))
    return (_byte(a, b, s, 0) | _byte(a, b, s, 1) | _byte(a, b, s, 2) | _byte(a, b, s, 3)).to(x.dtype, bitcast=True)


@jit(exact=True)
def double2hiint(arg0):
    return (tl.to_tensor(arg0).to(tl.int64, bitcast=True) >> 32).to(tl.int32)


@jit(exact=True)
def double2loint(arg0):
    return tl.to_tensor(arg0).to(tl.int64, bitcast=True).to(tl.int32)


@jit(exact=True)
def hiloint2double(arg0, arg1):
    high = tl.to_tensor(arg0).to(tl.int32).to(tl.int64) << 32
    low = tl.to_tensor(arg1).to(tl.int32).to(tl.int64) & 4294967295
    return (high | low).to(tl.float64, bitcast=True)
