"""What bad input and bad drivers get: one clear error each, from Python, with the stand-in for the driver where a GPU is needed."""
import pytest
from programs import FAKE, with_fake_driver

PROLOGUE = '''
import numpy as np, tegula, tegula.language as tl
from tegula.tools.tensor_descriptor import TensorDescriptor

@tegula.jit
def add(x, y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)

@tegula.jit
def product(x, y, n, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    a = tl.load(x + i * n + j)
    tl.store(y + i * n + j, tl.dot(a, a))

@tegula.jit
def blocks(a, b):
    b.store([0, 0], a.load([0, 0]))

@tegula.jit
def stops(x, n):
    tl.device_assert(tl.load(x) == n, "not so")

def blocked(x, **fields):
    """A descriptor of 16 x 16 floats, spoilt after it was made."""
    d = TensorDescriptor(x, [16, 16], [16, 1], [8, 8])
    for name, value in fields.items():
        setattr(d, name, value)
    return d

class Array:
    """On a GPU, as CuPy's."""
    def __init__(self, ordinal=0, stream=None, shift=0):
        self.device = type("Device", (), {"id": ordinal})
        address = tegula._core.allocate(f"cuda:{ordinal}", 1024) + shift
        self.dtype, self.shape = np.dtype("float32"), (256,)
        self.__cuda_array_interface__ = {"data": (address, False), "typestr": "<f4", "shape": (256,), "strides": None, "version": 3, "stream": stream}

def go(x=None, y=None, kernel=add, **kw):
    x = Array() if x is None else x
    kernel[(1,)](x, x if y is None else y, 256, BLOCK=kw.pop("BLOCK", 256), **kw)

cpu = np.zeros(256, np.float32)
try:
    %s
except Exception as e:
    print(type(e).__name__ + ": " + str(e))
'''

LOST = "; the GPU gave up this process's context, which must be restarted to use it again"
# name, switches of the driver (None: there is none), what is done, the start of the error, and what it must say somewhere
ROWS = [
    ("no driver", None, "go(cpu, device='cuda')", "LookupError: no NVIDIA driver found", ""),
    ("driver too old", "version=11080", "go(cpu, device='cuda')",
     "NotImplementedError: the NVIDIA driver supports CUDA 11.8; tegula needs a driver for CUDA 12.0 or later", ""),
    ("no GPU", "deviceCount=0", "go(cpu, device='cuda')", "LookupError: the NVIDIA driver finds no GPU", ""),
    ("GPU too old", "capability=75", "go()",
     "NotImplementedError: cuda:0 (Fake H200, compute capability 7.5) cannot run tegula's code: it needs 8.0 (Ampere) or later", ""),
    ("CPU tensor", "", "go(Array(), cpu)", "ValueError: `add`: argument `y` points to CPU memory, which cuda:0 cannot access", ""),
    ("two GPUs", "deviceCount=2", "go(Array(0), Array(1))",
     "ValueError: `add`: argument `y` points to memory of cuda:1; the kernel runs on cuda:0, which cannot access it", ""),
    ("out of memory", "allocateResult=2", "go()", "OutOfResources: allocating 1024 bytes on cuda:0 failed: CUDA_ERROR_OUT_OF_MEMORY", "bytes are free"),
    ("stream of another context", "launchResult=400", "go(stream=0x99)", "ValueError: launching `add` on cuda:0 failed: CUDA_ERROR_INVALID_HANDLE",
     "is the stream of another device or context, or destroyed?"),
    ("too many warps", "", "go(num_warps=64)",
     "OutOfResources: out of resource: threads, Required: 2048, Hardware limit: 1024. `add`: num_warps is 64; a block of a GPU has at most 32 warps", ""),
    ("too many warps, simulator", "", "go(cpu, device='sim', num_warps=64)", "OutOfResources: out of resource: threads, Required: 2048", ""),
    ("no device has as many", "", "go(cpu, device='cpu', num_warps=128)",
     "OutOfResources: out of resource: threads, Required: 4096, Hardware limit: 2048. num_warps is 128; it must be a power of 2, at most 64", ""),
    ("warps", "", "go(num_warps=3)", "AssertionError: num_warps is 3; it must be a power of 2, at most 64", ""),
    ("too many registers", "maxThreads=64 registers=255", "go()", "OutOfResources: out of resource: threads, Required: 128, Hardware limit: 64. "
     "`add` takes 255 registers in each of 128 threads", "A smaller num_warps"),
    ("clusters of an old GPU", "capability=80", "go(num_ctas=2)", "ValueError: `add`: num_ctas is 2; num_ctas > 1 requires NVIDIA SM90+ (Hopper), the target is sm_80", ""),
    ("cluster too large", "", "go(num_ctas=32)", "OutOfResources: out of resource: blocks of a cluster, Required: 32, Hardware limit: 16. `add`", ""),
    ("odd cluster", "", "go(num_ctas=3)", "ValueError: `add`: num_ctas is 3; it must be a power of 2", ""),
    ("cluster without room", "clustersThatFit=0", "go(num_ctas=2)", "OutOfResources: `add` needs clusters of 2 blocks", "has no room for one. A smaller num_ctas helps"),
    ("no warps", "", "go(num_warps=0)", "ValueError: num_warps is 0", ""),
    ("far too many warps", "", "go(num_warps=1 << 32)", "ValueError: num_warps is 4294967296", ""),
    ("number of another kind", "", "go(num_stages='3')", "TypeError: num_stages: an int is needed, found str", ""),
    ("grid of another kind", "", "add[('1',)](cpu, cpu, 256, BLOCK=256)", "TypeError: a grid has extents that are ints, found str", ""),
    ("grid beyond 64 bits", "", "add[(1 << 70,)](cpu, cpu, 256, BLOCK=256)", "ValueError: grid dimension 0 is 1180591620717411303424; at most 2147483647", ""),
    ("misaligned descriptor", "", "blocks[(1,)](blocked(Array(shift=4)), blocked(Array()))", "AssertionError: base must be 16-byte aligned", ""),
    ("misaligned descriptor, later", "", "blocks[(1,)](blocked(Array(), base=Array(shift=4)), blocked(Array()))",
     "ValueError: argument `a`: tensor descriptor: base must be 16-byte aligned", ""),
    ("strides of a descriptor", "", "blocks[(1,)](blocked(Array()), blocked(Array(), strides=[15, 1]))",
     "ValueError: argument `b`: tensor descriptor: strides must be 16-byte aligned: strides[0] is 15 elements of 4 bytes", ""),
    ("far strides of a descriptor", "", "blocks[(1,)](blocked(Array(), strides=[1 << 50, 1]), blocked(Array()))",
     "ValueError: `blocks`: tensor descriptor of `a`: a stride is 4503599627370496; it must be below 2^40 bytes", ""),
    ("shape of a descriptor", "", "blocks[(1,)](blocked(Array(), shape=['16', 16]), blocked(Array()))",
     "TypeError: argument `a`: shape[0] of the tensor descriptor is no int of 64 bits", ""),
    ("descriptor of a CPU tensor", "", "blocks[(1,)](blocked(Array()), blocked(cpu))", "ValueError: `blocks`: argument `b.base` points to CPU memory", ""),
    ("descriptor, simulator", "", "blocks[(1,)](blocked(cpu, strides=[1 << 50, 1]), blocked(cpu), device='sim')",
     "ValueError: `blocks`: tensor descriptor of `a`: a stride is 4503599627370496", ""),
    ("cooperative grid", "launchResult=720", "go(launch_cooperative_grid=True)", "OutOfResources: launching `add` on cuda:0 failed", "at most 264 blocks"),
    ("shared memory", "", "go(kernel=product, BLOCK=512)", "OutOfResources: out of resource: shared memory, Required: ", "most of it, "),
    ("trap", "waitResult=719", "go(); tegula._core.synchronize('cuda:0')",
     "DeviceError: waiting for cuda:0 failed: a kernel on cuda:0 stopped with CUDA_ERROR_LAUNCH_FAILED", "launched last (latest first): `add`" + LOST),
    ("illegal address", "launchResult=700", "go()", "DeviceError: launching `add` on cuda:0 failed: a kernel on cuda:0 stopped with CUDA_ERROR_ILLEGAL_ADDRESS", LOST),
    ("assertion, simulator", "", "stops[(1,)](cpu, 5, device='sim', debug=True)", "DeviceError: ", "assertion failed: not so"),
    ("outside, simulator", "", "add[(3,)](cpu, cpu, 1 << 20, BLOCK=256, device='sim')", "DeviceError: ", "out-of-bounds load through argument `x`"),
    ("clusters, old GPU simulated", "", "go(cpu, device='sim:sm_80', num_ctas=2)", "ValueError: `add`: num_ctas is 2; num_ctas > 1 requires NVIDIA SM90+ (Hopper)", ""),
    ("cluster too large, simulator", "", "go(cpu, device='sim', num_ctas=32)", "OutOfResources: out of resource: blocks of a cluster, Required: 32", ""),
    ("shared memory, simulator", "", "go(cpu, device='sim', kernel=product, BLOCK=512)", "OutOfResources: out of resource: shared memory", "`product` needs"),
    ("refused code", "loadResult=218", "go()", "PTXASError: PTXAS error: loading `add` on cuda:0 failed: CUDA_ERROR_INVALID_PTX", ""),
    ("grid", "", "add[(1, 70000)](Array(), Array(), 256, BLOCK=256)", "ValueError: `add`: the grid is 1 x 70000 x 1; GPUs take at most", ""),
    ("unknown GPU", "deviceCount=2", "go(cpu, device='cuda:2')", "LookupError: there is no device `cuda:2`; this machine has: cpu, sim, cuda:0, cuda:1", ""),
]


def output(action, folder, switches="", **env):
    script = folder / "script.py"
    script.write_text(PROLOGUE % action)
    if switches is None:
        env["TEGULA_LIBCUDA"] = "/nonexistent/libcuda.so"
    return with_fake_driver(script, TEGULA_CACHE_DIR="", FAKECUDA=switches or "", **env)


@pytest.mark.parametrize("switches, action, start, part", [r[1:] for r in ROWS], ids=[r[0].replace(" ", "-") for r in ROWS])
def test_error(switches, action, start, part, tmp_path):
    out = output(action, tmp_path, switches)
    assert out.startswith(start) and part in out, out


def test_assembler_refuses(tmp_path):
    """Its log, the line of the PTX it means, and the line of the kernel that this came from."""
    out = output("go()", tmp_path, TEGULA_NVJITLINK=str(FAKE.with_name("libfakejitlink.so")))
    assert out.startswith("PTXASError: PTXAS error: nvJitLink 12.9 refused the code of `add` for sm_90a:\n  options: -arch=sm_90a "), out
    assert "\n  ptxas application ptx input, line " in out, out
    assert "error   : planted" in out and "st.global" in out, out
    assert f"from {tmp_path / 'script.py'}:8" in out, out


def test_other_work_goes_on(tmp_path):
    """After an error that the driver allows to survive, the next launch is as good as any."""
    out = output("""
    for bad in (lambda: go(Array(), cpu), lambda: go(num_warps=64), lambda: go(kernel=product, BLOCK=512), lambda: go(stream="x")):
        try:
            bad()
            print("no error")
        except Exception as e:
            print(type(e).__name__)
        go()
        add[(1,)](cpu, cpu, 256, BLOCK=256)
    print(cpu[0])""".strip(), tmp_path)
    assert out.split() == ["ValueError", "OutOfResources", "OutOfResources", "TypeError", "4.0"], out
