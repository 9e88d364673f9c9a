"""One tuning: the library (tegula_tune in tegula.h) says what is compiled and timed next, and these callables do it."""
import functools
import json
import os
import sys
import warnings

from .. import _core, knobs
from ..errors import AutotunerError, CompileTimeAssertionFailure, DeviceError, OutOfResources, PTXASError
from .._function import JITFunction
from ._heuristics import Heuristics
from ._threads import in_threads
from ._tuned_memory import buffers_of


# Errors with which a configuration takes no part, and what the tuner of the library calls them.
_COMPILE_ERROR, _OUT_OF_RESOURCES, _FAULT, _ASSEMBLER_ERROR = 2, 5, 6, 10
SKIPPED = (OutOfResources, CompileTimeAssertionFailure, PTXASError)


def _status(e):
    code = _OUT_OF_RESOURCES if isinstance(e, OutOfResources) else _ASSEMBLER_ERROR if isinstance(e, PTXASError) else _COMPILE_ERROR
    return code, str(e)


class Tuning:
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
            print(f"Autotuning kernel {name}: {text_of_guess(tuner.guess)}")
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

    def _warmup(self, i):
        """The kernel of a configuration, in the form that its launches will want (a function for a grid is asked)."""
        given, grid = self.configs[i].all_kwargs(), self.kwargs.get("grid")
        if callable(grid):
            try:
                grid = grid({**self.arguments, **given})
            except Exception:  # its launch says why
                grid = None
        return self.tuner.fn.warmup(*self.args, **{**self.kwargs, "grid": grid}, **given)

    # ---- called by the library

    def prepare(self, wanted):
        """Compiles on all cores, without those whose hook may change what there is to compile. What takes too long takes no part, if there is anything else."""
        def one(i):
            try:
                return self._warmup(i)
            except SKIPPED as e:
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
                kernel = self._warmup(i)
            except SKIPPED as e:
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
        except (*SKIPPED, DeviceError) as e:
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
        from .._timing import do_bench
        call, bench = self._call(i), self.tuner.do_bench
        try:
            if getattr(bench, "func", None) is do_bench:
                times = bench(call, quantiles=(0.5, 0.2, 0.8), before=restore)
            else:
                def run():
                    restore()
                    return call()
                times = bench(run, quantiles=(0.5, 0.2, 0.8))
        except (*SKIPPED, DeviceError) as e:
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


def text_of_guess(guess):
    return (f"the choice of version {guess['version']} on {guess['device']}, {guess['config']}, "
            f"{'is tried first' if guess['used'] == 'first' else 'is taken; nothing is timed'}")
