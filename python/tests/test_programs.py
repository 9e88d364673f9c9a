"""`python -m tegula`: scripts, modules, texts and the prompt, with the arguments, paths and exit codes that Python gives them; kernels without a file."""
import os
import subprocess
import sys

import pytest
import tegula as package

KERNEL = '''
import numpy as np
import triton
import triton.language as tl


@triton.jit
def fill(out, value, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), value)


def run(value):
    out = np.zeros(4, np.float32)
    fill[(1,)](out, value, 4)
    return out.tolist()

'''


PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(package.__file__)))


def tegula(*arguments, cwd=None, text=None, **env):
    given = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
    return subprocess.run([sys.executable, "-m", "tegula", *arguments], text=True, capture_output=True, timeout=120, cwd=cwd,
                          env={**os.environ, "PYTHONPATH": PACKAGES, **env}, **given)


def test_scripts_import_their_neighbours(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/kernels.py").write_text(KERNEL)
    (tmp_path / "in/script.py").write_text("import sys\nfrom kernels import run\nprint(run(3), sys.argv, __name__, __file__, sys.path[0])\nsys.exit(7)\n")
    done = tegula("in/script.py", "-x", "--y=1", cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    assert done.stdout == f"[3.0, 3.0, 3.0, 3.0] ['in/script.py', '-x', '--y=1'] __main__ in/script.py {tmp_path / 'in'}\n"


def test_modules(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("")
    (tmp_path / "package/kernels.py").write_text(KERNEL)
    (tmp_path / "package/__main__.py").write_text("import sys\nfrom .kernels import run\nprint(run(2), sys.argv[1:], __name__)\n")
    done = tegula("-m", "package", "a", "b", cwd=tmp_path)
    assert done.stdout == "[2.0, 2.0, 2.0, 2.0] ['a', 'b'] __main__\n", done.stderr


def test_pytest_as_a_module(tmp_path):
    (tmp_path / "test_it.py").write_text(KERNEL + "def test_good():\n    assert run(1) == [1] * 4\ndef test_bad():\n    assert run(1) == [2] * 4\n")
    done = tegula("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", cwd=tmp_path)
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout


@pytest.mark.parametrize("how", ["-c", "stdin"])
def test_texts(how):
    program = KERNEL + "import sys; print(run(5), sys.argv)"
    done = tegula("-c", program, "x") if how == "-c" else tegula("-", "x", text=program)
    assert done.stdout == f"[5.0, 5.0, 5.0, 5.0] ['{'-c' if how == '-c' else '-'}', 'x']\n", done.stderr


def test_the_prompt():
    """Without a terminal, so by the class itself."""
    lines = [*KERNEL.replace("\n    tl.store", "\n    tl.store").split("\n"), "print(run(6))", "@triton.jit", "def wrong(x):", "    tl.stor(x)", "",
             "wrong[(1,)](1)"]
    program = f"""
import tegula.__main__ as m
m.install()
prompt = m._Prompt(m._main_module().__dict__)
more = False
for line in {lines!r}:
    more = prompt.push(line)
"""
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, timeout=120)
    assert "[6.0, 6.0, 6.0, 6.0]" in done.stdout, done.stderr
    assert "stor" in done.stderr and "<input-" in done.stderr


def test_kernels_built_by_exec(tmp_path):
    (tmp_path / "script.py").write_text(f'''
import triton
KERNEL = {KERNEL!r}
space = {{}}
exec(KERNEL, space)
print(space["run"](4))


def make(name, op):
    text = KERNEL.replace("fill", name).replace("N), value)", f"N), value {{op}} 2)")
    space = {{}}
    exec(compile(text, "<generated>", "exec"), space)
    return space["run"]


print(make("add", "+")(4), make("mul", "*")(4))
exec("import triton\\n@triton.jit\\ndef f(x):\\n    pass\\n")
twice = KERNEL.replace("N), value)", "N), value * 2)")
try:  # the same but for a number
    exec("".join([twice.replace("* 2", "* 3")]), {{}})
except ValueError as e:
    print(str(e).splitlines()[0])
code = compile("\\n".join(["import triton", "@triton.jit", "def lost(x):", "    pass"]), "<gone>", "exec")
try:
    exec(code)
except ValueError as e:
    print(e)
''')
    done = tegula("script.py", cwd=tmp_path)
    out = done.stdout.splitlines()
    assert out[:2] == ["[4.0, 4.0, 4.0, 4.0]", "[6.0, 6.0, 6.0, 6.0] [8.0, 8.0, 8.0, 8.0]"], done.stderr
    assert "`fill` (<string>) cannot be found" in out[2]
    assert "`lost` (<gone>) cannot be found" in out[3] and "linecache.cache" in out[4]


def test_child_processes(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNEL)
    (tmp_path / "script.py").write_text('''
import multiprocessing, subprocess, sys
from kernels import run, fill

def work(kernel, value):
    import numpy as np, triton
    out = np.zeros(4, np.float32)
    kernel[(1,)](out, value, 4)
    return out.tolist(), triton.__name__

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(work, (fill, 3)))
    print(subprocess.run([sys.executable, "-c", "from kernels import run; print(run(9))"], text=True, capture_output=True).stdout, end="")
''')
    done = tegula("script.py", cwd=tmp_path)
    assert done.stdout == "([3.0, 3.0, 3.0, 3.0], 'triton')\n[9.0, 9.0, 9.0, 9.0]\n", done.stderr


def test_versions():
    done = tegula("-c", "import triton, tegula, importlib.metadata as m; print(triton.__version__, m.version('triton'), tegula.__version__ != triton.__version__)\n"
                  "triton.cdiv = 5; print(tegula.cdiv, triton.language.__spec__.name, 'jit' in dir(triton))\nfrom triton import *\nprint(jit is triton.jit)")
    assert done.stdout == "3.9.0 3.9.0 True\n5 tegula.language True\nTrue\n", done.stderr


def test_version_of_a_level():
    assert tegula("-c", "import triton; print(triton.__version__)", TEGULA_TRITON_LEVEL="3.6").stdout == "3.6.0\n"


def test_mistakes():
    for arguments in (["-m"], ["-c"], ["--what"]):
        done = tegula(*arguments)
        assert done.returncode == 2 and "usage: python -m tegula" in done.stderr
    assert tegula("none.py").returncode == 2
    done = tegula("-c", "1 / 0")
    assert done.returncode == 1 and done.stderr.startswith('Traceback (most recent call last):\n  File "<string>", line 1, in <module>')
    assert "ZeroDivisionError" in done.stderr
