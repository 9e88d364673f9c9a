"""Inputs and references by numpy (cpu, sim) or torch (GPU), from one description.

A reference is written once, in what numpy and torch both have under one name: exp, where, sum(axis=, keepdims=), amax, cumsum, matmul, swapaxes, stack ... .
`Numpy.x` and `Torch.x` are those modules plus the few functions that differ.
"""
import math
from types import SimpleNamespace

import numpy as np

NUMPY_NAMES = {"fp32": np.float32, "fp64": np.float64, "fp16": np.float16, "int8": np.int8, "uint8": np.uint8, "int32": np.int32, "int64": np.int64}
TORCH_NAMES = {"fp32": "float32", "fp64": "float64", "fp16": "float16", "bf16": "bfloat16", "fp8e4": "float8_e4m3fn", "fp8e5": "float8_e5m2", "int8": "int8",
               "uint8": "uint8", "int32": "int32", "int64": "int64"}
SIZES = {"fp32": 4, "fp64": 8, "fp16": 2, "bf16": 2, "fp8e4": 1, "fp8e5": 1, "int8": 1, "uint8": 1, "int32": 4, "int64": 8}


class _Functions:
    """A module, with some functions of our own before its own."""

    def __init__(self, module, **own):
        self._module = module
        self.__dict__.update(own)

    def __getattr__(self, name):
        return getattr(self._module, name)


def _softmax(x, v, axis=-1):
    e = x.exp(v - x.amax(v, axis=axis, keepdims=True))
    return e / x.sum(e, axis=axis, keepdims=True)


def _gelu_tanh(x, v):
    return 0.5 * v * (1 + x.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v * v * v)))


def _sigmoid(x, v):
    return 1 / (1 + x.exp(-v))


def _complete(x):
    """Composite functions, the same for both modules."""
    x.softmax = lambda v, axis=-1: _softmax(x, v, axis)
    x.gelu = lambda v: _gelu_tanh(x, v)
    x.sigmoid = lambda v: _sigmoid(x, v)
    x.silu = lambda v: v * _sigmoid(x, v)
    return x


class Numpy:
    """Arrays on the host. Data depend on `seed` alone."""

    def __init__(self, seed=0):
        import ml_dtypes
        self.dtypes = {**NUMPY_NAMES, "bf16": ml_dtypes.bfloat16, "fp8e4": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2}
        self.rng = np.random.default_rng(seed)
        self.x = _complete(_Functions(np, long=lambda v: v.astype(np.int64), float=lambda v: v.astype(np.float64), add_rows=self._add_rows, sorted=lambda v: np.sort(v, axis=-1),
                                      repeat=lambda v, n, axis: np.repeat(v, n, axis=axis), round=np.rint))

    @staticmethod
    def _add_rows(target, index, rows):
        target = np.array(target)
        np.add.at(target, index, rows)
        return target

    def normal(self, shape, dtype="fp32", scale=1.0):
        return (self.rng.standard_normal(shape, dtype=np.float32) * scale).astype(self.dtypes[dtype])

    def uniform(self, shape, dtype="fp32", low=0.0, high=1.0):
        return (self.rng.random(shape, dtype=np.float32) * (high - low) + low).astype(self.dtypes[dtype])

    def integers(self, shape, low, high, dtype="int32"):
        return self.rng.integers(low, high, shape).astype(self.dtypes[dtype])

    def permutation(self, n, dtype="int32"):
        return self.rng.permutation(n).astype(self.dtypes[dtype])

    def empty(self, shape, dtype="fp32"):
        return np.zeros(shape, self.dtypes[dtype])

    zeros = empty

    def cast(self, a, dtype):
        return a.astype(self.dtypes[dtype])

    def array(self, values, dtype="int32"):
        return np.array(values, self.dtypes[dtype])

    def wide(self, a, dtype=np.float64):
        """As a reference takes it: floats wide, integers as they are."""
        return a if a.dtype.kind in "iub" else a.astype(dtype)

    def copy(self, a):
        return a.copy()

    def restore(self, a, saved):
        a[...] = saved

    def clear(self, a):
        a[...] = 0

    def error(self, got, want):
        """The largest error relative to the largest value expected."""
        want = np.asarray(want, np.float64)
        if want.shape != got.shape:
            raise ValueError(f"the reference has shape {want.shape}, the output {got.shape}")
        return float(np.max(np.abs(got.astype(np.float64) - want), initial=0)) / (float(np.max(np.abs(want), initial=0)) or 1.0)

    def name(self, a):
        return next(n for n, d in self.dtypes.items() if a.dtype == d)


class Torch:
    """Tensors on a GPU, or on the CPU for the peers there."""

    def __init__(self, device, seed=0):
        import torch
        self.torch, self.device = torch, device
        self.dtypes = {name: getattr(torch, full) for name, full in TORCH_NAMES.items()}
        self.generator = torch.Generator(device=device)
        self.generator.manual_seed(seed)
        self.x = _complete(_Functions(torch, long=lambda v: v.long(), float=lambda v: v.float(), add_rows=lambda t, i, r: t.index_add(0, i.long(), r), sorted=lambda v: torch.sort(v, axis=-1).values,
                                      repeat=lambda v, n, axis: torch.repeat_interleave(v, n, axis), max=None, min=None))

    def normal(self, shape, dtype="fp32", scale=1.0):
        return (self.torch.randn(shape, device=self.device, generator=self.generator) * scale).to(self.dtypes[dtype])

    def uniform(self, shape, dtype="fp32", low=0.0, high=1.0):
        return (self.torch.rand(shape, device=self.device, generator=self.generator) * (high - low) + low).to(self.dtypes[dtype])

    def integers(self, shape, low, high, dtype="int32"):
        return self.torch.randint(low, high, shape if isinstance(shape, tuple) else (shape,), device=self.device, generator=self.generator).to(self.dtypes[dtype])

    def permutation(self, n, dtype="int32"):
        return self.torch.randperm(n, device=self.device, generator=self.generator).to(self.dtypes[dtype])

    def empty(self, shape, dtype="fp32"):
        return self.torch.zeros(shape, device=self.device, dtype=self.dtypes[dtype])

    zeros = empty

    def cast(self, a, dtype):
        return a.to(self.dtypes[dtype])

    def array(self, values, dtype="int32"):
        return self.torch.tensor(values, device=self.device, dtype=self.dtypes[dtype])

    def wide(self, a):
        return a.float() if a.is_floating_point() else a

    def copy(self, a):
        return a.clone()

    def restore(self, a, saved):
        a.copy_(saved)

    def clear(self, a):
        a.zero_()

    def error(self, got, want):
        if tuple(want.shape) != tuple(got.shape):
            raise ValueError(f"the reference has shape {tuple(want.shape)}, the output {tuple(got.shape)}")
        want = want.double() if want.numel() < 1 << 26 else want.float()
        return ((got.to(want.dtype) - want).abs().max() / (want.abs().max().clamp_min(1e-30))).item()

    def name(self, a):
        return next(n for n, d in self.dtypes.items() if a.dtype == d)


def unset(maker):
    """The maker with arrays that hold nothing in particular: enough to compile kernels for their types and addresses. numpy's take no memory."""
    maker.normal = maker.uniform = lambda shape, dtype="fp32", *range: maker.empty(shape, dtype)
    maker.integers = lambda shape, low, high, dtype="int32": maker.empty(shape, dtype)
    maker.permutation = lambda n, dtype="int32": maker.empty(n, dtype)
    return maker


def made(maker, entry, shape, dtype):
    """The arrays of an entry, by name, as attributes."""
    return SimpleNamespace(**entry.inputs(maker, shape, dtype))


def expected(maker, entry, arrays, shape):
    """The reference's outputs by name."""
    wide = SimpleNamespace(**{k: maker.wide(v) for k, v in vars(arrays).items()})
    out = entry.reference(maker.x, wide, shape)
    return dict(zip(entry.outputs, out if isinstance(out, tuple) else (out,), strict=True))
