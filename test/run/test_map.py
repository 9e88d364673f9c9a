"""§3.6 map_elementwise: functions of scalars with branches and loops of their own for each element, several results, packs."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, assert_same, d, values

pytestmark = pytest.mark.section("3.6 elementwise")


@tegula.jit
def f_linear(a, b):
    return a * 3 + b


@tegula.jit
def f_compare(a, b):
    if a < b:
        return -1
    elif a == b:
        return 0
    else:
        return 1


@tegula.jit
def f_pair(a, b):
    return a + b, (a > b).to(tl.int8)


@tegula.jit
def f_gcd(a, b):
    a = tl.abs(a)
    b = tl.abs(b)
    while b != 0:
        r = a % b
        a = b
        b = r
    return a


@tegula.jit
def f_collatz(a, b):
    n = a & 63
    steps = 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = n * 3 + 1
            for i in range(b & 3):
                steps += 1
        steps += 1
    return steps, n.to(tl.float32)


@tegula.jit
def f_ranges(a, b):
    # Bounds of its own for each element, both ways, inside a loop that is the same for all and under a condition.
    s = a * 0
    for k in range(3):
        for i in range(a & 7, b & 15, 1 + (a & 3)):
            s = s * 5 + i + k
        if b > 0:
            for i in range(b & 15, a & 7, -2):
                for j in range(i & 3):
                    s = s * 3 - j
    return s


@tegula.jit
def f_near_the_end(a, b):
    # The counter must not wrap past the bound.
    n = 0
    for i in range(2147483600 + (a & 31), 2147483647, 1 + (b & 31)):
        n += 1
    return n


def gcd(a, b):
    a, b = abs(a), abs(b)
    while b:
        a, b = b, a % b
    return a


def collatz(a, b):
    n, steps = a & 63, 0
    while n > 1:
        if n % 2 == 0:
            n //= 2
        else:
            n = n * 3 + 1
            steps += b & 3
        steps += 1
    return steps, float(n)


def wrap(x):
    return (x + 2**31) % 2**32 - 2**31


def ranges(a, b):
    s = 0
    for k in range(3):
        for i in range(a & 7, b & 15, 1 + (a & 3)):
            s = wrap(s * 5 + i + k)
        if b > 0:
            for i in range(b & 15, a & 7, -2):
                for j in range(i & 3):
                    s = wrap(s * 3 - j)
    return s


ROWS = {
    "linear": (f_linear, lambda a, b: wrap(a * 3 + b), 1),
    "compare": (f_compare, lambda a, b: (a > b) - (a < b), 1),
    "pair": (f_pair, lambda a, b: (wrap(a + b), int(a > b)), 2),
    "gcd": (f_gcd, gcd, 1),
    "collatz": (f_collatz, collatz, 2),
    "ranges": (f_ranges, ranges, 1),
    "near_the_end": (f_near_the_end, lambda a, b: len(range(2147483600 + (a & 31), 2147483647, 1 + (b & 31))), 1),
}


@tegula.jit
def apply(x, y, out, out2, FN: tl.constexpr, M: tl.constexpr, N: tl.constexpr, RESULTS: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    r = tl.map_elementwise(FN, tl.load(x + i), tl.load(y + i))
    if RESULTS == 2:
        tl.static_assert(r[0].shape == (M, N))
        tl.store(out + i, r[0])
        tl.store(out2 + i, r[1])
    else:
        tl.static_assert(r.shape == (M, N))
        tl.store(out + i, r)


@pytest.mark.parametrize("m, n", [(1, 1), (4, 4), (8, 64)])
@pytest.mark.parametrize("name", ROWS)
def test_functions(dev, name, m, n):
    fn, reference, results = ROWS[name]
    x = values(d("int32"), m * n, 0, low=-1000, high=1000)
    y = np.where(np.arange(m * n) % 5 == 0, x, values(d("int32"), m * n, 1, low=-1000, high=1000)).astype(np.int32)
    out, out2 = np.zeros(m * n, np.int32), np.zeros(m * n, np.int32 if name == "pair" else np.float32)
    dev(apply, (1,), x, y, out, out2, fn, m, n, results)
    e = [reference(int(a), int(b)) for a, b in zip(x, y)]
    assert_same(out, np.array([v[0] for v in e] if results == 2 else e, np.int32))
    if results == 2:
        assert_same(out2, np.array([v[1] for v in e], out2.dtype))


@tegula.jit
def f_divmod2(a0, a1, b0, b1):
    return a0 // b0, a1 // b1, a0 % b0, a1 % b1


@tegula.jit
def f_four(a, b, c, e):
    # What stands in which place of a pack: neighbours, in order.
    return a, b * 10, c * 100, e * 1000


@tegula.jit
def f_until(a, b, c, e):
    n = 0
    while a + b + c + e < 1000:
        a, b, c, e = b + 1, c + 2, e + 3, a + n
        n += 1
    return n, n * 2, n * 3, n * 4


@tegula.jit
def packs(x, out, out2, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    q, r = tl.map_elementwise(f_divmod2, v, 7, pack=2)
    tl.store(out + i, q)
    tl.store(out + N + i, r)
    one = tl.map_elementwise(f_four, v, pack=4)
    tl.static_assert(len(one) == 1)
    tl.store(out2 + i, one[0])
    tl.store(out2 + N + i, tl.map_elementwise(f_until, v, pack=4)[0])


def until(p):
    a, b, c, e = p
    n = 0
    while a + b + c + e < 1000:
        a, b, c, e = b + 1, c + 2, e + 3, a + n
        n += 1
    return [n, n * 2, n * 3, n * 4]


@pytest.mark.parametrize("n", [4, 16, 512])
def test_packs(dev, n):
    x = values(d("int32"), n, 0, low=0, high=1000)
    out, out2 = np.zeros(2 * n, np.int32), np.zeros(2 * n, np.int32)
    dev(packs, (1,), x, out, out2, n)
    assert_same(out, np.concatenate([x // 7, x % 7]).astype(np.int32))
    assert_same(out2, np.concatenate([x * np.tile([1, 10, 100, 1000], n // 4), np.concatenate([until(p) for p in x.reshape(-1, 4).tolist()])]).astype(np.int32))


@tegula.jit
def f_twice4(a, b, c, e):
    return a * 2, b * 2, c * 2, e * 2


@tegula.jit
def few(x, out):
    # Fewer elements than one call takes; scalars; shapes that meet.
    i = tl.arange(0, 2)
    tl.store(out + i, tl.map_elementwise(f_twice4, tl.load(x + i), pack=4)[0])
    s = tl.load(x + 1)
    r = tl.map_elementwise(f_twice4, s, pack=4)[0]
    tl.static_assert(len(r.shape) == 0)
    tl.store(out + 2, r)
    tl.store(out + 3, tl.map_elementwise(f_compare, s, 5))
    both = tl.map_elementwise(f_linear, tl.load(x + i)[:, None], i[None, :])
    tl.store(out + 4 + i[:, None] * 2 + i[None, :], both)


def test_few_elements(dev):
    x, out = np.array([3, 9], np.int32), np.zeros(8, np.int32)
    dev(few, (1,), x, out)
    assert out.tolist() == [6, 18, 18, 1, 9, 10, 27, 28]


@tegula.jit
def f_selu(x, alpha):
    if x > 0:
        return x
    else:
        return alpha * (tl.exp(x) - 1)


@tegula.jit
def selu(x, out, alpha, N: tl.constexpr, DEBUG: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(f_selu, tl.load(x + i), alpha))


@pytest.mark.parametrize("debug", [False, True])
def test_selu(dev, debug):
    x, out = values(d("float32"), 128, 0), np.zeros(128, np.float32)
    dev(selu, (1,), x, out, 1.67, 128, debug, debug=debug)
    np.testing.assert_allclose(out, np.where(x > 0, x, np.float32(1.67) * (np.exp(x.astype(np.float64)) - 1)), rtol=1e-5, atol=1e-6)


@tegula.jit
def f_walk(p, next, i):
    # Memory is touched by those elements only that come here.
    n = 0
    while i >= 0:
        n += tl.load(p + i)
        i = tl.load(next + i)
        if n > 50:
            tl.store(p + 64 + i, 1)
    return n


@tegula.jit
def walk(p, next, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(f_walk, p, next, i))


def test_memory_in_functions(dev):
    p, next, out = np.arange(96, dtype=np.int32) % 9, np.arange(-3, 29, dtype=np.int32), np.zeros(32, np.int32)
    next[next < 0] = -1
    e, touched = [], p.copy()
    touched[64:] = p[64:]
    for k in range(32):
        n, i = 0, k
        while i >= 0:
            n += p[i]
            i = next[i]
            if n > 50 and i >= 0:
                touched[64 + i] = 1
            elif n > 50:
                touched[63] = 1
        e.append(n)
    dev(walk, (1,), p, next, out, 32)
    assert_same(out, np.array(e, np.int32))
    assert_same(p, touched)


# Loops that carry large blocks.
@pytest.mark.parametrize("m, n", [(128, 128), (96, 64), (256, 256)])
def test_loops_on_large_blocks(dev, m, n):
    x, y = values(d("int32"), m * n, 0, low=0, high=63), values(d("int32"), m * n, 1, low=0, high=3)
    out, out2 = np.full(m * n + 1, -1, np.int32), np.full(m * n + 1, -1, np.float32)
    dev(apply, (1,), x, y, out[:-1], out2[:-1], f_collatz, m, n, 2)
    e = {p: collatz(*p) for p in set(zip(x.tolist(), y.tolist()))}
    assert_same(out, np.array([e[p][0] for p in zip(x.tolist(), y.tolist())] + [-1], np.int32))
    assert_same(out2, np.array([e[p][1] for p in zip(x.tolist(), y.tolist())] + [-1], np.float32))


@tegula.jit
def f_chain(p, i):
    n = 0
    while i > 0:
        n += i
        i = tl.load(p + i)
    return n


@tegula.jit
def chains(p, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(f_chain, p, i))


def test_pointers_in_large_blocks(dev):
    n = 1 << 14
    p, out = (np.arange(n, dtype=np.int32) // 8), np.zeros(n, np.int32)
    dev(chains, (1,), p, out, n)
    e = np.zeros(n, np.int64)
    for i in range(1, n):
        e[i] = i + e[i // 8]
    assert_same(out, e.astype(np.int32))


@tegula.jit
def f_checked(a):
    if a > 10:
        tl.device_assert(a < 100, "too large")
    return a + 1


@tegula.jit
def checked(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(f_checked, tl.load(x + i)))


def test_assertions_hold_for_who_comes_there(dev):
    x, out = np.array([1, -500, 20, 99], np.int32), np.zeros(4, np.int32)
    dev(checked, (1,), x, out, 4, debug=True)
    assert_same(out, x + 1)
    x[1] = 500
    with pytest.raises(RuntimeError, match="too large"):
        dev(checked, (1,), x, out, 4, debug=True)


@tegula.jit
def f_claim(p, v):
    # The first who comes gets the place; a number of its own is taken until one does.
    old = v
    if v > 0:
        while old != 0:
            old = tl.atomic_cas(p, 0, v)
            p += 1
    return old


@tegula.jit
def claim(x, p, v, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(f_claim, x + tl.load(p + i), tl.load(v + i)))


def test_compare_and_swap(dev):
    table, out = np.zeros(16, np.int32), np.zeros(8, np.int32)
    place, v = np.array([0, 0, 0, 5, 5, 9, 12, 12], np.int32), np.array([1, 2, 3, 4, -5, 6, 0, 8], np.int32)
    dev(claim, (1,), table, place, v, out, 8)
    assert_same(out, np.array([0, 0, 0, 0, -5, 0, 0, 0], np.int32))
    assert sorted(table[:3]) == [1, 2, 3] and list(table[3:]) == [0, 0, 4, 0, 0, 0, 6, 0, 0, 8, 0, 0, 0]


@tegula.jit
def f_prints(v):
    tl.device_print("v", v)
    return v


@tegula.jit
def e_kernel(x):
    tl.store(x + tl.arange(0, 4), tl.map_elementwise(f_prints, tl.load(x + tl.arange(0, 4))))


def test_errors(dev):
    with pytest.raises(CompileError, match="print.*cannot be done for one element"):
        dev(e_kernel, (1,), np.zeros(4, np.int32))
