"""What a launch is for the compiler: its arguments bound and specialized, the key of its kernel; specializations as texts, which other processes compile."""
import collections
import weakref

from . import _aggregate
from ._mock import MockTensor
from ._options import option_demands
from ._specialize import specialize_parameter
from .language import _types

JitFunctionInfo = collections.namedtuple("JitFunctionInfo", "module name jit_function")


def get_full_name(fn):
    return f"{fn.__module__}.{fn.__qualname__}"


# ------------------------------------------------------------------------------------------------ what a launch is for the compiler


class Call:
    """The arguments of a launch, bound: `arguments` by name, `specialization` a (type code, key) for each parameter, `options` by name."""

    def __init__(self, fn, args, kwargs):
        names = fn.signature.parameters
        self.fn = fn
        self.options = {**{k: v for k, v in kwargs.items() if k not in names or k in fn.launch_options}, **option_demands()}
        bound = fn.signature.bind(*args, **{k: v for k, v in kwargs.items() if k in names})
        bound.apply_defaults()
        self.arguments = dict(bound.arguments)
        self._specialization = None

    @property
    def specialization(self):
        if self._specialization is None:
            self._specialization = [specialize_parameter(p, self.arguments[p.name]) for p in self.fn.params]
        return self._specialization

    @property
    def signature(self):
        return {p.name: code for p, (code, _) in zip(self.fn.params, self.specialization)}

    @property
    def constants(self):
        """{(position, ...): value} of the compile-time values among the arguments."""
        plain = lambda value: getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
        return {path: plain(value) for path, code, value, _ in self._leaves() if code == "constexpr"}

    @property
    def attrs(self):
        """{(position, ...): [["tt.divisibility", 16]]}"""
        return {path: [["tt.divisibility", 16]] for path, code, _, key in self._leaves() if code != "constexpr" and key == "D"}

    def _leaves(self):
        """(position, ...), type code, value and key of each argument; of each item of tuples."""
        def walk(path, code, value, key):
            if not isinstance(code, tuple):
                yield path, code, value, key
                return
            items = _aggregate.lifted(value, constants=True) if _aggregate.is_aggregate(type(value)) else value
            for i, item in enumerate(code):
                yield from walk((*path, i), item, items[i], key[i])

        for p, (code, key) in zip(self.fn.params, self.specialization):
            yield from walk((p.num,), code, self.arguments[p.name], key)

    @property
    def key(self):
        return compute_cache_key({}, self.specialization, self.options)


def _plain(x):
    """Functions in a specialization by what they do."""
    if hasattr(x, "cache_key"):
        return x.cache_key
    if isinstance(x, (list, tuple)):
        return type(x)(*map(_plain, x)) if hasattr(x, "_fields") else type(x)(map(_plain, x))
    return x


def compute_cache_key(kernel_key_cache, specialization, options):
    """The text that a function's kernels of one device are kept under. `kernel_key_cache`: a dict that remembers it for hashable arguments."""
    return str(_plain(list(specialization))) + str(options)


def create_function_from_signature(signature, kparams, backend):
    """f(*args, **kwargs) -> (arguments by name, specialization, options)"""

    def dynamic_func(*args, **kwargs):
        names = signature.parameters
        bound = signature.bind(*args, **{k: v for k, v in kwargs.items() if k in names})
        bound.apply_defaults()
        rows = [specialize_parameter(p, bound.arguments[p.name]) for p in kparams]
        return dict(bound.arguments), rows, {k: v for k, v in kwargs.items() if k not in names}
    return dynamic_func


# --------------------------------------------------------------------------------------------------- specializations as JSON text


known_functions = weakref.WeakValueDictionary()  # jit functions by module and qualified name, for those that are found by no name; the newest of one name


known_classes = weakref.WeakValueDictionary()  # namedtuples and aggregates in specializations, as known_functions


def _named(held, known):
    """What `module:qualified name` is. RuntimeError if there is no such thing."""
    found = known.get(held)  # it may end at any time
    if found is None:
        import importlib
        module, _, name = held.partition(":")
        try:
            found = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as e:
            raise RuntimeError(f"Specialization data names {held}, which is not there") from e
    return found


def _encoded_code(code):
    """A type code as JSON can hold it; namedtuples and aggregates with the name of their class."""
    if not isinstance(code, tuple):
        return code
    items = [_encoded_code(c) for c in code]
    if not hasattr(code, "_fields"):
        return items
    cls = getattr(code, "_tegula_aggregate", type(code))
    name = f"{cls.__module__}:{cls.__qualname__}"
    known_classes[name] = cls
    return {"class": name, "items": items}


def _encoded(value):
    """A constant as JSON can hold it; functions by name, with the key of what they do; objects by name, which cannot be read back."""
    if hasattr(value, "cache_key"):
        return {"jit_function": f"{value.__module__}:{value.__qualname__}", "cache_key": value.cache_key}
    if type(value).__name__ in ("dtype", "pointer_type") and hasattr(value, "primitive_bitwidth"):
        return {"dtype": value.name}
    if isinstance(value, (tuple, list)):
        return {"constexpr_tuple" if isinstance(value, tuple) else "list": [_encoded(v) for v in value]}
    return value if value is None or isinstance(value, (bool, int, float, str)) else {"object": repr(value)}


def _decoded(value):
    if not isinstance(value, dict):
        return value
    kind, held = next(iter(value.items()))
    if kind == "dtype":
        return _types.dtype(held)
    if kind == "constexpr_tuple":
        return tuple(_decoded(v) for v in held)
    if kind == "list":
        return [_decoded(v) for v in held]
    if kind == "jit_function":
        found = _named(held, known_functions)
        wanted = value.get("cache_key")
        if wanted and getattr(found, "cache_key", wanted) != wanted:
            raise RuntimeError(f"Specialization data is for another function {held} than the one that has this name now")
        return found
    raise TypeError(f"specialization data holds an object that no text can bring back: {held}")


def _target_dict():
    from .runtime.driver import driver
    return dict(driver.active.get_current_target().__dict__)


def active_device():
    """Name of the device that the active driver speaks for; None if it is no driver of ours."""
    from .runtime.driver import driver
    backend = driver.active.get_current_target().backend
    return f"cuda:{driver.active.get_current_device()}" if backend == "cuda" else backend if backend in ("cpu", "sim") else None


def serialize_specialization_data(name, signature, constants, attrs, options, key, target=None):
    """What JITFunction.preload() takes."""
    import json
    return json.dumps({"name": name, "signature": {k: _encoded_code(c) for k, c in signature.items()}, "constant_keys": [list(k) for k in constants],
                       "constant_vals": [_encoded(v) for v in constants.values()], "attrs_keys": [list(k) for k in attrs],
                       "attrs_vals": list(attrs.values()), "options": {k: _encoded(v) for k, v in dict(options).items()}, "key": key,
                       "target": target or _target_dict()}, default=str)


def preload(fn, text):
    """Compiles `fn` as `text`, of serialize_specialization_data, says. Returns the kernel."""
    import json
    data = json.loads(text)
    if data["name"] != get_full_name(fn):
        raise RuntimeError(f"Specialization data is for {data['name']} but trying to preload for {get_full_name(fn)}")
    if data["target"] != _target_dict():
        raise RuntimeError(f"Specialization data is for {data['target']} but trying to preload for {_target_dict()}")
    constants = {tuple(k): _decoded(v) for k, v in zip(data["constant_keys"], data["constant_vals"])}
    divisible = {tuple(k) for k in data["attrs_keys"]}
    arguments = [_stand_in(code, (i,), constants, divisible) for i, code in enumerate(data["signature"].values())]
    options = {k: _decoded(v) for k, v in data["options"].items()}
    call = Call(fn, arguments, options)
    kernel = fn.direct(None)(*arguments, device=active_device(), **options)  # stand-ins are nowhere
    fn._remember(call, kernel)
    return kernel


def _stand_in(code, path, constants, divisible):
    """An argument that is specialized as `code` says."""
    if isinstance(code, dict):
        cls, items = _named(code["class"], known_classes), _stand_in(code["items"], path, constants, divisible)
        return _aggregate.of(cls, items) if _aggregate.is_aggregate(cls) else cls(*items)
    if isinstance(code, (list, tuple)):
        return tuple(_stand_in(c, (*path, i), constants, divisible) for i, c in enumerate(code))
    if code == "constexpr":
        value = constants[path]
        # In a tuple an int would be a run-time value, but 1.
        is_number = len(path) > 1 and isinstance(value, (int, float)) and not (type(value) is int and value == 1)
        return _types.constexpr(value) if is_number else value
    if code.startswith("*"):
        mock = MockTensor(code.removeprefix("*k").removeprefix("*"))
        mock.address = 0 if path in divisible else 1
        return mock
    if code.startswith("tensordesc"):
        raise TypeError("specializations with tensor descriptors cannot be preloaded")
    if code in ("u1", "i1"):
        return False
    if code.startswith(("fp", "bf")):
        return 0.5
    base = 16 if path in divisible else 3
    return base + {"i64": 1 << 40, "u64": 1 << 63}.get(code, 0)
