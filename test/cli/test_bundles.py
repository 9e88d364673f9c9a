"""tegula aot, specializations, verify, and what TEGULA_RECORD, TEGULA_NO_JIT and TEGULA_CACHE_LAYERS do to `tegula run`."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, TEGULA

KERNELS = (ROOT / "test/aot/kernels.py").read_text() + '''

@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.exp(tl.load(x + offs, mask=offs < n, other=float("-inf")))))


@triton.jit
def broken(x, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + offs, mask=offs < n)
    tl.store(out + offs, v, mask=offs < n)  # broken_store
    if tl.target_info.is_cuda():
        tl.store(out + offs, v + 1, mask=(offs < n) & (offs == 13))  # broken_store


@triton.jit
def one_store(x, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + offs, mask=offs < n)
    if tl.target_info.is_cuda():
        v = tl.where(offs == 13, v + 1, v)
    tl.store(out + offs, v, mask=offs < n)  # the_store
'''
MANIFEST = json.loads((ROOT / "test/aot/app.json").read_text())
RUN = ("run", "kernels.py::add", "-a", "x=arange:f32[n]", "-a", "y=ones:f32[n]", "-a", "out=zeros:f32[n]", "-c", "BLOCK=1024", "--grid", "cdiv(n, BLOCK)", "-d", "cpu", "--print", "out")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "app.json").write_text(json.dumps(MANIFEST))
    return tmp_path


def tegula(folder, *args, **env):
    return subprocess.run([TEGULA, *map(str, args)], cwd=folder, text=True, capture_output=True, timeout=300, env={**os.environ, "TEGULA_CACHE_DIR": "", **env})


def good(folder, *args, **env):
    p = tegula(folder, *args, **env)
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


@pytest.fixture
def bundle(folder):
    good(folder, "aot", "app.json", "-o", "app.tgb", "--header", "app.hpp", "--source", "app.c")
    return folder


def test_c_program(bundle):
    """60 lines of C with the runtime library alone: from the file, and with the bundle inside; C++ gets overloads."""
    cc = shutil.which("gcc") or shutil.which("clang")
    if not cc:
        pytest.skip("no C compiler")
    flags = ["-Wall", "-Wextra", "-Werror", "-I", ROOT / "include", "-I", bundle, f"-L{ROOT}/build/lib", f"-Wl,-rpath,{ROOT}/build/lib"]
    subprocess.run([cc, "-std=c11", ROOT / "test/aot/program.c", *flags, "-ltegula-runtime", "-o", bundle / "program"], check=True)
    assert len((ROOT / "test/aot/program.c").read_text().splitlines()) <= 70
    needed = subprocess.run(["ldd", bundle / "program"], check=True, text=True, capture_output=True).stdout
    assert "libtegula-runtime" in needed and "LLVM" not in needed and "libtegula.so" not in needed and "stdc++" not in needed
    runtime = (ROOT / "build/lib/libtegula-runtime.so").resolve()
    assert runtime.stat().st_size < 2 << 20
    for _ in range(2):
        out = subprocess.run([bundle / "program", "app.tgb"], cwd=bundle, text=True, capture_output=True)
        assert out.returncode == 0 and out.stdout.startswith("right"), out
    (bundle / "main.cpp").write_text("""#include "app.hpp"
#include <cstdio>
int main() {
  app_kernels k;
  alignas(64) float x[64] = {1, 2, 3};
  alignas(64) TegulaHalf h[16] = {};
  h[0].bits = 0x3c00; // 1.0
  if (app_open_linked(&k, nullptr) || app::scale(k, x, 3, 2.f) || app::add(k, h, h, h, 16) || app::add(k, x, x, x, 3)) return std::puts(tegula_bundle_error()), 1;
  std::printf("%g %g %x", x[0], x[2], h[0].bits);
  app_close(&k);
}
""")
    cxx = shutil.which("g++") or shutil.which("clang++")
    subprocess.run([cc, "-std=c11", "-c", bundle / "app.c", "-o", bundle / "source.o"], check=True)
    subprocess.run([cxx, "-std=c++17", bundle / "main.cpp", bundle / "source.o", *flags, "-ltegula-runtime", "-o", bundle / "inside"], check=True)
    (bundle / "app.tgb").unlink()
    assert subprocess.run([bundle / "inside"], text=True, capture_output=True).stdout == "4 12 4000"


def test_object_file(folder):
    """The bundle as an object file: linked where there is no compiler, by each linker that there is."""
    good(folder, "aot", "app.json", "-o", "my-app.tgb", "--header", "app.hpp", "--object", "app.o")
    cc = shutil.which("gcc") or shutil.which("clang")
    if not cc:
        pytest.skip("no C compiler")
    (folder / "main.c").write_text("""#include "app.hpp"
#include <stdio.h>
#include <stdint.h>
int main(void) {
  my_app_kernels k;
  float x[64] = {1, 2, 3};
  if ((uintptr_t)my_app_tgb % 16 || my_app_open_linked(&k, NULL) || my_app_scale(&k, x, 3, 2.f, NULL)) return puts(tegula_bundle_error()), 1;
  printf("%g %g", x[0], x[2]);
  my_app_close(&k);
}
""")
    subprocess.run([cc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fkeep-inline-functions", "-c", folder / "main.c", "-I", ROOT / "include", "-o", folder / "main.o"], check=True)
    (folder / "my-app.tgb").rename(folder / "moved.tgb")
    for linker in ("bfd", "gold", "lld"):
        if not shutil.which(f"ld.{linker}"):
            continue
        p = subprocess.run([cc, f"-fuse-ld={linker}", "-Wl,--fatal-warnings", folder / "main.o", folder / "app.o", f"-L{ROOT}/build/lib", f"-Wl,-rpath,{ROOT}/build/lib", "-ltegula-runtime", "-o", folder / "inside"],
                           text=True, capture_output=True)
        assert p.returncode == 0, p.stderr
        assert subprocess.run([folder / "inside"], text=True, capture_output=True).stdout == "2 6"
    # What is in it, and for another machine.
    assert (folder / "moved.tgb").read_bytes() in (folder / "app.o").read_bytes()
    good(folder, "aot", "app.json", "-o", "app.tgb", "--object", "arm.o", "--object-for", "aarch64")
    assert (folder / "arm.o").read_bytes()[18:20] == bytes([183, 0]) and (folder / "app.o").read_bytes()[18:20] in (bytes([62, 0]), bytes([183, 0]))
    if shutil.which("readelf"):
        shown = subprocess.run(["readelf", "-aW", folder / "arm.o"], text=True, capture_output=True)
        assert not shown.stderr and "AArch64" in shown.stdout and "app_tgb_size" in shown.stdout and ".note.GNU-stack" in shown.stdout, shown
    for wrong, says in ((["--object", "a.o", "--header", "a.hpp"], "--object needs -o FILE.tgb"), (["-o", "a.tgb", "--object-for", "aarch64"], "--object-for needs --object FILE.o"),
                        (["-o", "a.tgb", "--object", "a.o", "--object-for", "riscv64"], "--object-for takes x86-64 or aarch64, found `riscv64`"), (["-o", "a.tgb", "--object", "no/where/a.o"], "no/where/a.o")):
        p = tegula(folder, "aot", "app.json", *wrong)
        assert p.returncode and says in p.stderr, p.stderr


def test_layers_and_no_jit(bundle):
    """Processes with one bundle compile nothing; what is missing is named; an entry that relies on less stands in."""
    env = dict(TEGULA_CACHE_LAYERS="app.tgb", TEGULA_NO_JIT="1")
    for n in (4096, 1000, 1):
        assert "fp32[%d]" % n in good(bundle, *RUN, "-a", f"n={n}", **env)
    p = tegula(bundle, *RUN[:-7], "BLOCK=256", *RUN[-6:], "-a", "n=16", **env)
    assert p.returncode == 1
    assert "`add` is not compiled ahead of time for x:*fp32:16, y:*fp32:16, out:*fp32:16, n:i32:16, BLOCK:256" in p.stderr and "BLOCK:1024 for 256" in p.stderr, p.stderr
    p = tegula(bundle, *RUN[:-7], "BLOCK=256", *RUN[-6:], "-a", "n=16", **{**env, "TEGULA_NO_JIT": "warn"})
    assert p.returncode == 0 and "is not compiled ahead of time" in p.stderr
    # Nothing is loaded; and a source that is another one.
    assert "no bundle is loaded" in tegula(bundle, *RUN, "-a", "n=16", TEGULA_NO_JIT="1").stderr
    (bundle / "kernels.py").write_text(KERNELS.replace("mask) + tl", "mask) - tl"))
    p = tegula(bundle, *RUN, "-a", "n=16", **env)
    assert p.returncode == 1 and "is of another source" in p.stderr
    assert "TEGULA_NO_JIT is `maybe`" in tegula(bundle, "info", TEGULA_NO_JIT="maybe").stderr
    # The folder may be another one: nothing in a bundle says where it was made.
    other = bundle / "elsewhere"
    other.mkdir()
    (other / "kernels.py").write_text(KERNELS)
    shutil.copy(bundle / "app.tgb", other)
    assert "fp32[16]" in good(other, *RUN, "-a", "n=16", **env)
    assert str(bundle).encode() not in (bundle / "app.tgb").read_bytes()


def test_other_layers_still_work(bundle):
    """A layer that is damaged, of another version or somebody else's is named, and the rest is used."""
    data = bytearray((bundle / "app.tgb").read_bytes())
    data[8] = 77
    (bundle / "newer.tgb").write_bytes(data)
    (bundle / "junk.tgb").write_bytes(b"junk")
    env = dict(TEGULA_CACHE_LAYERS="newer.tgb:junk.tgb:missing.tgb:app.tgb", TEGULA_NO_JIT="1")
    p = tegula(bundle, *RUN, "-a", "n=32", **env)
    assert p.returncode == 0
    assert "newer.tgb is a bundle of format 77" in p.stderr and "junk.tgb is no bundle" in p.stderr and "missing.tgb cannot be opened" in p.stderr


def test_a_changed_byte_is_named(bundle):
    listing = good(bundle, "aot", "--list", "app.tgb")
    assert "x:*fp32:16, y:*fp32:16, out:*fp32:16, n:i32:16, BLOCK:1024  (x86-64-v3)" in listing
    data = bytearray((bundle / "app.tgb").read_bytes())
    data[-20] ^= 1
    (bundle / "app.tgb").write_bytes(data)
    p = tegula(bundle, "aot", "--list", "app.tgb")
    assert p.returncode == 1 and re.search(r"`(add|scale)` for \S+ is damaged: its code was changed", p.stderr), p.stderr


def test_keys(bundle):
    p = tegula(bundle, "aot", "--new-key", "k")
    if p.returncode and "libsodium" in p.stderr:
        pytest.skip(p.stderr)
    assert (bundle / "k").stat().st_mode & 0o077 == 0
    good(bundle, "aot", "--new-key", "other")
    good(bundle, "aot", "app.json", "-t", "cpu:x86-64", "-o", "signed.tgb", "--key", "k")
    good(bundle, "aot", "--list", "signed.tgb", "--public-key", "k.pub")
    assert "signed with another key" in tegula(bundle, "aot", "--list", "signed.tgb", "--public-key", "other.pub").stderr
    assert "is not signed" in tegula(bundle, "aot", "--list", "app.tgb", "--public-key", "k.pub").stderr
    assert "is no key" in tegula(bundle, "aot", "--list", "app.tgb", "--public-key", "app.json").stderr


def test_record(folder):
    """What a program launched is what the next run needs, and nothing is missing."""
    runs = [("-a", "n=4096"), ("-a", "n=1000"), ("-a", "n=1")]
    for r in runs:
        good(folder, *RUN, *r, TEGULA_RECORD="rec.json")
    good(folder, "run", "kernels.py::total", "-a", "n=100", "-a", "x=randn:f32[n]", "-a", "out=empty:f32[1]", "-c", "BLOCK=128", "--grid", "1", "-d", "cpu", TEGULA_RECORD="rec.json")
    recorded = json.loads((folder / "rec.json").read_text())
    assert sum(len(p["kernels"]) for p in recorded["programs"]) == 4
    good(folder, *RUN, *runs[0], TEGULA_RECORD="rec.json")
    assert json.loads((folder / "rec.json").read_text()) == recorded  # known already
    assert "has all of it" not in tegula(folder, "aot", "rec.json", "--check", "rec.json").stdout
    good(folder, "aot", "rec.json", "-o", "rec.tgb", "--classes", "given")
    assert "rec.tgb has all of it" in good(folder, "aot", "rec.json", "--classes", "given", "--check", "rec.tgb")
    for r in runs:
        good(folder, *RUN, *r, TEGULA_CACHE_LAYERS="rec.tgb", TEGULA_NO_JIT="1")
    # Without the class that relies on nothing this one is missing, which --check of another manifest says, too.
    p = tegula(folder, "aot", "app.json", "-t", "cpu", "--check", "rec.tgb")
    assert p.returncode == 1 and "`scale` x:*fp32, n:i32" in p.stdout


def test_what_was_recorded_needs_no_sources(folder):
    """A kernel is written down with its file and what that imports; what is read back must do the same."""
    (folder / "helpers.py").write_text("import triton\n\n@triton.jit\ndef twice(v):\n    return v * 2\n")
    (folder / "kernels.py").write_text("import helpers\nfrom helpers import twice\n" + KERNELS.replace("mask=mask) + tl", "mask=mask) + helpers.twice(1) - twice(1) + tl"))
    good(folder, *RUN, "-a", "n=100", TEGULA_RECORD="rec.json")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(folder / "rec.json", elsewhere)
    good(elsewhere, "aot", "rec.json", "-o", "rec.tgb", "--classes", "given")
    good(folder, *RUN, "-a", "n=100", TEGULA_CACHE_LAYERS=str(elsewhere / "rec.tgb"), TEGULA_NO_JIT="1")
    text = (folder / "rec.json").read_text()
    assert str(folder) not in text
    (elsewhere / "rec.json").write_text(text.replace("return v * 2", "return v * 3"))
    assert "what the manifest holds does not give the kernel that was recorded" in tegula(elsewhere, "aot", "rec.json", "-o", "rec.tgb").stderr


def entries(folder, bundle):
    """(kernel, target, signature) of each."""
    return [(line.split()[0], line.split()[1], line.split("bytes  ")[1].split("  ")[0]) for line in good(folder, "aot", "--list", bundle).splitlines()]


def test_recorded_kernels_are_compiled_for_their_kind_of_machine(folder):
    """What ran on a CPU is for CPUs, what ran on the simulator for GPUs: each may hold what the other cannot compile."""
    (folder / "kernels.py").write_text(KERNELS + '''

@triton.jit
def of_this_machine(out):
    if tl.target_info.is_cuda():
        v = tl.inline_asm_elementwise("mov.u32 $0, 7;", "=r", [], dtype=tl.int32, is_pure=True, pack=1)
    else:
        v = tl.inline_asm_elementwise("movl $$7, $0", "=r", [], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out, v)


@triton.jit
def of_cpus(out, ASM: tl.constexpr):
    tl.store(out, tl.inline_asm_elementwise(ASM, "=r", [], dtype=tl.int32, is_pure=True, pack=1))
''')
    for device in ("cpu", "sim"):
        good(folder, "run", "kernels.py::of_this_machine", "-a", "out=zeros:i32[1]", "--grid", "1", "-d", device, TEGULA_RECORD="rec.json")
    good(folder, "run", "kernels.py::of_cpus", "-a", "out=zeros:i32[1]", "-c", "ASM='movl $$7, $0'", "--grid", "1", "-d", "cpu", TEGULA_RECORD="rec.json")
    targets = ("-t", "cpu:x86-64", "-t", "cpu:avx2", "-t", "sm_80", "--classes", "given")
    p = tegula(folder, "aot", "rec.json", "-o", "rec.tgb", *targets)
    assert p.returncode == 0 and not p.stderr, p.stderr
    made = sorted((kernel, target) for kernel, target, _ in entries(folder, "rec.tgb"))
    assert made == [("of_cpus", "cpu:avx2"), ("of_cpus", "cpu:x86-64"), ("of_this_machine", "cpu:avx2"), ("of_this_machine", "cpu:x86-64"), ("of_this_machine", "sm_80")]
    # Of a kind that nobody asks for: said. Without -t: what it ran on.
    p = tegula(folder, "aot", "rec.json", "-o", "rec.tgb", "-t", "sm_80", "--classes", "given")
    assert p.returncode == 0 and re.search(r"left out \(2\):\n2 kernels recorded for cpu:\S+: no target that is asked for is of that kind\n", p.stderr), p.stderr
    good(folder, "aot", "rec.json", "-o", "rec.tgb", "--classes", "given")
    assert sorted(t.partition(":")[0] for _, t, _ in entries(folder, "rec.tgb")) == ["cpu", "cpu", "sim"]
    # Asked for all the same: an error, or left out.
    p = tegula(folder, "aot", "rec.json", "-o", "bad.tgb", *targets, "--any-target")
    assert p.returncode == 1 and "`of_cpus` for sm_80" in p.stderr and not (folder / "bad.tgb").exists(), p.stderr
    p = tegula(folder, "aot", "rec.json", "-o", "rec.tgb", *targets, "--any-target", "--keep-going")
    assert p.returncode == 0 and re.search(r"left out \(1\):\n`of_cpus` out:\*i32:16, ASM:.* for sm_80: ", p.stderr), p.stderr
    assert len(entries(folder, "rec.tgb")) == 5


SHARED = """
import sys
import numpy as np
import tegula
from kernels import moved_by_one
if sys.argv[1] == "make":
    tegula.aot([(moved_by_one, "x:*fp32:16, out:*fp32:16, n:i32", {"BLOCK": 128})], "shared.tgb", targets=["cpu:x86-64"], classes=sys.argv[2])
else:
    tegula.load_bundle("shared.tgb")
    x = np.arange(140, dtype=np.float32)
    with tegula.no_jit():
        apart = x.copy()
        moved_by_one[(1,)](x, apart, 128, BLOCK=128, device="cpu")
        assert (apart[1:129] == x[:128]).all()
        for shift in (0, 4):
            y = x.copy()
            moved_by_one[(1,)](y, y[shift:], 128, BLOCK=128, device="cpu")
            assert (y[shift + 1:shift + 129] == x[:128]).all(), shift
"""


@pytest.mark.parametrize("classes", ["given", "generic"])
def test_memory_that_arguments_share(folder, classes):
    """A kernel that stores one further than it loads, in place: its bundle has code for that by default; else the launch is refused, as nothing may be compiled."""
    (folder / "kernels.py").write_text(KERNELS + """

@triton.jit
def moved_by_one(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i + 1, tl.load(x + i, i < n), i < n)
""")
    (folder / "shared.py").write_text(SHARED)
    run = lambda *args: subprocess.run([sys.executable, "-m", "tegula", "shared.py", *args], cwd=folder, text=True, capture_output=True,
                                        env={**os.environ, "TEGULA_CACHE_DIR": "", "PYTHONPATH": str(ROOT / "build/python")})
    made = run("make", classes)
    assert made.returncode == 0, made.stderr
    used = run("use", classes)
    if classes == "generic":
        assert used.returncode == 0, used.stderr
    else:
        assert used.returncode and "out:*fp32:16:x" in used.stderr and "memory that arguments share" in used.stderr, used.stderr


def test_what_every_launch_finds(folder):
    """By default a bundle has an entry that takes null pointers and one for tensors of any size, whatever their class, and each once more for memory that arguments share."""
    good(folder, "aot", "app.json", "-t", "cpu", "-t", "sm_80", "-o", "app.tgb")
    made = [(t.partition(":")[0], s) for k, t, s in entries(folder, "app.tgb") if k == "add" and "fp32" in s]
    generic = "x:*fp32, y:*fp32, out:*fp32, n:i32, BLOCK:1024"
    sharing = "x:*fp32:~1, y:*fp32:~1, out:*fp32:~1, n:i32, BLOCK:1024"
    for text in (generic, sharing):
        assert made.count(("cpu", text)) == 3 and made.count(("sm_80", text)) == 2
    assert len(made) == 12  # and what is given


def test_specializations(folder):
    out = good(folder, "specializations", "kernels.py::add", "--sig", "x:*f32, y:*f32, out:*f32, n:i32", "-c", "BLOCK=64", "--sweep", "n=1..64")
    assert "add: 24 classes" in out and "n from 1 to 64: 3 classes" in out
    assert re.search(r"^  1 +1 values: 1$", out, re.M) and re.search(r"^  i32:16 +4 values: 16, 32, 48, 64$", out, re.M) and re.search(r"^  i32 +59 values", out, re.M)
    listed = json.loads(good(folder, "specializations", "kernels.py::add", "--sig", "x:*f32, y:*f32, out:*f32, n:i32", "-c", "BLOCK=64", "--json"))
    assert listed["count"] == len(listed["signatures"]) == len(set(listed["signatures"])) == 24
    # Two of x, y and out may be one buffer; tensors may need offsets of 64 bits; on a CPU pointers may be null.
    assert listed["one_buffer"] == [["x", "y", "out"]] and [f["count"] for f in listed["forms"]] == [66, 66, 10] and listed["all"] == 142
    assert "142 in all" in out and "several of x, y, out" in out
    assert all(f["count"] == len(set(f["signatures"])) for f in listed["forms"]) and "x:*fp32:16, y:*fp32:16:x, out:*fp32, n:1, BLOCK:64" in listed["forms"][0]["signatures"]
    # A sweep asks for no class that is not listed: the recorded ones are among them.
    for n in range(1, 34):
        good(folder, *RUN[:-7], "BLOCK=64", *RUN[-6:], "-a", f"n={n}", TEGULA_RECORD="rec.json")
    kernels = [k for p in json.loads((folder / "rec.json").read_text())["programs"] for k in p["kernels"]]
    assert len(kernels) == 3 and {k["signature"] for k in kernels} <= set(listed["signatures"])


@pytest.mark.parametrize("sweep, code, message", [
    ("n=1", 2, "--sweep takes NAME=FIRST..LAST, at most 10^6 values, found `n=1`"), ("n..3=-5", 2, "--sweep takes"), ("n=5..1", 2, "--sweep takes"),
    ("n=0..1000000", 2, "--sweep takes"), ("m=1..4", 1, "--sweep: `m` is no parameter of the kernel")])
def test_wrong_sweeps(folder, sweep, code, message):
    p = tegula(folder, "specializations", "kernels.py::add", "--sig", "x:*f32, y:*f32, out:*f32, n:i32", "-c", "BLOCK=64", "--sweep", sweep)
    assert p.returncode == code and message in p.stderr and not p.stdout, p


@pytest.mark.parametrize("change, message", [
    ({"tegula_manifest": 2}, "manifest of format 2"), ({"tegula_manifest": None}, '"tegula_manifest": 1'), ({"kernels": [{"kernel": "add"}]}, "`source` is missing"),
    ({"kernels": [{"kernel": "add", "source": "kernels.py", "grid": 3}]}, "`grid` must be a text"), ({"kernels": [{"kernel": "ad", "source": "kernels.py"}]}, "did you mean"),
    ({"kernels": [{"kernel": "add", "source": "nowhere.py"}]}, "nowhere.py"), ({"kernels": [{"kernel": "add", "source": "kernels.py", "signature": "x:*f32"}]}, "parameter `y` has neither a type in the signature nor a value among the constants"),
    ({"targets": ["cpu:z80"]}, "there is no target `cpu:z80`"), ({"kernels": [{"kernel": "add", "source": "kernels.py", "options": {"warps": 3}}]}, "there is no option `warps`"),
    ({"kernels": [{"kernel": "add", "source": "kernels.py", "classes": "some"}]}, "`classes` is `some`"), ({"kernel": []}, "there is no key `kernel`"),
    ({"kernels": [{**MANIFEST["kernels"][0], "grid": "cdiv(n, BLOC)"}]},
     "app.json: `add`: grid `cdiv(n, BLOC)`: `BLOC` is not the name of an integer argument or constant in `cdiv(n, BLOC)` at column 9"),
    ({"kernels": [{**MANIFEST["kernels"][0], "grid": "x"}]}, "`x` is not the name of an integer argument"),
    ({"kernels": [{**MANIFEST["kernels"][0], "grid": "1, 2, 3, 4"}]}, "a grid has 1 to 3 extents, found 4")])
def test_wrong_manifests(folder, change, message):
    (folder / "app.json").write_text(json.dumps({k: v for k, v in {**MANIFEST, **change}.items() if v is not None}))
    p = tegula(folder, "aot", "app.json", "-o", "app.tgb")
    assert p.returncode == 1 and "app.json" in p.stderr and message in p.stderr, p.stderr
    assert not (folder / "app.tgb").exists()


@pytest.mark.parametrize("options, code, message", [
    (["--configs", "num_warps=4,four"], 2, "--configs num_warps takes a positive number, found `four`"), (["--configs", "BLOCK=64,"], 2, "`--configs BLOCK=64,`: a value is empty"),
    (["--configs", "num_warps=4", "--configs", "num_warps=8"], 2, "`num_warps` is given twice"), (["--configs", "BLOCK"], 2, "write NAME=VALUE,VALUE"),
    (["--configs", "BLOCK=64", "--tolerance", ""], 2, "--tolerance takes a number that is not negative, found ``"),
    (["--configs", "BLOCK=64", "--devices", "cpu"], 2, "--devices takes two, found `cpu`"),
    (["--configs", "BLOCK=64", "--devices", "cpu,tpu"], 1, "there is no device `tpu`"), (["--configs", "BLOK=64"], 1, "`add` has no parameter `BLOK`")])
def test_verify_of_wrong_options(folder, options, code, message):
    p = tegula(folder, "verify", "kernels.py::add", "-a", "n=64", *(f"-a{name}=zeros:f32[n]" for name in ("x", "y", "out")), "--grid", "1", *options)
    assert p.returncode == code and message in p.stderr and not p.stdout, p


def test_verify(folder):
    args = ("-a", "n=1000", "-a", "x=randn:f32[n]", "--devices", "cpu,sim", "--grid", "cdiv(n, BLOCK)")
    out = good(folder, "verify", "kernels.py::add", *args, "-a", "y=randn:f32[n]", "-a", "out=empty:f32[n]", "--configs", "BLOCK=64,256")
    assert "0 differ, 0 skipped" in out and "(same bits)" in out and "adversarial" in out and "unaligned" in out
    out = good(folder, "verify", "kernels.py::total", *args[:4], "-a", "out=empty:f32[1]", "-c", "BLOCK=1024", "--grid", "1", "--devices", "cpu,sim", "--given-only")
    assert "(near)" in out
    out = good(folder, "verify", "kernels.py::add", *args, "-a", "y=randn:f32[n]", "-a", "out=empty:f32[n]", "--configs", "BLOCK=64", "--configs", "num_warps=2,8", "--configs", "maxnreg=32", "--given-only")
    assert "ok    add BLOCK=64 num_warps=8 maxnreg=32: n=1000 given" in out and "6 launches of 2 classes" in out
    p = tegula(folder, "verify", "kernels.py::broken", *args, "-a", "out=empty:f32[n]", "-c", "BLOCK=128")
    assert p.returncode == 1
    lines = [i for i, text in enumerate(KERNELS.splitlines(), 1) if "broken_store" in text]
    assert len(lines) == 2
    assert re.search(rf"`out`\[13\] is \S+ on cpu, \S+ on sim \(1 of 1000 differ\); stored at one of kernels.py:{lines[0]}, kernels.py:{lines[1]}$", p.stdout, re.M), p.stdout
    assert ", 0 skipped" in p.stdout
    p = tegula(folder, "verify", "kernels.py::one_store", *args, "-a", "out=empty:f32[n]", "-c", "BLOCK=128", "--given-only")
    line = next(i for i, text in enumerate(KERNELS.splitlines(), 1) if "the_store" in text)
    assert p.returncode == 1 and f"stored at kernels.py:{line}\n" in p.stdout, p.stdout
