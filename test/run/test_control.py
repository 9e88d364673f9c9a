"""§1.2-1.9: statements, loops, expressions, functions, compile-time values, globals, tuples."""
import math
from typing import NamedTuple

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError

statements = pytest.mark.section("1.2 statements")
loops = pytest.mark.section("1.3 loops")
expressions = pytest.mark.section("1.4 expressions")
functions = pytest.mark.section("1.5 functions")
constants = pytest.mark.section("1.6 constexpr")
names = pytest.mark.section("1.7 names")
tuples = pytest.mark.section("1.9 tuples")

BLOCK = tl.constexpr(8)
PLAIN = 5


def run(dev, kernel, *args, n=8, dtype=np.int32, **kw):
    """Runs one program on an output of n zeros."""
    out = np.zeros(n, dtype)
    dev(kernel, (1,), out, *args, **kw)
    return out.tolist()


# §1.2 ------------------------------------------------------------------------------------------------------------------

@tegula.jit
def k_assign(out, n):
    """A docstring is a statement without effect."""
    a = n + 1
    (b, c), e = (a, a + 1), 5
    b, c = c, b
    a += b
    a *= 2
    a -= 1
    a //= 2
    a %= 7
    a <<= 2
    a |= 1
    a ^= 3
    a &= 0xff
    pass
    ...
    "also nothing"
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, e)


@statements
@pytest.mark.parametrize("n", [0, 3, 10])
def test_assign(dev, n):
    a = n + 1
    b, c = a, a + 1
    b, c = c, b
    a = ((((a + b) * 2 - 1) // 2 % 7 << 2) | 1) ^ 3
    assert run(dev, k_assign, n)[:4] == [a, b, c, 5]


@tegula.jit
def k_if(out, n):
    if n > 10:
        r = 1
    elif n > 5:
        r = 2
        tl.store(out + 1, 9)
    else:
        r = 3
    if n == 7:
        r = r + 10
    if n:
        tl.store(out + 2, 1)
    if out is not None:
        r += 100
    if n > 2 and n < 8:
        r += 1000
    tl.store(out, r)


@statements
@pytest.mark.parametrize("n, e", [(20, [101, 0, 1]), (10, [102, 9, 1]), (7, [1112, 9, 1]), (3, [1103, 0, 1]), (0, [103, 0, 0])])
def test_if(dev, n, e):
    assert run(dev, k_if, n)[:3] == e


@tegula.jit
def k_nested_if(out, a, b):
    x = 0
    y = tl.zeros([4], tl.int32)
    if a > 0:
        if b > 0:
            x = 1
            y += 5
        else:
            x = 2
            if b < -5:
                x = 3
                y = y - 1
    tl.store(out, x)
    tl.store(out + 1 + tl.arange(0, 4), y)


@statements
@pytest.mark.parametrize("a, b, x, y", [(0, 5, 0, 0), (2, 2, 1, 5), (2, 0, 2, 0), (2, -9, 3, -1)])
def test_nested_if(dev, a, b, x, y):
    assert run(dev, k_nested_if, a, b)[:5] == [x] + [y] * 4


@tegula.jit
def k_constexpr_if(out, MODE: tl.constexpr, P):
    if MODE == "a":
        r = 1
    elif MODE == "b":
        r = tl.arange(0, 4)  # another type than the other arm: never seen together
        r = tl.sum(r)
    else:
        r = undefined_name + P.no_such_attribute
    if P is None:
        r += 100
    else:
        r += tl.load(P)
    tl.store(out, r)


@statements
@pytest.mark.parametrize("mode, pointer, e", [("a", False, 101), ("b", False, 106), ("a", True, 8), ("b", True, 13)])
def test_constexpr_if_prunes(dev, mode, pointer, e):
    assert run(dev, k_constexpr_if, mode, np.array([7], np.int32) if pointer else None)[0] == e


@tegula.jit
def k_early_return(out, n):
    if n == 3:
        return
    tl.store(out, 1)
    if n > 10:
        tl.store(out + 1, 1)
        return
    tl.store(out + 2, 1)


@statements
@pytest.mark.parametrize("n, e", [(3, [0, 0, 0]), (20, [1, 1, 0]), (5, [1, 0, 1])])
def test_early_return(dev, n, e):
    assert run(dev, k_early_return, n)[:3] == e


@tegula.jit
def k_after_return(out):
    tl.store(out, 1)
    return
    this_is(not_compiled)


@statements
def test_code_after_return_is_skipped(dev):
    assert run(dev, k_after_return)[0] == 1


@tegula.jit
def s_chained(out):
    a = b = 1
    tl.store(out, a + b)


@tegula.jit
def s_string(out):
    s = "text"
    tl.store(out, 1)


@tegula.jit
def s_setitem(out):
    x = tl.arange(0, 4)
    x[0] = 1


@tegula.jit
def s_attribute(out):
    x = tl.arange(0, 4)
    x.field = 1


@tegula.jit
def s_break(out):
    for i in range(4):
        break


@tegula.jit
def s_continue(out):
    for i in range(4):
        continue


@tegula.jit
def s_while_true(out):
    while True:
        tl.store(out, 1)


@tegula.jit
def s_block_condition(out):
    if tl.arange(0, 4) > 2:
        tl.store(out, 1)


@tegula.jit
def s_string_condition(out):
    if "text":
        tl.store(out, 1)


@tegula.jit
def s_return_in_loop(out, n):
    for i in range(n):
        if i == 3:
            return
    tl.store(out, 1)


@tegula.jit
def s_undefined(out):
    tl.store(out, not_defined)


@tegula.jit
def s_augmented_undefined(out):
    fresh += 1
    tl.store(out, fresh)


@tegula.jit
def s_import(out):
    import math
    tl.store(out, 1)


@tegula.jit
def s_try(out):
    try:
        tl.store(out, 1)
    finally:
        pass


@tegula.jit
def s_del(out):
    a = 1
    del a


@tegula.jit
def s_global(out):
    global PLAIN
    tl.store(out, 1)


@tegula.jit
def s_nested_def(out):
    def f(x):
        return x
    tl.store(out, f(1))


@tegula.jit
def s_lambda(out):
    f = lambda x: x
    tl.store(out, f(1))


@tegula.jit
def s_dict(out):
    tl.store(out, {1: 2}[1])


@tegula.jit
def s_two_types(out, n):
    if n > 3:
        x = 1
    else:
        x = 1.5
    tl.store(out, x)


@tegula.jit
def s_one_arm(out, n):
    if n > 3:
        fresh = 1
    tl.store(out, fresh)


@tegula.jit
def s_constexpr_twice(out):
    a: tl.constexpr = 1
    a: tl.constexpr = 2
    tl.store(out, a)


@tegula.jit
def s_iterate_tuple(out):
    for x in (1, 2, 3):
        tl.store(out, x)


@tegula.jit
def s_constexpr_in_loop(out, n):
    a: tl.constexpr = 1
    for i in range(n):
        a = 2
    tl.store(out, a)


@tegula.jit
def s_in(out):
    tl.store(out, 1 in (1, 2))


@tegula.jit
def s_shadowed_print(out):
    tl.store(out, abs(-1))


@statements
@pytest.mark.parametrize("kernel, text", [
    (s_chained, "multiple assignment"), (s_string, "cannot convert|string|str"), (s_setitem, "__setitem__|assign"), (s_attribute, "[Aa]ttribute assignment"),
    (s_break, "[Bb]reak"), (s_continue, "[Cc]ontinue"), (s_while_true, "."), (s_block_condition, "ambiguous"), (s_string_condition, "bool, int, None"),
    (s_return_in_loop, "return"), (s_undefined, "not_defined"), (s_augmented_undefined, "fresh"), (s_import, "[Ii]mport"), (s_try, "[Tt]ry"),
    (s_del, "[Dd]el"), (s_global, "[Gg]lobal"), (s_nested_def, "nested function"), (s_lambda, "[Ll]ambda"), (s_dict, "[Dd]ict"),
    (s_two_types, "x"), (s_one_arm, "fresh"), (s_constexpr_twice, "already defined"), (s_iterate_tuple, "range"), (s_constexpr_in_loop, "constexpr"),
    (s_in, "."), (s_shadowed_print, "abs")], ids=lambda v: getattr(v, "__name__", ""))
def test_rejected(dev, kernel, text):
    args = [5] if len(kernel.arg_names) > 1 else []
    with pytest.raises(CompileError, match=text):
        run(dev, kernel, *args)


# §1.3 ------------------------------------------------------------------------------------------------------------------

@tegula.jit
def k_range(out, start, stop, STEP: tl.constexpr):
    n = 0
    total = 0
    for i in range(start, stop, STEP):
        n += 1
        total = total * 3 + i
    tl.store(out, n)
    tl.store(out + 1, total)


@tegula.jit
def k_tl_range(out, start, stop, STEP: tl.constexpr):
    n = 0
    total = 0
    for i in tl.range(start, stop, STEP, num_stages=3, loop_unroll_factor=2, flatten=True, disallow_acc_multi_buffer=True, warp_specialize=False, disable_licm=True):
        n += 1
        total = total * 3 + i
    tl.store(out, n)
    tl.store(out + 1, total)


@tegula.jit
def k_static_range(out, START: tl.constexpr, STOP: tl.constexpr, STEP: tl.constexpr):
    n = 0
    total = 0
    for i in tl.static_range(START, STOP, STEP):
        n += 1
        total = total * 3 + i
    tl.store(out, n)
    tl.store(out + 1, total)


@loops
@pytest.mark.parametrize("start, stop, step", [(0, 5, 1), (2, 9, 3), (5, 5, 1), (7, 3, 1), (5, 0, -1), (9, -2, -3), (0, 5, -1), (-4, 3, 2)])
@pytest.mark.parametrize("kernel", [k_range, k_tl_range, k_static_range], ids=lambda k: k.__name__)
def test_range(dev, kernel, start, stop, step):
    total = 0
    for i in range(start, stop, step):
        total = total * 3 + i
    assert run(dev, kernel, start, stop, step)[:2] == [len(range(start, stop, step)), total]


@tegula.jit
def k_runtime_step(out, n, step):
    total = 0
    for i in range(0, n, step):
        total += i
    for j in range(n):
        j = j * 2  # changes the rest of this iteration only
        total += j
    tl.store(out, total)


@loops
@pytest.mark.parametrize("n, step", [(10, 3), (1, 5), (0, 2)])
def test_runtime_step(dev, n, step):
    assert run(dev, k_runtime_step, n, step)[0] == sum(range(0, n, step)) + 2 * sum(range(n))


@tegula.jit
def k_carried(out, n):
    a, b = 0, 1
    v = tl.zeros([4], tl.float32)
    t = (n * 0, v)
    for i in range(n):
        a, b = b, a + b
        v += i
        t = (t[0] + 2, t[1] - 1.0)
        local = i
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, tl.sum(v))
    tl.store(out + 3, t[0])
    tl.store(out + 4, tl.sum(t[1]))


@loops
@pytest.mark.parametrize("n", [0, 1, 2, 10])
def test_carried(dev, n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    assert run(dev, k_carried, n)[:5] == [a, b, 4 * sum(range(n)), 2 * n, -4 * n]


@tegula.jit
def k_nest(out, n, m):
    total = 0
    for i in range(n):
        row = 0
        for j in range(i, m):
            if (i + j) % 2 == 0:
                row += i * j
            else:
                row -= 1
        total += row
    tl.store(out, total)


@loops
@pytest.mark.parametrize("n, m", [(0, 5), (4, 4), (7, 10)])
def test_nest(dev, n, m):
    e = sum(i * j if (i + j) % 2 == 0 else -1 for i in range(n) for j in range(i, m))
    assert run(dev, k_nest, n, m)[0] == e


@tegula.jit
def k_while(out, n):
    steps = 0
    x = n
    while x != 1:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    tl.store(out, steps)


@loops
@pytest.mark.parametrize("n, e", [(2, 1), (7, 16), (27, 111)])
def test_while(dev, n, e):
    assert run(dev, k_while, n)[0] == e


@tegula.jit
def k_while_and(out, x, n):
    i = 0
    while tl.condition((i < n) & (tl.load(x + i) != 0), disable_licm=True):
        i += 1
    v = tl.zeros([4], tl.int32)
    while tl.sum(v) < 20:
        v += 2
    tl.store(out, i)
    tl.store(out + 1, tl.sum(v))


@loops
def test_while_condition(dev):
    assert run(dev, k_while_and, np.array([5, 3, 1, 0, 7], np.int32), 5)[:2] == [3, 24]


@tegula.jit
def k_static_shapes(out):
    x = tl.arange(0, 16)
    for i in tl.static_range(3):
        x = tl.sum(tl.reshape(x, [x.shape[0] // 2, 2]), 1)
        tl.static_assert(x.shape[0] == 16 // 2**(i + 1))
    tl.store(out + tl.arange(0, 2), x)
    for i in tl.static_range(3, 0, -1):
        tl.store(out + 1 + i, i)


@loops
def test_static_range_changes_types(dev):
    assert run(dev, k_static_shapes)[:5] == [28, 92, 1, 2, 3]


@tegula.jit
def k_big_bound(out, start, stop):
    n = 0
    for i in range(start, stop):
        tl.static_assert(i.dtype == tl.int64)
        n += (i - start).to(tl.int32) + 1
    tl.store(out, n)


@loops
def test_int64_bounds(dev):
    assert run(dev, k_big_bound, 2**40, 2**40 + 4)[0] == 10


@tegula.jit
def l_type(out, n):
    x = 0
    for i in range(n):
        x = x + 1.5
    tl.store(out, x)


@tegula.jit
def l_shape(out, n):
    x = tl.zeros([4], tl.int32)
    for i in range(n):
        x = tl.join(x, x)
    tl.store(out, tl.sum(x))


@tegula.jit
def l_after(out, n):
    for i in range(n):
        fresh = i
    tl.store(out, fresh)


@tegula.jit
def l_float_bound(out, n):
    for i in range(n * 1.5):
        tl.store(out, i)


@tegula.jit
def l_static(out, n):
    for i in tl.static_range(n):
        tl.store(out, i)


@tegula.jit
def l_kind(out, n):
    x = (1, 2)
    for i in range(n):
        x = 3
    tl.store(out, 1)


@loops
@pytest.mark.parametrize("kernel, text", [(l_type, "x.*(type|int32|float32)"), (l_shape, "x"), (l_after, "fresh"), (l_float_bound, "int"), (l_static, "constexpr"), (l_kind, "x")],
                         ids=lambda v: getattr(v, "__name__", ""))
def test_loop_errors(dev, kernel, text):
    with pytest.raises(CompileError, match=text):
        run(dev, kernel, 5)


# §1.4 ------------------------------------------------------------------------------------------------------------------

@tegula.jit
def k_ternary(out, n):
    a = 1 if n > 3 else 2
    b = tl.arange(0, 4) if n > 3 else tl.zeros([4], tl.int32)
    tl.store(out, a)
    tl.store(out + 1, tl.sum(b))
    tl.store(out + 2, 7) if n == 5 else tl.store(out + 3, 8)
    c = undefined if out is None else 9
    tl.store(out + 4, c)


@expressions
@pytest.mark.parametrize("n, e", [(5, [1, 6, 7, 0, 9]), (2, [2, 0, 0, 8, 9])])
def test_ternary(dev, n, e):
    assert run(dev, k_ternary, n)[:5] == e


@tegula.jit
def k_logic(out, a, b, NONE, FLAG: tl.constexpr):
    x = a > 0
    y = b > 0
    tl.store(out, (x and y).to(tl.int32))
    tl.store(out + 1, (x or y).to(tl.int32))
    tl.store(out + 2, (not x).to(tl.int32))
    if NONE is not None and NONE.anything > 3:
        tl.store(out + 3, 1)
    if FLAG and x:
        tl.store(out + 4, 1)
    if FLAG or undefined_name:
        tl.store(out + 5, 1)
    z: tl.constexpr = FLAG and 5 or 6
    tl.store(out + 6, z)


@expressions
@pytest.mark.parametrize("a, b", [(2, 2), (2, -2), (-2, 3), (-2, -3)])
def test_logic(dev, a, b):
    x, y = a > 0, b > 0
    assert run(dev, k_logic, a, b, None, True)[:7] == [x and y, x or y, not x, 0, x, 1, 5]


@tegula.jit
def k_walrus(out, n):
    if (m := n * 2) > 5:
        tl.store(out, m)
    tl.store(out + 1, m)
    tl.store(out + 2, (q := n + 1) * q)


@expressions
@pytest.mark.parametrize("n", [2, 5])
def test_walrus(dev, n):
    assert run(dev, k_walrus, n)[:3] == [2 * n if n == 5 else 0, 2 * n, (n + 1)**2]


@tegula.jit
def k_fstring(out, N: tl.constexpr):
    name: tl.constexpr = f"n={N} {N + 1!r}"
    tl.static_assert(name == "n=4 5")
    tl.static_assert(N == 4, f"N is {N}")
    tl.store(out, 1)


@tegula.jit
def k_compile_time(out, N: tl.constexpr):
    tl.static_assert(-7 // 2 == -4)
    tl.static_assert(-7 % 3 == 2)
    tl.static_assert(7 / 2 == 3.5)
    tl.static_assert(2**10 == 1024)
    tl.static_assert((1 << 40) > 2**39)
    tl.static_assert(N is not None)
    tl.static_assert(len((1, 2, 3)) == 3)
    tl.static_assert(int(3.9) == 3)
    tl.static_assert(float(3) == 3.0)
    tl.static_assert(min(3, 1, 2) == 1 and max(3, 1, 2) == 3)
    tl.static_assert(isinstance(N, int))
    tl.static_assert(hasattr(out, "dtype") and not hasattr(out, "no_such"))
    tl.static_assert(getattr(out, "no_such", 5) == 5)
    tl.static_assert([1, 2] + [3] == (1, 2, 3))
    tl.static_assert([0] * 3 == [0, 0, 0])
    tl.static_assert((1, 2, 3)[-1] == 3 and (1, 2, 3)[:2] == (1, 2) and (1, 2, 3, 4)[::2] == (1, 3))
    tl.static_assert([x * 2 for x in (1, 2, 3)] == (2, 4, 6))
    tl.static_assert("ab" + "c" == "abc" and "abc" != "abd")
    tl.static_assert(not False and (None or 3) == 3 and (0 or None) is None)
    tl.static_assert(~5 == -6 and +5 == 5 and (5 ^ 3) == 6)
    tl.static_assert(math.log2(8) == 3)
    tl.static_assert(tegula.next_power_of_2(9) == 16 and tegula.cdiv(9, 4) == 3)
    tl.static_assert(out.dtype.element_ty == tl.int32)
    tl.static_assert(tl.float16.primitive_bitwidth == 16)
    tl.store(out, 1)


@expressions
@pytest.mark.parametrize("kernel", [k_fstring, k_compile_time], ids=lambda k: k.__name__)
def test_compile_time(dev, kernel):
    assert run(dev, kernel, 4)[0] == 1


@tegula.jit
def k_min_max(out, a, b):
    tl.store(out, min(a, b))
    tl.store(out + 1, max(a, b, 4))


@expressions
def test_min_max_of_runtime(dev):
    assert run(dev, k_min_max, 9, 2)[:2] == [2, 9]
    assert run(dev, k_min_max, 3, 2)[:2] == [2, 4]


# §1.5 ------------------------------------------------------------------------------------------------------------------

@tegula.jit
def h_default(x, a=2, b: tl.constexpr = 3, *rest):
    r = x * a + b
    for i in tl.static_range(len(rest)):
        r += rest[i] * 100
    return r


@tegula.jit
def k_arguments(out, n):
    t = (n, 5)
    tl.store(out, h_default(n))
    tl.store(out + 1, h_default(n, 4))
    tl.store(out + 2, h_default(b=n, x=n))
    tl.store(out + 3, h_default(*t))
    tl.store(out + 4, h_default(n, 1, 1, 1, n))


@functions
def test_arguments(dev):
    n = 7
    assert run(dev, k_arguments, n)[:5] == [2 * n + 3, 4 * n + 3, 3 * n, 5 * n + 3, n + 1 + 100 + 100 * n]


@tegula.jit
def h_two(x):
    return x + 1, x * 2


@tegula.jit
def h_early(x):
    if x > 5:
        return x * 10
    if x > 3:
        return x * 100
    return -x


@tegula.jit
def h_constant(FLAG: tl.constexpr):
    if FLAG:
        return 16
    else:
        return 8


@tegula.jit
def h_factorial(n: tl.constexpr):
    if n <= 1:
        return 1
    else:
        return n * h_factorial(n - 1)


@tegula.jit
def h_nothing(out, v):
    tl.store(out + 5, v)


@tegula.jit
def k_returns(out, n):
    a, b = h_two(n)
    tl.store(out, a + b)
    tl.store(out + 1, h_early(n))
    tl.store(out + 2, tl.sum(tl.arange(0, h_constant(True))))
    tl.store(out + 3, h_factorial(5))
    tl.store(out + 4, h_two(n)[1])
    h_nothing(out, n)


@functions
@pytest.mark.parametrize("n", [2, 4, 9])
def test_returns(dev, n):
    early = n * 10 if n > 5 else n * 100 if n > 3 else -n
    assert run(dev, k_returns, n)[:6] == [3 * n + 1, early, 120, 120, 2 * n, n]


@tegula.jit
def h_add(x, y):
    return x + y


@tegula.jit
def h_mul(x, y):
    return x * y


@tegula.jit
def h_apply(fn, x, y):
    return fn(x, y)


@tegula.jit
def k_function_values(out, n, FN: tl.constexpr):
    fns = (h_add, h_mul)
    tl.store(out, FN(n, 3))
    tl.store(out + 1, h_apply(FN, n, 4))
    for i in tl.static_range(2):
        tl.store(out + 2 + i, fns[i](n, 5))


@functions
@pytest.mark.parametrize("fn, f", [(h_add, lambda a, b: a + b), (h_mul, lambda a, b: a * b)], ids=["add", "mul"])
def test_function_values(dev, fn, f):
    assert run(dev, k_function_values, 6, fn)[:4] == [f(6, 3), f(6, 4), 11, 30]


@tegula.jit(noinline=True)
def n_power(x, n):
    r = 1
    for _ in range(n):
        r = r * x
    return r


@tegula.jit(noinline=True)
def n_block(p, N: tl.constexpr):
    return tl.load(p + tl.arange(0, N))


@tegula.jit
def k_noinline(out, x, n):
    tl.store(out, n_power(n, 3) + n_power(2, n))
    tl.store(out + 1, tl.sum(n_block(x, 8)))


@tegula.jit
def k_noinline_block(out, n):
    tl.store(out + tl.arange(0, 4), n_power(tl.arange(0, 4), n))


@functions
def test_noinline(dev):
    assert run(dev, k_noinline, np.arange(8, dtype=np.int32), 5)[:2] == [125 + 32, 28]
    with pytest.raises(CompileError, match="noinline"):
        run(dev, k_noinline_block, 3)


@tegula.jit
def r_mismatch(x):
    if x > 3:
        return x
    return 1.5


@tegula.jit
def f_mismatch(out, n):
    tl.store(out, r_mismatch(n))


@tegula.jit
def f_arity(out, n):
    tl.store(out, h_add(n))


@tegula.jit
def f_keyword(out, n):
    tl.store(out, h_add(n, z=3))


@tegula.jit
def f_recursion(out, n):
    tl.store(out, h_endless(n))


@tegula.jit
def h_endless(x):
    return h_endless(x) + 1


@functions
@pytest.mark.parametrize("kernel, text", [(f_mismatch, "[Rr]eturn type"), (f_arity, "y|argument"), (f_keyword, "z"), (f_recursion, "recurs|depth|nest")],
                         ids=lambda v: getattr(v, "__name__", ""))
def test_call_errors(dev, kernel, text):
    with pytest.raises(CompileError, match=text):
        run(dev, kernel, 5)


@functions
def test_kernel_called_from_the_host():
    with pytest.raises(RuntimeError, match="[Cc]annot call"):
        h_add(1, 2)


# §1.6 ------------------------------------------------------------------------------------------------------------------

@tegula.jit
def k_decay(out, N: tl.constexpr):
    n: tl.constexpr = N * 2
    tl.store(out + tl.arange(0, n), 1)
    t = (N, 3.5)
    tl.static_assert(t[1].dtype == tl.float32)
    m = N
    tl.static_assert(m.dtype == tl.int32)


@tegula.jit
def k_decayed_shape(out, N: tl.constexpr):
    n = N
    tl.store(out + tl.arange(0, n), 1)


@tegula.jit
def k_annotation_first(out, FLAG: tl.constexpr):
    n: tl.constexpr
    if FLAG:
        n = 4
    else:
        n = 8
    tl.store(out + tl.arange(0, n), 1)


@constants
def test_decay(dev):
    assert run(dev, k_decay, 4) == [1] * 8
    with pytest.raises(CompileError, match="constexpr"):
        run(dev, k_decayed_shape, 4)
    assert run(dev, k_annotation_first, True) == [1] * 4 + [0] * 4
    assert run(dev, k_annotation_first, False) == [1] * 8


@tegula.jit
def k_static_assert(out, N: tl.constexpr):
    tl.static_assert(N == 3, "N must be three")
    tl.store(out, 1)


@tegula.jit
def k_static_assert_runtime(out, n):
    tl.static_assert(n == 3)


@constants
def test_static_assert(dev):
    assert run(dev, k_static_assert, 3)[0] == 1
    with pytest.raises(CompileError, match="N must be three"):
        run(dev, k_static_assert, 4)
    with pytest.raises(CompileError, match="compile"):
        run(dev, k_static_assert_runtime, 4)


@tegula.constexpr_function
def log2_of(n):
    r = 0
    while n > 1:
        n //= 2
        r += 1
    return r


@tegula.jit
def k_constexpr_function(out, N: tl.constexpr):
    k: tl.constexpr = log2_of(N)
    tl.static_assert(k == 3)
    tl.store(out + tl.arange(0, 2**k), k)


@constants
def test_constexpr_function(dev):
    assert log2_of(1024) == 10
    assert run(dev, k_constexpr_function, 8) == [3] * 8


# §1.7 ------------------------------------------------------------------------------------------------------------------

@tegula.jit
def k_globals(out, n):
    tl.store(out + tl.arange(0, BLOCK), BLOCK + n)


@tegula.jit
def k_plain_global(out):
    tl.store(out, PLAIN)


def make_kernel(fn):
    scale = tl.constexpr(10)

    @tegula.jit
    def k_closure(out, n):
        tl.store(out, fn(n, scale))

    return k_closure


@tegula.jit
def k_uses_later(out):
    tl.store(out, defined_later(4))


@tegula.jit
def defined_later(x):
    return x * 11


@tegula.jit
def k_default_from_global(out, n: tl.constexpr = PLAIN):
    tl.store(out, n)


@names
def test_globals(dev):
    assert run(dev, k_globals, 3) == [11] * 8
    with pytest.raises((CompileError, NameError), match="PLAIN"):
        run(dev, k_plain_global)
    assert run(dev, make_kernel(h_add), 5)[0] == 15
    assert run(dev, make_kernel(h_mul), 5)[0] == 50
    assert run(dev, k_uses_later)[0] == 44
    assert run(dev, k_default_from_global)[0] == 5


# §1.9 ------------------------------------------------------------------------------------------------------------------

class Op(NamedTuple):
    fn: tl.constexpr
    args: tuple


class Point(NamedTuple):
    x: int
    y: int


@tegula.jit
def h_swap(t):
    return t[1], t[0]


@tegula.jit
def h_move(p, d):
    return Point(p.x + d, p.y - d)


@tegula.jit
def k_tuples(out, n, t):
    a = (n, (n + 1, 5))
    b, (c, e) = a
    tl.store(out, b + c + e)
    x, y = h_swap((n, 2))
    tl.store(out + 1, x * 10 + y)
    u = a + (7,)
    tl.store(out + 2, u[2] + u[-1])
    tl.store(out + 3, t[0] + t[1])
    p = Point(n, 4)
    p = h_move(p, 1)
    tl.store(out + 4, p.x * 100 + p.y + p[0])
    if n > 3:
        w = (1, n)
    else:
        w = (2, n + 1)
    tl.store(out + 5, w[0] * 100 + w[1])
    s = 0
    for i in tl.static_range(len(u[1:])):
        s += 1
    tl.store(out + 6, s)


@tuples
@pytest.mark.parametrize("n", [2, 6])
def test_tuples(dev, n):
    w = 100 + n if n > 3 else 200 + n + 1
    assert run(dev, k_tuples, n, (20, 30))[:7] == [2 * n + 6, 20 + n, 14, 50, (n + 1) * 100 + 3 + n + 1, w, 2]


@tegula.jit
def k_tuple_of_pointers(out, xs, op):
    total = tl.zeros([4], tl.int32)
    for i in tl.static_range(len(xs)):
        total += tl.load(xs[i] + tl.arange(0, 4)) * (i + 1)
    tl.store(out + tl.arange(0, 4), op.fn(total, *op.args))


@tuples
def test_tuple_arguments(dev):
    xs = tuple(np.arange(4, dtype=np.int32) + 10 * i for i in range(3))
    e = (sum(x * (i + 1) for i, x in enumerate(xs)) * 3).tolist()
    assert run(dev, k_tuple_of_pointers, xs, Op(h_mul, (3,)))[:4] == e
