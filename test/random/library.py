"""Functions of libdevice: what random programs call, with what they mean in numpy.

EXACT functions give one result on every device, bit for bit. NEAR ones are good to some units in the last place: a program takes the result in eighths,
`tl.floor(f(x) * 8.0 + 0.3)`, and the reference refuses operands for which more than one number might come out. Operands are of one of the kinds of
operands() in expressions.py, which keeps most of them where the function is defined."""
import math
import statistics
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from arithmetic import Undefined, extremum, refuse

REAL = ("float32", "float64")


@dataclass(frozen=True)
class Row:
    name: str
    inputs: tuple
    result: str
    kinds: tuple  # of each operand
    meaning: object
    near: float = 0.0  # 0: exact; else what the result may be off by, relative to the larger of it and 1


TABLE = {}


def rows(names, inputs, result, kinds, meaning, near=0.0):
    """`names` separated by blanks. An operand or result "t" is of either float type: one row for each."""
    for name in names.split():
        for t in REAL if "t" in inputs + (result, ) else ("", ):
            of = lambda x: t if x == "t" else x
            key = "_".join([name] + ([t] if t else [x for x in inputs if name in SHARED]))
            f = meaning(name) if hasattr(meaning, "by_name") else meaning
            TABLE[key] = Row(name, tuple(map(of, inputs)), of(result), tuple(kinds), f, near)


SHARED = ("clz", "popc", "brev", "ffs", "mulhi", "mul24", "hadd", "rhadd", "sad")


def of_name(f):
    """A meaning that the name decides."""
    f.by_name = True
    return f


# Integers


def bits(x):
    return x.dtype.itemsize * 8


def unsigned(x):
    return np.asarray(x).view(f"u{x.dtype.itemsize}")


def each_bit(x):
    u = unsigned(x)
    return [(u >> u.dtype.type(k)) & u.dtype.type(1) for k in range(bits(x))]


def clz(x):
    n = np.full(x.shape, bits(x), np.int32)
    for k, b in enumerate(each_bit(x)):
        n = np.where(b == 1, np.int32(bits(x) - 1 - k), n)
    return n


def ffs(x):
    n = np.zeros(x.shape, np.int32)
    for k, b in reversed(list(enumerate(each_bit(x)))):
        n = np.where(b == 1, np.int32(k + 1), n)
    return n


def brev(x):
    u = np.zeros_like(unsigned(x))
    for b in each_bit(x):
        u = u << u.dtype.type(1) | b
    return u.view(x.dtype)


def wide(x):
    return np.asarray(x).astype(object)


def wrapped(x, t):
    """Whole numbers of any size, modulo the type's."""
    n = t.itemsize * 8
    return np.array([int(v) & ((1 << n) - 1) for v in np.ravel(x)], f"u{t.itemsize}").view(t).reshape(np.shape(x))


def mul24(x, y):
    n = x.dtype.type(8)
    return (x << n >> n) * (y << n >> n)


def byte_perm(x, y, s):
    x, y, s = (unsigned(v).astype(np.uint64) for v in (x, y, s))
    both, out = x | y << np.uint64(32), np.zeros(x.shape, np.uint64)
    for k in range(4):
        at = s >> np.uint64(4 * k) & np.uint64(7)
        out |= (both >> (at * np.uint64(8)) & np.uint64(255)) << np.uint64(8 * k)
    return out.astype(np.uint32).view(np.int32)


for _t in ("int32", "uint32", "int64", "uint64"):
    rows("clz", (_t, ), "int32", ("any", ), clz)
    rows("popc", (_t, ), "int32", ("any", ), lambda x: sum(b.astype(np.int32) for b in each_bit(x)))
    rows("ffs", (_t, ), "int32", ("any", ), ffs)
    rows("brev", (_t, ), _t, ("any", ), brev)
    rows("mulhi", (_t, _t), _t, ("any", "any"), lambda x, y: wrapped(wide(x) * wide(y) >> bits(x), x.dtype))
    rows("hadd", (_t, _t), _t, ("any", "any"), lambda x, y: wrapped((wide(x) + wide(y)) >> 1, x.dtype))
    rows("rhadd", (_t, _t), _t, ("any", "any"), lambda x, y: wrapped((wide(x) + wide(y) + 1) >> 1, x.dtype))
for _t in ("int32", "uint32"):
    rows("mul24", (_t, _t), _t, ("any", "any"), mul24)
    rows("sad", (_t, _t, "uint32"), "uint32", ("any", ) * 3, lambda x, y, z: wrapped(abs(wide(x) - wide(y)) + wide(z), z.dtype))
rows("byte_perm", ("int32", ) * 3, "int32", ("any", ) * 3, byte_perm)

# Floats, exactly


def rounding(mode):
    return {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}[mode]


def by_mode(exact):
    """The result of rounding exact(operands as fractions), None where that has no value, as the name's last letters say."""

    def meaning(name):

        def f(*xs, to=None):
            t = to or xs[0].dtype
            shape = np.broadcast_shapes(*(np.shape(x) for x in xs))
            flat = [np.broadcast_to(x, shape).reshape(-1) for x in xs]
            known, out = {}, np.zeros(flat[0].size, t)
            for i, row in enumerate(zip(*(v.tolist() for v in flat))):
                if row not in known:
                    if not all(map(math.isfinite, row)):
                        raise Undefined("directed rounding of infinities")
                    known[row] = directed(exact(*map(Fraction, row)), t, name[-2:])
                out[i] = known[row]
            return out.reshape(shape)

        return f

    return of_name(meaning)


def directed(q, t, mode):
    """The fraction in a float type."""
    if q is None or q == 0:
        raise Undefined("which zero, or none at all")
    if not Fraction(1, 2**(120 if t == np.float32 else 900)) < abs(q) < 2**(120 if t == np.float32 else 900):
        raise Undefined("directed rounding near the ends")
    r = t.type(q.numerator / q.denominator)  # correctly rounded to float64; at most one place away in float32
    inf = t.type(np.inf)
    if mode == "rn":
        near = [r, np.nextafter(r, inf), np.nextafter(r, -inf)]
        distance = [abs(Fraction(float(v)) - q) for v in near]
        if distance.count(min(distance)) > 1:
            near = [v for v, x in zip(near, distance) if x == min(distance) and not int(v.view(f"u{t.itemsize}")) & 1]
            return near[0]
        return near[distance.index(min(distance))]
    while Fraction(float(r)) > q:
        r = np.nextafter(r, -inf)
    while Fraction(float(np.nextafter(r, inf))) <= q:
        r = np.nextafter(r, inf)
    up = mode == "ru" or mode == "rz" and q < 0
    return np.nextafter(r, inf) if up and Fraction(float(r)) != q else r


def root(name):
    """Of float32 as a fraction that is near enough: a root is no midpoint, and whole where it is exact."""
    scale = 1 << 200

    def exact(q):
        if q <= 0:
            return None
        n = math.isqrt(q.numerator * q.denominator * scale * scale)
        whole = n * n == q.numerator * q.denominator * scale * scale
        return Fraction(n, q.denominator * scale) + (0 if whole else Fraction(1, 2 * q.denominator * scale))

    return by_mode(exact)(name)


MODES = ("rz", "rd", "ru")
for _m in MODES + ("rn", ):
    rows(f"add_{_m}", ("t", "t"), "t", ("any", "any"), by_mode(lambda x, y: x + y))
    rows(f"sub_{_m}", ("t", "t"), "t", ("any", "any"), by_mode(lambda x, y: x - y))
    rows(f"mul_{_m}", ("t", "t"), "t", ("any", "any"), by_mode(lambda x, y: x * y))
    rows(f"div_{_m}", ("t", "t"), "t", ("any", "positive"), by_mode(lambda x, y: x / y if y else None))
    rows(f"fma_{_m}", ("t", "t", "t"), "t", ("any", "any", "any"), by_mode(lambda x, y, z: x * y + z))
    rows(f"sqrt_{_m}", ("t", ), "t", ("positive", ), of_name(root))
    rows(f"rcp_{_m}", ("t", ), "t", ("positive", ), by_mode(lambda x: 1 / x if x else None))


def to_float(to):
    return of_name(lambda name: lambda x: by_mode(lambda v: v)(name)(x, to=np.dtype(to)))


def whole(mode, t):

    def f(x):
        info = np.iinfo(t)
        v = rounding(mode)(x.astype(np.float64))
        refuse(~((v >= float(info.min)) & (v < float(info.max))), None, "conversion out of range")
        return v.astype(t)

    return f


WHOLE = {"int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}
for _m in MODES + ("rn", ):
    for _n, _t in WHOLE.items():
        for _from, _float in (("float", "float32"), ("double", "float64")):
            rows(f"{_from}2{_n}_{_m}", (_float, ), _t, ("positive" if _n[0] == "u" else "quarters", ), whole(_m, _t))
            if _float == "float32" or _n in ("ll", "ull") or _m == "rn":
                rows(f"{_n}2{_from}_{_m}", (_t, ), _float, ("any", ), to_float(_float))
    rows(f"double2float_{_m}", ("float64", ), "float32", ("any", ), to_float(np.float32))


def away(x):
    """Halves away from zero."""
    low = np.floor(np.abs(x))
    return np.copysign(np.where(np.abs(x) - low >= 0.5, low + x.dtype.type(1), low), x)


def fdim(x, y):
    return np.where(x <= y, x.dtype.type(0), x - y)


def scaled(x, n):
    refuse((np.abs(n.astype(np.int64)) > 60) | ~np.isfinite(x) | ((x != 0) & ((np.abs(x) < 2.0**-60) | (np.abs(x) > 2.0**60))), None, "powers of two near the ends")
    return np.ldexp(x, n)


def exponent(x):
    refuse(~np.isfinite(x) | (x == 0), None, "exponent of what has none")
    return np.frexp(x)[1] - 1


def neighbour(x, y):
    refuse((x == y) & (x == 0), None, "either zero")
    return np.nextafter(x, y)


def bits_as(t):

    def f(x):
        if x.dtype.kind == "f" and np.isnan(x).any():
            raise Undefined("the bits of a NaN")
        return np.ascontiguousarray(x).view(t).reshape(x.shape)

    return f


def remains(f):

    def g(x, y):
        refuse(~np.isfinite(x) | ~np.isfinite(y) | (y == 0) | (np.abs(x.astype(np.float64)) > 2.0**40 * np.abs(y.astype(np.float64))), None, "a remainder of much")
        return np.array([f(a, b) for a, b in zip(np.ravel(x).tolist(), np.ravel(y).tolist())]).astype(x.dtype).reshape(x.shape)

    return g


rows("rint nearbyint", ("t", ), "t", ("quarters", ), np.rint)
rows("trunc", ("t", ), "t", ("quarters", ), np.trunc)
rows("floor", ("t", ), "t", ("quarters", ), np.floor)
rows("ceil", ("t", ), "t", ("quarters", ), np.ceil)
rows("round", ("t", ), "t", ("quarters", ), away)
rows("llrint", ("t", ), "int64", ("quarters", ), whole("rn", "int64"))
rows("llround", ("t", ), "int64", ("quarters", ), lambda x: whole("rz", "int64")(away(x)))
rows("fmod", ("t", "t"), "t", ("quarters", "positive"), remains(math.fmod))
rows("remainder", ("t", "t"), "t", ("quarters", "positive"), remains(math.remainder))
rows("fdim", ("t", "t"), "t", ("any", "any"), fdim)
rows("fmax", ("t", "t"), "t", ("any", "any"), lambda x, y: extremum(x, y, False))
rows("fmin", ("t", "t"), "t", ("any", "any"), lambda x, y: extremum(x, y, True))
rows("copysign", ("t", "t"), "t", ("any", "small"), lambda x, y: np.copysign(x, np.where(np.isnan(y), refused_nan(y), y)))
rows("abs fabs", ("t", ), "t", ("any", ), np.abs)
rows("isnan", ("t", ), "int32", ("any", ), lambda x: np.isnan(x).astype(np.int32))
rows("isinf", ("t", ), "int32", ("any", ), lambda x: np.isinf(x).astype(np.int32))
rows("finitef isfinited", ("t", ), "int32", ("any", ), lambda x: np.isfinite(x).astype(np.int32))
rows("signbit", ("t", ), "int32", ("any", ), lambda x: np.signbit(np.where(np.isnan(x), refused_nan(x), x)).astype(np.int32))
rows("ldexp scalbn", ("t", "int32"), "t", ("any", "shift"), scaled)
rows("ilogb", ("t", ), "int32", ("positive", ), lambda x: exponent(x).astype(np.int32))
rows("logb", ("t", ), "t", ("positive", ), lambda x: exponent(x).astype(x.dtype))
rows("nextafter", ("t", "t"), "t", ("any", "any"), neighbour)
rows("saturatef", ("t", ), "t", ("any", ), lambda x: np.where(x > 0, np.where(x < 1, x, x.dtype.type(1)), x.dtype.type(0)))
rows("float_as_int", ("float32", ), "int32", ("any", ), bits_as(np.int32))
rows("float_as_uint", ("float32", ), "uint32", ("any", ), bits_as(np.uint32))
rows("int_as_float", ("int32", ), "float32", ("any", ), bits_as(np.float32))
rows("uint_as_float", ("uint32", ), "float32", ("any", ), bits_as(np.float32))
rows("double_as_longlong", ("float64", ), "int64", ("any", ), bits_as(np.int64))
rows("longlong_as_double", ("int64", ), "float64", ("any", ), bits_as(np.float64))
rows("double2hiint", ("float64", ), "int32", ("any", ), lambda x: (bits_as(np.int64)(x) >> 32).astype(np.int32))
rows("double2loint", ("float64", ), "int32", ("any", ), lambda x: bits_as(np.int64)(x).astype(np.int32))
rows("hiloint2double", ("int32", "int32"), "float64", ("any", "any"), lambda h, l: bits_as(np.float64)(h.astype(np.int64) << 32 | l.astype(np.int64) & 0xffffffff))


def refused_nan(x):
    """x, which has no NaN whose sign counts."""
    if np.isnan(x).any():
        raise Undefined("the sign of a NaN")
    return x


# Floats, nearly


def one_by_one(f, limit=math.inf):
    """A function of Python's floats; what it cannot tell, and operands beyond the limit, are refused."""

    def g(*xs):
        for x in xs:
            refuse(~(np.abs(x.astype(np.float64)) <= limit), None, "beyond what the reference knows")
        known, out = {}, []
        for row in zip(*(np.ravel(x).tolist() for x in xs)):
            if row not in known:
                try:
                    value = f(*row)
                except (ValueError, OverflowError, ZeroDivisionError, ArithmeticError):
                    value = None
                if not isinstance(value, (int, float)):  # a root of a negative number is complex
                    raise Undefined("outside of the function's domain")
                known[row] = float(value)
            out.append(known[row])
        return np.array(out).reshape(np.shape(xs[0]))

    return g


ANGLE = (np.arange(512) + 0.5) * (np.pi / 512)


def bessel(n, x):
    return np.cos(n * ANGLE - x * np.sin(ANGLE)).mean()


def modified(n, x):
    return (np.exp(x * np.cos(ANGLE)) * np.cos(n * ANGLE)).mean()


BESSEL = [lambda x: bessel(0, x), lambda x: bessel(1, x), lambda x: modified(0, x), lambda x: modified(1, x)]  # sums that are right as far as 100


def normcdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def inverse_erf(x):
    return statistics.NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2)


F32, FAST = 1e-5, 2e-3
for _names, _kind, _f in (
    ("exp", "small", math.exp), ("exp2", "small", lambda x: 2.0**x), ("exp10", "unit", lambda x: 10.0**x), ("expm1", "small", math.expm1), ("log", "positive", math.log),
    ("log2", "positive", math.log2), ("log10", "positive", math.log10), ("log1p", "positive", math.log1p), ("sin", "small", math.sin), ("cos", "small", math.cos),
    ("tan", "unit", math.tan), ("asin", "unit", math.asin), ("acos", "unit", math.acos), ("atan", "small", math.atan), ("sinh", "small", math.sinh), ("cosh", "small", math.cosh),
    ("tanh", "small", math.tanh), ("asinh", "small", math.asinh), ("acosh", "above", math.acosh), ("atanh", "unit", math.atanh), ("sinpi", "quarters", lambda x: math.sin(math.pi * math.fmod(x, 2))),
    ("cospi", "quarters", lambda x: math.cos(math.pi * math.fmod(x, 2))), ("sqrt", "positive", math.sqrt), ("rsqrt rsqrt_rn", "positive", lambda x: 1 / math.sqrt(x)),
    ("cbrt", "small", lambda x: math.copysign(abs(x)**(1 / 3), x)), ("rcbrt", "positive", lambda x: x**(-1 / 3)), ("erf", "small", math.erf), ("erfc", "small", math.erfc),
    ("erfcx", "positive", lambda x: math.exp(x * x) * math.erfc(x) if x < 20 else None), ("erfinv", "unit", inverse_erf), ("erfcinv", "chance", lambda x: -inverse_erf(x - 1)),
    ("normcdf", "small", normcdf), ("normcdfinv", "chance", statistics.NormalDist().inv_cdf), ("lgamma", "positive", math.lgamma), ("tgamma", "positive", math.gamma),
    ("j0", "small", BESSEL[0]), ("j1", "small", BESSEL[1]), ("cyl_bessel_i0", "small", BESSEL[2]), ("cyl_bessel_i1", "small", BESSEL[3])):
    rows(_names, ("t", ), "t", (_kind, ), one_by_one(_f, 100 if _f in BESSEL else math.inf), F32)
rows("rcp64h", ("float64", ), "float64", ("positive", ), one_by_one(lambda x: 1 / x), F32)
for _names, _kinds, _f in (
    ("pow", ("positive", "unit"), lambda x, y: x**y), ("atan2", ("small", "positive"), math.atan2), ("hypot", ("small", "small"), math.hypot),
    ("rhypot", ("small", "positive"), lambda x, y: 1 / math.hypot(x, y))):
    rows(_names, ("t", "t"), "t", _kinds, one_by_one(_f), F32)
rows("norm3d", ("t", ) * 3, "t", ("small", ) * 3, one_by_one(lambda *x: math.hypot(*x)), F32)
rows("norm4d", ("t", ) * 4, "t", ("small", ) * 4, one_by_one(lambda *x: math.hypot(*x)), F32)
rows("rnorm3d", ("t", ) * 3, "t", ("small", "small", "positive"), one_by_one(lambda *x: 1 / math.hypot(*x)), F32)
rows("rnorm4d", ("t", ) * 4, "t", ("small", "small", "small", "positive"), one_by_one(lambda *x: 1 / math.hypot(*x)), F32)
rows("jn", ("int32", "t"), "t", ("order", "small"), one_by_one(bessel, 100), F32)
for _name, _kind, _f in (("fast_expf", "unit", math.exp), ("fast_exp10f", "unit", lambda x: 10.0**x), ("fast_logf", "positive", math.log), ("fast_log2f", "positive", math.log2),
                         ("fast_log10f", "positive", math.log10), ("fast_sinf", "unit", math.sin), ("fast_cosf", "unit", math.cos), ("fast_tanf", "unit", math.tan), ("fast_tanhf", "small", math.tanh)):
    rows(_name, ("float32", ), "float32", (_kind, ), one_by_one(_f, 8), FAST)
rows("fast_powf", ("float32", ) * 2, "float32", ("positive", "unit"), one_by_one(lambda x, y: x**y, 8), FAST)
rows("fast_dividef", ("float32", ) * 2, "float32", ("small", "positive"), one_by_one(lambda x, y: x / y, 1e4), FAST)


def families():
    """dtype of the result -> lists of keys: functions that are nearly right, that round as their last letters say, and others."""
    out = {}
    for key, row in TABLE.items():
        of = "near" if row.near else "rounding" if row.name[-3:-1] == "_r" else "other"
        out.setdefault(row.result, {}).setdefault(of, []).append(key)
    return {t: list(f.values()) for t, f in out.items()}


FAMILIES = families()


def in_eighths(row, exact, dtype):
    """tl.floor(exact * 8.0 + 0.3), where a result that is a little off gives the same."""
    refuse(~(np.abs(exact) < 1e5), None, "a result that is not near, or none")
    v = exact * 8.0 + 0.3
    off = row.near * 8.0 * np.maximum(np.abs(exact), 1.0) + 1e-6 * np.abs(v)
    refuse(np.abs(v - np.rint(v)) <= off, None, "a result that may be either of two")
    return np.floor(v).astype(dtype)


def meaning(key, args):
    row = TABLE[key]
    shape = np.broadcast_shapes(*(np.shape(a) for a in args))
    args = [np.array(np.broadcast_to(a, shape)) for a in args]
    with np.errstate(all="ignore"):
        out = np.asarray(row.meaning(*args))
    return in_eighths(row, out, np.dtype(row.result)) if row.near else out.astype(row.result)


def text(key, operands):
    row = TABLE[key]
    call = f"libdevice.{row.name}({', '.join(operands)})"
    return f"tl.floor({call} * 8.0 + 0.3)" if row.near else call
