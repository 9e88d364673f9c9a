"""Operands of dots in registers: a wgmma that takes A from them reads them until it is waited for, so what the next iteration puts there is computed behind the wait; those that
other threads load come through shared memory by copies."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def attention(q, k, v, w, out, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    a = tl.load(q + m[:, None] * D + d[None, :])
    factor = tl.load(w + m)
    acc = tl.zeros((BM, D), tl.float32)
    for i in range(0, N, BN):
        s = tl.dot(a, tl.load(k + (i + n)[None, :] * D + d[:, None]))
        # Made long before the sum is used.
        p = tl.exp2(s).to(tl.bfloat16) * factor[:, None]
        scale = tl.exp2(tl.max(s, axis=1))
        acc = tl.dot(p, tl.load(v + (i + n)[:, None] * D + d[None, :]), acc * scale[:, None])
    tl.store(out + m[:, None] * D + d[None, :], acc)


def test_fragments_are_made_behind_the_wait():
    x, out = np.zeros(64 * 256, ml_dtypes.bfloat16), np.zeros(64 * 256, np.float32)
    kernel = attention.warmup(x, x, x, x, out, 1024, 64, 64, 256, grid=(1,), device="sim", num_warps=4)
    gpu = kernel.compile_for("sm_90a").stage("gpu")
    loop = gpu[gpu.index("= for"):]
    fragments = re.findall(r"= dot (%[\w.]+), %[\w.]+, %[\w.]+ \{[^}]*async", loop)[-1]
    # Multiplied long before the sum in the kernel's text; the wait is where the sum is used, and the product behind it.
    assert loop.index("= dot_wait") < loop.index(f"{fragments} = fmul") and loop.count("= fmul") == 2
    assert loop.index("= reduce") < loop.index("= dot_wait")


@tegula.jit
def selected(q, k, v, blocks, out, count, G: tl.constexpr, BS: tl.constexpr, D: tl.constexpr):
    """Attention to blocks of keys that a list names, as nsa does it: nothing of it can be copied an iteration ahead."""
    g, s, d = tl.arange(0, G), tl.arange(0, BS), tl.arange(0, D)
    a = tl.load(q + g[:, None] * D + d[None, :])
    acc, total = tl.zeros((G, D), tl.float32), tl.zeros((G, ), tl.float32)
    for i in range(count):
        block = tl.load(blocks + i)
        if block >= 0:
            rows = block * BS + s
            keys = tl.load(k + d[:, None] + rows[None, :] * D)
            values = tl.load(v + rows[:, None] * D + d[None, :])
            p = tl.exp2(tl.dot(a, keys))
            total += tl.sum(p, 1)
            acc = tl.dot(p.to(tl.bfloat16), values, acc)
            acc = tl.dot(p.to(tl.bfloat16), tl.trans(keys), acc)
    tl.store(out + g[:, None] * D + d[None, :], acc / total[:, None])


@pytest.mark.parametrize("warps", [1, 4])
def test_fragments_come_by_copies_where_other_threads_load_them(warps):
    r = np.random.default_rng(1)
    q, k, v = ((r.standard_normal(shape) / 8).astype(ml_dtypes.bfloat16) for shape in [(16, 64), (256, 64), (256, 64)])
    blocks, out = np.array([2, -1, 0, 7, 5], np.int32), np.zeros((16, 64), np.float32)
    kernel = selected.warmup(q, k, v, blocks, out, 5, 16, 32, 64, grid=(1, ), device="sim", num_warps=warps).compile_for("sm_90a")
    loop = kernel.stage("gpu").partition("= for")[2]
    # The first dot waits for the keys alone.
    assert loop.count("async_copy") == 2 and loop.count("= shared_load") == 3 and "async_wait {pending = 1" in loop and "async_wait {pending = 0" in loop
    body = kernel.stage("ptx").partition("cp.async")[2]
    assert "ldmatrix.sync.aligned.m8n8.x4.trans" in body and "ld.global.v4" not in body
    selected[(1, )](q, k, v, blocks, out, 5, 16, 32, 64, device="sim", num_warps=warps)
    rows = np.concatenate([np.arange(32) + 32 * b for b in blocks if b >= 0])
    keys, p = k[rows].astype(np.float32), np.exp2(q.astype(np.float32) @ k[rows].astype(np.float32).T)
    want = p.astype(ml_dtypes.bfloat16).astype(np.float32) @ (v[rows].astype(np.float32) + keys) / p.sum(1)[:, None]
    assert np.abs(out - want).max() < 4e-3


@tegula.jit
def unpacked_products(a_ptr, b_ptr, c_ptr, K, N: tl.constexpr, BK: tl.constexpr):
    """Two weights in a byte along K: A is read eight elements at a time, as many as a word of weights has."""
    m, n, k = tl.arange(0, 16), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((16, N), tl.float32)
    for i in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (i + k)[None, :])
        b = tl.load(b_ptr + n[:, None] * (K // 2) + (i // 2 + tl.arange(0, BK // 2))[None, :])
        w = tl.join((b & 15).to(tl.int8) - 8, (b >> 4).to(tl.int8) - 8).reshape(N, BK).to(tl.float16)
        acc = tl.dot(a, tl.trans(w), acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


def test_operands_beside_unpacked_ones_have_no_bank_conflicts():
    """The eight lanes that a 16-byte read serves together: four pieces of a row, and the next row, whose pieces begin in the other half of the banks."""
    rng = np.random.default_rng(3)
    a, b, c = rng.integers(-8, 8, (16, 256)).astype(np.float16), rng.integers(0, 256, (64, 128), np.uint8), np.zeros((16, 64), np.float32)
    w = np.stack([b & 15, b >> 4], -1).reshape(64, 256).astype(np.float32) - 8
    unpacked_products[(1,)](a, b, c, 256, 64, 64, device="sim", num_warps=4, num_stages=3)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ w.T)
    text = unpacked_products.warmup(a, b, c, 256, 64, 64, grid=(1,), device="sim", num_warps=4, num_stages=3).compile_for("sm_90a").stage("gpu")
    tile = re.search(r"shared<16x64xf16, (L\d+)>", text).group(1)
    assert re.search(rf"layout {tile} = offset: \(0,1\) \(0,2\) \(0,4\) \(0,8\) \(0,16\) \(0,32\) \(1,32\) \(2,0\) ", text)


@tegula.jit
def rounded_product(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (i + k)[None, :])
        b = tl.load(b_ptr + (i + k)[:, None] * N + n[None, :])
        acc = tl.dot(a.to(tl.float16), b.to(tl.float16), acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("BM, BN, BK, warps", [(128, 128, 32, 4), (64, 128, 64, 4), (128, 64, 64, 8)])
def test_words_that_are_rounded_for_a_product_are_read_as_fragments(BM, BN, BK, warps):
    """Two words a lane, sixteen lanes together: their rows lie in different banks. They are read in front of the wait for the product that may read the fragment's registers, and rounded behind it. H200, 4096^3,
    64x128x64 by four warps: 856 us with A stored once more, 601 with conflicts and behind the wait, 598; 128x128x32 474, 473, 431."""
    rng = np.random.default_rng(5)
    a, b, c = rng.integers(-8, 8, (BM, 256)).astype(np.float32), rng.integers(-8, 8, (256, BN)).astype(np.float32), np.zeros((BM, BN), np.float32)
    args = (a, b, c, BN, 256, BM, BN, BK)
    rounded_product[(1, 1)](*args, device="sim", num_warps=warps, num_stages=3)
    np.testing.assert_array_equal(c, a @ b)
    text = rounded_product.warmup(*args, grid=(1, 1), device="sim", num_warps=warps, num_stages=3).compile_for("sm_90a").stage("gpu")
    tile = re.search(rf"shared<{BM}x{BK}xf32, (L\d+)>", text).group(1)
    assert re.search(rf"layout {tile} = offset: \(0,1\) \(0,2\) \(0,4\) \(0,8\) \(0,16\) \(1,8\) \(2,16\) \(4,0\) ", text)
    loop = text[text.index(" = for "):]
    loop = loop[:loop.index("\n  }")]
    assert loop.index(f": tensor<{BM}x{BK}xf32") < loop.index("dot_wait") < loop.index(f": tensor<{BM}x{BK}xf16") and loop.count("shared_store") == 1


@tegula.jit
def few_rows(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (i + k)[None, :], mask=(m < M)[:, None] & (i + k < K)[None, :], other=0.0)
        b = tl.load(b_ptr + (i + k)[:, None] * N + n[None, :], mask=(i + k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@pytest.mark.parametrize("BM,BN,BK,stages,few,many,columns", [(16, 128, 128, 3, 3, 2, 198), (32, 32, 128, 4, 4, 3, 264)])
def test_slots_of_few_rows_leave_room_for_a_block(BM, BN, BK, stages, few, many, columns):
    """Where a slot less lets a block more run beside, and a grid takes a round less so, copies start behind the reads of the slots that they fill."""
    rng = np.random.default_rng(BK + stages)
    grid = (2, columns)
    M, N, K = BM + 3, BN * (grid[1] - 1) + 16, 2 * BK + 16
    a, b, c = rng.integers(-4, 5, (M, K)).astype(np.float16), rng.integers(-4, 5, (K, N)).astype(np.float16), np.zeros((M, N), np.float32)
    kernel = few_rows[grid](a, b, c, M, N, K, BM, BN, BK, device="sim", num_warps=4, num_stages=stages)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    few_programs = few_rows[(1, 1)](a[:BM], b, c, BM, BN, K, BM, BN, BK, device="sim", num_warps=4, num_stages=stages)
    for made, slots, barriers in ((kernel, many, 2), (few_programs, few, 1)):
        text = made.stage("gpu")
        assert re.findall(r"shared_alloc \{slots = (\d+)", text) == [str(slots)] * 2 and text.count("shared_barrier") == barriers


@tegula.jit
def states(w_ptr, k_ptr, h_ptr, T, N: tl.constexpr):
    """h += k.T @ (w @ h), chunk by chunk, and what each chunk begins with: each product needs the one before."""
    m, d, n = tl.arange(0, 64), tl.arange(0, 128), tl.arange(0, N)
    column = tl.program_id(0) * N
    h = (d[:, None] % 3 + (column + n) % 2).to(tl.float32)
    for t in range(T):
        tl.store(h_ptr + t * 128 * N * tl.num_programs(0) + d[:, None] * N * tl.num_programs(0) + column + n, h.to(tl.float16))
        w = tl.load(w_ptr + t * 64 * 128 + m[:, None] * 128 + d)
        s = tl.dot(w, h.to(tl.float16)).to(tl.float16)
        k = tl.load(k_ptr + t * 64 * 128 + m[:, None] * 128 + d)
        h += tl.dot(tl.trans(k), s)


def test_copies_start_between_products():
    """Where the grid takes a round less with four blocks than with three, the first product's operand has a slot for the iterations ahead alone: copies start behind that product (gated delta rule, H200, 64x16 by two warps)."""
    r = np.random.default_rng(5)
    programs, T, N = 400, 2, 16
    w, k = (r.integers(-1, 2, (T, 64, 128)).astype(np.float16) for _ in range(2))
    w[np.abs(r.standard_normal(w.shape)) < 2], k[np.abs(r.standard_normal(k.shape)) < 2] = 0, 0
    h = np.zeros((T, 128, N * programs), np.float16)
    kernel = states[(programs,)](w, k, h, T, N, device="sim", num_warps=2, num_stages=2)
    few = states.warmup(w, k, h, T, N, grid=(4,), device="sim", num_warps=2, num_stages=2)
    want = (np.arange(128)[:, None] % 3 + np.arange(N * programs) % 2).astype(np.float32)
    for t in range(T):
        np.testing.assert_array_equal(h[t], want.astype(np.float16))
        want = want + k[t].astype(np.float32).T @ (w[t].astype(np.float32) @ h[t].astype(np.float32)).astype(np.float16).astype(np.float32)
    loops = [one.stage("gpu").partition(" = for ") for one in (kernel, few)]
    assert [re.findall(r"shared_alloc \{slots = (\d+)[^}]*\} : shared<\d+x", head) for head, *_ in loops] == [["1", "2"], ["2", "2"]]
    body = loops[0][2]
    assert body.index("= dot") < body.index("async_copy") < body.rindex("= dot")
