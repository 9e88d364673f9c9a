"""CPUs run neighbouring programs whose tiles go on in memory as one (targets/cpu/plan/GroupPrograms.h): groups are cut where the grid or a quotient of the program's number ends. §1.2."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same

pytestmark = pytest.mark.section("1.2 program_id")


@tegula.jit
def tiles(x, bias, scales, out, M, N, stride, FORM: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    if FORM == "x":
        pm, pn = tl.program_id(1), tl.program_id(0)
    elif FORM == "y":
        pm, pn = tl.program_id(0), tl.program_id(1)
    else:
        across = tl.cdiv(N, C)
        pm, pn = tl.program_id(0) // across, tl.program_id(0) % across
    r = pm * R + tl.arange(0, R)
    c = pn * C + tl.arange(0, C)
    m = (r < M)[:, None] & (c < N)[None, :]
    at = r[:, None] * stride + c[None, :]
    v = tl.load(x + at, mask=m, other=0) + tl.load(bias + c, mask=c < N, other=0)[None, :]
    v = v * tl.load(scales + pn)  # a number of the program
    v = tl.where((pn % 2 == 1) & (r[:, None] < c[None, :]), v, v + pm.to(v.dtype))
    tl.store(out + at, v.to(out.dtype.element_ty), mask=m)


def expected(x, bias, scales, M, N, R, C, out):
    r, c = np.arange(M)[:, None], np.arange(N)[None, :]
    v = (x[:, :N] + bias[None, :]) * scales[c // C]
    v = np.where((c // C % 2 == 1) & (r < c), v, v + (r // R).astype(x.dtype))
    want = out.copy()
    want[:, :N] = v.astype(out.dtype)
    return want


@pytest.mark.parametrize("form", ["x", "y", "quotients"])
@pytest.mark.parametrize("shape", [(9, 37), (33, 1000), (64, 4096), (5, 64), (1, 3000), (200, 70), (3, 32 * 65)])
@pytest.mark.parametrize("tile", [(4, 32), (32, 64), (1, 128), (8, 256), (16, 16)])
def test_tiles_of_many_programs(dev, form, shape, tile):
    (M, N), (R, C) = shape, tile
    stride = N + 3
    down, across = tegula.cdiv(M, R), tegula.cdiv(N, C)
    x = np.random.default_rng(M * N).integers(-50, 50, (M, stride)).astype(np.float32)
    bias, scales = np.arange(N, dtype=np.float32) % 7, np.arange(across, dtype=np.float32) % 5 - 2
    out = np.full_like(x, -1)
    want = expected(x, bias, scales, M, N, R, C, out)
    dev(tiles, {"x": (across, down), "y": (down, across), "quotients": (down * across,)}[form], x, bias, scales, out, M, N, stride, form, R, C)
    assert_same(out, want)


@tegula.jit
def elements(x, out, n, R: tl.constexpr, C: tl.constexpr):
    at = tl.program_id(1) * R * n + tl.arange(0, R)[:, None] * n + tl.program_id(0) * C + tl.arange(0, C)[None, :]
    tl.store(out + at, tl.load(x + at))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.int64, np.bool_])
@pytest.mark.parametrize("across", [1, 2, 7, 64, 129])
@pytest.mark.parametrize("C", [16, 32])
def test_element_types(dev, dtype, across, C):
    R = 8
    x = np.random.default_rng(across).integers(0, 2 if dtype is np.bool_ else 100, (3 * R, across * C)).astype(dtype)
    out = np.zeros_like(x)
    dev(elements, (across, 3), x, out, across * C, R, C)
    assert_same(out, x)


@tegula.jit
def in_place(x, n, FORM: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    c = tl.program_id(0) * C + tl.arange(0, C)
    at = tl.program_id(1) * R * n + tl.arange(0, R)[:, None] * n + c[None, :]
    v = tl.load(x + at, mask=c[None, :] < n)
    if FORM == "flipped":  # needs the tile as a whole
        v = tl.flip(v, 0)
    elif FORM == "twice":
        tl.store(x + at, v * 2, mask=c[None, :] < n)
        v = tl.load(x + at, mask=c[None, :] < n)
    elif FORM == "parts":
        a, b = tl.split(tl.reshape(v, (R, C // 2, 2)))
        v = tl.reshape(tl.join(b, a), (R, C))
    elif FORM == "turned":
        v = tl.trans(tl.trans(v) + tl.arange(0, R)[None, :])
    tl.store(x + at, v + 1, mask=c[None, :] < n)


@pytest.mark.parametrize("form", ["same", "flipped", "twice", "parts", "turned"])
@pytest.mark.parametrize("n", [32, 200, 2000])
def test_in_place(dev, form, n):
    R, C = 8, 64
    x = np.random.default_rng(n).integers(0, 100, (2 * R, n)).astype(np.float32)
    t = x.reshape(2, R, n)
    want = {"same": t, "flipped": t[:, ::-1], "twice": t * 2, "turned": t + np.arange(R, dtype=np.float32)[None, :, None],
            "parts": t.reshape(2, R, n // 2, 2)[..., ::-1].reshape(2, R, n)}[form] + 1
    dev(in_place, (tegula.cdiv(n, C), 2), x, n, form, R, C)
    assert_same(x, want.reshape(2 * R, n).astype(np.float32))


@tegula.jit
def planes(x, out, N, R: tl.constexpr, C: tl.constexpr):
    c = tl.program_id(0) * C + tl.arange(0, C)[None, None, :]
    at = (tl.program_id(2) * 2 + tl.arange(0, 2)[:, None, None]) * 3 * R * N + (tl.program_id(1) * R + tl.arange(0, R)[None, :, None]) * N + c
    tl.store(out + at, tl.load(x + at, mask=c < N) * 3, mask=c < N)


@pytest.mark.parametrize("N", [50, 640, 3000])
def test_three_dimensions(dev, N):
    x = np.random.default_rng(N).integers(-9, 9, (4, 12, N)).astype(np.int32)
    out = np.zeros_like(x)
    dev(planes, (tegula.cdiv(N, 32), 3, 2), x, out, N, 4, 32)
    assert_same(out, x * 3)
