"""Helpers for tests and measurements, named as in triton.testing."""
import copy
import statistics
import sys
import time


def assert_close(x, y, atol=None, rtol=None, err_msg=""):
    """Raises AssertionError unless |x - y| <= atol + rtol |y| elementwise; NaNs are equal. Defaults: atol 1e-2, rtol 0."""
    import numpy as np
    to_numpy = lambda a: np.asarray(a.detach().cpu().float().numpy() if hasattr(a, "detach") else a)
    a, b = to_numpy(x), to_numpy(y)
    pick = lambda t, default: default if t is None else t(a.dtype) if callable(t) else t
    widen = lambda v: v.astype(np.float64) if v.dtype.kind not in "biufc" else v
    np.testing.assert_allclose(widen(a), widen(b), atol=pick(atol, 1e-2), rtol=pick(rtol, 0.0), err_msg=err_msg, equal_nan=True)


class DeviceTensor:
    """Memory of a device as a kernel argument. `like`: a numpy array that it starts as a copy of."""

    def __init__(self, like, device, address):
        self.device, self.dtype, self.shape, self.nbytes, self._address = device, like.dtype, like.shape, like.nbytes, address

    def data_ptr(self):
        return self._address


class Mirror:
    """Lets kernels on a GPU work on numpy arrays in place: `with Mirror("cuda") as m: k[grid](*m.to(args))`.

    Arrays that share memory share it on the GPU too. Everything is copied back, and waited for, at the end.
    """

    def __init__(self, device):
        self.device, self.blocks = device, {}

    def __enter__(self):
        return self

    def to(self, x):
        import numpy as np
        if isinstance(x, np.ndarray):
            return self._array(x)
        if isinstance(x, tuple):
            items = [self.to(i) for i in x]
            return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
        if hasattr(x, "block_shape"):  # a tensor descriptor
            x = copy.copy(x)
            x.base = self.to(x.base)
            return x
        return {k: self.to(v) for k, v in x.items()} if isinstance(x, dict) else x

    def _array(self, a):
        import numpy as np
        from . import _core
        root = a
        while isinstance(root.base, np.ndarray):
            root = root.base
        low, high = np.lib.array_utils.byte_bounds(root) if hasattr(np.lib, "array_utils") else np.byte_bounds(root)
        if low not in self.blocks:
            # The same alignment as on the host, up to 256 bytes: kernels are specialised on it.
            pad = low % 256
            start = _core.allocate(self.device, high - low + pad)
            self.blocks[low] = (start, start + pad, high - low, root)
            _core.copy(self.device, True, start + pad, low, high - low)
        return DeviceTensor(a, self.device if ":" in self.device else self.device + ":0", self.blocks[low][1] + a.ctypes.data - low)

    def __exit__(self, kind, *_):
        from . import _core
        try:
            if kind is None:
                _core.synchronize(self.device)
                for low, (_, start, size, root) in self.blocks.items():
                    if root.flags.writeable:
                        _core.copy(self.device, False, start, low, size)
        finally:
            for start, *_ in self.blocks.values():
                _core.free(self.device, start)
            self.blocks = {}


def _gpu_times(torch, fn, warmup, rep, grad_to_none):
    flush = torch.empty(1 << 28, dtype=torch.int8, device="cuda")

    def events(count):
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for begin, end in pairs:
            for x in grad_to_none or ():
                x.grad = None
            flush.zero_()
            begin.record()
            fn()
            end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in pairs]

    each = max(statistics.fmean(events(5)), 1e-3)
    events(max(1, int(warmup / each)))
    return events(max(1, int(rep / each)))


def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Milliseconds of fn(): runs it for about `warmup`, then `rep` milliseconds. Where PyTorch uses a GPU the time is the GPU's, with the L2 cache flushed
    before each run; else it is the caller's."""
    if return_mode not in ("min", "max", "mean", "median", "all"):
        raise ValueError(f"return_mode is one of min, max, mean, median, all; found {return_mode!r}")
    fn()
    start = time.perf_counter()
    count = 0
    while count == 0 or (time.perf_counter() - start) * 1e3 < warmup:
        fn()
        count += 1
    per_call = (time.perf_counter() - start) * 1e3 / count
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        times = _gpu_times(torch, fn, warmup, rep, grad_to_none)
    else:
        times = []
        for _ in range(max(1, int(rep / per_call))):
            t0 = time.perf_counter()
            fn()
            times.append((time.perf_counter() - t0) * 1e3)
    if quantiles is not None:
        times.sort()
        picked = [times[min(len(times) - 1, int(q * len(times)))] for q in quantiles]
        return picked[0] if len(picked) == 1 else picked
    if return_mode == "all":
        return times
    return {"min": min, "max": max, "mean": statistics.fmean, "median": statistics.median}[return_mode](times)
