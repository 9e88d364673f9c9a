#!/usr/bin/env python3
"""Bundles made on a machine without a GPU and run on one with a GPU, where nothing may be compiled.

    carry.py make FOLDER [--every N]   records the conformance cases (each N-th) on the simulator, compiles what they launch for sm_90a and three CPUs, and builds the C programs
    carry.py run FOLDER                runs all of it there: the conformance cases on `cuda` and `cpu` with TEGULA_NO_JIT=1, and the C programs with libtegula-runtime alone

Needs the package (PYTHONPATH) and, for `make`, the command beside the library. Prints `N passed, N failed`.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def library():
    """The folder of libtegula-runtime.so: of the build, or of an installed archive."""
    for folder in (ROOT / "build/lib", ROOT / "lib"):
        if (folder / "libtegula-runtime.so").exists():
            return folder
    sys.exit("carry.py: there is no libtegula-runtime.so in build/lib or lib")


def pytest(every, **env):
    p = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "refused", "test/run", f"--every={every}"], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env={**os.environ, "TEGULA_CACHE_DIR": "", **env, "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])})
    last = p.stdout.strip().splitlines()[-1] if p.stdout.strip() else ""
    count = lambda word: sum(int(m) for m in re.findall(rf"(\d+) {word}", last))
    print("   ", " ".join(f"{k}={v}" for k, v in env.items()), "->", last, flush=True)
    if p.returncode:
        print(p.stdout[-6000:])
    return count("passed"), count("failed") + count("error") + (p.returncode not in (0, 1))


def make(folder, every):
    folder.mkdir(parents=True, exist_ok=True)
    command = ROOT / "build/bin/tegula"
    manifest = folder / "conformance.json"
    manifest.unlink(missing_ok=True)
    (folder / "every").write_text(str(every))
    (folder / "refused").write_text("")
    if pytest(every, TEGULA_TEST_DEVICES="sim", TEGULA_RECORD=str(manifest), TEGULA_REFUSED_OUT=str(folder / "refused"))[1]:
        return 1
    start = time.time()
    targets = [word for t in ("cpu:x86-64", "cpu:avx2", "cpu:avx512", "sm_90a") for word in ("-t", t)]
    subprocess.run([command, "aot", manifest, "-o", folder / "conformance.tgb", *targets], check=True)
    print(f"    {time.time() - start:.1f} s")
    subprocess.run([command, "aot", HERE / "app.json", "-o", folder / "app.tgb", "--header", folder / "app.hpp"], check=True)
    shutil.copy(library() / "libtegula-runtime.so.0", folder)
    for name in ("program", "gpu"):
        subprocess.run(["cc", "-std=c11", "-O2", HERE / f"{name}.c", "-I", folder, "-I", ROOT / "include", folder / "libtegula-runtime.so.0", "-Wl,-rpath,$ORIGIN", "-o", folder / name], check=True)
    return 0


def run(folder):
    every = (folder / "every").read_text()
    passed = failed = 0
    for name in ("program", "gpu"):
        p = subprocess.run([folder / name, folder / "app.tgb"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(f"    {name}: {p.stdout.strip()}", flush=True)
        passed, failed = passed + (p.returncode == 0), failed + (p.returncode != 0)
    for device in ("cuda", "cpu"):
        p, f = pytest(every, TEGULA_TEST_DEVICES=device, TEGULA_TEST_SAMPLED_AS="sim", TEGULA_CACHE_LAYERS=str(folder / "conformance.tgb"), TEGULA_NO_JIT="1", TEGULA_REFUSED_IN=str(folder / "refused"))
        passed, failed = passed + p, failed + f
    print(f"{passed} passed, {failed} failed")
    return failed != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("make", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=12)
    args = parser.parse_args()
    return make(args.folder.resolve(), args.every) if args.what == "make" else run(args.folder.resolve())


if __name__ == "__main__":
    sys.exit(main())
