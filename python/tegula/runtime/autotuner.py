"""Configurations of a kernel: which of them is fastest (`autotune`), and meta-parameters computed from arguments (`heuristics`).

A launch that needs no measurement does not come by here: python/src/Layers.cpp does what `Autotuner.run` and `Heuristics.run` do with it, the tuning key
(`_key_of`), what a configuration gives (`Config.all_kwargs`) and its hook included. Whoever changes a rule of these changes it there, too; test_layers.py holds both to it.
"""
import builtins
import functools
import hashlib
import inspect
import itertools
import json
import os
import sys
import threading
import time
import warnings

from .. import _core, _hooks, knobs
from ..errors import AutotunerError, CompileTimeAssertionFailure, DeviceError, OutOfResources, PTXASError
from .._mock import MockTensor
from .._interface import NamedKernel, check_decorated
from ..jit import JITFunction
from ._threads import in_threads
from ._tuned_memory import AllKept, buffers_of, copy_of, set_back, zero

_OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")


class Config:
    """One choice of meta-parameters and options of a launch. `pre_hook(dict of all arguments)` runs before each launch with it."""

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None):
        self.kwargs = kwargs
        self.num_warps, self.num_ctas, self.num_stages, self.maxnreg = num_warps, num_ctas, num_stages, maxnreg
        self.pre_hook, self.ir_override = pre_hook, ir_override

    def __setstate__(self, state):
        self.__init__(state.get("kwargs", {}))
        self.__dict__.update(state)

    def _options(self):
        return {name: getattr(self, name) for name in _OPTIONS}

    def all_kwargs(self):
        """What a launch with this choice is given, options that are not set left out."""
        return {**self.kwargs, **{k: v for k, v in self._options().items() if v is not None}}

    def __str__(self):
        return ", ".join(f"{k}: {v}" for k, v in {**self.kwargs, **self._options()}.items())

    __repr__ = __str__

    def _identity(self):
        return tuple(self.all_kwargs().items()), self.pre_hook

    def __hash__(self):
        return hash(self._identity())

    def __eq__(self, other):
        return isinstance(other, Config) and self._identity() == other._identity()


# Errors with which a configuration takes no part, and what the tuner of the library calls them.
_COMPILE_ERROR, _OUT_OF_RESOURCES, _FAULT, _ASSEMBLER_ERROR = 2, 5, 6, 10
_SKIPPED = (OutOfResources, CompileTimeAssertionFailure, PTXASError)


def _status(e):
    code = _OUT_OF_RESOURCES if isinstance(e, OutOfResources) else _ASSEMBLER_ERROR if isinstance(e, PTXASError) else _COMPILE_ERROR
    return code, str(e)


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
            from ..testing import do_bench_cudagraph
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
        except _SKIPPED as e:
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
        return knobs.runtime.interpret or (function is not None and _hooks.interpreting(function))

    # ---- which configurations, and the best of them

    def _of_space(self, pairs):
        """Configurations of (point, values) pairs, whose points are remembered."""
        configs = []
        for point, values in pairs:
            options = {k: values.pop(k) for k in _SPACE_OPTIONS if k in values}
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
            lines.append(_text_of_guess(self.guess))
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
            timings, best, from_disk = _Tuning(self, configs, args, {k: v for k, v in kwargs.items() if k != "warmup"}).run()
        self.bench_time = 0.0 if from_disk else time.perf_counter() - start
        self.configs_timings = timings
        return best, from_disk

    def _tune(self, key, configs, args, kwargs):
        """(best configuration, was it on disk)"""
        store = _ResultFile.of(self, key, configs)
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
        ns = _Tuning(self, configs, args, kwargs).sketch(range(len(configs)))
        return [configs[i] for i in sorted(range(len(configs)), key=lambda i: ns[i] or float("inf"))[:8]]


def _sortable(timings):
    return tuple(timings) if isinstance(timings, (list, tuple)) else (timings,)


class _Tuning:
    """One tuning by the library (tegula_tune in tegula.h), whose configurations are callables here."""

    def __init__(self, tuner, configs, args, kwargs):
        self.tuner, self.configs, self.args, self.kwargs = tuner, configs, args, kwargs
        self.clock = tuner._clock(configs)
        # Without a model of the caller's it is for the library's to say which; it wants estimates of all.
        self.top_k = tuner._top_k(configs) if tuner._ranked_by_library else 0
        if tuner._ranked_by_library and self.top_k < 1:
            raise AutotunerError(f"No valid autotuner configs after pruning. top_k is {self.top_k}, which leaves none.")
        how = os.environ.get("TEGULA_TUNE", "")
        self.deterministic = how == "deterministic" if tuner.deterministic is None else tuner.deterministic
        self.arguments = {**tuner.nargs, **kwargs}
        self.compiled, self.announced, self.given = {}, set(), {}
        self.fault = None  # of a kernel, which ended the tuning
        points = tuple(tuner._points.get(c) for c in configs)
        self.points = None if None in points else points

    def run(self):
        """({configuration: times in ms}, the best, was it known)"""
        tuner, function = self.tuner, self.tuner._jit_function()
        if self._is_kept(function):
            function.cache_key  # binds what the function refers to, which results go with
        else:
            function = None
        how = (bool(self.deterministic), bool(tuner.validate), int(sys.stderr is not None and sys.stderr.isatty()), self.top_k, float(tuner.budget_ms or 0),
               int(os.environ.get("TEGULA_TUNE_BYTES") or 0), -1 if tuner.search is None else int(bool(tuner.search)), self.clock == "graphs")
        name = tuner.base_fn.__name__
        if tuner.recipe and knobs.autotuning.print:
            print("\n".join(tuner.explain().splitlines()[:1 + len(tuner.recipe["axes"]) + len(tuner.recipe["reasons"])]))
        text, error = _core.tune(tuple(map(_text_of, self.configs)), name, function, self._arguments_text(), tuple(self.arguments.values()),
                                 self.prepare, self.compile, self.launch, self.measure if self.clock == "given" else None, how, self.points, self.sketch,
                                 self.record)
        report = json.loads(text) if text else {"configs": [], "chosen": None, "by": "", "warnings": []}
        tuner.guess, tuner.clock = report.get("guess"), report.get("clock", "")
        if tuner.guess and knobs.autotuning.print:
            print(f"Autotuning kernel {name}: {_text_of_guess(tuner.guess)}")
        tuner.remarks = report.get("remarks", [])
        if knobs.autotuning.print:
            for remark in tuner.remarks:
                print(f"Autotuning remark: {remark}")
        for warning in report["warnings"]:
            warnings.warn(warning, stacklevel=2)
        if self.fault is not None:
            raise DeviceError(error or str(self.fault), self.fault.fault) from self.fault
        timings = {}
        for i, (config, row) in enumerate(zip(self.configs, report["configs"])):
            ok = row["state"] == "ok"
            timings[config] = self.given[i] if ok and i in self.given else [row["median_ns"] / 1e6, row["low_ns"] / 1e6, row["high_ns"] / 1e6] if ok else [float("inf")] * 3
            if not ok and row["state"] != "untried" and config not in tuner.failures:
                tuner._failed(config, AutotunerError(f"{name}: configuration ({config}) {row.get('reason', row['state'])}"))
        chosen = report["chosen"]
        # Where none can be used the first is launched, and says why.
        return timings, self.configs[chosen if error is None and chosen is not None else 0], report["by"] == "file"

    def _is_kept(self, function):
        """Are results kept in the library's files? What somebody else timed, or hooks had a part in, only if `cache_results` asks for it; what replaced stages had, never."""
        tuner = self.tuner
        if function is None or any(c.ir_override for c in self.configs):
            return False
        if not self._is_ours() and (not tuner._caches() or any(c.pre_hook for c in self.configs)):
            return False
        return all(isinstance(self.arguments.get(k), (int, float, str, bool, type(None))) or hasattr(self.arguments[k], "dtype") for k in tuner.keys if k in self.arguments)

    def _is_ours(self):
        """Do the times depend on the kernel and the device alone?"""
        return self.clock != "given" and not self.tuner._has_hooks(self.configs)

    def _arguments_text(self):
        items = []
        for name in self.tuner.arg_names:
            if name in self.arguments:
                value = self.arguments[name]
                if name in self.tuner.keys and not hasattr(value, "dtype"):
                    items.append(f"{name}={value!r}")
                if hasattr(value, "dtype"):
                    items.append(f"{name}:*{str(value.dtype).removeprefix('torch.')}")
        # Options of the launch that change the code or its time.
        items += [f"{k}={v!r}" for k, v in sorted(self.kwargs.items()) if k not in self.tuner.arg_names and k != "grid"]
        if not self._is_ours():
            items.append("timed by " + _text_of_callables(self.tuner.do_bench, self.tuner.pre_hook, self.tuner.post_hook))
        return ", ".join(items)

    # ---- called by the library

    def prepare(self, wanted):
        """Compiles on all cores, without those whose hook may change what there is to compile. What takes too long takes no part, if there is anything else."""
        def one(i):
            try:
                return self.tuner.fn.warmup(*self.args, **self.kwargs, **self.configs[i].all_kwargs())
            except _SKIPPED as e:
                return e

        wanted = [i for i in wanted if not self.configs[i].pre_hook]
        limit = self.tuner.compile_timeout_s if len(wanted) > 1 else None
        late = OutOfResources(name="seconds of compilation", limit=limit, text=f"took more than {limit} s to compile")
        done = in_threads(one, wanted, limit)
        self.compiled.update((i, done.get(i, late)) for i in wanted)

    def sketch(self, wanted):
        """Estimates without compiling, 0 where there is none."""
        done = in_threads(self._sketch, wanted)
        return [done[i] for i in wanted]

    def _innermost(self, config):
        """The function under all decorators, with what it is launched with."""
        fn, given = self.tuner.fn, {**self.kwargs, **config.all_kwargs()}
        grid = given.pop("grid")
        while not isinstance(fn, JITFunction):
            given = fn._completed(self.args, given)
            fn = fn.fn
        return fn, (grid, tuple(self.args), given)

    def _sketch(self, i):
        if self.configs[i].pre_hook:
            return 0.0
        try:
            fn, launch = self._innermost(self.configs[i])
            return fn.sketched(*launch)
        except Exception:  # compiling it says why
            return 0.0

    def _rehearse(self, config):
        """What its first program does wrong on the simulator ($TEGULA_TUNE_DRY); None: nothing."""
        try:
            fn, launch = self._innermost(config)
            return fn.rehearse(*launch)
        except Exception:  # a launch says why
            return None

    def compile(self, i):
        config, tuner = self.configs[i], self.tuner
        kernel = self.compiled.get(i)
        full = {**self.arguments, **config.all_kwargs()}
        if kernel is None:
            if config.pre_hook:
                config.pre_hook(full)
            try:
                kernel = tuner.fn.warmup(*self.args, **self.kwargs, **config.all_kwargs())
            except _SKIPPED as e:
                kernel = e
        if isinstance(kernel, Exception):
            tuner.user_defined_pre_hook and tuner.pre_hook(full)  # told as of a launch
            tuner.user_defined_post_hook and tuner.post_hook(full, exception=kernel)
            tuner._failed(config, kernel)
            return _status(kernel)
        if os.environ.get("TEGULA_TUNE_DRY") == "sim" and (fault := self._rehearse(config)):
            tuner._failed(config, AutotunerError(f"{tuner.base_fn.__name__}: configuration ({config}): {fault}"))
            return _FAULT, fault
        stages = getattr(kernel, "asm", ())
        # Somebody may count the calls of hooks and benchmarks: there, equal code is timed each time.
        code = stages["obj"] if tuner._do_bench is None and not tuner._has_hooks(self.configs) and "obj" in stages else None
        return buffers_of(kernel, self.arguments, {*tuner.restore_value, *tuner.reset_to_zero}), code, self._estimate(kernel, config)

    def _estimate(self, kernel, config):
        """Nanoseconds by the cost model; 0: it does not say."""
        if not self.deterministic and not self.tuner.budget_ms and not self.top_k and self.points is None:
            return 0.0
        try:
            fn, bound = self.tuner.fn, {**self.arguments, **config.all_kwargs()}
            while not isinstance(fn, JITFunction):
                if isinstance(fn, Heuristics):
                    bound = {**bound, **fn._completed((), dict(bound))}
                fn = fn.fn
            for p in fn.signature.parameters.values():
                if p.default is not p.empty:
                    bound.setdefault(p.name, p.default)
            grid = bound["grid"]
            return float(kernel.estimate(grid(bound) if callable(grid) else grid, *(bound[name] for name in fn.arg_names)).ns)
        except Exception:  # a grid or a value that no kernel takes: the launch says so
            return 0.0

    def _call(self, i):
        config = self.configs[i]
        if i not in self.announced:
            self.announced.add(i)
            self.tuner._announce(config)
        return self.tuner._call_of(config, self.args, self.kwargs)

    def launch(self, i):
        try:
            self._call(i)()
        except (*_SKIPPED, DeviceError) as e:
            return self._ended(i, e)

    def _ended(self, i, e):
        """A run failed: what the library is told. A fault ends the tuning, and is remembered."""
        if isinstance(e, DeviceError):
            self.fault = e
            return _FAULT, str(e)
        self.tuner._failed(self.configs[i], e)
        return _status(e)

    def record(self, i):
        """A launch that a CUDA graph is made of."""
        self._call(i)()

    def measure(self, i, restore):
        from .. import testing
        call, bench = self._call(i), self.tuner.do_bench
        try:
            if getattr(bench, "func", None) is testing.do_bench:
                times = bench(call, quantiles=(0.5, 0.2, 0.8), before=restore)
            else:
                def run():
                    restore()
                    return call()
                times = bench(run, quantiles=(0.5, 0.2, 0.8))
        except (*_SKIPPED, DeviceError) as e:
            return self._ended(i, e)
        self.given[i] = times
        times = times if isinstance(times, (list, tuple)) else (times,) * 3
        return tuple(float(t) * 1e6 for t in (*times, *[times[-1]] * 3)[:3])


def _text_of(config):
    """As the library writes a configuration: the same from Python, C++ and the shell."""
    options = ("num_warps", "num_stages", "num_ctas", "maxnreg")
    return ", ".join([f"{k}: {v!r}" for k, v in config.kwargs.items()] + [f"{k}: {v}" for k in options if (v := getattr(config, k)) is not None])


def _text_of_callables(*given):
    """Their names: who changes what they do, and not the name, has the old results (as in Triton, where nothing says who timed)."""
    def one(f):
        while isinstance(f, functools.partial):
            f = f.func
        return "{0.__module__}.{0.__qualname__}".format(f if hasattr(f, "__qualname__") else type(f))
    return ", ".join(map(one, given))


def _text_of_guess(guess):
    return (f"the choice of version {guess['version']} on {guess['device']}, {guess['config']}, "
            f"{'is tried first' if guess['used'] == 'first' else 'is taken; nothing is timed'}")


_SPACE_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_MOST_POINTS = 100000  # as in the library
_SWEPT = 32  # configurations of a space that are all timed, as in the library


def powers(first, last):
    """`first` and its doubles up to `last`, for the ranges of a space: powers(16, 128) is [16, 32, 64, 128]."""
    if first < 1:
        raise ValueError(f"powers({first}, {last}) has no end")
    return [first << i for i in range((last // first).bit_length())]


class Space:
    """Ranges of meta-parameters and options of launches, {name: values}, and which combinations count: `where(META)`, all if it is None."""

    def __init__(self, ranges, where=None):
        self.ranges = {name: list(values) for name, values in dict(ranges).items()}
        self.where = where

    def points(self, arg_names):
        """[(index of each value, {name: value})], the last name changing fastest."""
        if not self.ranges:
            raise ValueError("the space has no axes")
        for name, values in self.ranges.items():
            if name not in arg_names and name not in _SPACE_OPTIONS:
                raise ValueError(f"the space contains a name that is not a kernel argument: {name}. Valid argument names are: {', '.join(arg_names)}")
            if not values:
                raise ValueError(f"the space has no values for {name}")
        found = []
        for pairs in itertools.product(*(enumerate(v) for v in self.ranges.values())):
            values = dict(zip(self.ranges, (v for _, v in pairs)))
            if self.where is not None and not self.where(dict(values)):
                continue
            found.append((tuple(i for i, _ in pairs), values))
            if len(found) > _MOST_POINTS:
                raise ValueError(f"the space has more than {_MOST_POINTS} configurations")
        if not found:
            raise ValueError("`where` leaves no configuration of the space")
        return found


class _ResultFile:
    """Timings of one tuning on disk, in the folder of kernels: Triton's own file."""

    def __init__(self, manager, name):
        self.manager, self.name = manager, name

    @classmethod
    def of(cls, tuner, key, configs):
        """None: these results are not kept."""
        if not tuner._caches() or tuner._is_interpreted() or any(c.pre_hook for c in configs):
            return None
        fn = tuner.fn
        while not isinstance(fn, JITFunction):
            fn = fn.fn
        from ..compiler.compiler import triton_key
        from .cache import get_cache_manager
        from .driver import driver
        parts = [triton_key(), str(driver.active.get_current_target()), fn.cache_key, str(key), *map(str, configs)]
        return cls(get_cache_manager(hashlib.sha256("-".join(parts).encode()).hexdigest()), f"{fn.__name__[:150]}.autotune.json")

    def read(self, configs):
        path = self.manager.get_file(self.name)
        if not path:
            return None
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["configs_timings"]
        ours = {str(c): c for c in configs}
        return {ours[text]: timings for config, timings in rows if (text := str(Config(**config))) in ours} or None

    def write(self, key, timings):
        text = json.dumps({"key": key, "configs_timings": [(vars(c), t) for c, t in timings.items()]}, default=str)
        self.manager.put(text, self.name, binary=False)


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


_FORESEEN = 128


class _Foreseen(dict):
    """Arguments of a launch some of whose meta-parameters are not known yet."""

    def __missing__(self, name):
        return _FORESEEN


class Heuristics(_core.Layer, NamedKernel):
    """A kernel some of whose meta-parameters are computed at launch."""

    def __init__(self, fn, arg_names, values):
        self.fn, self.arg_names, self.values = fn, arg_names, values
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self.__doc__ = getattr(fn, "__doc__", None)
        self.__module__ = getattr(fn, "__module__", __name__)

    def _completed(self, args, kwargs):
        bound = {**dict(zip(self.arg_names, args)), **kwargs}
        for name, f in self.values.items():
            kwargs[name] = bound[name] = f(bound)
        return kwargs

    def _foreseen(self, given):
        """What the functions give where meta-parameters are still to be proposed: these have `_FORESEEN` to them, at which flags about what tiles divide keep their masks."""
        bound, values = _Foreseen(given), {}
        for name, f in self.values.items():
            values[name] = bound[name] = f(bound)
        return values

    def run(self, *args, **kwargs):
        return self.fn.run(*args, **self._completed(args, kwargs))

    def warmup(self, *args, **kwargs):
        return self.fn.warmup(*args, **self._completed(args, kwargs))


def heuristics(values):
    """Decorator: {name of a meta-parameter: function of the dict of bound arguments}. Each sees what the ones before it gave."""
    return lambda fn: Heuristics(check_decorated(fn, "heuristics"), fn.arg_names, values)


def _text_of_dtype(dtype):
    """(its text in tuning keys, is that the same for good?)"""
    module = type(dtype).__module__.partition(".")[0]
    return sys.intern(str(dtype)), module in ("numpy", "torch", "tegula")


_core.set_layers(Autotuner, Heuristics, JITFunction, Config, _text_of_dtype)
