"""Threads, forks, signals and the end of the interpreter at awkward moments. Scripts, as some of these ended or stopped the process.

Each is tried a few times, with TEGULA_TEST_LOOPS=200 at least that often.
"""
import os
import subprocess
import sys

import pytest

def turns(usual):
    return max(usual, int(os.environ.get("TEGULA_TEST_LOOPS", "0")))


PROLOGUE = '''
import importlib.util, os, signal, sys, tempfile, threading, time
import numpy as np
import tegula, tegula.language as tl

def kernels(count, body):
    """Functions k0 ... of a file of their own: nobody has used them."""
    path = tempfile.mkdtemp() + "/many.py"
    with open(path, "w") as f:
        f.write("import tegula, tegula.language as tl\\nZERO = tl.constexpr(0)\\n@tegula.jit\\ndef plus(v, w):\\n    return v + w + ZERO\\n")
        for i in range(count):
            f.write(f"@tegula.jit\\ndef k{i}(x, o, C: tl.constexpr):\\n" + body)
    spec = importlib.util.spec_from_file_location("many", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [getattr(module, f"k{i}") for i in range(count)]

SHORT = "    j = tl.arange(0, 64)\\n    tl.store(o + j, plus(tl.load(x + j), C))\\n"
LONG = ("    j = tl.arange(0, 64)\\n    v = tl.load(x + j)\\n    for i in tl.static_range(20):\\n"
        "        v = tl.exp(v * C) + tl.sin(v)\\n    tl.store(o + j, v)\\n")

@tegula.jit
def waits(x):
    while tl.load(x, volatile=True) == 0:
        pass

@tegula.jit
def says_and_waits(x):
    tl.store(x + 1, 1)
    while tl.atomic_cas(x, 5, 5) == 0:
        pass

def turns(usual):
    return max(usual, int(os.environ.get("TEGULA_TEST_LOOPS", "0")))

def until(x):
    """Until a kernel has stored there. Sleeping only leaves the core to others."""
    while x[0] == 0:
        time.sleep(0)
'''


def output(tmp_path, text, timeout=240, code=0):
    if "TEGULA_TEST_LOOPS" in os.environ:
        timeout *= 20
    script = tmp_path / "script.py"
    script.write_text(PROLOGUE + text)
    env = dict(os.environ, TEGULA_CACHE_DIR="")
    done = subprocess.run([sys.executable, script], env=env, text=True, capture_output=True, timeout=timeout)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def test_first_use_by_many_threads(tmp_path):
    out = output(tmp_path, '''
errors, barrier = [], threading.Barrier(4)
sys.setswitchinterval(1e-5)

def work(t, all_kernels=kernels(turns(100), SHORT)):
    x, o = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    for k in all_kernels:
        barrier.wait()
        try:
            k[(1,)](x, o, t + 2)
            if (o != x + t + 2).any():
                errors.append("wrong")
        except Exception as e:
            errors.append(repr(e))

threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(errors), errors[:1])
''')
    assert out == "0 []\n"


def test_fork_while_others_compile(tmp_path):
    """Forks from a thread at moments that the others' work decides; the child compiles what they compile, and something else."""
    out = output(tmp_path, '''
TURNS = turns(20)
all_kernels, other = kernels(TURNS, LONG), kernels(TURNS, SHORT)
x, bad = np.zeros(64, np.float32), []
for turn in range(TURNS):
    begun = threading.Event()

    def compile_it(C):
        begun.set()
        all_kernels[turn][(1,)](x, np.zeros(64, np.float32), C)

    threads = [threading.Thread(target=compile_it, args=(1 + i // 2,)) for i in range(4)]
    [t.start() for t in threads]
    begun.wait()
    for _ in range(turn * 500):  # a later moment each time
        pass
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        o = np.zeros(64, np.float32)
        all_kernels[turn][(1,)](x, o, 1)
        other[turn][(4,)](x, o, 3, num_threads=2)
        os._exit(0 if (o == 3).all() else 1)
    status = os.waitpid(child, 0)[1]
    [t.join() for t in threads]
    if status:
        bad.append((turn, status))
print(bad)
''')
    assert out == "[]\n"


def test_fork_while_others_launch_and_print(tmp_path):
    out = output(tmp_path, '''
@tegula.jit
def prints(x):
    tl.device_print("x", tl.load(x + tl.program_id(0)))

class Sink:  # Python's own files keep locks that the child finds taken
    def write(self, text): pass
    def flush(self): pass

sys.stdout = Sink()
x, stop, bad, started = np.zeros(64, np.int32), [], [], threading.Event()

def launch():
    while not stop:
        prints[(8,)](x, num_threads=2)
        started.set()

threads = [threading.Thread(target=launch) for _ in range(2)]
[t.start() for t in threads]
started.wait()
for turn in range(turns(50)):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        prints[(8,)](x, num_threads=2)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status:
        bad.append((turn, status))
stop.append(1)
[t.join() for t in threads]
print(bad, file=sys.__stdout__)
''')
    assert out == "[]\n"


def test_fork_in_a_function_that_names_kernels(tmp_path):
    """The compilation that asks for the name goes on in the child."""
    out = output(tmp_path, '''
def named(specialization):
    global child
    child = os.fork()
    return "named"

@tegula.jit(repr=named)
def kernel(x):
    tl.store(x, 5)

x = np.zeros(1, np.int32)
kernel[(1,)](x)
if child == 0:
    os._exit(int(x[0]))
print(x[0], os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
''')
    assert out == "5 5\n"


END = {
    "in a launch": '''
x = np.zeros(2, np.int32)
threading.Thread(target=lambda: says_and_waits[(1,)](x), daemon=True).start()
until(x[1:])
''',
    "in many launches": '''
xs = [np.zeros(2, np.int32) for _ in range(4)]
for x in xs:
    threading.Thread(target=lambda x=x: says_and_waits[(2,)](x, num_threads=2), daemon=True).start()
while not any(x[1] for x in xs):  # how many run at once is the pool's affair
    time.sleep(0)
''',
    "launching": '''
ready, fast = threading.Event(), kernels(1, SHORT)[0]

def go():
    x, o = np.zeros(64, np.int32), np.zeros(64, np.int32)
    while True:
        fast[(1,)](x, o, 1)
        ready.set()

for _ in range(3):
    threading.Thread(target=go, daemon=True).start()
ready.wait()
''',
    "asking what only needs the library": '''
def go():
    while True:
        tegula.devices()

for _ in range(3):
    threading.Thread(target=go, daemon=True).start()
''',
    "compiling": '''
ready = threading.Event()

def go(mine):
    x = np.zeros(64, np.float32)
    for k in mine:
        ready.set()
        k[(1,)](x, x, 1)

# More than they come to, of 45 ms each.
for mine in [kernels(40, LONG) for _ in range(3)]:
    threading.Thread(target=go, args=(mine,), daemon=True).start()
ready.wait()
''',
    "printing": '''
@tegula.jit
def prints(x):
    tl.device_print("x", tl.load(x))

ready = threading.Event()
sys.stdout = open(os.devnull, "w")

def go():
    while True:
        prints[(4,)](np.zeros(1, np.int32), num_threads=2)
        ready.set()

for _ in range(2):
    threading.Thread(target=go, daemon=True).start()
ready.wait()
''',
}


# The rest of the script runs in so many processes, one after the other: the last is this interpreter, the others are its children, which have numpy
# and the package loaded (a third of the processor time of an interpreter for each) and end as it does.
FORKED = '''
for turn in range(turns(4) - 1):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        sys.exit(f"turn {turn} ended with {status}")
'''


@pytest.mark.parametrize("what", END)
def test_the_interpreter_ends_with_a_daemon_thread(tmp_path, what):
    output(tmp_path, FORKED + END[what], timeout=60)


def test_launches_in_exit_handlers(tmp_path):
    out = output(tmp_path, '''
import atexit

def last(x=np.zeros(64, np.int32), o=np.zeros(64, np.int32), k=kernels(1, SHORT)):
    k[0][(4,)](x, o, 1, num_threads=2)
    print(o[0])

atexit.register(last)  # runs before the package's own handler

x = np.zeros(2, np.int32)
threading.Thread(target=lambda: says_and_waits[(1,)](x), daemon=True).start()
until(x[1:])
''', timeout=60)
    assert out == "1\n"


def test_an_exit_handler_registered_first_runs_after_ours(tmp_path):
    script = tmp_path / "script.py"
    script.write_text('''
import atexit
def last():
    o = np.zeros(64, np.int32)
    f[0][(4,)](np.zeros(64, np.int32), o, 3, num_threads=2)
    print(o[0])
atexit.register(last)
''' + PROLOGUE + "f = kernels(1, SHORT)\n")
    done = subprocess.run([sys.executable, script], text=True, capture_output=True, timeout=60)
    assert done.stdout == "3\n" and done.returncode == 0, done.stderr


def test_interrupts_in_launches(tmp_path):
    """Sent when the kernel runs, from a thread that saw it store."""
    out = output(tmp_path, '''
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs with SIGINT ignored
count = 0
for turn in range(turns(5)):
    x = np.zeros(2, np.int32)

    def interrupt():
        until(x[1:])
        os.kill(os.getpid(), signal.SIGINT)

    t = threading.Thread(target=interrupt)
    t.start()
    try:
        says_and_waits[(1,)](x)
    except KeyboardInterrupt:
        count += 1
    t.join()
print(turns(5) - count)
''', timeout=100)
    assert out == "0\n"


def test_interrupts_in_compilations(tmp_path):
    """Wherever it comes, the kernel is whole: the next launch is right."""
    out = output(tmp_path, '''
signal.signal(signal.SIGINT, signal.default_int_handler)
x, o, count, bad = np.arange(64, dtype=np.float32), np.zeros(64, np.float32), 0, 0
for turn, k in enumerate(kernels(turns(20), SHORT)):
    begun = threading.Event()

    def interrupt():
        begun.wait()
        for _ in range(turn * 2000):  # a later moment each time
            pass
        os.kill(os.getpid(), signal.SIGINT)

    t = threading.Thread(target=interrupt)
    t.start()
    try:
        begun.set()
        k[(1,)](x, o, 3)
        while True:
            time.sleep(0)
    except KeyboardInterrupt:
        count += 1
    t.join()
    o[:] = 0
    k[(1,)](x, o, 3)
    bad += not (o == x + 3).all()
print(turns(20) - count, bad)
''', timeout=100)
    assert out == "0 0\n"
