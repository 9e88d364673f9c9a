"""Ctrl-C that comes while the library calls Python, whose errors it has no use for there: it ends the launch, or whatever comes after."""
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula import Config
from tegula.runtime._threads import in_threads


def ctrl_c():
    signal.raise_signal(signal.SIGINT)


class Once:
    """Does as Ctrl-C does, the first time."""
    done = False

    def __call__(self):
        if not self.done:
            self.done = True
            ctrl_c()


@pytest.fixture
def once():
    return Once()


@tegula.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def test_in_the_tuning_key(once):
    class Dtype:
        def __str__(self):
            once()
            return "mine"

    class Tagged:
        dtype = Dtype()
        value = 3

    tuned = tegula.autotune([Config({"BLOCK": 16}), Config({"BLOCK": 32})], key=["n"])(twice)
    with pytest.raises(KeyboardInterrupt):
        tuned[(1,)](np.ones(16, np.float32), Tagged())


def test_where_the_tuner_looks_at_the_arguments(once, monkeypatch):
    armed = []
    class Shape:
        """Of a tensor whose library is asked for its address."""
        dtype, device, shape = np.dtype("float32"), "cpu", (16,)

        def __init__(self, a):
            self.a = a

        def data_ptr(self):
            if armed:
                once()
            return self.a.ctypes.data

    tuned = tegula.autotune([Config({"BLOCK": 16}), Config({"BLOCK": 32})], key=["n"])(twice)
    tune = tegula._core.tune
    monkeypatch.setattr(tegula._core, "tune", lambda *a: armed.append(1) or tune(*a))
    with pytest.raises(KeyboardInterrupt):
        tuned[(1,)](Shape(np.ones(16, np.float32)), 16)
    assert once.done


def test_in_a_module_that_the_compiler_reads(once):
    class Module(types.ModuleType):
        def __getattr__(self, name):
            once()
            raise AttributeError(name)

    settings = Module("settings")
    source = """
import tegula
@tegula.jit
def k(x):
    settings.absent
"""
    import linecache
    linecache.cache["<interrupted>"] = len(source), None, source.splitlines(True), "<interrupted>"
    names = {"settings": settings}
    exec(compile(source, "<interrupted>", "exec"), names)
    with pytest.raises(KeyboardInterrupt):
        names["k"][(1,)](np.ones(1, np.float32))
    assert once.done


def test_while_the_dtype_of_an_array_is_looked_up(once, monkeypatch):
    number = tegula._core.dtype_number
    monkeypatch.setattr(tegula._core, "dtype_number", lambda name: once() or number(name))
    with pytest.raises(KeyboardInterrupt):
        twice[(1,)](np.zeros(16, "S3"), 16, BLOCK=16)


def test_while_a_kernel_prints(once, monkeypatch):
    @tegula.jit
    def printing():
        tl.device_print("here")

    class Out:
        def write(self, text):
            once()

        def flush(self):
            pass

    monkeypatch.setattr(sys, "stdout", Out())
    with pytest.raises(KeyboardInterrupt):
        printing[(1,)]()
        tegula._core.synchronize("cpu")
    assert once.done


def test_in_a_grid_that_is_proposed_for(once):
    def grid(meta):
        once()
        return (tegula.cdiv(1000, meta["BLOCK"]),)

    tuned = tegula.autotune(space="auto")(twice)
    with pytest.raises(KeyboardInterrupt):
        tuned[grid](np.ones(1000, np.float32), 1000)


def test_a_first_launch_loads_no_module(tmp_path):
    """Python drops a Ctrl-C that comes in a callback of its import system, with no more than a message."""
    program = """
import sys, numpy as np, tegula, tegula.language as tl
@tegula.autotune([tegula.Config({"BLOCK": 16}), tegula.Config({"BLOCK": 32})], key=["n"])
@tegula.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
before, tune = set(sys.modules), tegula._core.tune
def now(*args):
    print(sorted(set(sys.modules) - before))
    return tune(*args)
tegula._core.tune = now
twice[(1,)](np.ones(16, np.float32), 16)
"""
    (tmp_path / "program.py").write_text(program)
    found = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True,
                           env={**os.environ, "TEGULA_TUNE_DIR": "", "PYTHONPATH": os.path.dirname(os.path.dirname(tegula.__file__))})
    assert found.stdout == "[]\n", found.stdout + found.stderr


@pytest.fixture
def long_one(tmp_path):
    """A kernel whose compilation takes a while."""
    lines = "\n".join(f"    tl.store(x + i + {k}, tl.load(x + i * {k + 2}) * {k})" for k in range(300))
    path = tmp_path / "long_one.py"
    path.write_text(f"import tegula\nimport tegula.language as tl\n@tegula.jit\ndef k(x, i):\n{lines}\n")
    import importlib.util
    spec = importlib.util.spec_from_file_location("long_one", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


@contextlib.contextmanager
def on_alarm(handler):
    old = signal.signal(signal.SIGALRM, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


class Late(Exception):
    pass


def test_a_signal_while_compiling_ends_the_compilation(long_one):
    """docs/host.md: when a stage ends the handler's exception comes, and the next launch compiles anew."""
    def handler(*_):
        raise Late
    with on_alarm(handler), pytest.raises(Late):
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        long_one[(1,)](np.ones(1000, np.float32), 1)
        pytest.fail("the compilation took less than the alarm, or did not end")
    assert not long_one.device_caches or not any(len(c[0]) for c in long_one.device_caches.values())
    long_one[(1,)](np.ones(1000, np.float32), 1)


def test_a_handler_launches_what_it_interrupts(long_one):
    ran = []

    def handler(*_):
        long_one[(1,)](np.ones(1000, np.float32), 1)
        ran.append(1)
    with on_alarm(handler):
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        long_one[(1,)](np.ones(1000, np.float32), 1)
    assert ran == [1]


def test_another_thread_that_waits_for_an_interrupted_compilation(long_one):
    """It compiles by itself."""
    def handler(*_):
        raise Late

    def launch():
        try:
            long_one[(1,)](np.ones(1000, np.float32), 1)
            told.append("done")
        except BaseException as e:
            told.append(repr(e))
    told = []
    other = threading.Thread(target=launch)
    with on_alarm(handler), pytest.raises(Late):
        threading.Timer(0.002, other.start).start()
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        long_one[(1,)](np.ones(1000, np.float32), 1)
    time.sleep(0.01)
    other.join(60)
    assert told == ["done"]


def test_in_another_thread_while_the_tuner_compiles():
    """The system gives a signal to any thread of the process."""
    def compile_one(_):
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        told.append(go_on.wait(60))
        over.set()

    go_on, over, told = threading.Event(), threading.Event(), []
    with pytest.raises(KeyboardInterrupt):
        in_threads(compile_one, [0])
    go_on.set()
    # The exception came while the compilation went on, not behind it.
    assert over.wait(60) and told == [True]
