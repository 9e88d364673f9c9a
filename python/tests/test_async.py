"""AsyncCompileMode: compilations by an executor (docs/language.md §4.11)."""
from concurrent.futures import Future, ThreadPoolExecutor
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
        assert isinstance(first, tegula.FutureKernel) and first is again and first is not other and held.count == 2
        assert list(k.device_caches[0][0].values()) == [first, other]  # they stand for the kernels
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


def future_of(error=None, kernel=None):
    f = Future()
    f.set_running_or_notify_cancel()
    f.set_exception(error) if error else f.set_result(kernel)
    return f


def test_future_kernels():
    seen = []
    k = tegula.FutureKernel(future_of(kernel="it"))
    for name in "ab":
        k.add_callbacks(lambda kernel, name=name: seen.append((name, kernel, k.result())), None)
    assert k.result() == "it" == k.result() and seen == [("a", "it", "it"), ("b", "it", "it")] and k.strip() == "it" and k[0] == "i" and k.future is None
    k.add_callbacks(seen.append, None)  # one that comes later
    assert k.result() == "it" and seen[-1] == "it"
    waits = tegula.FutureKernel(Future())
    assert not hasattr(waits, "__deepcopy__") and not hasattr(tegula.FutureKernel.__new__(tegula.FutureKernel), "anything")
    assert tegula.FutureKernel(seen.append, None, future_of(kernel="three")).result() == seen[-1] == "three"


@pytest.mark.parametrize("error, ignorable", [(ValueError("no"), True), (KeyboardInterrupt("no"), False)])
def test_kernels_that_failed(error, ignorable):
    seen = []
    k = tegula.FutureKernel(future_of(error))
    for name in "ab":
        k.add_callbacks(None, lambda kernel, name=name: seen.append(name) or 1 / 0)
    with pytest.raises(type(error), match="no"):
        k.result()
    assert seen == ["a", "b"] and not any(isinstance(v, BaseException) for v in vars(k).values())
    with pytest.raises(RuntimeError, match="previously failed"):
        k.anything
    if ignorable:
        assert k.result(ignore_errors=True) is None
    else:
        with pytest.raises(RuntimeError, match="previously failed"):
            k.result(ignore_errors=True)


@pytest.mark.parametrize("where", ["body", "worker"])
def test_interruptions_wait_for_nobody(where):
    """What is still compiled is given up, and nothing of it stays in caches."""
    cache, never = {}, threading.Event()
    entry = lambda name: (lambda kernel: cache.update({name: kernel}), lambda _: cache.pop(name))

    def stops():
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(KeyboardInterrupt), tegula.AsyncCompileMode(pool) as mode:
            cache["slow"] = mode.submit("slow", lambda: never.wait(60), *entry("slow"))
            if where == "body":
                raise KeyboardInterrupt
            cache["stops"] = mode.submit("stops", stops, *entry("stops"))
        assert not cache and not never.is_set()
        never.set()


def test_callbacks_may_submit():
    cache = {}
    with ThreadPoolExecutor(1) as pool, tegula.AsyncCompileMode(pool) as mode:
        def more(kernel):
            for key in ("first", "second"):
                mode.submit(key, lambda: "second", lambda k, key=key: cache.update({key: k}))
        mode.submit("first", lambda: "first", more)
    assert cache == {"first": "first", "second": "second"} and mode.future_kernels == {}


def test_failures_leave_the_cache():
    k = tegula.jit(fill)
    with ThreadPoolExecutor(1) as pool, pytest.raises(tegula.CompilationError, match="too many"), tegula.AsyncCompileMode(pool):
        k.warmup(tl.float32, 1.0, 128, grid=(1,))
        assert len(k.device_caches[0][0]) == 1
    assert not k.device_caches[0][0]
