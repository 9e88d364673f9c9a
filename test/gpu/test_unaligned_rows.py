"""Operands of dots whose rows are not aligned are loaded element by element: where a thread has no registers for so many pointers and two iterations' elements, it has 32-bit offsets of one pointer that moves (ShortOffsets.h),
and loads the next iteration's elements when it has stored this one's (PrefetchLoads.cpp)."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    a_ptrs = a_ptr + ((m % M)[:, None] * sam + k[None, :] * sak)
    b_ptrs = b_ptr + (k[:, None] * sbk + (n % N)[None, :] * sbn)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - i * BK, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


def run(BM, BN, BK, warps, at, bt, backwards=False):
    M, N, K = BM + 7, BN + 5, 2 * BK + 3
    rng = np.random.default_rng(BM + BK + at)
    a, b = rng.integers(-4, 5, (M, K)).astype(np.float16), rng.integers(-4, 5, (K, N)).astype(np.float16)
    want = a.astype(np.float32) @ b.astype(np.float32)
    left = np.ascontiguousarray(a.T) if at else a
    right = np.ascontiguousarray(b.T) if bt else b
    sam, sak, sbk, sbn = 1 if at else K, M if at else 1, 1 if bt else N, K if bt else 1
    start = left
    if backwards:  # A's rows from the last to the first: offsets below zero
        start, sam, want = left[M - 1:], -K, want[::-1]
    c = np.zeros((M, N), np.float32)
    kernel = product[(2, 2)](start, right, c, M, N, K, sam, sak, sbk, sbn, BM, BN, BK, device="sim", num_warps=warps, num_stages=3)
    np.testing.assert_array_equal(c, want)
    return kernel


def loop_of(kernel):
    text = kernel.compile_for("sm_90a").stage("gpu")
    return text[text.index("= for "):text.index("yield %acc")]


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("bt", [0, 1])
@pytest.mark.parametrize("BM,BN,BK,warps", [(128, 128, 32, 4), (64, 128, 64, 4)])
def test_short_offsets_and_late_loads(BM, BN, BK, warps, at, bt):
    kernel = run(BM, BN, BK, warps, at, bt)
    loop = loop_of(kernel)
    pointers = re.findall(r"(%\S+) = addptr %\S+, %\S+ : tensor<(?:\d+x){2}ptr", loop)
    assert len(pointers) == 2 and len(re.findall(r"= addptr %\S+, %\S+ : ptr", loop)) == 2  # one pointer moves, each element adds its offset
    stores, dot, loads = ([m.start() for m in re.finditer(what, loop)] for what in ("shared_store", "= dot ", "= load "))
    assert max(stores) < dot[0] < min(loads)


def test_lanes_follow_rows_that_wrap_around():
    """A transposed: its rows are consecutive but where m % M wraps around, so a warp's lanes take neighbours of one column of it, not one of each of 32 columns."""
    kernel = run(64, 64, 32, 4, 1, 0)
    text = kernel.compile_for("sm_90a").stage("gpu")
    loaded = re.search(r"= load .*: tensor<64x32xf16, (L\d+)>", text)[1]
    assert re.search(rf"layout {loaded} = .*lane: \(1,0\) \(2,0\) \(4,0\) \(8,0\) \(16,0\)", text)


def test_few_elements_are_loaded_at_the_top():
    loop = loop_of(run(64, 64, 32, 4, 0, 1))
    assert loop.index("= load ") < loop.index("shared_store")


def test_offsets_below_zero():
    run(128, 128, 32, 4, 0, 1, backwards=True)


@tegula.jit
def marked(x, labels, out, n, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    at = tl.arange(0, N)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + row * n + at, tl.where(at == label, v - 1.0, v), mask=at < n)


@tegula.jit
def picked(x, labels, out, n, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    at = tl.arange(0, N)
    tl.store(out + row * n + at, tl.load(x + label * n + at, mask=at < n), mask=at < n)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_labels_are_no_uniform_numbers(dtype):
    """An assembler moves what is the same in all threads to uniform registers, which waits for a label between a row's loads. Numbers of rows stay what they are."""
    x = np.random.default_rng(3).standard_normal((5, 1001)).astype(np.float32)
    labels, out = np.array([3, 1000, -1, 0, 4]).astype(dtype), np.zeros_like(x)
    kernel = marked[(5,)](x, labels, out, 1001, 1024, num_warps=4, device="sim")
    expected = x - (np.arange(1001) == labels[:, None])
    assert np.array_equal(out, expected)
    hides = lambda k: bool(re.search(r"mov\.u32 %\w+, %nctaid\.x;\s+shr\.u32 %\w+, %\w+, 31;", k.compile_for("sm_90a").stage("ptx")))
    assert hides(kernel)
    assert not hides(picked.warmup(x, labels, out, 1001, 1024, num_warps=4, grid=(5,), device="sim"))
