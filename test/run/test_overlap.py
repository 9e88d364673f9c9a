"""Arguments that overlap by a shift (`y = x[1:]`), as other types, or inside of tuples and descriptors: loads and stores of a program are in order all the same."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula.tools.tensor_descriptor import TensorDescriptor


@tegula.jit
def row(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + 1, i < n)


@tegula.jit
def row_in_turns(x, out, n, BLOCK: tl.constexpr):
    """Each block is stored before the next is loaded."""
    for b in range(0, n, BLOCK):
        i = b + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, i < n) + 1, i < n)


@tegula.jit
def row_twice(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    tl.store(out + i, a)
    tl.store(out + i, tl.load(x + i) + a)


@tegula.jit
def two_outputs(x, a, b, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(a + i, v)
    tl.store(b + i, v * 2)


def shifted(n, shift, dtype=np.int32):
    """A buffer, and two views of n of its elements of which the second begins `shift` elements behind the first."""
    whole = np.random.default_rng(n).integers(-99, 99, n + abs(shift)).astype(dtype)
    return whole, whole[max(-shift, 0):][:n], whole[max(shift, 0):][:n]


SHIFTS = [1, -1, 3, 16, -16, 100]


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.int8])
def test_a_row(dev, shift, dtype):
    whole, x, out = shifted(500, shift, dtype)
    expected = x + dtype(1)
    dev(row, (1,), x, out, 500, BLOCK=512)
    assert (out == expected).all()


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("stages", [1, 3])
def test_a_row_in_turns(dev, shift, stages):
    whole, x, out = shifted(500, shift)
    expected = whole.copy()
    x2, out2 = (expected[(v.ctypes.data - whole.ctypes.data) // 4:][:500] for v in (x, out))
    for b in range(0, 500, 32):
        out2[b:b + 32] = x2[b:b + 32] + 1
    dev(row_in_turns, (1,), x, out, 500, BLOCK=32, num_stages=stages)
    assert (whole == expected).all()


@pytest.mark.parametrize("shift", SHIFTS)
def test_what_is_stored_is_loaded_again(dev, shift):
    whole, x, out = shifted(256, shift)
    expected = whole.copy()
    x2, out2 = (expected[(v.ctypes.data - whole.ctypes.data) // 4:][:256] for v in (x, out))
    a = x2.copy()
    out2[:] = a
    out2[:] = x2.copy() + a
    dev(row_twice, (1,), x, out, BLOCK=256)
    assert (whole == expected).all()


@pytest.mark.parametrize("shift", SHIFTS)
def test_the_later_of_two_stores_stays(dev, shift):
    x = np.arange(256, dtype=np.int32)
    whole, a, b = shifted(256, shift)
    expected = whole.copy()
    a2, b2 = (expected[(v.ctypes.data - whole.ctypes.data) // 4:][:256] for v in (a, b))
    a2[:] = x
    b2[:] = x * 2
    dev(two_outputs, (1,), x, a, b, BLOCK=256)
    assert (whole == expected).all()


@tegula.jit
def halves(x, out, BLOCK: tl.constexpr):
    """`out` has the same memory as elements of half the size."""
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, v.to(tl.int16))
    tl.store(out + BLOCK + i, (v >> 16).to(tl.int16))


def test_other_elements(dev):
    x = np.random.default_rng(1).integers(-2**31, 2**31, 128).astype(np.int32)
    before = x.copy()
    out = x.view(np.int16)
    dev(halves, (1,), x, out, BLOCK=128)
    assert (out[:128] == before.astype(np.int16)).all() and (out[128:] == (before >> 16).astype(np.int16)).all()


@tegula.jit
def items(pair, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(pair[1] + i, tl.load(pair[0] + i, i < n) + 1, i < n)


@pytest.mark.parametrize("shift", [0, 1, -16])
def test_items_of_a_tuple(dev, shift):
    whole, x, out = shifted(500, shift)
    expected = x + 1
    dev(items, (1,), (x, out), 500, BLOCK=512)
    assert (out == expected).all()


@tegula.jit
def item_and_parameter(pair, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(pair[0] + i)
    tl.store(out + BLOCK - 1 - i, v)
    tl.store(pair[1] + i, v)


@pytest.mark.parametrize("shift", [0, 1])
def test_an_item_and_a_parameter(dev, shift):
    whole, x, out = shifted(256, shift)
    expected, other = x[::-1].copy(), np.zeros(256, np.int32)
    before = x.copy()
    dev(item_and_parameter, (1,), (x, other), out, BLOCK=256)
    assert (out == expected).all() and (other == before).all()


@tegula.jit
def by_descriptor(source, out, ROWS: tl.constexpr, COLS: tl.constexpr):
    v = source.load([0, 0])
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    tl.store(out + r * COLS + c, v + 1)


@pytest.mark.parametrize("shift", [0, 1, 32])
def test_a_descriptor(dev, shift):
    whole = np.random.default_rng(3).integers(-99, 99, 64 * 32 + shift).astype(np.int32)
    x, out = whole[:64 * 32].reshape(64, 32), whole[shift:].reshape(64, 32)
    expected = x + 1
    dev(by_descriptor, (1,), TensorDescriptor.from_tensor(x, [64, 32]), out, ROWS=64, COLS=32)
    assert (out == expected).all()


@tegula.jit
def transposed(x, out, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.store(out + j * B + i, tl.load(x + i * B + j))


@pytest.mark.parametrize("shift", [1, 64, -8])
def test_a_tile_transposed(dev, shift):
    whole, x, out = shifted(64 * 64, shift)
    expected = x.reshape(64, 64).T.copy()
    dev(transposed, (1,), x, out, B=64)
    assert (out.reshape(64, 64) == expected).all()


@tegula.jit
def three(x, y, out, n, BLOCK: tl.constexpr):
    """x and y overlap and are only read."""
    i = tl.arange(0, BLOCK)
    for b in range(0, n, BLOCK):
        tl.store(out + b + i, tl.load(x + b + i) + tl.load(y + b + i))


def test_what_is_only_read(dev):
    whole, x, y = shifted(512, 5)
    out = np.zeros(512, np.int32)
    dev(three, (1,), x, y, out, 512, BLOCK=64)
    assert (out == x + y).all()


@tegula.jit
def chain(a, b, c, BLOCK: tl.constexpr):
    """a overlaps b, and b overlaps c."""
    i = tl.arange(0, BLOCK)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(b + i, x)
    tl.store(c + i, y + tl.load(a + i))


def test_a_chain(dev):
    whole = np.arange(300, dtype=np.int32) * 7
    expected = whole.copy()
    a, b, c = (expected[k:k + 128] for k in (0, 77, 150))
    x, y = a.copy(), b.copy()
    b[:] = x
    c[:] = y + a
    dev(chain, (1,), *(whole[k:k + 128] for k in (0, 77, 150)), BLOCK=128)
    assert (whole == expected).all()


@tegula.jit(noinline=True)
def copy_row(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + 1)


@tegula.jit
def by_call(x, out, BLOCK: tl.constexpr):
    copy_row(x, out, BLOCK)


@pytest.mark.parametrize("shift", [0, 1, -3])
def test_in_a_function_of_its_own(dev, shift):
    whole, x, out = shifted(256, shift)
    expected = x + 1
    dev(by_call, (1,), x, out, BLOCK=256)
    assert (out == expected).all()
