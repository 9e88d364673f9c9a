"""Programs of a grid that run longest start first (gpu/OrderPrograms.h): each program runs once, whatever the grid. §1.2."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same

pytestmark = pytest.mark.section("1.2 program_id")


@tegula.jit
def counts(x, seen, AXES: tl.constexpr, GROWS: tl.constexpr):
    """Tiles of the program added up, and how often the program ran."""
    i, n = tl.program_id(0), tl.num_programs(0)
    at = i
    if AXES > 1:
        at += n * tl.program_id(1)
    if AXES > 2:
        at += n * tl.num_programs(1) * tl.program_id(2)
    rows = tl.arange(0, 16)
    ones = tl.full((16, 16), 1.0, tl.float16)
    acc = tl.zeros((16, 16), tl.float32)
    for _ in range(0 if GROWS else i, i + 1 if GROWS else n):
        acc = tl.dot(ones, ones, acc)
    tl.store(x + at * 256 + rows[:, None] * 16 + rows[None, :], acc)
    tl.store(seen + at, tl.load(seen + at) + 1)


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("grid", [(7,), (1, 5), (3, 7), (2, 3, 5), (40, 3), (33, 2, 9), (600, 2), (1, 600)])
def test_each_program_once(dev, grid, grows):
    nx, others = grid[0], int(np.prod(grid[1:]))
    x, seen = np.zeros((others, nx, 16, 16), np.float32), np.zeros((others, nx), np.int32)
    dev(counts, grid, x, seen, len(grid), grows, num_warps=1)
    assert (seen == 1).all()
    steps = np.arange(1, nx + 1) if grows else np.arange(nx, 0, -1)
    assert_same(x, np.broadcast_to((16 * steps)[None, :, None, None], x.shape).astype(np.float32))


@tegula.jit
def tiles(x, seen, M, N, B, R: tl.constexpr, C: tl.constexpr):
    """Neighbours along y are nearer in memory; CPUs run those first."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * C + tl.arange(0, C)
    at = tl.program_id(2) * M * N + r[:, None] * N + c[None, :]
    m = (r < M)[:, None] & (c < N)[None, :]
    tl.store(x + at, tl.load(x + at, mask=m) + 1, mask=m)
    tl.store(seen + (tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)) * tl.num_programs(1) + tl.program_id(1), tl.num_programs(0) * 1000 + tl.program_id(1))


@pytest.mark.parametrize("shape", [(1, 9, 37), (2, 33, 40), (3, 5, 64), (1, 1, 500), (1, 50, 3)])
@pytest.mark.parametrize("tile", [(4, 8), (1, 32), (8, 64)])
def test_tiles_of_rows(dev, shape, tile):
    batch, M, N = shape
    grid = (tegula.cdiv(M, tile[0]), tegula.cdiv(N, tile[1]), batch)
    x = np.zeros((batch, M, N), np.float32)
    seen = np.zeros((batch, grid[0], grid[1]), np.int32)
    dev(tiles, grid, x, seen, M, N, batch, *tile)
    assert_same(x, np.ones_like(x))
    assert_same(seen, np.broadcast_to(grid[0] * 1000 + np.arange(grid[1], dtype=np.int32), seen.shape).copy())


@tegula.jit
def heads(k, x, seen, ROWS: tl.constexpr, AXES: tl.constexpr, LENGTH: tl.constexpr):
    """What the loop reads is the same for all programs along ROWS, an axis that is not the first: those follow each other."""
    i, n = tl.program_id(ROWS), tl.num_programs(ROWS)
    if AXES == 2:
        h = tl.program_id(0)
    elif ROWS == 1:
        h = tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)
    else:
        h = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    rows = tl.arange(0, 16)
    tile = rows[:, None] * 16 + rows[None, :]
    acc = tl.zeros((16, 16), tl.float32)
    for j in range(i if LENGTH == "falls" else 0, i + 1 if LENGTH == "grows" else n):
        t = tl.load(k + h * 256 + tile)
        s = tl.dot(t, t) + j - j
        acc = tl.dot(s.to(tl.float16), t, acc)
    at = h * n + i
    tl.store(x + at * 256 + tile, acc)
    tl.store(seen + at, tl.load(seen + at) + 1)


@pytest.mark.parametrize("length", ["same", "grows", "falls"])
@pytest.mark.parametrize("axis, grid", [(1, (5, 7)), (1, (150, 3)), (1, (3, 5, 2)), (2, (2, 3, 5)), (2, (3, 1, 40))])
def test_each_program_of_heads_once(dev, axis, grid, length):
    n = grid[axis]
    h = int(np.prod(grid)) // n
    k = np.broadcast_to((np.eye(16) * (1 + np.arange(h) % 3)[:, None, None]), (h, 16, 16)).astype(np.float16).copy()
    x, seen = np.zeros((h, n, 16, 16), np.float32), np.zeros((h, n), np.int32)
    dev(heads, grid, k, x, seen, axis, len(grid), length, num_warps=1)
    assert (seen == 1).all()
    steps = {"same": np.full(n, n), "grows": np.arange(1, n + 1), "falls": np.arange(n, 0, -1)}[length]
    assert_same(x, (k.astype(np.float32)[:, None] ** 3 * steps[None, :, None, None]).astype(np.float32))


@tegula.jit
def columns(a, b, x, seen, D, rounds, FORM: tl.constexpr, TURNED: tl.constexpr):
    """CPUs run programs of one column of tiles, up to 64 rows of them, before those of the next: OrderTiles.h. Fewer rows of a transposed A if there are many rounds."""
    p = tl.program_id(0)
    at = p + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    i, j = p // D, p % D
    if FORM == "axes":
        i, j = tl.program_id(1), p
    elif FORM == "heads":
        i = (p // D) * D + p % D
    elif FORM == "groups":
        rest = p % (D * 4)
        i, j = p // (D * 4) * 4 + rest % 4, rest // 4
    rows = tl.arange(0, 16)
    tile = rows[:, None] * 16 + rows[None, :]
    acc = tl.zeros((16, 16), tl.float32)
    of_a = rows[:, None] + rows[None, :] * 16 if TURNED else tile
    for k in range(rounds):
        acc = tl.dot(tl.load(a + (i * rounds + k) * 256 + of_a), tl.load(b + (j * rounds + k) * 256 + tile), acc, input_precision="ieee")
    tl.store(x + at * 256 + tile, acc)
    tl.store(seen + at, tl.load(seen + at) + 1)


@pytest.mark.parametrize("form, grid, d", [("rows", (210,), 3), ("rows", (40, 3), 5), ("rows", (7,), 9), ("rows", (100,), 7), ("rows", (64,), 1), ("axes", (3, 70), 1), ("axes", (5, 33, 2), 1),
                                           ("axes", (1, 40), 1), ("heads", (66,), 3), ("groups", (210,), 3), ("groups", (84, 2), 2), ("groups", (5,), 4)])
@pytest.mark.parametrize("threads, rounds, turned", [(1, 2, False), (2, 2, False), (1, 1, True), (1, 33, True), (2, 33, True)])
def test_each_program_of_columns_once(dev, form, grid, d, threads, rounds, turned):
    """Also where the grid is not made of whole rows."""
    if not dev.name.startswith("cpu"):
        rounds = min(rounds, 2)
    n = int(np.prod(grid))
    at = np.arange(n)
    p, y = at % grid[0], at // grid[0] % (grid + (1,))[1]
    rest = p % (d * 4)
    i, j = {"rows": (p // d, p % d), "axes": (y, p), "heads": (p, p % d), "groups": (p // (d * 4) * 4 + rest % 4, rest // 4)}[form]
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((i.max() + 1, rounds, 16, 16), dtype=np.float32), rng.standard_normal((j.max() + 1, rounds, 16, 16), dtype=np.float32)
    x, seen = np.zeros((n, 16, 16), np.float32), np.zeros(n, np.int32)
    options = {"num_threads": threads} if dev.name.startswith("cpu") else {}
    dev(columns, grid, np.ascontiguousarray(a.swapaxes(2, 3)) if turned else a, b, x, seen, d, rounds, form, turned, **options)
    assert (seen == 1).all()
    want = (a.astype(np.float64)[i] @ b.astype(np.float64)[j]).sum(1)
    np.testing.assert_allclose(x, want, rtol=1e-2 if dev.name.startswith(("cuda", "sim")) else 2e-4, atol=1e-1 if dev.name.startswith(("cuda", "sim")) else 2e-4)
