"""Launches through autotune and heuristics that need no measurement (python/src/Layers.cpp): each does what `run` does."""
import copy
import pickle
import sys

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula import Config
from tegula.runtime.autotuner import Autotuner, Heuristics


@tegula.jit
def scale(x, out, n, BLOCK: tl.constexpr, TIMES: tl.constexpr = 2):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * TIMES, mask=i < n)


def arrays(n=100, dtype=np.float32):
    return np.arange(n, dtype=dtype), np.zeros(n, dtype)


def grid(meta):
    return (tegula.cdiv(meta["n"], meta["BLOCK"]),)


def first(call, quantiles):
    call()
    return [1.0] * 3


def tuned(fn=scale, blocks=(16, 32, 64), key=("n",), **options):
    return tegula.autotune([Config({"BLOCK": b}) for b in blocks], key=list(key), do_bench=first, **options)(fn)


class Count:
    """How often a tuner's `run` had to choose."""

    def __init__(self, tuner, monkeypatch):
        choose, self.calls = tuner._choose, 0

        def counted(*args):
            self.calls += 1
            return choose(*args)
        monkeypatch.setattr(tuner, "_choose", counted)


def block(kernel):
    return int(kernel.metadata.signature.split("BLOCK:")[1].split(",")[0])


def test_known_launches_choose_nothing(monkeypatch):
    k = tuned()
    x, out = arrays()
    count = Count(k, monkeypatch)
    for launch in (lambda: k[grid](x, out, 100), lambda: k[grid](x, out, n=100), lambda: k[(7,)](n=100, out=out, x=x), lambda: k[[7]](x, out, 100.0)):
        k[grid](x, out, n=100)
        out[:] = 0
        launch()
        assert (out == 2 * x).all()
    assert count.calls == 1 and set(k.cache) == {(100, "float32", "float32")}
    k[grid](x, out, 50)
    assert count.calls == 2
    k[grid](*arrays(dtype=np.float64), 100)
    k[grid](x.astype(np.float64), out, 100)
    k[grid](x, out.astype(np.float64), 100)
    assert count.calls == 5
    k[grid](x, out, np.int64(100))
    k[grid](x, out, np.int64(100))
    assert count.calls == 6 and (100, "float32", "float32", "int64") in k.cache
    assert k.nargs is None and k.best_config is k.configs[0]


def test_keys_are_equal_as_pythons_are(monkeypatch):
    k = tuned(key=["TIMES"])
    x, out = arrays()
    count = Count(k, monkeypatch)
    for times in (1, True, 1.0, 3, "3", None):
        try:
            k[grid](x, out, 100, TIMES=times)
        except tegula.CompilationError:
            assert times in ("3", None)
    assert count.calls == 4  # 1, 3, "3", None
    with pytest.raises(TypeError, match="unhashable"):
        k[grid](x, out, 100, TIMES=[1])


def test_the_cache_is_the_callers(monkeypatch):
    k = tuned()
    x, out = arrays()
    count = Count(k, monkeypatch)
    assert block(k[grid](x, out, 100)) == 16
    key, = k.cache
    k.cache[key] = k.configs[2]
    assert block(k[grid](x, out, 100)) == 64 and k.best_config is k.configs[2] and count.calls == 1
    k.cache = {key: k.configs[1]}
    assert block(k[grid](x, out, 100)) == 32 and count.calls == 1
    k.cache.clear()
    assert block(k[grid](x, out, 100)) == 16 and count.calls == 2

    class Counting(dict):
        asked = 0

        def __contains__(self, key):
            Counting.asked += 1
            return super().__contains__(key)
    k.cache = Counting(k.cache)
    k[grid](x, out, 100)
    assert Counting.asked == 1, "a class of its own answers itself"


def test_configurations_may_change(monkeypatch):
    k = tuned()
    x, out = arrays()
    count = Count(k, monkeypatch)
    k[grid](x, out, 100)
    k.configs[0].kwargs["BLOCK"] = 128
    k.configs[0].num_warps = 8
    kernel = k[grid](x, out, 100)
    assert block(kernel) == 128 and kernel.info()["num_warps"] == 8
    k.configs[0].kwargs = {"BLOCK": 256, "num_warps": 1, "TIMES": 5}  # the option has the last word
    kernel = k[grid](x, out, 100)
    assert block(kernel) == 256 and kernel.info()["num_warps"] == 8 and (out == 5 * x).all()
    k.configs = k.configs[1:2]
    assert block(k[grid](x, out, 100)) == 32 and count.calls == 1
    assert block(k[grid](x, out, 7)) == 32 and count.calls == 1, "one configuration needs no choice"


def test_classes_of_configurations_say_what_they_give():
    class Doubled(Config):
        def all_kwargs(self):
            return {**super().all_kwargs(), "BLOCK": self.kwargs["BLOCK"] * 2}

    k = tegula.autotune([Doubled({"BLOCK": 16})], key=[])(scale)
    assert [block(k[grid](*arrays(), 100)) for _ in range(2)] == [32, 32]


def test_keys_and_functions_may_change(monkeypatch):
    k = tuned()
    x, out = arrays()
    count = Count(k, monkeypatch)
    k[grid](x, out, 100)
    k.keys.append("TIMES")
    k[grid](x, out, 100, TIMES=3)
    k[grid](x, out, 100, TIMES=3)
    assert count.calls == 2 and (100, 3, "float32", "float32") in k.cache
    k[grid](x, out, 100)
    assert count.calls == 2, "a key that is not given is left out"
    k.fn = tegula.heuristics({"TIMES": lambda args: 7})(scale)
    k[grid](x, out, 100)
    assert count.calls == 2 and (out == 7 * x).all()


@pytest.mark.parametrize("where", ["object", "class", "function", "heuristics"])
def test_whoever_replaces_run_is_called(where, monkeypatch):
    h = tegula.heuristics({"TIMES": lambda args: 3})(scale)
    k = tuned(h)
    x, out = arrays()
    k[grid](x, out, 100)
    seen = []
    owner = {"object": k, "class": Autotuner, "function": scale, "heuristics": h}[where]
    run = owner.run

    def spy(*args, **kwargs):
        seen.append(kwargs)
        return run(*args, **kwargs)
    monkeypatch.setattr(owner, "run", spy)
    out[:] = 0
    k[grid](x, out, 100)
    assert len(seen) == 1 and seen[0]["grid"] is grid and seen[0]["warmup"] is False and (out == 3 * x).all()


def test_subclasses_decide():
    class Mine(Autotuner):
        runs = 0

        def run(self, *args, **kwargs):
            Mine.runs += 1
            return super().run(*args, **kwargs)

    k = Mine(scale, scale.arg_names, [Config({"BLOCK": 16})], [], None, None)
    x, out = arrays()
    for _ in range(3):
        k[grid](x, out, 100)
    assert Mine.runs == 3 and (out == 2 * x).all()


class Log:
    """What a function of a dict was given."""

    def __init__(self, result=None):
        self.seen, self.result = [], result

    def __call__(self, args):
        self.seen.append(list(args.items()))
        return self.result(args) if self.result else None


def test_hooks_of_configurations_see_what_run_gives_them():
    for configs in ([16], [16, 32]):
        hook = Log()
        k = tegula.autotune([Config({"BLOCK": b}, num_warps=2, pre_hook=hook) for b in configs], key=["n"], do_bench=first)(scale)
        x, out = arrays()
        k[grid](x, out, 100)
        del hook.seen[:]
        for launch in (k[grid], lambda *args, **kw: k.run(*args, grid=grid, warmup=False, **kw)):
            out[:] = 0
            launch(x, out, n=100, TIMES=4)
            assert (out == 4 * x).all()
        by_hand, by_run = hook.seen
        assert len(by_hand) == len(by_run) and all(a[0] == b[0] and a[1] is b[1] for a, b in zip(by_hand, by_run))
        assert [name for name, _ in by_hand] == ["x", "out", "grid", "warmup", "n", "TIMES", "BLOCK", "num_warps", "num_ctas", "num_stages"]


def test_a_hook_may_change_its_configuration():
    def hook(args):
        c.kwargs["BLOCK"] *= 2
    c = Config({"BLOCK": 16}, pre_hook=hook)
    k = tegula.autotune([c], key=[])(scale)
    assert [block(k[grid](*arrays(), 100)) for _ in range(3)] == [32, 64, 128]


@pytest.mark.parametrize("order", ["tuner outside", "tuner inside", "twice", "alone"])
def test_heuristics_see_what_run_gives_them(order):
    times = Log(lambda args: args["n"] // 50)
    twice = Log(lambda args: args["TIMES"] * 2)
    h = tegula.heuristics({"TIMES": times})
    k = {"tuner outside": lambda: tuned(h(scale)), "tuner inside": lambda: h(tuned()), "twice": lambda: h(tegula.heuristics({"TIMES": twice})(tuned())),
         "alone": lambda: h(scale)}[order]()
    given = {"BLOCK": 32} if order == "alone" else {}
    x, out = arrays()
    k[grid](x, out, 100, **given)
    for f in (times, twice):
        del f.seen[:]
    for launch in (k[grid], lambda *args, **kw: k.run(*args, grid=grid, warmup=False, **kw)):
        out[:] = 0
        launch(x, out=out, n=100, TIMES=9, **given)
        assert (out == (4 if order == "twice" else 2) * x).all()
    for f in (times, twice)[:2 if order == "twice" else 1]:
        one, other = f.seen  # each called once a launch
        assert len(one) == len(other) and all(a[0] == b[0] and a[1] is b[1] for a, b in zip(one, other))


def test_values_of_heuristics_are_keys_of_a_tuner_inside(monkeypatch):
    inner = tuned(key=["TIMES"])
    k = tegula.heuristics({"TIMES": lambda args: args["n"] // 50})(inner)
    count = Count(inner, monkeypatch)
    for n in (100, 149, 150, 199, 100):
        k[grid](*arrays(n), n)
    assert count.calls == 2 and set(inner.cache) == {(2, "float32", "float32"), (3, "float32", "float32")}


def test_later_heuristics_see_earlier_ones():
    k = tegula.heuristics({"TIMES": lambda a: 2, "BLOCK": lambda a: a["TIMES"] * 16})(scale)
    assert block(k[grid](*arrays(), 100, BLOCK=128)) == 32


def test_wrapped_options_go_to_the_launch(monkeypatch):
    k = tuned()
    count = Count(k, monkeypatch)
    x, out = arrays()
    kernels = [k[grid](x, out, 100, device=d) for d in ("cpu", "cpu", "sim", "sim")]
    assert kernels[0].info()["target"] != kernels[2].info()["target"] and count.calls == 1 and (out == 2 * x).all()
    with pytest.raises(ValueError, match="Conflicting meta-parameters: num_warps"):
        k[grid](x, out, 100, num_warps=4)
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        k[grid](x, out, 100, BLOCK=64)
    with pytest.raises(TypeError, match="multiple values for keyword argument 'grid'"):
        k[grid](x, out, 100, grid=1)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        k[grid](x, out, 100, x=x)
    with pytest.raises(KeyError, match="nothing was specified but unrecognised"):
        k[grid](x, out, 100, nothing=1)


def test_errors_of_what_is_called_are_the_callers():
    def fails(args):
        raise LookupError("from a heuristic")

    x, out = arrays()
    counts = sys.getrefcount(x), sys.getrefcount(out)
    for _ in range(3):
        with pytest.raises(LookupError, match="from a heuristic"):
            tegula.heuristics({"TIMES": fails})(scale)[grid](x, out, 100, BLOCK=16)
        with pytest.raises(LookupError, match="from a heuristic"):
            tegula.autotune([Config({"BLOCK": 16}, pre_hook=fails)], key=[])(scale)[grid](x, out, 100)
    assert (sys.getrefcount(x), sys.getrefcount(out)) == counts


def test_nothing_is_kept_of_a_launch():
    k = tegula.heuristics({"TIMES": lambda args: 2})(tuned())
    x, out = arrays()
    k[grid](x, out, 100)
    counts = [sys.getrefcount(o) for o in (x, out, grid, k, k.fn, scale, k.fn.configs[0], k.fn.cache)]
    for _ in range(50):
        k[grid](x, out=out, n=100)
    assert [sys.getrefcount(o) for o in (x, out, grid, k, k.fn, scale, k.fn.configs[0], k.fn.cache)] == counts


def test_dtypes_of_others_may_change_their_text(monkeypatch):
    class Dtype:
        text = "float32"

        def __str__(self):
            return self.text

    class Tensor:
        dtype = Dtype()

        def __init__(self, array):
            self.array = array

        def data_ptr(self):
            return self.array.ctypes.data

    k = tuned()
    x, out = arrays()
    count = Count(k, monkeypatch)
    tensor = Tensor(x)
    for _ in range(2):
        k[grid](tensor, out, 100)
    assert count.calls == 1
    monkeypatch.setattr(Dtype, "text", "int32")
    k[grid](tensor, out, 100)
    assert count.calls == 2 and (100, "int32", "float32") in k.cache


def test_many_arguments(monkeypatch):
    names = ", ".join(f"a{i}" for i in range(150))
    text = f"@tegula.jit\ndef many(out, {names}, BLOCK: tl.constexpr):\n    tl.store(out, a0 + a149 + BLOCK)\n"
    import linecache
    linecache.cache["<many>"] = (len(text), None, text.splitlines(True), "<many>")
    scope = {"tegula": tegula, "tl": tl}
    exec(compile(text, "<many>", "exec"), scope)
    k = tuned(scope["many"], key=["a149"])
    count = Count(k, monkeypatch)
    out = np.zeros(1, np.int32)
    numbers = list(range(2, 152))
    for given, named in ((150, 0), (150, 0), (75, 75), (0, 150)):
        out[:] = 0
        k[(1,)](out, *numbers[:given], **{f"a{i}": numbers[i] for i in range(given, 150)})
        assert out[0] == 2 + 151 + 16
    assert count.calls == 1


def test_hooks_of_functions_and_the_interpreter():
    @tegula.jit
    def hooked(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)

    seen = []
    hooked.add_pre_run_hook(lambda *args, **kwargs: seen.append((len(args), sorted(kwargs))))
    k = tuned(hooked, blocks=[128])
    x, out = arrays()
    k[(1,)](x, out, n=100)
    assert seen == [(2, ["BLOCK", "n", "num_ctas", "num_stages", "num_warps"])] and (out == x).all()
    out[:] = 0
    with tegula.interpret():
        assert k[(1,)](x, out, 100) is None
    assert (out == x).all() and len(seen) == 2


@tegula.autotune([Config({"BLOCK": 16})], key=[])
@tegula.heuristics({"TIMES": lambda args: 2})
@tegula.jit
def found_by_name(x, out, n, BLOCK: tl.constexpr, TIMES: tl.constexpr):
    pass


def test_layers_are_ordinary_objects():
    for k in (found_by_name, found_by_name.fn):
        assert pickle.loads(pickle.dumps(k)) is k and copy.copy(k) is k and copy.deepcopy(k) is k
        assert isinstance(k, tegula.runtime.KernelInterface) and {"fn", "arg_names"} <= set(vars(k))
        k.note = 1
        assert k.note == 1
    assert isinstance(found_by_name.fn, Heuristics) and "run" in dir(found_by_name)


class Counted(tegula.KernelInterface):
    """A layer as libraries write them: without the name of a function."""

    def __init__(self, fn):
        self.fn, self.arg_names, self.launches = fn, fn.arg_names, 0

    def run(self, *args, **kwargs):
        self.launches += 1
        return self.fn.run(*args, **kwargs)


@tegula.jit
def multiples(out, n, FACTOR: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, i * FACTOR, i < n)


@pytest.mark.parametrize("outer", [tegula.heuristics({"B": lambda args: 8}), tegula.autotune([tegula.Config({"B": 8})], key=["n"])])
def test_layers_of_others(outer):
    counted = Counted(multiples)
    kernel, out = outer(counted), np.zeros(16, np.int32)
    kernel[lambda meta: (16 // meta["B"],)](out, 16, FACTOR=3)
    assert (out == np.arange(16) * 3).all() and counted.launches == 1 and kernel.__name__ == "Counted"
