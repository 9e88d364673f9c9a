"""Tables that several gathers read are stored to shared memory once (shared/ShareTables.h)."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def lookups(x, table, out, n, STEPS: tl.constexpr, N: tl.constexpr, T: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    t = tl.load(table + tl.arange(0, T))
    v = tl.load(x + i)
    for _ in tl.static_range(STEPS):
        v = tl.gather(t, v & (T - 1), 0)
    for _ in range(n):
        v = tl.gather(t, v & (T - 1), 0)
    tl.store(out + i, v)


def ptx(steps, T):
    x, table = np.zeros(1024, np.int32), np.zeros(T, np.int32)
    return lookups.warmup(x, table, np.zeros_like(x), 3, steps, 1024, T, grid=(1, ), num_warps=4, device="sim").compile_for("sm_90a").stage("ptx")


@pytest.mark.parametrize("steps", [0, 1, 6])
def test_stored_once(steps):
    text = ptx(steps, 512)
    assert len(re.findall(r"st\.shared", text)) == 1 and len(re.findall(r"bar(?:rier)?\.sync", text)) == 1


@tegula.jit
def two_tables(x, table, out, N: tl.constexpr, T: tl.constexpr):
    a = tl.load(table + tl.arange(0, T))
    b = tl.load(table + T + tl.arange(0, T))
    v = tl.load(x + tl.arange(0, N))
    for _ in tl.static_range(3):
        v = tl.gather(b, tl.gather(a, v & (T - 1), 0) & (T - 1), 0)
    tl.store(out + tl.arange(0, N), v)


@pytest.mark.parametrize("T,tables", [(512, 2), (8192, 1)])
def test_memory(T, tables):
    """Large tables take turns, as blocks of a multiprocessor would be fewer."""
    x = np.zeros(1024, np.int32)
    kernel = two_tables.warmup(x, np.zeros(2 * T, np.int32), np.zeros_like(x), 1024, T, grid=(1, ), num_warps=4, device="sim").compile_for("sm_90a")
    assert kernel.metadata.shared == tables * T * 4
