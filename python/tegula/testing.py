"""Helpers for tests and measurements, named as in triton.testing. They work on every device, with PyTorch or without it."""
import contextlib
import copy
import ctypes
import functools
import math
import os
import subprocess
import sys
import time

from . import _core
from ._table import Table
from ._timing import (_quantile, _summarize_statistics, cuda_graph_without_gc, do_bench, do_bench_cudagraph, do_bench_cudagraph_proton, do_bench_proton)

# ------------------------------------------------------------------------------------------------------------------------ results


def _numbers(x):
    """A tensor of any kind as a numpy array of numbers that numpy can subtract."""
    import numpy as np
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.float() if x.dtype.is_floating_point else x).numpy()
    a = np.asarray(x)
    return a if a.dtype.kind in "biufc" else a.astype(np.float64)


def assert_close(x, y, atol=None, rtol=None, err_msg=""):
    """Raises AssertionError unless |x - y| <= atol + rtol |y| elementwise; NaNs are equal. Defaults: atol 1e-2, rtol 0. Both may be functions of
    x's dtype."""
    import numpy as np
    dtype = getattr(x, "dtype", None)
    pick = lambda given, default: default if given is None else given(np.asarray(x).dtype if dtype is None else dtype) if callable(given) else given
    np.testing.assert_allclose(_numbers(x), _numbers(y), atol=pick(atol, 1e-2), rtol=pick(rtol, 0.0), err_msg=err_msg, equal_nan=True)


# ------------------------------------------------------------------------------------------------------- numpy arrays as GPU memory


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


@functools.cache
def cublas():
    """The object that multiplies matrices of PyTorch by cuBLAS (`_C/nvidia.py`): cublas().matmul(a, b, c) is c = a @ b.T."""
    from ._C.nvidia import CublasLt
    return CublasLt(None)


# ------------------------------------------------------------------------------------------------------------------------- reports


class Benchmark:
    """One plot: a line for each of `line_vals` of the argument `line_arg`, over the values `x_vals` of the arguments `x_names` (all of them get the value,
    or its items if it is a tuple or list). `args`: further arguments of the function; `styles`: (colour, line style) for each line."""

    def __init__(self, x_names, x_vals, line_arg, line_vals, line_names, plot_name, args, xlabel="", ylabel="", x_log=False, y_log=False,
                 styles=None):
        self.x_names, self.x_vals, self.x_log = list(x_names), x_vals, x_log
        self.line_arg, self.line_vals, self.line_names, self.styles = line_arg, line_vals, line_names, styles
        self.xlabel, self.ylabel, self.y_log = xlabel, ylabel, y_log
        self.plot_name, self.args = plot_name, args


def _pandas():
    try:
        import pandas
    except ImportError:
        return None
    return pandas


def _pyplot(show):
    try:
        import matplotlib
        if not show:
            matplotlib.use("Agg")  # a file needs no screen
        import matplotlib.pyplot as plt
    except ImportError:
        return None
    return plt


class Mark:
    """What perf_report makes of a function: run() measures all points of its benchmarks."""

    def __init__(self, fn, benchmarks):
        self.fn, self.benchmarks = fn, benchmarks

    def _measure(self, bench, kwargs):
        """The table: a column of each x name, then of each line's values, then of the lower and upper ends of its error bands."""
        names = list(bench.line_names)
        rows = []
        for x in bench.x_vals:
            point = list(x) if isinstance(x, (tuple, list)) else [x] * len(bench.x_names)
            if len(point) != len(bench.x_names):
                raise ValueError(f"Expected {len(bench.x_names)} values, got {x}")
            middle, low, high = [], [], []
            for value in bench.line_vals:
                result = self.fn(**dict(zip(bench.x_names, point)), **{bench.line_arg: value}, **bench.args, **kwargs)
                y, y_min, y_max = result if isinstance(result, (tuple, list)) else (result, None, None)
                middle.append(y)
                low.append(y_min)
                high.append(y_max)
            rows.append(point + middle + low + high)
        return Table(bench.x_names + names + [f"{n}-min" for n in names] + [f"{n}-max" for n in names], rows)

    @staticmethod
    def _plot(plt, bench, table, show_plots, path):
        figure = plt.figure()
        axes = plt.subplot()
        first = bench.x_names[0]
        for i, name in enumerate(bench.line_names):
            style = bench.styles[i] if bench.styles else (None, None)
            bands = list(zip(table[first], table[f"{name}-min"], table[f"{name}-max"]))
            drawn = axes.plot(table[first], [math.nan if y is None else y for y in table[name]], label=name, color=style[0], ls=style[1])
            bands = [b for b in bands if b[1] is not None and b[2] is not None]
            if bands:
                x, low, high = zip(*bands)
                axes.fill_between(x, low, high, alpha=0.15, color=drawn[0].get_color())
        axes.legend()
        axes.set_xlabel(bench.xlabel or first)
        axes.set_ylabel(bench.ylabel)
        axes.set_xscale("log" if bench.x_log else "linear")
        axes.set_yscale("log" if bench.y_log else "linear")
        if show_plots:
            plt.show()
        if path:
            plt.savefig(path)
        plt.close(figure)

    def _run(self, bench, save_path, show_plots, print_data, diff_col=False, save_precision=6, **kwargs):
        table = self._measure(bench, kwargs)
        if bench.plot_name and (show_plots or save_path):
            plt = _pyplot(show_plots)
            if plt:
                self._plot(plt, bench, table, show_plots, os.path.join(save_path, f"{bench.plot_name}.png") if save_path else "")
            else:
                print(f"{bench.plot_name}: matplotlib is not installed, so there is no plot", file=sys.stderr)
        shown = table.select(bench.x_names + list(bench.line_names))
        if diff_col and len(bench.line_names) == 2:
            a, b = bench.line_names
            shown = shown.with_column("Diff", [y - x for x, y in zip(shown[a], shown[b])])
        if save_path:
            with open(os.path.join(save_path, f"{bench.plot_name}.csv"), "w", encoding="utf-8") as out:
                out.write(shown.to_csv(save_precision))
        pandas = _pandas()
        if pandas:
            shown = pandas.DataFrame(dict(zip(shown.columns, zip(*shown.rows))) if shown.rows else {}, columns=shown.columns)
        if print_data:
            print(bench.plot_name + ":")
            print(shown.to_string())
        return shown

    def run(self, show_plots=False, print_data=False, save_path="", return_df=False, **kwargs):
        """Measures. `save_path`: a folder for PLOT.png, PLOT.csv and results.html. With `return_df` gives a table for each benchmark (the table itself
        if perf_report was given one benchmark): a pandas DataFrame if pandas is installed, else a Table."""
        one = isinstance(self.benchmarks, Benchmark)
        benchmarks = [self.benchmarks] if one else list(self.benchmarks)
        if save_path:
            os.makedirs(save_path, exist_ok=True)
        tables = [self._run(b, save_path, show_plots, print_data, **kwargs) for b in benchmarks]
        if save_path:
            with open(os.path.join(save_path, "results.html"), "w", encoding="utf-8") as html:
                html.write("<html><body>\n" + "".join(f'<img src="{b.plot_name}.png"/>\n' for b in benchmarks) + "</body></html>\n")
        if return_df:
            return tables[0] if one else tables
        return None


def perf_report(benchmarks):
    """Decorator: measure the function as a Benchmark, or each of a list of them, says. The function gives y, or (y, y_min, y_max)."""
    return lambda fn: Mark(fn, benchmarks)


# ------------------------------------------------------------------------------------------------------------- what hardware can do


def _properties(device):
    from .runtime import driver
    active = driver.active
    return active.utils.get_device_properties(active.get_current_device() if device is None else device)


def _is_gpu():
    from .runtime import driver
    return driver.active.get_current_target().backend == "cuda"


@functools.cache
def _copy_gbps():
    """Bytes read and written in a second by copies of 256 MiB."""
    size = 1 << 28
    a, b = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    best = math.inf
    for _ in range(4):
        start = time.perf_counter()
        ctypes.memmove(a, b, size)
        best = min(best, time.perf_counter() - start)
    return 2 * size / best * 1e-9


def get_dram_gbps(device=None):
    """GB/s of the memory of the device that kernels run on: the product of its clock and width on a GPU, what one core reaches when it copies on a CPU."""
    if not _is_gpu():
        return _copy_gbps()
    p = _properties(device)
    return p["mem_clock_rate"] * p["mem_bus_width"] * 2 / 1e6 / 8


def _bits(dtype):
    name = str(getattr(dtype, "name", dtype)).removeprefix("torch.")
    table = {"bfloat16": 16, "bf16": 16, "half": 16, "float": 32, "int1": 8, "bool": 8, "tf32": 32}
    if name in table:
        return name, table[name]
    if "8" in name and ("fp8" in name or "float8" in name):
        return name, 8
    digits = "".join(c for c in name if c.isdigit())
    if digits not in ("8", "16", "32", "64"):
        raise RuntimeError(f"dtype not supported: {dtype}")
    return name, int(digits)


# Multiply-adds count twice. Capability: operations of a quarter of a multiprocessor in a clock on 16-bit operands.
_TENSOR_OPS = {7: 256, 8: 512, 9: 1024, 10: 2048, 12: 512}

# Capability from which on: the same outside of tensor cores for 32- and for 16-bit floats.
_SIMD_OPS = (((12, 0), (64, 64)), ((9, 0), (64, 128)), ((8, 6), (64, 64)), ((8, 0), (32, 128)), ((7, 0), (32, 64)))


def get_max_tensorcore_tflops(dtype, clock_rate=None, device=None):
    """Dense operations in 10^12 a second with operands of `dtype` at `clock_rate` kHz (default: the device's highest). A CPU's are those of its
    vectors."""
    if not _is_gpu():
        return get_max_simd_tflops(dtype, clock_rate, device)
    p = _properties(device)
    name, bits = _bits(dtype)
    major = p["capability_major"]
    if bits > 32 or (major < 8 and name not in ("float16", "fp16", "half")) or major not in _TENSOR_OPS:
        raise RuntimeError(f"dtype not supported by the tensor cores of this device: {dtype}")
    return p["multiprocessor_count"] * 4 * (clock_rate or p["sm_clock_rate"]) * (_TENSOR_OPS[major] * 16 // bits) * 1e-9


def get_max_simd_tflops(dtype, clock_rate=None, device=None):
    """Operations in 10^12 a second outside of tensor cores, on values of `dtype`, at `clock_rate` kHz."""
    p = _properties(device)
    name, bits = _bits(dtype)
    if not _is_gpu():
        lanes = p["vector_bits"] // max(bits, 16)
        return p["multiprocessor_count"] * (clock_rate or p["sm_clock_rate"]) * lanes * 4 * 1e-9  # two units, each of which multiplies and adds
    capability = p["capability_major"], p.get("capability_minor", 0)
    row = next((r for c, r in _SIMD_OPS if capability >= c), None)
    if bits not in (16, 32) or row is None or (capability[0] < 8 and name in ("bfloat16", "bf16")):
        raise RuntimeError(f"dtype not supported: {dtype}")
    per_quarter = row[0] if bits == 32 else row[1] // (2 if name in ("bfloat16", "bf16") and capability == (8, 0) else 1)
    return p["multiprocessor_count"] * 4 * (clock_rate or p["sm_clock_rate"]) * per_quarter * 1e-9


def nvsmi(attrs):
    """The numbers that nvidia-smi gives for these names (`clocks.sm`, `power.draw` ...) on GPU 0, as ints."""
    query = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(attrs)}", "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise RuntimeError("nvsmi: there is no nvidia-smi on this machine") from None
    return [int(float(item)) for item in text.strip().split(",")]


@contextlib.contextmanager
def set_gpu_clock(ref_sm_clock=1350, ref_mem_clock=1215):
    """Gives (teraflops, GB/s) of an A100 at these clocks in MHz. The clocks are left as they are: setting them is an administrator's
    (`nvidia-smi -lgc`)."""
    yield 1e-6 * 2 * 108 * 4 * 256 * ref_sm_clock, 640 * 2 * ref_mem_clock * 1e-3


def cuda_memcheck(**target_kwargs):
    """Decorator of tests with parameters: those that have these values run in a process of their own in which every access of a kernel is checked."""

    def decorate(test):

        @functools.wraps(test)
        def run(*args, **kwargs):
            if not target_kwargs.items() <= kwargs.items() or os.environ.get("TEGULA_CHECK") == "1":
                return test(*args, **kwargs)
            if "request" not in kwargs:
                raise RuntimeError("cuda_memcheck: the test takes no argument `request`, which says what its parameters are called")
            name = f"{os.path.realpath(test.__globals__['__file__'])}::{test.__name__}[{kwargs['request'].node.callspec.id}]"
            done = subprocess.run([sys.executable, "-m", "tegula", "-m", "pytest", "-q", "-p", "no:cacheprovider", name], text=True, capture_output=True,
                                  env={**os.environ, "TEGULA_CHECK": "1"})
            assert done.returncode == 0, done.stdout + done.stderr
            return None
        return run
    return decorate
