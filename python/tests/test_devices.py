"""Devices by name, launches on the simulator, and the GPU path up to the driver (a stand-in that records and does not run)."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tegula
import tegula.language as tl
from programs import with_fake_driver


@tegula.jit
def add(x, y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)


def test_names():
    names = [n for n, _ in tegula.devices()]
    assert names[:2] == ["cpu", "sim"]
    x = np.zeros(16, np.float32)
    with pytest.raises(LookupError, match="there is no device `tpu`; this machine has: cpu, sim"):
        add[(1,)](x, x, 16, BLOCK=16, device="tpu")


@pytest.mark.parametrize("device", ["cpu", "sim", "sim:sm_80", None])
def test_launch(device):
    x, y = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    k = add[(3,)](x, y, 300, BLOCK=128, device=device, num_warps=2)
    np.testing.assert_array_equal(y, x + 1)
    assert k.metadata.target_name.split(":")[0] == (device or "cpu").split(":")[0]
    if device == "sim":
        assert k.metadata.threads == 64 and list(k.asm)[-3:] == ["gpu", "llvm", "obj"]


def test_one_kernel_on_two_devices():
    x = np.zeros(64, np.int32)
    for i in range(2):
        for device in ("cpu", "sim"):
            add[(1,)](x, x, 64, BLOCK=64, device=device)
    assert (x == 4).all()


def test_bounds_on_the_simulator():
    x = np.zeros(100, np.float32)
    with pytest.raises(tegula.DeviceError, match=r"test_devices.py:\d+:\d+: error: out-of-bounds load through argument `x`: byte offset 400, buffer of 400 bytes in program .* of `add` on sim") as e:
        add[(1,)](x, x, 128, BLOCK=128, device="sim")
    assert e.value.fault["kernel"] == "add" and e.value.fault["line"] == add.fn.__code__.co_firstlineno + 3


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    out = with_fake_driver(Path(__file__).with_name("gpu_script.py"), TEGULA_CACHE_DIR=str(tmp_path_factory.mktemp("cache")))
    return dict(line.split(": ", 1) for line in out.splitlines())


def test_gpu_kernel(gpu):
    assert gpu["devices"].endswith("('cuda:0', 'sm_90a')]")
    assert gpu["kernel"] == "('sm_90a', 32, 0, 0, ['source', 'ast', 'tree', 'tile', 'gpu', 'llvm', 'ptx', 'cubin'])"
    assert gpu["timings"] == "True"
    assert gpu["numpy goes to the CPU"] == "True"


def test_gpu_kernel_of_another_process(gpu):
    assert gpu["pickled"] == "('sm_90a', '0x55', 32, True)"


def test_gpu_kernel_preloaded(gpu):
    assert gpu["preloaded"] == "(True, 'sm_90a')"  # for the active device, not for that of arguments that are nowhere


def test_gpu_kernel_of_another_architecture(gpu):
    assert gpu["of another architecture"] == "('sm_80', True)"
    assert gpu["clusters of another architecture"] == "ValueError: `add`: num_ctas is 2; num_ctas > 1 requires NVIDIA SM90+ (Hopper), the target is sm_80"


def test_gpu_errors(gpu):
    assert gpu["numpy"] == "ValueError: `add`: argument `x` points to CPU memory, which cuda:0 cannot access"
    assert gpu["sim"] == "ValueError: argument `x`: the tensor is on device cuda:0; this kernel runs on the simulator"
    assert gpu["cpu"] == "ValueError: argument `x`: the tensor is on device cuda:0; this kernel runs on the CPU"
    assert gpu["no device"] == "LookupError: there is no device `cuda:3`; this machine has: cpu, sim, cuda:0"
    assert gpu["bad stream"].startswith("TypeError: stream: a CUDA stream or its address is needed")


def test_gpu_streams(gpu):
    assert gpu["stream of an array"] == "0x77"
    assert gpu["stream of a library"] == "0x5000"
    assert gpu["stream of the caller"] == "0x99"


def test_no_driver(tmp_path):
    script = "import tegula\ntry: tegula._core.allocate('cuda', 4)\nexcept LookupError as e: print(e)"
    p = subprocess.run([sys.executable, "-c", script], env=dict(os.environ, TEGULA_LIBCUDA="/nonexistent.so"), text=True, capture_output=True)
    assert p.stdout.startswith("no NVIDIA driver found"), p.stdout + p.stderr


def test_cached_kernel_opens_no_assembler(tmp_path):
    """Its part of the key is the library's build id, read from the file."""
    library = next((p for f in sys.path if f.endswith("-packages") for p in Path(f).glob("nvidia/*/lib/libnvJitLink.so.1*")), None)
    if library is None:
        pytest.skip("no libnvJitLink among the packages")
    script = tmp_path / "script.py"
    script.write_text("""
import tegula
from tegula.backends.compiler import GPUTarget

@tegula.jit
def nothing():
    pass

kernel = tegula.compiler.compile(tegula.compiler.ASTSource(nothing, {}, {}, {}), GPUTarget("cuda", 90, 32), {"num_warps": 4})
print(kernel.metadata.origin, "libnvJitLink" in open("/proc/self/maps").read())
""")
    env = dict(os.environ, TEGULA_CACHE_DIR=str(tmp_path / "cache"), TEGULA_NVJITLINK=str(library), TEGULA_LIBCUDA="/nonexistent.so")
    runs = [subprocess.run([sys.executable, str(script)], env=env, text=True, capture_output=True) for _ in range(2)]
    assert [p.stdout for p in runs] == ["compiler True\n", "disk False\n"], runs[0].stderr + runs[1].stderr
