"""Names and forms that published kernels use beside the documented language: wrappers of compile-time objects, types of
block pointers, internal names of the library modules."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, run

pytestmark = pytest.mark.section("1.6 constexpr")


@tegula.jit
def k_block_ptr_types(out, B: tl.constexpr):
    p = tl.make_block_ptr(out, (B,), (1,), (0,), (B,), (0,))
    tl.static_assert(p.type.is_ptr() and p.dtype.is_ptr() and not p.type.is_block())
    tl.static_assert(p.dtype.element_ty == tl.int32)
    tl.static_assert(p.type.element_ty.is_block() and p.type.element_ty.shape == [B])
    tl.static_assert(p.type.element_ty.get_block_shapes() == [B] and p.type.element_ty.with_element_ty(tl.int8) == tl.block_type(tl.int8, [B]))
    tl.static_assert(tl.float16.with_element_ty(tl.int8) == tl.int8)
    tl.static_assert(p.type.element_ty.element_ty == tl.int32 and p.type.scalar == p.type)
    tl.static_assert(isinstance(p.type, tl.pointer_type) and isinstance(p.type.element_ty, tl.block_type))
    x = tl.full([B], 1.5, tl.float32)
    tl.store(p, x.to(p.type.element_ty) + (2 * x).to(p.dtype.element_ty), boundary_check=(0,))


@pytest.mark.filterwarnings("ignore")
def test_types_of_a_block_pointer(dev):
    assert run(dev, k_block_ptr_types, 8)[:8] == [4] * 8


@tegula.jit
def _least(dtype):
    d = dtype.value
    if d.is_floating():
        return float("-inf")
    else:
        return 0


@tegula.jit
def k_value(out, D: tl.constexpr, N: tl.constexpr):
    d: tl.constexpr = D.value
    tl.static_assert(d == D and D.value.value == D)
    tl.static_assert(N.value == 3 and (1, 2).value == (1, 2) and None.value is None)
    # An object's own attribute comes first, and hasattr() looks at the object.
    tl.static_assert(not hasattr(N, "value"))
    x = tl.full([4], _least(out.dtype.element_ty), d)
    tl.store(out + tl.arange(0, 4), x.to(tl.int32) + N.value)


def test_value_of_compile_time_objects(dev):
    assert run(dev, k_value, tl.int32, 3)[:4] == [3] * 4


@tegula.jit
def k_constexpr_type(out, N: tl.constexpr):
    tl.static_assert(isinstance(N.type, tl.constexpr_type))
    tl.static_assert(N.type == (7).type and N.type != (8).type)
    tl.store(out, N.type.value)


def test_type_of_compile_time_objects(dev):
    assert run(dev, k_constexpr_type, 7)[0] == 7


@tegula.jit
def sign_and(x):
    if x < 0:
        return -1, x
    else:
        return 1, x


@tegula.jit
def k_types_made(out, n, B: tl.constexpr):
    tl.static_assert(B.type == tl.constexpr_type(B) and tl.constexpr_type(1) != tl.constexpr_type(2))
    pair = sign_and(n)
    tl.static_assert(pair.type == tl.tuple_type([tl.int32, tl.int32]) and isinstance(pair.type, tl.tuple_type))
    mixed = (n, 2, (tl.arange(0, 4),))
    tl.static_assert(mixed.type != pair.type)
    tl.static_assert(mixed.type != (n, 2, (tl.arange(4, 8),)).type)  # assigned numbers are tensors
    other = (n, 3, (tl.arange(4, 8),))
    tl.static_assert(mixed.type == other.type)
    fixed: tl.constexpr = (1, 2)
    tl.static_assert(fixed.type == tl.tuple_type([tl.constexpr_type(1), tl.constexpr_type(2)]) and fixed.type != (1, 3).type)
    tl.static_assert(fixed.type == tl.constexpr_type((1, 2)) and fixed.type != tl.constexpr_type((1, 3)))
    tl.store(out, pair[0])


def test_types_that_kernels_make(dev):
    assert run(dev, k_types_made, -5, 4)[0] == -1


def test_classes_of_the_language_as_variables(dev):
    constexpr_type, number, tensor, pointer = tl.constexpr_type, tl.constexpr, tl.tensor, tl.pointer_type

    @tegula.jit
    def kernel(out, N: tl.constexpr):
        tl.static_assert(N.type == constexpr_type(N) and isinstance(N, number) and not isinstance(N, tensor))
        tl.static_assert(isinstance(out.dtype, pointer) and isinstance(tl.load(out), tensor))
        tl.store(out, number(N))
    assert run(dev, kernel, 7)[0] == 7


@tl.constexpr
def accumulator(d):
    return tl.float32 if d.is_floating() else d


@tl.constexpr
def twice(n):
    total = 0
    for _ in range(2):
        total += n
    return total


@tegula.jit
def k_constexpr_functions(out, x, N: tl.constexpr):
    t: tl.constexpr = accumulator(x.dtype.element_ty)
    tl.static_assert(t == tl.float32 and accumulator(tl.int8) == tl.int8)
    m: tl.constexpr = twice(N)
    tl.store(out + tl.arange(0, m), tl.zeros([m], t).to(tl.int32) + m)


def test_functions_in_constexpr(dev):
    assert run(dev, k_constexpr_functions, np.zeros(4, np.float16), 4) == [8] * 8


@tegula.jit
def k_runtime_constexpr(out, n, B: tl.constexpr):
    m: tl.constexpr = B * n
    late: tl.constexpr
    late = m + 1
    total = late
    for i in range(n):
        inner: tl.constexpr = i * 2
        total += inner
    i = tl.arange(0, B)
    tl.store(out + i, i + m + total, mask=i < m)


def test_run_time_value_annotated_constexpr(dev):
    # total is 8 * 3 + 1 + 0 + 2 + 4
    assert run(dev, k_runtime_constexpr, 3, 8)[:8] == [i + 24 + 31 for i in range(8)]


@tegula.jit
def e_runtime_shape(out, n):
    m: tl.constexpr = n * 2
    tl.store(out + tl.arange(0, m), 1)


def test_run_time_value_is_no_shape(dev):
    with pytest.raises(CompileError, match="arange"):
        run(dev, e_runtime_shape, 4)


@tegula.jit
def k_same_cast(out, x):
    v = tl.load(x + tl.arange(0, 4))
    a = tl.cast(v + 1, tl.float32, fp_downcast_rounding="rtne")
    b = v.to(tl.float32, fp_downcast_rounding="rtz")
    c = tl.cast(tl.arange(0, 4), tl.int32, fp_downcast_rounding="rtne")
    tl.store(out + tl.arange(0, 4), (a + b).to(tl.int32) + c)


def test_cast_to_the_same_type_rounds_nothing(dev):
    assert run(dev, k_same_cast, np.arange(4, dtype=np.float32))[:4] == [1, 4, 7, 10]


@tegula.jit
def k_library_names(out, N: tl.constexpr):
    n: tl.constexpr = tl.standard._log2(N)
    tl.static_assert(tl.standard._log2(1) == 0 and tl.standard._log2(0) == 0 and tl.standard._log2(1023) == 9)
    tl.static_assert(tl.standard._is_power_of_two(N) and not tl.standard._is_power_of_two(12))
    tl.static_assert(tl.core.CONSTEXPR_0 == 0 and not tl.standard._is_power_of_two(tl.core.CONSTEXPR_0))
    tl.static_assert(tl.core.get_int_dtype(16, False) == tl.uint16 and tl.core.get_int_dtype(bitwidth=1, signed=True) == tl.int1)
    tl.static_assert(tl.core._unwrap_if_constexpr(N) == N and tl.core._constexpr_to_value(n) == n)
    tl.static_assert(tl.standard._get_sort_dim(None, [2, 4]) == 1 and tl.standard._get_flip_dim(-1, [4]) == 0)
    tl.static_assert(len(tl.dtype.SINT_TYPES) == 4 and tl.dtype.UINT_TYPES[1] == "uint8" and tl.int8.FP_TYPES[-1] == "fp64")
    tl.static_assert(tl.dtype.STANDARD_FP_TYPES[0] == "fp16" and tl.dtype.OTHER_TYPES == ["void"])
    tl.static_assert(tl.int8.int_signedness == tl.dtype.SIGNEDNESS.SIGNED and tl.uint8.int_signedness == tl.dtype.SIGNEDNESS.UNSIGNED)
    tl.static_assert(tl.float16.kind() == tl.dtype.KIND.FLOATING)
    x = tl.arange(0, N)
    total = tl.reduce(x, 0, tl.standard._sum_combine)
    most = tl.reduce(x, 0, tl.standard._elementwise_max)
    value, index = tl.reduce((x ^ 3, x), 0, tl.standard._argmax_combine_tie_break_left)
    right = tl.sum(tl.standard._indicator(3, 0) * 1 + tl.standard._indicator(3, 2) * 10)
    tl.store(out + tl.arange(0, 8), n)
    tl.store(out + 1, total)
    tl.store(out + 2, most)
    tl.store(out + 3, value)
    tl.store(out + 4, index)
    tl.store(out + 5, right)


def test_internal_names_of_the_library(dev):
    # The indicators vary along the last and the first of three dimensions: ones in half of 2 * 1 * 2 elements.
    assert run(dev, k_library_names, 16)[:6] == [4, 120, 15, 15, 12, 2 * 1 + 2 * 10]
