#!/usr/bin/env python3
"""Bundles made on a machine without a GPU and run on one with a GPU, where nothing may be compiled.

    carry.py make FOLDER [--every N]   records the conformance cases (each N-th) on the CPU and the simulator, compiles what they launch for sm_90a and three CPUs, and builds the C programs
    carry.py run FOLDER                runs all of it there: the C programs with libtegula-runtime alone, then the conformance cases on `cuda` and `cpu` with TEGULA_NO_JIT=1

Needs the package (PYTHONPATH) and, for `make`, the command beside the library. Prints `N passed, N failed`.
"""
import argparse
import collections
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "test/run"))
from suite import ALONE, conformance  # noqa: E402

TARGETS = ("cpu:x86-64", "cpu:avx2", "cpu:avx512", "sm_90a")


def library():
    """The folder of libtegula-runtime.so: of the build, or of an installed archive."""
    for folder in (ROOT / "build/lib", ROOT / "lib"):
        if (folder / "libtegula-runtime.so").exists():
            return folder
    sys.exit("carry.py: there is no libtegula-runtime.so in build/lib or lib")


def cases(every, jobs, what, alone=(), **env):
    env = {**os.environ, "TEGULA_CACHE_DIR": "", "TEGULA_TEST_SAMPLED_AS": "sim", "PYTHONDONTWRITEBYTECODE": "1", **env,
           "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])}
    result = conformance(every, jobs, env, ("-p", "refused", "-rs"), what, alone)
    for reason, count in collections.Counter(re.sub(r"^\S+: ", "", s) for s in result["skips"]).most_common():
        print(f"    skipped ({count}): {reason}")
    return result


def make(folder, every, jobs, targets):
    folder.mkdir(parents=True, exist_ok=True)
    command = ROOT / "build/bin/tegula"
    (folder / "every").write_text(str(every))
    (folder / "refused").write_text("")
    with tempfile.TemporaryDirectory() as scratch:
        manifest, bundle = Path(scratch) / "conformance.json", Path(scratch) / "conformance.tgb"
        if cases(every, jobs, "recorded", TEGULA_TEST_DEVICES="cpu,sim", TEGULA_RECORD=str(manifest), TEGULA_REFUSED_OUT=str(folder / "refused"))["failed"]:
            return 1
        start = time.time()
        subprocess.run([command, "aot", manifest, "-o", bundle, "--classes", "given", *(word for t in targets for word in ("-t", t))], check=True)
        print(f"    compiled in {time.time() - start:.1f} s", flush=True)
        with open(bundle, "rb") as file, lzma.open(folder / "conformance.tgb.xz", "wb", preset=1) as out:
            shutil.copyfileobj(file, out, 1 << 20)
    print(f"    {(folder / 'conformance.tgb.xz').stat().st_size} bytes to carry")
    subprocess.run([command, "aot", HERE / "app.json", "-o", folder / "app.tgb", "--header", folder / "app.hpp"], check=True)
    shutil.copy(library() / "libtegula-runtime.so.0", folder)
    for name in ("program", "gpu"):
        subprocess.run(["cc", "-std=c11", "-O2", HERE / f"{name}.c", "-I", folder, "-I", ROOT / "include", folder / "libtegula-runtime.so.0", "-Wl,-rpath,$ORIGIN", "-o", folder / name], check=True)
    return 0


def run(folder, jobs, devices):
    every = int((folder / "every").read_text())
    passed = failed = 0
    for name in ("program", "gpu") if "cuda" in devices else ("program",):
        p = subprocess.run([folder / name, folder / "app.tgb"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(f"    {name}: {p.stdout.strip()}", flush=True)
        passed, failed = passed + (p.returncode == 0), failed + (p.returncode != 0)
    with tempfile.TemporaryDirectory() as scratch:
        bundle = Path(scratch) / "conformance.tgb"
        with lzma.open(folder / "conformance.tgb.xz") as file, open(bundle, "wb") as out:
            shutil.copyfileobj(file, out, 1 << 20)
        print(f"    {bundle.stat().st_size} bytes of kernels", flush=True)
        for device in devices:
            r = cases(every, jobs, f"without a compiler on {device}", alone=ALONE if device == "cuda" else (), TEGULA_TEST_DEVICES=device, TEGULA_CACHE_LAYERS=str(bundle), TEGULA_NO_JIT="1",
                      TEGULA_REFUSED_IN=str(folder / "refused"))
            passed, failed = passed + r["passed"], failed + r["failed"]
    print(f"{passed} passed, {failed} failed")
    return failed != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("make", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, help="make: one of N cases")
    parser.add_argument("--targets", default=",".join(TARGETS), help="make: in place of sm_90a and three CPUs")
    parser.add_argument("--devices", default="cuda,cpu", help="run: on these")
    parser.add_argument("--jobs", type=int, default=max(1, min(12, (os.cpu_count() or 2) - 1)))
    args = parser.parse_args()
    folder = args.folder.resolve()
    return make(folder, args.every, args.jobs, args.targets.split(",")) if args.what == "make" else run(folder, args.jobs, args.devices.split(","))


if __name__ == "__main__":
    sys.exit(main())
