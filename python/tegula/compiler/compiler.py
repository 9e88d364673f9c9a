"""`triton.compile`: kernels compiled from a description of their arguments, for any target, without a device."""
import hashlib
import pickle
import re
from pathlib import Path

from .. import _core
from .._binding import JIT
from .._options import option_defaults, option_demands
from ..backends import backends
from ..backends.compiler import GPUTarget, Language, name_of
from ..errors import CompilationError, explain
from .._interface import _by_name
from .._kernel import CompiledKernel, LazyDict
from .._values import constant_of
from .._version import triton_key


def get_cache_key(src, backend, backend_options, env_vars):
    from ..runtime.cache import get_cache_key
    return get_cache_key(src, backend, backend_options, env_vars)


def __getattr__(name):
    """Programs import the managers of files from here, as Triton does."""
    if name in ("get_cache_manager", "get_dump_manager", "get_override_manager"):
        from ..runtime import cache
        return getattr(cache, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def make_backend(target):
    found = [b.compiler for b in backends.values() if b.compiler.supports_target(target)]
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} compatible backends for target ({target.backend}) ({found}). There should only be one.")
    return found[0](target)


class ASTSource:
    """A jit function and what is known of its arguments: `signature` {name: type code, or "constexpr"}, `constexprs` {name, position or path: value},
    `attrs` {path: [["tt.divisibility", 16]]}."""
    ext, language = "tile", Language.TRITON

    def __init__(self, fn, signature, constexprs=None, attrs=None):
        self.fn, self.name, self.signature = fn, fn.__name__, dict(signature)
        names = list(fn.arg_names)
        position = lambda k: (names.index(k),) if isinstance(k, str) else (k,) if isinstance(k, int) else tuple(k)
        self.constants = {position(k): v for k, v in (constexprs or {}).items()}
        self.attrs = {position(k): v for k, v in (attrs or {}).items()}
        for name in self.signature:
            if not isinstance(name, str):
                raise TypeError("Signature keys must be string")

    def __getstate__(self):
        """For other processes: the function by its name, and as text for those in which there is no such name."""
        return {**self.__dict__, "fn": (self.fn._named(), _text_of(self.fn))}

    def __setstate__(self, state):
        name, text = state["fn"]
        try:
            fn = _by_name(*name) if name else pickle.loads(text)
        except (ImportError, AttributeError):
            if text is None:
                raise
            fn = pickle.loads(text)
        self.__dict__.update(state, fn=fn)

    def hash(self):
        parts = [self.fn.cache_key, str(sorted(self.signature.items(), key=str)), str(sorted(self.constants.items(), key=str)),
                 str(sorted(self.attrs.items(), key=str))]
        return hashlib.sha256("-".join(parts).encode()).hexdigest()

    def parse_options(self):
        return {}

    def stage(self, target, options, name):
        """The text or bytes of one stage of the kernel."""
        return compile(self, target, options).asm[name]

    def description(self):
        """(signature as the library takes it, {name: Value} of the constants)"""
        items, constants = [], {}
        for i, name in enumerate(self.fn.arg_names):
            if name not in self.signature and (i,) not in self.constants:
                continue  # its default
            code = self.signature.get(name, "constexpr")
            if code == "constexpr" or (i,) in self.constants:
                if (i,) not in self.constants:
                    raise ValueError(f"ASTSource: `{name}` is constexpr, and `constexprs` has no value for it")
                constants[name] = constant_of(self.constants[(i,)])
            else:
                items.append(f"{name}:{self._text(code, (i,))}")
        return ", ".join(items), constants

    def _text(self, code, path):
        if path in self.constants or code == "constexpr":
            return _literal(self.constants.get(path), path)
        if hasattr(code, "_fields"):
            return _named(code, [self._text(c, (*path, i)) for i, c in enumerate(code)])
        if isinstance(code, (tuple, list)):
            items = [self._text(c, (*path, i)) for i, c in enumerate(code)]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        divisible = any(list(a) == ["tt.divisibility", 16] for a in self.attrs.get(path, ()))
        return code.replace("u1", "i1").replace("*k", "*") + (":16" if divisible else "")


def _named(x, texts):
    return f"{type(x).__name__}({', '.join(f'{field}={text}' for field, text in zip(x._fields, texts))})"


def _literal(x, path):
    """A constant within a tuple, as signatures are written."""
    if hasattr(x, "_fields"):
        return _named(x, [_literal(i, path) for i in x])
    if isinstance(x, tuple):
        return f"({', '.join(_literal(i, path) for i in x)}{',' if len(x) == 1 else ''})"
    if x is None or isinstance(x, (bool, int, float)) or (isinstance(x, str) and x.isprintable() and not set(x) & set("'\"\\")):
        return repr(x)
    raise NotImplementedError(f"ASTSource: the item {path} of a tuple is {x!r}; numbers and strings only can be compiled ahead there, warmup() takes arguments of any kind")


def _text_of(fn):
    """A pickled function without its Python function; None if a default of a parameter cannot be pickled."""
    try:
        return pickle.dumps(fn.detached())
    except (pickle.PicklingError, TypeError, AttributeError):
        if fn._named() is None:
            raise
        return None


class IRSource:
    """A file of tile IR, `.tile`: what `.asm["tile"]` of a kernel has, perhaps changed by hand. Of the stages it is the one that compilation goes
    on from; its kernel takes the run-time arguments alone."""
    language = Language.TRITON
    fn = None

    def __init__(self, path, context=None, backend=None):
        path = Path(path)
        self.path, self.ext = path, path.suffix[1:]
        if self.ext != "tile":
            raise NotImplementedError(f"IRSource({str(path)!r}): of the stages, compilation goes on from tile IR only, in files named *.tile; found `{path.suffix}`")
        self.src = path.read_text()
        found = re.search(r"\bkernel\s+@(\w+)\s*\(([^)]*)\)", self.src)
        if found is None:
            raise ValueError(f"{path} has no kernel")
        self.name = found[1]
        # Of a pointer f32 is fp32 and i32 i32, or u32.
        self.signature = dict(enumerate(_code(t, "signed = 0" in facts) for t, facts in re.findall(r"%[\w.]+\s*:\s*([\w<>]+)\s*(\{[^}]*\})?", found[2])))

    def hash(self):
        return hashlib.sha256(f"{self.ext}-{self.src}".encode()).hexdigest()

    def parse_options(self):
        return {}


def _code(type_, is_unsigned):
    """ptr<f32> of tile IR as *fp32."""
    pointer, element = type_.startswith("ptr<"), type_.removeprefix("ptr<").removesuffix(">")
    letter, width = element[0], element[1:]
    name = element if not width.isdecimal() else f"fp{width}" if letter == "f" else f"u{width}" if is_unsigned and width != "1" else element
    return f"*{name}" if pointer else name


def _launch_options(options):
    """Those of Triton's options that the library has."""
    known = ("num_warps", "num_stages", "num_ctas", "maxnreg", "debug", "enable_fp_fusion", "enable_reflect_ftz", "sanitize_overflow", "launch_cooperative_grid", "launch_pdl",
             "clusters")
    return {k: options[k] for k in known if options.get(k) is not None}


def _device_with(name):
    """{"device": a GPU that runs code for the target of this name, the current one if it does}; {} if there is none."""
    found = [device for device, target in _core.devices() if target == name and device.startswith("cuda:")]
    if not found:
        return {}
    from ..backends.driver import CudaDriver
    current = f"cuda:{CudaDriver().get_current_device()}"
    return {"device": current if current in found else found[0]}


def compile(src, target=None, options=None, _env_vars=None):
    """The kernel of an ASTSource, or of a file of tile IR (IRSource or its path), for a GPUTarget (default: the device that launches run on). No device is needed; kernels for this machine can be launched."""
    if not isinstance(src, (ASTSource, IRSource)):
        src = IRSource(src)
    if isinstance(src, ASTSource) and not (isinstance(src.fn, _core.Function) and src.fn.kind == JIT):
        raise TypeError(f"ASTSource needs a jit function, found {type(src.fn).__name__}")
    if target is None:
        from ..runtime.driver import driver
        target = driver.active.get_current_target()
    given = vars(options) if hasattr(options, "__dict__") else dict(options or {})
    name = name_of(target)
    options = {**_launch_options(given), **_device_with(name)}
    if isinstance(src, IRSource):
        kernel = _core.compile_tile(str(src.path), src.src, name, options)
    else:
        try:
            kernel = src.fn.compile_signature(*src.description(), name, {**option_defaults(), **options, **option_demands()})
        except CompilationError as e:
            explain(src.fn, e, True, (), {})
            raise
        src.fn.cache_key  # remembered: programs that send the function to other processes ask for it there
    kernel._source, kernel._options = src, given
    kernel._saved = kernel.save()  # programs send its __dict__ to other processes
    return kernel


def max_shared_mem(device):
    """Bytes of shared memory that a block on the device can have."""
    from ..runtime.driver import driver
    return driver.active.utils.get_device_properties(device)["max_shared_mem"]
