"""§1.2 statements, §1.3 loops."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, run

statements = pytest.mark.section("1.2 statements")
loops = pytest.mark.section("1.3 loops")

PLAIN = 5


# §1.2 ----------------------------------------------------------------------------------------------------------------


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
@pytest.mark.parametrize("n, e", [(20, [101, 0, 1]), (10, [102, 9, 1]), (7, [1112, 9, 1]), (3, [1103, 0, 1]),
                                  (0, [103, 0, 0])])
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
@pytest.mark.parametrize("kernel, text", [(s_chained, "multiple assignment"), (s_string, "cannot convert|string|str"),
                                          (s_setitem, "__setitem__|assign"), (s_attribute, "[Aa]ttribute assignment"),
                                          (s_break, "[Bb]reak"), (s_continue, "[Cc]ontinue"), (s_while_true, "."),
                                          (s_block_condition, "ambiguous"), (s_string_condition, "bool, int, None"),
                                          (s_return_in_loop, "return"), (s_undefined, "not_defined"),
                                          (s_augmented_undefined, "fresh"), (s_import, "[Ii]mport"), (s_try, "[Tt]ry"),
                                          (s_del, "[Dd]el"), (s_global, "[Gg]lobal"), (s_nested_def, "nested function"),
                                          (s_lambda, "[Ll]ambda"), (s_dict, "[Dd]ict"), (s_two_types, "x"),
                                          (s_one_arm, "fresh"), (s_constexpr_twice, "already defined"),
                                          (s_iterate_tuple, "range"), (s_constexpr_in_loop, "constexpr"), (s_in, "."),
                                          (s_shadowed_print, "abs")], ids=lambda v: getattr(v, "__name__", ""))
def test_rejected(dev, kernel, text):
    args = [5] if len(kernel.arg_names) > 1 else []
    with pytest.raises(CompileError, match=text):
        run(dev, kernel, *args, strict=True)


# §1.3 ----------------------------------------------------------------------------------------------------------------


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
    for i in tl.range(start, stop, STEP, num_stages=3, loop_unroll_factor=2, flatten=True,
                      disallow_acc_multi_buffer=True, warp_specialize=False, disable_licm=True):
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
@pytest.mark.parametrize("start, stop, step", [(0, 5, 1), (2, 9, 3), (5, 5, 1), (7, 3, 1), (5, 0, -1), (9, -2, -3),
                                               (0, 5, -1), (-4, 3, 2)])
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
@pytest.mark.parametrize("kernel, text", [(l_type, "x.*(type|int32|float32)"), (l_shape, "x"), (l_after, "fresh"),
                                          (l_float_bound, "int"), (l_static, "constexpr"), (l_kind, "x")],
                         ids=lambda v: getattr(v, "__name__", ""))
def test_loop_errors(dev, kernel, text):
    with pytest.raises(CompileError, match=text):
        run(dev, kernel, 5)


@tegula.jit
def many_loops(x, out, n, N: tl.constexpr, LOOPS: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.load(x + i)
    for j in tl.static_range(LOOPS):
        for k in range(n):
            total += tl.load(x + i + k) * j
    tl.store(out + i, total)


# So many that the CPU's code generator leaves passes out (targets/common/Pipeline.h).
def test_hundreds_of_loops(dev):
    count = 330 if dev.name == "cpu" else 20
    x, out = np.arange(1, 68, dtype=np.int32), np.zeros(64, np.int32)
    dev(many_loops, (1,), x, out, 3, 64, count)
    np.testing.assert_array_equal(out, x[:64] + sum(range(count)) * (x[:64] + x[1:65] + x[2:66]))


@tegula.jit
def loops_that_hand_on(x, out, n, LOOPS: tl.constexpr):
    i = tl.arange(0, 16)
    s = i[:, None] * 16 + i[None, :]
    c = tl.load(x + s)
    for j in tl.static_range(LOOPS):
        for k in range(n):
            c = tl.where(c > j, tl.trans(c), tl.cumsum(c, 0) & 255) + k
    tl.store(out + s, c)


@pytest.mark.parametrize("count", [3, 100])
def test_copies_between_loops_are_dropped(dev, count):
    """What one loop leaves is where the next one finds it, in kernels with more of them than coalesceBuffers() has rounds for one at a time."""
    if dev.name != "cpu" and count > 3:
        pytest.skip("buffers are the CPU's")
    x, out = np.random.default_rng(count).integers(0, 99, (16, 16)).astype(np.int32), np.zeros((16, 16), np.int32)
    c = x
    for j in range(count):
        for k in range(2):
            c = np.where(c > j, c.T, np.cumsum(c, 0) & 255) + k
    kernel = dev(loops_that_hand_on, (1,), x, out, 2, count)
    assert (out == c).all()
    if dev.name == "cpu":
        # A loop computes its new value and hands it to the next iteration; the first one's old value is loaded.
        assert len(re.findall(r"buffer \d+ = ", kernel.asm["cpu"])) == 2 * count + 1


@tegula.jit
def stores_in_branches(x, out, N: tl.constexpr):
    i = tl.arange(0, 32)
    v = tl.load(x + i)
    for k in tl.static_range(N):
        if tl.load(x + k) > 0:
            v += tl.flip(v, 0)
            tl.store(out + i, v)
        else:
            tl.store(out + 31 - i, v)


def test_many_branches_in_a_row(dev):
    """What one branch has accessed is kept once, however many follow."""
    x = np.where(np.arange(32) % 3 == 0, 1, -1).astype(np.int32)
    out = np.zeros(32, np.int32)
    dev(stores_in_branches, (1,), x, out, 24)
    v = x.copy()
    for k in range(24):
        if x[k] > 0:
            v = v + v[::-1]
    assert (out == v[::-1]).all()


@tegula.jit
def ranges_by_keyword(out, n):
    total = 0
    for i in tl.range(arg1=2, arg2=n, step=3, num_stages=1):
        total += i
    for i in tl.range(arg1=n):
        total += 1
    for i in tl.static_range(arg1=1, arg2=6, step=2):
        total += i * 100
    for i in tl.static_range(arg1=3):
        total += 1000
    tl.store(out, total)


def test_ranges_by_keyword(dev):
    out = np.zeros(1, np.int32)
    dev(ranges_by_keyword, (1,), out, 10)
    assert out[0] == 2 + 5 + 8 + 10 + 900 + 3000
