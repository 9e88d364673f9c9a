"""Every name of the host side that docs/language.md §4 and the level 3.9 have is there under the alias `triton`."""
import importlib.util
import json
import subprocess
import sys

import pytest

NAMES = {
    "triton": """jit JITFunction KernelInterface autotune Config heuristics cdiv next_power_of_2 compile constexpr_function must_use_result aggregate reinterpret
        TensorWrapper MockTensor set_allocator AsyncCompileMode FutureKernel TritonError CompilationError OutOfResources InterpreterError language runtime testing
        tools knobs compiler backends errors __version__""",
    "triton.errors": "TritonError",
    "triton._C.libtriton": "getenv getenv_bool get_cache_invalidating_env_vars nvidia",
    "triton.compiler.code_generator": "CodeGenerator ast_to_ttir kernel_suffix CompilationError UnsupportedLanguageConstruct",
    "triton.language": "slice str_to_ty",
    "triton.language.semantic": "TritonSemantic add cast where",
    "triton.language.core": "base_value base_type tensor_descriptor_base tensor_descriptor_base_type is_negative_zero _unwrap_shape check_bit_width extern_elementwise slice str_to_ty _unwrap_if_constexpr",
    "triton.compiler": "ASTSource IRSource CompiledKernel make_backend errors compile LazyDict compiler",
    "triton.compiler.compiler": "ASTSource IRSource CompiledKernel make_backend triton_key compile LazyDict GPUTarget Language max_shared_mem "
                                "get_cache_manager get_dump_manager get_override_manager",
    "triton.compiler.errors": "CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct TritonError",
    "triton.runtime": """driver jit cache errors autotuner interpreter build autotune Autotuner Config Heuristics heuristics InterpreterError OutOfResources
        JITFunction KernelInterface MockTensor TensorWrapper reinterpret RedisRemoteCacheBackend""",
    "triton.runtime.autotuner": "OutOfResources PTXASError Autotuner autotune Config Heuristics heuristics",
    "triton.runtime.jit": """JITFunction KernelInterface ConstexprFunction KernelParam MockTensor TensorWrapper reinterpret mangle_type
        create_function_from_signature compute_cache_key get_jit_fn_file_line JitFunctionInfo JITCallable native_specialize_impl get_full_name
        serialize_specialization_data TRITON_MODULE constexpr_function jit""",
    "triton.runtime.cache": """triton_key _base32 FileCacheManager RemoteCacheManager RedisRemoteCacheBackend RemoteCacheBackend CacheManager
        get_cache_manager get_override_manager get_dump_manager get_cache_key knobs""",
    "triton.runtime.errors": "InterpreterError OutOfResources PTXASError AutotunerError",
    "triton.runtime.driver": "active default set_active reset_active",
    "triton.runtime.build": "_build compile_module_from_src compile_so_from_src compile_module_from_file compile_so_from_file",
    "triton.runtime.interpreter": "InterpretedFunction",
    "triton.runtime._async_compile": "AsyncCompileMode FutureKernel active_mode",
    "triton.runtime._allocation": "_allocator set_allocator NullAllocator set_profile_allocator",
    "triton.backends": "backends BaseBackend Backend GPUTarget DriverBase",
    "triton.backends.compiler": "BaseBackend GPUTarget Language",
    "triton.backends.driver": "DriverBase GPUDriver Benchmarker expand_signature",
    "triton.profiler.profile": "start activate deactivate finalize profile DEFAULT_PROFILE_NAME",
    "triton.profiler.scope": "scope cpu_timed_scope enter_scope exit_scope",
    "triton.profiler.state": "state metadata_state enter_state exit_state get_metadata_state_name",
    "triton.profiler.flags": "flags ProfilerFlags",
    "triton.profiler.metric": "FLOPS_WIDTHS transform_tensor_metrics",
    "triton.profiler.mode": "metric_types sampling_strategies granularities buffer_strategies buffer_types optimizations Optimize Default MMA PCSampling",
    "triton._compile_warmup": "is_compile_warmup pytest_configure",
    "triton._compile_warmup_state": "is_compile_warmup",
    "triton.backends.nvidia.driver": "CudaDriver libcuda_dirs ty_to_cpp",
    "triton.backends.nvidia.compiler": "CUDABackend CUDAOptions GPUTarget get_ptxas get_ptxas_version ptx_get_version sm_arch_from_capability min_dot_size file_hash",
    "triton.testing": """do_bench do_bench_cudagraph do_bench_proton do_bench_cudagraph_proton cuda_graph_without_gc cublas assert_close Benchmark Mark perf_report
        get_dram_gbps get_max_tensorcore_tflops get_max_simd_tflops cuda_memcheck set_gpu_clock nvsmi _summarize_statistics""",
    "triton.knobs": """build redis cache compilation autotuning runtime language nvidia amd proton refresh_knobs propagate_env HookChain CompileTimes base_knobs env_str
        env_bool env_int env_opt_str env_opt_bool env_class""",
    "triton.tools": "tensor_descriptor LinearLayout",
    "triton.tools.compile": "compile_kernel CompileArgs",
    "triton.tools.link": "LinkerError",
    "triton.profiler.viewer": "parse print_tree read get_raw_metrics derive_metrics filter_frames format_frames main",
    "triton.profiler.hooks.launch": "LaunchHook COMPUTE_METADATA_SCOPE_NAME",
    "triton.profiler.language": "enter_scope exit_scope scope allocate_event start_event end_event enable_semantic disable_semantic Event",
    "triton._filecheck": "run_parser run_filecheck_test filecheck_test run_filecheck",
    "triton.tools.tensor_descriptor": "TensorDescriptor",
    "triton.tools.mxfp": "MXFP4Tensor MXScaleTensor fp8e8m0_to_float32",
    "triton.tools.ragged_tma": "create_ragged_descriptor load_ragged store_ragged atomic_add_ragged",
    "triton.tools.disasm": "get_sass extract",
    "triton.language.extra": "libdevice cuda cpu",
    "triton.language.extra.cuda.libdevice": "tanh rsqrt pow",
    "triton.language.extra.cpu.libdevice": "tanh rsqrt pow",
    "triton.language.extra.hip.libdevice": "tanh isinf pow",
    "triton.language.extra.cuda.gdc": "gdc_wait gdc_launch_dependents",
    "triton.language.extra.cuda.utils": "globaltimer smid num_warps num_threads",
    "triton.experimental.gluon": "jit constexpr_function aggregate language nvidia amd",
    "triton.experimental.gluon.nvidia.hopper": "TensorDescriptor TensorDescriptorIm2Col",
    "triton.experimental.gluon.nvidia.blackwell": "TensorDescriptor TensorDescriptorIm2Col",
    "triton.experimental.gluon.amd.cdna5": "TensorDescriptor",
    "triton.experimental.gluon.amd.gfx1250": "TensorDescriptor",
    "triton.experimental.gsan": "configure create_mem_pool freeze_config get_allocator has_live_allocations reset",
    "triton._utils": "find_paths_if get_iterable_path set_iterable_path parse_list_string list_list_flatten list_list_unflatten tuple_create "
                     "apply_with_path validate_block_shape canonicalize_dtype canonicalize_ptr_dtype type_canonicalisation_dict warn_once "
                     "prewarm_deprecation_warnings FP_FUSION_DEFAULT_WARNING CAT_CAN_REORDER_WARNING RESHAPE_CAN_REORDER_WARNING",
    "triton._internal_testing": """int_dtypes uint_dtypes integral_dtypes float_dtypes float_dtypes_with_bfloat16 dtypes dtypes_with_bfloat16 torch_float8_dtypes
        torch_dtypes tma_dtypes is_interpreter is_cuda is_ampere_or_newer is_blackwell is_hopper is_hopper_or_newer is_sm12x is_hip is_xpu numpy_random to_triton
        to_numpy str_to_triton_dtype torch_dtype_name supports_tma supports_ws tma_skip_msg requires_tma default_alloc_fn unwrap_tensor _fresh_knobs_impl
        get_current_target get_arch run_in_process use_process_pool is_compile_warmup""",
    "triton.profiler": "start activate deactivate finalize profile scope cpu_timed_scope enter_scope exit_scope state enter_state exit_state DEFAULT_PROFILE_NAME",
}

KNOBS = {
    "build": "cc cudacrt_path cudart_path impl backend_dirs",
    "redis": "key_format host port",
    "cache": "home_dir dump_dir override_dir dir manager_class remote_manager_class get_triton_dir",
    "compilation": """override dump_ir dump_ir_extract_di_local_variables store_binary_only always_compile use_ir_loc enable_asan disable_line_info
        front_end_debugging allow_non_constexpr_globals fpsan_homomorphic_casts instrumentation_mode listener""",
    "autotuning": "cache print listener",
    "runtime": """interpret debug override_arch launch_enter_hook launch_exit_hook kernel_load_start_hook kernel_load_end_hook kernel_unload_hook jit_cache_hook
        jit_post_compile_hook add_stages_inspection_hook""",
    "language": "level fp32_default default_fp_fusion force_disable_fp_fusion fp_fusion_enabled",
    "nvidia": "dump_nvptx disable_ptxas_opt ptxas_options mock_ptx_version dump_ptxas_log libdevice_path libcuda_path",
    "amd": "use_buffer_ops use_buffer_atomics dump_amdgcn libhip_path use_block_pingpong dump_mir swap_mir",
    "proton": "disable cupti_lib_dir profile_buffer_size profile_metric_buffer_size enable_nvtx enable_hw_trace",
}

SCRIPT = '''
import importlib, json, sys
names, knobs = json.loads(sys.argv[1])
for module, attributes in names.items():
    try:
        found = importlib.import_module(module)
    except Exception as e:
        print(module + ":", repr(e), file=sys.stderr)
        found = None
    for a in attributes.split():
        if found is None or not hasattr(found, a):
            print(module + "." + a)
import triton
for group, attributes in knobs.items():
    for a in attributes.split():
        if not hasattr(getattr(triton.knobs, group), a):
            print(f"triton.knobs.{group}.{a}")
'''


TORCH = {"triton.tools.mxfp"}  # modules that are there for programs with PyTorch only


def test_names(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    names = {m: n for m, n in NAMES.items() if m not in TORCH or importlib.util.find_spec("torch")}
    done = subprocess.run([sys.executable, "-m", "tegula", path, json.dumps([names, KNOBS])], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.split(), done.stderr


@pytest.mark.parametrize("name, why", [
    ("triton.experimental.gluon.nvidia.tensor", "Gluon is a language of its own"),
    ("triton._C.libproton", "Triton's compiler is C++ behind this module"),
    ("triton.backends.amd.compiler", "there is no AMD target"),
    ("triton.language.extra.hip.utils", "there is no AMD target"),
    ("triton.tools.triton_to_gluon_translator", "Gluon is a language of its own"),
    ("triton._instrumentation", "no passes from outside"),
    ("triton.no_such_module", "this version of tegula does not provide it"),
])
def test_absent_modules_say_why(name, why):
    code = f"try:\n    import {name}\nexcept ModuleNotFoundError as e:\n    print(e.name, e)\n"
    done = subprocess.run([sys.executable, "-m", "tegula", "-c", code], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0 and why in done.stdout, (done.stdout, done.stderr)


def test_modules_of_the_profiler_do_not_hide_its_functions():
    code = ("import inspect, triton.profiler as p, triton.profiler.scope, triton.profiler.state, triton.profiler.profile\n"
            "from triton.profiler.profile import start\n"
            "print(inspect.isclass(p.scope), inspect.isclass(p.state), callable(p.profile), start is p.start)")
    done = subprocess.run([sys.executable, "-m", "tegula", "-c", code], text=True, capture_output=True, timeout=60)
    assert done.stdout == "True True True True\n", (done.stdout, done.stderr)


GLUON = """
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.experimental.gluon.language.nvidia.hopper import tma, mbarrier as bar
import triton.experimental.gluon.language.amd.cdna4
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

try:
    gluon.jit(lambda **kwargs: 0)
except TypeError as e:
    assert "JIT functions do not support **kwargs" in str(e)

@gluon.constexpr_function
def layout(n):
    return gl.BlockedLayout([n], [32], [4], [0])

@triton.language.core._aggregate
class Context:
    rank: gl.tensor
    layout: gl.constexpr

@gluon.jit
def with_layouts(x: gl.tensor | None, t: gl.float16, B: gl.constexpr, layout: gl.constexpr = gl.AutoLayout):
    i = gl.arange(0, B, layout=layout)

@triton.autotune([triton.Config({"B": 64})], key=["t"])
@triton.heuristics({"layout": lambda args: None})
@gluon.jit
def tuned(x, t, B: gl.constexpr, layout: gl.constexpr):
    pass

assert with_layouts.arg_names == ["x", "t", "B", "layout"] and with_layouts.constexprs == [2, 3], with_layouts.constexprs
for use in (lambda: with_layouts[(1,)](None, None, 64), lambda: with_layouts.warmup(grid=(1,)), lambda: gl.BlockedLayout([1], [32], [4], [0]), lambda: gl.nvidia.hopper.mma(),
            mma_v2, lambda: tma.async_load(), TensorDescriptor, lambda: TensorDescriptor.from_tensor(None, [64, 64], None), lambda: tuned[(1,)](None, 1)):
    try:
        use()
    except NotImplementedError as e:
        print(e)
print(isinstance(1, TensorDescriptor), bar is gl.nvidia.hopper.mbarrier, gl.float16 is triton.language.float16, gl.constexpr is triton.language.constexpr)
"""


def test_kernels_of_gluon_stand_beside_others(tmp_path):
    """A module with kernels of both languages can be imported; who uses one of Gluon's is told what it is, and where."""
    path = tmp_path / "both.py"
    path.write_text(GLUON)
    done = subprocess.run([sys.executable, "-m", "tegula", path], text=True, capture_output=True, timeout=60)
    lines = done.stdout.splitlines()
    assert len(lines) == 10 and all("Gluon is a language of its own" in l for l in lines[:9]), (done.stdout, done.stderr)
    assert lines[8].startswith(f"{path}:28: `tuned` is a kernel of Gluon"), lines
    assert all(l.startswith(f"{path}:24: `with_layouts` is a kernel of Gluon") for l in lines[:2]), lines
    assert lines[2].startswith("gluon.language.BlockedLayout is of Gluon") and lines[3].startswith("gluon.language.nvidia.hopper.mma is of Gluon")
    assert lines[4].startswith("gluon.language.nvidia.ampere.mma_v2 is of Gluon") and lines[5].startswith("gluon.language.nvidia.hopper.tma.async_load is of Gluon")
    assert lines[6] == lines[7] and lines[6].startswith("gluon.nvidia.hopper.TensorDescriptor is of Gluon")
    assert lines[9] == "False True True True"


def test_annotations_join_types_of_the_language():
    import tegula.language as tl
    assert (tl.tensor | tl.tensor_descriptor).__args__ == (tl.tensor, tl.tensor_descriptor)
    assert (tl.tensor_descriptor | int).__args__ == (tl.tensor_descriptor, int)


@pytest.mark.parametrize("name", ["triton.compiler", "triton.runtime.jit", "triton.language"])
def test_modules_are_the_same(name):
    code = f"import importlib, tegula.__main__; tegula.__main__.install(); a, b = map(importlib.import_module, ({name!r}, {name!r}.replace('triton', 'tegula'))); assert a is b"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


STAR = """
import numpy as np
import triton
from triton.language import *
import triton.language as tl
import triton.language.extra as extra
from triton.language.target_info import is_cuda, current_target, cuda_capability_geq

@triton.jit
def kernel(p, N: constexpr):
    i = arange(0, N)
    store(p + i, zeros((N,), float32) + sum(i, 0) + is_cuda())

p = np.zeros(8, np.float32)
kernel[(1,)](p, 8)
assert (p == 28).all(), p
assert not is_cuda() and not cuda_capability_geq(8) and current_target().backend == "cpu"
for module, names in {tl: "exp2 sort float8e5 static_range math PropagateNan", tl.math: "exp rsqrt", tl.standard: "sum argmax", tl.core: "builtin dot", tl.random: "philox",
                      extra.libdevice: "tanh fast_expf", extra.cuda: "libdevice globaltimer", tl.target_info: "is_hip"}.items():
    found = {}
    exec(f"from {module.__name__} import *", found)
    for name in names.split():
        assert name in found and name in dir(module), (module.__name__, name)
    assert not {"len", "print", "pi", "random", "_builtins"} & set(found), module.__name__
assert tl.math.__all__ == dir(tl.math)
"""


def test_star_imports(tmp_path):
    (tmp_path / "script.py").write_text(STAR)
    done = subprocess.run([sys.executable, "-m", "tegula", tmp_path / "script.py"], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
