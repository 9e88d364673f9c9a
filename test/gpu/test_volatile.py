"""Volatile loads, which may give each thread another value, are done by one thread, which tells the others (gpu/shared/SharedNeeds.h)."""
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def wait(flag, out, VOLATILE: tl.constexpr, CACHE: tl.constexpr):
    tl.store(flag + 1, 1)
    while tl.load(flag, volatile=VOLATILE, cache_modifier=CACHE) == 0:
        tl.store(out, 0)
    tl.store(out, 1)


@pytest.mark.parametrize("volatile, cache, name", [(True, "", "ld.volatile.global"), (False, ".cv", "ld.global.cv"), (False, "", "ld.global")])
def test_one_thread_loads(volatile, cache, name):
    x = np.zeros(4, np.int32)
    ptx = wait.warmup(x, x[2:].copy(), volatile, cache, num_warps=4, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")
    lines = [line.strip() for line in ptx.splitlines()]
    loads = [line for line in lines if "ld." in line and ".global" in line]
    # By one thread (a predicate), put down for the others.
    is_one = volatile or cache == ".cv"
    assert all(line.startswith("@") == is_one and name in line for line in loads) and any("ld.shared" in line for line in lines) == is_one
