"""Functions that the compiler reads: kernels and their helpers, and those that run at compile time.

The compiler never runs Python: it gets the function's source text and, for each global or closure variable the text reads, a compile-time
value made by `to_value`. Launching is C++ (python/src/Function.cpp); this file runs once per function.
"""
import ast
import functools
import inspect
import re
import sys
import threading
import weakref

from . import _aggregate, _binding, _calls, _core, errors, knobs
from ._binding import BUILTIN, CONSTEXPR, JIT, PLAIN
from ._interface import KernelInterface, NamedKernel
from ._kernel import CompiledKernel
from ._mock import MockTensor
from ._options import interpreting
from ._source import captured, function_source, stand_in, start_of_def
from ._specialize import KernelParam, annotation_of, name_of_kernel
from ._uses import ABSENT, Use, is_builtin, same
from ._values import functions_in, global_value, to_value
from .language import _tensor, _types
from .language._tensor import session as _session

_preparing = []  # of each _prepare() under way: what it has bound


_NAMES = ("__module__", "__name__", "__qualname__", "__doc__", "debug", "version", "_known_key")


def _detached(cls, source, signature, names):
    f = cls.__new__(cls)
    f.__dict__.update(names, launch_metadata=None, __globals__={}, _namer=None, repr=lambda specialization: f.__qualname__)
    f._set_up(None, signature, source)
    return f


def _check_function(fn):
    """TypeError for what no compiler can read the definition of."""
    if isinstance(fn, KernelInterface):
        raise TypeError(f"@jit stands directly above the `def`, below {type(fn).__name__}; found it above")
    if not hasattr(inspect.unwrap(fn), "__code__"):
        raise TypeError(f"@jit takes a function that a `def` of Python makes, found {fn!r}")
    if fn.__name__ == "<lambda>":
        raise TypeError("@jit takes a function that a `def` of Python makes, found a lambda; give it a name")
    if inspect.iscoroutinefunction(fn):
        raise TypeError(f"@jit takes a function that a `def` of Python makes, found `async def {fn.__name__}`")


class JITCallable(_core.Function, NamedKernel):
    """A function whose source the compiler reads: a kernel or a helper (JITFunction), or one that runs at compile time."""

    interpreted = False  # do its launches always run in the interpreter?

    def __init__(self, fn, kind=JIT, noinline=False, must_use=None, do_not_specialize=(), do_not_specialize_on_alignment=(), debug=None,
                 repr=None, launch_metadata=None, version=None, exact=False):
        fn = fn.fn if isinstance(fn, JITCallable) else fn
        _check_function(fn)
        file, text, first = function_source(fn)
        signature = inspect.signature(fn)
        if "__signature__" in vars(fn):
            text = stand_in(fn.__name__, signature)
        names = list(signature.parameters)
        for p in signature.parameters.values():
            if p.kind == p.VAR_KEYWORD and kind == JIT:
                raise TypeError(f"JIT functions do not support **{p.name} parameters")
        by_name = lambda items: tuple(names[i] if isinstance(i, int) else i for i in items or ())
        functools.update_wrapper(self, fn)
        _calls.known_functions[f"{self.__module__}:{self.__qualname__}"] = self
        self._set_up(fn, signature, dict(file=file, text=text, first_line=first, kind=kind, noinline=bool(noinline), must_use=must_use,
                                         do_not_specialize=by_name(do_not_specialize),
                                         do_not_specialize_on_alignment=by_name(do_not_specialize_on_alignment), exact=bool(exact),
                                         annotations=tuple(annotation_of(p) for p in signature.parameters.values())))
        self.debug, self.version = debug, version
        if debug is not None:
            self.set_option("debug", debug)
        self.launch_metadata = launch_metadata
        self.__globals__ = fn.__globals__
        self.repr = repr or (lambda specialization: fn.__qualname__)
        self._namer = None if repr is None else functools.partial(
            name_of_kernel, repr, {p.name for p in self.params if p.is_constexpr})
        if self._namer:
            self.set_namer(self._namer)

    def _set_up(self, fn, signature, source):
        self.fn, self.signature = fn, signature
        self._source = dict(source, prepare=self._prepare)
        super().__init__(**self._source)
        parameters = signature.parameters.values()
        self.set_positional(sum(p.kind != p.KEYWORD_ONLY for p in parameters))
        self._uses = None  # once bound: list of Use
        self._modules = {}  # by id: those that the compiler may ask while the function is there
        self.kind = source["kind"]
        for i, p in enumerate(parameters):
            if p.default is not p.empty:
                self.set_default(i, None, p.default)  # for grid callables; the compiler gets it in _bind
        self.pre_run_hooks = []
        self._caches, self._new_kernels = _DeviceCaches(self), []
        self.file_name, self.starting_line_number = source["file"], source["first_line"]
        self.def_file_line_number = source["first_line"] + source["text"][:start_of_def(source["text"])].count("\n")
        self.def_file_col_number = 0
        self._raw_src = None
        self._fn_name = f"{self.__module__}.{self.__qualname__}"
        self._hash_lock = threading.RLock()
        self.params = _params(signature, self._source)

    def _text(self):
        source = {k: v for k, v in self._source.items() if k != "prepare"}
        return type(self), source, self.signature, {k: getattr(self, k) for k in _NAMES}

    def detached(self):
        """The function for programs that only look at it: its text, name and parameters, which can be pickled where the function is found by no
        name. It has no Python function (`fn` is None) and cannot be compiled."""
        return _detached(*self._text())

    def __reduce_ex__(self, protocol):
        return (_detached, self._text()) if self.fn is None else super().__reduce_ex__(protocol)

    def __deepcopy__(self, memo):
        """A copy that was made while the Python function was away (Inductor puts it back afterwards) stays without."""
        return self.detached() if self.fn is None else super().__deepcopy__(memo)

    @property
    def src(self):
        """The text from the `def` on."""
        text = self._source["text"]
        return text[start_of_def(text):]

    def _unsafe_update_src(self, text):
        """Another text for the function from its `def` on, with the same parameters. What was compiled from the old one is not used any more."""
        with _binding.lock:
            before = self._source["text"]
            self._source["text"] = before[:start_of_def(before)] + text if start_of_def(text) == 0 else text
            self._unbind()

    @property
    def used_global_vals(self):
        """{(name, id of its dict): (value, dict)} of the variables whose values the function was compiled with."""
        with _binding.lock:
            return {(u.name, id(u.place)): (u.snapshot, u.place) for u in self._uses or () if u.is_value}

    @used_global_vals.setter
    def used_global_vals(self, given):
        """Programs that send functions to other processes set it to None before; the function looks at its variables by itself."""

    @property
    def arg_names(self):
        return list(self.param_names)

    @property
    def launch_options(self):
        """Names of its parameters that are options of launches too."""
        return _OPTION_NAMES & set(self.param_names)

    @property
    def constexprs(self):
        return [p.num for p in self.params if p.is_constexpr]

    @property
    def module(self):
        return self.__module__

    @property
    def raw_src(self):
        """Lines of the text, decorators included. Programs that make functions of functions put the lines of the first one there, to be looked at."""
        return self._raw_src or self._source["text"].splitlines(keepends=True)

    @raw_src.setter
    def raw_src(self, lines):
        self._raw_src = list(lines)

    def parse(self):
        """The `def` as Python's syntax tree."""
        return ast.parse(self.src)

    @property
    def do_not_specialize(self):
        return list(self._source["do_not_specialize"])

    @property
    def do_not_specialize_on_alignment(self):
        return list(self._source["do_not_specialize_on_alignment"])

    def get_capture_scope(self):
        """The variables that its text can read: those of its module, and of the functions around it."""
        return self.__globals__ if self.fn is None else self.__globals__ | inspect.getclosurevars(self.fn).nonlocals

    kernel = None  # as in Triton, where nothing sets it
    is_gluon = staticmethod(lambda: False)

    def add_pre_run_hook(self, hook):
        """hook(*args, **kwargs) before each launch."""
        assert callable(hook)
        self.pre_run_hooks.append(hook)
        self.set_intercepted(True)

    def preload(self, specialization_data):
        """Compiles the specialization that a jit_cache_hook saw, from its text. Returns the kernel."""
        return _calls.preload(self, specialization_data)

    def create_binder(self):
        """(kernels, keys, target, backend, binder) of the current device."""
        from .runtime.driver import driver
        return self.device_caches[driver.active.get_current_device()]

    @property
    def device_caches(self):
        """A _DeviceCaches."""
        new, self._new_kernels = self._new_kernels, None
        for key, kernel in new or ():
            self._kernels()[key] = kernel
        return self._caches

    def _kernels(self):
        """Those of the current device, by the keys of launches; of what is being compiled a FutureKernel."""
        from .runtime.driver import driver
        return self.device_caches[driver.active.get_current_device()][0]

    def _has_kernel(self, call):
        return isinstance(self._kernels().get(call.key), CompiledKernel)

    def _remember(self, call, kernel):
        # Before a driver or PyTorch is loaded the current device is the first one, and loading the driver takes longer than a first launch from the disk cache.
        key, new = call.key, self._new_kernels
        if new is not None and "torch" not in sys.modules and "tegula.runtime.driver" not in sys.modules:
            new.append((key, kernel))
            if self._new_kernels is new:
                return  # nobody has asked for the caches meanwhile
        self._kernels()[key] = kernel

    _known_key = None  # the last cache_key, for when there is no Python function any more

    @property
    def cache_key(self):
        """Another text for a function that does something else. One without its Python function has the key of what it was compiled from, or of its text."""
        if self.fn is not None:
            self._known_key = self.content_hash()
        elif self._known_key is None:
            import hashlib
            self._known_key = hashlib.sha256(self._source["text"].encode()).hexdigest()
        return self._known_key

    @property
    def hash(self):
        return self.cache_key

    @hash.setter
    def hash(self, given):
        """Programs that changed the text of a function that it calls put None there: it is bound to what is there now."""
        with _binding.lock:
            self._unbind()

    @property
    def noinline(self):
        return self._source["noinline"]

    @noinline.setter
    def noinline(self, on):
        with _binding.lock:
            self._source["noinline"] = bool(on)
            self._unbind()

    def _prepare(self):
        """Binds the function and all it calls, and has the launches watch what they read."""
        if self.fn is None:
            raise RuntimeError(f"{self.__qualname__} came without its Python function, so it cannot be compiled; kernels that came with it can be launched")
        with _binding.lock:
            bound = []
            _preparing.append(bound)
            try:
                functions = self._reachable()
                uses = self._merged_uses(functions)
                if not all([u.refresh() for u in uses]):
                    return _unbind_all(functions)  # prepared again: bound to what is there now
            except BaseException:
                _unbind_all(bound)  # what they should read may be there later
                raise
            finally:
                _preparing.pop()
            self.watch([u.row for u in uses], any(u.needs_looking for u in uses), self._changed)

    def _changed(self):
        """Called by a launch that found a variable to be another object, or that cannot tell. True: nothing has changed."""
        with _binding.lock:
            functions = self._reachable()
            uses = [u for f in functions for u in f._uses]
            if not all([u.refresh() for u in uses]):
                _unbind_all(functions)
            elif any(u.needs_looking for u in uses):
                self.watch([u.row for u in uses], True, self._changed)
                return True
            else:
                self.unprepare()  # other objects of the same value, or new variables
        return None

    def _reachable(self):
        """This function and all that it may call, bound."""
        functions, pending = [], [self]
        while pending:
            f = pending.pop()
            if any(f is g for g in functions):
                continue
            f._bind()
            functions.append(f)
            for u in f._uses:
                pending += functions_in(u.value)
            for p in f.signature.parameters.values():
                pending += functions_in(p.default)
        return functions

    def _merged_uses(self, functions):
        """The uses of all; RuntimeError if two functions saw different values of one variable."""
        merged = {}
        for f in functions:
            for u in f._uses:
                first = merged.setdefault(u.key, (u, f))[0]
                if u.is_value and first.is_value and not same(u.snapshot, first.snapshot):
                    raise RuntimeError(f"Global variable {u.name} has value {first.snapshot} when compiling {self.__name__}, but inner kernel {f.__name__} "
                                       f"has conflicting value {u.snapshot} from when it was first compiled.  This is not allowed.")
        return [u for f in functions for u in f._uses]

    def _bind(self):
        """Gives the compiler the values of captured names and of defaults. Under the lock."""
        if self._uses is not None:
            return
        for p in self.params:
            if p.is_constexpr and (p.do_not_specialize or p.do_not_specialize_on_alignment):
                listed = "do_not_specialize" if p.do_not_specialize else "do_not_specialize_on_alignment"
                raise errors.CompilationError(f"{p.name} marked as constexpr and listed in {listed}")
        self._uses = []
        if _preparing:
            _preparing[-1].append(self)
        try:
            for name in self.free_names():
                found, value, place = captured(self.fn, name)
                if found:
                    converted, allowed = global_value(value, self)
                    self.bind_name(name, converted, allowed)
                if found or not is_builtin(name):
                    self._uses.append(Use(place, name, value if found else ABSENT))
            for i, p in enumerate(self.signature.parameters.values()):
                if p.default is not p.empty:
                    self.set_default(i, to_value(p.default), p.default)
        except BaseException:
            self._unbind()
            raise

    def _unbind(self):
        """As before the first use: what it reads then counts. Kernels that were compiled are kept by whoever has them."""
        self._uses = None
        self.__dict__.pop("_tegula_value", None)
        self.renew(**self._source)
        if self._namer:
            self.set_namer(self._namer)

    def _read(self, module, attribute, value):
        """While it was compiled, the function read an attribute of a module of the user's, or of a class or object there."""
        place = module.__dict__
        if not isinstance(place, dict) or (attribute not in place and value is not ABSENT):
            return  # of a class, or made by __getattr__: there is nothing to look at before a launch
        use = Use(place, attribute, value)
        if self._uses is not None and all(u.key != use.key for u in self._uses):
            self._uses.append(use)
            _core.bindings_changed()

    def warmup(self, *args, grid=None, **kwargs):
        """Compiles for these arguments without launching and returns the kernel. Dtypes stand for tensors of them, except where a parameter
        takes compile-time values, which they are too."""
        if interpreting(self):
            return None
        constants = {p.name for p in self.params if p.is_constexpr}
        wrap = lambda name, x: x if name in constants else MockTensor.wrap_dtype(x)
        args = tuple(map(wrap, self.param_names, args)) + tuple(map(MockTensor.wrap_dtype, args[len(self.param_names):]))
        kwargs = {name: wrap(name, x) for name, x in kwargs.items()}
        arch = kwargs.get("arch") or knobs.runtime.override_arch
        if arch and (_calls.active_device() or "").startswith("cuda"):
            return _compiled_for(self, arch, args, {k: v for k, v in kwargs.items() if k not in ("arch", "device", "stream")})
        if "device" not in kwargs and any(isinstance(x, MockTensor) for x in (*args, *kwargs.values())):
            kwargs["device"] = _calls.active_device()  # stand-ins are nowhere
        return self.warmup_launcher(grid)(*args, **kwargs)

    def run(self, *args, grid, warmup=False, **kwargs):
        return self.warmup(*args, grid=grid, **kwargs) if warmup else self[grid](*args, **kwargs)

    def bind(self, *args, grid, **kwargs):
        """A launch handle: compiles for these arguments, and `handle(*args)` then launches with others of the same class on the current stream. What is given by
        position is given at each call; names (constexprs, options, arguments) stay as they are here, and so does `grid`, which is asked each time if it is a function.
        A call whose arguments would need another kernel is refused by the argument's name. `handle.kernel` is the compiled kernel."""
        kernel = self.warmup(*args, grid=grid, **kwargs)
        return _core.bind(self, kernel, grid, args, kwargs)

    def __call__(self, *args, **kwargs):
        if _session() is not None:
            return _tensor.interpreter.python_function(self)(*args, **kwargs)
        raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel; launch it with kernel[grid](...)")

    def __get__(self, instance, owner=None):
        """A method, where an aggregate has it and the interpreter calls it; for everybody else the function itself."""
        bound = instance is not None and _session() is not None and _aggregate.is_aggregate(type(instance))
        return functools.partial(self, instance) if bound else self

    def __repr__(self):
        return f"JITFunction({self.__module__}:{self.__qualname__})"


class JITFunction(JITCallable):
    """What `@jit` gives: `kernel[grid](*args, **options)` launches, `.warmup(...)` compiles."""


def _compiled_for(fn, arch, args, kwargs):
    """The kernel of a launch, for another NVIDIA architecture ("sm80"), where it is only looked at."""
    from .backends.compiler import GPUTarget
    from .compiler.compiler import ASTSource, compile
    if not re.fullmatch(r"sm\d+", arch):
        raise ValueError(f"arch is {arch!r}; it must have the form sm80")
    call = _calls.Call(fn, args, kwargs)
    return compile(ASTSource(fn, call.signature, call.constants, call.attrs), GPUTarget("cuda", int(arch[2:]), 32), call.options)


class InterpretedFunction(JITFunction):
    """A kernel or helper whose launches run in the interpreter (runtime/interpreter.py)."""

    interpreted = True

    def __init__(self, fn, **options):
        super().__init__(fn, **options)
        self.set_intercepted(True)

    def __repr__(self):
        return f"InterpretedFunction({self.__module__}:{self.__qualname__})"


class ConstexprFunction(JITCallable):
    """Ordinary Python that kernels call on compile-time values. Programs that trace Python (torch.compile) follow its calls."""

    def __init__(self, fn, kind=CONSTEXPR):
        super().__init__(fn, kind=kind)

    def __call__(self, *args, **kwargs):
        args = [x.value if isinstance(x, _types.constexpr) else x for x in args]
        return self.fn(*args, **{k: x.value if isinstance(x, _types.constexpr) else x for k, x in kwargs.items()})

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)


class BuiltinFunction(JITCallable):
    """Ordinary Python that kernels call, which may hand run-time values about: `tl.core.builtin`, undecorated methods of aggregates."""

    def __init__(self, fn):
        super().__init__(fn, kind=BUILTIN)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        return self.fn(*args, **kwargs)


# Options of launches that parameters are known to be called like.
_OPTION_NAMES = frozenset(("num_warps", "num_stages", "num_ctas", "maxnreg", "num_threads", "num_cpu_threads", "debug", "enable_fp_fusion"))


class _DeviceCaches(dict):
    """{device: (kernels by key, keys, target, backend, binder)} of a function. Once cleared, launches look for its kernels again: in the disk cache."""

    def __init__(self, fn):
        super().__init__()
        self._fn = weakref.ref(fn)

    def clear(self):
        super().clear()
        fn = self._fn()
        if fn is not None:
            with _binding.lock:
                fn._unbind()

    def __missing__(self, device):
        if device == "cpu":  # as torch.cpu.current_device() says
            return self[0]
        from .backends import backend_of
        from .runtime.driver import driver
        target = driver.active.get_current_target()
        row = self[device] = ({}, {}, target, backend_of(target), None)
        return row


def _params(signature, source):
    return [KernelParam(i, p, p.name in source["do_not_specialize"] or i in source["do_not_specialize"],
                        p.name in source["do_not_specialize_on_alignment"]) for i, p in enumerate(signature.parameters.values())]


def _unbind_all(functions):
    for f in functions:
        f._unbind()


_binding.makers.update({CONSTEXPR: ConstexprFunction, PLAIN: functools.partial(ConstexprFunction, kind=PLAIN), BUILTIN: BuiltinFunction})
