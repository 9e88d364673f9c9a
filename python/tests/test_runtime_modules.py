"""Small modules that programs written for Triton import: build, cache, drivers, _utils, disasm, the allocator, what jit functions tell of themselves."""
import collections
import contextvars
import json
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula import _utils, knobs
from tegula.backends.compiler import GPUTarget, target_of
from tegula.compiler import ASTSource, CompiledKernel, IRSource, make_backend
from tegula.runtime import _allocation, build, cache, driver
from tegula.runtime.jit import create_function_from_signature, mangle_type, native_specialize_impl
from tegula.tools import disasm


@tegula.jit(do_not_specialize=["m"], do_not_specialize_on_alignment=["n"])
def kernel(x: tl.const, n, m: "i64", c: float, p: "*fp16", BLOCK: tl.constexpr = 64):
    """Says something."""
    tl.store(p + tl.arange(0, BLOCK), c + n + m)


@tegula.jit
def fill(out, value, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), value)


def test_what_a_function_tells():
    k = kernel
    assert k.__name__ == k.__qualname__ == "kernel" and k.__doc__ == "Says something." and k.module == k.__module__ == __name__
    assert k.arg_names == ["x", "n", "m", "c", "p", "BLOCK"] and k.constexprs == [5] and not k.noinline and k.debug is None and k.version is None
    rows = [(p.num, p.name, p.is_constexpr, p.is_const, p.annotation, p.annotation_type, p.do_not_specialize, p.do_not_specialize_on_alignment) for p in k.params]
    assert rows == [(0, "x", False, True, "const", "", False, False), (1, "n", False, False, "", "", False, True), (2, "m", False, False, "i64", "i64", True, False),
                    (3, "c", False, False, "fp32", "fp32", False, False), (4, "p", False, False, "*fp16", "*fp16", False, False),
                    (5, "BLOCK", True, False, "constexpr", "", False, False)]
    assert k.params[5].has_default and k.params[5].default == 64 and not k.params[0].has_default
    assert k.src.startswith("def kernel(x") and k.raw_src[0].startswith("@tegula.jit") and k.parse().body[0].name == "kernel"
    with pytest.raises(AttributeError):
        k.src = "def f(): pass"
    assert k.cache_key == k.hash == tegula.jit(do_not_specialize=["m"], do_not_specialize_on_alignment=["n"])(kernel.fn).cache_key != fill.cache_key
    file, line = tegula.runtime.jit.get_jit_fn_file_line(kernel)
    assert file == __file__ and open(__file__).read().splitlines()[line - 1].startswith("def kernel(")


def test_pickle_and_copies():
    import copy
    import pickle
    assert pickle.loads(pickle.dumps({"k": kernel}))["k"] is kernel and copy.deepcopy([kernel])[0] is copy.copy(kernel) is kernel

    @tegula.jit
    def nested(x):
        pass
    with pytest.raises(pickle.PicklingError, match="nested. cannot be pickled: it is not found as"):
        pickle.dumps(nested)
    nested.used_global_vals = None
    assert copy.deepcopy(nested) is nested and nested.used_global_vals == {}


def test_keywords_are_refused():
    def f(x, **kw):
        pass
    with pytest.raises(TypeError, match=r"JIT functions do not support \*\*kw parameters"):
        tegula.jit(f)


Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize("value, expected", [(None, ("constexpr", None)), (True, ("u1", None)), (1, ("constexpr", 1)), (16, ("i32", "D")), (0, ("i32", "D")), (7, ("i32", "")),
                                             (2**31, ("i64", "D")), (2**63, ("u64", "D")), (1.5, ("fp32", None)), (np.int32(7), ("i32", "")),
                                             ((1, 3), (("constexpr", "i32"), (1, ""))), (Pair(1.0, 16), (Pair("fp32", "i32"), Pair(None, "D"))),
                                             (tegula.MockTensor(tl.bfloat16), ("*bf16", "D")), (tl.constexpr(5), ("constexpr", 5)),
                                             (fill, ("constexpr", fill.cache_key))], ids=str)
def test_specializations(value, expected):
    assert native_specialize_impl(None, value, False, True, True) == expected


def test_other_specializations():
    assert tegula._C.libtriton.native_specialize_impl is native_specialize_impl
    assert native_specialize_impl(None, 1, False, False, True) == ("i32", None) and native_specialize_impl(None, 16, False, True, False) == ("i32", "")
    assert native_specialize_impl(None, tegula.MockTensor(tl.int8), True, True, True) == ("*ki8", "D") and mangle_type(np.zeros(4, np.float16)) == "*fp16"
    for value, error in ((2**64, OverflowError), ("text", TypeError), ([1], TypeError)):
        with pytest.raises(error):
            mangle_type(value)
    binder = create_function_from_signature(kernel.signature, kernel.params, None)
    arguments, rows, options = binder(np.zeros(4, np.float32), 16, 16, 1, np.zeros(4, np.float16), num_warps=2)
    assert arguments["BLOCK"] == 64 and options == {"num_warps": 2}
    assert [code for code, _ in rows] == ["*kfp32", "i32", "i64", "fp32", "*fp16", "constexpr"] and [key for _, key in rows][1:4] == ["", None, None]


def test_compile():
    source = ASTSource(fill, {"out": "*fp32", "value": "i32", "N": "constexpr"}, {"N": 16}, {(0,): [["tt.divisibility", 16]]})
    k = tegula.compile(source)
    assert isinstance(k, CompiledKernel) and k.src is source and "out:*fp32:16" in k.metadata.signature and k.name == "fill"
    out = np.zeros(16, np.float32)
    k[(1, 1, 1)](out, 7, 16)
    assert (out == 7).all()
    k.run(1, 1, 1, 0, k.function, k.packed_metadata, None, None, None, out, 8, 16)
    assert (out == 8).all()
    gpu = tegula.compile(ASTSource(fill, {"out": "*bf16", "value": "fp32"}, {(2,): 32}), target=GPUTarget("cuda", 80, 32), options={"num_warps": 2, "unknown": 1})
    assert "sm_80" in gpu.asm["ptx"] and gpu.metadata.target == GPUTarget("cuda", 80, 32) and gpu.metadata.num_warps == 2 and gpu.metadata._fields
    assert list(gpu.asm) == ["source", "ast", "tree", "tile", "gpu", "llvm", "ptx", "cubin"] and gpu.asm.get("what") is None
    with pytest.raises(KeyError, match="Unknown key"):
        gpu.asm["what"]
    with pytest.raises(ValueError, match="`N` is constexpr"):
        tegula.compile(ASTSource(fill, {"out": "*fp32", "value": "i32", "N": "constexpr"}))
    with pytest.raises(NotImplementedError, match="kernel.ttir"):
        tegula.compile("kernel.ttir")
    with pytest.raises(NotImplementedError):
        IRSource("x.ptx", None, None)
    assert source.hash() != ASTSource(fill, {"out": "*fp32", "value": "i32", "N": "constexpr"}, {"N": 32}).hash()


@tegula.jit
def counted(out, n, IS_WHILE: tl.constexpr, STAYS: tl.constexpr):
    if IS_WHILE:
        i = 0
        while tl.condition(i < n, disable_licm=STAYS):
            i = i + 1
            tl.atomic_add(out, i)
    else:
        for i in tl.range(0, n, disable_licm=STAYS):
            tl.atomic_add(out, i)


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("is_while", [True, False])
def test_what_llvm_must_leave_in_a_loop(is_while, stays):
    """disable_licm reaches LLVM on GPUs."""
    types = {"out": "*i32", "n": "i32", "IS_WHILE": "constexpr", "STAYS": "constexpr"}
    gpu = tegula.compile(ASTSource(counted, types, {"IS_WHILE": is_while, "STAYS": stays}), target=GPUTarget("cuda", 90, 32))
    assert ("llvm.licm.disable" in gpu.asm["llir"]) == stays


@tegula.jit
def power(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.exp2(tl.load(x + i)) + tl.extra.libdevice.fast_logf(tl.load(y + i)))


@pytest.mark.parametrize("flushes", [True, False, None])
def test_subnormal_numbers_of_exp2(flushes):
    options = {} if flushes is None else {"enable_reflect_ftz": flushes}
    gpu = tegula.compile(ASTSource(power, {"x": "*fp32", "y": "*fp32"}, {"N": 128}), target=GPUTarget("cuda", 90, 32), options=options)
    ftz = "" if flushes is False else ".ftz"
    assert f"ex2.approx{ftz}.f32" in gpu.asm["ptx"] and f"lg2.approx{ftz}.f32" in gpu.asm["ptx"]
    assert gpu.metadata.enable_reflect_ftz == (flushes is not False)


def test_backends():
    for target in (GPUTarget("cuda", 90, 32), GPUTarget("cpu", "", 32), GPUTarget("sim", 90, 32)):
        b = make_backend(target)
        options = b.parse_options({"num_warps": 8, "nothing": 1})
        assert options.num_warps == 8 and options.num_stages == 3 and options.backend_name == target.backend and b.hash() == make_backend(target).hash()
        assert hash(options) and options.__dict__["num_ctas"] == 1
        with pytest.raises(AssertionError, match="power of 2"):
            b.parse_options({"num_warps": 3})
        stages = {}
        b.add_stages(stages, options)
        assert "tile" in stages
    source = ASTSource(fill, {"out": "*fp32", "value": "i32"}, {"N": 16})
    stages = {}
    b = make_backend(GPUTarget("cuda", 90, 32))
    b.add_stages(stages, b.parse_options({}))
    assert ".target sm_90" in stages["ptx"](source, {})
    assert target_of("sm_100a") == GPUTarget("cuda", 100, 32) and target_of("sim:sm_80").arch == 80


def test_expand_signature():
    from tegula.backends.driver import expand_signature
    codes = ("*fp32", "tensordesc<fp16[64,32]>", ("i32", "tensordesc<fp32[8],input_rank=3>"))
    tail = ["i32"] * 2 + ["i64"] * 2
    assert expand_signature(codes, None, "nvTmaDesc") == ["*fp32", "*fp16", *["i64"] * 4, "i1", "i1", *tail, ("i32", "*fp32", *["i64"] * 6, "i1", "i1", *["i32"] * 3, *["i64"] * 3)]
    assert expand_signature(codes[:2], [{}], "nvTmaDesc") == ["*fp32", "nvTmaDesc", *tail]


def test_drivers():
    driver.reset_active()
    active = driver.active
    assert active.get_current_target().backend in ("cpu", "cuda") and active.get_current_stream(0) == 0 and active.get_current_device() == 0
    sim = tegula.backends.backends["sim"].driver()
    try:
        driver.set_active(sim)
        assert driver.active is sim and driver.active.get_current_target() == GPUTarget("sim", 90, 32)
        assert driver.active.utils.get_device_properties(0)["warpSize"] == 32
    finally:
        driver.reset_active()
    assert driver.active is active
    cpu = tegula.backends.backends["cpu"].driver()
    p = cpu.utils.get_device_properties(0)
    assert cpu.get_current_target() == GPUTarget("cpu", platform.machine(), 32) and p["multiprocessor_count"] >= 1
    assert cpu.get_device_interface().current_device() == 0 and cpu.get_device_interface().synchronize() is None
    assert cpu.get_benchmarker()(lambda: None, quantiles=(0.5, 0.2, 0.8))[0] > 0
    cpu.clear_cache(cpu.get_empty_cache_for_benchmark())
    with pytest.raises(NotImplementedError, match="load_binary"):
        cpu.utils.load_binary("name", b"", 0, 0)


@tegula.jit
def _row_sum(x, o, N: tl.constexpr):
    tl.store(o, tl.sum(tl.load(x + tl.arange(0, N))))


@pytest.mark.parametrize("num_warps", [1, 8, 32])
@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_grid_by_occupancy(device, num_warps):
    """Scripts divide a device's limits by what a kernel takes."""
    active = tegula.backends.backends[device].driver()
    p = active.utils.get_device_properties(0)
    k = _row_sum.compile_signature("x:*fp32, o:*fp32, N:4096", {}, {"cpu": "cpu", "sim": "sim:sm_90a"}[device], {"num_warps": num_warps})
    assert k.n_regs * p["warpSize"] * num_warps <= p["max_num_regs"]
    assert (device == "cpu") <= k.shared <= p["max_shared_mem"]  # a GPU's block of one warp meets in no shared memory
    assert k.metadata.shared == k.shared


def test_cache_managers(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    m = cache.get_cache_manager("ab" * 32)
    assert m.get_file("a.txt") is None and not m.has_file("a.txt") and m.get_group("g") is None
    path = m.put("text", "a.txt", binary=False)
    assert path == m.get_file("a.txt") == str(tmp_path / cache._base32("ab" * 32) / "a.txt") and open(path).read() == "text"
    m.put(b"\x00", "b.bin")
    m.put_group("g", {"a.txt": path, "b.bin": m.get_file("b.bin")})
    assert cache.get_cache_manager("ab" * 32).get_group("g") == {"a.txt": path, "b.bin": m.get_file("b.bin")}
    assert json.load(open(m.get_file("__grp__g")))["child_paths"]["a.txt"] == path
    os.remove(path)
    assert m.get_group("g") is None and sorted(os.listdir(os.path.dirname(path))) == ["__grp__g", "b.bin"]


class Remote(cache.RemoteCacheBackend):
    store = {}

    def __init__(self, key):
        self.key = key

    def get(self, filenames):
        return {f: self.store[self.key, f] for f in filenames if (self.key, f) in self.store}

    def put(self, filename, data):
        self.store[self.key, filename] = data


def test_remote_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with knobs.cache.scope():
        knobs.cache.manager_class, knobs.cache.remote_manager_class = cache.RemoteCacheManager, Remote
        m = cache.get_cache_manager("01" * 32)
        m.put_group("g", {"a": m.put(b"bytes", "a")})
        os.remove(tmp_path / cache._base32("01" * 32) / "a")
        found = cache.get_cache_manager("01" * 32).get_group("g")
        assert open(found["a"], "rb").read() == b"bytes" and m.get_file("none") is None


def test_build(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    text = """
#include <stdio.h>
int seven(void) { return 7; }
"""
    import ctypes
    path = build.compile_so_from_src(text, "seven")
    assert ctypes.CDLL(path).seven() == 7 and build.compile_so_from_src(text, "seven") == path
    with knobs.build.scope():
        knobs.build.cc = str(tmp_path / "no-such-compiler")
        with pytest.raises(FileNotFoundError):
            build.compile_so_from_src(text + " ", "seven")
        knobs.build.impl = lambda name, src, srcdir, *rest: path
        assert open(build.compile_so_from_src(text + "  ", "seven"), "rb").read() == open(path, "rb").read()


def test_utils():
    nested = [1, (2, [3, 4]), 5]
    assert _utils.find_paths_if(nested, lambda path, x: x > 2) == [(1, 1, 0), (1, 1, 1), (2,)] and _utils.get_iterable_path(nested, (1, 1, 0)) == 3
    _utils.set_iterable_path(nested, (1, 1, 0), 9)
    assert nested[1][1] == [9, 4] and _utils.list_list_unflatten(*_utils.list_list_flatten([[1], [], [2, 3]])) == [[1], [], [2, 3]]
    assert _utils.tuple_create(Pair(1, 2), [3, 4]) == Pair(3, 4) and _utils.parse_list_string("[a, b]") == ["a", "b"]
    assert _utils.validate_block_shape([tl.constexpr(4), 8]) == 32
    for shape, error in (([3], ValueError), ([1.5], TypeError), ([1 << 21], ValueError)):
        with pytest.raises(error):
            _utils.validate_block_shape(shape)
    with pytest.warns(UserWarning, match="once only"):
        _utils.warn_once("once only")
    _utils.warn_once("once only")


SASS = """
\t\tFunction : first
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;        /* 0x00000a00ff017b82 */
                                                                 /* 0x000fe20000000800 */
\t\tFunction : second
        /*0000*/                   EXIT ;                        /* 0x000000000000794d */
                                                                 /* 0x000fea0003800000 */
"""


def test_disasm(tmp_path, monkeypatch):
    assert disasm.parse(SASS) == "Function:first\n------:-:-:-:1\tLDC R1, c[0x0][0x28] ;\nFunction:second\n------:-:-:-:5\tEXIT ;\n"
    assert disasm.parse(SASS, "second") == "Function:second\n------:-:-:-:5\tEXIT ;\n"
    tool = tmp_path / "cuobjdump"
    tool.write_text(f"#!/bin/sh\nif [ $1 = --version ]; then echo release 12.9; else cat <<'END'\n{SASS}\nEND\nfi\n")
    tool.chmod(0o755)
    monkeypatch.setenv("TRITON_CUOBJDUMP_PATH", str(tool))
    k = tegula.compile(ASTSource(fill, {"out": "*fp32", "value": "i32"}, {"N": 16}), target=GPUTarget("cuda", 90, 32))
    assert "EXIT" in k.asm["sass"]


@tegula.jit
def filled_as(out, MODE: tl.constexpr, TYPE: tl.constexpr):
    tl.store(out + tl.arange(0, 4), (tl.full([4], 3.75, tl.float32) if MODE == "set" else tl.zeros([4], tl.float32)).to(TYPE).to(tl.float32))


def test_compiled_kernels_take_constants_of_all_types():
    """torch.compile gives a user's kernel all its parameters again, strings and types included."""
    out = np.zeros(4, np.float32)
    k = filled_as[(1, )](out, "set", tl.int32)
    out[:] = 0
    k.run(1, 1, 1, 0, k.function, k.packed_metadata, None, None, None, out, "set", tl.int32)
    assert (out == 3).all()
    k[(1, 1, 1)](out, "set", tl.int32)
    for wrong in ("text", tl.int32, object()):
        with pytest.raises((TypeError, ValueError), match="`out`|object"):
            k.run(1, 1, 1, 0, k.function, k.packed_metadata, None, None, None, wrong, "set", tl.int32)


def test_allocators():
    def allocate(size, alignment, stream):
        pass

    def in_context():
        tegula.set_allocator(allocate)
        return _allocation._allocator.get()
    assert contextvars.copy_context().run(in_context) is allocate
    with pytest.raises(RuntimeError, match="requires a runtime memory allocation"):
        _allocation._allocator.get()(1, 1, None)


def test_backends_of_other_packages(tmp_path):
    """A package that registers itself is there, and its driver is the default where it is active."""
    package, info = tmp_path / "mine", tmp_path / "mine-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (info / "entry_points.txt").write_text("[console_scripts]\nx = y:z\n\n[triton.backends]\nmine = mine\nnvidia = triton.backends.nvidia\nwrong = nowhere\n\n[other]\na = b\n")
    (package / "__init__.py").write_text("")
    (package / "compiler.py").write_text('''
from triton.backends.compiler import BaseBackend, GPUTarget

class Mine(BaseBackend):
    @staticmethod
    def supports_target(target): return target.backend == "mine"
    def hash(self): return "mine"
    def parse_options(self, options): return options
    def add_stages(self, stages, options, language): pass
    def load_dialects(self, context): pass
    def get_module_map(self): return {}
''')
    (package / "driver.py").write_text('''
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

class MineDriver(DriverBase):
    @classmethod
    def is_active(cls): return True
    def get_current_target(self): return GPUTarget("mine", 1, 1)
    def get_active_torch_device(self): return None
    def get_benchmarker(self): return None
''')
    program = '''
import warnings
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    import triton
    names = sorted(triton.backends.backends)
print(names, [str(w.message) for w in heard])
print(type(triton.runtime.driver.active).__name__, type(triton.compiler.make_backend(triton.runtime.driver.active.get_current_target())).__name__)
'''
    import subprocess
    import sys
    packages = os.path.dirname(os.path.dirname(os.path.abspath(tegula.__file__)))
    done = subprocess.run([sys.executable, "-m", "tegula", "-c", program], text=True, capture_output=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([packages, str(tmp_path)]), "TRITON_DEFAULT_BACKEND": "", "TEGULA_DEVICE": ""})
    lines = done.stdout.splitlines()
    assert lines[0].startswith("['cpu', 'mine', 'nvidia', 'sim'] [\"the backend wrong (nowhere) cannot be used"), done.stdout + done.stderr
    assert lines[1] == "MineDriver Mine"


def test_classes_of_functions():
    """Programs tell kernels from functions that run at compile time by these (torch.compile takes a JITFunction for a kernel)."""
    from tegula.runtime.jit import ConstexprFunction, JITCallable, JITFunction
    for function in (tegula.cdiv, tegula.next_power_of_2):
        assert isinstance(function, ConstexprFunction) and isinstance(function, JITCallable) and not isinstance(function, JITFunction)
    assert tegula.cdiv(tegula.language.constexpr(7), 2) == 4 and tegula.cdiv(x=7, y=2) == 4


def test_import_leaves_out_what_launches_do_not_need():
    """Those modules take as long to load as tegula's own."""
    text = "import sys; before = set(sys.modules); import tegula; print(sorted({'glob', 'hashlib', 'json', 'torch'} & (set(sys.modules) - before)))"
    assert subprocess.run([sys.executable, "-c", text], check=True, text=True, stdout=subprocess.PIPE).stdout.strip() == "[]"


def test_first_launch_loads_neither_compiler_nor_driver(tmp_path):
    """What describes a kernel is made when a program asks for it: the modules behind it take longer to load than a kernel from the disk cache."""
    (tmp_path / "program.py").write_text("""
import sys
import numpy as np
import tegula
import tegula.language as tl

@tegula.jit
def fill(x, v, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), v)

x = np.zeros(16, np.float32)
kernel = fill[(1,)](x, 2.0, 16)
print(x.sum(), sorted(m for m in sys.modules if m.startswith(("tegula.compiler", "tegula.backends", "tegula.runtime"))))
print(list(fill.device_caches[0][0].values()) == [kernel], kernel.src.signature, kernel.src.constants, kernel.src is kernel.src)
other = fill[(1,)](x, 2.0, 8)
print(list(fill.device_caches[0][0].values()) == [kernel, other])
""")
    out = subprocess.run([sys.executable, "program.py"], check=True, text=True, stdout=subprocess.PIPE, cwd=tmp_path, env={**os.environ, "TEGULA_DEVICE": "cpu"}).stdout
    assert out.splitlines() == ["32.0 []", "True {'x': '*fp32', 'v': 'fp32', 'N': 'constexpr'} {(2,): 16} True", "True"]
