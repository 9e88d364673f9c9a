"""Run by test_cuda_graphs.py in a process of its own, with the stand-in for the CUDA driver, whose clock says 1000 ns and one for each block of a launch, and 2000 for
starting a graph: prints what happened, line by line."""
import ctypes
import os
import warnings

import tegula
import tegula.language as tl
from tegula import Config, testing

fake = ctypes.CDLL(os.environ["TEGULA_LIBCUDA"])
N = 4096


class Array:
    """As an array of CuPy looks."""

    def __init__(self):
        self.address = tegula._core.allocate("cuda:0", 4 * N)
        self.__cuda_array_interface__ = {"data": (self.address, False), "typestr": "<f4", "shape": (N,), "strides": None, "version": 3}
        self.dtype, self.shape = "float32", (N,)


def add(x, y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)


def in_place(x, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)


def say(what, value):
    print(f"{what}: {value}", flush=True)


def grid(meta):
    return (tegula.cdiv(meta["n"], meta["BLOCK"]),)


def count(name):
    return fake.fakeCudaCounter(name.encode())


def tuned(what, f, *args, options=None, **launch):
    """Tunes, and says: the choice, its time, the reasons against graphs, graphs launched, the clock."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        k = tegula.autotune([Config({"BLOCK": b}) for b in (64, 256, 128)], key=["n"], **{"use_cuda_graph": True, **(options or {})})(tegula.jit(f))
        before = count("graphLaunches")
        k[grid](*args, N, **launch)
    best = k.configs_timings[k.best_config]
    texts = [str(w.message) for w in seen if w.category is not DeprecationWarning]
    say(what, (k.best_config.kwargs["BLOCK"], round(best[0] * 1e6), texts, count("graphLaunches") - before, k.clock))


x, y = Array(), Array()
tuned("graphs", add, x, y)
tuned("in place", in_place, x)
tuned("without", add, x, y, options={"use_cuda_graph": False})
tuned("another stream", add, x, y, stream=0x77)
calls = []
tuned("hooks", add, x, y, options={"pre_hook": lambda *a, **k: calls.append(1)})
launch = tegula.jit(add)[(16,)]
before = count("graphLaunches")
say("do_bench_cudagraph", round(testing.do_bench_cudagraph(lambda: launch(x, y, N, BLOCK=256)) * 1e6, 1))
say("its graphs", count("graphLaunches") - before)


def launches_but(error):
    def call():
        before = count("captured")
        launch(x, y, N, BLOCK=256)
        if count("captured") != before:
            raise error
    return call


before = count("graphLaunches")
say("a call that cannot be recorded", (testing.do_bench_cudagraph(launches_but(ValueError("not while it is recorded"))) > 0, count("graphLaunches") - before))


class Stop(BaseException):
    pass


try:
    testing.do_bench_cudagraph(launches_but(Stop()))
except Stop:
    say("ends", "Stop")
say("left", (count("streamsAlive"), count("graphsAlive")))
