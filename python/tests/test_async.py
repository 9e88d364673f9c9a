"""AsyncCompileMode: compilations by an executor (docs/language.md §4.11)."""
from concurrent.futures import ThreadPoolExecutor
import threading

import numpy as np
import pytest
import tegula
import tegula.language as tl


def fill(out, value, N: tl.constexpr):
    tl.static_assert(N <= 64, "too many")
    tl.store(out + tl.arange(0, N), value)


class Held:
    """An executor that does nothing before it is told to."""

    def __init__(self):
        self.pool, self.go, self.count = ThreadPoolExecutor(1), threading.Event(), 0

    def submit(self, f):
        self.count += 1
        return self.pool.submit(lambda: (self.go.wait(60), f())[1])


def test_warmups_wait_for_nobody():
    held, k = Held(), tegula.jit(fill)
    with tegula.AsyncCompileMode(held):
        first = k.warmup(tl.float32, 1.0, 16, grid=(1,))
        again = k.warmup(tl.float32, 1.0, 16, grid=(1,))
        other = k.warmup(tl.float32, 1.0, 32, grid=(1,))
        assert isinstance(first, tegula.FutureKernel) and first is again and first is not other and held.count == 2 and not k.device_caches[0][0]
        held.go.set()
        assert "N:16" in first.metadata.signature and first.result() is first.result() and not isinstance(first.result(), tegula.FutureKernel)
    assert len(k.device_caches[0][0]) == 2 and "N:32" in other.metadata.signature
    out = np.zeros(64, np.float32)
    assert k[(1,)](out, 1.0, 16) is first.result() and (out[:16] == 1).all()


def test_launches_in_it_run():
    k, out = tegula.jit(fill), np.zeros(16, np.float32)
    with ThreadPoolExecutor(2) as pool, tegula.AsyncCompileMode(pool):
        k[(1,)](out, 3.0, 16)
        assert (out == 3).all()


def test_errors():
    k = tegula.jit(fill)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(tegula.CompilationError, match="too many"), tegula.AsyncCompileMode(pool):
            k.warmup(tl.float32, 1.0, 128, grid=(1,))
        with tegula.AsyncCompileMode(pool, ignore_errors=True):
            k.warmup(tl.float32, 1.0, 128, grid=(1,))
        with tegula.AsyncCompileMode(pool), pytest.raises(RuntimeError, match="already active"), tegula.AsyncCompileMode(pool):
            pass
    assert not isinstance(k.warmup(tl.float32, 1.0, 16, grid=(1,)), tegula.FutureKernel)
