"""§3.10 tl.extra.cuda: clocks, places, programmatic dependent launch. The calls mean something on every device."""
import time

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, assert_same, d, values
from tegula.language.extra import cuda

pytestmark = pytest.mark.section("3.10 tl.extra.cuda")


@tegula.jit
def where_and_when(out, when, BLOCK: tl.constexpr):
    begin = cuda.globaltimer()
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.static_assert(begin.dtype == tl.int64)
    place = tl.extra.cuda.smid()
    tl.static_assert(place.dtype == tl.int32)
    tl.store(out + i, place)
    # All of a program reads one number.
    tl.store(when + i, tl.zeros([BLOCK], tl.int64) + begin)
    tl.store(when + i, tl.load(when + i) * 0 + begin, mask=i % 2 == 0)
    end = cuda.globaltimer()
    tl.store(when + i, end, mask=i % BLOCK == BLOCK - 1)


def test_timer_and_place(dev):
    n, block = 20, 256
    out, when = np.full(n * block, -1, np.int32), np.zeros(n * block, np.int64)
    dev(where_and_when, (n,), out, when, block)
    out, when = out.reshape(n, block), when.reshape(n, block)
    assert (out >= 0).all() and (out == out[:, :1]).all()
    assert (when > 0).all() and (when[:, :-1] == when[:, :1]).all() and (when[:, -1] >= when[:, 0]).all()


@tegula.jit
def read_twice(out, n):
    a = cuda.globaltimer()
    for _ in range(n):
        tl.store(out + 2, tl.load(out + 2, volatile=True) + 1)
    b = cuda.globaltimer()
    tl.store(out, a)
    tl.store(out + 1, b)


def test_timer_is_read_where_it_stands(dev):
    out = np.zeros(3, np.int64)
    begin = time.monotonic_ns()
    dev(read_twice, (1,), out, 20000)
    assert out[2] == 20000
    # Not once for both; and nanoseconds, no more than the launch took.
    assert 0 < out[1] - out[0] <= time.monotonic_ns() - begin


@tegula.jit
def sizes(out):
    W: tl.constexpr = cuda.num_warps()
    tl.static_assert(cuda.num_threads() == W * 32)
    tl.store(out + tl.arange(0, W), cuda.num_threads())


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_sizes(dev, warps):
    out = np.zeros(16, np.int32)
    dev(sizes, (1,), out, num_warps=warps)
    assert_same(out, np.where(np.arange(16) < warps, warps * 32, 0).astype(np.int32))


@tegula.jit
def chained(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cuda.gdc_wait()
    v = tl.load(x + i, mask=i < n)
    cuda.gdc_launch_dependents()
    tl.store(y + i, v * 2 + 1, mask=i < n)


@pytest.mark.parametrize("pdl", [False, True])
def test_dependent_launches(dev, pdl):
    x = values(d("int32"), 5000, 0)
    a, b = x.copy(), np.zeros_like(x)
    for _ in range(4):
        dev(chained, (10,), a, b, 5000, 512, launch_pdl=pdl)
        dev(chained, (10,), b, a, 5000, 512, launch_pdl=pdl)
    with np.errstate(over="ignore"):
        assert_same(a, x * np.int32(256) + np.int32(255))


@tegula.jit
def float8(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i).to(tl.float16)
    b15 = cuda.convert_custom_float8_sm80(v, tl.float8e4b15)
    tl.store(y + i, cuda.convert_custom_float8_sm70(b15, tl.float16))


def test_float8_conversions(dev):
    x = np.array([0, 1, -1, 0.5, 1.875, -0.25, 1.0625, 0.125], np.float16)
    y = np.zeros(8, np.float16)
    dev(float8, (1,), x, y, 8)
    assert_same(y, np.array([0, 1, -1, 0.5, 1.875, -0.25, 1.0, 0.125], np.float16))


@tegula.jit
def e_arguments(x):
    tl.store(x, cuda.smid(1))


def test_errors(dev):
    with pytest.raises(CompileError):
        dev(e_arguments, (1,), np.zeros(1, np.int32))


@tegula.jit
def by_every_name(x, y):
    i = tl.arange(0, 8)
    v = tl.load(x + i)
    tl.store(y + i, tl.extra.cuda.libdevice.rint(v) + tl.extra.cpu.libdevice.rint(v) + tl.extra.hip.libdevice.rint(v) + tl.extra.libdevice.rint(v))


def test_libdevice_by_every_name(dev):
    x = np.linspace(-2, 2, 8, dtype=np.float32)
    y = np.zeros_like(x)
    dev(by_every_name, (1,), x, y)
    assert (y == 4 * np.rint(x)).all()
