"""tegula run: results, forms of arguments, and what bad input gets."""
import os
import re
import signal
import subprocess

import ml_dtypes
import numpy as np
import pytest

from conftest import TEGULA

ADD = ["run", "kernels.py::add", "--grid", "cdiv(n, BLOCK)", "-c", "BLOCK=1024"]


def test_run_on_files_saves_and_prints(tegula):
    n = 98432
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n), dtype=np.float32)
    np.save(tegula.dir / "x.npy", x)
    np.save(tegula.dir / "y.npy", y)
    p = tegula(*ADD, "-a", "x=@x.npy", "-a", "y=@y.npy", "-a", "out=empty:f32[n]", "-a", f"n={n}", "--save", "out=out.npy", "--print", "out", "--time")
    assert p.returncode == 0, p.stderr
    np.testing.assert_array_equal(np.load(tegula.dir / "out.npy"), x + y)
    assert p.stdout.startswith("out: fp32[98432]\n[") and "GB/s" in p.stdout and "us (median of" in p.stdout


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.float16, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_dtypes_of_files(tegula, dtype):
    x = np.arange(16).astype(dtype)
    np.save(tegula.dir / "x.npy", x)
    p = tegula("run", "kernels.py::add", "--grid", "1", "-c", "BLOCK=16", "-a", "x=@x.npy", "-a", "y=ones:f32[16]", "-a", "out=zeros:f32[16]", "-a", "n=16",
               "--save", "out=o.npy")
    assert p.returncode == 0, p.stderr
    np.testing.assert_array_equal(np.load(tegula.dir / "o.npy"), x.astype(np.float32) + 1)


def test_made_buffers(tegula):
    p = tegula(*ADD, "-a", "x=arange:i32[2*n]", "-a", "y=ones:bf16[n]", "-a", "out=zeros:fp32[n]", "-a", "n=5", "--print", "out")
    assert p.returncode == 0, p.stderr
    assert p.stdout == "out: fp32[5]\n[1, 2, 3, 4, 5]\n"


def test_filled_buffers_of_narrow_floats_are_rounded_to_even(tegula):
    p = tegula(*ADD, "-a", "x=arange:fp8e4nv[n]", "-a", "y=zeros:fp32[n]", "-a", "out=zeros:fp32[n]", "-a", "n=30", "--print", "out")
    assert p.returncode == 0, p.stderr
    assert "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16, 18, 20, 20, 20, 22, 24, 24, 24, 26, 28, 28, 28]" in p.stdout


def test_buffers_without_elements(tegula):
    args = ["run", "kernels.py::add", "--grid", "0", "-c", "BLOCK=16", "-a", "x=ones:f32[16]", "-a", "y=ones:f32[16]", "-a", "n=16", "--print", "out"]
    p = tegula(*args, "-a", "out=empty:f32[100000000000000, 0]", timeout=20)
    assert p.returncode == 0, p.stderr
    assert p.stdout == "out: fp32[100000000000000, 0]\n[]\n"
    p = tegula(*args, "-a", f"out=empty:f32[0, {2**62}, {2**62}]", timeout=20)
    assert p.returncode == 1 and "more than 10^15 bytes" in p.stderr


def test_buffers_of_many_dimensions_are_cut_short(tegula):
    args = ["run", "kernels.py::add", "--grid", "0", "-c", "BLOCK=16", "-a", "x=ones:f32[16]", "-a", "y=ones:f32[16]", "-a", "n=16", "--print", "out"]
    p = tegula(*args, "-a", f"out=zeros:i8[{', '.join(['2'] * 22)}]")
    assert p.returncode == 0, p.stderr
    assert p.stdout.endswith("...\n") and 1 << 16 < len(p.stdout) < 1 << 17


def test_randn_is_reproducible_and_normal(tegula):
    for name in ("a.npy", "b.npy"):
        p = tegula(*ADD, "-a", "x=randn:f32[n]", "-a", "y=zeros:f32[n]", "-a", "out=empty:f32[n]", "-a", "n=65536", "--save", f"out={name}")
        assert p.returncode == 0, p.stderr
    a, b = np.load(tegula.dir / "a.npy"), np.load(tegula.dir / "b.npy")
    np.testing.assert_array_equal(a, b)
    assert abs(a.mean()) < 0.02 and abs(a.std() - 1) < 0.02


def test_tensor_descriptors(tegula):
    (tegula.dir / "desc.py").write_text("""
import triton
import triton.language as tl


@triton.jit
def double(a, b, m, ROWS: tl.constexpr):
    i = tl.program_id(0) * ROWS
    b.store([i, 0], a.load([i, 0]) * 2)
""")
    run = ["run", "desc.py::double", "--grid", "cdiv(m, ROWS)", "-c", "ROWS=4", "-a", "m=6"]
    p = tegula(*run, "-a", "a=tensordesc[ROWS, 8]:arange:f32[m, 8]", "-a", "b=tensordesc[ROWS, 8]:zeros:f32[m, 8]", "--save", "b=b.npy")
    assert p.returncode == 0, p.stderr
    np.testing.assert_array_equal(np.load(tegula.dir / "b.npy"), 2 * np.arange(48, dtype=np.float32).reshape(6, 8))
    p = tegula(*run, "-a", "a=tensordesc[4, 8, nan]:arange:f32[2, 8]", "-a", "b=tensordesc[4, 8]:zeros:f32[m, 8]", "--save", "b=b.npy")
    assert p.returncode == 0, p.stderr
    b = np.load(tegula.dir / "b.npy")
    assert np.isnan(b[2:]).all() and (b[:2].ravel() == 2 * np.arange(16)).all()
    for bad, why in (("tensordesc[4, 8]:arange:f32[m, 6]", "strides must be 16-byte aligned"), ("tensordesc[4]:zeros:f32[m, 8]", "dimensions"),
                     ("tensordesc[]:zeros:f32[8]", "tensordesc[block]:BUFFER"), ("tensordesc[4, 6]:zeros:f32[m, 8]", "powers of 2"),
                     ("tensordesc[4, q]:zeros:f32[m, 8]", "`q`")):
        p = tegula(*run, "-a", f"a={bad}", "-a", "b=tensordesc[4, 8]:zeros:f32[m, 8]")
        assert p.returncode == 1 and why in p.stderr and "Traceback" not in p.stderr, p.stderr


USER_ERRORS = [
    (["run", "nothere.py::k", "--grid", "1"], "nothere.py"),
    (["run", "kernels.py::ad", "--grid", "1"], "add"),
    (["run", "kernels.py", "--grid", "1"], "FILE.py::KERNEL"),
    ([*ADD, "-a", "x=zeros:f32[n]", "-a", "n=4"], "`y`"),
    ([*ADD, "-a", "x=zeros:f32[n]", "-a", "y=zeros:f32[n]", "-a", "out=zeros:f32[n]", "-a", "n=4", "-a", "z=1"], "no parameter `z`"),
    ([*ADD, "-a", "x=zeros:f32[m]", "-a", "n=4"], "`m` is not the name"),
    ([*ADD, "-a", "x=zeros:f33[n]", "-a", "n=4"], "f33"),
    ([*ADD, "-a", "x=@no.npy", "-a", "n=4"], "no.npy"),
    ([*ADD, "-a", "x=zeros:f32[0-n]", "-a", "n=4"], "negative"),
    ([*ADD, "-a", "x=hello", "-a", "n=4"], "hello"),
    (["run", "kernels.py::add", "--grid", "n // 0", "-a", "n=4"], "division by zero"),
    (["run", "kernels.py::fill", "--grid", "0 - 1", "-a", "x=zeros:f32[8]", "-a", "n=8", "-c", "BLOCK=8"], "grid"),
    (["run", "kernels.py::fill", "--grid", "1 * 4294967296", "-a", "x=zeros:f32[8]", "-a", "n=8", "-c", "BLOCK=8"], "grid"),
    (["run", "kernels.py::fill", "--grid", "1", "-a", "x=zeros:f32[8]", "-a", "n=8", "-c", "BLOCK=-4"], "greater"),
    (["run", "kernels.py::fill", "--grid", "1", "-a", "x=zeros:f32[8]", "-a", "n=8", "-c", "BLOCK=8", "--save", "y=f.npy"], "`y`"),
    (["run", "kernels.py::fill", "--grid", "1", "-a", "x=zeros:f32[8]", "-a", "n=8", "-c", "BLOCK=8", "-d", "tpu"], "tpu"),
]


@pytest.mark.parametrize("args,words", USER_ERRORS, ids=[w for _, w in USER_ERRORS])
def test_user_errors_are_messages_and_exit_1(tegula, args, words):
    p = tegula(*args)
    assert p.returncode == 1, (p.returncode, p.stdout, p.stderr)
    assert words in p.stderr and p.stdout == ""


@pytest.mark.parametrize("args", [[], ["frobnicate"], ["run"], ["run", "kernels.py::add"], ["run", "a", "b", "--grid", "1"], ["run", "--nope"],
                                  ["compile", "kernels.py::add", "--emit", "obj"], ["cache"], ["check"]])
def test_usage_errors_exit_2(tegula, args):
    p = tegula(*args)
    assert p.returncode == 2 and p.stderr


def test_a_grid_of_zero_runs_nothing(tegula):
    p = tegula("run", "kernels.py::fill", "--grid", "0", "-a", "x=zeros:f32[8]", "-a", "n=8", "-c", "BLOCK=8", "--print", "x")
    assert p.returncode == 0 and "[0, 0, 0, 0, 0, 0, 0, 0]" in p.stdout


def test_checked_mode_names_line_program_argument_index_extent(tegula):
    p = tegula("run", "kernels.py::fill", "--grid", "2", "-a", "x=zeros:f32[12]", "-a", "n=12", "-c", "BLOCK=8", "--check", "--print", "x")
    assert p.returncode == 1
    for word in ("kernels.py:16", "(1, 0, 0)", "`x`", "48"):
        assert word in p.stderr, p.stderr


def test_device_assert_needs_debug(tegula):
    args = ["run", "kernels.py::twice", "--grid", "1", "-a", "x=zeros:i32[1]", "-a", "n=3"]
    assert tegula(*args).returncode == 0
    p = tegula(*args, env={"TEGULA_DEBUG": "1"})
    assert p.returncode == 1 and "n is small" in p.stderr and "kernels.py:27" in p.stderr


def test_ctrl_c_stops_a_kernel_that_loops_forever(tegula):
    (tegula.dir / "forever.py").write_text("import triton\nimport triton.language as tl\n\n@triton.jit\ndef forever(x):\n"
                                           "    tl.device_print('it runs')\n    while tl.load(x) == 0:\n        pass\n")
    p = subprocess.Popen([str(TEGULA), "run", "forever.py::forever", "--grid", "4", "-a", "x=zeros:i32[1]"], cwd=tegula.dir, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=dict(os.environ, TEGULA_CACHE_DIR=str(tegula.dir / "cache")))
    assert b"it runs" in p.stdout.readline()
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=20)
    assert p.returncode == 130 and b"interrupted" in err


def test_a_hang_is_an_error(tegula):
    for args, env in ([["--hang-s", "0.2"], {}], [[], {"TEGULA_HANG_S": "0.2"}]):
        p = tegula("run", "kernels.py::forever", "--grid", "4", "-a", "x=zeros:i32[1]", "-d", "cpu", *args, env=env)
        assert p.returncode == 1 and "kernels.py:21:5: error: `forever` made no progress for 0.2 s; program (0, 0, 0)" in p.stderr, p.stderr
    p = tegula("run", "kernels.py::forever", "--grid", "4", "-a", "x=zeros:i32[1]", "--hang-s", "soon")
    assert p.returncode == 2 and "--hang-s takes a positive number" in p.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("args", [["info"], ["--version"], ["--help"], ["run", "--help"], ["cache", "--stat"], ["cache", "--clear"], ["check", "kernels.py"],
                                  ["check", "kernels.py", "--json"], ["compile", "kernels.py::add", "--emit", "ast"],
                                  ["run", "kernels.py::fill", "--grid", "1", "-a", "x=zeros:f32[8]", "-a", "n=8", "-c", "BLOCK=8", "--print", "x"]], ids=" ".join)
def test_output_that_cannot_be_written_is_an_error(tegula, args):
    with open("/dev/full", "w") as full:
        p = subprocess.run([str(TEGULA), *args], cwd=tegula.dir, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                           env=dict(os.environ, TEGULA_CACHE_DIR=str(tegula.dir / "cache")))
    assert p.returncode == 1 and "cannot write to standard output: No space left on device" in p.stderr, (p.returncode, p.stderr)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_files_that_cannot_be_written_are_errors(tegula):
    p = tegula("compile", "kernels.py::add", "--emit", "ast", "-o", "/dev/full")
    assert p.returncode == 1 and "cannot write `/dev/full`" in p.stderr, p.stderr
    p = tegula("run", "kernels.py::fill", "--grid", "1", "-a", "x=zeros:f32[8]", "-a", "n=8", "-c", "BLOCK=8", "--save", "x=/dev/full")
    assert p.returncode == 1 and "cannot write `/dev/full`" in p.stderr, p.stderr
    with open("/dev/full", "w") as full:
        p = subprocess.run([str(TEGULA.with_name("tegula-opt")), "--list"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert p.returncode == 1 and "cannot write to standard output" in p.stderr, p.stderr


def test_passes_of_the_gpu_level_say_what_they_need():
    for text, passes, words in [("func @f() {}\n", "assign-layouts", "pass `assign-layouts` of the GPU level needs a kernel"), ("", "rotate-dots", "needs a kernel"),
                                ("layout A = register: -; lane: 1 2 4 8 16; warp: 32 64 -> dim0 128\nkernel @k() {\n  %i = range {start = 0} : tensor<128xi32, A>\n}\n", "assign-layouts",
                                 "pass `assign-layouts` of the GPU level needs tile IR: the module has layouts already"),
                                ("kernel @k() {\n  %r = range {start = 0} : tensor<4xi32>\n}\n", "pipeline-loops", "needs layouts"), ("kernel @k() {}\n", "gpu", "")]:
        p = subprocess.run([str(TEGULA.with_name("tegula-opt")), f"--passes={passes}"], input=text, capture_output=True, text=True, timeout=60)
        assert p.returncode == (2 if words else 0) and words in p.stderr, p.stderr


@pytest.mark.parametrize("option", ["--num-ctas=3", "--num-ctas=32", "--num-warps=6", "--num-warps=64", "--num-stages=0", "--num-stages=256", "--num-stages=x"])
def test_tegula_opt_refuses_numbers_that_passes_do_not_take(option):
    p = subprocess.run([str(TEGULA.with_name("tegula-opt")), "--passes=gpu", option], input="kernel @k() {}\n", capture_output=True, text=True, timeout=60)
    assert p.returncode == 2 and f"`{option}` is no option, or has no such value" in p.stderr, p.stderr


def test_tegula_opt_shows_what_passes_do():
    def opt(*args, text="kernel @k(%x: ptr<i32>) {\n  %a = const {value = 1} : i32\n  %b = const {value = 2} : i32\n  store %x, %b\n  return\n}\n"):
        p = subprocess.run([str(TEGULA.with_name("tegula-opt")), *args], input=text, capture_output=True, text=True, timeout=60)
        assert p.returncode == 0, p.stderr
        return p

    assert opt("--help").stdout.startswith("usage: tegula-opt")
    passes = "--passes=remove-dead,assign-layouts"
    lines = opt(passes, "--print-changed").stderr.splitlines()
    assert [x for x in lines if x.startswith("//")] == ["// remove-dead", "// assign-layouts: nothing changed"]
    assert [x for x in lines if x.startswith("-")] == ["-  %a = const {value = 1} : i32"], lines
    assert re.findall(r"^ *[0-9.]+ ms  (.*)$", opt(passes, "--time-passes").stderr, re.M) == ["remove-dead", "assign-layouts"]
    after = opt(passes, "--print-after-all").stderr
    assert [after.count(f"// after {name}\n") for name in ("remove-dead", "assign-layouts")] == [1, 1] and "value = 1" not in after


def test_unwritable_output_is_an_error(tegula):
    p = tegula("run", "kernels.py::fill", "--grid", "1", "-a", "x=zeros:f32[8]", "-a", "n=8", "-c", "BLOCK=8", "--save", "x=no/such/dir.npy")
    assert p.returncode == 1 and "cannot write" in p.stderr


@pytest.mark.parametrize("command", ["run", "compile", "check", "info", "cache"])
def test_help_of_a_command(tegula, command):
    for args in ([command, "--help"], [command, "-h"]):
        p = tegula(*args)
        assert p.returncode == 0 and p.stdout.startswith(f"usage: tegula {command}") and p.stderr == ""


@pytest.mark.parametrize("text,words", [("def f(:\n", "error"), ("x = '\xff'.encode()\n", "UTF-8"), ("", "add"), ("import triton\n@triton.jit\ndef add(x):\n  y\n", "`y`")])
def test_bad_files(tegula, text, words):
    (tegula.dir / "bad.py").write_bytes(text.encode("latin-1"))
    p = tegula("run", "bad.py::add", "--grid", "1", "-a", "x=zeros:f32[8]")
    assert p.returncode == 1 and words in p.stderr, p.stderr


def test_the_later_of_two_kernels_of_one_name_counts(tegula):
    (tegula.dir / "two.py").write_text("import triton.language as tl\nimport triton\n@triton.jit\ndef k(x):\n    tl.store(x, 1)\n@triton.jit\ndef k(x):\n    tl.store(x, 2)\n")
    p = tegula("run", "two.py::k", "--grid", "1", "-a", "x=zeros:i32[1]", "--print", "x")
    assert p.returncode == 0 and p.stdout.endswith("[2]\n"), (p.stdout, p.stderr)


def test_an_access_outside_of_all_memory_says_what_to_do(tegula):
    """Unchecked it ends the process, and the command says how to find it; checked it has its line."""
    args = [*ADD, "-a", f"n={1 << 25}", "-a", "x=ones:f32[16]", "-a", "y=ones:f32[16]", "-a", "out=empty:f32[n]", "-d", "cpu"]  # wild stores would overwrite the program itself
    p = tegula(*args)
    assert p.returncode == -signal.SIGSEGV and p.stderr == "tegula: segmentation fault: most likely the kernel accesses memory outside of its buffers; --check says where\n", p
    p = tegula(*args, "--check")
    assert p.returncode == 1 and "kernels.py:10:26: error: out-of-bounds load through argument `x`" in p.stderr, p.stderr
