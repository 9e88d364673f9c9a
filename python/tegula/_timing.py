"""How long calls take: `do_bench` and its kin (tegula.testing)."""
import contextlib
import ctypes
import functools
import gc
import math
import os
import sys
import time

from . import _core


def _mean(times):
    return math.fsum(times) / len(times)


_MODES = {"min": min, "max": max, "mean": _mean, "median": lambda times: _quantile(sorted(times), 0.5), "all": list}


def _quantile(ordered, q):
    """Between the two nearest of the ordered times where it lies between."""
    place = q * (len(ordered) - 1)
    low = min(int(place), len(ordered) - 1)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _summarize_statistics(times, quantiles, return_mode):
    if quantiles is None:
        return _MODES[return_mode](times)
    picked = [_quantile(sorted(times), q) for q in quantiles]
    return picked[0] if len(picked) == 1 else picked


def _check_mode(return_mode):
    if return_mode not in _MODES:
        raise ValueError(f"return_mode is one of {', '.join(_MODES)}; found {return_mode!r}")


def _torch_cuda():
    """torch, if the program uses it with a GPU."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized() else None


def _clear_gradients(tensors):
    for x in tensors or ():
        x.grad = None


class _GpuClock:
    """Times by events of PyTorch's current stream; the L2 cache is overwritten before each call."""

    def __init__(self, torch):
        self.torch, self.flush = torch, torch.empty(1 << 28, dtype=torch.int8, device="cuda")

    def times(self, fn, count, before):
        event = functools.partial(self.torch.cuda.Event, enable_timing=True)
        pairs = [(event(), event()) for _ in range(count)]
        for begin, end in pairs:
            before()
            self.flush.zero_()
            begin.record()
            fn()
            end.record()
        self.torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in pairs]


class _HostClock:
    """Times as the caller sees them, until all GPUs that kernels may have run on are done; a core's L2 cache is overwritten before each call."""

    def __init__(self):
        sysconf = "SC_LEVEL2_CACHE_SIZE"
        size = os.sysconf(sysconf) if sysconf in os.sysconf_names else 0
        self.flush = ctypes.create_string_buffer(2 * (size if size > 0 else 1 << 20))
        self.gpus = [name for name, _ in _core.devices() if name.startswith("cuda:")]

    def _wait(self):
        for name in self.gpus:
            _core.synchronize(name)

    def times(self, fn, count, before):
        out = []
        for _ in range(count):
            before()
            ctypes.memset(self.flush, 0, len(self.flush))
            self._wait()
            start = time.perf_counter()
            fn()
            self._wait()
            out.append(max((time.perf_counter() - start) * 1e3, 1e-6))
        return out


def _clock():
    torch = _torch_cuda()
    return _GpuClock(torch) if torch else _HostClock()


def _turn(clock, fn, count, before):
    """Milliseconds that one timed call takes with everything around it: overwriting the cache may take longer than a small kernel."""
    start = time.perf_counter()
    clock.times(fn, count, before)
    return (time.perf_counter() - start) * 1e3 / count


def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean", *, before=None):
    """Milliseconds of fn(): runs it for about `warmup`, then for about `rep` milliseconds, caches overwritten between, at least
    once each. The L2 cache is cold at each call. Where the
    program uses a GPU by PyTorch the times are the GPU's, else the caller's.

    `grad_to_none`: tensors whose .grad is dropped before each call; `before` is called before each, its time does not count. Gives min, max, mean or median
    of the times, or all of them as a list; with `quantiles` those (a number if there is one)."""
    _check_mode(return_mode)

    def prepare():
        _clear_gradients(grad_to_none)
        if before:
            before()

    if before:
        before()
    fn()
    clock = _clock()
    estimate = _turn(clock, fn, 1, prepare)
    if estimate < warmup / 5:
        estimate = _turn(clock, fn, 5, prepare)
    clock.times(fn, max(1, int(warmup / estimate)), prepare)
    return _summarize_statistics(clock.times(fn, max(1, int(rep / estimate)), prepare), quantiles, return_mode)


@contextlib.contextmanager
def cuda_graph_without_gc(*args, **kwargs):
    """torch.cuda.graph(...) in which Python collects no garbage, whose finalizers could break the capture."""
    import torch
    was_on = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(*args, **kwargs):
            yield
    finally:
        if was_on:
            gc.enable()


def _graph_times(torch, fn, rep, grad_to_none):
    with torch.cuda.stream(torch.cuda.Stream()):
        fn()
        for x in grad_to_none or ():
            x.detach_()
            x.requires_grad_(True)
            x.grad = None
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        for _ in range(5):
            fn()
        end.record()
        torch.cuda.synchronize()
        each = max(begin.elapsed_time(end) / 5, 1e-3)
        count = max(1, min(1000, int(rep / each)))
        graph = torch.cuda.CUDAGraph()
        with cuda_graph_without_gc(graph):
            for _ in range(count):
                _clear_gradients(grad_to_none)
                fn()
        times = []
        for _ in range(10):
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / count)
        return times


def _library_graph_times(fn, rep, grad_to_none):
    """In a CUDA graph of the library's; None where fn() cannot be recorded, or launches on no GPU."""
    def call():
        _clear_gradients(grad_to_none)
        fn()
    times = _core.graph_times(call, rep, 10)
    return [ns / 1e6 for ns in times] if isinstance(times, list) else None


def _row_times(fn, rep, grad_to_none):
    clock, before = _HostClock(), functools.partial(_clear_gradients, grad_to_none)
    estimate = _mean(clock.times(fn, 5, before))
    count = max(1, min(1000, int(rep / estimate)))

    def row():
        for _ in range(count):
            fn()
    return [t / count for t in clock.times(row, 10, before)]


def do_bench_cudagraph(fn, rep=20, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Milliseconds of fn() called many times in a row, without what a launch costs the caller: a CUDA graph, of PyTorch's where the program uses a GPU by PyTorch, else
    of the library's; a loop where launches cannot be recorded, or are not on a GPU. Caches stay warm."""
    _check_mode(return_mode)
    torch = _torch_cuda()
    fn()
    times = _graph_times(torch, fn, rep, grad_to_none) if torch else _library_graph_times(fn, rep, grad_to_none) or _row_times(fn, rep, grad_to_none)
    return _summarize_statistics(times, quantiles, return_mode)


def do_bench_proton(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    """As do_bench: its times are the GPU's own, without a profiler."""
    return do_bench(fn, warmup, rep, grad_to_none, quantiles, return_mode)


def do_bench_cudagraph_proton(fn, rep=20, grad_to_none=None, quantiles=None, return_mode="mean"):
    """As do_bench_cudagraph."""
    return do_bench_cudagraph(fn, rep, grad_to_none, quantiles, return_mode)
