"""Offsets beyond 2^31 elements, from plain int32 arithmetic: tensors of more than 2 GiB of address space, of which a few pages are touched."""
import json
import mmap
import os

import numpy as np
import pytest
import tegula
import tegula.language as tl

pytestmark = pytest.mark.section("3.3 memory")


@pytest.fixture(autouse=True)
def only_here(dev):
    if dev.name not in ("cpu", "sim"):
        pytest.skip("these tensors are address space only, which has no copy on a GPU; the interpreter checks every address")


NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Python 3.13 has the name; the number is Linux's


def huge(n, dtype=np.uint8):
    """Zeroes that take memory only where somebody writes."""
    size = n * np.dtype(dtype).itemsize
    m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    return np.frombuffer(m, dtype, n)


def is_wide(kernel):
    return json.loads(kernel.metadata_json())["wide_offsets"]


G = 1 << 31  # where int32 ends


@tegula.jit
def add_one(x, out, n, first, BLOCK: tl.constexpr):
    offsets = (tl.program_id(0) + first) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + 1, mask=mask)


@pytest.mark.parametrize("n", [G + 300, G - 5, (1 << 30) + 17, 2 * G + 300])
def test_elementwise(dev, n):
    x, out = huge(n), huge(n)
    block = 256
    first = n // block - 2
    x[first * block:] = np.arange(n - first * block) % 200
    dev(add_one, (4,), x, out, n, first, block)
    assert np.array_equal(out[first * block:], np.arange(n - first * block) % 200 + 1)
    assert not out[first * block - 1000:first * block].any() and not out[:1000].any()


def test_small_and_large_tensors_in_turns(dev):
    large, small = huge(G + 64), np.zeros(1000, np.uint8)
    kernels = []
    for _ in range(3):
        kernels.append(dev(add_one, (1,), large, large, G + 64, G // 64, 64).hash)
        kernels.append(dev(add_one, (2,), small, small, 1000, 14, 64).hash)
    assert np.array_equal(large[G:], np.full(64, 3)) and small[14 * 64:].tolist() == [3] * (1000 - 14 * 64) and not small[:14 * 64].any()
    assert len(set(kernels)) == 2 and kernels[0] == kernels[2] == kernels[4]
    x = huge(G + 64)
    dev(add_one, (1,), x[:1000], x, 64, 0, 64)  # a view of it, which is as large as what is behind it
    assert x[:65].tolist() == [1] * 64 + [0]


def test_another_kernel_only_for_large_tensors(dev):
    sizes = {n: dev(add_one, (0,), huge(n), huge(n), 64, 0, 64) for n in (64, 1 << 20, (1 << 30) - 16, 1 << 30, G)}
    assert len({k.hash for n, k in sizes.items() if n < 1 << 30}) == 1
    assert len({k.hash for n, k in sizes.items() if n >= 1 << 30}) == 1
    assert [is_wide(k) for k in sizes.values()] == [False, False, False, True, True]
    assert is_wide(dev(add_one, (0,), huge(64), huge(64), 64, 0, 64, wide_offsets=True))


@tegula.jit
def tile(x, out, rows, stride, first, BM: tl.constexpr, BN: tl.constexpr):
    r = (tl.program_id(0) + first) * BM + tl.arange(0, BM)
    c = tl.arange(0, BN)
    mask = (r < rows)[:, None] & (c < BN - 3)[None, :]
    v = tl.load(x + r[:, None] * stride + c[None, :], mask=mask, other=7)
    tl.store(out + tl.program_id(0) * BM * BN + tl.arange(0, BM)[:, None] * BN + c[None, :], v)


def test_rows_and_columns(dev):
    stride, rows = 1 << 20, 2051
    x = huge(rows * stride).reshape(rows, stride)
    x[2044:, :32] = np.arange(7 * 32).reshape(7, 32) % 100 + 1
    out = np.zeros((2, 4, 32), np.uint8)
    dev(tile, (2,), x, out, rows, stride, 511, 4, 32)
    want = np.full((8, 32), 7, np.uint8)
    want[:7, :29] = x[2044:, :29]
    assert np.array_equal(out.reshape(8, 32), want)


@tegula.jit
def from_the_end(x, out, stride, BN: tl.constexpr):
    r, c = tl.program_id(0) + 2047, tl.arange(0, BN)
    tl.store(out + tl.program_id(0) * BN + c, tl.load(x + r * stride + c))


def test_negative_strides(dev):
    stride, rows = 1 << 20, 2051
    x = huge(rows * stride).reshape(rows, stride)
    x[:4, :32] = np.arange(4 * 32).reshape(4, 32) % 100 + 1
    out = np.zeros((4, 32), np.uint8)
    dev(from_the_end, (4,), x[::-1], out, -stride, 32)
    assert np.array_equal(out, x[:4, :32][::-1])


@tegula.jit
def loops(x, out, stride, rows, first, KIND: tl.constexpr, BN: tl.constexpr):
    c = tl.arange(0, BN)
    total = tl.zeros([BN], tl.int32)
    if KIND == "counter":
        for r in range(first, rows):
            total += tl.load(x + r * stride + c).to(tl.int32)
    if KIND == "carried":
        offsets = first * stride + c
        for _ in range(rows - first):
            total += tl.load(x + offsets).to(tl.int32)
            offsets += stride
    if KIND == "bound":
        for start in range(first * stride, rows * stride, stride):
            total += tl.load(x + start + c).to(tl.int32)
    if KIND == "while":
        at = first * stride
        while at < rows * stride:
            total += tl.load(x + at + c).to(tl.int32)
            at += stride
    if KIND == "pointer":
        p = x + first * stride + c
        for _ in range(rows - first):
            total += tl.load(p).to(tl.int32)
            p += stride
    if KIND == "branch":
        at = 0
        if rows > 5:
            at = first * stride
        for r in range(first, rows):
            if r * stride + BN <= rows * stride:
                total += tl.load(x + tl.where(r == first, at, r * stride) + c).to(tl.int32)
    tl.store(out + c, total)


@pytest.mark.parametrize("kind", ["counter", "carried", "bound", "while", "pointer", "branch"])
def test_loops_over_rows(dev, kind):
    stride, rows = 1 << 20, 2051
    x = huge(rows * stride).reshape(rows, stride)
    x[:6, :32], x[2044:, :32] = 50, np.arange(7 * 32).reshape(7, 32) % 100 + 1
    out = np.zeros(32, np.int32)
    dev(loops, (1,), x, out, stride, rows, 2045, kind, 32)
    assert np.array_equal(out, x[2045:, :32].astype(np.int32).sum(0))


@tegula.jit
def up_to(x, out, n, first, STEP: tl.constexpr):
    count = 0
    for start in range((tl.program_id(0) + first) * STEP, n, STEP):
        offsets = start + tl.arange(0, STEP)
        tl.store(x + offsets, 3, mask=offsets < n)
        count += 1
    tl.store(out, count)


def test_a_counter_that_passes_the_largest_int(dev):
    n = G - 5
    x, out = huge(n), np.zeros(1, np.int32)
    dev(up_to, (1,), x, out, n, n // 1024 - 2, 1024)
    first = (n // 1024 - 2) * 1024
    assert out[0] == 3 and np.all(x[first:] == 3) and not x[first - 100:first].any()


@tegula.jit
def gather(x, index, out, stride, BM: tl.constexpr, BN: tl.constexpr):
    r, c = tl.load(index + tl.arange(0, BM)), tl.arange(0, BN)
    tl.store(out + tl.arange(0, BM)[:, None] * BN + c[None, :], tl.load(x + (r * stride)[:, None] + c[None, :]))


def test_rows_by_index(dev):
    stride, rows = 1 << 20, 2051
    x = huge(rows * stride).reshape(rows, stride)
    index = np.array([2050, 0, 2047, 2048, 5, 2049, 1, 1024], np.int32)
    x[index, :32] = np.arange(8 * 32).reshape(8, 32) % 100 + 1
    out = np.zeros((8, 32), np.uint8)
    dev(gather, (1,), x, index, out, stride, 8, 32)
    assert np.array_equal(out, x[index, :32])


@tegula.jit
def positions(x, out, first, cols, stride, n, WHAT: tl.constexpr, BLOCK: tl.constexpr):
    i = (tl.program_id(0) + first) * BLOCK + tl.arange(0, BLOCK)
    if WHAT == "divide":
        at = (i // cols) * stride + i % cols
    elif WHAT == "shift":
        at = (i >> 20 << 20) | (i & 0xfffff)
    elif WHAT == "clamp":
        at = tl.maximum(tl.minimum(i, n - 1), 0)
    elif WHAT == "where":
        at = tl.where(i < n, i, first * BLOCK)
    elif WHAT == "cast":
        at = (i + 0).to(tl.int64)
    elif WHAT == "shapes":
        at = tl.reshape(tl.trans(tl.reshape(i, [8, BLOCK // 8])), [BLOCK])
        at = tl.reshape(tl.trans(tl.reshape(at, [BLOCK // 8, 8])), [BLOCK])
    elif WHAT == "flip":
        at = tl.flip(tl.flip(i))
    elif WHAT == "sum":
        at = tl.sum(tl.full([8], first // 8, tl.int32) * BLOCK) + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    elif WHAT == "cumsum":
        at = tl.cumsum(tl.where(tl.arange(0, BLOCK) == 0, (tl.program_id(0) + first) * BLOCK - 1, 0) + 1)
    elif WHAT == "join":
        a, b = tl.split(tl.join(i, i))
        at = tl.minimum(a, b)
    elif WHAT == "negate":
        at = -(-i)
    mask = at < n
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.load(x + at, mask=mask, other=9))


@pytest.mark.parametrize("what", ["divide", "shift", "clamp", "where", "cast", "shapes", "flip", "sum", "cumsum", "join", "negate"])
def test_arithmetic_of_offsets(dev, what):
    block, n = 64, G + 100
    x = huge(n)
    first = G // block - 8
    at = first * block + np.arange(10 * block)
    x[first * block:] = np.arange(n - first * block) % 100 + 10
    out = np.zeros(10 * block, np.uint8)
    dev(positions, (10,), x, out, first, 1 << 20, 1 << 20, n, what, block)
    end = {"clamp": x[n - 1], "where": x[first * block]}.get(what, 9)
    want = np.where(at < n, x[np.minimum(at, n - 1)], end)
    assert np.array_equal(out, want)


@tegula.jit
def blocks(x, out, rows, cols, stride, first, BM: tl.constexpr, BN: tl.constexpr):
    p = tl.make_block_ptr(x, (rows, cols), (stride, 1), (first * BM, 0), (BM, BN), (1, 0))
    for i in range(2):
        v = tl.load(p, boundary_check=(0,), padding_option="zero")
        tl.store(out + i * BM * BN + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], v)
        p = tl.advance(p, (BM, 0))


@tegula.jit
def described(x, out, rows, cols, stride, first, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [rows, cols], [stride, 1], [BM, BN])
    for i in range(2):
        v = d.load([(first + i) * BM, 0])
        tl.store(out + i * BM * BN + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], v)


@pytest.mark.parametrize("kernel", [blocks, described])
def test_block_pointers_and_descriptors(dev, kernel):
    stride, rows = 1 << 20, 2051
    x = huge(rows * stride).reshape(rows, stride)
    x[2044:, :32] = np.arange(7 * 32).reshape(7, 32) % 100 + 1
    out = np.zeros((8, 32), np.uint8)
    dev(kernel, (1,), x, out, rows, stride, stride, 511, 4, 32)
    assert np.array_equal(out[:7], x[2044:, :32]) and not out[7].any()


@tegula.jit
def bytes_of_words(x, out, first, BLOCK: tl.constexpr):
    p = x.to(tl.pointer_type(tl.uint8), bitcast=True)
    offsets = (tl.program_id(0) + first) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.load(p + offsets))


def test_a_pointer_cast_to_smaller_elements(dev):
    n = G // 4 + 64  # fewer than 2^30 elements, more than 2^31 bytes
    x = huge(n, np.int32)
    x[n - 128:] = np.arange(128) * 0x01020304
    out = np.zeros(512, np.uint8)
    dev(bytes_of_words, (4,), x, out, (n - 128) * 4 // 128, 128)
    assert np.array_equal(out, x[n - 128:].view(np.uint8))


@tegula.jit
def sign_of_sum(x, out, BLOCK: tl.constexpr):
    v = tl.load(x.to(tl.pointer_type(tl.int32)) + tl.arange(0, BLOCK))
    tl.store(out, 1, mask=tl.sum(v) < 0)


@pytest.mark.skipif(os.environ.get("TEGULA_TEST_WIDE") == "1", reason="widened, such a sum does not wrap")
def test_beside_a_cast_pointer_data_wrap_around(dev):
    out = np.zeros(2, np.int32)
    dev(sign_of_sum, (1,), np.array([2**30 + (2**30 << 32)]), out, 2)
    dev(sign_of_sum, (1,), np.array([2**31 + (2**31 << 32)], np.uint64), out[1:], 2)
    assert list(out) == [1, 0]


@tegula.jit
def detour(x, index, out, first, WHAT: tl.constexpr, BLOCK: tl.constexpr):
    i = (tl.program_id(0) + first) * BLOCK + tl.arange(0, BLOCK)
    if WHAT == "tile":
        at = i * 11 - i * 10
    elif WHAT == "uniform":
        s = (tl.program_id(0) + first) * BLOCK
        at = s * 11 + tl.arange(0, BLOCK) - s * 10
    elif WHAT == "loaded":
        r = tl.load(index + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
        at = r * 11 - r * 10
    elif WHAT == "both":
        s = (tl.program_id(0) + first) * BLOCK
        at = (tl.load(index + tl.arange(0, BLOCK)) - first * BLOCK) + s * 11 - s * 10
    elif WHAT == "shift":
        at = (i << 4) - i * 15
    elif WHAT == "carried":
        at = i * 10
        for k in range(9):
            at -= i
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.load(x + at))


@pytest.mark.parametrize("what", ["tile", "uniform", "loaded", "both", "shift", "carried"])
def test_what_wraps_on_the_way_to_an_offset_that_fits(dev, what):
    n, block = (1 << 30) - 64, 64
    x, out = huge(n), np.zeros(256, np.uint8)
    x[n - 256:] = np.arange(256)
    k = dev(detour, (4,), x, np.arange(n - 256, n, dtype=np.int32), out, n // block - 4, what, block)
    assert not is_wide(k) and np.array_equal(out, np.arange(256))


@tegula.jit(noinline=True)
def row_start(row, stride):
    return row * stride


@tegula.jit(noinline=True)
def copy_row(x, out, start, n, BN: tl.constexpr):
    i = tl.arange(0, BN)
    tl.store(out + i, tl.load(x + start + i, mask=start + i < n, other=9))


@tegula.jit
def by_helpers(x, out, first, stride, n, BN: tl.constexpr):
    copy_row(x, out + tl.program_id(0) * BN, row_start(tl.program_id(0) + first, stride), n, BN)


def test_helpers_that_are_not_inlined(dev):
    n = G + 100
    x, out = huge(n), np.zeros((4, 64), np.uint8)
    x[G - 64:] = np.arange(164) + 10
    dev(by_helpers, (4,), x, out, G // 64 - 1, 64, n, 64)
    want = np.full(256, 9, np.uint8)
    want[:164] = x[G - 64:]
    assert np.array_equal(out, want.reshape(4, 64))


@tegula.jit
def count(x, index, first, BLOCK: tl.constexpr):
    offsets = first * BLOCK + tl.load(index + tl.arange(0, BLOCK))
    tl.atomic_add(x + offsets, 1, mask=offsets >= 0)


def test_atomics(dev):
    x = huge(G + 64, np.int32)
    index = (np.arange(64) % 7).astype(np.int32)
    dev(count, (1,), x, index, G // 64, 64)
    assert np.array_equal(x[G:G + 8], np.bincount(index, minlength=8)) and not x[:64].any()


@tegula.jit
def hashed(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    h = i * -1640531535
    h = (h ^ (h >> 15)) * 0x2c1b3c6d
    slot = (h ^ (h >> 12)) & (n - 1)
    tl.store(x + slot, 1)
    tl.store(out + i, slot)


def test_hashes_wrap_as_they_are_written(dev):
    x, out, small = huge(1 << 30), np.zeros(64, np.int32), np.zeros(64, np.int32)
    dev(hashed, (1,), x, out, 1 << 12, 64)
    dev(hashed, (1,), np.zeros(1 << 12, np.uint8), small, 1 << 12, 64)
    assert np.array_equal(out, small) and np.array_equal(np.flatnonzero(x[:1 << 12]), np.unique(small))


def test_a_compiled_kernel_refuses_tensors_that_it_was_not_made_for(dev):
    small = np.zeros(64, np.uint8)
    k = dev(add_one, (1,), small, small, 64, 0, 64)
    with pytest.raises(ValueError, match=r"`x` has 2\^30 elements or more"):
        k[(1,)](huge(1 << 30), small, 64, 0, 64)
    wide = dev(add_one, (1,), small, small, 64, 0, 64, wide_offsets=True)
    x = huge(1 << 30)
    wide[(1,)](x, x, 64, 0, 64)
    assert np.all(x[:64] == 1)


def test_checked_and_debug_mode(dev):
    x = huge(G + 64)
    dev(add_one, (1,), x, x, G + 64, G // 64, 64, check=True)
    assert np.all(x[G:] == 1)
    with pytest.raises(tegula.DeviceError, match=rf"out-of-bounds load through argument `x`: byte offset {G + 64}, buffer of {G + 64} bytes"):
        dev(add_one, (1,), x, x, G + 164, G // 64 + 1, 64, check=True)
    with pytest.raises(tegula.DeviceError, match="int32 overflow detected for operation mul"):  # it says so, as the language asks
        dev(add_one, (1,), x, x, G + 64, G // 64, 64, debug=True)
