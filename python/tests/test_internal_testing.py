"""triton._internal_testing without PyTorch: what the host side of tests needs."""
import os
import sys

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula import _internal_testing as t
from tegula import knobs


@pytest.mark.parametrize("dtype", t.dtypes_with_bfloat16 + ["bool", "float8_e5m2"])
def test_random_arrays(dtype):
    x = t.numpy_random((64, 2), dtype)
    assert x.shape == (64, 2) and (x == t.numpy_random((64, 2), dtype)).all() and len(np.unique(x)) > 1
    assert x.dtype == {"bfloat16": np.float32, "float8_e5m2": np.int8}.get(dtype, np.dtype(dtype if dtype in t.dtypes else np.int8 if "8" in dtype else np.float32)
                                                                           if dtype != "bool" else np.bool_)
    if dtype in t.integral_dtypes:
        assert (x != 0).all() and (t.numpy_random(1000, dtype, low=5, high=9) < 9).all()
    if dtype == "bfloat16":
        assert not (x.view(np.uint32) & 0xffff).any()


def test_kinds():
    assert not t.is_interpreter() and t.get_current_target().backend in ("cpu", "cuda") and t.is_cuda() == (not t.is_cpu()) and not t.is_hip() and not t.is_xpu()
    assert t.get_arch() == str(t.get_current_target().arch)
    assert t.str_to_triton_dtype("bfloat16") == tl.bfloat16 and t.torch_dtype_name(tl.int8) == "int8" and t.torch_dtype_name("torch.float16") == "float16"
    assert t.requires_tma.name == "skipif" and t.unwrap_tensor(tegula.reinterpret(x := np.zeros(4, np.int8), tl.uint8)) is x
    wrapped = tegula.reinterpret(np.zeros(4, np.int8), tl.uint8)
    assert t.unwrap_tensor(5) == 5 and wrapped.dtype == tl.uint8


def test_fresh_knobs(monkeypatch):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    before = knobs.autotuning
    monkeypatch.setattr(knobs, "propagate_env", False)
    fresh, back = t._fresh_knobs_impl()
    try:
        module = fresh()
        assert module is knobs and knobs.autotuning is not before and not knobs.autotuning.print
        knobs.autotuning.cache = True
        assert os.environ["TRITON_CACHE_AUTOTUNING"] == "1"
        log = []
        knobs.runtime.launch_enter_hook.add(lambda m: log.append(m.get()["name"]))
        out = np.zeros(1, np.float32)
        store[(1,)](out)
        assert log == ["store"]
    finally:
        back()
    assert not knobs.propagate_env and knobs.autotuning is before and before.print and "TRITON_CACHE_AUTOTUNING" not in os.environ
    store[(1,)](out)
    assert log == ["store"]


@tegula.jit
def store(out):
    tl.store(out, 1.0)


def works(text, number):
    print(text, number, os.environ["TEGULA_TEST_PROCESS"], file=sys.stderr)
    os.write(2, b"from below\n")


def fails():
    raise ValueError("a reason")


def test_processes():
    done = t.run_in_process(works, ("said", ), {"number": 5}, env={"TEGULA_TEST_PROCESS": "yes"})
    assert done.exc is None and "said 5 yes" in done.driver_stderr_output and "from below" in done.driver_stderr_output
    done = t.run_in_process(fails)
    assert isinstance(done.exc, ValueError) and "a reason" in done.driver_stderr_output
