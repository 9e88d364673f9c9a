"""autotune, Config, heuristics: docs/language.md §4.7. Benchmarks here give times by rule, not by a clock."""
import copy
import json
import os
import pickle
import signal
import threading

import numpy as np
import pytest
import tegula
import tegula.language as tl
from programs import ended, start
from tegula import Config, knobs
from tegula.errors import AutotunerError
from tegula.runtime.autotuner import Autotuner, Heuristics


def arrays(n=100):
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def double(x, out, n, BLOCK: tl.constexpr, TWICE: tl.constexpr = 1):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2 * TWICE, mask=i < n)


def adding(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(out + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)


def needs_small(x, out, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 64, "too large")
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@tegula.jit
def tuned_at_module_level(x, out, n, BLOCK: tl.constexpr):
    pass


tuned_at_module_level = tegula.autotune([Config({"BLOCK": 16}), Config({"BLOCK": 32})], key=["n"])(tuned_at_module_level)


def grid(meta):
    return (tegula.cdiv(meta["n"], meta["BLOCK"]),)


class Bench:
    """Runs the call once and says it took as long as `time` of how many calls were before."""

    def __init__(self, times=None):
        self.times, self.count = times, 0

    def __call__(self, call, quantiles):
        assert quantiles == (0.5, 0.2, 0.8)
        call()
        self.count += 1
        return [float(self.times[self.count - 1]) if self.times else float(self.count)] * 3


BLOCKS = [Config({"BLOCK": b}) for b in (16, 32, 64)]


def test_the_fastest_is_used_once_a_key():
    bench = Bench([3, 1, 2, 1, 2, 3])
    k = tegula.autotune(BLOCKS, key=["n"], do_bench=bench)(tegula.jit(double))
    x, out = arrays()
    kernel = k[grid](x, out, 100)
    assert (out == 2 * x).all() and k.best_config is BLOCKS[1] and bench.count == 3 and "BLOCK:32" in kernel.metadata.signature
    assert k.configs_timings == {BLOCKS[0]: [3] * 3, BLOCKS[1]: [1] * 3, BLOCKS[2]: [2] * 3} and k.bench_time > 0
    k[grid](x, out, 100)
    assert bench.count == 3
    k[grid](x, out, n=50)
    assert bench.count == 6 and k.best_config is BLOCKS[0]
    assert set(k.cache) == {(100, "float32", "float32"), (50, "float32", "float32")}
    assert isinstance(k, Autotuner) and k.base_fn is double and k.arg_names == ["x", "out", "n", "BLOCK", "TWICE"] and k.nargs is None


def test_one_configuration_is_not_measured():
    bench = Bench()
    x, out = arrays()
    for configs, prune in ((BLOCKS[:1], None), (BLOCKS, {"early_config_prune": lambda configs, args, **kw: configs[1:2]})):
        k = tegula.autotune(configs, key=["n"], do_bench=bench, prune_configs_by=prune)(tegula.jit(double))
        k[grid](x, out, 100)
        assert bench.count == 0 and (out == 2 * x).all() and not hasattr(k, "configs_timings")
    k = tegula.autotune([], key=[])(tegula.jit(double))
    k[(1,)](x, out, 100, 128)
    assert k.configs == [Config({})]


def test_the_same_machine_code_is_measured_once():
    configs = [Config({"BLOCK": b}, num_warps=w, num_stages=s) for b in (16, 32) for w, s in ((4, 2), (8, 3))]
    k = tegula.autotune(configs, key=["n"])(tegula.jit(double))
    x, out = arrays()
    k[grid](x, out, 100)
    a, b, c, d = (k.configs_timings[config] for config in configs)
    assert a == b and c == d and a != c


def test_configurations_that_fail_are_skipped():
    k = tegula.autotune([Config({"BLOCK": b}) for b in (128, 64, 32)], key=["n"], do_bench=Bench())(tegula.jit(needs_small))
    x, out = arrays()
    k[grid](x, out, 100)
    assert k.best_config.kwargs == {"BLOCK": 64} and (out == 2 * x).all()
    assert k.configs_timings[k.configs[0]] == [float("inf")] * 3 and "too large" in str(k.failures[k.configs[0]])
    k = tegula.autotune([Config({"BLOCK": b}) for b in (128, 256)], key=["n"], do_bench=Bench())(tegula.jit(needs_small))
    with pytest.raises(tegula.CompilationError, match="too large"):
        k[grid](x, out, 100)


def test_other_errors_are_the_callers():
    k = tegula.autotune(BLOCKS, key=[], do_bench=Bench())(tegula.jit(double))
    with pytest.raises(TypeError, match="missing"):
        k[(1,)](np.zeros(4, np.float32))


def test_pruning():
    seen = {}

    def prune(configs, named_args, **kwargs):
        seen.update(named_args=dict(named_args), kwargs=kwargs)
        return configs[:2]

    def model(BLOCK, n, **kwargs):
        return -BLOCK

    x, out = arrays()
    bench = Bench()
    jitted = tegula.jit(double)
    k = tegula.autotune(BLOCKS, key=["n"], do_bench=bench, prune_configs_by={"early_config_prune": prune})(jitted)
    k[grid](x, out, 100, TWICE=3)
    assert bench.count == 2 and seen["named_args"]["n"] == 100 and seen["kwargs"]["TWICE"] == 3
    for top_k, count in ((2, 2), (0.67, 2), (1.0, 3)):
        bench = Bench()
        k = tegula.autotune(BLOCKS, key=["n"], do_bench=bench, prune_configs_by={"perf_model": model, "top_k": top_k})(jitted)
        k[grid](x, out, 100)
        assert bench.count == count and (count == 3 or BLOCKS[0] not in k.configs_timings)
    for by, error in (({"early_config_prune": lambda *a, **k: []}, AutotunerError), ({"perf_model": model, "top_k": 1.5}, TypeError), ({"perf_model": model, "top_k": 0}, AutotunerError)):
        with pytest.raises(error):
            tegula.autotune(BLOCKS, key=["n"], prune_configs_by=by)(jitted)[grid](x, out, 100)


def test_top_k_by_the_model_of_the_library():
    x, out = arrays()
    for top_k, count in ((2, 2), (0.67, 2), (1.0, 3)):
        bench = Bench()
        k = tegula.autotune(BLOCKS, key=["n"], do_bench=bench, prune_configs_by={"top_k": top_k})(tegula.jit(double))
        k[grid](x, out, 100)
        assert bench.count == count == sum(t[0] < float("inf") for t in k.configs_timings.values()) and not k.failures
    for top_k, error in ((1.5, TypeError), (0, AutotunerError)):
        with pytest.raises(error):
            tegula.autotune(BLOCKS, key=["n"], prune_configs_by={"top_k": top_k})(tegula.jit(double))[grid](x, out, 100)


def test_configurations_that_compile_too_long(monkeypatch):
    x, out = arrays()
    jitted, go_on = tegula.jit(double), threading.Event()
    k = tegula.autotune(BLOCKS, key=["n"], compile_timeout_s=2)(jitted)
    compile = jitted.warmup
    for c in BLOCKS:  # a busy machine may take its time
        compile(x, out, 100, grid=(1,), **c.all_kwargs())

    def slow(*args, **kwargs):
        if kwargs["BLOCK"] == BLOCKS[1].kwargs["BLOCK"]:
            go_on.wait(60)
        return compile(*args, **kwargs)

    monkeypatch.setattr(jitted, "warmup", slow)
    k[grid](x, out, 100)
    go_on.set()
    assert list(k.failures) == [BLOCKS[1]] and str(k.failures[BLOCKS[1]]) == "took more than 2 s to compile"
    assert k.best_config != BLOCKS[1] and (out == 2 * x).all()


def test_threads_that_are_not_waited_for():
    from tegula.runtime._threads import in_threads
    assert in_threads(lambda i: i * i, range(100)) == {i: i * i for i in range(100)}
    stuck = threading.Event()
    cores = os.cpu_count()
    # More of them than there are threads at first.
    done = in_threads(lambda i: stuck.wait(60) if i < cores + 1 else i, range(cores + 3), 1)
    stuck.set()
    assert done == {cores + 1: cores + 1, cores + 2: cores + 2}
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda i: 1 // i, range(5), 10)
    assert in_threads(int, []) == {}


@pytest.mark.parametrize("where", ["key", "reset_to_zero", "restore_value"])
def test_names_that_are_no_parameters(where):
    with pytest.raises(ValueError, match=f"{where} contains names that are not kernel arguments: m, k. Valid argument names are: x, out, n"):
        tegula.autotune(BLOCKS, **{"key": ["n"], where: ["n", "m", "k"]})(tegula.jit(double))


def test_names_that_are_no_parameters_before_3_9():
    with tegula.knobs.language.scope():
        tegula.knobs.language.level = "3.7"
        k = tegula.autotune(BLOCKS, key=["n", "m"], restore_value=["k"])(tegula.jit(double))
        x, out, n = arrays()[0], arrays()[1], 100
        k[(tegula.cdiv(n, 16),)](x, out, n)
    assert k.keys == ["n"] and k.restore_value == []


def test_conflicts():
    k = tegula.autotune(BLOCKS, key=["n"])(tegula.jit(double))
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        k[(1,)](*arrays(), 100, BLOCK=16)


@pytest.mark.parametrize("how", ["reset_to_zero", "restore_value"])
def test_trials_leave_tensors_alone(how):
    k = tegula.autotune(BLOCKS, key=["n"], do_bench=lambda call, quantiles: [call(), call(), 1.0][2], **{how: ["out"]})(tegula.jit(adding))
    x, out = arrays()
    out[:] = 5
    k[grid](x, out, 100)
    assert (out == x + (5 if how == "restore_value" else 0)).all()


def test_hooks():
    log = []
    configs = [Config({"BLOCK": b}, pre_hook=lambda args: log.append(("config", args["BLOCK"], args["n"]))) for b in (16, 32)]
    k = tegula.autotune(configs, key=["n"], do_bench=Bench(), pre_hook=lambda args, reset_only=False: log.append(("pre", reset_only)),
                        post_hook=lambda args, exception: log.append(("post", exception)))(tegula.jit(double))
    assert k.user_defined_pre_hook and k.user_defined_post_hook
    k[grid](*arrays(), 100)
    run = lambda block: [("config", block, 100), ("pre", False), ("post", None)]
    # A configuration's hook comes before its compilation, too, as it may change what there is to compile; each runs once to be compared, then in the benchmark.
    assert log == [("config", 16, 100), ("config", 32, 100), *run(16) * 2, *run(32) * 2, ("pre", True), ("config", 16, 100)]
    del log[:]
    k[grid](*arrays(), 100)
    assert log == [("config", 16, 100)]


def test_hooks_are_told_of_what_cannot_be_launched():
    log = []
    configs = [Config({"BLOCK": 16}, num_warps=128), Config({"BLOCK": 32})]
    k = tegula.autotune(configs, key=["n"], do_bench=Bench(), pre_hook=lambda args, reset_only=False: log.append(args["BLOCK"]),
                        post_hook=lambda args, exception: log.append(exception))(tegula.jit(double))
    x, out = arrays()
    k[grid](x, out, 100)
    assert (out == 2 * x).all() and log[0] == 16 and str(log[1]).startswith("out of resource: threads, Required: 4096") and set(log[2:]) == {32, None}


def test_heuristics_and_autotune_in_either_order():
    x, out = arrays()
    seen = []
    values = {"TWICE": lambda args: seen.append(dict(args)) or args["n"] // 50}
    k = tegula.autotune(BLOCKS, key=["n"], do_bench=Bench())(tegula.heuristics(values)(tegula.jit(double)))
    k[grid](x, out, 100)
    assert (out == 4 * x).all() and {"BLOCK", "n", "num_warps"} <= set(seen[0]) and isinstance(k.fn, Heuristics) and k.base_fn is double
    k = tegula.heuristics(values)(tegula.autotune(BLOCKS, key=["n"], do_bench=Bench())(tegula.jit(double)))
    out[:] = 0
    k[grid](x, out, 100)
    assert (out == 4 * x).all() and k.fn.best_config is BLOCKS[0]
    order = {"TWICE": lambda a: 2, "BLOCK": lambda a: a["TWICE"] * 16}
    k = tegula.heuristics(order)(tegula.jit(double))
    kernel = k[grid](x, out, 100, BLOCK=128)
    assert "BLOCK:32" in kernel.metadata.signature


def test_warmup():
    k = tegula.autotune(BLOCKS, key=["n"], do_bench=Bench())(tegula.jit(double))
    kernels = k.warmup(tl.float32, tl.float32, 100, grid=(1,))
    assert [f"BLOCK:{b}" in kernel.metadata.signature for kernel, b in zip(kernels, (16, 32, 64))] == [True] * 3


def test_results_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    heard = []
    x, out = arrays()
    with knobs.autotuning.scope():
        knobs.autotuning.listener = lambda **kw: heard.append(kw)
        for expected in (3, 0):
            bench = Bench([3, 1, 2])
            k = tegula.autotune(BLOCKS, key=["n"], do_bench=bench, cache_results=True)(tegula.jit(double))
            k[grid](x, out, 100)
            assert bench.count == expected and k.best_config is BLOCKS[1]
    assert [p for _, _, files in os.walk(tmp_path) for p in files] == ["double.autotune.json"]
    assert [h["cache_hit"] for h in heard] == [False, True] and heard[1]["duration"] is None and heard[0]["fn"].fn is double
    (text,) = [open(os.path.join(folder, f)).read() for folder, _, files in os.walk(tmp_path) for f in files]
    kept = json.loads(text)  # as Triton writes it, which tools read
    assert kept["key"] == [100, "float32", "float32"] and [(Config(**c), t) for c, t in kept["configs_timings"]] == [(c, [t] * 3) for c, t in zip(BLOCKS, (3, 1, 2))]
    assert heard[0]["best_config"] is BLOCKS[1] and heard[0]["key"] == (100, "float32", "float32") and heard[0]["duration"] > 0


def test_arguments_that_hooks_set_back_may_be_none():
    def optional(x, out, bias, scale, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    k = tegula.autotune(BLOCKS, key=["n"], reset_to_zero=["bias"], restore_value=["scale"])(tegula.jit(optional))
    x, out = arrays()
    k[grid](x, out, None, None, 100)
    assert (out == 2 * x).all()


CACHED = """
import numpy as np, sys, tegula
import tegula.language as tl
from tegula import Config

calls = []
def bench(call, quantiles):
    call()
    calls.append(1)
    return [{1: 3.0, 2: 1.0, 3: 2.0}[len(calls)]] * 3

@tegula.autotune([Config({"BLOCK": b}) for b in (16, 32, 64)], key=["n"], do_bench=bench, cache_results=sys.argv[1] == "cached")
@tegula.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

x = np.ones(100, np.float32)
twice[lambda m: (tegula.cdiv(100, m["BLOCK"]),)](x, 100)
assert (x == 2).all()
print(len(calls), twice.best_config.kwargs["BLOCK"])
"""


def test_cached_results_are_in_the_files_of_all_others(tmp_path):
    # No file of Triton's is found again.
    for run, (how, calls) in enumerate((("cached", 3), ("cached", 0), ("not", 3))):
        assert said(start(tmp_path, CACHED, how, TRITON_CACHE_DIR=str(tmp_path / str(run)))) == [str(calls), "32"]
    (entry,) = json.loads(kept_file(tmp_path))["kernels"][0]["entries"]
    assert "timed by __main__.bench, " in entry["arguments"] and len(entry["configs"]) == 3


def test_times_of_a_benchmark_are_kept_as_it_gives_them():
    for given in ([[float("inf")] * 3, [2.5, 2, 3], [1e-9, 1e-9, 2e-9]], [float("inf"), 2.5, 1e-9]):
        times = iter(given)
        k = tegula.autotune(BLOCKS, key=["n"], do_bench=lambda call, quantiles: (call(), next(times))[1])(tegula.jit(double))
        k[grid](*arrays(), 100)
        assert k.configs_timings == dict(zip(BLOCKS, given)) and k.best_config is BLOCKS[2] and "3 configurations" in k.explain()


def test_a_benchmark_may_be_assigned():
    k = tegula.autotune(BLOCKS, key=["n"])(tegula.jit(double))
    assert callable(k.do_bench)
    times = iter([[2.0] * 3, [1.0] * 3, [3.0] * 3])
    k.do_bench = lambda call, quantiles: (call(), next(times))[1]
    k[grid](*arrays(), 100)
    assert k.best_config is BLOCKS[1] and k.configs_timings[BLOCKS[2]] == [3.0] * 3


def test_printing(capsys):
    with knobs.autotuning.scope():
        knobs.autotuning.print = True
        tegula.autotune(BLOCKS, key=["n"], do_bench=Bench())(tegula.jit(double))[grid](*arrays(), 100)
    text = capsys.readouterr().out
    assert "Autotuning kernel double with config BLOCK: 16" in text and "Triton autotuning for function double" in text
    assert "best config selected: BLOCK: 16, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None, ir_override: None;" in text


def test_config():
    c = Config({"B": 1}, num_warps=8, maxnreg=64)
    assert c.all_kwargs() == {"B": 1, "num_warps": 8, "num_stages": 3, "num_ctas": 1, "maxnreg": 64}
    assert c == copy.deepcopy(c) and hash(c) == hash(pickle.loads(pickle.dumps(c))) and c != Config({"B": 1}, num_warps=8)
    assert str(c) == "B: 1, num_warps: 8, num_ctas: 1, num_stages: 3, maxnreg: 64, ir_override: None"
    with pytest.raises(TypeError):
        Config({}, num_cpu_threads=1)


def test_pickle():
    assert pickle.loads(pickle.dumps(tuned_at_module_level)) is tuned_at_module_level
    assert pickle.loads(pickle.dumps(tuned_at_module_level.fn)) is tuned_at_module_level.fn


def test_threads_tune_once():
    bench = Bench()
    k = tegula.autotune(BLOCKS, key=["n"], do_bench=bench)(tegula.jit(double))
    results = [arrays() for _ in range(8)]
    threads = [threading.Thread(target=lambda x=x, out=out: k[grid](x, out, 100)) for x, out in results]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert bench.count == 3 and all((out == 2 * x).all() for x, out in results)


def test_deprecated_arguments_warn():
    with pytest.warns(DeprecationWarning):
        tegula.autotune(BLOCKS, key=["n"], warmup=1, rep=1)(tegula.jit(double))


# ------------------------------------------------------------------------------------------------- the memory of trials


def moved(x, n, BLOCK: tl.constexpr):
    """In place, so that each run changes what the next one reads."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 3 + 1, mask=i < n)


def wrong_when_small(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n) * 2
    if BLOCK == 16:
        value += 1
    tl.store(out + i, value, mask=i < n)


def its_block(out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, i // BLOCK, mask=i < n)


CHOICES = [Config({"BLOCK": 16}), Config({"BLOCK": 32}), Config({"BLOCK": 64}, num_warps=8), Config({"BLOCK": 64})]


@pytest.mark.parametrize("bench", [None, Bench()], ids=["ours", "theirs"])
def test_in_place_kernels_tune_right_without_options(bench):
    k = tegula.autotune(CHOICES, key=["n"], do_bench=bench or (lambda call, quantiles: tegula.testing.do_bench(call, 1, 1, quantiles=quantiles)))(tegula.jit(moved))
    x = np.arange(100, dtype=np.float32)
    k[grid](x, 100)
    assert (x == np.arange(100) * 3 + 1).all() and not k.failures


def test_one_array_as_two_arguments_is_set_back():
    k = tegula.autotune(CHOICES, key=["n"], do_bench=Bench())(tegula.jit(double))
    x = np.arange(100, dtype=np.float32)
    k[grid](x[10:60], x[10:60], 50)
    assert (x[10:60] == np.arange(10, 60) * 2).all() and x[9] == 9 and x[60] == 60


def test_our_bench_sets_back_before_each_run():
    seen = []
    k = tegula.autotune(CHOICES[:2], key=["n"], warmup=1, rep=1, pre_hook=lambda args, reset_only=False: seen.append(float(args["x"][1])))
    with pytest.warns(DeprecationWarning):
        k = k(tegula.jit(moved))
    x = np.arange(100, dtype=np.float32)
    k[grid](x, 100)
    assert len(seen) > 4 and set(seen) == {1.0} and x[1] == 4


def test_a_configuration_that_is_wrong_is_refused():
    k = tegula.autotune(CHOICES, key=["n"], do_bench=Bench([1, 2, 3, 4]))(tegula.jit(wrong_when_small))
    x, out = arrays()
    with pytest.warns(UserWarning, match=r"wrong_when_small: configuration \(BLOCK: 16, .*\) leaves other values in `out` than most configurations do"):
        k[grid](x, out, 100)
    assert k.best_config is CHOICES[1] and (out == x * 2).all()
    assert list(k.failures) == [CHOICES[0]] and isinstance(k.failures[CHOICES[0]], AutotunerError)


def test_what_a_wrong_one_does_not_write_is_seen():
    def short(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=(i < n) & ((BLOCK != 64) | (i % 2 == 0)))

    k = tegula.autotune([CHOICES[0], CHOICES[1], CHOICES[3]], key=["n"], do_bench=Bench([3, 2, 1]))(tegula.jit(short))
    x, out = arrays()
    with pytest.warns(UserWarning, match="BLOCK: 64"):
        k[grid](x, out, 100)
    assert (out == x).all()


def test_validation_can_be_off():
    k = tegula.autotune(CHOICES, key=["n"], do_bench=Bench([1, 2, 3, 4]), validate=False)(tegula.jit(wrong_when_small))
    x, out = arrays()
    k[grid](x, out, 100)
    assert k.best_config is CHOICES[0] and not k.failures


def test_without_a_majority_nothing_is_refused():
    k = tegula.autotune(CHOICES[:3], key=["n"], do_bench=Bench())(tegula.jit(its_block))
    out = np.zeros(100, np.int32)
    k[grid](out, 100)
    assert not k.failures and (out == np.arange(100) // 16).all()
    (remark,) = k.remarks
    assert remark.startswith("its_block: no more than half of the configurations leave the same values") and remark in k.explain()


def test_what_cannot_be_set_back_is_said(monkeypatch):
    monkeypatch.setenv("TEGULA_TUNE_BYTES", "100")
    k = tegula.autotune(CHOICES[:2], key=["n"], do_bench=Bench())(tegula.jit(moved))
    with pytest.warns(UserWarning, match=r"moved: `x` is read and written by the kernel and cannot be set back between trials .*TEGULA_TUNE_BYTES = 100 bytes.*`restore_value` or `reset_to_zero`"):
        k[grid](np.zeros(100, np.float32), 100)
    k = tegula.autotune(CHOICES[:2], key=["n"], do_bench=Bench(), restore_value=["x"])(tegula.jit(moved))
    x = np.zeros(100, np.float32)
    k[grid](x, 100)
    assert (x == 1).all()


def test_items_of_tuples_are_set_back():
    def both(pair, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(pair[1] + i, tl.load(pair[1] + i, mask=i < n) + tl.load(pair[0] + i, mask=i < n), mask=i < n)

    k = tegula.autotune(CHOICES, key=["n"], do_bench=Bench())(tegula.jit(both))
    x, out = arrays()
    k[grid]((x, out), 100)
    assert (out == x).all() and not k.failures


def test_forms_with_the_same_machine_code_are_refused_together():
    """One of them is measured, none is used."""
    configs = [Config({"BLOCK": 16}), Config({"BLOCK": 16}, num_warps=8), Config({"BLOCK": 32}), Config({"BLOCK": 64}), Config({"BLOCK": 128})]
    k = tegula.autotune(configs, key=["n"], warmup=1, rep=1)
    with pytest.warns(DeprecationWarning):
        k = k(tegula.jit(wrong_when_small))
    x, out = arrays()
    with pytest.warns(UserWarning, match="BLOCK: 16"):
        k[grid](x, out, 100)
    assert list(k.failures) == configs[:2] and (out == x * 2).all()


def test_much_that_is_only_written_is_not_copied(monkeypatch):
    monkeypatch.setenv("TEGULA_TUNE_BYTES", "2000")
    k = tegula.autotune(CHOICES, key=["n"], do_bench=Bench([1, 2, 3, 4]))(tegula.jit(wrong_when_small))
    x, out = arrays()
    k[grid](x, out, 100)  # 400 bytes, more than an eighth: nothing is compared, nothing is warned of
    assert k.best_config is CHOICES[0] and not k.failures


# ------------------------------------------------------------------------------------------------- results in files, choices without a clock

KEPT = """
import numpy as np, sys, tegula
import tegula.language as tl
from tegula import Config

@tegula.autotune([Config({"BLOCK": b}) for b in map(int, sys.argv[1].split(","))], key=["n"], budget_ms=float(sys.argv[2]))
@tegula.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

import os, time
asked = []
def grid(m):
    asked.append(m["BLOCK"])
    if str(m["BLOCK"]) == os.environ.get("TEST_KILL") and asked.count(m["BLOCK"]) > 1:  # to compile, to launch
        os._exit(9)
    if str(m["BLOCK"]) == os.environ.get("TEST_SLEEP"):
        print("asleep", flush=True)
        time.sleep(100)
    return (tegula.cdiv(1000, m["BLOCK"]),)

heard = []
tegula.knobs.autotuning.listener = lambda **kw: heard.append(kw["cache_hit"])
x = np.ones(1000, np.float32)
if "TEST_READY" in os.environ:
    print("ready", flush=True)
twice[grid](x, 1000)
assert (x == 2).all()
print(heard[0], twice.best_config.kwargs["BLOCK"])
"""


def in_process(tmp_path, blocks, budget_ms=0, **env):
    return start(tmp_path, KEPT, blocks, budget_ms, **env)


def said(p):
    return ended(p)[0].split()


def kept_file(tmp_path):
    (path,) = (tmp_path / "results" / "tune").glob("twice-*.json")
    return path.read_text()


def test_results_are_kept_between_processes(tmp_path):
    hit, block = said(in_process(tmp_path, "16,32"))
    assert hit == "False"
    text = kept_file(tmp_path)
    assert said(in_process(tmp_path, "16,32")) == ["True", block] and kept_file(tmp_path) == text
    # A further configuration is timed alone: what is known keeps its times.
    assert said(in_process(tmp_path, "16,32,64"))[0] == "False"
    times = lambda t: {c["config"].split(",")[0]: c["median_ns"] for c in json.loads(t)["kernels"][0]["entries"][0]["configs"]}
    before, after = times(text), times(kept_file(tmp_path))
    assert len(after) == 3 and {k: after[k] for k in before} == before


def test_a_tuning_that_was_killed_goes_on(tmp_path):
    p = in_process(tmp_path, "16,32,64", TEST_KILL="32")
    p.communicate(timeout=120)
    assert p.returncode == 9
    entry = lambda: json.loads(kept_file(tmp_path))["kernels"][0]["entries"][0]
    first = entry()
    assert first["version"].startswith("0.1.0+") and "choice" not in first
    (known,) = first["configs"]
    assert known["config"].startswith("BLOCK: 16,") and known["median_ns"] > 0
    assert said(in_process(tmp_path, "16,32,64"))[0] == "False"
    states = {c["config"].split(",")[0]: c for c in entry()["configs"]}
    # What it had is kept, unless the last turns among the fastest ones timed it longer.
    again = states["BLOCK: 16"]
    assert again == known or again["runs"] > known["runs"]
    assert states["BLOCK: 32"]["kind"] == "died" and states["BLOCK: 64"]["median_ns"] > 0 and "choice" in entry()
    assert said(in_process(tmp_path, "16,32,64"))[0] == "True"


DRY = """
import numpy as np, sys, tegula
import tegula.language as tl
from tegula import Config

@tegula.autotune([Config({"BLOCK": b}) for b in (16, 32, 128)], key=["n"])
@tegula.heuristics({"TIMES": lambda args: 2})
@tegula.jit
def twice(x, n, BLOCK: tl.constexpr, TIMES: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * TIMES)

x = np.ones(32, np.float32)
twice[lambda m: (tegula.cdiv(32, m["BLOCK"]),)](x, 32)
assert (x == 2).all()
(failed,) = twice.failures.items()
print(failed[0].kwargs["BLOCK"], failed[1])
"""


def test_a_dry_run_finds_what_writes_beside_its_buffers(tmp_path):
    for attempt in range(2):  # the second one knows it from the file
        out, err = ended(start(tmp_path, DRY, TEGULA_TUNE_DRY="sim"))
        assert out.startswith("128 Autotuner error: twice: configuration (BLOCK: 128, ") and "one program on the simulator: " in out and "`x`" in out
        assert "is not used" in err


FAULTS = """
import numpy as np, tegula
import tegula.language as tl
from tegula import Config

@tegula.autotune([Config({"BLOCK": b}, num_ctas=None) for b in (16, 128, 32)], key=["n"])
@tegula.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)

x = np.ones(32, np.float32)
try:
    twice[lambda m: (tegula.cdiv(32, m["BLOCK"]),)](x, 32)
except tegula.DeviceError as e:
    assert (x == 1).all() and e.fault["kernel"] == "twice" and e.__cause__ is not None
    print(e)
else:
    assert (x == 2).all()
    print(twice.failures[twice.configs[1]])
"""


def test_a_configuration_that_faults_is_named_and_remembered(tmp_path):
    first, _ = ended(start(tmp_path, FAULTS, TEGULA_CHECK="1"))
    assert first.startswith("tuning `twice`: configuration (BLOCK: 128, num_warps: 4, num_stages: 3): ") and "out-of-bounds load through argument `x`" in first
    assert first.endswith(", given x:*float32, n=32\n")
    again, err = ended(start(tmp_path, FAULTS, TEGULA_CHECK="1"))
    assert "out-of-bounds load" in again and "failed in an earlier run and is not used" in err


@pytest.mark.parametrize("how", ["block", "environment"])
def test_the_interpreter_leaves_memory_and_results_alone(tmp_path, how):
    """Its times say nothing of a device; what trials change is set back, in place too."""
    script = ("import numpy as np, tegula\nimport tegula.language as tl\n"
              "@tegula.autotune([tegula.Config({'BLOCK': b}) for b in (16, 32)], key=['n'])\n@tegula.jit\ndef twice(x, n, BLOCK: tl.constexpr):\n"
              "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)\n"
              f"tegula.interpret({how == 'block'})\nx = np.ones(40, np.float32)\ntwice[lambda m: (tegula.cdiv(40, m['BLOCK']),)](x, 40)\nprint((x == 2).all())\n")
    assert said(start(tmp_path, script, **({"TRITON_INTERPRET": "1"} if how == "environment" else {}))) == ["True"]
    assert not list((tmp_path / "results").rglob("*.json"))


def test_waiting_for_another_process_can_be_interrupted(tmp_path):
    holder = in_process(tmp_path, "16,32", TEST_SLEEP="16")
    try:
        assert holder.stdout.readline() == "asleep\n"
        waiter = in_process(tmp_path, "16,32", TEST_READY="1")
        assert waiter.stdout.readline() == "ready\n"
        waiter.send_signal(signal.SIGINT)  # before it waits, or while it does
        _, err = waiter.communicate(timeout=60)
        assert waiter.returncode != 0 and "KeyboardInterrupt" in err
    finally:
        holder.kill()
        holder.communicate()


def test_processes_that_tune_at_once_measure_once(tmp_path):
    results = [said(p) for p in [in_process(tmp_path, "16,32,64") for _ in range(8)]]
    assert [hit for hit, _ in results].count("False") == 1 and len({block for _, block in results}) == 1


def test_a_budget_is_spent_once(tmp_path):
    """What it leaves untried is not measured by processes that come later, until they ask for something else."""
    results = [said(p) for p in [in_process(tmp_path, "16,32,64", budget_ms=0.001) for _ in range(3)]]
    assert [hit for hit, _ in results].count("False") == 1 and len({block for _, block in results}) == 1
    tried = lambda: len(json.loads(kept_file(tmp_path))["kernels"][0]["entries"][0]["configs"])
    assert tried() == 1
    assert said(in_process(tmp_path, "16,32,64", budget_ms=0.001))[0] == "True" and tried() == 1
    assert said(in_process(tmp_path, "16,32,64"))[0] == "False" and tried() == 3


def test_deterministic(tmp_path):
    """The same choice and the same bytes, whoever makes them."""
    files = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files.append((said(in_process(tmp_path / folder, "16,64,256", TEGULA_TUNE="deterministic")), kept_file(tmp_path / folder)))
    assert files[0] == files[1] and files[0][0][0] == "False"
    again = said(in_process(tmp_path / "a", "16,64,256", TEGULA_TUNE="deterministic"))
    assert again == ["True", files[0][0][1]]


def test_one_configuration_conflicts_too():
    k = tegula.autotune(BLOCKS[:1], key=["n"])(tegula.jit(double))
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        k[(1,)](*arrays(), 100, BLOCK=16)


@pytest.mark.parametrize("decorator", [tegula.autotune(configs=[tegula.Config({})], key=[]), tegula.heuristics({})])
def test_decorators_stand_above_jit(decorator):
    with pytest.raises(TypeError, match="stands above @jit: `plain` is no kernel yet"):
        @decorator
        def plain(x):
            pass
