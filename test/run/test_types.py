"""§2.1 data types, §2.2 literals, §2.3 promotion of two operands."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import ALL, CompileError, D, INTS, NO_FP8, assert_same, bits, d, values

pytestmark = []
types = pytest.mark.section("2.1 types")
literals = pytest.mark.section("2.2 literals")
promotion = pytest.mark.section("2.3 promotion")

# §2.1 ----------------------------------------------------------------------------------------------------------------


@tegula.jit
def copy_kernel(x, out, N: tl.constexpr, DTYPE: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.static_assert(v.dtype == DTYPE)
    tl.static_assert(x.dtype.element_ty == DTYPE)
    tl.store(out + i, v)


@types
@pytest.mark.parametrize("dt", ALL, ids=str)
def test_copy(dev, dt):
    n = 256
    x = np.arange(256, dtype=np.uint8).view(dt.np) if dt.bits == 8 else values(dt, n, special=True)
    out = np.zeros(n, dt.np)
    dev(copy_kernel, (1,), x, out, n, dt.tl)
    assert np.array_equal(bits(out), bits(x))


@tegula.jit
def attributes_kernel(out, T: tl.constexpr, BITS: tl.constexpr, KIND: tl.constexpr, FP8: tl.constexpr):
    tl.static_assert(T.primitive_bitwidth == BITS)
    tl.static_assert(T.is_floating() == (KIND == "f"))
    tl.static_assert(T.is_int() == (KIND != "f"))
    tl.static_assert(T.is_int_signed() == (KIND == "i"))
    tl.static_assert(T.is_int_unsigned() == (KIND == "u" or KIND == "b"))
    tl.static_assert(T.is_fp8() == FP8)
    tl.static_assert(T.is_bool() == (KIND == "b"))
    tl.static_assert(T.scalar == T)
    x = tl.zeros([8, 4], T)
    tl.static_assert(x.dtype == T)
    tl.static_assert(x.type.scalar == T)
    tl.static_assert(x.shape == [8, 4])
    tl.static_assert(x.numel == 32)
    tl.static_assert(x.T.shape == [4, 8])
    tl.static_assert(tl.pointer_type(T).element_ty == T)
    tl.store(out, 1)


@types
@pytest.mark.parametrize("dt", ALL, ids=str)
def test_attributes(dev, dt):
    out = np.zeros(1, np.int32)
    dev(attributes_kernel, (1,), out, dt.tl, dt.bits, dt.kind, dt.is_fp8)
    assert out[0] == 1


@tegula.jit
def bool_memory(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(tl.int32))


@types
def test_bool_is_normalised_on_load(dev):
    raw = np.array([0, 1, 2, 255, 128, 0, 7, 1], np.uint8)
    out = np.zeros(8, np.int32)
    dev(bool_memory, (1,), raw.view(np.bool_), out, 8)
    assert out.tolist() == [0, 1, 1, 1, 1, 0, 1, 1]


@tegula.jit
def zeros_of_shape(out, SHAPE: tl.constexpr):
    tl.store(out, tl.sum(tl.zeros(SHAPE, tl.float32)))


@types
@pytest.mark.parametrize("shape, text", [((0,), "power of (2|two)"), ((-3, 4), "power of (2|two)"), ((2048, 1024), "1048576|maximum"),
                                         ((1025, 513), "1048576|maximum")])
def test_bad_block_shapes(dev, shape, text):
    with pytest.raises(CompileError, match=text):
        dev(zeros_of_shape, (1,), np.zeros(1, np.float32), shape)


@types
@pytest.mark.parametrize("shape", [(1,), (1, 1), (1024, 1024), (2, 2, 2, 2, 2), (3,), (16, 48), (1000, 1000)], ids=str)
def test_good_block_shapes(dev, shape):
    out = np.ones(1, np.float32)
    dev(zeros_of_shape, (1,), out, shape)
    assert out[0] == 0


# §2.2 ----------------------------------------------------------------------------------------------------------------


@tegula.jit
def literal_kernel(out, V: tl.constexpr, T: tl.constexpr):
    tl.static_assert(tl.to_tensor(V).dtype == T)
    v = V
    tl.static_assert(v.dtype == T)
    tl.static_assert(len(v.shape) == 0)
    tl.store(out, v)


@literals
@pytest.mark.parametrize("value, dt",
                         [(True, "int1"), (False, "int1"), (0, "int32"), (-1, "int32"), (2**31 - 1, "int32"),
                          (-2**31, "int32"), (2**31, "uint32"), (2**32 - 1, "uint32"), (2**32, "int64"),
                          (-2**31 - 1, "int64"), (2**63 - 1, "int64"), (-2**63, "int64"), (2**63, "uint64"),
                          (2**64 - 1, "uint64"), (0.0, "float32"), (-0.0, "float32"), (1.5, "float32"),
                          (float("inf"), "float32"), (float("-inf"), "float32"), (float("nan"), "float32"),
                          (3.4028234663852886e38, "float32"), (1e39, "float64"), (1.1754943508222875e-38, "float32"),
                          (1e-39, "float64"), (-1e300, "float64")], ids=repr)
def test_literal_dtype(dev, value, dt):
    out = np.zeros(1, d(dt).np)
    dev(literal_kernel, (1,), out, value, d(dt).tl)
    assert_same(out, np.array([value]).astype(d(dt).np))


@tegula.jit
def large_literal(out):
    tl.store(out, 0x10000000000000000)


@tegula.jit
def small_literal(out):
    tl.store(out, -0x8000000000000001)


@literals
@pytest.mark.parametrize("kernel", [large_literal, small_literal], ids=lambda k: k.__name__)
def test_literal_out_of_range(dev, kernel):
    with pytest.raises(CompileError, match="[Nn]onrepresentable|does not fit|out of range"):
        dev(kernel, (1,), np.zeros(1, np.int64))


# §2.3 ----------------------------------------------------------------------------------------------------------------


def promoted(a: D, b: D, op):
    """The table of §2.3 for two runtime operands; None where it is an error. `op`: '+', '/', '%', '//'."""
    division = op in ("/", "%", "//")
    kinds = {a.name, b.name}
    if "float64" in kinds:
        return "float64"
    if op in ("/", "%") and (a.kind == "f" or b.kind == "f"):
        return "float32"
    if "float32" in kinds:
        return "float32"
    if "float16" in kinds:
        return "float32" if division else "float16"
    if a.name == b.name == "bfloat16":
        return "float32" if division else "bfloat16"
    if "bfloat16" in kinds:
        return "float32"
    if a.is_fp8 and b.is_fp8:
        return a.name if a.name == b.name else "float16"
    if a.is_fp8 or b.is_fp8:
        return None
    signed_a, signed_b = a.kind == "i", b.kind == "i"
    if signed_a == signed_b:
        return (a if a.bits > b.bits else b).name
    if division:
        return None
    unsigned, signed = (b, a) if signed_a else (a, b)
    return unsigned.name if unsigned.bits >= signed.bits else signed.name


@tegula.jit
def pair_kernel(x, y, out, N: tl.constexpr, SUM: tl.constexpr, QUOTIENT: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    s = a + b
    tl.static_assert(s.dtype == SUM)
    tl.static_assert((b + a).dtype == SUM)
    tl.static_assert((a - b).dtype == SUM)
    tl.static_assert((a * b).dtype == SUM)
    tl.static_assert(tl.where(i > 3, a, b).dtype == SUM)
    tl.static_assert((a < b).dtype == tl.int1)
    if QUOTIENT is not None:
        tl.static_assert((a / b).dtype == QUOTIENT)
    tl.store(out + i, s)


@promotion
@pytest.mark.parametrize("a", NO_FP8, ids=str)
@pytest.mark.parametrize("b", NO_FP8, ids=str)
def test_pair(dev, a, b):
    n = 32
    low, high = (0, 1) if "b" in a.kind + b.kind else (0, 50)
    x, y = (values(t, n, (a.name, b.name, k), low=None if t.kind == "b" else low, high=None if t.kind == "b" else high)
            for k, t in enumerate((a, b)))
    result = d(promoted(a, b, "+"))
    # int/int divides in float32, whatever the widths; different signedness is an error.
    quotient = promoted(a, b, "/")
    if a.is_int and b.is_int and quotient:
        quotient = "float32"
    out = np.zeros(n, result.np)
    dev(pair_kernel, (1,), x, y, out, n, result.tl, d(quotient).tl if quotient else None)
    with np.errstate(all="ignore"):
        if result.kind == "b":
            expected = x ^ y  # int1 + int1 wraps
        elif result.bits <= 16 and result.kind == "f":
            # Operands are converted to the result's type first, then one rounding.
            expected = (x.astype(result.np).astype(np.float32) + y.astype(result.np).astype(np.float32)).astype(
                result.np)
        else:
            expected = x.astype(result.np) + y.astype(result.np)
    assert_same(out, expected)


@tegula.jit
def op_dtype_kernel(x, y, out, OP: tl.constexpr, T: tl.constexpr):
    a, b = tl.load(x), tl.load(y)
    if OP == "%":
        r = a % b
    elif OP == "//":
        r = a // b
    elif OP == "&":
        r = a & b
    elif OP == "<<":
        r = a << b
    elif OP == "/":
        r = a / b
    else:
        r = a + b
    tl.static_assert(r.dtype == T)
    tl.store(out, 1)


def int_pairs():
    for op in ("%", "//", "&"):
        for a in INTS:
            for b in INTS:
                yield op, a, b


@promotion
@pytest.mark.parametrize("op, a, b", list(int_pairs()), ids=lambda v: str(v))
def test_int_pair(dev, op, a, b):
    x, y, out = np.array([5], a.np), np.array([3], b.np), np.zeros(1, np.int32)
    result = promoted(a, b, op)
    if result is None:
        with pytest.raises(CompileError, match="signedness"):
            dev(op_dtype_kernel, (1,), x, y, out, op, tl.int32)
    else:
        dev(op_dtype_kernel, (1,), x, y, out, op, d(result).tl)
        assert out[0] == 1


@promotion
@pytest.mark.parametrize("op, a, b, result", [("%", "float16", "float16", "float32"),
                                              ("%", "bfloat16", "bfloat16", "float32"),
                                              ("%", "float32", "float32", "float32"),
                                              ("%", "float64", "float16", "float64"),
                                              ("%", "float16", "int32", "float32"), ("/", "int64", "int64", "float32"),
                                              ("/", "int8", "int8", "float32"), ("/", "float16", "int64", "float32"),
                                              ("/", "float64", "int32", "float64"),
                                              ("/", "bfloat16", "float16", "float32"),
                                              ("+", "float8e5", "float8e5", "float8e5"),
                                              ("+", "float8e5", "float8e4nv", "float16"),
                                              ("+", "float8e4nv", "float16", "float16"),
                                              ("+", "float8e4nv", "bfloat16", "float32"),
                                              ("+", "float8e5", "float32", "float32"),
                                              ("/", "uint8", "uint32", "float32"), ("+", "int1", "int1", "int1")])
def test_op_dtype(dev, op, a, b, result):
    out = np.zeros(1, np.int32)
    dev(op_dtype_kernel, (1,), np.ones(1, d(a).np), np.ones(1, d(b).np), out, op, d(result).tl)
    assert out[0] == 1


@promotion
@pytest.mark.parametrize("op, a, b, text", [("+", "float8e5", "int32", "."), ("//", "float32", "float32", "."),
                                            ("//", "float16", "int32", "."), ("%", "int1", "int32", "signedness"),
                                            ("/", "int32", "uint32", "signedness"), ("&", "float32", "float32", "."),
                                            ("<<", "int32", "float32", "."), ("&", "float16", "int32", ".")])
def test_op_error(dev, op, a, b, text):
    with pytest.raises(CompileError, match=text):
        dev(op_dtype_kernel, (1,), np.ones(1, d(a).np), np.ones(1, d(b).np), np.zeros(1, np.int32), op, tl.int32)


@tegula.jit
def number_kernel(x, out, V: tl.constexpr, OP: tl.constexpr, T: tl.constexpr):
    a = tl.load(x)
    if OP == "+":
        tl.static_assert((a + V).dtype == T)
        tl.static_assert((V + a).dtype == T)
        tl.static_assert((a - V).dtype == T)
        tl.static_assert((a * V).dtype == T)
        tl.static_assert(tl.add(a, V).dtype == T)
        tl.static_assert(tl.where(a == a, a, V).dtype == T)
    elif OP == "/":
        tl.static_assert((a / V).dtype == T)
        tl.static_assert((V / a).dtype == T)
    elif OP == "max":
        tl.static_assert(tl.maximum(a, V).dtype == T)
        tl.static_assert(tl.minimum(V, a).dtype == T)
    else:
        tl.static_assert((a % V).dtype == T)
    tl.store(out, 1)


def number_rows():
    for t in NO_FP8:
        if t.kind != "b":
            yield t.name, 1, "+", t.name
            yield t.name, True, "+", t.name
        if t.kind == "f":
            yield t.name, 2.5, "+", t.name
            yield t.name, 2.5, "/", "float64" if t.bits == 64 else "float32"
        else:
            yield t.name, 2.5, "+", "float32"
            yield t.name, 1e39, "+", "float64"
        if t.is_int and t.kind != "b":
            yield t.name, 2, "/", "float32"
            yield t.name, 2, "%", t.name
    yield from [("float16", 3, "%", "float32"), ("bfloat16", 3, "%", "float32"), ("float16", 0.0, "max", "float16"),
                ("bfloat16", 0.0, "max", "bfloat16"), ("int8", 0, "max", "int8"), ("int64", 0, "max", "int64"),
                ("float64", 0.0, "max", "float64"), ("int1", 1, "+", "int32"), ("uint32", 0, "max", "uint32")]


@promotion
@pytest.mark.parametrize("dt, v, op, result", list(number_rows()))
def test_number(dev, dt, v, op, result):
    out = np.zeros(1, np.int32)
    dev(number_kernel, (1,), np.ones(1, d(dt).np), out, v, op, d(result).tl)
    assert out[0] == 1


@promotion
@pytest.mark.parametrize("dt, v", [("int8", 128), ("int8", -129), ("uint8", 256), ("int16", 40000), ("int32", 2**31),
                                   ("uint32", 2**32), ("int64", 2**63), ("uint8", -1), ("uint32", -1), ("uint64", -5)],
                         ids=str)
def test_number_out_of_range(dev, dt, v):
    with pytest.raises(CompileError, match="out of range|negative|unsigned"):
        dev(number_kernel, (1,), np.ones(1, d(dt).np), np.zeros(1, np.int32), v, "+", d(dt).tl)


@tegula.jit
def runtime_scalar_kernel(x, s, out, T: tl.constexpr):
    r = tl.load(x + tl.arange(0, 4)) + s
    tl.static_assert(r.dtype == T)
    tl.store(out + tl.arange(0, 4), r)


@promotion
@pytest.mark.parametrize("dt, s, result", [("int8", 300, "int32"), ("float16", 2.5, "float32"),
                                           ("int32", 2**40, "int64"), ("float16", 7, "float16"),
                                           ("bfloat16", 7, "float32"), ("uint64", 7, "uint64")], ids=str)
def test_runtime_scalar_is_like_a_block(dev, dt, s, result):
    x, out = np.arange(4).astype(d(dt).np), np.zeros(4, d(result).np)
    dev(runtime_scalar_kernel, (1,), x, s, out, d(result).tl)
    assert_same(out, (np.arange(4) + s).astype(d(result).np))
