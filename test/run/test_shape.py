"""§3.1 programs and creation, §3.2 shape manipulation."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import ALL, CompileError, apply, apply1_pair, assert_same, bits, d, rng, values

creation = pytest.mark.section("3.1 creation")
shape = pytest.mark.section("3.2 shape")


@tegula.jit
def grid_kernel(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(axis=2)
    nx, ny, nz = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    tl.static_assert(x.dtype == tl.int32)
    at = (z * ny + y) * nx + x
    tl.store(out + at, x * 10000 + y * 100 + z + nx * ny * nz * 1000000)


@creation
@pytest.mark.parametrize("grid", [(1,), (7,), (1000,), (5, 3), (1, 9), (3, 4, 5), (1, 1, 6)], ids=str)
def test_grid(dev, grid):
    full = tuple(grid) + (1,) * (3 - len(grid))
    out = np.zeros(int(np.prod(grid)), np.int32)
    dev(grid_kernel, grid, out)
    z, y, x = np.meshgrid(*(np.arange(n) for n in reversed(full)), indexing="ij")
    assert_same(out, (x * 10000 + y * 100 + z + np.prod(grid) * 1000000).astype(np.int32).ravel())


@tegula.jit
def bad_axis(out, AXIS: tl.constexpr):
    tl.store(out, tl.program_id(AXIS))


@creation
@pytest.mark.parametrize("axis", [3, -1])
def test_bad_axis(dev, axis):
    with pytest.raises(CompileError, match="program_id axis must be 0, 1, or 2"):
        dev(bad_axis, (1,), np.zeros(1, np.int32), axis)


@tegula.jit
def arange_kernel(out, START: tl.constexpr, END: tl.constexpr):
    r = tl.arange(START, END)
    tl.static_assert(r.dtype == tl.int32)
    tl.store(out + tl.arange(0, END - START), r)


@creation
@pytest.mark.parametrize("start, end", [(0, 1), (0, 2), (0, 128), (5, 13), (-8, 8), (-64, 0), (100000, 100512)])
def test_arange(dev, start, end):
    out = np.zeros(end - start, np.int32)
    dev(arange_kernel, (1,), out, start, end)
    assert_same(out, np.arange(start, end, dtype=np.int32))


@creation
@pytest.mark.parametrize("start, end, text", [(0, 2**20 + 1, "maximum"), (0, 0, "."), (8, 4, "."),
                                              (2**31 - 4, 2**31 + 4, ".")])
def test_bad_arange(dev, start, end, text):
    with pytest.raises(CompileError, match=text):
        dev(arange_kernel, (1,), np.zeros(16, np.int32), start, end)


@tegula.jit
def arange_runtime(out, n):
    tl.store(out + tl.arange(0, n), 0)


@creation
def test_arange_of_runtime_value(dev):
    with pytest.raises(CompileError, match="constexpr"):
        dev(arange_runtime, (1,), np.zeros(16, np.int32), 16)


@tegula.jit
def f_full(a, shape, value, dtype):
    return tl.full(shape, value, dtype)


@tegula.jit
def f_full_of(a, shape, dtype):
    return tl.full(shape, a, dtype)


@tegula.jit
def f_zeros(a, shape, dtype):
    return tl.zeros(shape, dtype)


@tegula.jit
def f_zeros_like(a):
    return tl.zeros_like(a)


@creation
@pytest.mark.parametrize("t", [t for t in ALL], ids=str)
@pytest.mark.parametrize("shp", [(8,), (4, 8), ()], ids=str)
def test_full(dev, t, shp):
    v = True if t.kind == "b" else 3 if t.is_int else 1.5
    r = apply(dev, f_full, [np.zeros(1, np.int32)], shp, t.np, (shp, v, t.tl))
    assert_same(r, np.full(shp, v, t.np))
    assert_same(apply(dev, f_zeros, [np.zeros(1, np.int32)], shp, t.np, (shp, t.tl)), np.zeros(shp, t.np))
    assert_same(apply(dev, f_zeros_like, [np.ones(shp, t.np)], shp, t.np), np.zeros(shp, t.np))


@creation
@pytest.mark.parametrize("value, t", [(-1, "int8"), (float("-inf"), "float32"), (float("nan"), "float16"),
                                      (-0.0, "float32"), (7, "float64"), (float("-inf"), "bfloat16"),
                                      (1e300, "float64"), (2**40, "int64")], ids=str)
def test_full_value(dev, value, t):
    assert_same(apply(dev, f_full, [np.zeros(1, np.int32)], (16,),
                      d(t).np, ((16,), value, d(t).tl)), np.full(16, value,
                                                                  d(t).np))


@creation
def test_full_of_a_tensor(dev):
    assert_same(apply(dev, f_full_of, [np.array(7, np.int32)], (4, 4), np.float32, ((4, 4), tl.float32)),
                np.full((4, 4), 7, np.float32))
    assert_same(apply(dev, f_full_of, [np.array([7], np.int32)], (4,), np.int32, (4, tl.int32)),
                np.full(4, 7, np.int32))


# §3.2 ----------------------------------------------------------------------------------------------------------------


@tegula.jit
def i_none_first(x):
    return x[None, :]


@tegula.jit
def i_none_last(x):
    return x[:, None]


@tegula.jit
def i_none_both(x):
    return x[None, :, None]


@tegula.jit
def i_none_middle(x):
    return x[:, None, :]


@tegula.jit
def i_all(x):
    return x[:, :]


@tegula.jit
def i_scalar(x):
    return x[None]


@tegula.jit
def f_expand(x, axis):
    return tl.expand_dims(x, axis)


@tegula.jit
def f_expand_method(x, axis):
    return x.expand_dims(axis)


@tegula.jit
def f_squeeze(x, dim):
    return tl.squeeze(x, dim)


@tegula.jit
def f_unsqueeze(x, dim):
    return tl.unsqueeze(x, dim)


@tegula.jit
def f_reshape(x, *shape):
    return tl.reshape(x, *shape)


@tegula.jit
def f_reshape_list(x, shape):
    return x.reshape(shape)


@tegula.jit
def f_ravel(x):
    return tl.ravel(x)


@tegula.jit
def f_ravel_method(x):
    return x.ravel()


@tegula.jit
def f_trans(x, *dims):
    return tl.trans(x, *dims)


@tegula.jit
def f_trans_method(x):
    return x.trans()


@tegula.jit
def f_permute(x, *dims):
    return tl.permute(x, *dims)


@tegula.jit
def f_permute_list(x, dims):
    return x.permute(dims)


@tegula.jit
def f_T(x):
    return x.T


@tegula.jit
def f_join(a, b):
    return tl.join(a, b)


@tegula.jit
def f_interleave(a, b):
    return tl.interleave(a, b)


@tegula.jit
def f_cat(a, b, dim):
    return tl.cat(a, b, dim=dim)


@tegula.jit
def f_item(x):
    return x.item()


@tegula.jit
def f_flip(x, dim):
    return tl.flip(x, dim)


@tegula.jit
def f_flip_method(x, dim):
    return x.flip(dim)


@tegula.jit
def f_join_split(x):
    # Reshape to pairs, exchange them, put them back.
    a, b = tl.split(tl.reshape(x, [x.shape[0] // 2, 2]))
    return tl.reshape(tl.join(b, a), x.shape)


def pairs_exchanged(x):
    return x.reshape(-1, 2)[:, ::-1].reshape(x.shape)


ONE = [
    (i_none_first, (), (8,), lambda x: x[None, :]),
    (i_none_last, (), (8,), lambda x: x[:, None]),
    (i_none_both, (), (8,), lambda x: x[None, :, None]),
    (i_none_middle, (), (4, 8), lambda x: x[:, None, :]),
    (i_all, (), (4, 8), lambda x: x),
    (i_scalar, (), (), lambda x: x[None]),
    (f_expand, (0,), (8,), lambda x: x[None]),
    (f_expand, (-1,), (8,), lambda x: x[..., None]),
    (f_expand, (1,), (4, 8), lambda x: x[:, None]),
    (f_expand, ((0, 2),), (8,), lambda x: x[None, :, None]),
    (f_expand, ((0, -1),), (4, 8), lambda x: x[None, ..., None]),
    (f_expand_method, (1,), (8,), lambda x: x[:, None]),
    (f_expand, (0,), (), lambda x: x[None]),
    (f_squeeze, (0,), (1, 8), lambda x: x[0]),
    (f_squeeze, (1,), (4, 1, 8), lambda x: x[:, 0]),
    (f_unsqueeze, (0,), (8,), lambda x: x[None]),
    (f_unsqueeze, (2,), (4, 8), lambda x: x[..., None]),
    (f_reshape, (4, 8), (32,), lambda x: x.reshape(4, 8)),
    (f_reshape, (32,), (4, 8), lambda x: x.reshape(32)),
    (f_reshape, (2, 2, 8), (8, 4), lambda x: x.reshape(2, 2, 8)),
    (f_reshape_list, ((8, 4),), (4, 8), lambda x: x.reshape(8, 4)),
    (f_reshape, (1, 32, 1), (32,), lambda x: x.reshape(1, 32, 1)),
    (f_reshape_list, ((),), (1,), lambda x: x.reshape(())),
    (f_reshape, (1024, 2), (2, 1024), lambda x: x.reshape(1024, 2)),
    (f_ravel, (), (4, 8), lambda x: x.ravel()),
    (f_ravel_method, (), (2, 4, 8), lambda x: x.ravel()),
    (f_ravel, (), (16,), lambda x: x),
    (f_trans, (), (4, 8), lambda x: x.T),
    (f_trans, (), (2, 4, 8), lambda x: x.swapaxes(-1, -2)),
    (f_trans, (2, 0, 1), (2, 4, 8), lambda x: x.transpose(2, 0, 1)),
    (f_trans_method, (), (16, 32), lambda x: x.T),
    (f_T, (), (64, 32), lambda x: x.T),
    (f_T, (), (1, 8), lambda x: x.T),
    (f_permute, (1, 0), (16, 4), lambda x: x.T),
    (f_permute, (0, 2, 1), (2, 4, 8), lambda x: x.transpose(0, 2, 1)),
    (f_permute_list, ((2, 1, 0),), (2, 4, 8), lambda x: x.transpose(2, 1, 0)),
    (f_permute, (3, 1, 0, 2), (2, 4, 8, 2), lambda x: x.transpose(3, 1, 0, 2)),
    (f_item, (), (1,), lambda x: x[0]),
    (f_item, (), (1, 1), lambda x: x[0, 0]),
    (f_flip, (0,), (8,), lambda x: x[::-1]),
    (f_flip, (0,), (4, 8), lambda x: x[::-1]),
    (f_flip, (1,), (4, 8), lambda x: x[:, ::-1]),
    (f_flip, (-1,), (2, 4, 8), lambda x: x[..., ::-1]),
    (f_flip, (1,), (2, 4, 8), lambda x: x[:, ::-1]),
    (f_flip_method, (0,), (1024,), lambda x: x[::-1]),
    (f_join_split, (), (64,), pairs_exchanged),
]
TYPES = ["int32", "float16", "int8", "float64", "int1", "float8e5"]


@shape
@pytest.mark.parametrize("row", ONE, ids=lambda r: f"{r[0].__name__}-{r[1]}-{r[2]}")
@pytest.mark.parametrize("t", TYPES)
def test_one(dev, row, t):
    fn, args, shp, ref = row
    n = int(np.prod(shp))
    x = (values(d(t), n)
         if d(t).bits > 8 or d(t).kind == "b" else np.arange(n, dtype=np.uint8).view(d(t).np)).reshape(shp)
    e = np.ascontiguousarray(ref(x))
    got = apply(dev, fn, [x], np.shape(ref(x)), d(t).np, args)
    assert np.array_equal(bits(got).ravel(), bits(e).ravel())


TWO = [
    (f_join, (), (8,), lambda a, b: np.stack([a, b], -1)),
    (f_join, (), (4, 8), lambda a, b: np.stack([a, b], -1)),
    (f_join, (), (), lambda a, b: np.stack([a, b], -1)),
    (f_join, (), (1,), lambda a, b: np.stack([a, b], -1)),
    (f_interleave, (), (8,), lambda a, b: np.stack([a, b], -1).reshape(16)),
    (f_interleave, (), (4, 8), lambda a, b: np.stack([a, b], -1).reshape(4, 16)),
    (f_interleave, (), (), lambda a, b: np.stack([a, b])),
    (f_cat, (0,), (8,), lambda a, b: np.concatenate([a, b])),
    (f_cat, (0,), (4, 8), lambda a, b: np.concatenate([a, b])),
    (f_cat, (1,), (4, 8), lambda a, b: np.concatenate([a, b], 1)),
    (f_cat, (1,), (2, 4, 8), lambda a, b: np.concatenate([a, b], 1)),
]


@shape
@pytest.mark.parametrize("row", TWO, ids=lambda r: f"{r[0].__name__}-{r[1]}-{r[2]}")
@pytest.mark.parametrize("t", TYPES[:4])
def test_two(dev, row, t):
    fn, args, shp, ref = row
    n = int(np.prod(shp))
    a, b = values(d(t), n, "a").reshape(shp), values(d(t), n, "b").reshape(shp)
    e = ref(a, b)
    assert_same(apply(dev, fn, [a, b], e.shape, d(t).np, args), e)


@tegula.jit
def f_split(x):
    return tl.split(x)


@shape
@pytest.mark.parametrize("shp", [(8, 2), (2,), (4, 8, 2), (1, 2)], ids=str)
@pytest.mark.parametrize("t", TYPES[:4])
def test_split(dev, shp, t):
    x = values(d(t), int(np.prod(shp)), "split").reshape(shp)
    half = shp[:-1]
    a, b = np.zeros(x.size // 2, d(t).np), np.zeros(x.size // 2, d(t).np)
    dev(apply1_pair, (1,), x.ravel(), a, b, f_split, (), shp, half)
    assert_same(a, x[..., 0].ravel())
    assert_same(b, x[..., 1].ravel())


@tegula.jit
def cat_any_order(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + tl.arange(0, 2 * N), tl.cat(tl.load(x + i), tl.load(y + i), can_reorder=True))


@tegula.jit
def view_any_order(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out + tl.arange(0, N), tl.ravel(tl.view(v, N // 4, 4), can_reorder=True))


@shape
def test_any_order(dev):
    x, y, out = values(d("int32"), 16, 0), values(d("int32"), 16, 1), np.zeros(32, np.int32)
    dev(cat_any_order, (1,), x, y, out, 16)
    assert np.array_equal(np.sort(out), np.sort(np.concatenate([x, y])))
    dev(view_any_order, (1,), x, out, 16)
    assert np.array_equal(np.sort(out[:16]), np.sort(x))


@tegula.jit
def swizzle_kernel(out, SI: tl.constexpr, SJ: tl.constexpr, SG: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    ni, nj = tl.swizzle2d(i, j, SI, SJ, SG)
    tl.store(out + i * SJ + j, ni * SJ + nj)


@shape
@pytest.mark.parametrize("si, sj, sg", [(4, 4, 2), (5, 7, 3), (8, 3, 8), (3, 9, 1), (7, 5, 4), (1, 6, 2)])
def test_swizzle2d(dev, si, sj, sg):
    out = np.zeros(si * sj, np.int32)
    dev(swizzle_kernel, (si, sj), out, si, sj, sg)
    e = np.zeros(si * sj, np.int32)
    for k in range(si * sj):
        first = k // (sg * sj) * sg
        rows, inside = min(si - first, sg), k % (sg * sj)
        e[k] = (first + inside % rows) * sj + inside // rows
    assert_same(out, e)
    assert sorted(out.tolist()) == list(range(si * sj))


@tegula.jit
def e_reshape(x):
    return tl.reshape(x, [4, 4])


@tegula.jit
def e_expand(x):
    return tl.expand_dims(x, 5)


@tegula.jit
def e_expand_twice(x):
    return tl.expand_dims(x, (0, 0))


@tegula.jit
def e_permute(x):
    return tl.permute(x, 0, 0)


@tegula.jit
def e_trans(x):
    return tl.trans(x)


@tegula.jit
def e_split(x):
    return tl.split(x)[0]


@tegula.jit
def e_join(x):
    return tl.join(x, x.to(tl.float32))


@tegula.jit
def e_squeeze(x):
    return tl.squeeze(x, 0)


@tegula.jit
def e_item(x):
    return x.item()


@tegula.jit
def e_setitem(x):
    x[0] = 1
    return x


@shape
@pytest.mark.parametrize("fn, text", [(e_reshape, "cannot change total number of elements"),
                                      (e_expand, "invalid axis"), (e_expand_twice, "duplicate axes"),
                                      (e_permute, "permutation"), (e_trans, "."), (e_split, "."), (e_join, "."),
                                      (e_squeeze, "."), (e_item, "."), (e_setitem, "__setitem__|assign")],
                         ids=lambda v: getattr(v, "__name__", ""))
def test_errors(dev, fn, text):
    with pytest.raises(CompileError, match=text):
        apply(dev, fn, [np.zeros(8, np.int32)], (8,), np.int32)


@tegula.jit
def colons_at_the_end(out, x, N: tl.constexpr):
    p = out[None, None, :]
    v = tl.load(x + tl.arange(0, N))
    tl.static_assert(p.shape == [1, 1] and v[:, :].shape == [N] and v[:, None, :].shape == [N, 1])
    tl.store(p, tl.sum(v[:, :], axis=0, keep_dims=True)[None, :])


@shape
def test_colons_at_the_end(dev):
    out = np.zeros(1, np.int32)
    dev(colons_at_the_end, (1,), out, np.arange(8, dtype=np.int32), 8)
    assert out[0] == 28


@tegula.jit
def axis_after_colons(out):
    tl.store(out[:, None], 0)


@tegula.jit
def slice_of_a_pointer(out):
    tl.store(out[4:], 0)


@shape
@pytest.mark.parametrize("kernel", [axis_after_colons, slice_of_a_pointer])
def test_axes_that_are_not_there(dev, kernel):
    with pytest.raises(CompileError, match="unsupported tensor index: too many indices for a tensor of rank 0"):
        dev(kernel, (1,), np.zeros(8, np.int32), strict=kernel is axis_after_colons)  # a block of one element without


@tegula.jit
def _butterfly(x, N: tl.constexpr, STRIDE: tl.constexpr):
    a, b = tl.split(tl.permute(tl.reshape(x, (N // (2 * STRIDE), 2, STRIDE)), (0, 2, 1)))
    return tl.reshape(tl.permute(tl.join(a + b, a - b), (0, 2, 1)), (N,))


@tegula.jit
def hadamard(x, out, ROWS: tl.constexpr, N: tl.constexpr, LOG: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.reshape(tl.load(x + at), (ROWS * N,))
    for i in tl.static_range(LOG):
        v = _butterfly(v, ROWS * N, 1 << i)
    tl.store(out + at, tl.reshape(v, (ROWS, N)))


@shape
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("rows, n", [(1, 128), (1, 4), (2, 32), (16, 128), (4, 256)])
def test_stages_of_split_and_join(dev, rows, n, warps):
    """A fast Hadamard transform: pairs that lie in registers, lanes and warps, with and without elements left for each thread."""
    x = rng(rows * n, n).integers(-8, 8, (rows, n)).astype(np.float32)
    out = np.zeros_like(x)
    log = n.bit_length() - 1
    dev(hadamard, (1,), x, out, rows, n, log, num_warps=warps)
    h = np.array([[1.0]])
    for _ in range(log):
        h = np.block([[h, h], [h, -h]])
    assert_same(out, (x @ h).astype(np.float32))
