"""CPUs run neighbouring programs as lanes of vectors where each touches scattered elements, and its neighbours those beside them (targets/cpu/rewrite/ProgramsAsLanes.h). §1.2."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same

pytestmark = pytest.mark.section("1.2 program_id")


@tegula.jit
def middle(x, weights, out, sums, M, N, K, AXIS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Scaled rows of a middle axis, in a loop: element k of [M, N, K] belongs to program k."""
    if AXIS == "x":
        pk, pm = tl.program_id(0), tl.program_id(1)
    elif AXIS == "y":
        pm, pk = tl.program_id(0), tl.program_id(1)
    else:
        pm, pk = tl.program_id(0) // K, tl.program_id(0) % K
    if AXIS == "y":
        pk = pk.to(tl.int64)
    m = pm * BM + tl.arange(0, BM)
    acc = tl.zeros([BM, BN], x.dtype.element_ty)
    most = tl.full([BM], 0, x.dtype.element_ty)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        mask = (m < M)[:, None] & (n < N)[None, :]
        v = tl.load(x + m[:, None] * N * K + n[None, :] * K + pk, mask=mask, other=0)
        acc += v * tl.load(weights + n, mask=n < N, other=0)[None, :]
        most = tl.maximum(most, tl.max(v, 1).to(most.dtype))
    total = tl.sum(acc, 1).to(acc.dtype) + pk.to(acc.dtype)
    tl.store(sums + m * K + pk, total, mask=m < M)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        mask = (m < M)[:, None] & (n < N)[None, :]
        at = m[:, None] * N * K + n[None, :] * K + pk
        v = tl.load(x + at, mask=mask, other=0)
        tl.store(out + at, tl.where(n[None, :] % 2 == 0, v + total[:, None], v - most[:, None]), mask=mask)


def expected(x, weights):
    total = (x * weights[None, :, None]).sum(1, dtype=x.dtype) + np.arange(x.shape[2]).astype(x.dtype)
    even = (np.arange(x.shape[1]) % 2 == 0)[None, :, None]
    return total, np.where(even, x + total[:, None, :], x - x.max(1)[:, None, :]).astype(x.dtype)


@pytest.mark.parametrize("axis", ["x", "y", "quotients"])
@pytest.mark.parametrize("shape", [(5, 10, 64), (3, 33, 16), (2, 7, 30), (4, 9, 3), (1, 40, 1), (6, 8, 37), (2, 5, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16, np.int64, np.int8])
def test_middle_axis(dev, axis, shape, dtype):
    (M, N, K), BM, BN = shape, 4, 16
    rng = np.random.default_rng(N * K)
    x, weights = rng.integers(0, 3, shape).astype(dtype), rng.integers(0, 2, N).astype(dtype)
    out, sums = np.full_like(x, -1), np.full((M, K), -1, dtype)
    down = tegula.cdiv(M, BM)
    dev(middle, {"x": (K, down), "y": (down, K), "quotients": (down * K,)}[axis], x, weights, out, sums, M, N, K, axis, BM, BN)
    total, want = expected(x, weights)
    assert_same(sums, total)
    assert_same(out, want)


@tegula.jit
def columns(x, out, n, K, FORM: tl.constexpr, B: tl.constexpr):
    """One column a program, in place or not."""
    k = tl.program_id(0)
    r = tl.arange(0, B)
    at = r * K + k
    if FORM == "backwards":  # from the last column on
        at = r * K + (K - 1 - k)
    elif FORM == "upwards":  # from the last row on
        at = (n - 1 - r) * K + k
    v = tl.load(x + at, mask=r < n, other=0)
    if FORM == "cumsum" or FORM == "upwards":
        v = tl.cumsum(v, 0)
    elif FORM == "sorted":
        v = tl.sort(tl.where(r < n, v, 1000))
    elif FORM == "pairs":
        a, b = tl.split(tl.reshape(v, [B // 2, 2]))
        v = tl.reshape(tl.join(b, a + k), [B])
    elif FORM == "halves":
        v = tl.ravel(tl.trans(tl.reshape(v, [2, B // 2])))
    elif FORM == "branch":
        if n > 5:
            v += k
        else:
            v = v * 2
    elif FORM == "argmax":
        v = tl.where(r == tl.argmax(v, 0), -v, v)
    elif FORM == "rounds":  # scalars that a loop carries
        s = k * 2
        first = tl.load(x + k)
        for i in range(n):
            s += tl.load(x + i * K + k)
            first = tl.minimum(first, s)
        v = v + s - first
    elif FORM == "divided":  # by what lanes without a program have
        v = v // tl.load(x + k)
    tl.store(out + at, v, mask=r < n)


def column_wise(form, x):
    n, K = x.shape
    k = np.arange(K, dtype=x.dtype)
    if form == "cumsum":
        return np.cumsum(x, 0)
    if form == "upwards":
        return np.cumsum(x[::-1], 0)[::-1]
    if form == "sorted":
        return np.sort(x, 0)
    if form == "branch":
        return x + k if n > 5 else x * 2
    if form == "argmax":
        return np.where(np.arange(n)[:, None] == np.argmax(x, 0), -x, x)
    if form == "rounds":
        s = k * 2 + np.cumsum(x, 0)
        return x + s[-1] - np.minimum(x[0], s.min(0))
    if form == "divided":
        return x // x[0]
    whole = np.zeros((16, K), x.dtype)
    whole[:n] = x
    if form == "pairs":
        whole = np.stack([whole[1::2], whole[::2] + k], 1).reshape(16, K)
    elif form == "halves":
        whole = whole.reshape(2, 8, K).swapaxes(0, 1).reshape(16, K)
    return whole[:n]


@pytest.mark.parametrize("form", ["plain", "backwards", "upwards", "cumsum", "sorted", "pairs", "halves", "branch", "argmax", "rounds", "divided"])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("shape", [(16, 64), (9, 33), (5, 7), (11, 30), (16, 2)])
def test_columns(dev, form, in_place, shape):
    x = np.random.default_rng(shape[1]).integers(1, 90, shape).astype(np.int32)
    out = x if in_place else np.zeros_like(x)
    want = column_wise(form, x).astype(x.dtype)
    dev(columns, (shape[1],), x, out, *shape, form, 16)
    assert_same(out, want)


@tegula.jit
def neighbours(x, out, K, FORM: tl.constexpr, B: tl.constexpr):
    """What programs know of each other, or have in common."""
    k = tl.program_id(0)
    at = tl.arange(0, B) * K + k
    v = tl.load(x + at)
    if FORM == "ticket":  # the number of programs before
        v += tl.atomic_add(out + B * K, 1)
        tl.store(out + at, v)
    elif FORM == "sum":
        tl.atomic_add(out + tl.arange(0, B), v)
    elif FORM == "chain":  # each waits for the one before
        while tl.atomic_add(out + B * K, 0) < k:
            pass
        before = tl.load(out + at - 1, mask=k + tl.arange(0, B) * 0 > 0, other=0, volatile=True)
        tl.store(out + at, v + before)
        tl.atomic_add(out + B * K, 1)
    elif FORM == "ragged":  # as many rows as the program's number
        s = 0
        for i in range(k % B):
            s += tl.load(x + i * K + k)
        tl.store(out + at, v + s)
    elif FORM == "some":
        if k % 3 == 1:
            tl.store(out + at, v)
    elif FORM == "alike":  # all write one number to one place
        tl.store(out + at, v)
        tl.store(out + B * K, 7)


@pytest.mark.parametrize("form", ["ticket", "sum", "chain", "ragged", "some", "alike"])
@pytest.mark.parametrize("K", [3, 16, 50])
def test_programs_that_differ_or_know_of_each_other(dev, form, K):
    B = 8
    x = np.random.default_rng(K).integers(1, 90, (B, K)).astype(np.int32)
    out = np.zeros(B * K + 1, np.int32)
    dev(neighbours, (K,), x, out, K, form, B)
    got = out[:-1].reshape(B, K)
    if form == "ticket":
        tickets = got - x
        assert (tickets == tickets[0]).all() and sorted(tickets[0]) == list(range(K)) and out[-1] == K
    elif form == "sum":
        assert_same(out[:B], x.sum(1).astype(out.dtype))
    elif form == "chain":
        assert_same(got, np.cumsum(x, 1).astype(out.dtype))
    elif form == "ragged":
        assert_same(got, (x + np.stack([x[:k % B, k].sum() for k in range(K)])[None, :]).astype(out.dtype))
    elif form == "some":
        assert_same(got, np.where(np.arange(K) % 3 == 1, x, 0))
    else:
        assert_same(got, x)
        assert out[-1] == 7


@tegula.jit
def late(x, out, n, K, FORM: tl.constexpr, B: tl.constexpr):
    """The program's number is asked for, or extended, in a branch, behind a return, or is what they give."""
    r = tl.arange(0, B)
    if FORM == "return":
        if n < 5:
            return
        k = tl.program_id(0)
    elif FORM == "extended":
        k = tl.program_id(0)
        if n < 5:
            return
        k = k.to(tl.int64)
    elif FORM == "branch":
        k = tl.program_id(0).to(tl.int64)
        if n > 5:
            k = tl.program_id(0).to(tl.int64)
    else:
        k = tl.program_id(0)
        for i in range(n):
            k = tl.program_id(0)
        if n > 7:
            k = tl.program_id(0)
        k = k.to(tl.int64)
    v = tl.load(x + r * K + k, mask=r < n, other=0)
    for i in range(n):
        v += tl.load(x + i * K + tl.program_id(0).to(tl.int64))
    if n > 6:
        v += k.to(tl.int32)
    tl.store(out + r * K + k, v, mask=r < n)


@pytest.mark.parametrize("form", ["return", "extended", "branch", "given"])
@pytest.mark.parametrize("shape", [(4, 30), (6, 17), (8, 64), (8, 3)])
def test_numbers_of_programs_in_branches(dev, form, shape):
    n, K = shape
    x = np.random.default_rng(K).integers(1, 90, shape).astype(np.int32)
    out = np.zeros_like(x)
    dev(late, (K,), x, out, n, K, form, 8)
    want = x + x.sum(0) + (np.arange(K) if n > 6 else 0)
    assert_same(out, np.zeros_like(x) if n < 5 and form in ("return", "extended") else want.astype(x.dtype))
