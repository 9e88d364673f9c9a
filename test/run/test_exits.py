"""`break`, `continue`, `return` and `else` of loops: what Triton refuses and Python means. The reference is Python: the kernels below also run as
what they are, functions of Python, on `Pointer`s into numpy arrays and the few functions of `Tl`."""
import types

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import BY_NAME, CompileError

pytestmark = pytest.mark.section("1.3 exits of loops")


class Pointer:
    def __init__(self, array, at=0):
        self.array, self.at = array, at

    def __add__(self, n):
        return Pointer(self.array, self.at + n)


class Tl:
    """What the kernels of this file use of the language, one program."""
    int32, float32, static_range, range = np.int32, np.float32, range, range
    constexpr = tl.constexpr

    @staticmethod
    def load(p):
        assert np.all((0 <= p.at) & (p.at < len(p.array)))
        return p.array[p.at]

    @staticmethod
    def store(p, value):
        assert np.all((0 <= p.at) & (p.at < len(p.array)))
        p.array[p.at] = value

    @staticmethod
    def atomic_add(p, value):
        p.array[p.at] += value

    @staticmethod
    def arange(a, b):
        return np.arange(a, b, dtype=np.int32)

    @staticmethod
    def zeros(shape, dtype):
        return np.zeros(shape, dtype)

    @staticmethod
    def dot(a, b, acc):
        return acc + a.astype(np.float32) @ b.astype(np.float32)

    @staticmethod
    def sum(x):
        return x.sum(dtype=x.dtype)


def python(fn, *args):
    """Runs the kernel as a function of Python."""
    names = {"tl": Tl}
    for name, value in fn.fn.__globals__.items():
        if isinstance(value, tegula.JITFunction) and value.fn is not fn.fn:
            names[name] = types.FunctionType(value.fn.__code__, {**fn.fn.__globals__, **names}, name, value.fn.__defaults__)
    code = types.FunctionType(fn.fn.__code__, {**fn.fn.__globals__, **names}, fn.fn.__name__, fn.fn.__defaults__)
    code(*(Pointer(a) if isinstance(a, np.ndarray) else a for a in args))


def check(dev, fn, *args, **options):
    """All arrays are as Python leaves them."""
    want = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with np.errstate(over="ignore"):
        python(fn, *want)
    got = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    kernel = dev(fn, (1, ), *got, **options)
    for w, g in zip(want, got):
        if isinstance(w, np.ndarray):
            np.testing.assert_array_equal(g, w)
    return kernel


def ints(*values):
    return np.array(values, np.int32)


def room(n=16):
    return np.full(n, -7, np.int32)


# for: break ----------------------------------------------------------------------------------------------------------


@tegula.jit
def k_find(x, out, n, what):
    at = -1
    for i in range(n):
        tl.store(out + 4 + i, 1)
        if tl.load(x + i) == what:
            at = i
            break
        tl.store(out + 4 + i, 2)
    tl.store(out, at)


@pytest.mark.parametrize("what", [5, 6, 8, 9, 42])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_break(dev, n, what):
    check(dev, k_find, ints(5, 6, 7, 8, 9), room(), n, what)


@tegula.jit
def k_target(x, out, n, what):
    i = 77
    for i in range(3, n, 2):
        if tl.load(x + i) == what:
            break
    tl.store(out, i)
    j = 78
    for j in range(n, -1, -3):
        j = j + 100
        if j < 104:
            break
        j += 10
    tl.store(out + 1, j)


@pytest.mark.parametrize("n, what", [(0, 1), (3, 1), (4, 3), (4, 1), (9, 5), (9, 7), (9, 99)])
def test_number_of_the_last_iteration(dev, n, what):
    check(dev, k_target, np.arange(16, dtype=np.int32), room(), n, what)


@tegula.jit
def k_edges(out, low, high, step: tl.constexpr, most):
    count = 0
    for i in range(low, high, step):
        count += 1
        tl.store(out, i)
        if count >= most:
            break
    tl.store(out + 1, count)


@pytest.mark.parametrize("low, high, step", [(2**31 - 5, 2**31 - 1, 3), (2**31 - 5, 2**31 - 1, 1), (-2**31 + 4, -2**31, -3), (-2**31, 2**31 - 1, 2**30),
                                             (2**31 - 1, -2**31, -(2**30)), (5, 5, 1), (6, 5, 1), (5, 6, -1), (2**63 - 9, 2**63 - 1, 4)])
@pytest.mark.parametrize("most", [1, 2, 100])
def test_ends_of_the_range(dev, low, high, step, most):
    check(dev, k_edges, np.full(4, -7, np.int64), low, high, step, most)


@tegula.jit
def k_unsigned(out, high, most):
    count = 0
    for i in range(high - 2, high):
        count += 1
        if count >= most:
            break
    tl.store(out, i)
    tl.store(out + 1, count)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_unsigned_range(dev, most):
    got = np.zeros(2, np.int64)
    dev(k_unsigned, (1, ), got, 2**32 - 1, most)
    count = min(most, 2)
    assert got.tolist() == [2**32 - 4 + count, count]


@tegula.jit
def k_arms(x, out, n):
    s = 0
    for i in range(n):
        v = tl.load(x + i)
        if v > 10:
            s += 1000
            if v > 20:
                s += 1
                break
            else:
                s += 2
                break
        elif v < 0:
            if v < -5:
                s += 5
                continue
            s -= v
        else:
            if v == 3:
                continue
            elif v == 4:
                break
            s += 7
        s *= 2
    tl.store(out, s)


@pytest.mark.parametrize("values", [[21], [11], [4], [3, 3], [-1, -6, 3, 5, 4, 9], [1, 2, -9, -3, 15], [1, 2, 6, -9], [-9, 1, 30, 5]])
def test_both_arms(dev, values):
    check(dev, k_arms, ints(*values), room(), len(values))


@tegula.jit
def k_always(x, out, n):
    for i in range(n):
        tl.store(out + i, tl.load(x + i))
        if n > 2:
            break
        else:
            break
    for i in range(n):
        tl.atomic_add(out + 8, 1)
        break


@pytest.mark.parametrize("n", [0, 1, 5])
def test_always(dev, n):
    check(dev, k_always, np.arange(5, dtype=np.int32), room(), n)


# nested loops --------------------------------------------------------------------------------------------------------


@tegula.jit
def k_inner(x, out, n, m):
    s = 0
    for i in range(n):
        for j in range(m):
            v = tl.load(x + i * 4 + j)
            if v < 0:
                break
            if v == 0:
                continue
            s += v
        s += 100
        if s > 1000:
            break
        k = 0
        while k < m:
            k += 1
            if k == i:
                continue
            if k > 3:
                break
            s += k
    tl.store(out, s)


@pytest.mark.parametrize("n, m", [(0, 4), (1, 0), (4, 4), (4, 2), (8, 4)])
def test_inner_loop_only(dev, n, m):
    x = np.random.default_rng(n * 10 + m).integers(-1, 90, 32).astype(np.int32)
    check(dev, k_inner, x, room(), n, m)


# while ---------------------------------------------------------------------------------------------------------------


@tegula.jit
def k_while(x, out, n):
    i = 0
    s = 0
    while i < n:
        v = tl.load(x + i)
        i += 1
        if v < 0:
            continue
        if v == 0:
            break
        s += v
        if v > 50:
            s -= 1
            if v > 70:
                break
            continue
        s *= 3
    tl.store(out, s)
    tl.store(out + 1, i)


@pytest.mark.parametrize("values", [[], [0], [-1], [1, 2, 3], [1, -1, 0, 5], [60, 5, 80, 5], [5, 71], [-1, -1, 51, 0]])
def test_while(dev, values):
    check(dev, k_while, ints(*values, 0), room(), len(values))


@tegula.jit
def k_condition(x, out, n):
    i = 0
    # Loads behind the end if it is evaluated once too often.
    while tl.load(x + i) != 0:
        if i == n:
            break
        i += 1
    tl.store(out, i)


@pytest.mark.parametrize("values, n", [([1, 1, 1], 2), ([1, 0, 1], 2), ([0], 0), ([1], 0)])
def test_condition_is_not_evaluated_after_break(dev, values, n):
    check(dev, k_condition, ints(*values), room(), n, check=True)


@tegula.jit
def k_forever(x, out, n):
    i = 0
    while True:
        if i >= n:
            break
        v = tl.load(x + i)
        i += 1
        if v == 0:
            continue
        tl.atomic_add(out, v)
    tl.store(out + 1, i)


@pytest.mark.parametrize("n", [0, 1, 6])
def test_while_true(dev, n):
    check(dev, k_forever, ints(3, 0, 4, 0, 0, 5), room(), n)


# return --------------------------------------------------------------------------------------------------------------


@tegula.jit
def first_above(x, n, limit):
    for i in range(n):
        v = tl.load(x + i)
        if v > limit:
            return i, v
    return -1, 0


@tegula.jit
def pair_of_sum(x, n, total):
    for i in range(n):
        a = tl.load(x + i)
        if a < 0:
            continue
        j = i + 1
        while j < n:
            b = tl.load(x + j)
            if a + b == total:
                return i * 100 + j
            if a + b > total:
                break
            j += 1
    return -1


@tegula.jit
def endless(x, limit):
    i = 0
    while True:
        if tl.load(x + i) >= limit:
            return i
        i += 1


@tegula.jit
def store_first(x, out, n, what):
    for i in range(n):
        if tl.load(x + i) == what:
            tl.store(out, i)
            return
    tl.store(out, -1)


@tegula.jit
def k_return(x, out, n, limit):
    at, v = first_above(x, n, limit)
    tl.store(out, at)
    tl.store(out + 1, v)
    tl.store(out + 2, pair_of_sum(x, n, limit))
    tl.store(out + 3, endless(x, limit if limit < 9 else 9))
    store_first(x, out + 4, n, limit)
    for i in range(n):
        if tl.load(x + i) == limit:
            return
        tl.store(out + 5 + i, 1)
    tl.store(out + 15, 99)


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("limit", [1, 5, 8, 12, 100])
def test_return(dev, n, limit):
    check(dev, k_return, ints(1, 3, -2, 5, 8, 4, 9), room(), n, limit)


@tegula.jit
def first_row(x, n, limit, BLOCK):
    offsets = tl.arange(0, BLOCK)
    tile = tl.load(x + offsets)
    for i in range(1, n):
        for j in range(2):
            if tl.sum(tile) > limit + j:
                return tile, i
        tile = tl.load(x + i * BLOCK + offsets)
    return tile + tile, -1


@tegula.jit
def k_return_tile(x, out, at, n, limit, BLOCK: tl.constexpr):
    tile, i = first_row(x, n, limit, BLOCK)
    tl.store(out + tl.arange(0, BLOCK), tile)
    tl.store(at, i)


@pytest.mark.parametrize("n, limit", [(1, 0), (4, -1), (4, 100), (4, 300), (4, 10**6)])
def test_return_of_a_tile(dev, n, limit):
    check(dev, k_return_tile, np.arange(64, dtype=np.int32), room(16), room(1), n, limit, 16)


@tegula.jit
def numbers(x, n):
    for i in range(n):
        if tl.load(x + i) == 1:
            return 2.5
        if tl.load(x + i) == 2:
            return 3
    return 7


@tegula.jit
def k_numbers(x, out, n):
    tl.store(out, numbers(x, n))


@pytest.mark.parametrize("values", [[1], [2], [0, 0], [0, 1], [0, 2]])
def test_numbers_returned_are_one_type(dev, values):
    out = np.zeros(1, np.float32)
    with pytest.raises(CompileError, match="Return type mismatch"):
        dev(k_numbers, (1, ), ints(*values), out, len(values))


# what is carried -----------------------------------------------------------------------------------------------------


@tegula.jit
def k_tiles(x, out, count, n, stop, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)
    b = a
    seen = 0
    for i in range(n):
        v = tl.load(x + i * BLOCK + offsets)
        if i == 1:
            continue
        b = a
        a = v
        seen += 1
        if i == stop:
            a = b
            break
        if i > stop:
            break
        b = v
    tl.store(out + offsets, a)
    tl.store(out + BLOCK + offsets, b)
    tl.store(count, seen)


@pytest.mark.parametrize("dtype", ["int1", "int8", "int16", "uint32", "int64", "float8e4nv", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("n, stop", [(0, 0), (4, 0), (4, 2), (4, 9)])
def test_carried_tiles(dev, dtype, n, stop):
    d = BY_NAME[dtype]
    x = np.random.default_rng(3).integers(0, 2 if dtype == "int1" else 100, 4 * 32).astype(d.np)
    want, count = np.zeros(64, d.np), room(1)
    python(k_tiles, x, want, count, n, stop, 32)
    got, seen = np.zeros(64, d.np), room(1)
    dev(k_tiles, (1, ), x, got, seen, n, stop, 32)
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    assert seen == count


@tegula.jit
def k_argument(x, out, n, one):
    for i in range(n):
        if tl.load(x + i) > 3:
            one = 40 + i
            break
        if tl.load(x + i) == 3:
            one += 1
            continue
    tl.store(out, one)


@pytest.mark.parametrize("values", [[], [9], [1, 2], [3, 3, 1], [3, 1, 5, 3]])
def test_argument_that_is_one(dev, values):
    check(dev, k_argument, ints(*values, 0), room(), len(values), 1)


@tegula.jit
def k_pruned(x, out, n, EARLY: tl.constexpr):
    s = 0
    for i in range(n):
        v = tl.load(x + i)
        if EARLY:
            if v > 3:
                break
        s += v
    tl.store(out, s)


@pytest.mark.parametrize("early", [False, True])
def test_pruned(dev, early):
    check(dev, k_pruned, np.arange(8, dtype=np.int32), room(), 8, early)


@tegula.jit
def k_temporaries(x, out, n):
    s = 0
    for i in range(n):
        if tl.load(x + i) > 3:
            t = 2.5
            s += 1
            if t > 2.0:
                break
            u = 1
        t = tl.load(x + i)
        s += t
    tl.store(out, s)


@pytest.mark.parametrize("n", [0, 3, 8])
def test_temporaries_of_other_types(dev, n):
    check(dev, k_temporaries, np.arange(8, dtype=np.int32), room(), n)


@tegula.jit
def s_else(out, n):
    for i in range(n):
        tl.store(out, i)
    else:
        tl.store(out, 1)


@tegula.jit
def s_static(out, n):
    for i in tl.static_range(4):
        if i == 2:
            continue
        tl.store(out, i)


@tegula.jit
def s_return(out, n):
    while n > 0:
        n -= 1
        return


@pytest.mark.parametrize("kernel, text", [(s_else, "`for` with `else` is not supported"), (s_static, "unsupported AST node type: Continue"),
                                          (s_return, "Cannot have `return` statements inside `while` or `for`")], ids=["else", "static", "return"])
def test_strict(dev, kernel, text):
    dev(kernel, (1, ), room(), 5)
    with pytest.raises(CompileError, match=text):
        dev(kernel, (1, ), room(), 5, strict=True)


# else ----------------------------------------------------------------------------------------------------------------


@tegula.jit
def k_else(x, out, n, what):
    for i in range(n):
        if tl.load(x + i) == what:
            tl.store(out, i)
            break
    else:
        tl.store(out, -1)
    for i in range(n):
        if tl.load(x + i) == what:
            continue
        tl.store(out + 1, i)
    else:
        tl.store(out + 2, 5)
    k = 0
    while k < n:
        if tl.load(x + k) == what + 1:
            break
        if k == 3:
            return
        k += 1
    else:
        tl.store(out + 3, k)
    for i in range(2):
        for j in range(n):
            if tl.load(x + j) == what:
                break
        else:
            tl.store(out + 4, i)
            break
        tl.store(out + 5, i)
    for i in tl.static_range(3):
        if tl.load(x + i) == what:
            break
    else:
        tl.store(out + 6, 1)


@pytest.mark.parametrize("n", [0, 2, 6])
@pytest.mark.parametrize("what", [0, 1, 2, 9])
def test_else(dev, n, what):
    check(dev, k_else, np.arange(8, dtype=np.int32), room(), n, what)


# static_range --------------------------------------------------------------------------------------------------------


@tegula.jit
def k_static_plain(x, out, n, K: tl.constexpr):
    s = 0
    for i in tl.static_range(8):
        if i == 2:
            continue
        if i == K:
            break
        for j in tl.static_range(4):
            if j > i:
                break
            s += tl.load(x + j)
    tl.store(out, s)


def test_static_conditions(dev):
    out = room()
    kernel = dev(k_static_plain, (1, ), np.arange(8, dtype=np.int32), out, 4, 5)
    want = room()
    python(k_static_plain, np.arange(8, dtype=np.int32), want, 4, 5)
    np.testing.assert_array_equal(out, want)
    assert "if" not in kernel.asm["tile"] and "while" not in kernel.asm["tile"]


@tegula.jit
def static_search(x, n, what):
    for i in tl.static_range(6):
        if i < n:
            v = tl.load(x + i)
            if v == what:
                return i
            if v < 0:
                break
            if v == 0:
                continue
            if v > 50:
                return v
    return -1


@tegula.jit
def k_static_run(x, out, n, what):
    s = 0
    last = 0
    for i in tl.static_range(6):
        v = tl.load(x + i)
        if v == what:
            s += 100
            if i > n:
                break
            last = i
            continue
        s += v
        if s > 300:
            last = 50 + i
            break
        last = v
    tl.store(out, s)
    tl.store(out + 1, last)
    tl.store(out + 2, static_search(x, n, what))
    for i in range(n):
        for j in tl.static_range(3):
            if i == j + 1:
                break
            tl.atomic_add(out + 3, i * 10 + j)
        if i == 4:
            continue
        tl.atomic_add(out + 4, 1)


@pytest.mark.parametrize("n", [0, 2, 6])
@pytest.mark.parametrize("values, what", [([1, 2, 3, 4, 5, 6], 9), ([9] * 6, 9), ([9, 1, 9, 60, 2, 3], 9), ([1, 2, 9, -1, 9, 9], 9), ([0, 0, 60, 9, 1, 2], 1),
                                          ([400, 1, 2, 3, 4, 5], 3)])
def test_static_range_at_run_time(dev, n, values, what):
    check(dev, k_static_run, ints(*values), np.zeros(8, np.int32), n, what)


# with a dot ----------------------------------------------------------------------------------------------------------


@tegula.jit
def k_dot(a, b, c, skip, K, most, BLOCK: tl.constexpr):
    m = tl.arange(0, BLOCK)
    rows = m[:, None]
    columns = m[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        if k > most:
            break
        if tl.load(skip + k) != 0:
            continue
        x = tl.load(a + (rows * K + k + columns))
        y = tl.load(b + ((k + rows) * BLOCK + columns))
        acc = tl.dot(x, y, acc)
    tl.store(c + (rows * BLOCK + columns), acc)


@pytest.mark.parametrize("most", [-1, 0, 40, 96, 1000])
def test_dot(dev, most):
    g = np.random.default_rng(5)
    K = 160
    a, b = (g.integers(-4, 5, n).astype(np.float16) for n in (32 * K, K * 32))
    skip = (np.arange(K) == 64).astype(np.int32)
    check(dev, k_dot, a, b, np.zeros(32 * 32, np.float32), skip, K, most, 32)
