"""Configurations of a kernel: which of them is fastest (`autotune`), and meta-parameters computed from arguments (`heuristics`)."""
import builtins
import concurrent.futures
import functools
import hashlib
import inspect
import json
import os
import threading
import time
import warnings

from .. import knobs
from ..errors import AutotunerError, CompileTimeAssertionFailure, OutOfResources, PTXASError
from ..jit import JITFunction, KernelInterface
from ._trials import Trials, copy_of, set_back, warn_of_blind

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


def _zero(tensor):
    if hasattr(tensor, "zero_"):
        tensor.zero_()
    else:
        tensor[...] = 0


class Autotuner(KernelInterface):
    """A kernel whose configuration is measured for each new value of `keys`, at its first launch.

    `cache`: {tuning key: Config}; `configs_timings`: {Config: [median, 20 %, 80 %] in ms} of the last tuning, infinite for those that could not run, for which
    `failures` has the exception.
    """

    def __init__(self, fn, arg_names, configs, key, reset_to_zero, restore_value, pre_hook=None, post_hook=None, prune_configs_by=None, warmup=None,
                 rep=None, use_cuda_graph=False, do_bench=None, cache_results=False, validate=True):
        self.fn, self.arg_names = fn, arg_names
        self.configs = list(configs) if configs else [Config({})]
        self.keys = list(key or ())
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self.base_fn = fn
        while not inspect.isfunction(self.base_fn) and getattr(self.base_fn, "fn", None) is not None:
            self.base_fn = self.base_fn.fn
        for what, names in (("key", self.keys), ("reset_to_zero", self.reset_to_zero), ("restore_value", self.restore_value)):
            unknown = [n for n in names if n not in arg_names]
            if unknown:
                raise ValueError(f"{what} contains names that are not kernel arguments: {', '.join(map(str, unknown))}. "
                                 f"Valid argument names are: {', '.join(arg_names)}")
        prune = prune_configs_by or {}
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.early_config_prune = prune.get("early_config_prune")
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.pre_hook = pre_hook or self._prepare_tensors
        self.post_hook = post_hook or self._restore_tensors
        self.num_warmups, self.num_reps, self.use_cuda_graph, self._do_bench = warmup, rep, use_cuda_graph, do_bench
        self.cache_results, self.validate = cache_results, validate
        self.cache, self.nargs, self.best_config, self.bench_time = {}, None, None, None
        self.restore_copies, self.failures = {}, {}
        # Of the tuning under way (subclasses call _bench by themselves): times by machine code, compiled configurations, what is set back.
        self._timed, self._compiled, self._trials = None, {}, None
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
            _zero(kwargs[name])
        if not reset_only:
            self.restore_copies = {name: copy_of(kwargs[name]) for name in self.restore_value}

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

    def _bench(self, *args, config, **meta):
        self._check_conflicts(config, meta)
        if knobs.autotuning.print:
            print(f"Autotuning kernel {self.base_fn.__name__} with config {config}")
        current = {**meta, **config.all_kwargs()}
        full = {**self.nargs, **current}

        def call():
            if config.pre_hook:
                config.pre_hook(full)
            if self._trials and config not in self._compiled:  # the hook may change what there is to compile
                self._add(config, self.fn.warmup(*args, **{k: v for k, v in current.items() if k != "warmup"}))
            self.pre_hook(full)
            try:
                kernel = self.fn.run(*args, **current)
            except BaseException as e:
                self.post_hook(full, exception=e)
                raise
            self.post_hook(full, exception=None)
            return kernel

        try:
            if self._timed is None:
                return self.do_bench(call, quantiles=(0.5, 0.2, 0.8))
            code = self._code_of(config)
            if code not in self._timed:
                self._timed[code] = self._time(call, code)
            return self._timed[code]
        except (OutOfResources, CompileTimeAssertionFailure, PTXASError) as e:
            self._failed(config, e)
            return [float("inf")] * 3

    @staticmethod
    def _check_conflicts(config, given):
        conflicts = sorted(given.keys() & config.kwargs.keys())
        if conflicts:
            raise ValueError(f"Conflicting meta-parameters: {', '.join(conflicts)}. Make sure that you don't re-define auto-tuned symbols.")

    def _failed(self, config, e):
        self.failures[config] = e
        if knobs.autotuning.print:
            print(f"Autotuning failed with {type(e).__name__}: {e} ({config})")

    def _time(self, call, code):
        """Times of a configuration; its first run, from what the caller passed, says what it computes."""
        from .. import testing
        trials, bench = self._trials, self.do_bench
        if trials is None:
            return bench(call, quantiles=(0.5, 0.2, 0.8))
        is_ours = getattr(bench, "func", None) is testing.do_bench

        first = True

        def run():
            nonlocal first
            if not first:
                if not is_ours:
                    trials.restore()
                return call()
            first = False
            trials.restore_all()
            kernel = call()
            trials.note_results(code)
            return kernel
        return bench(run, quantiles=(0.5, 0.2, 0.8), **({"before": trials.restore} if is_ours else {}))

    def _code_of(self, config):
        """What configurations have in common that need one measurement: on CPUs, which know no warps and stages, the machine code."""
        if self._do_bench is not None or config.pre_hook or self.user_defined_pre_hook or self.user_defined_post_hook or config not in self._compiled:
            return config  # somebody may count the calls
        stages = getattr(self._compiled[config], "asm", ())
        return stages["obj"] if "obj" in stages else config

    def _add(self, config, kernel):
        self._compiled[config] = kernel
        self._trials.add(kernel)

    def _compile(self, configs, args, kwargs):
        """Compiles configurations on all cores, without those whose hook may change what there is to compile."""
        def one(config):
            try:
                return self.fn.warmup(*args, **kwargs, **config.all_kwargs())
            except (OutOfResources, CompileTimeAssertionFailure, PTXASError) as e:
                self._failed(config, e)

        kwargs = {k: v for k, v in kwargs.items() if k != "warmup"}
        configs = [c for c in configs if not c.pre_hook]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for config, kernel in zip(configs, pool.map(one, configs)):
                if config not in self.failures:
                    self._add(config, kernel)

    def _reject(self, configs):
        """Configurations that compute something else than more than half of all do take part no more."""
        outvoted = self._trials.outvoted()
        for config in configs:
            if config in self.failures or (code := self._code_of(config)) not in outvoted:
                continue
            e = AutotunerError(f"{self.base_fn.__name__}: configuration ({config}) leaves other values in `{outvoted[code]}` than most configurations do, and is not used. "
                               "`validate=False` turns this check off")
            self._failed(config, e)
            warnings.warn(str(e), stacklevel=2)

    # ---- which configurations, and the best of them

    def prune_configs(self, kwargs):
        """The configurations that are worth a trial."""
        configs = self.configs
        if self.early_config_prune:
            configs = list(self.early_config_prune(configs, self.nargs, **kwargs))
            if not configs:
                raise AutotunerError("No valid autotuner configs after pruning. `early_config_prune` should return at least one config.")
        if self.perf_model:
            top_k = self.configs_top_k
            if isinstance(top_k, float) and top_k <= 1.0:
                top_k = max(1, int(len(configs) * top_k))
            elif not isinstance(top_k, int):
                raise TypeError("Error while pruning configs, top_k must be either 1) a float <= 1.0 or 2) an int")
            if len(configs) > top_k:
                estimate = {c: self.perf_model(**self.nargs, **kwargs, **c.all_kwargs()) for c in configs}
                configs = sorted(configs, key=estimate.get)[:top_k]
        return configs

    def _tuning_key(self, kwargs):
        given = {**self.nargs, **kwargs}
        known = {k: v for k, v in given.items() if k in self.arg_names}
        return tuple([known[k] for k in self.keys if k in known] + [str(v.dtype) for v in known.values() if hasattr(v, "dtype")])

    def _measure(self, configs, args, kwargs):
        self.failures, self._timed = {}, {}
        for c in configs:
            self._check_conflicts(c, kwargs)
        start = time.perf_counter()
        try:
            if not knobs.runtime.interpret and hasattr(self.fn, "warmup"):
                self._trials = Trials({**self.nargs, **kwargs}, {*self.restore_value, *self.reset_to_zero}, self.validate)
                self._compile(configs, args, kwargs)
            timings = {c: [float("inf")] * 3 if c in self.failures else self._bench(*args, config=c, **kwargs) for c in configs}
            if self._trials:
                if self._trials.blind:
                    warn_of_blind(self.base_fn.__name__, self._trials.blind)
                self._reject(configs)
                timings.update({c: [float("inf")] * 3 for c in self.failures})
        finally:
            if self._trials:
                self._trials.restore()
            self._timed, self._compiled, self._trials = None, {}, None
        self.bench_time = time.perf_counter() - start
        self.configs_timings = timings
        return builtins.min(timings, key=lambda c: _sortable(timings[c]))

    def _tune(self, key, configs, args, kwargs):
        """(best configuration, was it on disk)"""
        store = _ResultFile.of(self, key, configs)
        timings = store.read(configs) if store else None
        if timings:
            self.configs_timings, self.bench_time = timings, 0.0
            return builtins.min(timings, key=lambda c: _sortable(timings[c])), True
        best = self._measure(configs, args, kwargs)
        if store:
            store.write(key, self.configs_timings)
        return best, False

    def _choose(self, args, kwargs):
        if len(self.configs) == 1:
            return self.configs[0]
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
            knobs.autotuning.listener(fn=self, key=key, best_config=best, configs_timings=self.configs_timings, duration=self.bench_time,
                                      cache_hit=from_disk)
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
        """Compiles all configurations that are worth a trial: list of kernels."""
        with self._lock:
            self.nargs = dict(zip(self.arg_names, args))
            try:
                return [self.fn.warmup(*args, **kwargs, **c.all_kwargs()) for c in self.prune_configs(kwargs)]
            finally:
                self.nargs = None


def _sortable(timings):
    return tuple(timings) if isinstance(timings, (list, tuple)) else (timings,)


class _ResultFile:
    """Timings of one tuning on disk, in the folder of kernels."""

    def __init__(self, manager, name):
        self.manager, self.name = manager, name

    @classmethod
    def of(cls, tuner, key, configs):
        """None: these results are not kept."""
        if not (tuner.cache_results or knobs.autotuning.cache) or knobs.runtime.interpret or any(c.pre_hook for c in configs):
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
        by_text = {str(c): c for c in configs}
        return {by_text[text]: timings for text, timings in rows if text in by_text} or None

    def write(self, key, timings):
        text = json.dumps({"key": [str(k) for k in key], "configs_timings": [(str(c), t) for c, t in timings.items()]})
        self.manager.put(text, self.name, binary=False)


def autotune(configs, key, prune_configs_by=None, reset_to_zero=None, restore_value=None, pre_hook=None, post_hook=None, warmup=None, rep=None,
             use_cuda_graph=False, do_bench=None, cache_results=False, validate=True):
    """Decorator: the fastest of `configs` is found at the first launch with each new combination of the values of the arguments named in `key` and of all dtypes.
    Tensors that the kernel reads and writes are set back after every trial; a configuration that computes something else than most do is not used, unless
    `validate` is False.
    The rest as in docs/language.md §4.7."""

    def decorate(fn):
        return Autotuner(fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook=pre_hook, post_hook=post_hook,
                         prune_configs_by=prune_configs_by, warmup=warmup, rep=rep, use_cuda_graph=use_cuda_graph, do_bench=do_bench,
                         cache_results=cache_results, validate=validate)
    return decorate


class Heuristics(KernelInterface):
    """A kernel some of whose meta-parameters are computed at launch."""

    def __init__(self, fn, arg_names, values):
        self.fn, self.arg_names, self.values = fn, arg_names, values
        self.__name__ = fn.__name__
        self.__doc__ = getattr(fn, "__doc__", None)
        self.__module__ = getattr(fn, "__module__", __name__)

    def _completed(self, args, kwargs):
        bound = {**dict(zip(self.arg_names, args)), **kwargs}
        for name, f in self.values.items():
            kwargs[name] = bound[name] = f(bound)
        return kwargs

    def run(self, *args, **kwargs):
        return self.fn.run(*args, **self._completed(args, kwargs))

    def warmup(self, *args, **kwargs):
        return self.fn.warmup(*args, **self._completed(args, kwargs))


def heuristics(values):
    """Decorator: {name of a meta-parameter: function of the dict of bound arguments}. Each sees what the ones before it gave."""
    return lambda fn: Heuristics(fn, fn.arg_names, values)
