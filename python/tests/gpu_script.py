"""Run by test_devices.py in a process of its own, with the stand-in for the CUDA driver as the driver: prints what happened, line by line."""
import ctypes
import os
import pickle

import numpy as np
import tegula
import tegula.language as tl
from tegula import testing


@tegula.jit
def add(x, y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)


@tegula.jit
def nothing():
    pass


def say(what, value):
    print(f"{what}: {value}", flush=True)


def error(what, f):
    try:
        f()
        say(what, "no error")
    except Exception as e:
        say(what, f"{type(e).__name__}: {e}")


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


FROM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64))


class Api(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p), ("a", ctypes.c_void_p),
                ("b", ctypes.c_void_p), ("c", ctypes.c_void_p), ("from_object", FROM), ("stream", STREAM)]


def fill(obj, out):
    t = out.contents
    t.data, t.device_type, t.device_id, t.ndim, t.code, t.bits, t.lanes = obj.address - 8, 2, 0, 1, 2, 32, 1
    t.shape, t.strides, t.byte_offset = ctypes.addressof(obj.shape), None, 8
    return 0


def stream(kind, ordinal, out):
    out[0] = 0x5000 + ordinal
    return 0


api = Api(1, 3, None, None, None, None, FROM(fill), STREAM(stream))
ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Tensor:
    """As a tensor of a library with DLPack's C exchange interface looks."""
    __dlpack_c_exchange_api__ = ctypes.pythonapi.PyCapsule_New(ctypes.addressof(api), b"dlpack_exchange_api", None)

    def __init__(self, address, n):
        self.address, self.shape = address, (ctypes.c_int64 * 1)(n)


class Cupy:
    """As an array of CuPy looks."""

    def __init__(self, address, stream):
        self.__cuda_array_interface__ = {"data": (address, False), "typestr": "<f4", "shape": (256,), "strides": None, "version": 3, "stream": stream}


x = np.arange(256, dtype=np.float32)
say("devices", tegula.devices())
with testing.Mirror("cuda") as m:
    k = add[(2,)](*m.to((x, x)), 256, BLOCK=128)
say("kernel", (k.metadata.target_name, k.n_regs, k.n_spills, k.shared, list(k.asm)))
say("timings", k.timings["total"] > 0)
error("numpy", lambda: add[(1,)](x, x, 256, BLOCK=128, device="cuda"))
with testing.Mirror("cuda") as m:
    error("sim", lambda: add[(1,)](*m.to((x, x)), 256, BLOCK=128, device="sim"))
    error("cpu", lambda: add[(1,)](*m.to((x, x)), 256, BLOCK=128, device="cpu"))
error("no device", lambda: add[(1,)](x, x, 256, BLOCK=128, device="cuda:3"))
error("bad stream", lambda: add[(1,)](x, x, 256, BLOCK=128, stream="x"))
a = tegula._core.allocate("cuda:0", 1024)
fake = ctypes.CDLL(os.environ["TEGULA_LIBCUDA"])
fake.fakeCudaLastStream.restype = ctypes.c_uint64
add[(1,)](Cupy(a, 0x77), Cupy(a, 0x77), 256, BLOCK=128)
say("stream of an array", hex(fake.fakeCudaLastStream()))
add[(1,)](Tensor(a, 256), Tensor(a, 256), 256, BLOCK=128)
say("stream of a library", hex(fake.fakeCudaLastStream()))
add[(1,)](Tensor(a, 256), Tensor(a, 256), 256, BLOCK=128, stream=0x99)
say("stream of the caller", hex(fake.fakeCudaLastStream()))
sent = pickle.loads(pickle.dumps(k))
sent[(2, 1, 1)](Tensor(a, 256), Tensor(a, 256), 256, 128, stream=0x55)
say("pickled", (sent.metadata.target_name, hex(fake.fakeCudaLastStream()), sent.n_regs, sent.asm["cubin"] == k.asm["cubin"]))
y = np.zeros(256, np.float32)
add[(2,)](x, y, 256, BLOCK=128)
say("numpy goes to the CPU", bool((y == x + 1).all()))
tegula.runtime.driver.set_active_to_gpu()
texts = []
tegula.knobs.runtime.jit_cache_hook = lambda **kw: texts.append(kw["compile"]["specialization_data"])
warm = add.warmup(tegula.language.float32, tegula.language.float32, 256, BLOCK=64, grid=(1,))
add.device_caches[0][0].clear()
older = add.warmup(tegula.language.float32, tegula.language.float32, 256, BLOCK=64, grid=(1,), arch="sm80")
say("of another architecture", (older.metadata.target_name, ".target sm_80" in older.asm["ptx"]))
tegula.knobs.runtime.override_arch = "sm80"
error("clusters of another architecture", lambda: add.warmup(tegula.language.float32, tegula.language.float32, 256, BLOCK=64, num_ctas=2, grid=(1,)))
tegula.knobs.runtime.override_arch = None
say("preloaded", (add.preload(texts[0]).hash == warm.hash, warm.metadata.target_name))
