"""§3.3 memory: masks, `other`, block pointers."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula.tools.tensor_descriptor import TensorDescriptor
from harness import CompileError, NO_FP8, assert_same, d, values

pytestmark = pytest.mark.section("3.3 memory")


@tegula.jit
def masked_copy(x, out, n, OTHER: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=OTHER))


@tegula.jit
def masked_store(x, out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("t", NO_FP8, ids=str)
@pytest.mark.parametrize("n", [0, 1, 63, 64, 100, 128])
def test_masks(dev, t, n):
    x = values(t, 128, n)
    other = True if t.kind == "b" else 7 if t.is_int else float("-inf")
    out = np.zeros(128, t.np)
    dev(masked_copy, (2,), x, out, n, other, 64)
    assert_same(out, np.where(np.arange(128) < n, x, np.array(other).astype(t.np)))
    out = np.full(128, 1, t.np)
    dev(masked_store, (2,), x, out, n, 64)
    assert_same(out, np.where(np.arange(128) < n, x, np.array(1).astype(t.np)))


@pytest.mark.parametrize("block", [1, 2, 8, 64, 256, 1024, 4096])
@pytest.mark.parametrize("n", [1, 5, 97, 1000, 5000])
def test_add_of_any_length(dev, block, n):
    x, y = values(d("float32"), n, 0), values(d("float32"), n, 1)
    out = np.full(n + 8, -1, np.float32)
    dev(add_kernel, (tegula.cdiv(n, block),), x, y, out, n, block)
    assert_same(out[:n], x + y)
    assert (out[n:] == -1).all()


@tegula.jit
def add_kernel(x, y, out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@tegula.jit
def copy_2d(x, out, rows, cols, sx0, sx1, so0, so1, M: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    c = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    mask = (r < rows) & (c < cols)
    tl.store(out + r * so0 + c * so1, tl.load(x + r * sx0 + c * sx1, mask=mask, other=0), mask=mask)


@pytest.mark.parametrize("rows, cols", [(1, 1), (16, 32), (17, 33), (50, 7), (3, 100)])
@pytest.mark.parametrize("order", ["CC", "CF", "FC", "FF"])
@pytest.mark.parametrize("t", ["float32", "int8", "float64", "float16"])
def test_strided_copy(dev, rows, cols, order, t):
    x = np.array(values(d(t), rows * cols, order).reshape(rows, cols), order=order[0])
    out = np.zeros((rows, cols), d(t).np, order=order[1])
    item = x.itemsize
    dev(copy_2d, (tegula.cdiv(rows, 16), tegula.cdiv(cols, 32)), x.ravel("K"), out.ravel("K"), rows, cols,
        x.strides[0] // item, x.strides[1] // item, out.strides[0] // item, out.strides[1] // item, 16, 32)
    assert_same(np.ascontiguousarray(out), np.ascontiguousarray(x))


@tegula.jit
def indirect(x, index, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + tl.load(index + i)))


@tegula.jit
def scatter(x, index, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + tl.load(index + i), tl.load(x + i))


@pytest.mark.parametrize("index", ["int32", "int64", "uint8", "int16", "uint32"])
@pytest.mark.parametrize("t", ["float32", "int8", "float64", "bfloat16", "int64"])
def test_gather_scatter(dev, index, t):
    n = 128
    x = values(d(t), n, "gs")
    order = np.random.default_rng(3).permutation(n).astype(d(index).np)
    out = np.zeros(n, d(t).np)
    dev(indirect, (1,), x, order, out, n)
    assert_same(out, x[order])
    dev(scatter, (1,), x, order, out, n)
    assert_same(out[order], x)


@tegula.jit
def wild_addresses(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    far = tl.where(i < n, i, i * 100000000)
    tl.store(out + i, tl.load(x + far, mask=i < n, other=-1))
    tl.store(out + far, 5, mask=(i < n) & (i > 60))


def test_masked_lanes_touch_nothing(dev):
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    dev(wild_addresses, (1,), x, out, 63, 64)
    e = np.where(np.arange(64) < 63, np.arange(64), -1)
    e[61:63] = 5
    assert_same(out, e.astype(np.int32))


@tegula.jit
def two_edges(x, out, R: tl.constexpr, C: tl.constexpr, STEP: tl.constexpr, OTHER: tl.constexpr):
    i = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    for k in tl.static_range(0, C + 1, STEP):
        v = tl.load(x + i, mask=(tl.arange(0, R)[:, None] < R - 1) & (tl.arange(0, C)[None, :] < k), other=OTHER)
        tl.store(out + k // STEP * (R * C) + i, v.to(out.dtype.element_ty))


@pytest.mark.parametrize("t, to, other", [("int32", "int16", 0), ("int32", "float16", 3), ("float32", "int8", 0), ("float32", "float32", 0),
                                          ("int64", "int16", 0), ("float64", "float16", 3), ("float64", "float64", 0), ("int8", "int8", 0)])
@pytest.mark.parametrize("r, c, step", [(4, 2, 1), (2, 32, 8), (2, 64, 21)])
def test_edges_that_are_known(dev, t, to, other, r, c, step):
    """Bounds that are numbers: parts of a row's mask are constants."""
    x = (np.arange(r * c) % 100 + 1).astype(t).reshape(r, c)
    out = np.zeros((c // step + 1, r, c), to)
    dev(two_edges, (1,), x, out, r, c, step, other)
    e = np.full(out.shape, other, to)
    for k in range(0, c + 1, step):
        e[k // step, :-1, :k] = x[:-1, :k]
    assert_same(out, e)


@tegula.jit
def strided(x, out, stride, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i * stride))
    tl.store(out + N + i, tl.load(x + (N - 1 - i) * stride))


@pytest.mark.parametrize("stride", [0, 1, 2, 3, 16])
def test_strides(dev, stride):
    x, out = np.arange(64 * 16, dtype=np.float32), np.zeros(128, np.float32)
    dev(strided, (1,), x, out, stride, 64)
    e = x[np.arange(64) * stride]
    assert_same(out, np.concatenate([e, e[::-1]]))


@tegula.jit
def wrap(x, out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i % n))


@pytest.mark.parametrize("n", [1, 5, 64, 100, 250, 1000])
def test_modulo_of_the_offset(dev, n):
    x, out = np.arange(n, dtype=np.float32), np.zeros(256, np.float32)
    dev(wrap, (4,), x, out, n, 64)
    assert_same(out, x[np.arange(256) % n])


@tegula.jit
def in_place_reverse(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + (N - 1 - i), tl.load(x + i))


@tegula.jit
def in_place_shift(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i + 1, tl.load(x + i))


@tegula.jit
def in_place_twice(x, y, N: tl.constexpr):
    # The second load sees the first store, through another argument of the same memory.
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) + 1)
    tl.debug_barrier()
    tl.store(y + i, tl.load(y + (N - 1 - i)) * 2)


def test_whole_load_before_whole_store(dev):
    for n in (8, 64, 1024):
        x = np.arange(n, dtype=np.int32)
        dev(in_place_reverse, (1,), x, n)
        assert_same(x, np.arange(n, dtype=np.int32)[::-1])
        x = np.arange(n + 1, dtype=np.int32)
        dev(in_place_shift, (1,), x, n)
        assert_same(x, np.concatenate([[0], np.arange(n)]).astype(np.int32))
        x = np.arange(n, dtype=np.int32)
        dev(in_place_twice, (1,), x, x, n)
        assert_same(x, (np.arange(n, dtype=np.int32)[::-1] + 1) * 2)


@tegula.jit
def fill_parts(x, fill, out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    mask, filled = i < n, tl.load(fill + i, mask=i < n, other=0) != 0
    v = tl.load(x + i, mask=mask & ~filled)
    tl.store(out + i, v, mask=mask & ~filled)
    tl.store(out + i, 7.0, mask=filled & mask)
    tl.store(out + n + i, v, mask=mask)
    tl.store(out + n + i, -v, mask=mask & (v < 0))
    tl.store(out + 2 * n + i // 2, v, mask=mask & (i % 2 == 0))
    tl.store(out + 2 * n + i // 2, i.to(tl.float32), mask=mask & (i % 2 != 0))


@pytest.mark.parametrize("n", [1, 63, 100, 128])
def test_two_stores_to_the_same_places(dev, n):
    """By a condition and its opposite; of all and then of some; where elements share a place the second one stays."""
    x, fill = values(d("float32"), n, n), (np.arange(n) % 3 == 1).astype(np.int8)
    x[fill != 0] = 0
    out = np.zeros(3 * n, np.float32)
    dev(fill_parts, (tegula.cdiv(n, 64),), x, fill, out, n, 64)
    assert_same(out[:n], np.where(fill, np.float32(7), x))
    kept = fill == 0
    assert_same(out[n:2 * n][kept], np.where(x < 0, -x, x)[kept])
    odd = np.arange(1, n, 2)
    assert_same(out[2 * n:2 * n + len(odd)], odd.astype(np.float32))


@tegula.jit
def scalar_memory(x, out):
    tl.store(out, tl.load(x + 3) + tl.load(x, mask=tl.program_id(0) == 0, other=9))
    tl.store(out + 1, tl.load(x, mask=tl.program_id(0) == 1, other=9))
    tl.store(out + 2, 77, mask=tl.program_id(0) == 1)
    out.store(tl.load(out))


def test_scalars(dev):
    x, out = np.array([10, 20, 30, 40], np.int32), np.zeros(3, np.int32)
    dev(scalar_memory, (1,), x, out)
    assert out.tolist() == [50, 9, 0]


@tegula.jit
def broadcast_args(x, out, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    v = tl.load(x + c, mask=r < 2, other=tl.full([1, 1], 5, tl.int32))
    tl.store(out + r * N + c, v)
    tl.store(out + M * N + r * N + c, r, mask=c < 4)
    tl.store(out + 2 * M * N + r * N + c, 3)


def test_masks_and_values_are_broadcast(dev):
    m, n = 4, 8
    x, out = np.arange(n, dtype=np.int32), np.zeros((3, m, n), np.int32)
    dev(broadcast_args, (1,), x, out.reshape(-1), m, n)
    r, c = np.mgrid[:m, :n]
    assert_same(out[0], np.where(r < 2, c, 5).astype(np.int32))
    assert_same(out[1], np.where(c < 4, r, 0).astype(np.int32))
    assert (out[2] == 3).all()


@tegula.jit
def modifiers(x, out, CACHE: tl.constexpr, STORE: tl.constexpr, EVICT: tl.constexpr, VOLATILE: tl.constexpr):
    i = tl.arange(0, 16)
    v = tl.load(x + i, cache_modifier=CACHE, eviction_policy=EVICT, volatile=VOLATILE)
    tl.store(out + i, v, cache_modifier=STORE, eviction_policy=EVICT)


@pytest.mark.parametrize("cache", ["", ".ca", ".cg", ".cv", ".cs"])
@pytest.mark.parametrize("store", ["", ".wb", ".cg", ".cs", ".wt"])
@pytest.mark.parametrize("evict, volatile", [("", False), ("evict_first", True), ("evict_last", False)])
def test_modifiers(dev, cache, store, evict, volatile):
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    dev(modifiers, (1,), x, out, cache, store, evict, volatile)
    assert_same(out, x)


@pytest.mark.parametrize("cache, store, evict, text", [(".xx", "", "", "[Cc]ache modifier"),
                                                       ("", ".ca", "", "[Cc]ache modifier"),
                                                       ("", "", "first", "[Ee]viction")])
def test_bad_modifiers(dev, cache, store, evict, text):
    with pytest.raises(CompileError, match=text):
        dev(modifiers, (1,), np.zeros(16, np.float32), np.zeros(16, np.float32), cache, store, evict, False)


@tegula.jit
def e_other_without_mask(x):
    tl.store(x, tl.load(x, other=0))


@tegula.jit
def e_block_mask(x):
    tl.store(x, tl.load(x, mask=tl.arange(0, 4) < 2))


@tegula.jit
def e_store_shape(x):
    tl.store(x, tl.arange(0, 4))


@tegula.jit
def e_mask_type(x):
    i = tl.arange(0, 4)
    tl.store(x + i, i, mask=i)


@tegula.jit
def e_load_int(x):
    tl.store(x, tl.load(tl.program_id(0)))


@tegula.jit
def e_boundary(x):
    tl.store(x, tl.load(x, boundary_check=(0,)))


@tegula.jit
def no_boundary(x, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N), boundary_check=(0), padding_option="")
    tl.store(x + tl.arange(0, N), v + 1, boundary_check=())
    tl.store(x + tl.arange(0, N), v + 2, boundary_check=(0))


def test_empty_boundary_check(dev):
    """`(0)` is no tuple but the number 0, and Triton takes it for none."""
    x = np.arange(16, dtype=np.float32)
    dev(no_boundary, (1,), x, 16)
    assert_same(x, np.arange(16, dtype=np.float32) + 2)


@tegula.jit
def e_padding(x):
    tl.store(x, tl.load(x, padding_option="zero"))


@tegula.jit
def e_keyword(x):
    tl.store(x, tl.load(x, maks=True))


@tegula.jit
def e_const_store(x: tl.const):
    tl.store(x, 1)


@pytest.mark.parametrize("kernel, text", [(e_other_without_mask, "`other` cannot be provided without `mask`"),
                                          (e_block_mask, "."), (e_store_shape, "."),
                                          (e_mask_type, "[Mm]ask must have boolean"), (e_load_int, "."),
                                          (e_boundary, "."), (e_padding, "."), (e_keyword, "maks"),
                                          (e_const_store, "Cannot store to a constant pointer")],
                         ids=lambda v: getattr(v, "__name__", ""))
def test_errors(dev, kernel, text):
    with pytest.raises(CompileError, match=text):
        dev(kernel, (1,), np.zeros(4, np.int32))


# Block pointers ------------------------------------------------------------------------------------------------------


@tegula.jit
def block_copy(x, out, rows, cols, sx, so, M: tl.constexpr, N: tl.constexpr, CHECK: tl.constexpr, PAD: tl.constexpr):
    p = tl.make_block_ptr(x, shape=(rows, cols), strides=(sx, 1), offsets=(tl.program_id(0) * M, tl.program_id(1) * N),
                          block_shape=(M, N), order=(1, 0))
    q = tl.make_block_ptr(out, (rows, cols), (so, 1), (tl.program_id(0) * M, tl.program_id(1) * N), (M, N), (1, 0))
    tl.store(q, tl.load(p, boundary_check=CHECK, padding_option=PAD), boundary_check=CHECK)


@pytest.mark.parametrize("rows, cols, check", [(32, 64, ()), (32, 64, (0, 1)), (33, 64, (0,)), (32, 50, (1,)),
                                               (7, 9, (0, 1)), (45, 99, (1, 0))])
@pytest.mark.parametrize("t", ["float32", "int16"])
def test_block_pointer_copy(dev, rows, cols, check, t):
    x = values(d(t), rows * cols, "bp").reshape(rows, cols)
    out = np.zeros((rows, cols), d(t).np)
    dev(block_copy, (tegula.cdiv(rows, 16), tegula.cdiv(cols, 32)), x.reshape(-1), out.reshape(-1), rows, cols, cols,
        cols, 16, 32, check, "zero")
    assert_same(out, x)


@tegula.jit
def block_read(x, out, rows, cols, r, c, PAD: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    p = tl.make_block_ptr(x, (rows, cols), (cols, 1), (0, 0), (M, N), (1, 0))
    p = tl.advance(p, (r, c))
    tl.static_assert(p.dtype == x.dtype or True)
    v = tl.load(p, boundary_check=(0, 1), padding_option=PAD)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


@pytest.mark.parametrize("r, c", [(0, 0), (-3, 2), (5, -6), (-20, -20), (6, 9), (100, 0)])
@pytest.mark.parametrize("pad", ["zero", "nan"])
def test_block_pointer_bounds(dev, r, c, pad):
    rows, cols, m, n = 10, 12, 8, 16
    x = np.arange(rows * cols, dtype=np.float32).reshape(rows, cols) + 1
    out = np.zeros((m, n), np.float32)
    dev(block_read, (1,), x.reshape(-1), out.reshape(-1), rows, cols, r, c, pad, m, n)
    e = np.full((m, n), 0 if pad == "zero" else np.nan, np.float32)
    for i in range(m):
        for j in range(n):
            if 0 <= i + r < rows and 0 <= j + c < cols:
                e[i, j] = x[i + r, j + c]
    assert_same(out, e)


@tegula.jit
def block_loop(x, out, rows, cols, M: tl.constexpr, N: tl.constexpr):
    p = tl.make_block_ptr(x, (rows, cols), (cols, 1), (0, 0), (M, N), (1, 0))
    total = tl.zeros([M, N], tl.float32)
    for _ in range(tl.cdiv(cols, N)):
        total += tl.load(p, boundary_check=(0, 1), padding_option="zero")
        p = p.advance((0, N))
    tl.store(out + tl.arange(0, M), tl.sum(total, 1))


@tegula.jit
def block_1d(x, out, n, N: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * N,), (N,), (0,))
    q = tl.make_block_ptr(base=out, shape=(n,), strides=(1,), offsets=(tl.program_id(0) * N,), block_shape=(N,),
                          order=(0,))
    tl.store(q, tl.load(p, boundary_check=(0,)) * 2, boundary_check=(0,))


def test_block_pointer_in_a_loop(dev):
    rows, cols = 8, 100
    x = np.arange(rows * cols, dtype=np.float32).reshape(rows, cols)
    out = np.zeros(8, np.float32)
    dev(block_loop, (1,), x.reshape(-1), out, rows, cols, 8, 32)
    assert_same(out, x.sum(1))
    y = np.zeros(101, np.float32)
    dev(block_1d, (4,), x.reshape(-1), y, 100, 32)
    assert_same(y, np.concatenate([x.reshape(-1)[:100] * 2, [0]]).astype(np.float32))


@tegula.jit
def block_transposed(x, out, rows, cols, M: tl.constexpr, N: tl.constexpr):
    p = tl.make_block_ptr(x, (cols, rows), (1, cols), (0, 0), (N, M), (0, 1))
    v = tl.load(p, boundary_check=(0, 1), padding_option="zero")
    tl.store(out + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], v)


def test_block_pointer_transposed(dev):
    x = np.arange(60, dtype=np.float32).reshape(6, 10)
    out = np.zeros((16, 8), np.float32)
    dev(block_transposed, (1,), x.reshape(-1), out.reshape(-1), 6, 10, 8, 16)
    e = np.zeros((16, 8), np.float32)
    e[:10, :6] = x.T
    assert_same(out, e)


@tegula.jit
def eb_mask(x):
    p = tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,))
    tl.store(x + tl.arange(0, 4), tl.load(p, mask=tl.arange(0, 4) < 2))


@tegula.jit
def eb_rank(x):
    p = tl.make_block_ptr(x, (4, 4), (1,), (0,), (4,), (0,))
    tl.store(p, 0)


@tegula.jit
def eb_dim(x):
    p = tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,))
    tl.store(p, tl.load(p, boundary_check=(1,)))


@tegula.jit
def eb_duplicate(x):
    p = tl.make_block_ptr(x, (4, 4), (4, 1), (0, 0), (4, 4), (1, 0))
    tl.store(p, tl.load(p, boundary_check=(1, 1)))


@tegula.jit
def eb_nan_int(x):
    p = tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,))
    tl.store(p, tl.load(p, boundary_check=(0,), padding_option="nan"))


@tegula.jit
def eb_order(x):
    p = tl.make_block_ptr(x, (4, 4), (4, 1), (0, 0), (4, 4), (1, 1))
    tl.store(p, tl.load(p))


@pytest.mark.parametrize("kernel", [eb_mask, eb_rank, eb_dim, eb_duplicate, eb_nan_int, eb_order],
                         ids=lambda k: k.__name__)
def test_block_pointer_errors(dev, kernel):
    with pytest.raises(CompileError):
        dev(kernel, (1,), np.zeros(16, np.int32))


@tegula.jit
def replace_scalar(p, out):
    v = tl.load(p)
    tl.store(p, 1)
    tl.store(out + tl.arange(0, 128), tl.zeros([128], tl.int32) + v)


@tegula.jit
def replace_few(p, out):
    a = p + tl.arange(0, 16)
    v = tl.load(a)
    tl.store(a, v + 1)
    i = tl.arange(0, 16)
    tl.store(out + i[:, None] * 16 + i[None, :], v[:, None] + tl.zeros([16, 16], tl.int32))


@tegula.jit
def read_back(p, out):
    tl.store(p, 5)
    tl.store(out + tl.arange(0, 128), tl.zeros([128], tl.int32) + tl.load(p))


@pytest.mark.parametrize("kernel,n,expected", [(replace_scalar, 1, np.zeros(128)), (replace_few, 16, np.arange(256) // 16),
                                               (read_back, 1, np.full(128, 5))], ids=lambda k: getattr(k, "__name__", ""))
def test_all_threads_load_what_one_thread_stores_through_one_pointer(dev, kernel, n, expected):
    """Many threads hold copies of a scalar or a small tile: the store must not overtake the loads of the others."""
    out = np.zeros(expected.size, np.int32)
    dev(kernel, (1, ), np.arange(n, dtype=np.int32), out)
    assert_same(out, expected.astype(np.int32))


@tegula.jit
def masked_one_place(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + (i[:, None] * 0 + i[None, :] * 0), mask=i[:, None] + tl.zeros([1, N], tl.int32) < n, other=0)
    tl.store(out + i[:, None] * N + i[None, :], tl.trans(v))


@tegula.jit
def masked_and_transposed(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    v = tl.load(x + at, mask=i[:, None] + tl.zeros([1, N], tl.int32) < n, other=-1)
    tl.store(out + at, tl.trans(v) * 1000 + v, mask=tl.trans(at) < n * N + 3)


@pytest.mark.parametrize("n", [0, 1, 3, 8, 15, 16])
def test_masks_belong_to_the_positions_before_a_transposition(dev, n):
    """A square tile has the shape of its transposition: rows that are inside say nothing of the columns."""
    N = 16
    x = np.arange(1, N * N + 1, dtype=np.int32)
    inside = (np.arange(N)[:, None] < n) & np.ones((N, N), bool)
    out = np.zeros((N, N), np.int32)
    dev(masked_one_place, (1,), x, out, n, N)
    assert_same(out, np.where(inside, 1, 0).T.astype(np.int32))
    v = np.where(inside, x.reshape(N, N), -1)
    out = np.zeros((N, N), np.int32)
    dev(masked_and_transposed, (1,), x, out, n, N)
    at = np.arange(N * N).reshape(N, N)
    assert_same(out, np.where(at.T < n * N + 3, v.T * 1000 + v, 0).astype(np.int32))


@tegula.jit
def sum_of_masked_or_zero(x, out, n):
    i = tl.arange(0, 8)
    j = tl.arange(0, 2)
    v = tl.full([2], 0.0, tl.float32)
    if n > 0:
        v = tl.sum(tl.load(x + i[:, None] * 4 + j[None, :], mask=i[:, None] < n, other=0.0), 0)
    tl.store(out + j, v, mask=j < n)


@tegula.jit(noinline=True)
def counts(n):
    return tl.histogram(tl.cat(tl.full([2], 1, tl.int32), tl.full([2], 0, tl.int32), dim=0) + (n - n), 2)


@tegula.jit
def dropped_counts(out, n):
    counts(n)
    i = tl.arange(0, 2)
    tl.store(out + i, i + n, mask=i < n)


def test_values_whose_operands_have_other_positions(dev):
    x = np.arange(32, dtype=np.float32)
    for n in (0, 1, 3):
        out = np.full(2, -1, np.float32)
        dev(sum_of_masked_or_zero, (1,), x, out, n)
        assert_same(out, np.where(np.arange(2) < n, x.reshape(8, 4)[:n, :2].sum(0), -1).astype(np.float32))
    out = np.zeros(2, np.int32)
    dev(dropped_counts, (1,), out, 5)
    assert_same(out, np.array([5, 6], np.int32))


@tegula.jit
def turned_pointers(x, out, N: tl.constexpr, M: tl.constexpr, W: tl.constexpr):
    """Addresses that a loop needs, dear enough to be kept, read in another order than they lie in."""
    p = x + (tl.arange(0, N)[:, None] * 3 + tl.arange(0, M)[None, :]) % W
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.zeros([M, N], tl.int32)
    for k in range(3):
        v += tl.trans(tl.load(p)) * k
    tl.store(out + i, v)


@pytest.mark.parametrize("n, m", [(2, 4), (4, 2), (4, 4), (8, 16), (32, 32), (64, 8)])
@pytest.mark.parametrize("w", [2, 5])
def test_pointers_in_another_order(dev, n, m, w):
    x, out = np.arange(1, 6, dtype=np.int32), np.zeros((m, n), np.int32)
    dev(turned_pointers, (1,), x, out, n, m, w)
    assert_same(out, x[(np.arange(n)[:, None] * 3 + np.arange(m)[None, :]) % w].T * 3)


@tegula.jit
def rows_of_eight_bytes(n, w, a, b, x, flags, o7, o8, o9, stride, out):
    """Eight columns under a mask that lives long: masks of eight bytes are half of a register's."""
    r, c = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    tl.atomic_store(w + tl.full([4, 8], 0, tl.int32), tl.interleave(a.load([0, -1]), tl.full([4, 4], 0, tl.int32)), tl.full([4, 8], False, tl.int1))
    p, q = tl.split(tl.reshape(tl.where(tl.load(flags + tl.full([4], 0, tl.int32)), tl.full([4], False, tl.int1), tl.load(flags + tl.arange(0, 4))), [2, 2]))
    tl.store(o7 + tl.arange(0, 2), p)
    tl.store(o8 + tl.arange(0, 2), q)
    tl.store(o9 + r * stride + c, tl.full([4, 8], 0, tl.int32))
    other = tl.load(x + (b.load([0, 0]) & 1))
    value = tl.load(x + tl.full([4, 8], 0, tl.int32), mask=(r < n) & (c < n), other=other)
    tl.store(out + r * 2 + c, value, mask=tl.full([4, 1], True, tl.int1) & (c < n))


def test_masks_of_eight_bytes(dev):
    a = TensorDescriptor(np.arange(64, dtype=np.int32), [5, 9], [12, 1], [4, 4])
    b = TensorDescriptor(np.arange(64, dtype=np.int32), [6, 8], [8, 1], [4, 8])
    x, flags, out = np.array([7, 9], np.uint8), np.array([1, 0, 1, 0], bool), np.full(64, 200, np.uint8)
    o9 = np.ones(32, np.int32)
    dev(rows_of_eight_bytes, (1,), 2, np.zeros(1, np.int32), a, b, x, flags, np.zeros(2, bool), np.zeros(2, bool), o9, 8, out)
    assert out[:8].tolist() == [7, 7, 7, 7, 7, 9, 7, 9] and (out[8:] == 200).all() and not o9.any()


@tegula.jit
def by_channel(x, w, out, n, size, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i, mask=i < n) * tl.load(w + i // size, mask=i < n, other=7), mask=i < n)


@pytest.mark.parametrize("size", [1, 5, 16, 48, 4096])
@pytest.mark.parametrize("n", [2048, 2000, 1999])
def test_equal_neighbours(dev, size, n):
    # Addresses that are equal in groups: read once, where the whole group is.
    x, w = values(d("float32"), 2048, 0), values(d("float32"), 2048, 1)
    out = np.zeros(2048, np.float32)
    dev(by_channel, (2,), x, w, out, n, size, 1024)
    assert_same(out, np.where(np.arange(2048) < n, x * w[np.arange(2048) // size], 0).astype(np.float32))


@tegula.jit
def rows_and_channels(w, bias, out, rows, size, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    # Equal along both axes, in groups; and rows that are all equal, of consecutive elements.
    grouped = tl.load(w + (r // size) * N + c // size, mask=(r < rows) & (c < N), other=1)
    tl.store(out + r * N + c, grouped + tl.load(bias + c + 0 * r, mask=r < rows, other=2))


@pytest.mark.parametrize("size", [1, 3, 16, 32])
@pytest.mark.parametrize("rows", [64, 48, 7])
def test_equal_rows(dev, size, rows):
    w, bias = values(d("int32"), 64 * 64, 0), values(d("int32"), 64, 1)
    out = np.zeros((64, 64), np.int32)
    dev(rows_and_channels, (1,), w, bias, out, rows, size, 64, 64)
    r, c = np.arange(64)[:, None], np.arange(64)[None, :]
    assert_same(out, np.where(r < rows, w[r // size * 64 + c // size] + bias[c], 3))
