"""Promises about values (tl.multiple_of): those about what a loop carries hold for what it begins with."""
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def of_pointers(table, c, ld, K, N: tl.constexpr, HINT: tl.constexpr):
    """As the tutorial of grouped products has it: addresses and row strides are loaded, a promise in the loop says that they are multiples of 16."""
    row, column = tl.arange(0, N), tl.arange(0, 32)
    a = tl.load(table).to(tl.pointer_type(tl.float16)) + row[:, None] * tl.load(ld) + column[None, :]
    b = tl.load(table + 1).to(tl.pointer_type(tl.float16)) + column[:, None] * tl.load(ld + 1) + row[None, :]
    acc = tl.zeros((N, N), tl.float32)
    for _ in range(0, tl.cdiv(K, 32)):
        if HINT:
            tl.multiple_of(a, [16, 16])
            tl.multiple_of(b, [16, 16])
        acc += tl.dot(tl.load(a), tl.load(b))
        a += 32
        b += 32 * tl.load(ld + 1)
    tl.store(c + row[:, None] * N + row[None, :], acc)


def test_promises_about_carried_pointers():
    table, ld, c = np.zeros(2, np.int64), np.full(2, 64, np.int32), np.zeros((64, 64), np.float32)

    def ptx(hint):
        return of_pointers.warmup(table, c, ld, 64, 64, hint, num_warps=4, num_stages=3, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")

    assert "cp.async.cg" not in ptx(False) and "cp.async.cg" in ptx(True) and "ld.global.u16" not in ptx(True) and "ld.global.b16" not in ptx(True)
    generator = np.random.default_rng(3)
    a, b = (generator.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    table[:] = a.ctypes.data, b.ctypes.data
    for hint in (False, True):
        c[:] = 0
        of_pointers[(1,)](table, c, ld, 64, 64, hint, num_warps=4, num_stages=3, device="cpu")
        assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@tegula.jit
def nested(x, out, n, m, B: tl.constexpr, KIND: tl.constexpr):
    o = tl.arange(0, B)
    p, q = x + o, x + o
    acc = tl.zeros((B, ), tl.float32)
    for i in range(0, n):
        if KIND == "outer":
            tl.multiple_of(p, 16)
        for j in range(0, m):
            if KIND == "inner":
                tl.multiple_of(p, 16)
            if KIND == "runs":
                tl.max_contiguous(p, 4)
            acc += tl.load(p)
            p += B
    i = 0
    while i < n:
        tl.multiple_of(q, 16)
        acc += tl.load(q)
        if KIND == "break":
            if i == 2:
                break
        q += B
        i += 1
    tl.store(out + o, acc)


@pytest.mark.parametrize("kind", ["outer", "inner", "runs", "break"])
@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_promises_in_nested_loops(device, kind):
    """Of pointers that several loops carry, in loops that end early or have no iterations."""
    x = np.random.default_rng(1).integers(0, 9, 4096).astype(np.float32)
    for n, m in (0, 3), (3, 2), (4, 0), (5, 1):
        out = np.zeros(64, np.float32)
        nested[(1, )](x, out, n, m, 64, kind, device=device)
        rounds = min(n, 3) if kind == "break" else n
        assert np.array_equal(out, x[:64 * n * m].reshape(-1, 64).sum(0) + x[:64 * rounds].reshape(-1, 64).sum(0))
