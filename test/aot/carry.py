#!/usr/bin/env python3
"""Bundles made on a machine without a GPU and run on one with a GPU, where nothing may be compiled.

    carry.py make FOLDER [--every N]   records the conformance cases (each N-th) on the CPU and the simulator, compiles what they launch for sm_90a and three CPUs, and builds the C programs
    carry.py run FOLDER                runs all of it there: the C programs with libtegula-runtime alone, then the conformance cases on `cuda` and `cpu` with TEGULA_NO_JIT=1

What was launched on the CPU is compiled for CPUs, what was launched on the simulator for the others. Cases that are left out are listed in FOLDER/left_out with their reasons: the compiler refuses a kernel, or
the case failed while it was recorded. FOLDER/manifest.json is what was recorded, and need not be carried.

Needs the package (PYTHONPATH) and, for `make`, the command beside the library. Prints `N passed, N failed`.
"""
import argparse
import collections
import lzma
import os
import re
import resource
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

TARGETS = ("cpu:x86-64", "cpu:avx2", "cpu:avx512", "sm_90a", "sim")  # sim: some cases launch on it by name
LEVEL = 3  # of xz: its window holds the code of one kernel for several CPUs, which is alike


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


def pack(bundle, folder, part):
    """The bundle, compressed, in files of at most `part` bytes: conformance.tgb.xz.0, .1 ..."""
    with open(bundle, "rb") as file:
        p = subprocess.run(["xz", "-T0", f"-{LEVEL}", "-c"], stdin=file, stdout=subprocess.PIPE, check=True) if shutil.which("xz") else None
        data = p.stdout if p else lzma.compress(file.read(), preset=LEVEL)
    for old in folder.glob("conformance.tgb.xz.*"):
        old.unlink()
    for n, at in enumerate(range(0, len(data), part)):
        (folder / f"conformance.tgb.xz.{n}").write_bytes(data[at:at + part])
    return len(data)


def unpack(folder, bundle):
    machine = lzma.LZMADecompressor()
    with open(bundle, "wb") as out:
        for n in range(len(list(folder.glob("conformance.tgb.xz.*")))):
            out.write(machine.decompress((folder / f"conformance.tgb.xz.{n}").read_bytes()))


def record(folder, every, jobs, devices):
    """Cases that fail are printed and left out; what the others launched is recorded all the same."""
    left_out = folder / "left_out"
    left_out.write_text("")
    (folder / "every").write_text(str(every))
    for old in ("manifest.json", "manifest.json.lock"):
        (folder / old).unlink(missing_ok=True)
    failed = cases(every, jobs, "recorded", TEGULA_TEST_DEVICES=devices, TEGULA_RECORD=str(folder / "manifest.json"), TEGULA_LEFT_OUT=str(left_out))["failed"]
    lines = sorted(set(left_out.read_text().splitlines()))
    left_out.write_text("".join(f"{l}\n" for l in lines))
    return failed


def compile_bundle(folder, targets, part):
    command, start = ROOT / "build/bin/tegula", time.time()
    left_out = folder / "left_out"
    with tempfile.TemporaryDirectory() as scratch:
        bundle = Path(scratch) / "conformance.tgb"
        p = subprocess.run([command, "aot", folder / "manifest.json", "-o", bundle, "--classes", "given", "--keep-going", *(word for t in targets for word in ("-t", t))], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        print("    " + p.stdout.strip().replace(str(scratch) + "/", ""))
        classes = [l for l in p.stderr.splitlines() if l.startswith("`")]
        for line in p.stderr.splitlines()[:20]:
            print(f"    {line}")
        if p.returncode:
            return 1
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"    compiled in {time.time() - start:.1f} s ({spent.ru_utime + spent.ru_stime:.0f} s of processor time so far)", flush=True)
        start = time.time()
        size = pack(bundle, folder, part)
    with open(left_out, "a") as f:
        f.writelines(l + "\n" for l in classes)
    print(f"    {size} bytes to carry, packed in {time.time() - start:.1f} s")
    for reason, count in collections.Counter(l.partition("\t")[2] for l in left_out.read_text().splitlines() if not l.startswith("`")).most_common():
        print(f"    cases left out ({count}): {reason}")
    return 0


def make(folder, every, jobs, targets, devices, part):
    folder.mkdir(parents=True, exist_ok=True)
    failed = record(folder, every, jobs, devices)
    if compile_bundle(folder, targets, part):
        return 1
    if not shutil.which("cc"):
        print("    there is no C compiler: the C programs are left as they are")
        return failed != 0
    command = ROOT / "build/bin/tegula"
    subprocess.run([command, "aot", HERE / "app.json", "-o", folder / "app.tgb", "--header", folder / "app.hpp"], check=True)
    shutil.copy(library() / "libtegula-runtime.so.0", folder)
    for name in ("program", "gpu"):
        subprocess.run(["cc", "-std=c11", "-O2", HERE / f"{name}.c", "-I", folder, "-I", ROOT / "include", folder / "libtegula-runtime.so.0", "-Wl,-rpath,$ORIGIN", "-o", folder / name], check=True)
    return failed != 0


def run(folder, jobs, devices, bundle):
    every = int((folder / "every").read_text())
    passed = failed = 0
    for name in ("program", "gpu") if "cuda" in devices else ("program",):
        if not (folder / name).exists():
            print(f"    {name}: not built")
            continue
        p = subprocess.run([folder / name, folder / "app.tgb"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(f"    {name}: {p.stdout.strip()}", flush=True)
        passed, failed = passed + (p.returncode == 0), failed + (p.returncode != 0)
    with tempfile.TemporaryDirectory() as scratch:
        if bundle is None:
            bundle = Path(scratch) / "conformance.tgb"
            unpack(folder, bundle)
        print(f"    {bundle.stat().st_size} bytes of kernels", flush=True)
        for device in devices:
            r = cases(every, jobs, f"without a compiler on {device}", alone=ALONE if device == "cuda" else (), TEGULA_TEST_DEVICES=device, TEGULA_CACHE_LAYERS=str(bundle), TEGULA_NO_JIT="1",
                      TEGULA_LEAVE_OUT=str(folder / "left_out"))
            passed, failed = passed + r["passed"], failed + r["failed"]
    print(f"{passed} passed, {failed} failed")
    return failed != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("make", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, help="make: one of N cases")
    parser.add_argument("--targets", default=",".join(TARGETS), help="make: in place of sm_90a, three CPUs and the simulator")
    parser.add_argument("--devices", default=None, help="make: recorded on these (cpu,sim); run: on these (cuda,cpu)")
    parser.add_argument("--part", type=int, default=24 << 20, help="make: bytes of a part of the compressed bundle")
    parser.add_argument("--bundle", type=Path, help="run: this one, in place of what is packed in the folder")
    parser.add_argument("--jobs", type=int, default=max(1, min(12, (os.cpu_count() or 2) - 1)))
    args = parser.parse_args()
    folder = args.folder.resolve()
    if args.what == "make":
        return make(folder, args.every, args.jobs, args.targets.split(","), args.devices or "cpu,sim", args.part)
    return run(folder, args.jobs, (args.devices or "cuda,cpu").split(","), args.bundle)


if __name__ == "__main__":
    sys.exit(main())
