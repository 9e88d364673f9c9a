"""triton.knobs: docs/language.md §4.11."""
import os

import pytest
import tegula
from tegula import knobs


class Group(knobs.base_knobs):
    foo = knobs.env_str("TEGULA_TEST_FOO", "nothing")
    bar = knobs.env_bool("TEGULA_TEST_BAR", True)
    baz = knobs.env_opt_str("TEGULA_TEST_BAZ")
    quux = knobs.env_opt_bool("TEGULA_TEST_QUUX")
    number = knobs.env_int("TEGULA_TEST_NUMBER", 3)
    cls = knobs.env_class("TEGULA_TEST_CLASS", "Class")
    plain = None


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for key in ("FOO", "BAR", "BAZ", "QUUX", "NUMBER", "CLASS"):
        monkeypatch.setenv(f"TEGULA_TEST_{key}", "")  # so that it is put back
        monkeypatch.delenv(f"TEGULA_TEST_{key}")


def test_defaults_and_variables(monkeypatch):
    g = Group()
    assert g.knobs == {"foo": "nothing", "bar": True, "baz": None, "quux": None, "number": 3, "cls": None}
    for key, text in (("FOO", "text"), ("BAR", "off"), ("BAZ", "x"), ("QUUX", "On"), ("NUMBER", "12"), ("CLASS", "collections:OrderedDict")):
        monkeypatch.setenv(f"TEGULA_TEST_{key}", text)
    import collections
    assert g.knobs == {"foo": "text", "bar": False, "baz": "x", "quux": True, "number": 12, "cls": collections.OrderedDict}
    monkeypatch.setenv("TEGULA_TEST_NUMBER", "many")
    with pytest.raises(RuntimeError, match="TEGULA_TEST_NUMBER"):
        g.number
    with pytest.raises(AttributeError):
        Group.foo


def test_assignments_win_and_reach_children(monkeypatch):
    g = Group()
    g.foo, g.bar, g.number = "mine", False, 5
    assert (g.foo, g.bar, g.number) == ("mine", False, 5)
    assert [os.environ[f"TEGULA_TEST_{k}"] for k in ("FOO", "BAR", "NUMBER")] == ["mine", "0", "5"]
    monkeypatch.setenv("TEGULA_TEST_FOO", "other")
    assert g.foo == "mine"
    del g.foo
    assert g.foo == "other"
    g.foo = "again"
    g.foo = knobs.env
    assert g.foo == "again"  # what was assigned to the variable
    g.foo = None
    assert g.foo is None and "TEGULA_TEST_FOO" not in os.environ
    monkeypatch.setattr(knobs, "propagate_env", False)
    g.foo = "here only"
    assert g.foo == "here only" and "TEGULA_TEST_FOO" not in os.environ


def test_scope_reset_copy(monkeypatch):
    monkeypatch.setenv("TEGULA_TEST_FOO", "before")
    g = Group()
    with g.scope():
        g.foo, g.baz, g.plain = "in", "in", 1
        other = g.copy()
        with g.scope():
            g.foo = "deeper"
        assert g.foo == os.environ["TEGULA_TEST_FOO"] == "in"
    assert (g.foo, g.baz, g.plain) == ("before", None, None) and os.environ["TEGULA_TEST_FOO"] == "before" and "TEGULA_TEST_BAZ" not in os.environ
    assert (other.foo, other.plain) == ("in", 1) and other.reset() is other and (other.foo, other.plain) == ("before", None)
    with pytest.raises(ZeroDivisionError), g.scope():
        g.foo = "in"
        1 / 0
    assert g.foo == "before"


def test_hook_chains():
    log = []
    f, g = (lambda *a: log.append(("f", *a))), (lambda *a: log.append(("g", *a)))
    for backwards in (False, True):
        chain = knobs.HookChain(reversed=backwards)
        for hook in (f, g, f):
            chain.add(hook)
        chain(1, 2)
        assert log == [("g", 1, 2), ("f", 1, 2)][::1 if backwards else -1] and len(chain.calls) == 2
        chain.remove(f)
        chain.remove(f)
        assert chain.calls == [g]
        del log[:]
    r = knobs.runtime.copy()
    assert not r.launch_enter_hook.reversed and r.launch_exit_hook.reversed and r.kernel_load_end_hook.reversed
    r.launch_enter_hook = f
    assert isinstance(r.launch_enter_hook, knobs.HookChain) and r.launch_enter_hook.calls == [f] and not knobs.runtime.launch_enter_hook.calls
    r.launch_enter_hook = None
    assert r.launch_enter_hook.calls == []


def test_what_has_a_value_here(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_HOME", str(tmp_path))
    for name in ("TRITON_CACHE_DIR", "TRITON_DUMP_DIR", "TRITON_OVERRIDE_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert knobs.cache.dir == str(tmp_path / ".triton/cache") and knobs.cache.dump_dir == str(tmp_path / ".triton/dump")
    assert knobs.redis.port == 6379 and knobs.redis.key_format == "triton:{key}:{filename}" and knobs.proton.profile_buffer_size == 64 << 20
    with knobs.language.scope():
        assert knobs.language.fp_fusion_enabled() and not knobs.language.fp_fusion_enabled(False)
        knobs.language.default_fp_fusion = False
        assert not knobs.language.fp_fusion_enabled() and knobs.language.fp_fusion_enabled(True)
        knobs.language.force_disable_fp_fusion = True
        assert not knobs.language.fp_fusion_enabled(True)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tmp_path / "ptxas"))
    with pytest.raises(RuntimeError, match="Cannot find ptxas"):
        knobs.nvidia.ptxas
    (tmp_path / "ptxas").write_text("#!/bin/sh\necho Cuda compilation tools, release 12.9, V12.9.86\n")
    (tmp_path / "ptxas").chmod(0o755)
    assert knobs.nvidia.ptxas == knobs.NvidiaTool(str(tmp_path / "ptxas"), "12.9")


def test_what_is_read_once(monkeypatch):
    with knobs.runtime.scope(), knobs.compilation.scope():
        monkeypatch.setenv("TRITON_DEBUG", "1")
        monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "consan")
        assert not knobs.runtime.debug and knobs.compilation.instrumentation_mode == ""
        knobs.refresh_knobs()
        assert knobs.runtime.debug and knobs.compilation.instrumentation_mode == "consan"
    assert not knobs.runtime.debug


def test_a_hook_that_is_deleted_is_gone():
    """Launches look at hooks in C++, which is told of each change."""
    seen = []

    @tegula.jit
    def nothing(x):
        pass

    knobs.runtime.jit_cache_hook = lambda **kw: seen.append(kw)
    del knobs.runtime.jit_cache_hook
    with pytest.raises(TypeError, match="takes 1"):
        nothing[(1, )](1, 2)
    assert knobs.runtime.jit_cache_hook is None and not seen
