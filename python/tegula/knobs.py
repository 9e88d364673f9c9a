"""`triton.knobs`: settings in groups. Each attribute of a group is read from an environment variable when it is asked for; assigning overrides the
variable (and, while `propagate_env` is true, sets it, so that child processes see it), `del` and reset() take that back, scope() undoes all that
happened in it. What has a meaning here and what is only accepted: docs/host.md.
"""
import contextlib
import importlib
import os
import re
import sys
import types
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

_TRUE = ("1", "true", "on", "yes", "y")

propagate_env = True


class Env:
    """Assigned to a knob: back to the environment variable."""


env = Env()


def getenv(key):
    return os.environ.get(key)


def setenv(key, value):
    """None: unset. Nothing happens unless `propagate_env`."""
    if not propagate_env:
        return
    if value is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = value


def toenv(value):
    """(text,) of a value as a variable holds it, (None,) for unset, None for what no variable can hold."""
    if value is None:
        return (None,)
    if isinstance(value, bool):
        return ("1" if value else "0",)
    if isinstance(value, (int, str)):
        return (str(value),)
    path = getattr(value, "path", None)
    return (path,) if isinstance(path, str) else None


class env_base:
    """A knob of the variable `key`, whose text `parse` reads; `default` (a value, or a function that gives one) where it is unset."""

    def __init__(self, key, default=None):
        self.key, self.default = key, default

    def __set_name__(self, owner, name):
        self.name = name

    def parse(self, text):
        return text

    def value_of(self, assigned):
        """What an assigned object reads as."""
        return assigned

    def get(self):
        text = getenv(self.key)
        if text is None:
            return self.default() if callable(self.default) else self.default
        return self.parse(text)

    def __get__(self, group, owner=None):
        if group is None:
            raise AttributeError(f"knob `{self.name}` is an attribute of an object of {owner.__name__}, not of the class")
        return self.value_of(group.__dict__[self.name]) if self.name in group.__dict__ else self.get()

    def __set__(self, group, value):
        if isinstance(value, Env):
            group.__dict__.pop(self.name, None)
        else:
            group.__dict__[self.name] = value
            text = toenv(value)
            if text:
                setenv(self.key, text[0])
        _changed()

    def __delete__(self, group):
        group.__dict__.pop(self.name, None)
        _changed()


class env_str(env_base):

    def __init__(self, key, default):
        super().__init__(key, default)


class env_str_callable_default(env_base):

    def __init__(self, key, default_factory):
        super().__init__(key, default_factory)


class env_opt_str(env_base):
    pass


class env_bool(env_base):

    def __init__(self, key, default=False):
        super().__init__(key, default)

    def parse(self, text):
        return text.lower() in _TRUE


class env_either(env_bool):
    """On if one of two variables says so."""

    def __init__(self, key, other):
        super().__init__(key, lambda: (getenv(other) or "").lower() in _TRUE)


class env_opt_bool(env_bool):

    def __init__(self, key, default=None):
        super().__init__(key, default)


class env_int(env_base):

    def __init__(self, key, default=0):
        super().__init__(key, default)

    def parse(self, text):
        try:
            return int(text)
        except ValueError:
            raise RuntimeError(f"{self.key} is an int, found {text!r}") from None


class env_class(env_base):
    """A class by name, "package.module:Class"."""

    def __init__(self, key, type):
        super().__init__(key)
        self.type = type

    def parse(self, text):
        module, colon, name = text.partition(":")
        if not colon or not name:
            raise RuntimeError(f"{self.key} is the name of a class, 'module:Class', found {text!r}")
        return getattr(importlib.import_module(module), name)


@dataclass
class NvidiaTool:
    """A program of NVIDIA's toolkit. tegula needs none of them: they are for scripts that look at code."""
    path: str
    version: str

    @classmethod
    def from_path(cls, path):
        """None unless it is there and tells its version."""
        import subprocess
        try:
            text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60).stdout
        except (OSError, subprocess.SubprocessError):
            return None
        found = re.search(r"release (\d+\.\d+)", text)
        return cls(path, found.group(1)) if found else None


class env_nvidia_tool(env_base):

    def __init__(self, binary):
        self.binary = binary
        super().__init__(f"TRITON_{binary.upper().replace('-', '_')}_PATH")

    def get(self):
        import shutil
        return self.value_of(getenv(self.key) or shutil.which(self.binary) or self.binary)

    def value_of(self, assigned):
        if isinstance(assigned, NvidiaTool):
            return assigned
        tool = NvidiaTool.from_path(assigned)
        if tool is None:
            raise RuntimeError(f"Cannot find {self.binary}: {assigned!r} does not run; {self.key} says where it is. tegula itself needs no such tool")
        return tool


class HookChain:
    """Functions that are called one after the other; `reversed`: the last added first."""

    def __init__(self, reversed=False):
        self.calls = _Calls()
        self.reversed = reversed

    def add(self, f):
        if f not in self.calls:
            self.calls.append(f)

    def remove(self, f):
        if f in self.calls:
            self.calls.remove(f)

    def __call__(self, *args, **kwargs):
        for f in reversed_of(self.calls) if self.reversed else list(self.calls):
            f(*args, **kwargs)

    def copy(self):
        other = HookChain(self.reversed)
        other.calls.extend(self.calls)
        return other


def reversed_of(items):
    return list(items)[::-1]


class _Calls(list):
    """A list that tells the launches when it changes."""


def _telling(name):
    plain = getattr(list, name)

    def change(self, *args, **kwargs):
        try:
            return plain(self, *args, **kwargs)
        finally:
            _changed()
    return change


for _name in ("append", "extend", "insert", "remove", "pop", "clear", "__setitem__", "__delitem__", "__iadd__"):
    setattr(_Calls, _name, _telling(_name))


@dataclass
class CompileTimes:
    """Microseconds of one compilation: `lowering_stages` is [(stage, time)], `store_results` the keys and the disk cache."""
    ir_initialization: int
    lowering_stages: list
    store_results: int

    @property
    def total_lowering(self):
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self):
        return self.ir_initialization + self.total_lowering + self.store_results


class CompilationListener(Protocol):

    def __call__(self, *, src, metadata, metadata_group, times, cache_hit):
        ...


class AutotuningListener(Protocol):

    def __call__(self, *, fn, key, best_config, configs_timings, duration, cache_hit):
        ...


class LaunchHook(Protocol):
    """Called with an object whose get() is a dict about the launch."""

    def __call__(self, metadata):
        ...


class InitHandleHook(Protocol):

    def __call__(self, module, function, name, metadata_group, hash):
        ...


class JITHookCompileInfo(TypedDict):
    key: str
    signature: dict
    device: int
    constants: dict
    num_warps: int
    num_ctas: int
    num_stages: int
    enable_fp_fusion: bool
    launch_cooperative_grid: bool
    extern_libs: Any
    configs: list
    specialization_data: str
    is_warmup: bool


class JITHook(Protocol):

    def __call__(self, *, key, repr, fn, compile, is_manual_warmup, already_compiled):
        ...


class PipelineStagesHook(Protocol):

    def __call__(self, stages, options, language, capability):
        ...


class base_knobs:
    """A group."""

    _hooks: dict = {}  # name of each HookChain: is it reversed

    def __init__(self):
        for name, backwards in self._hooks.items():
            self.__dict__[name] = HookChain(backwards)

    @property
    def knob_descriptors(self):
        """{attribute: its descriptor}"""
        found = {}
        for cls in reversed_of(type(self).__mro__):
            found.update({k: v for k, v in vars(cls).items() if isinstance(v, env_base)})
        return found

    @property
    def knobs(self):
        """{attribute: its value now}"""
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def __setattr__(self, name, value):
        if name in self._hooks and not isinstance(value, HookChain):
            chain = HookChain(self._hooks[name])  # a plain function, or None for no hook
            if value is not None:
                chain.add(value)
            value = chain
        super().__setattr__(name, value)
        _changed()

    def __delattr__(self, name):
        super().__delattr__(name)
        _changed()

    def copy(self):
        other = type(self)()
        other.__dict__.update({k: v.copy() if isinstance(v, HookChain) else v for k, v in self.__dict__.items()})
        return other

    def reset(self):
        """Forgets all that was assigned. Returns the group."""
        self.__dict__.clear()
        base_knobs.__init__(self)
        _changed()
        return self

    @contextlib.contextmanager
    def scope(self):
        """Assignments in it, of attributes and so of variables, are undone at its end."""
        variables = {d.key: getenv(d.key) for d in self.knob_descriptors.values()}
        saved = {k: v.copy() if isinstance(v, HookChain) else v for k, v in self.__dict__.items()}
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(saved)
            for key, text in variables.items():
                if text is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = text
            _changed()


class build_knobs(base_knobs):
    cc = env_opt_str("CC")
    cudacrt_path = env_opt_str("TRITON_CUDACRT_PATH")
    cudart_path = env_opt_str("TRITON_CUDART_PATH")
    impl = None

    @property
    def backend_dirs(self):
        return {path for path in (self.cudacrt_path, self.cudart_path) if path is not None}


class redis_knobs(base_knobs):
    key_format = env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}")
    host = env_str("TRITON_REDIS_HOST", "localhost")
    port = env_int("TRITON_REDIS_PORT", 6379)


class cache_knobs(base_knobs):
    home_dir = env_str_callable_default("TRITON_HOME", lambda: os.path.expanduser("~/"))
    dump_dir = env_str_callable_default("TRITON_DUMP_DIR", lambda: cache.get_triton_dir("dump"))
    override_dir = env_str_callable_default("TRITON_OVERRIDE_DIR", lambda: cache.get_triton_dir("override"))
    dir = env_str_callable_default("TRITON_CACHE_DIR", lambda: cache.get_triton_dir("cache"))
    manager_class = env_class("TRITON_CACHE_MANAGER", "CacheManager")
    remote_manager_class = env_class("TRITON_REMOTE_CACHE_BACKEND", "RemoteCacheBackend")

    def get_triton_dir(self, dirname):
        return os.path.join(self.home_dir, ".triton", dirname)


class compilation_knobs(base_knobs):
    override = env_bool("TRITON_KERNEL_OVERRIDE")
    dump_ir = env_bool("TRITON_KERNEL_DUMP")
    dump_ir_extract_di_local_variables = env_bool("LLVM_EXTRACT_DI_LOCAL_VARIABLES")
    store_binary_only = env_bool("TRITON_STORE_BINARY_ONLY")
    always_compile = env_bool("TRITON_ALWAYS_COMPILE")
    use_ir_loc = env_opt_str("USE_IR_LOC")
    enable_asan = env_bool("TRITON_ENABLE_ASAN")
    disable_line_info = env_bool("TRITON_DISABLE_LINE_INFO")
    front_end_debugging = env_bool("TRITON_FRONT_END_DEBUGGING")
    allow_non_constexpr_globals = env_bool("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS")
    fpsan_homomorphic_casts = env_bool("TRITON_FPSAN_HOMOMORPHIC_CASTS")
    instrumentation_mode = env_str("TRITON_INSTRUMENTATION_MODE", "").get()  # read once
    listener = None


class autotuning_knobs(base_knobs):
    cache = env_bool("TRITON_CACHE_AUTOTUNING")
    print = env_bool("TRITON_PRINT_AUTOTUNING")
    listener = None


class runtime_knobs(base_knobs):
    interpret = env_either("TRITON_INTERPRET", "TEGULA_INTERPRET")
    debug = env_bool("TRITON_DEBUG").get()  # read once
    override_arch = env_opt_str("TRITON_OVERRIDE_ARCH")
    jit_cache_hook = None
    jit_post_compile_hook = None
    add_stages_inspection_hook = None
    _hooks = {"launch_enter_hook": False, "launch_exit_hook": True, "kernel_load_start_hook": False, "kernel_load_end_hook": True,
              "kernel_unload_hook": False}


class language_knobs(base_knobs):
    level = env_str("TEGULA_TRITON_LEVEL", "3.9")  # of Triton, whose rules hold where versions differ: 3.6, 3.7, 3.9
    strict = env_bool("TEGULA_STRICT")  # refuses what Triton does not have
    fp32_default = env_opt_str("TRITON_F32_DEFAULT")
    default_fp_fusion = env_bool("TRITON_DEFAULT_FP_FUSION", True)
    force_disable_fp_fusion = env_bool("TRITON_FORCE_DISABLE_FP_FUSION")

    def fp_fusion_enabled(self, requested=None):
        """May a * b + c become one operation in a launch that asks for `requested` (None: does not say)?"""
        if self.force_disable_fp_fusion:
            return False
        return self.default_fp_fusion if requested is None else bool(requested)


class nvidia_knobs(base_knobs):
    cuobjdump = env_nvidia_tool("cuobjdump")
    nvdisasm = env_nvidia_tool("nvdisasm")
    ptxas = env_nvidia_tool("ptxas")
    ptxas_blackwell = env_nvidia_tool("ptxas-blackwell")
    dump_nvptx = env_bool("NVPTX_ENABLE_DUMP")
    disable_ptxas_opt = env_bool("DISABLE_PTXAS_OPT")
    ptxas_options = env_opt_str("PTXAS_OPTIONS")
    mock_ptx_version = env_opt_str("TRITON_MOCK_PTX_VERSION")
    dump_ptxas_log = env_bool("TRITON_DUMP_PTXAS_LOG")
    libdevice_path = env_opt_str("TRITON_LIBDEVICE_PATH")
    libcuda_path = env_opt_str("TRITON_LIBCUDA_PATH")


class amd_knobs(base_knobs):
    codegen_path = env_opt_str("TRITON_AMD_CODEGEN_PATH")
    use_buffer_ops = env_bool("AMDGCN_USE_BUFFER_OPS", True)
    use_buffer_atomics = env_bool("AMDGCN_USE_BUFFER_ATOMICS", True)
    buffer_ops_analyze_small_tensor_range = env_bool("AMDGCN_ANALYZE_SMALL_TENSOR_RANGE")
    dump_amdgcn = env_bool("AMDGCN_ENABLE_DUMP")
    libhip_path = env_opt_str("TRITON_LIBHIP_PATH")
    use_block_pingpong = env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG")
    use_in_thread_transpose = env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE")
    use_async_copy = env_opt_bool("TRITON_HIP_USE_ASYNC_COPY")
    use_coexec_scheduler = env_opt_bool("TRITON_HIP_USE_COEXEC_SCHEDULER")
    use_expert_scheduling = env_opt_bool("TRITON_HIP_USE_EXPERT_SCHEDULING")
    scalarize_packed_fops = env_bool("AMDGCN_SCALARIZE_PACKED_FOPS")
    dump_mir = env_opt_str("TRITON_DUMP_MIR")
    swap_mir = env_opt_str("TRITON_SWAP_MIR")
    swap_mir_enable_misched = env_bool("TRITON_SWAP_MIR_ENABLE_MISCHED")


class proton_knobs(base_knobs):
    disable = env_bool("TRITON_PROTON_DISABLE")
    cupti_lib_dir = env_opt_str("TRITON_CUPTI_LIB_PATH")
    cupti_lib_blackwell_dir = env_opt_str("TRITON_CUPTI_LIB_BLACKWELL_PATH")
    hsa_runtime_path = env_opt_str("TRITON_HSA_RUNTIME_PATH")
    hsa_runtime_library = env_opt_str("TRITON_HSA_RUNTIME_LIBRARY")
    rocprofiler_sdk_include_path = env_opt_str("TRITON_ROCPROFILER_SDK_INCLUDE_PATH")
    rocprofiler_sdk_lib_path = env_opt_str("TRITON_ROCPROFILER_SDK_LIB_PATH")
    rocprofiler_sdk_library = env_opt_str("TRITON_ROCPROFILER_SDK_LIBRARY")
    roctracer_lib_path = env_opt_str("TRITON_ROCTRACER_LIB_PATH")
    roctracer_library = env_opt_str("TRITON_ROCTRACER_LIBRARY")
    roctx_lib_path = env_opt_str("TRITON_ROCTX_LIB_PATH")
    roctx_library = env_str("TRITON_ROCTX_LIBRARY", "libroctx64.so")
    profile_buffer_size = env_int("TRITON_PROFILE_BUFFER_SIZE", 64 << 20)
    profile_metric_buffer_size = env_int("TRITON_PROFILE_METRIC_BUFFER_SIZE", 64 << 20)
    enable_nvtx = env_bool("TRITON_ENABLE_NVTX", True)
    enable_hw_trace = env_bool("TRITON_ENABLE_HW_TRACE")


_listeners: list = []  # called when a knob or a hook was assigned


def on_change(f):
    """f() is called after every assignment to a knob. For the launches, which look at no knob while all are as they were."""
    _listeners.append(f)


def _changed():
    for f in _listeners:
        f()


build = build_knobs()
redis = redis_knobs()
cache = cache_knobs()
compilation = compilation_knobs()
autotuning = autotuning_knobs()
runtime = runtime_knobs()
language = language_knobs()
nvidia = nvidia_knobs()
amd = amd_knobs()
proton = proton_knobs()


def refresh_knobs():
    """Reads anew what is read once."""
    runtime.debug = env_bool("TRITON_DEBUG").get()
    compilation.instrumentation_mode = env_str("TRITON_INSTRUMENTATION_MODE", "").get()


def allow_non_constexpr_globals():
    return env_bool("TEGULA_ALLOW_NON_CONSTEXPR_GLOBALS").get() or compilation.allow_non_constexpr_globals


class _Module(types.ModuleType):
    """Tests replace whole groups by copies."""

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if isinstance(value, base_knobs):
            _changed()


sys.modules[__name__].__class__ = _Module
