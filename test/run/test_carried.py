"""§1.3 tiles carried by loops and branches, whose new value reads other elements of the old one.

Each update below says how, in the language and in numpy; each form of loop takes each update. A compiler that writes the new tile over
the old one while it is still read gets these wrong.
"""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same, d

pytestmark = pytest.mark.section("1.3 loops")


@tegula.jit
def u_flip(c, j, x):
    return c + tl.flip(c, 0)


@tegula.jit
def u_gather(c, j, x):
    return c ^ tl.gather(c, j, 0)


@tegula.jit
def u_replace(c, j, x):
    return tl.gather(c, j, 0)


@tegula.jit
def u_by_itself(c, j, x):
    return tl.gather(c, c & (c.shape[0] - 1), 0)


@tegula.jit
def u_cumsum(c, j, x):
    return c + tl.cumsum(c, 0, reverse=True)


@tegula.jit
def u_total(c, j, x):
    return c * 3 - tl.sum(c, 0)


@tegula.jit
def u_rows(c, j, x):
    t = tl.reshape(c, [c.shape[0] // 4, 4])
    return tl.reshape(t + tl.max(t, 1)[:, None], [c.shape[0]])


@tegula.jit
def u_trans(c, j, x):
    return c + tl.reshape(tl.trans(tl.reshape(c, [c.shape[0] // 4, 4])), [c.shape[0]])


@tegula.jit
def u_permute(c, j, x):
    return tl.reshape(tl.permute(tl.reshape(c, [2, c.shape[0] // 4, 2]), [2, 1, 0]), [c.shape[0]])


@tegula.jit
def u_join_split(c, j, x):
    a, b = tl.split(tl.reshape(c, [c.shape[0] // 2, 2]))
    return tl.reshape(tl.join(b, a + b), [c.shape[0]])


@tegula.jit
def u_load(c, j, x):
    return c + tl.load(x + (tl.flip(c, 0) & (c.shape[0] - 1)))


@tegula.jit
def u_masked(c, j, x):
    return tl.where(tl.flip(c, 0) > c, c + 1, tl.load(x + tl.arange(0, c.shape[0]), mask=tl.flip(c, 0) > 9, other=5))


@tegula.jit
def u_dear(c, j, x):
    """Dear enough to have a buffer of its own, which becomes the carried one."""
    q = tl.flip(c, 0) // 3
    return q + tl.gather(q, j, 0) + c


@tegula.jit
def u_dear_twice(c, j, x):
    q = tl.flip(c, 0) // 3 + c % 7
    tl.store(x + tl.arange(0, c.shape[0]), q & 15)
    return q


@tegula.jit
def u_elementwise(c, j, x):
    return c * 3 + 1


def n_dear(c, j):
    q = floordiv(c[::-1], 3)
    return q + q[j] + c


def floordiv(a, b):
    """C's division, which is the language's."""
    return (np.sign(a) * (np.abs(a) // b)).astype(a.dtype)


def crem(a, b):
    return a - floordiv(a, b) * b


def n_dear_twice(c, j, x):
    q = floordiv(c[::-1], 3) + crem(c, 7)
    x[:] = q & 15
    return q


def n_masked(c, j, x):
    f = c[::-1]
    return np.where(f > c, c + 1, np.where(f > 9, x, 5))


UPDATES = {
    u_flip: lambda c, j, x: c + c[::-1],
    u_gather: lambda c, j, x: c ^ c[j],
    u_replace: lambda c, j, x: c[j],
    u_by_itself: lambda c, j, x: c[c & (c.size - 1)],
    u_cumsum: lambda c, j, x: c + np.cumsum(c[::-1], dtype=c.dtype)[::-1],
    u_total: lambda c, j, x: c * 3 - c.sum(dtype=c.dtype),
    u_rows: lambda c, j, x: (c.reshape(-1, 4) + c.reshape(-1, 4).max(1, keepdims=True)).ravel(),
    u_trans: lambda c, j, x: c + c.reshape(-1, 4).T.ravel(),
    u_permute: lambda c, j, x: c.reshape(2, -1, 2).transpose(2, 1, 0).ravel(),
    u_join_split: lambda c, j, x: np.stack([c[1::2], c[::2] + c[1::2]], 1).ravel(),
    u_load: lambda c, j, x: c + x[c[::-1] & (c.size - 1)],
    u_masked: n_masked,
    u_dear: lambda c, j, x: n_dear(c, j),
    u_dear_twice: n_dear_twice,
    u_elementwise: lambda c, j, x: c * 3 + 1,
}


# Forms: the carried tile goes through `rounds` updates. ----------------------------------------------------------------


@tegula.jit
def f_for(x, j, c, n, f: tl.constexpr):
    for _ in range(n):
        c = f(c, j, x)
    return c


@tegula.jit
def f_while(x, j, c, n, f: tl.constexpr):
    while n > 0:
        c = f(c, j, x)
        n -= 1
    return c


@tegula.jit
def f_while_tested(x, j, c, n, f: tl.constexpr):
    """The condition reads the tile."""
    while (n > 0) & (tl.max(c, 0) > -2147483647):
        c = f(c, j, x)
        n -= 1
    return c


@tegula.jit
def f_while_kept(x, j, c, n, f: tl.constexpr):
    """The old tile is carried on."""
    old = c
    while n > 0:
        new = f(c, j, x)
        old = c
        c = new
        n -= 1
    return c + old - old


@tegula.jit
def f_if(x, j, c, n, f: tl.constexpr):
    for i in range(2 * n):
        if i % 2 == 0:
            c = f(c, j, x)
    return c


@tegula.jit
def f_while_if(x, j, c, n, f: tl.constexpr):
    i = 0
    while i < 2 * n:
        if i % 2 == 1:
            c = f(c, j, x)
        else:
            c = tl.flip(tl.flip(c, 0), 0)
        i += 1
    return c


@tegula.jit
def f_while_in_for(x, j, c, n, f: tl.constexpr):
    for i in range(n):
        k = 1
        while k > 0:
            c = f(c, j, x)
            k -= 1
    return c


@tegula.jit
def f_for_in_while(x, j, c, n, f: tl.constexpr):
    while n > 0:
        for i in range(1):
            c = f(c, j, x)
        n -= 1
    return c


@tegula.jit
def k_carried(x, j, out, n, form: tl.constexpr, f: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    c = tl.load(out + i)
    k = tl.load(j + i)
    tl.store(out + i, form(x, k, c, n, f))


FORMS = [f_for, f_while, f_while_tested, f_while_kept, f_if, f_while_if, f_while_in_for, f_for_in_while]


def inputs(n):
    g = np.random.default_rng(n)
    return g.integers(0, n, n).astype(np.int32), g.integers(0, n, n).astype(np.int32), g.integers(0, 99, n).astype(np.int32)


CASES = [(form, 16) for form in FORMS] + [(form, 256) for form in (f_while, f_while_kept, f_while_if)]


@pytest.mark.parametrize("f", list(UPDATES), ids=lambda f: f.__name__)
@pytest.mark.parametrize("form, n", CASES, ids=lambda v: getattr(v, "__name__", v))
def test_update_that_reads_other_elements(dev, f, form, n):
    x, j, c = inputs(n)
    out = c.copy()
    y = x.copy()
    dev(k_carried, (1,), x, j, out, 3, form, f, n)
    for _ in range(3):
        c = UPDATES[f](c, j, y).astype(np.int32)
    assert_same(out, c)
    assert_same(x, y)


# Several tiles at once -------------------------------------------------------------------------------------------------


@tegula.jit
def k_rotate(x, y, z, n, whileLoop: tl.constexpr, N: tl.constexpr):
    """Three tiles that change places, one of them reversed on the way."""
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    c = tl.load(z + i)
    if whileLoop:
        while n > 0:
            a, b, c = b, tl.flip(c, 0), a + b
            n -= 1
    else:
        for _ in range(n):
            a, b, c = b, tl.flip(c, 0), a + b
    tl.store(x + i, a)
    tl.store(y + i, b)
    tl.store(z + i, c)


@pytest.mark.parametrize("loop", [False, True], ids=["for", "while"])
@pytest.mark.parametrize("n", [16, 256])
@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_tiles_that_change_places(dev, loop, n, rounds):
    a, b, c = inputs(n)
    out = [a.copy(), b.copy(), c.copy()]
    dev(k_rotate, (1,), *out, rounds, loop, n)
    for _ in range(rounds):
        a, b, c = b, c[::-1].copy(), a + b
    for got, want in zip(out, (a, b, c)):
        assert_same(got, want)


@tegula.jit
def k_power(x, n, whileLoop: tl.constexpr):
    """Both operands of the dot are the carried tile itself."""
    i = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    c = tl.load(x + i)
    if whileLoop:
        while n > 0:
            c = tl.dot(c, c, acc=c) * 0.5
            n -= 1
    else:
        for _ in range(n):
            c = tl.dot(c, c, acc=c) * 0.5
    tl.store(x + i, c)


@pytest.mark.parametrize("loop", [False, True], ids=["for", "while"])
def test_dot_of_the_carried_tile(dev, loop):
    x = np.random.default_rng(0).integers(-1, 2, (16, 16)).astype(np.float32)
    out = x.copy()
    dev(k_power, (1,), out, 2, loop)
    for _ in range(2):
        x = (x @ x + x) * np.float32(0.5)
    assert_same(out, x)


@tegula.jit
def k_accumulate(a, b, out, n, whileLoop: tl.constexpr):
    """The accumulator of a dot, kept once before it is overwritten."""
    i = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x = tl.load(a + i)
    y = tl.load(b + i)
    acc = tl.zeros([16, 16], tl.float32)
    before = acc
    if whileLoop:
        while n > 0:
            before = tl.trans(acc)
            acc = tl.dot(x, y, acc=acc)
            n -= 1
    else:
        for _ in range(n):
            before = tl.trans(acc)
            acc = tl.dot(x, y, acc=acc)
    tl.store(out + i, acc)
    tl.store(out + 256 + i, before)


@pytest.mark.parametrize("loop", [False, True], ids=["for", "while"])
def test_accumulator_that_is_kept(dev, loop):
    g = np.random.default_rng(0)
    a, b = g.integers(-3, 4, (2, 16, 16)).astype(np.float32)
    out = np.zeros((2, 16, 16), np.float32)
    dev(k_accumulate, (1,), a, b, out, 3, loop)
    assert_same(out, np.stack([3 * (a @ b), (2 * (a @ b)).T]))


@tegula.jit
def row_sums(x, v, y, z, M, N, R: tl.constexpr, C: tl.constexpr, HOW: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    acc = (r[:, None] + tl.arange(0, C)[None, :]).to(x.dtype.element_ty)
    for s in range(0, N, C):
        c = s + tl.arange(0, C)
        m = (r < M)[:, None] & (c < N)[None, :]
        t = tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0)
        if HOW == "add":
            acc += t
        elif HOW == "scaled":
            acc += t * tl.load(v + c, mask=c < N, other=0)[None, :]
        elif HOW == "max":
            acc = tl.maximum(acc, t)
        elif HOW == "selected":
            acc = tl.where(m, acc - t, acc)
        else:
            acc = t + s - acc
    tl.store(y + r, tl.sum(acc, 1), mask=r < M)
    tl.store(z + r[:, None] * C + tl.arange(0, C)[None, :], acc, mask=(r < M)[:, None])


@pytest.mark.parametrize("how", ["add", "scaled", "max", "selected", "turned"])
@pytest.mark.parametrize("t", ["float32", "int32", "float64", "int64"])
@pytest.mark.parametrize("M, N, R, C", [(5, 100, 4, 32), (16, 777, 8, 64), (3, 20, 16, 32), (4, 513, 4, 256), (9, 1, 2, 16), (2, 300, 2, 128), (17, 29, 16, 8), (9, 70, 8, 4), (40, 100, 32, 16)])
def test_tiles_accumulated_along_rows(dev, how, t, M, N, R, C):
    """CPUs run the loop for each row of the tile, so that rows are read from end to end."""
    t = d(t)
    g = np.random.default_rng(M + N)
    x, v = g.integers(-3, 4, (M, N)).astype(t.np), g.integers(-3, 4, N).astype(t.np)
    r = np.arange(M)[:, None]
    acc = (r + np.arange(C)[None, :]).astype(np.int64)
    for s in range(0, N, C):
        part = np.zeros((M, C), np.int64)
        part[:, :min(C, N - s)] = x[:, s:s + C]
        scale = np.zeros(C, np.int64)
        scale[:min(C, N - s)] = v[s:s + C]
        acc = {"add": acc + part, "scaled": acc + part * scale, "max": np.maximum(acc, part), "selected": acc - part, "turned": part + s - acc}[how]
    y, z = np.zeros(M, t.np), np.full((M, C), 7, t.np)
    dev(row_sums, (tegula.cdiv(M, R),), x, v, y, z, M, N, R, C, how)
    assert_same(z, acc.astype(t.np))
    assert_same(y, acc.sum(1).astype(t.np))


@tegula.jit
def combined(a, b, HOW: tl.constexpr):
    if HOW == "max":
        return tl.maximum(a, b)
    if HOW == "xor":
        return a ^ b
    return a + b


@tegula.jit
def totals(x, y, z, M, N, R: tl.constexpr, C: tl.constexpr, HOW: tl.constexpr, AXIS: tl.constexpr, FORM: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    t = x.dtype.element_ty
    acc = (r[:, None] + c[None, :]).to(t) if FORM == "begun" else tl.zeros((R, C), t)
    other = tl.zeros((R, C), t)
    for i in range(0, M, R):
        for j in range(0, N, C):
            m = (i + r < M)[:, None] & (j + c < N)[None, :]
            v = tl.load(x + (i + r)[:, None] * N + (j + c)[None, :], mask=m, other=0)
            if FORM == "selected":
                acc = tl.where(v > 0, combined(acc, v, HOW), acc)
            elif FORM == "not selected":
                acc = tl.where(v > 0, acc, combined(v, acc, HOW))
            elif FORM == "twice":
                acc = combined(combined(acc, v, HOW), v * 2, HOW)
                other = combined(v + i.to(t), other, HOW)
            elif FORM == "seen":
                acc = combined(acc, v, HOW)
                other = combined(other, acc, HOW)
            else:
                acc = combined(acc, v, HOW)
    for which in tl.static_range(2):
        s = acc if which == 0 else other
        if AXIS is None:
            s = tl.max(s) if HOW == "max" else tl.xor_sum(tl.reshape(s, [R * C]), 0) if HOW == "xor" else tl.sum(s)
        else:
            s = tl.max(s, AXIS) if HOW == "max" else tl.xor_sum(s, AXIS) if HOW == "xor" else tl.sum(s, AXIS)
        out = y if which == 0 else z
        if AXIS is None:
            tl.store(out, s)
        else:
            tl.store(out + tl.arange(0, C if AXIS == 0 else R), s)


@pytest.mark.parametrize("form", ["plain", "begun", "selected", "not selected", "twice", "seen"])
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("how, t", [("add", "float32"), ("add", "int32"), ("add", "float64"), ("max", "float32"), ("max", "int64"), ("xor", "int32")])
@pytest.mark.parametrize("M, N, R, C", [(5, 700, 4, 512), (9, 40, 4, 16), (1, 3000, 1, 1024)])
def test_tiles_that_are_reduced_behind_loops(dev, form, axis, how, t, M, N, R, C):
    """CPUs carry what they are reduced to."""
    t = d(t)
    g = np.random.default_rng(M + N)
    x = g.integers(-3, 4, (M, N)).astype(t.np)
    f = {"add": np.add, "max": np.maximum, "xor": np.bitwise_xor}[how]
    acc = (np.arange(R)[:, None] + np.arange(C)[None, :] if form == "begun" else np.zeros((R, C), int)).astype(t.np)
    other = np.zeros((R, C), t.np)
    for i in range(0, M, R):
        for j in range(0, N, C):
            v = np.zeros((R, C), t.np)
            part = x[i:i + R, j:j + C]
            v[:part.shape[0], :part.shape[1]] = part
            if form == "selected":
                acc = np.where(v > 0, f(acc, v), acc)
            elif form == "not selected":
                acc = np.where(v > 0, acc, f(acc, v))
            elif form == "twice":
                acc, other = f(f(acc, v), v * t.np(2)), f(other, v + t.np(i))
            else:
                acc = f(acc, v)
                other = f(other, acc) if form == "seen" else other
    shape = () if axis is None else (C if axis == 0 else R,)
    y, z = np.zeros(shape or (1,), t.np), np.zeros(shape or (1,), t.np)
    dev(totals, (1,), x, y, z, M, N, R, C, how, axis, form)
    for got, tile in ((y, acc), (z, other)):
        want = f.reduce(tile.reshape(-1)) if axis is None else f.reduce(tile, axis=axis)
        assert_same(got, np.asarray(want, t.np).reshape(got.shape))
