"""What a mistake in a kernel looks like in Python."""
import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import tegula
import tegula.language as tl
from kernels import wrong_kernel


def mistake():
    with pytest.raises(tegula.CompilationError) as caught:
        wrong_kernel[(1,)](np.zeros(4, np.float32), 4)
    return caught.value


def test_text_and_fields():
    e = mistake()
    text = str(e)
    assert "missing_name" in text and "kernels.py" in text and "^" in text and "wrong_kernel" in text
    assert e.file.endswith("kernels.py") and "missing_name" in e.message
    source = open(e.file).read().splitlines()
    assert "missing_name" in source[e.line - 1]
    assert source[e.line - 1][e.column - 1:].startswith("missing_name")
    assert e.diagnostics[0]["severity"] == "error" and e.kind


def test_nothing_was_written():
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(tegula.CompilationError):
        wrong_kernel[(1,)](x, 4)
    assert x.tolist() == [0, 1, 2, 3]


def test_the_same_every_time():
    assert str(mistake()) == str(mistake())


@pytest.mark.parametrize("through", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy],
                         ids=["pickle", "deepcopy"])
def test_copies(through):
    e = mistake()
    c = through(e)
    assert type(c) is tegula.CompilationError and str(c) == str(e) and c.line == e.line


def test_names():
    assert issubclass(tegula.CompilationError, tegula.TritonError)
    assert tegula.errors.CompilationError is tegula.CompilationError


@tegula.jit
def many_mistakes(x):
    a = first_missing
    b = second_missing
    tl.store(x, third_missing)


def test_all_mistakes_at_once():
    with pytest.raises(tegula.CompilationError) as caught:
        many_mistakes[(1,)](np.zeros(4, np.float32))
    assert all(name in str(caught.value) for name in ("first_missing", "second_missing", "third_missing"))


def test_source_that_cannot_be_found():
    scope = {"tl": tl}
    exec("def k(x):\n    tl.store(x, 1)\n", scope)
    with pytest.raises(ValueError, match="defined in a Python file"):
        tegula.jit(scope["k"])


@tegula.jit
def h_inner(v):
    return v + undefined_inside


@tegula.jit
def calls_inner(x):
    tl.store(x, h_inner(tl.load(x)))


def test_mistakes_in_helpers_say_who_called():
    with pytest.raises(tegula.CompilationError) as caught:
        calls_inner[(1,)](np.zeros(4, np.float32))
    assert "undefined_inside" in str(caught.value) and "calls_inner" in str(caught.value)


@tegula.jit
def endless(x):
    while tl.load(x, volatile=True) == 0:
        pass


def test_interrupt(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text("""
import os, signal, threading, time
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def endless(x):
    while tl.load(x, volatile=True) == 0:
        pass


def interrupt():
    time.sleep(1.5)
    os.kill(os.getpid(), signal.SIGINT)


signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs with SIGINT ignored
threading.Thread(target=interrupt, daemon=True).start()
try:
    endless[(1,)](np.zeros(1, np.int32))
except KeyboardInterrupt:
    print("interrupted")
""")
    done = subprocess.run([sys.executable, script], text=True, capture_output=True, timeout=60)
    assert done.stdout.strip() == "interrupted", done.stderr
