"""Views: what checked mode, the simulator and the interpreter take for the memory behind an argument, and from where on offsets have 64 bits."""
import array
import json
import mmap

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula._memory import memory_of


@tegula.jit
def columns(x, out, stride, first, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + tl.program_id(0) * N + i, tl.load(x + tl.program_id(0) * stride + first + i))


def on(device, kernel, grid, *args):
    if device == "interpreter":
        with tegula.interpret():
            return kernel[grid](*args)
    return kernel[grid](*args, **{"checked": {"device": "cpu", "check": True}, "sim": {"device": "sim"}}[device])


class Tensor:
    """As PyTorch's, as far as launches ask. Not a view as numpy knows them."""
    device = "cpu"

    def __init__(self, array, storage):
        self.array, self.storage, self.dtype, self.shape = array, storage, array.dtype, array.shape

    def data_ptr(self):
        return self.array.ctypes.data

    def untyped_storage(self):
        return Storage(self.storage)

    @property
    def nbytes(self):
        return self.array.nbytes

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def element_size(self):
        return self.array.itemsize


class Storage:
    def __init__(self, array):
        self.array = array

    def nbytes(self):
        return self.array.nbytes

    def data_ptr(self):
        return self.array.ctypes.data


DEVICES = ["checked", "sim", "interpreter"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("view", [
    lambda x: x[:, :20], lambda x: x[2:3], lambda x: x[:, :4].T, lambda x: x[1:][1:, 3:5], lambda x: Tensor(x[:, :20], x), lambda x: Tensor(x[2:3, 5:6], x),
    lambda x: np.lib.stride_tricks.as_strided(x[:, :20], (3, 2)),
], ids=["columns", "a row", "transposed", "a view of a view", "torch-like", "torch-like row", "as_strided"])
def test_kernels_reach_the_memory_behind_a_view(device, view):
    x = np.arange(8 * 64, dtype=np.float32).reshape(8, 64)
    v = view(x)
    row, column = divmod((getattr(v, "array", v).ctypes.data - x.ctypes.data) // 4, 64)
    out = np.zeros((8, 64), np.float32)
    on(device, columns, (8 - row,), v, out, 64, -column, 64)
    assert np.array_equal(out[:8 - row], x[row:])


@pytest.mark.parametrize("device", DEVICES)
def test_elements_before_the_address(device):
    x, out = np.arange(8 * 64, dtype=np.float32).reshape(8, 64), np.zeros((8, 64), np.float32)
    on(device, columns, (8,), x[::-1], out, -64, 0, 64)
    assert np.array_equal(out, x[::-1])
    on(device, columns, (1,), x[5:, 7:], out, 64, -5 * 64 - 7, 512)
    assert np.array_equal(out, x)


@pytest.mark.parametrize("device", DEVICES)
def test_stores_to_the_rest_of_the_memory(device):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    on(device, columns, (1,), x, y[40:50], 0, 0, 16)
    assert np.array_equal(y[40:56], x[:16]) and not y[:40].any() and not y[56:].any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first,count", [(-64, 16), (448, 128)])
def test_what_lies_beyond_the_memory_is_refused(device, first, count):
    owner, out = np.zeros(512, np.float32), np.zeros(128, np.float32)
    with pytest.raises((tegula.DeviceError, tegula.InterpreterError)):
        on(device, columns, (1,), owner[:20], out, 0, first, count)
    part = np.frombuffer(bytearray(4 * 2048), np.float32)[512:1024]  # its owner is no array
    part.base[512 + first] = 1
    on(device, columns, (1,), part[:20], out, 0, first, count)
    assert out[0] == 1


def test_the_offset_in_a_fault_counts_from_the_memory():
    x, out = np.zeros((8, 64), np.float32), np.zeros(64, np.float32)
    with pytest.raises(tegula.DeviceError) as e:
        on("checked", columns, (1,), x[2:, :20], out, 64, 6 * 64 - 32, 64)
    assert e.value.fault["argument"] == "x" and e.value.fault["index"] == x.nbytes and e.value.fault["extent"] == x.nbytes


@tegula.jit
def of_tuple(xs, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(xs[1][0] + i, tl.load(xs[0] + i))


@pytest.mark.parametrize("device", ["checked", "sim"])
def test_items_of_tuples_and_compiled_kernels(device):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel = on(device, of_tuple, (1,), (x[:3], (y[:2],)), 64)
    assert np.array_equal(x, y)
    y[:] = 0
    kernel[(1,)]((x[:3], (y[:2],)), 64)
    assert np.array_equal(x, y)


def test_memory_of():
    x = np.zeros((8, 64), np.float32)
    whole = x.ctypes.data, x.nbytes
    for v in (x, x[3:, 2:], x.T, x[::-1, ::-1], x.view(np.uint8)[1:], x.reshape(-1)[5:], np.broadcast_to(x[0, :1], (9,)), memoryview(x)[1:]):
        assert memory_of(np.asarray(v)) == whole
    m = mmap.mmap(-1, 8192)
    mapped = np.frombuffer(m, np.int32)
    assert memory_of(mapped[100:200]) == (mapped.ctypes.data, 8192)
    a = array.array("i", range(100))
    assert memory_of(np.frombuffer(a, np.int32, 10, 40)) == (a.buffer_info()[0], 400)
    assert memory_of(np.zeros((0, 3)))[1] == 0
    assert memory_of(Tensor(x[1:], x)) == whole
    assert memory_of(object()) is None


def test_nobody_asks_where_accesses_are_not_checked(monkeypatch):
    asked = []
    from tegula import _core, _memory
    _core.set_memory_finder(lambda x: asked.append(x) or _memory.memory_of(x))
    try:
        x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        columns[(1,)](x[:20], out, 0, 0, 64, device="cpu")
        assert not asked and np.array_equal(x, out)
        on("checked", columns, (1,), x[:20], out, 0, 0, 64)
        assert len(asked) == 2 and asked[0].shape == (20,) and asked[1] is out
        # One that raises is as one that does not know.
        _core.set_memory_finder(lambda x: 1 // 0)
        with pytest.raises(tegula.DeviceError, match="buffer of 80 bytes"):
            on("checked", columns, (1,), x[:20], out, 0, 0, 64)
    finally:
        _core.set_memory_finder(_memory.memory_of)


NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Python 3.13 has the name; the number is Linux's


def zeroes(n):
    return np.frombuffer(mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE), np.uint8)


def is_wide(x, **options):
    return json.loads(columns[(0,)](x, np.zeros(64, np.uint8), 0, 0, 64, device="cpu", **options).metadata_json())["wide_offsets"]


class Interface:
    """An array of another library, by `__array_interface__`."""

    def __init__(self, a):
        self.__array_interface__ = dict(a.__array_interface__)
        self.owner = a


def test_from_which_size_on_offsets_have_64_bits():
    big = zeroes(1 << 31)
    rows = big.reshape(1 << 11, 1 << 20)
    for x in (big, rows, rows[::-1], rows[:, ::-1], rows[:, :20], rows[::2], big[-20:], big[::-1][:5], rows[:1024], Interface(rows), Interface(rows[::-1]),
              Tensor(rows, rows), Tensor(rows[:, :20], rows), big.view(np.int8)):
        assert is_wide(x), x
    for x in (np.zeros(64, np.uint8), np.zeros(64, np.uint8)[::-1], zeroes((1 << 30) - 1), big.view(np.int32), np.frombuffer(big, np.int64)):
        assert not is_wide(x), x
    assert is_wide(np.zeros(64, np.uint8), wide_offsets=True)
