"""`python -m tegula script.py` runs scripts that import triton; tegula.testing."""
import importlib.util
import subprocess
import sys

import numpy as np
import pytest
from tegula import testing

SCRIPT = '''
import sys
import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.testing import assert_close
from triton.runtime.errors import OutOfResources, PTXASError


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, tl.exp(x) + tl.cdiv(n, BLOCK), mask=mask)


n = int(sys.argv[1])
x, out = np.random.rand(n).astype(np.float32), np.empty(n, np.float32)
grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
kernel[grid](x, out, n, BLOCK=triton.next_power_of_2(33))
assert_close(out, np.exp(x) + triton.cdiv(n, 64), atol=1e-4, rtol=1e-5)
assert issubclass(PTXASError, triton.TritonError)
print("fine", triton.__name__, __name__)
'''


def run(path, *args):
    return subprocess.run([sys.executable, "-m", "tegula", path, *args], text=True, capture_output=True, timeout=120)


def test_script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    done = run(path, "1000")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fine") and done.stdout.rstrip().endswith("__main__")


# As PyTorch does when it looks for a compiler.
PYTORCH = '''
import inspect, platform, sys
import triton
import triton.backends.compiler, triton.compiler.compiler, triton.runtime.driver
from triton import Config
from triton.backends.compiler import BaseBackend, GPUTarget
from triton.compiler import CompiledKernel
from triton.compiler.compiler import make_backend
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner, Heuristics, OutOfResources, PTXASError
from triton.runtime.cache import triton_key
from triton.runtime.jit import JITFunction, KernelInterface
import triton.runtime.jit

@triton.jit
def kernel(x):
    pass

assert isinstance(kernel, JITFunction) and isinstance(kernel, KernelInterface) and isinstance(triton.heuristics({})(kernel), Heuristics)
assert not isinstance(kernel, Autotuner) and not hasattr(triton.backends.compiler, "AttrsDescriptor")
assert set(triton.backends.backends) >= {"cpu", "nvidia"} and all(b.compiler and b.driver for b in triton.backends.backends.values())
for d in (driver, triton.runtime.driver, sys.modules["triton.runtime.driver"].driver):
    assert d.active.get_current_target() == GPUTarget("cpu", platform.machine(), 32) and d.active.get_current_stream(0) == 0
assert triton_key() == triton_key() and isinstance(triton_key(), str)
assert Config({"B": 1}, num_warps=8).all_kwargs() == {"B": 1, "num_warps": 8, "num_stages": 3, "num_ctas": 1}
assert isinstance(make_backend(driver.active.get_current_target()), BaseBackend)
assert isinstance(triton.autotune([Config({}), Config({}, num_warps=8)], [])(kernel), Autotuner)
try:
    make_backend(GPUTarget("nobody", 1, 32))
except RuntimeError as e:
    print(e)
'''


def test_what_pytorch_imports(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(PYTORCH)
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert "0 compatible backends for target (nobody)" in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("what", ["torch.optim.AdamW([w]).step()", "checkpoint(lambda a: a * 2, w, use_reentrant=False).sum().backward()", "FakeTensorMode().__enter__()",
                                  "assert f(w.detach()).tolist() == [1] * 4", "torch.compile(lambda x: torch.nn.functional.gelu(x), backend='eager')(w)"])
def test_pytorch_around_kernels(tmp_path, what):
    path = tmp_path / "script.py"
    path.write_text(f"""
import torch, triton, triton.language as tl
from torch.library import triton_op, wrap_triton
from torch.utils.checkpoint import checkpoint
from torch._subclasses.fake_tensor import FakeTensorMode

@triton.jit
def ones(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, 1.0, mask=i < n)

@triton_op("tegula_tests::ones", mutates_args=())
def f(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    wrap_triton(ones)[(1,)](y, 4, B=4)
    return y

w = torch.nn.Parameter(torch.randn(4))
{what}
""")
    done = run(path)
    assert done.returncode == 0, done.stderr


def test_what_came_along_is_in_sys_modules(tmp_path):
    path = tmp_path / "script.py"
    path.write_text('''
import importlib, sys
import triton
for name in ("triton.language.core", "triton.runtime", "triton.runtime.driver", "triton.runtime.jit"):
    assert sys.modules[name] is sys.modules[name.replace("triton", "tegula", 1)], name
assert not [n for n in sys.modules if n.startswith("triton._")]
old = triton.runtime.driver
for name in ("triton.runtime.driver", "triton.runtime"):
    importlib.reload(sys.modules[name])
assert triton.runtime.driver is not old and triton.runtime.driver.active is not None
import triton.compiler, triton.runtime.driver
assert sys.modules["triton.compiler.compiler"].compile is triton.compile
from triton.runtime import driver
assert triton.runtime.driver is driver and hasattr(driver, "set_active")
''')
    done = run(path)
    assert done.returncode == 0, done.stderr


def test_unknown_attribute(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("import triton\ntriton.no_such_thing\n")
    done = run(path)
    assert done.returncode != 0 and "no_such_thing" in done.stderr


def test_missing_script(tmp_path):
    done = run(tmp_path / "none.py")
    assert done.returncode != 0 and "none.py" in done.stderr and "Traceback" not in done.stderr


def test_import_needs_no_numpy(tmp_path):
    code = "import sys; sys.modules['numpy'] = None; import tegula; print(tegula.__version__)"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_assert_close():
    x = np.array([1.0, np.nan])
    testing.assert_close(x, x + 0.005)
    testing.assert_close(x, x * 1.05, atol=0, rtol=0.1)
    with pytest.raises(AssertionError):
        testing.assert_close(x, x + 1)


@pytest.mark.parametrize("mode", ["min", "max", "mean", "median", "all"])
def test_do_bench(mode):
    r = testing.do_bench(lambda: sum(range(100)), warmup=1, rep=2, return_mode=mode)
    assert all(t > 0 for t in r) if mode == "all" else r > 0
    with pytest.raises(ValueError):
        testing.do_bench(lambda: 0, return_mode="none")
