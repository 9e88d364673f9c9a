#!/usr/bin/env python3
"""Makes the archive that carries tegula to another machine: `dist.py [--build build] [--out build/dist]`.

Built without LLVM, CUDA or a package manager there: library, command, headers, CMake and pkg-config packages, the runtime as static libraries, Python sources,
conformance cases, benchmarks, scripts/gpu-check. `install.sh` in it builds the Python extension, the only thing that depends on the machine's Python.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 40 << 20
# (what, where to) relative to the project and the archive; folders are taken whole, without what .git ignores.
TREE = [
    ("LICENSE", "LICENSE"),
    ("include/tegula", "include/tegula"),
    ("src/abi/CpuAbi.h", "include/tegula/CpuAbi.h"),
    ("python/src", "python/src"),
    ("python/tegula", "python/tegula"),
    ("python/tegula-0.1.0.dist-info", "python/tegula-0.1.0.dist-info"),
    ("python/tests", "python/tests"),
    ("test/run", "test/run"),
    ("test/random", "test/random"),
    ("test/torch", "test/torch"),
    ("examples", "examples"),
    ("bench", "bench"),
    ("test/aot", "test/aot"),
    ("scripts/gpu-check", "scripts/gpu-check"),
    ("scripts/install.sh", "install.sh"),
    ("docs/language.md", "docs/language.md"),
    ("docs/cpp.md", "docs/cpp.md"),
    ("docs/compatibility.md", "docs/compatibility.md"),
    ("docs/performance.md", "docs/performance.md"),
    ("docs/performance-history.md", "docs/performance-history.md"),
]


def version():
    return re.search(r"project\(tegula VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def copy_tree(stage):
    for source, target in TREE:
        a, b = ROOT / source, stage / target
        b.parent.mkdir(parents=True, exist_ok=True)
        if a.is_dir():
            shutil.copytree(a, b, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.so", ".pytest_cache"))
        else:
            shutil.copy2(a, b)


def copy_binaries(build, stage):
    shutil.copytree(build / "portable/lib", stage / "lib", symlinks=True)
    shutil.copy2(build / "lib/libtegula-torch-launcher.so", stage / "lib")  # glibc 2.34 is enough for it
    # The rest of the C++ package as `cmake --install` makes it; the library of that name is the portable one.
    with tempfile.TemporaryDirectory() as prefix:
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        for package in ("cmake", "pkgconfig"):
            shutil.copytree(next(Path(prefix).rglob(package)), stage / "lib" / package)
        for pattern in ("*.a", "libtegula-runtime.so*"):
            for library in Path(prefix).rglob(pattern):
                shutil.copy2(library, stage / "lib", follow_symlinks=False)
    (stage / "bin").mkdir()
    shutil.copy2(build / "portable/bin/tegula", stage / "bin/tegula")


def pack(stage, archive):
    def plain(info):
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = 0
        return info
    with tarfile.open(archive, "w:xz", preset=6) as tar:
        tar.add(stage, arcname=stage.name, filter=plain)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", type=Path, default=ROOT / "build")
    p.add_argument("--out", type=Path)
    p.add_argument("--jobs", default="2")
    a = p.parse_args()
    build = a.build.resolve()
    out = (a.out or build / "dist").resolve()
    # The portable library and command, and what cmake/Install.cmake installs.
    targets = ["tegula-portable", "tegula-torch-launcher", "libtegula", "libtegula-runtime", "tegula_runtime"]
    subprocess.run(["cmake", "--build", build, "--target", *targets, "-j", a.jobs, "--", "--quiet"], check=True)
    out.mkdir(parents=True, exist_ok=True)
    name = f"tegula-{version()}-linux-x86_64"
    with tempfile.TemporaryDirectory(dir=out) as tmp:
        stage = Path(tmp) / name
        stage.mkdir()
        copy_tree(stage)
        copy_binaries(build, stage)
        archive = out / f"{name}.tar.xz"
        pack(stage, archive)
    size = archive.stat().st_size
    print(f"{archive}: {size / (1 << 20):.1f} MiB")
    if size > LIMIT:
        print(f"the archive is larger than {LIMIT >> 20} MiB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
