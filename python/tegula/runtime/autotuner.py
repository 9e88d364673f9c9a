"""Configurations of a kernel: which of them is fastest (`autotune`), and meta-parameters computed from arguments (`heuristics`).

A launch that needs no measurement does not come by here: python/src/Layers.cpp does what `Autotuner.run` and `Heuristics.run` do with it, the tuning key
(`_key_of`), what a configuration gives (`Config.all_kwargs`) and its hook included. Whoever changes a rule of these changes it there, too; test_layers.py holds both to it.
"""
import builtins
import functools
import inspect
import json
import sys
import threading
import time
import warnings

from .. import _core, knobs
from ..errors import AutotunerError, OutOfResources, PTXASError  # the last two, as powers and heuristics: names that others import from here
from .._mock import MockTensor
from .._function import JITFunction
from .._interface import NamedKernel, check_decorated
from .._options import interpreting
from ._config import SPACE_OPTIONS, Config, Space, powers
from ._heuristics import Heuristics, heuristics
from ._kept_timings import ResultFile
from ._tuned_memory import AllKept, copy_of, set_back, zero
from ._tuning import SKIPPED, Tuning, text_of_guess

_SWEPT = 32  # configurations of a space that are all timed, as in the library


class Autotuner(_core.Layer, NamedKernel):
    """A kernel whose configuration is measured for each new value of `keys`, at its first launch.

    `cache`: {tuning key: Config}; `configs_timings`: {Config: [median, 20 %, 80 %] in ms} of the last tuning, infinite for those that could not run, for which
    `failures` has the exception. `space`: the Space that the configurations are of, "auto", or None; then `recipe` is what was proposed last, and `guess` what was
    tried first because an earlier version's or another device's results say so; `clock`: what timed, "graphs", "events", "steady", "given" or "", nobody;
    `remarks`: texts about the last tuning that ask for nothing (docs/autotuning.md).
    """

    def __init__(self, fn, arg_names, configs, key, reset_to_zero, restore_value, pre_hook=None, post_hook=None, prune_configs_by=None, warmup=None,
                 rep=None, use_cuda_graph=False, do_bench=None, cache_results=False, validate=True, deterministic=None, budget_ms=None, space=None, search=None,
                 compile_timeout_s=30):
        self.fn, self.arg_names = fn, arg_names
        self.space, self.search, self.recipe, self.guess, self.clock, self.remarks = space, search, None, None, None, []
        self.compile_timeout_s = compile_timeout_s
        self._points = {}  # of configurations in a space
        if space is None:
            self.configs = list(configs) if configs else [Config({})]
        else:
            self.configs = []  # of "auto": each tuning has its own
            if space != "auto":
                self.configs = self._of_space(space.points(arg_names))
        self.keys = list(key or ()) if key is not None or space is None else None  # None: what the first launch shows
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self.base_fn = fn
        while not inspect.isfunction(self.base_fn) and getattr(self.base_fn, "fn", None) is not None:
            self.base_fn = self.base_fn.fn
        for what, names in (("key", self.keys or []), ("reset_to_zero", self.reset_to_zero), ("restore_value", self.restore_value)):
            unknown = [n for n in names if n not in arg_names]
            if unknown and float(str(knobs.language.level)) < 3.9:  # as Triton did then
                names[:] = [n for n in names if n in arg_names]
            elif unknown:
                raise ValueError(f"{what} contains names that are not kernel arguments: {', '.join(map(str, unknown))}. "
                                 f"Valid argument names are: {', '.join(arg_names)}. Triton ignored them before 3.9; TEGULA_TRITON_LEVEL=3.7 does so, too.")
        prune = prune_configs_by or {}
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self._ranked_by_library = "top_k" in prune and self.perf_model is None
        self.early_config_prune = prune.get("early_config_prune")
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.pre_hook = pre_hook or self._prepare_tensors
        self.post_hook = post_hook or self._restore_tensors
        self.num_warmups, self.num_reps, self.use_cuda_graph, self._do_bench = warmup, rep, use_cuda_graph, do_bench
        self.cache_results, self.validate, self.deterministic, self.budget_ms = cache_results, validate, deterministic, budget_ms
        self.cache, self.nargs, self.best_config, self.bench_time = {}, None, None, None
        self.restore_copies, self.failures = {}, {}
        self._lock = threading.RLock()
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self.__doc__ = getattr(fn, "__doc__", None)
        self.__module__ = getattr(fn, "__module__", __name__)
        if warmup is not None or rep is not None or use_cuda_graph:
            warnings.warn("warmup, rep, and use_cuda_graph parameters are deprecated. See https://github.com/triton-lang/triton/pull/4496 for details.",
                          DeprecationWarning, stacklevel=3)

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_lock"}

    def __setstate__(self, state):
        self.__dict__.update(state, _lock=threading.RLock())

    # ---- around each trial

    def _prepare_tensors(self, kwargs, reset_only=False):
        for name in self.reset_to_zero:
            if kwargs[name] is not None:
                zero(kwargs[name])
        if not reset_only:
            self.restore_copies = {name: copy_of(kwargs[name]) for name in self.restore_value if kwargs[name] is not None}

    def _restore_tensors(self, kwargs, exception):
        for name, saved in self.restore_copies.items():
            set_back(kwargs[name], saved)
        self.restore_copies = {}

    @property
    def do_bench(self):
        """f(call, quantiles) -> milliseconds"""
        if self._do_bench is not None:
            return self._do_bench
        if self.use_cuda_graph:
            from .._timing import do_bench_cudagraph
            return functools.partial(do_bench_cudagraph, rep=self.num_reps or 100)
        from .driver import driver
        given = {"warmup": self.num_warmups, "rep": self.num_reps}
        return functools.partial(driver.active.get_benchmarker(), **{k: v for k, v in given.items() if v is not None})

    @do_bench.setter
    def do_bench(self, f):
        self._do_bench = f

    def _bench(self, *args, config, **meta):
        """Times of one configuration, by the benchmark alone (subclasses call it)."""
        self._check_conflicts(config, meta)
        self._announce(config)
        try:
            return self.do_bench(self._call_of(config, args, meta), quantiles=(0.5, 0.2, 0.8))
        except SKIPPED as e:
            self._failed(config, e)
            return [float("inf")] * 3

    def _call_of(self, config, args, meta):
        """A launch with all its hooks."""
        current = {**meta, **config.all_kwargs()}
        full = {**self.nargs, **current}

        def call():
            if config.pre_hook:
                config.pre_hook(full)
            self.pre_hook(full)
            try:
                kernel = self.fn.run(*args, **current)
            except BaseException as e:
                self.post_hook(full, exception=e)
                raise
            self.post_hook(full, exception=None)
            return kernel
        return call

    @staticmethod
    def _check_conflicts(config, given):
        if conflicts := sorted(given.keys() & config.kwargs.keys()):
            raise ValueError(f"Conflicting meta-parameters: {', '.join(conflicts)}. Make sure that you don't re-define auto-tuned symbols.")

    def _announce(self, config):
        if knobs.autotuning.print:
            print(f"Autotuning kernel {self.base_fn.__name__} with config {config}")

    def _failed(self, config, e):
        self.failures[config] = e
        if knobs.autotuning.print:
            print(f"Autotuning failed with {type(e).__name__}: {e} ({config})")

    def _has_hooks(self, configs):
        return self.user_defined_pre_hook or self.user_defined_post_hook or any(c.pre_hook for c in configs)

    def _caches(self):
        return self.cache_results or knobs.autotuning.cache

    def _clock(self, configs):
        """What times `configs`: "own", the library's clock, "graphs", the same for launches in CUDA graphs, or "given", `do_bench`. The benchmark that the library's stands
        for is then not even loaded."""
        from ..backends.driver import LibraryDriver
        from .driver import driver
        if self._do_bench is not None or self.num_warmups is not None or self.num_reps is not None:
            return "given"
        if self.use_cuda_graph:
            # What is recorded calls nobody when it is launched again: no hook, and nothing that sets memory back.
            return "given" if self._has_hooks(configs) or self.reset_to_zero or self.restore_value else "graphs"
        return "own" if getattr(driver.active.get_benchmarker, "__func__", None) is LibraryDriver.get_benchmarker else "given"

    def _jit_function(self):
        """The function under all decorators."""
        fn = self.fn
        while fn is not None and not isinstance(fn, JITFunction):
            fn = getattr(fn, "fn", None)
        return fn

    def _is_interpreted(self):
        """Do launches run in the interpreter, whose times say nothing?"""
        function = self._jit_function()
        return knobs.runtime.interpret or (function is not None and interpreting(function))

    # ---- which configurations, and the best of them

    def _of_space(self, pairs):
        """Configurations of (point, values) pairs, whose points are remembered."""
        configs = []
        for point, values in pairs:
            options = {k: values.pop(k) for k in SPACE_OPTIONS if k in values}
            configs.append(Config(values, **options))
            self._points[configs[-1]] = point
        return configs

    def _proposed(self, kwargs):
        """The configurations that the library proposes for this launch: what is given is not theirs."""
        fn, given = self.fn, {k: v for k, v in {**self.nargs, **kwargs}.items() if k not in ("grid", "warmup")}
        while isinstance(fn, Heuristics):
            given, fn = {**given, **fn._foreseen(given)}, fn.fn
        if not isinstance(fn, JITFunction):
            raise AutotunerError(f"{self.__name__}: nothing can be proposed for a kernel with configurations of its own; give `space` its ranges")
        self.recipe = json.loads(fn.propose(kwargs.get("grid", (1, 1, 1)), (), given))
        axes = [a["name"] for a in self.recipe["axes"]]
        index = [{v: i for i, v in enumerate(a["values"])} for a in self.recipe["axes"]]
        self._points = {}
        return self._of_space((tuple(at[v] for at, v in zip(index, values)), dict(zip(axes, values))) for values in self.recipe["configs"])

    def explain(self):
        """Where the configurations of the last tuning came from, and what it chose: text for people."""
        lines = []
        if self.recipe:
            lines.append(f"recipe: {self.recipe['kind']}, {len(self.recipe['configs'])} configurations")
            lines += [f"  {a['name']} = {a['values']}: {a['reason']}" for a in self.recipe["axes"]]
            lines += [f"  {reason}" for reason in self.recipe["reasons"]]
        if self.guess:
            lines.append(text_of_guess(self.guess))
        if self.best_config is not None:
            timed = sum(_sortable(t)[0] != float("inf") for t in getattr(self, "configs_timings", {}).values())
            lines += self.remarks
            lines.append(f"chosen: {self.best_config}, {timed} of {len(getattr(self, 'configs_timings', {}))} configurations timed")
        return "\n".join(lines)

    def prune_configs(self, kwargs):
        """The configurations that are worth a trial."""
        configs = self._proposed(kwargs) if self.space == "auto" else self.configs
        if self.space is not None and self._is_interpreted():
            return configs[:1]  # the interpreter's times say nothing
        if self.early_config_prune:
            configs = list(self.early_config_prune(configs, self.nargs, **kwargs))
            if not configs:
                raise AutotunerError("No valid autotuner configs after pruning. `early_config_prune` should return at least one config.")
        if self.perf_model:
            top_k = self._top_k(configs)
            if len(configs) > top_k:
                estimate = {c: self.perf_model(**self.nargs, **kwargs, **c.all_kwargs()) for c in configs}
                configs = sorted(configs, key=estimate.get)[:top_k]
            if not configs:
                raise AutotunerError(f"No valid autotuner configs after pruning. top_k is {top_k}, which leaves none.")
        return configs

    def _top_k(self, configs):
        """How many of them are to be timed."""
        top_k = self.configs_top_k
        if isinstance(top_k, float) and top_k <= 1.0:
            return max(1, int(len(configs) * top_k))
        if not isinstance(top_k, int):
            raise TypeError("Error while pruning configs, top_k must be either 1) a float <= 1.0 or 2) an int")
        return top_k

    def _tuning_key(self, kwargs):
        return self._key_of({**self.nargs, **kwargs})

    def _key_of(self, given):
        known = {k: v for k, v in given.items() if k in self.arg_names}
        return tuple([known[k] for k in self.keys if k in known] + [sys.intern(str(v.dtype)) for v in known.values() if hasattr(v, "dtype")])

    def _measure(self, configs, args, kwargs):
        """The best of `configs`; sets configs_timings and failures. (best, was it on disk)"""
        self.failures = {}
        for c in configs:
            self._check_conflicts(c, kwargs)
        start = time.perf_counter()
        if self._is_interpreted() or not hasattr(self.fn, "warmup"):
            with AllKept({**self.nargs, **kwargs}):
                timings = {c: self._bench(*args, config=c, **kwargs) for c in configs}
            best, from_disk = builtins.min(timings, key=lambda c: _sortable(timings[c])), False
        else:
            timings, best, from_disk = Tuning(self, configs, args, {k: v for k, v in kwargs.items() if k != "warmup"}).run()
        self.bench_time = 0.0 if from_disk else time.perf_counter() - start
        self.configs_timings = timings
        return best, from_disk

    def _tune(self, key, configs, args, kwargs):
        """(best configuration, was it on disk)"""
        store = ResultFile.of(self, key, configs)
        timings = store.read(configs) if store else None
        if timings:
            self.configs_timings, self.bench_time = timings, 0.0
            return builtins.min(timings, key=lambda c: _sortable(timings[c])), True
        best, from_disk = self._measure(configs, args, kwargs)
        if store:
            store.write(key, self.configs_timings)
        return best, from_disk

    def _choose(self, args, kwargs):
        if len(self.configs) == 1:
            return self.configs[0]
        if self.keys is None:
            constexprs = {p.name for p in self._jit_function().params if p.is_constexpr}
            self.keys = [k for k, v in {**self.nargs, **kwargs}.items() if k in self.arg_names and k not in constexprs and isinstance(v, (bool, int, float))]
        key = self._tuning_key(kwargs)
        if key in self.cache:
            return self.cache[key]
        configs = self.prune_configs(kwargs)
        if len(configs) == 1:
            self.cache[key] = configs[0]
            return configs[0]
        best, from_disk = self._tune(key, configs, args, kwargs)
        self.cache[key] = best
        self.pre_hook({**self.nargs, **kwargs, **best.all_kwargs()}, reset_only=True)
        if knobs.autotuning.print and not from_disk:
            print(f"Triton autotuning for function {self.base_fn.__name__},\nwith key as {key},\nfinished after {self.bench_time:.2f}s,\n"
                  f"best config selected: {best};")
        if knobs.autotuning.listener:
            knobs.autotuning.listener(fn=self._jit_function(), key=key, best_config=best, configs_timings=self.configs_timings,
                                      duration=None if from_disk else self.bench_time, cache_hit=from_disk)
        return best

    def run(self, *args, **kwargs):
        with self._lock:
            self.nargs = dict(zip(self.arg_names, args))
            try:
                config = self.best_config = self._choose(args, kwargs)
                nargs = self.nargs
            finally:
                self.nargs = None
        if config.pre_hook:
            config.pre_hook({**nargs, **kwargs, **config.all_kwargs()})
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    def warmup(self, *args, **kwargs):
        """Compiles all configurations that are worth a trial, of a space that is searched those that the cost model likes best: list of kernels."""
        with self._lock:
            if self.space is not None:
                args, kwargs = self._standing_in(args, kwargs)
            self.nargs = dict(zip(self.arg_names, args))
            try:
                configs = self.prune_configs(kwargs)
                if self.space is not None and (len(configs) > _SWEPT if self.search is None else self.search):
                    configs = self._likely(configs, args, kwargs)
                return [self.fn.warmup(*args, **kwargs, **c.all_kwargs()) for c in configs]
            finally:
                self.nargs = None

    def _standing_in(self, args, kwargs):
        """Dtypes stand for tensors of them where no compile-time value is taken."""
        constants = {p.name for p in self._jit_function().params if p.is_constexpr}
        wrap = lambda name, x: x if name in constants else MockTensor.wrap_dtype(x)
        return tuple(map(wrap, self.arg_names, args)), {name: wrap(name, x) for name, x in kwargs.items()}

    def _likely(self, configs, args, kwargs):
        """The eight least estimates: what a search would try first."""
        most = 512  # to estimate
        configs = configs[::-(-len(configs) // most)]
        ns = Tuning(self, configs, args, kwargs).sketch(range(len(configs)))
        return [configs[i] for i in sorted(range(len(configs)), key=lambda i: ns[i] or float("inf"))[:8]]


def _sortable(timings):
    return tuple(timings) if isinstance(timings, (list, tuple)) else (timings,)


def autotune(configs=None, key=None, prune_configs_by=None, reset_to_zero=None, restore_value=None, pre_hook=None, post_hook=None, warmup=None, rep=None,
             use_cuda_graph=False, do_bench=None, cache_results=False, validate=True, deterministic=None, budget_ms=None, space=None, where=None,
             search=None, compile_timeout_s=30):
    """Decorator: the fastest of `configs` is found at the first launch with each new combination of the values of the arguments named in `key` and of all dtypes.
    Tensors that the kernel reads and writes are set back after every trial; a configuration that computes something else than most do is not used, unless
    `validate` is False. `deterministic` (TEGULA_TUNE=deterministic): the cost model or a file chooses, no clock; `budget_ms`: after so long no further one is timed.
    In place of `configs`, `space` has ranges, {"BLOCK_M": powers(16, 128), "num_warps": (4, 8)}, of which those combinations count that `where(META)` is true for; or
    it is "auto": constexpr parameters that the launch does not give, num_warps and num_stages are proposed from what the kernel does, the shapes and the device. Spaces
    of more than 32 configurations are searched (`search`: True, also where there are fewer or a list; False: all are timed); `budget_ms` is then the time for
    the whole search. `key` None: all numbers that the first launch gives. A configuration that takes longer than `compile_timeout_s` to compile takes no part.
    `prune_configs_by` with `top_k` and no `perf_model`: the library's cost model says which.
    The rest as in docs/language.md §4.7."""
    if (configs is None) == (space is None):
        raise TypeError("autotune() takes either `configs` or `space`")
    if key is None and space is None:
        raise TypeError("autotune() needs `key`, or `space` in place of `configs`")
    if where is not None and (space is None or space == "auto"):
        raise TypeError("autotune() takes `where` with the ranges of a `space`")
    if space is not None and space != "auto":
        space = Space(space, where)

    def decorate(fn):
        return Autotuner(check_decorated(fn, "autotune"), fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook=pre_hook, post_hook=post_hook,
                         prune_configs_by=prune_configs_by, warmup=warmup, rep=rep, use_cuda_graph=use_cuda_graph, do_bench=do_bench,
                         cache_results=cache_results, validate=validate, deterministic=deterministic, budget_ms=budget_ms, space=space, search=search,
                         compile_timeout_s=compile_timeout_s)
    return decorate


def proposing(how):
    """What `jit(autotune=how)` decorates with."""
    if how != "auto":
        raise ValueError(f'jit() takes autotune="auto", found {how!r}; @autotune takes ranges and lists')
    return autotune(space="auto")


def _text_of_dtype(dtype):
    """(its text in tuning keys, is that the same for good?)"""
    module = type(dtype).__module__.partition(".")[0]
    return sys.intern(str(dtype)), module in ("numpy", "torch", "tegula")


_core.set_layers(Autotuner, Heuristics, JITFunction, Config, _text_of_dtype)
