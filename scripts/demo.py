#!/usr/bin/env python3
"""`make demo`: runs every example on the CPU on real input and prints kernel, size, time, GB/s or GFLOP/s, and the
largest error against the reference. Writes the photograph, its grey copy and a plot to build/demo."""
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))
sys.path.insert(0, str(ROOT / "build/python"))
import attention
import benchmark
import copy_add
import cumulative_sum
import dropout
import histogram
import image_to_grey
import layer_norm
import matmul
import softmax
import spin_lock
import stepping
import topk
import tune_matmul
from PIL import Image


def median_time(run):
    """Median seconds of at least three runs and 0.2 s, the first (which compiles) left out."""
    run()
    times, end = [], time.perf_counter() + 0.2
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 200):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def rows(rng):
    """kernel, size, function to time, its result's reference, allowed error, bytes moved, floating-point operations."""
    normal = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
    n = 1 << 24
    x, y = normal(n), normal(n)
    yield "copy", f"{n}", lambda: copy_add.copy(x), lambda: x, 0, 8 * n, 0
    yield "add", f"{n}", lambda: copy_add.add(x, y), lambda: x + y, 0, 12 * n, 0

    rgb = photo()
    yield "image to grey", f"{rgb.shape[1]} x {rgb.shape[0]}", lambda: grey(rgb), lambda: image_to_grey.reference(
        rgb), 0, rgb.size * 4 // 3, 0

    s = normal(4096, 1024)
    yield "softmax", "4096 x 1024", lambda: softmax.softmax(s), lambda: softmax.reference(s), 1e-6, 8 * s.size, 0

    w, b = normal(1024), normal(1024)
    yield "layer_norm", "4096 x 1024", lambda: layer_norm.layer_norm(s, w, b)[0], lambda: layer_norm.reference(s, w, b)[
        0], 1e-4, 8 * s.size, 0
    yield "rms_norm, autotuned", "4096 x 1024", lambda: benchmark.rms_norm(s, w), lambda: benchmark.reference(s, w), 1e-4, 8 * s.size, 0
    yield "dropout", f"{1 << 22}", lambda: dropout.dropout(x[:1 << 22], 0.5, 7), lambda: dropout.reference(
        x[:1 << 22], 0.5, 7), 1e-5, 8 << 22, 0

    for size in (512, 1024):
        a, c = normal(size, size), normal(size, size)
        exact = lambda a=a, c=c: a.astype(np.float64) @ c
        yield "matmul naive", f"{size}^3", lambda a=a, c=c: matmul.naive(a, c), exact, 1e-3, 0, 2 * size**3
        yield "matmul grouped", f"{size}^3", lambda a=a, c=c: matmul.matmul(a, c), exact, 1e-3, 0, 2 * size**3
    a, c = normal(1000, 777), normal(777, 900)
    yield "matmul with tails", "1000 x 900 x 777", lambda: matmul.matmul(a, c), lambda: a.astype(
        np.float64) @ c, 1e-3, 0, 2 * a.size * 900

    q, k, v = (normal(8, 1024, 64) for _ in range(3))
    flops = 4 * 8 * 1024 * 1024 * 64
    yield "attention", "8 x 1024 x 64", lambda: attention.attention(q, k, v, False), lambda: attention.reference(
        q, k, v, False), 1e-5, 0, flops
    yield "attention, causal", "8 x 1024 x 64", lambda: attention.attention(q, k, v, True), lambda: attention.reference(
        q, k, v, True), 1e-5, 0, flops // 2

    yield "cumulative sum", "4096 x 1024", lambda: cumulative_sum.cumsum(s), lambda: np.cumsum(
        s.astype(np.float64), axis=1), 1e-3, 8 * s.size, 0
    grey_levels = rng.integers(0, 256, n).astype(np.uint8)
    yield "histogram", f"{n}", lambda: histogram.histogram(grey_levels), lambda: np.bincount(
        grey_levels, minlength=256), 0, n, 0
    yield "top-k (k = 8)", "4096 x 1024", lambda: topk.topk(s, 8)[0], lambda: topk.reference(s, 8)[0], 0, 4 * s.size, 0
    yield "spin lock sums", "4096 x 1024", lambda: spin_lock.column_sums(s), lambda: s.astype(np.float64).sum(
        axis=0), 1e-2, 4 * s.size, 0


def photo():
    folder = ROOT / "build/demo"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(image_to_grey.sample_photo(), folder)
    return np.ascontiguousarray(Image.open(folder / "grace_hopper.jpg").convert("RGB"))


def grey(rgb):
    out = image_to_grey.grey(rgb)
    if not grey.written:
        Image.fromarray(out).save(ROOT / "build/demo/grace_hopper_grey.png")
        grey.written = True
    return out


grey.written = False


def llm_demo():
    """A small language model with random weights (docs/llm.md): tokens on the CPU, logits beside a float64 reference."""
    for precision in ("fp32", "int4"):
        p = subprocess.run([ROOT / "build/examples/llm/generate", "--precision", precision, "--max-new", "16", "--context", "64", "--check"], text=True, stdout=subprocess.PIPE)
        print(f"generate --precision {precision}: {p.stdout}", end="", flush=True)
        if p.returncode:
            return 1
    return 0


def cpp_demo() -> bool:
    """A kernel in C++, built as a program of its own: examples/cpp/kernel.cpp. True if it failed."""
    program = ROOT / "build/demo/kernel"
    program.parent.mkdir(parents=True, exist_ok=True)
    lib = ROOT / "build/lib"
    subprocess.run(["g++", "-std=c++20", "-O1", f"-I{ROOT / 'include'}", ROOT / "examples/cpp/kernel.cpp", "-o", program, f"-L{lib}", "-ltegula", f"-Wl,-rpath,{lib}"], check=True)
    return subprocess.run([program, "cpu"]).returncode != 0


def main() -> int:
    print(f"{'kernel':<20}{'size':<20}{'time':>12}{'rate':>16}{'largest error':>16}")
    failed = 0
    for kernel, size, run, reference, allowed, moved, flops in rows(np.random.default_rng(0)):
        error = float(np.abs(run().astype(np.float64) - reference()).max())
        seconds = median_time(run)
        rate = f"{flops / seconds / 1e9:.1f} GFLOP/s" if flops else f"{moved / seconds / 1e9:.1f} GB/s"
        wrong = not error <= allowed
        failed += wrong
        print(f"{kernel:<20}{size:<20}{seconds * 1e3:>9.3f} ms{rate:>16}{error:>16.1e}{'  WRONG' if wrong else ''}",
              flush=True)
    stepping.main()
    benchmark.bandwidth.run(print_data=True, save_path=str(ROOT / "build/demo"))
    tune_matmul.main(str(ROOT / "build/demo"), 512)
    failed += llm_demo()
    failed += cpp_demo()
    print("build/demo: the photograph grace_hopper.jpg, its grey copy grace_hopper_grey.png, the plots rms_norm.png, tune_matmul.png")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
