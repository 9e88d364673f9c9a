# tl.extra.libdevice: arithmetic rounded down (rd), up (ru), toward zero (rz) or to nearest (rn), and neighbours of numbers.
# A result of the ordinary operation is corrected by the sign of its exact error.
import tegula.language as tl
from tegula import jit
from tegula.language.extra import libdevice


@jit(exact=True)
def _word(x):
    return x.to(tl.int64 if x.dtype == tl.float64 else tl.int32, bitcast=True)


@jit(exact=True)
def _step(x, UP: tl.constexpr):
    # The next number above or below; NaN and the infinity of that side stay.
    w = _word(x)
    rising = (w >= 0) == UP
    w = tl.where(rising, w + 1, w - 1)
    least = _word(tl.zeros_like(x)) + 1
    zero = least.to(x.dtype, bitcast=True)
    r = tl.where(x == 0.0, zero if UP else -zero, w.to(x.dtype, bitcast=True))
    return tl.where((x != x) | (x == (float("inf") if UP else -float("inf"))), x, r)


@jit(exact=True)
def nextafter(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return tl.where((x == y) | (y != y), y, tl.where(y > x, _step(x, True), _step(x, False)))


@jit(exact=True)
def _directed(r, error, MODE: tl.constexpr):
    # error: of the sign of (exact result - r).
    down = tl.where(error < 0.0, _step(r, False), r)
    up = tl.where(error > 0.0, _step(r, True), r)
    if MODE == "rd":
        return down
    elif MODE == "ru":
        return up
    elif MODE == "rz":
        return tl.where(r > 0.0, down, tl.where(r < 0.0, up, r))
    else:
        return r


@jit(exact=True)
def _finite(x):
    return tl.abs(x) < float("inf")


@jit(exact=True)
def _sum_error(x, y, s):
    part = s - x
    return (x - (s - part)) + (y - part)


@jit(exact=True)
def _add(x, y, MODE: tl.constexpr):
    r = x + y
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    s = a + b
    # s is r itself in float64, and exact for the purpose of a comparison in float32.
    wide = r.to(tl.float64)
    error = tl.where(s == wide, _sum_error(a, b, s), s - wide)
    error = tl.where(_finite(r), error, tl.where(_finite(x) & _finite(y), -wide, 0.0))
    r = _directed(r, error, MODE)
    if MODE == "rd":
        # An exact zero that is not the sum of two positive zeros.
        return tl.where((r == 0.0) & (error == 0.0) & ((_word(x) | _word(y)) != 0), -tl.zeros_like(r), r)
    else:
        return r


@jit(exact=True)
def _mul(x, y, MODE: tl.constexpr):
    r = x * y
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    # Near the bottom of the range the error would be rounded away: the smaller factor is scaled.
    wide = r.to(tl.float64)
    k = tl.where(tl.abs(wide) < 1e-200, 1.6069380442589903e60, tl.zeros_like(wide) + 1.0)
    first = tl.abs(a) < tl.abs(b)
    error = tl.fma(tl.where(first, a * k, a), tl.where(first, b, b * k), -wide * k)
    lost = (wide == 0.0) & (a != 0.0) & (b != 0.0)
    error = tl.where(lost, tl.where((a < 0.0) == (b < 0.0), 1.0, -1.0), error)
    error = tl.where(_finite(r), error, tl.where(_finite(x) & _finite(y), -wide, 0.0))
    return _directed(r, error, MODE)


@jit(exact=True)
def _div(x, y, MODE: tl.constexpr):
    r = libdevice.div_rn(x, y)
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    wide = r.to(tl.float64)
    k = tl.where(tl.abs(a) < 1e-200, 1.6069380442589903e60, tl.zeros_like(wide) + 1.0)
    # r b can overflow where a is huge and r was rounded up.
    k = tl.where(tl.abs(a) > 1e200, 6.223015277861142e-61, k)
    error = tl.fma(-wide * k, b, a * k)
    error = tl.where(b < 0.0, -error, error)
    error = tl.where(_finite(r), error, tl.where(_finite(x) & (y != 0.0), -wide, 0.0))
    return _directed(r, tl.where(_finite(y), error, 0.0), MODE)


@jit(exact=True)
def _sqrt(x, MODE: tl.constexpr):
    r = tl.sqrt(x)
    a = x.to(tl.float64)
    wide = r.to(tl.float64)
    k = tl.where(a < 1e-200, 1.2676506002282294e30, tl.zeros_like(wide) + 1.0)
    error = tl.fma(-(wide * k), wide * k, a * k * k)
    return _directed(r, tl.where(_finite(r), error, 0.0), MODE)


@jit(exact=True)
def _fma(x, y, z, MODE: tl.constexpr):
    r = tl.fma(x, y, z)
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    c = z.to(tl.float64)
    p = a * b
    low = tl.fma(a, b, -p)
    s = p + c
    wide = r.to(tl.float64)
    rest = _sum_error(p, c, s)
    near = s - wide
    t = near + rest
    error = t + (_sum_error(near, rest, t) + low)
    error = tl.where(_finite(r), error, tl.where(_finite(x) & _finite(y) & _finite(z), -wide, 0.0))
    return _directed(r, error, MODE)


# The widest integers are compared with what the rounded number is worth.


@jit(exact=True)
def _from_int(x, DTYPE: tl.constexpr, MODE: tl.constexpr):
    r = x.to(DTYPE)
    top: tl.constexpr = 2.0**(x.dtype.primitive_bitwidth - (1 if x.dtype.is_int_signed() else 0))
    back = tl.where(r >= top, 0.0, r).to(x.dtype)
    error = tl.where(r >= top, -1, tl.where(back > x, -1, tl.where(back < x, 1, 0))).to(tl.float32)
    return _directed(r, error, MODE)


@jit(exact=True)
def _to_int(x, DTYPE: tl.constexpr, MODE: tl.constexpr):
    if MODE == "rd":
        w = tl.floor(x)
    elif MODE == "ru":
        w = tl.ceil(x)
    elif MODE == "rn":
        w = libdevice.rint(x)
    else:
        w = x
    return w.to(DTYPE)


@jit(exact=True)
def _word_of(x, DTYPE: tl.constexpr):
    t = tl.to_tensor(x)
    tl.static_assert(t.dtype.is_int() and t.dtype.primitive_bitwidth <= DTYPE.primitive_bitwidth, "libdevice: an integer is expected")
    return t.to(DTYPE)


@jit(exact=True)
def _narrow(x, MODE: tl.constexpr):
    t = tl.to_tensor(x).to(tl.float64)
    r = t.to(tl.float32)
    wide = r.to(tl.float64)
    error = tl.where(_finite(wide), t - wide, tl.where(_finite(t), -wide, 0.0))
    return _directed(r, error, MODE)


@jit(exact=True)
def llrint(arg0):
    return libdevice.rint(libdevice._real(arg0)).to(tl.int64)


@jit(exact=True)
def llround(arg0):
    return libdevice.round(libdevice._real(arg0)).to(tl.int64)


@jit(exact=True)
def saturatef(arg0):
    x = libdevice._real(arg0)
    return tl.where(x > 0.0, tl.where(x < 1.0, x, 1.0), 0.0)


@jit(exact=True)
def rcp64h(arg0):
    # The high word of 1 / x; the low one is zero.
    w = (1.0 / libdevice._real(arg0).to(tl.float64)).to(tl.int64, bitcast=True)
    return (w & -4294967296).to(tl.float64, bitcast=True)
