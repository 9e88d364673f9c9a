"""Checked mode: which access is reported, and what pointers that are not derived from one argument may do."""
import numpy as np
import pytest
import tegula
import tegula.language as tl

pytestmark = pytest.mark.section("3.3 memory")


@pytest.fixture(autouse=True)
def only_cpu(dev):
    if dev.name != "cpu":
        pytest.skip("checked mode is the CPU's; the simulator always checks, in words of its own (unittests/sim)")


def fault_of(dev, kernel, *args, grid=(1,)):
    with pytest.raises(tegula.DeviceError) as e:
        dev(kernel, grid, *args, check=True)
    return e.value.fault, str(e.value)


@tegula.jit
def strided(x, START: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(x + START + STRIDE * tl.arange(0, BLOCK), 1)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize("n,start,stride,block,first", [
    (100, 0, 1, 128, 100),  # a contiguous chunk that ends outside
    (64, 0, 1, 128, 64),  # a chunk that begins outside
    (67, 3, 1, 64, None),
    (66, 3, 1, 64, 66),
    (100, -5, 1, 16, -5),
    (100, 200, 1, 16, 200),
    (100, 0, 3, 64, 102),
    (100, 63, -1, 128, -1),
    (100, 500, -7, 32, 500),
])
def test_the_first_element_outside_is_reported(dev, dtype, n, start, stride, block, first):
    x = np.zeros(n, dtype)
    if first is None:
        dev(strided, (1,), x, start, stride, block, check=True)
        return
    fault, text = fault_of(dev, strided, x, start, stride, block)
    assert fault["argument"] == "x" and fault["index"] == first * x.itemsize and fault["extent"] == x.nbytes, text


@tegula.jit
def masked(x, index, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + tl.load(index + i), mask=i % 2 == 0, other=0))


def test_lanes_that_are_masked_off_may_point_anywhere(dev):
    index = np.arange(64, dtype=np.int64)
    index[1::2] = 1 << 40
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    dev(masked, (1,), x, index, out, 64, 64, check=True)
    assert out.sum() == 32
    index[[40, 20, 50]] = 99, 77, -3
    fault, _ = fault_of(dev, masked, x, index, out, 64, 64)
    assert fault["argument"] == "x" and fault["index"] == 77 * 4


@tegula.jit
def misaligned(x):
    tl.store((x.to(tl.int64, bitcast=True) + 2).to(tl.pointer_type(tl.int8)), 1)
    p = x.to(tl.pointer_type(tl.int8), bitcast=True) + 2
    tl.store(p.to(tl.pointer_type(tl.float32), bitcast=True) + tl.arange(0, 8), 1.0)


def test_misaligned(dev):
    x = np.zeros(64, np.float32)
    fault, text = fault_of(dev, misaligned, x)
    assert "misaligned store" in text and fault["index"] == 2, text


@tegula.jit
def table(addresses, out, OFF: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.program_id(0) * BLOCK + i, tl.load(x + OFF + i))


@tegula.jit
def table_and_rows(addresses, rows, out, BLOCK: tl.constexpr):
    table(addresses, out, 0, BLOCK)


def test_pointers_of_memory_may_go_to_any_buffer_of_the_launch(dev):
    data = np.arange(64, dtype=np.float32)
    out = np.zeros(64, np.float32)
    # One buffer of the launch holds the addresses, the rows and the result.
    whole = np.zeros(256, np.float32)
    whole[64:128] = data
    rows = whole[64:128]
    addresses = np.array([rows.ctypes.data, rows.ctypes.data + 128], np.int64)

    dev(table_and_rows, (2,), addresses, whole, out, 32, check=True)
    assert np.array_equal(out, data)


@pytest.mark.parametrize("off", [0, -4, 1 << 30])
def test_pointers_of_memory_to_elsewhere_are_refused_with_the_reason(dev, off):
    elsewhere, out = np.zeros(64, np.float32), np.full(32, 7, np.float32)
    addresses = np.array([elsewhere.ctypes.data], np.int64)
    fault, text = fault_of(dev, table, addresses, out, off, 32)
    assert fault["argument"] == "" and fault["extent"] == -1 and fault["index"] == elsewhere.ctypes.data + 4 * off
    assert "loaded from memory" in text and hex(elsewhere.ctypes.data + 4 * off) in text, text
    assert np.all(out == 7)
    dev(table, (1,), addresses, out, 0, 32)
    assert not out.any()


@tegula.jit
def of_integer(address):
    tl.store(address.to(tl.pointer_type(tl.int32)), 1)


def test_a_launch_without_buffers(dev):
    x = np.zeros(1, np.int32)
    fault, _ = fault_of(dev, of_integer, int(x.ctypes.data))
    assert fault["index"] == x.ctypes.data and x[0] == 0
    dev(of_integer, (1,), int(x.ctypes.data))
    assert x[0] == 1


@tegula.jit
def swapping(a, b, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = a
    q = b
    for _ in range(n):
        tl.store(q + i, tl.load(p + i) + 1)
        t = p
        p = q
        q = t


@tegula.jit
def moving(a, b, n, BLOCK: tl.constexpr):
    p = a + tl.arange(0, BLOCK)
    for _ in range(n):
        for _ in range(2):
            tl.store(p, tl.load(p) + 1)
            p += BLOCK // 2
        p -= BLOCK // 2


@pytest.mark.parametrize("check", [False, True])
def test_pointers_carried_by_a_loop(dev, check):
    a, b = np.zeros(64, np.float32), np.zeros(64, np.float32)
    dev(swapping, (1,), a, b, 5, 64, check=check)
    assert np.all(a == 4) and np.all(b == 5)
    if check:
        a = np.zeros(160, np.float32)
        fault, _ = fault_of(dev, moving, a, b, 5, 64)
        assert fault["argument"] == "a" and fault["index"] == a.nbytes


@tegula.jit(noinline=True)
def put(p, i):
    tl.store(p + i, 1)


@tegula.jit
def calls(x, y, i):
    put(x, i)


def test_helpers_that_are_not_inlined_may_touch_all_buffers(dev):
    x, y = np.zeros(8, np.int32), np.zeros(8, np.int32)
    dev(calls, (1,), x, y, 7, check=True)
    assert x[7] == 1
    fault, text = fault_of(dev, calls, x, y, 1 << 20)
    assert fault["extent"] == -1 and "put" in text
