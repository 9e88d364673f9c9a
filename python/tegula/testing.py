"""Helpers for tests and measurements, named as in triton.testing."""
import statistics
import time


def assert_close(x, y, atol=None, rtol=None, err_msg=""):
    """Raises AssertionError unless |x - y| <= atol + rtol |y| elementwise; NaNs are equal. Defaults: atol 1e-2, rtol 0."""
    import numpy as np
    to_numpy = lambda a: np.asarray(a.detach().cpu().float().numpy() if hasattr(a, "detach") else a)
    a, b = to_numpy(x), to_numpy(y)
    pick = lambda t, default: default if t is None else t(a.dtype) if callable(t) else t
    widen = lambda v: v.astype(np.float64) if v.dtype.kind not in "biufc" else v
    np.testing.assert_allclose(widen(a), widen(b), atol=pick(atol, 1e-2), rtol=pick(rtol, 0.0), err_msg=err_msg, equal_nan=True)


def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Milliseconds of fn(): runs it for about `warmup`, then `rep` milliseconds."""
    if return_mode not in ("min", "max", "mean", "median", "all"):
        raise ValueError(f"return_mode is one of min, max, mean, median, all; found {return_mode!r}")
    fn()
    start = time.perf_counter()
    count = 0
    while count == 0 or (time.perf_counter() - start) * 1e3 < warmup:
        fn()
        count += 1
    per_call = (time.perf_counter() - start) * 1e3 / count
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
