"""Hooks of launches, compilations and loading are called with what docs/language.md §4.11 says, and cost nothing once they are gone."""
import collections
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula import _core, _hooks, knobs


def fill(out, value, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), value)


@pytest.fixture(autouse=True)
def scopes():
    with knobs.runtime.scope(), knobs.compilation.scope(), knobs.language.scope():
        yield


def launch(k, n=4, value=7, **options):
    out = np.zeros(16, np.float32)
    kernel = k[(1,)](out, value, n, **options)
    return kernel, (out[:n] == value).all() and not out[n:].any()


def test_launch_hooks():
    log = []

    def metadata(grid, metadata, args):
        return {"grid": grid, "n": args["N"], "warps": metadata.num_warps}
    k = tegula.jit(launch_metadata=metadata)(fill)
    kernel, done = launch(k)
    knobs.runtime.launch_enter_hook.add(lambda m: log.append(m.get()))
    knobs.runtime.launch_exit_hook.add(lambda m: log.append("first exit"))
    knobs.runtime.launch_exit_hook.add(lambda m: log.append(("exit", m.get()["n"])))
    assert launch(k) == (kernel, True)
    assert log == [{"name": "fill", "function": kernel.function, "stream": 0, "grid": (1,), "n": 4, "warps": 4}, ("exit", 4), "first exit"]
    del log[:]
    out = np.zeros(16, np.float32)
    kernel[(1, 1, 1)](out, 3, 4)
    assert (out[:4] == 3).all() and log[0]["grid"] == (1, 1, 1) and len(log) == 3
    del log[:]
    k[(0,)](out, 5, 4)
    k.warmup(out, 5, 4, grid=(1,))
    assert (out[:4] == 3).all() and log == []
    k[lambda meta: (meta["N"] // 4,)](out, 5, 4)
    assert log[0]["grid"] == (1,) and (out[:4] == 5).all()
    del log[:]
    knobs.runtime.launch_enter_hook.calls.clear()
    knobs.runtime.launch_exit_hook = None
    assert launch(k) == (kernel, True) and log == []


def test_metadata_is_only_computed_when_it_is_asked_for():
    k = tegula.jit(launch_metadata=lambda *a: 1 / 0)(fill)
    assert launch(k)[1]
    knobs.runtime.launch_enter_hook.add(lambda m: None)
    assert launch(k)[1]
    knobs.runtime.launch_enter_hook.add(lambda m: m.get())
    with pytest.raises(ZeroDivisionError):
        launch(k)


def test_cache_and_compile_hooks():
    log = []
    k = tegula.jit(fill)
    knobs.runtime.jit_cache_hook = lambda **kw: log.append(("cache", kw))
    knobs.runtime.jit_post_compile_hook = lambda **kw: log.append(("compiled", kw))
    kernel, done = launch(k, num_warps=8)
    assert done and [what for what, _ in log] == ["cache", "compiled"]
    for _, kw in log:
        assert set(kw) == {"key", "repr", "fn", "compile", "is_manual_warmup", "already_compiled"}
        assert kw["fn"].jit_function is k and kw["fn"].module == __name__ and kw["fn"].name == "fill"
        assert not kw["is_manual_warmup"] and not kw["already_compiled"]
        assert kw["repr"] == (f"{__name__}.fill[num_warps=8, num_ctas=1, num_stages=3, enable_fp_fusion=True, launch_cooperative_grid=False]"
                              "(out: *fp32, value: i32, N: constexpr)")
        c = kw["compile"]
        assert c["signature"] == {"out": "*fp32", "value": "i32", "N": "constexpr"} and c["constants"] == {(2,): 4} and c["num_warps"] == 8
        assert c["configs"] == [{(0,): [["tt.divisibility", 16]]}] and c["device"] == 0 and c["key"] == kw["key"] and not c["is_warmup"]
    assert k.device_caches[0][0] == {log[0][1]["key"]: kernel} and k.device_caches["cpu"] is k.device_caches[0]  # as torch.cpu.current_device() says
    launch(k, num_warps=8)
    assert len(log) == 2
    k.warmup(tl.float32, 7, 8, grid=(1,))
    assert [kw["is_manual_warmup"] for _, kw in log] == [False, False, True, True]


def test_a_cache_hook_can_refuse():
    k = tegula.jit(fill)
    knobs.runtime.jit_cache_hook = lambda **kw: True
    kernel, done = launch(k)
    assert kernel is None and not done and not k.device_caches[0][0] and k.warmup(tl.float32, 7, 4, grid=(1,)) is None
    knobs.runtime.jit_cache_hook = None
    assert launch(k)[1] and len(k.device_caches[0][0]) == 1


def test_preload():
    texts = []
    knobs.runtime.jit_cache_hook = lambda **kw: texts.append(kw["compile"]["specialization_data"])
    k = tegula.jit(fill)
    kernel, _ = launch(k)
    fresh = tegula.jit(fill)
    assert fresh.preload(texts[0]).metadata.signature == kernel.metadata.signature
    assert list(fresh.device_caches[0][0]) == list(k.device_caches[0][0])
    assert launch(fresh)[0] is fresh.device_caches[0][0][next(iter(k.device_caches[0][0]))]
    assert len(texts) == 1  # it was there
    other = json.loads(texts[0])
    for key, value in (("name", "elsewhere.fill"), ("target", {"backend": "cuda", "arch": 20, "warp_size": 32})):
        with pytest.raises(RuntimeError, match="Specialization data is for"):
            fresh.preload(json.dumps({**other, key: value}))


@tegula.jit
def calls_it(out, f: tl.constexpr):
    tl.store(out, f())


def test_preload_with_functions():
    def make(value):
        @tegula.jit
        def local():
            return value
        return local

    texts, out, three = [], np.zeros(1, np.int32), make(tl.constexpr(3))
    knobs.runtime.jit_cache_hook = lambda **kw: texts.append(kw["compile"]["specialization_data"])
    kernel = calls_it[(1,)](out, three)
    calls_it.device_caches[0][0].clear()
    assert calls_it.preload(texts[0]) is kernel and calls_it[(1,)](out, three) is kernel and len(texts) == 1 and out[0] == 3
    four = make(tl.constexpr(4))
    calls_it[(1,)](out, four)
    assert len(texts) == 2 and out[0] == 4
    with pytest.raises(RuntimeError, match="Specialization data is for another function .*local than the one that has this name now"):
        calls_it.preload(texts[0])  # by its name that is `four` now


@tegula.aggregate
class Affine:
    scale: tl.tensor
    out: tl.tensor
    times: tl.constexpr
    offsets: tl.tuple


Pair = collections.namedtuple("Pair", "first second")


@tegula.jit
def takes_objects(affine, pair, n):
    i = tl.arange(0, 4)
    tl.store(affine.out + i, (i + affine.offsets[1]) * affine.scale * affine.times + pair.first * pair.second.second, i < n)


def test_preload_with_aggregates_and_namedtuples():
    @tegula.aggregate
    class Local(Affine):
        pass

    for cls in (Affine, Local):
        texts, out = [], np.zeros(4, np.float32)
        knobs.runtime.jit_cache_hook = lambda **kw: texts.append(kw["compile"]["specialization_data"])
        takes_objects.device_caches[0][0].clear()
        args = cls(3, out, 2, (7, 5)), Pair(tl.constexpr(4), Pair(1.5, 0.5)), 4
        kernel, before = takes_objects[(1,)](*args), takes_objects.device_caches[0][0].copy()
        takes_objects.device_caches[0][0].clear()
        assert takes_objects.preload(texts[0]) is kernel and takes_objects.device_caches[0][0] == before
        assert takes_objects[(1,)](*args) is kernel and len(texts) == 1 and (out == (np.arange(4) + 5) * 6 + 2).all()
    with pytest.raises(RuntimeError, match="names .*Gone, which is not there"):
        takes_objects.preload(texts[0].replace("Local", "Gone"))


def test_hooks_of_loading_and_compiling():
    loaded, compiled = [], []
    knobs.runtime.kernel_load_start_hook.add(lambda *a: loaded.append(a))
    knobs.runtime.kernel_load_end_hook.add(lambda *a: loaded.append(a))
    knobs.compilation.listener = lambda **kw: compiled.append(kw)
    k = tegula.jit(fill)
    kernel, _ = launch(k)
    launch(k)
    assert loaded == [(None, None, "fill", {}, kernel.hash), (kernel.module, kernel.function, "fill", {}, kernel.hash)]
    (heard,) = compiled
    assert heard["src"].fn is k and heard["metadata"]["num_warps"] == 4
    assert heard["cache_hit"] or heard["times"].total > 0  # an earlier run may have left it in the disk cache


def test_times_of_compilations(tmp_path):
    """device_caches.clear() has launches look in the disk cache; what comes from there took no time to lower and to store."""
    script = tmp_path / "times.py"
    script.write_text("""import numpy as np, tegula
from tegula import knobs, language as tl

@tegula.jit
def fill(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 1.0)

heard = []
knobs.compilation.listener = lambda **kw: heard.append(kw)
for _ in range(2):
    fill[(1,)](np.zeros(8, np.float32), 8)
    fill.device_caches.clear()
made, found = ((kw["cache_hit"], kw["times"]) for kw in heard)
assert not made[0] and made[1].ir_initialization > 0 and made[1].total_lowering > 0 and made[1].store_results > 0, made
assert found[0] and found[1].ir_initialization > 0 and found[1].total_lowering == found[1].store_results == 0, found
""")
    p = subprocess.run([sys.executable, str(script)], env=dict(os.environ, TEGULA_CACHE_DIR=str(tmp_path / "cache")), text=True, capture_output=True)
    assert p.returncode == 0, p.stderr


def test_options_without_meaning_have_keys():
    log, k, libs = [], tegula.jit(fill), {"libdevice": "libdevice.10.bc"}
    knobs.runtime.jit_cache_hook = lambda **kw: log.append(kw["compile"]["extern_libs"])
    knobs.runtime.jit_post_compile_hook = lambda **kw: log.append(kw["key"])
    kernels = [launch(k, **options)[0] for options in ({}, {"extern_libs": libs}, {"extern_libs": libs})]
    assert len(log) == 4 and log[::2] == [None, (("libdevice", "libdevice.10.bc"),)] and log[1] != log[3]
    assert kernels[0] is kernels[1] is kernels[2] and list(k.device_caches[0][0]) == log[1::2]


def test_pre_run_hooks():
    log = []
    k = tegula.jit(fill)
    k.add_pre_run_hook(lambda *args, **kwargs: log.append((args[1:], kwargs)))
    assert launch(k, num_warps=2)[1] and log == [((7, 4), {"num_warps": 2})]
    other = tegula.jit(fill)
    assert launch(other)[1] and len(log) == 1


def test_what_is_watched():
    """Launches come by Python only where something there wants to see them; TRITON_DEBUG needs none."""
    came = []

    def intercept(*launch):
        came.append(launch)
        return _hooks.intercept(*launch)

    k = tegula.jit(fill)
    _core.set_launch_hooks(intercept, _hooks.new_kernel)
    try:
        knobs.runtime.debug = True
        assert launch(k)[0].metadata.debug and not came
        knobs.runtime.jit_cache_hook = lambda **kw: False
        assert launch(k)[1] and len(came) == 1
    finally:
        _core.set_launch_hooks(_hooks.intercept, _hooks.new_kernel)


@tegula.jit
def takes_debug(out, debug):
    tl.store(out, debug)


def test_knobs_that_change_launches(tmp_path):
    k = tegula.jit(fill)
    assert not launch(k)[0].metadata.debug
    knobs.runtime.debug = True
    assert launch(k)[0].metadata.debug and launch(k, debug=False)[0].metadata.debug
    assert launch(tegula.jit(debug=False)(fill))[0].metadata.debug
    source = tegula.compiler.ASTSource(k, {"out": "*fp32", "value": "i32", "N": "constexpr"}, {"N": 4})
    assert tegula.compile(source).metadata.debug
    knobs.runtime.debug = False
    assert not tegula.compile(source).metadata.debug
    assert not launch(k)[0].metadata.debug
    for given, as_option in (((6,), {}), ((), {"debug": 6})):
        knobs.runtime.debug = True
        out = np.zeros(1, np.int32)
        assert takes_debug[(1,)](out, *given, **as_option).metadata.debug and out[0] == 6
        knobs.runtime.debug = False
    assert not takes_debug[(1,)](out, 6).metadata.debug
    knobs.language.default_fp_fusion = False
    assert launch(k)[0].metadata.enable_fp_fusion is False
    knobs.language.default_fp_fusion = True
    with knobs.cache.scope():
        knobs.cache.dump_dir, knobs.compilation.dump_ir = str(tmp_path), True
        kernel, _ = launch(k, 8)
    assert (tmp_path / kernel.hash / "fill.tile").read_text() == kernel.asm["tile"]


@tegula.jit
def stays_half(out):
    x = tl.full([4], 1.0, tl.float16)
    tl.store(out, tl.maximum(x, 0.0).dtype == tl.float16)


def test_the_level_of_the_language():
    out = np.zeros(1, np.bool_)
    for level, expected in (("3.6", False), ("3.9", True), ("3.7", False)):
        knobs.language.level = level
        assert stays_half[(1,)](out).metadata.triton_version == f"{level}.0" and out[0] == expected
    knobs.language.level = "3.5"
    with pytest.raises(ValueError, match="language_level"):
        stays_half[(1,)](out)
    del knobs.language.level


@tegula.jit
def breaks(out, n):
    for i in range(n):
        if i == 2:
            break
        tl.store(out + i, 1)


def test_strict():
    out = np.zeros(4, np.int32)
    kernel = breaks[(1,)](out, 4)
    assert out.tolist() == [1, 1, 0, 0]
    assert [r.kind for r in kernel.remarks] == ["breaksLoop"]
    knobs.language.strict = True
    with pytest.raises(tegula.CompilationError, match="unsupported AST node type: Break"):
        breaks[(1,)](out, 4)
    source = tegula.compiler.ASTSource(breaks, {"out": "*i32", "n": "i32"})
    with pytest.raises(tegula.CompilationError, match="unsupported AST node type: Break"):
        tegula.compile(source)
    assert breaks[(1,)](out, 4, strict=False) is kernel
    del knobs.language.strict
    with pytest.raises(tegula.CompilationError, match="unsupported AST node type: Break"):
        breaks[(1,)](out, 4, strict=True)
    assert breaks[(1,)](out, 4) is kernel


def test_hooks_that_raise():
    k = tegula.jit(fill)
    knobs.runtime.jit_post_compile_hook = lambda **kw: 1 / 0
    with pytest.raises(ZeroDivisionError):
        launch(k)
    knobs.runtime.jit_post_compile_hook = None
    assert launch(k)[1]


def test_arguments_are_not_kept():
    import gc
    import weakref

    class Array(np.ndarray):
        pass
    out = np.zeros(16, np.float32).view(Array)
    alive = weakref.ref(out)
    tegula.jit(fill)[(1,)](out, 7, 4)
    del out
    gc.collect()
    assert alive() is None


@tegula.jit
def adds_up(pointers, sizes, out, MODE: tl.constexpr):
    total = sizes[1] * (2 if MODE["twice"] else 1)
    for i in tl.static_range(len(pointers)):
        total += tl.load(pointers[i]) * sizes[0][i]
    tl.store(out, total)


Size = collections.namedtuple("Size", "rows columns")
Part = collections.namedtuple("Part", "at size scale")


@tegula.jit
def scales(part, out, more: tl.constexpr):
    tl.static_assert(isinstance(part.size, Size))
    value = tl.load(part.at) * part.scale
    size = Size(part.size.rows, part.size.columns)
    if value > 100:
        size = part.size  # of one class in both branches
    tl.store(out, value + size.rows + size.columns + more.rows)


def test_a_source_with_named_tuples():
    seen = []
    with knobs.runtime.scope():
        knobs.runtime.jit_post_compile_hook = lambda **k: seen.append(k["compile"])
        a, out = np.full(4, 3, np.float32), np.zeros(1, np.float32)
        launched = scales[(1,)](Part(a, Size(3, 1), 2.5), out, Size(7, "x"))
    assert out[0] == 18.5
    assert seen[0]["signature"]["part"] == ("*fp32", ("i32", "constexpr"), "fp32")
    source = tegula.compiler.ASTSource(scales, seen[0]["signature"], seen[0]["constants"], seen[0]["configs"][0])
    made = tegula.compile(source)
    assert made.asm["tile"] == launched.asm["tile"]


def test_a_source_with_tuples():
    """What a launch with tuples says of itself compiles ahead, too."""
    seen = []
    with knobs.runtime.scope():
        knobs.runtime.jit_post_compile_hook = lambda **k: seen.append(k["compile"])
        a, out = np.ones(4, np.float32), np.zeros(1, np.float32)
        launched = adds_up[(1,)]((a, a), ((1, 2.5), 3), out, {"twice": True})
    assert out[0] == 9.5
    source = tegula.compiler.ASTSource(adds_up, seen[0]["signature"], seen[0]["constants"], seen[0]["configs"][0])
    made = tegula.compile(source)
    assert made.asm["tile"] == launched.asm["tile"]
    odd = tegula.compiler.ASTSource(adds_up, {"pointers": ("*fp32", "constexpr"), "sizes": (("i32", "fp32"), "i32"), "out": "*fp32"}, {"MODE": {"twice": 0}, (0, 1): tl.float32})
    with pytest.raises(NotImplementedError, match="numbers and strings only"):
        tegula.compile(odd)
