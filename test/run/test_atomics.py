"""§3.4 atomics."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import ALL, CompileError, assert_same, d, values

pytestmark = pytest.mark.section("3.4 atomics")


@tegula.jit
def rmw(OP: tl.constexpr, p, v, mask, SEM: tl.constexpr, SCOPE: tl.constexpr):
    if OP == "add":
        return tl.atomic_add(p, v, mask, SEM, SCOPE)
    elif OP == "max":
        return tl.atomic_max(p, v, mask, SEM, SCOPE)
    elif OP == "min":
        return tl.atomic_min(p, v, mask, SEM, SCOPE)
    elif OP == "and":
        return tl.atomic_and(p, v, mask, SEM, SCOPE)
    elif OP == "or":
        return tl.atomic_or(p, v, mask, SEM, SCOPE)
    elif OP == "xor":
        return tl.atomic_xor(p, v, mask, SEM, SCOPE)
    else:
        return tl.atomic_xchg(p, v, mask, SEM, SCOPE)


@tegula.jit
def rmw_kernel(x, v, old, n, OP: tl.constexpr, N: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    i = tl.arange(0, N)
    r = rmw(OP, x + i, tl.load(v + i), i < n, SEM, SCOPE)
    tl.static_assert(r.dtype == x.dtype.element_ty)
    tl.store(old + i, r, mask=i < n)


def reference(op, t, x, v):
    with np.errstate(all="ignore"):
        if op == "add":
            if t.bits == 16:
                return (x.astype(np.float32) + v.astype(np.float32)).astype(t.np)
            return x + v
        return {
            "max": np.maximum,
            "min": np.minimum,
            "and": np.bitwise_and,
            "or": np.bitwise_or,
            "xor": np.bitwise_xor,
            "xchg": lambda a, b: b
        }[op](x, v)


WORDS = ["int32", "uint32", "int64", "uint64"]
ROWS = ([("add", t)
         for t in WORDS + ["float16", "bfloat16", "float32", "float64"]] + [(op, t) for op in ("max", "min")
                                                                            for t in WORDS + ["float32", "float64"]] +
        [(op, t) for op in ("and", "or", "xor") for t in WORDS] + [("xchg", t) for t in WORDS + ["float32", "float64"]])


@pytest.mark.parametrize("op, t", ROWS)
@pytest.mark.parametrize("n", [64, 37])
def test_block(dev, op, t, n):
    t = d(t)
    x, v, old = values(t, 64, (op, 0)), values(t, 64, (op, 1)), np.zeros(64, t.np)
    got = x.copy()
    dev(rmw_kernel, (1,), got, v, old, n, op, 64, None, None)
    inside = np.arange(64) < n
    assert_same(got, np.where(inside, reference(op, t, x, v), x))
    assert_same(old[:n], x[:n])


@pytest.mark.parametrize("sem", ["acquire", "release", "acq_rel", "relaxed", None])
@pytest.mark.parametrize("scope", ["gpu", "cta", "sys", None])
def test_orders(dev, sem, scope):
    x, v, old = np.zeros(16, np.int32), np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    dev(rmw_kernel, (1,), x, v, old, 16, "add", 16, sem, scope)
    assert_same(x, v)


@pytest.mark.parametrize("sem, scope, text", [("seq", None, "[Mm]emory semantic"),
                                              (None, "device", "[Ss]cope|semantic")])
def test_bad_orders(dev, sem, scope, text):
    with pytest.raises(CompileError, match=text):
        dev(rmw_kernel, (1,), np.zeros(16, np.int32), np.zeros(16, np.int32), np.zeros(16, np.int32), 16, "add", 16,
            sem, scope)


@tegula.jit
def colliding(x, OP: tl.constexpr, N: tl.constexpr, T: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    rmw(OP, x + i % 4, i.to(T), None, None, None)


@pytest.mark.parametrize("op", ["add", "max", "min", "or", "xor"])
@pytest.mark.parametrize("t", ["int32", "uint64", "float32", "float64"])
def test_colliding_addresses(dev, op, t):
    if op in ("or", "xor") and t.startswith("float"):
        op = "max"
    n, grid = 128, 50
    start = np.full(4, 5, d(t).np)
    x = start.copy()
    dev(colliding, (grid,), x, op, n, d(t).tl)
    i = np.arange(n * grid).astype(d(t).np).reshape(-1, 4)
    f = {"add": np.add, "max": np.maximum, "min": np.minimum, "or": np.bitwise_or, "xor": np.bitwise_xor}[op]
    e = f(start, f.reduce(i, axis=0))
    # Sums of these integers are exact in float64, in float32 they are below 2**24.
    assert_same(x, e.astype(d(t).np)) if t != "float32" or op != "add" else np.testing.assert_allclose(x, e, rtol=1e-6)


@tegula.jit
def scalar_atomics(x, out):
    pid = tl.program_id(0)
    tl.store(out + pid, tl.atomic_add(x, 1))
    tl.atomic_max(x + 1, pid)
    x.atomic_add(3)


def test_scalars_once_per_program(dev):
    x, out = np.zeros(2, np.int32), np.zeros(300, np.int32)
    dev(scalar_atomics, (300,), x, out)
    assert x.tolist() == [1200, 299]
    assert len(set(out.tolist())) == 300


@tegula.jit
def add_wide(x, v, old, n, N: tl.constexpr, SEM: tl.constexpr, OLD: tl.constexpr):
    i = tl.arange(0, N)
    r = tl.atomic_add(x + i, tl.load(v + i), i < n, SEM)
    if OLD:
        tl.store(old + i, r, mask=i < n)


@pytest.mark.parametrize("t", ["float16", "bfloat16", "float32", "float64", "int32"])
@pytest.mark.parametrize("n", [1024, 992, 37])
@pytest.mark.parametrize("sem", ["relaxed", "release", "acquire", None])
def test_neighbours(dev, t, n, sem):
    """Tiles whose elements the GPU adds several at a time."""
    t = d(t)
    x, v = values(t, 1024, 0), values(t, 1024, 1)
    expected = np.where(np.arange(1024) < n, reference("add", t, x, v), x)
    for with_old in (False, True):
        got, old = x.copy(), np.zeros(1024, t.np)
        dev(add_wide, (1,), got, v, old, n, 1024, sem, with_old)
        assert_same(got, expected)
        assert_same(old[:n], x[:n] if with_old else np.zeros(n, t.np))


@tegula.jit
def add_shared(x, N: tl.constexpr, M: tl.constexpr, T: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(x + i % M, (i // M + 1).to(T))


@pytest.mark.parametrize("t", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("m", [1, 2, 4, 64])
def test_colliding_neighbours(dev, t, m):
    x = np.zeros(m, d(t).np)
    n = m * 8
    dev(add_shared, (3,), x, n, m, d(t).tl)
    assert_same(x, np.full(m, 3 * 36, d(t).np))


@tegula.jit
def cast_of_value(x):
    tl.atomic_add(x + tl.arange(0, 4), 1)
    tl.atomic_add(x + tl.arange(0, 4), tl.arange(0, 4))


@pytest.mark.parametrize("t", ["float32", "int64", "float16", "uint32"])
def test_value_is_cast_and_broadcast(dev, t):
    x = np.zeros(4, d(t).np)
    dev(cast_of_value, (1,), x)
    assert_same(x, np.array([1, 2, 3, 4], d(t).np))


@tegula.jit
def cas_kernel(x, cmp, val, old, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old + i, tl.atomic_cas(x + i, tl.load(cmp + i), tl.load(val + i)))


@pytest.mark.parametrize("t", WORDS + ["int16", "uint16", "float16", "bfloat16", "float32", "float64"])
def test_cas(dev, t):
    t = d(t)
    x, v, old = values(t, 32, 0), values(t, 32, 1), np.zeros(32, t.np)
    cmp = np.where(np.arange(32) % 3 == 0, x, x + 1).astype(t.np)
    got = x.copy()
    dev(cas_kernel, (1,), got, cmp, v, old, 32)
    assert_same(got, np.where(x == cmp, v, x))
    assert_same(old, x)


@tegula.jit
def cas_literals(x):
    tl.store(x + 1, tl.atomic_cas(x, 0, 7))
    tl.store(x + 2, tl.atomic_cas(x, 0, 8))


def test_cas_of_numbers(dev):
    x = np.zeros(3, np.int32)
    dev(cas_literals, (1,), x)
    assert x.tolist() == [7, 0, 7]
    with pytest.raises(CompileError):
        dev(cas_literals, (1,), np.zeros(3, np.int64))


@tegula.jit
def cas_of_unsigned(x):
    while tl.atomic_cas(x, 0, 1) == 1:
        pass
    old = tl.atomic_cas(x, 1, -2)
    tl.static_assert(old.dtype == tl.int32)  # that of `val`
    tl.store(x + 1, tl.atomic_cas(x, old.to(tl.uint32), 5) < 0)


def test_cas_takes_integers_of_either_sign(dev):
    x = np.zeros(2, np.uint32)
    dev(cas_of_unsigned, (1,), x)
    assert x.tolist() == [2**32 - 2, 1]
    with pytest.raises(CompileError):
        dev(cas_literals, (1,), np.zeros(3, np.float32))


@pytest.mark.parametrize("t, op", [("float32", "max"), ("float32", "min"), ("float64", "max"), ("float64", "min")])
def test_float_extrema_order_zeros(dev, t, op):
    t = d(t)
    a = np.array([0.0, -0.0, -1.0, 1.0, -0.0, 0.0, -np.inf, np.inf, -2.0, -3.0, 5.0, -5.0, 1e-40, -1e-40, 0.0, 0.0],
                 t.np)
    b = np.array([-0.0, 0.0, 1.0, -1.0, -0.0, 0.0, 3.0, 3.0, -3.0, -2.0, -5.0, 5.0, 0.0, 0.0, 1.0, -1.0], t.np)
    got, old = a.copy(), np.zeros(16, t.np)
    dev(rmw_kernel, (1,), got, b, old, 16, op, 16, None, None)
    key = lambda v: (v, not np.signbit(v))
    assert_same(got, np.array([(max if op == "max" else min)(p, q, key=key) for p, q in zip(a, b)], t.np))


@pytest.mark.parametrize("op, t, text", [("add", "int8", "does not support"), ("add", "int16", "does not support"),
                                         ("add", "uint16", "does not support"), ("add", "float8e5", "does not support"),
                                         ("add", "int1", "does not support"),
                                         ("max", "float16", "does not support fp16"),
                                         ("min", "bfloat16", "does not support bf16"),
                                         ("and", "int8", "does not support")])
def test_unsupported_types(dev, op, t, text):
    z = np.zeros(16, d(t).np)
    with pytest.raises(CompileError, match=text):
        dev(rmw_kernel, (1,), z, z.copy(), z.copy(), 16, op, 16, None, None)


@tegula.jit
def e_const(x: tl.const):
    tl.atomic_add(x, 1)


@tegula.jit
def e_mask(x):
    tl.atomic_add(x + tl.arange(0, 4), 1, mask=tl.arange(0, 4))


@pytest.mark.parametrize("kernel", [e_const, e_mask], ids=lambda k: k.__name__)
def test_errors(dev, kernel):
    with pytest.raises(CompileError):
        dev(kernel, (1,), np.zeros(16, np.int32))


@tegula.jit
def load_store(x, out, n, N: tl.constexpr, SEM: tl.constexpr, STORE: tl.constexpr, SCOPE: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.atomic_load(x + i, i < n, SEM, SCOPE)
    tl.static_assert(v.dtype == x.dtype.element_ty)
    tl.atomic_store(out + i, v, i < n, sem=STORE, scope=SCOPE)


@pytest.mark.parametrize("t", ALL, ids=str)
@pytest.mark.parametrize("sem, store, scope", [(None, None, None), ("relaxed", "relaxed", "cta"), ("acquire", "release", "sys")])
def test_load_and_store(dev, t, sem, store, scope):
    x, out = values(t, 256, 0), np.zeros(256, t.np)
    expected = np.where(np.arange(256) < 200, x, out).astype(t.np)
    dev(load_store, (1,), x, out, 200, 256, sem, store, scope)
    assert_same(out, expected)


@tegula.jit
def scalar_load_store(x: tl.const, out, T: tl.constexpr):
    out.atomic_store(x.atomic_load())
    tl.atomic_store(out + 1, 3.0)
    # Pointer and mask meet in one shape, values come to it.
    col = tl.arange(0, 4)[:, None]
    v = tl.atomic_load(x + col, mask=tl.arange(0, 8)[None, :] >= 0)
    tl.static_assert(v.shape == (4, 8))
    tl.atomic_store(out + 2 + col * 8 + tl.arange(0, 8)[None, :], v)
    tl.atomic_store(out + 34 + tl.arange(0, 4), 1)


@pytest.mark.parametrize("t", ["int8", "int32", "float16", "float64"])
def test_load_and_store_shapes(dev, t):
    t = d(t)
    x, out = values(t, 4, 0), np.zeros(38, t.np)
    dev(scalar_load_store, (1,), x, out, t.tl)
    assert_same(out, np.concatenate([x[:1], np.array([3], t.np), np.repeat(x, 8), np.ones(4, t.np)]))


@tegula.jit
def one_after_the_other(turn, out, N: tl.constexpr, WAY: tl.constexpr):
    # Program p waits for program p - 1 (or p + 1: then those that come first wait for those that come last).
    pid = tl.program_id(0)
    mine = pid if WAY > 0 else tl.num_programs(0) - 1 - pid
    tl.store(out + N + pid, tl.atomic_poll(turn, mine).to(tl.int32))
    v = tl.load(out + tl.arange(0, N))
    tl.store(out + tl.arange(0, N), v * 3 + mine)
    tl.debug_barrier()
    turn.atomic_store(mine + 1)


@pytest.mark.parametrize("t", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("way", [1, -1])
def test_poll(dev, t, way):
    if way < 0 and dev.name == "interpreter":
        pytest.skip("programs run one after the other there: none can wait for a later one")
    programs, n = 24 if way > 0 else 8, 64
    turn, out = np.zeros(1, d(t).np), np.zeros(n + programs, np.int32)
    dev(one_after_the_other, (programs,), turn, out, n, way)
    e = np.int32(0)
    with np.errstate(over="ignore"):
        for p in range(programs):
            e = np.int32(e * np.int32(3) + np.int32(p))
    assert (out[:n] == e).all() and (out[n:] == 1).all() and turn[0] == programs


@tegula.jit
def poll_some(x, out, timeout, FIXED: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    seen = tl.atomic_poll(x + i, 5, "relaxed", "gpu", FIXED if FIXED is not None else timeout)
    tl.static_assert(seen.dtype == tl.int1)
    tl.store(out + i, seen)
    tl.store(out + N, x.atomic_poll(tl.load(x), timeout_ns=0))


@pytest.mark.parametrize("fixed", [0, 1000, None])
@pytest.mark.parametrize("timeout", [0, -3, 100000, 2**33])
def test_poll_gives_up(dev, fixed, timeout):
    if timeout == 2**33 and fixed is None:
        timeout = 2**20
    x, out = np.arange(16, dtype=np.int32) % 7, np.zeros(17, np.bool_)
    dev(poll_some, (1,), x, out, timeout, fixed, 16)
    assert out.tolist() == (x == 5).tolist() + [True]


@tegula.jit
def flicker(x, out, N: tl.constexpr):
    # Elements come to their value at different times, and one leaves it: what was seen stays seen.
    i = tl.arange(0, N)
    if tl.program_id(0) == 0:
        seen = tl.atomic_poll(x + i, i + 1)
        tl.store(out + i, seen)
    else:
        for k in range(N):
            tl.atomic_store(x + k, k + 1)


def test_poll_waits_for_all(dev):
    x, out = np.zeros(64, np.int64), np.zeros(64, np.bool_)
    dev(flicker, (2,), x, out, 64)
    assert out.all()


@tegula.jit
def add_rows(x, index, y, old, N, D, R: tl.constexpr, B: tl.constexpr, SEM: tl.constexpr, OLD: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    at = tl.load(index + r, mask=r < N, other=0)
    o = tl.arange(0, B)
    m = (r < N)[:, None] & (o < D)[None, :]
    was = tl.atomic_add(y + at[:, None] * D + o[None, :], tl.load(x + r[:, None] * D + o[None, :], mask=m), m, SEM)
    if OLD:
        tl.store(old + r[:, None] * D + o[None, :], was, mask=m)


@tegula.jit
def add_columns(x, index, y, old, N, D, R: tl.constexpr, B: tl.constexpr, SEM: tl.constexpr, OLD: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    o = tl.arange(0, B)
    m = (r < N)[:, None] & (o < D)[None, :]
    at = tl.load(index + r[:, None] * D + o[None, :], mask=m, other=0)
    was = tl.atomic_add(y + at, tl.load(x + r[:, None] * D + o[None, :], mask=m), m, SEM)
    if OLD:
        tl.store(old + r[:, None] * D + o[None, :], was, mask=m)


@pytest.mark.parametrize("t", ["float32", "float64", "float16", "bfloat16", "int32", "int64"])
@pytest.mark.parametrize("form", [add_rows, add_columns])
@pytest.mark.parametrize("rows, D", [(1, 37), (4, 37), (4, 64), (8, 5)])
@pytest.mark.parametrize("sem, keep", [("relaxed", False), (None, True)])
def test_launches_of_one_kernel(dev, t, form, rows, D, sem, keep):
    """From the second launch on, CPUs may update by plain reads and writes; elements and rows collide."""
    t, N, places = d(t), 50, 7
    r = np.random.default_rng(rows + D)
    x = r.integers(-1, 2, (N, D)).astype(t.np)
    index = r.integers(0, places, N if form is add_rows else (N, D)).astype(np.int32)
    flat = (index[:, None] * D + np.arange(D)) if form is add_rows else index
    expected = np.zeros(places * D, np.float64)
    np.add.at(expected, flat, x.astype(np.float64))
    y, old = np.zeros(places * D, t.np), np.zeros((N, D), t.np)
    for launch in range(1, 5):
        dev(form, (tegula.cdiv(N, rows),), x, index, y, old, N, D, rows, 64, sem, keep)
        assert_same(y, (expected * launch).astype(t.np))


@tegula.jit
def add_flat(x, index, y, old, total, D, B: tl.constexpr, SEM: tl.constexpr, OLD: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    on = o < total
    at = tl.load(index + o // D, on, other=0)
    r = tl.atomic_add(y + at * D + o % D, tl.load(x + o, on, other=0.0), on, SEM)
    if OLD:
        tl.store(old + o, r, on)


@pytest.mark.parametrize("t", ["float32", "float16", "int32", "int64"])
@pytest.mark.parametrize("D, same", [(1, False), (5, False), (37, True), (64, False), (100, True), (300, False)])
@pytest.mark.parametrize("sem, keep", [("relaxed", False), ("relaxed", True), (None, False)])
def test_rows_of_flat_positions(dev, t, D, same, sem, keep):
    """Rows that begin and end inside of vectors are updated by runs on CPUs, also where several in a row are one place."""
    t, N, places = d(t), 41, 5
    r = np.random.default_rng(D)
    x = r.integers(-1, 2, (N, D)).astype(t.np)
    index = np.full(N, 3, np.int64) if same else r.integers(0, places, N)
    expected = np.zeros((places, D), np.float64)
    np.add.at(expected, index, x.astype(np.float64))
    y, old = np.zeros((places, D), t.np), np.zeros((N, D), t.np)
    for launch in range(1, 4):
        dev(add_flat, (tegula.cdiv(N * D, 256),), x, index, y, old, N * D, D, 256, sem, keep)
        assert_same(y, (expected * launch).astype(t.np))


@tegula.jit
def add_reversed(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(y + (B - 1 - i), tl.load(x + i), i < n, "relaxed")


@pytest.mark.parametrize("t", ["float32", "int32"])
def test_relaxed_in_place(dev, t):
    """All of a tile is loaded before its atomics, also where they update what it was loaded from."""
    t = d(t)
    x = np.arange(128).astype(t.np)
    for _ in range(3):
        want = x.copy()
        want[::-1][:100] += x[:100]
        dev(add_reversed, (1,), x, x, 100, 128)
        assert_same(x, want)


@tegula.jit
def add_where_maxima_say(x, out, R: tl.constexpr, C: tl.constexpr):
    at = tl.max(tl.load(x + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]), 1)
    tl.atomic_add(out + at, tl.arange(0, R) + 1)


@pytest.mark.parametrize("rows, columns, warps", [(2, 2, 4), (64, 8, 4), (256, 4, 2)])
def test_addresses_out_of_a_reduction(dev, rows, columns, warps):
    """Threads that hold copies of an element do not add it again."""
    x = np.random.default_rng(rows).integers(0, 7, (rows, columns)).astype(np.int32)
    out = np.zeros(8, np.int32)
    dev(add_where_maxima_say, (1,), x, out, rows, columns, num_warps=warps)
    assert_same(out, np.bincount(x.max(1), np.arange(1, rows + 1), 8).astype(np.int32))


@tegula.jit
def k_look_back(x, y, status, N: tl.constexpr, CACHE: tl.constexpr):
    pid, i = tl.program_id(0), tl.arange(0, N)
    v = tl.load(x + pid * N + i)
    for part in range(2):  # the second time with what is left of the first in shared memory
        flags = status + part * tl.num_programs(0)
        own = tl.sum(v).to(tl.uint32)
        tl.store(flags + pid, (1 << 30) | own, cache_modifier=".cg")
        before = tl.zeros((), tl.uint32)
        back = pid - 1
        while back >= 0:
            seen = tl.load(flags + back, volatile=CACHE is None, cache_modifier=CACHE)
            while seen == 0:
                seen = tl.load(flags + back, volatile=CACHE is None, cache_modifier=CACHE)
            before += seen & ((1 << 30) - 1)
            if (seen & (1 << 30)) != 0:
                back -= 1
            else:
                back = -1
        tl.store(flags + pid, (1 << 31) | (before + own), cache_modifier=".cg")
        tl.store(y + (part * tl.num_programs(0) + pid) * N + i, tl.cumsum(v, 0) + before.to(tl.int32))


@pytest.mark.parametrize("n, cache", [(64, None), (1024, None), (64, ".cv")])
def test_look_back(dev, n, cache):
    """What threads see of a flag that another program writes may differ; they must not go different ways by it."""
    programs = 40
    x = np.random.default_rng(1).integers(0, 9, programs * n).astype(np.int32)
    y, status = np.zeros((2, programs * n), np.int32), np.zeros(2 * programs, np.uint32)
    dev(k_look_back, (programs,), x, y, status, n, cache, num_warps=8)
    assert (y == np.cumsum(x)).all()
