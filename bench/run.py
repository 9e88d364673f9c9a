"""`make bench`: every speed row of the CPU target with its peer in the same process, interleaved; writes build/bench/cpu.json and a table.

Each row is timed as the median of alternating runs (ours, peer, ours, ...); the ratio is the median of pair ratios, because the
machine's speed drifts. Outputs are checked before timing. Rows that miss their goal say MISSED.
"""
import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

THREADS = int(os.environ.get("TEGULA_NUM_THREADS", os.cpu_count() or 1))
# NumPy's OpenBLAS reads these when it is loaded: a peer has our instructions, whatever it is held to by the environment.
os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)
if "avx2" in os.environ.get("TEGULA_CPU_TARGET", ""):
    os.environ["OPENBLAS_CORETYPE"] = "Haswell"

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build/bench"
sys.path.insert(0, str(ROOT / "bench"))
import kernels  # noqa: E402
import wrapped_launch  # noqa: E402
import bound_launch  # noqa: E402
import tegula  # noqa: E402

I64, P = ctypes.c_int64, ctypes.c_void_p


def ptr(a):
    return P(a.ctypes.data)


def build_peers():
    """Compiled here because -march=native must mean this machine."""
    OUT.mkdir(parents=True, exist_ok=True)
    lib = OUT / "libpeers.so"
    source = ROOT / "bench/peers.cpp"
    if not lib.exists() or lib.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["g++", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-std=c++17", str(source), "-o", str(lib),
                        "-ldnnl"], check=True)
    peers = ctypes.CDLL(str(lib))
    for name in ("peer_matmul_prepare", "peer_softmax_prepare", "peer_layernorm_prepare"):
        getattr(peers, name).restype = P
    peers.peer_error.restype = ctypes.c_char_p
    peers.peer_set_threads(THREADS)
    return peers


def prepared(peers, what, run, *shape):
    """A function of pointers that runs a primitive of oneDNN, or None if oneDNN has none for this CPU (said once)."""
    handle = getattr(peers, f"peer_{what}_prepare")(*map(I64, shape))
    if not handle:
        print(f"no peer: oneDNN cannot do {what} {'x'.join(map(str, shape))} here ({peers.peer_error().decode()})")
        return None
    return lambda *arrays: run(P(handle), *map(ptr, arrays))


def settled(f):
    """Seconds of one call in the state that calls in a row see. Thread pools keep spinning after their work (OpenBLAS for some
    50 ms), on cores that the other side needs: the pause lets them fall asleep, the untimed calls wake the side's own threads and
    let the system spread them over the cores."""
    time.sleep(0.1)
    start = time.perf_counter()
    while time.perf_counter() < start + 0.02:
        f()
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def pairs(ours, peer, seconds=4.0, least=7):
    """Alternates the two; returns (median ours, median peer, median of peer/ours). Without a peer (None) only the first is a number."""
    if peer is None:
        return statistics.median(settled(ours) for _ in range(least)), None, None
    settled(ours), settled(peer)
    a, b = [], []
    stop = time.perf_counter() + seconds
    while len(a) < least or time.perf_counter() < stop:
        a.append(settled(ours))
        b.append(settled(peer))
    return statistics.median(a), statistics.median(b), statistics.median(y / x for x, y in zip(a, b))


def close(got, want, tolerance, what):
    error = float(np.max(np.abs(got - want)))
    if not error <= tolerance:
        raise SystemExit(f"{what}: largest error {error} > {tolerance}; no speed is reported for a wrong result")


ROWS = []


def row(name, unit, ours, peer, peer_name, ratio, goal, higher=True):
    missing = peer_name and ratio is None
    met = None if goal is None or missing else ratio >= goal if higher else ours <= goal
    ROWS.append(dict(name=name, unit=unit, ours=ours, peer=peer, peer_name=peer_name, ratio=ratio, goal=goal, met=met))
    verdict = f"no {peer_name} to compare with" if missing else "" if met is None else "ok" if met else "MISSED"
    peer_text = f"{peer:10.2f} {peer_name:<12}" if peer is not None else " " * 23
    ratio_text = f"{ratio:6.2f}x" if ratio is not None else " " * 7
    goal_text = "" if goal is None else f"goal {'>=' if higher else '<='} {goal:g}"
    print(f"{name:<34} {ours:10.2f} {unit:<8} {peer_text} {ratio_text} {goal_text:<14} {verdict}", flush=True)


# Block sizes chosen by hand for a CPU with a 1 MiB L2 cache, as a user would.
MATMUL_BLOCKS = {"f32": dict(BM=128, BN=256, BK=256, GROUP=8), "bf16": dict(BM=256, BN=256, BK=256, GROUP=8)}


def launch_matmul(a, b, c, kind, **blocks):
    n = a.shape[0]
    o = {**MATMUL_BLOCKS[kind], **blocks}
    grid = (tegula.cdiv(n, o["BM"]) * tegula.cdiv(n, o["BN"]),)
    kernels.matmul[grid](a, b, c, n, n, n, n, 1, n, 1, n, 1, **o)


def bench_matmul(peers):
    rate = {}
    for n in (512, 1024, 2048):
        rng = np.random.default_rng(n)
        a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
        c, d = np.zeros_like(a), np.zeros_like(a)
        ours = lambda: launch_matmul(a, b, c, "f32")
        peer = lambda: np.matmul(a, b, out=d)
        ours(), peer()
        close(c, d, n * 1.2e-7 * 16, f"matmul f32 {n}")
        t, tp, r = pairs(ours, peer)
        rate[n] = 2e-9 * n**3 / t
        row(f"matmul fp32 {n}^3", "GFLOP/s", rate[n], 2e-9 * n**3 / tp, "OpenBLAS of NumPy", r, 0.85 if n >= 1024 else None)
    for n in (512, 1024, 2048):
        rng = np.random.default_rng(n)
        a, b = (rng.standard_normal((n, n), dtype=np.float32).astype(ml_dtypes.bfloat16) for _ in range(2))
        c, d = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)
        run = prepared(peers, "matmul", peers.peer_matmul_run, n, n, n, 1)
        ours, peer = lambda: launch_matmul(a, b, c, "bf16"), run and (lambda: run(a, b, d))
        ours()
        if peer:
            peer()
        else:
            d = a.astype(np.float32) @ b.astype(np.float32)
        close(c, d, n * 1.2e-7 * 32, f"matmul bf16 {n}")
        t, tp, r = pairs(ours, peer)
        row(f"matmul bf16 {n}^3", "GFLOP/s", 2e-9 * n**3 / t, tp and 2e-9 * n**3 / tp, "oneDNN", r, 0.8)
    return rate


def bench_memory(peers):
    n = 16 << 20  # 64 MiB of float32
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(n, dtype=np.float32) for _ in range(2))
    out, ref = np.empty_like(x), np.empty_like(x)
    ours = lambda: kernels.add[(n // 8192,)](x, y, out, n, BLOCK=8192)
    peer = lambda: peers.peer_add(ptr(x), ptr(y), ptr(ref), I64(n))
    ours(), peer()
    close(out, ref, 0, "add")
    t, tp, r = pairs(ours, peer, 3)
    row("add 64 MiB", "GB/s", 12e-9 * n / t, 12e-9 * n / tp, "C++ loop", r, 0.95)
    for cols in (1024, 2048, 4096, 8192, 16384, 32768):
        rows = n // cols
        run = prepared(peers, "softmax", peers.peer_softmax_run, rows, cols)
        ours = lambda: kernels.softmax[(rows,)](x, out, cols, cols, BLOCK=cols)
        peer = run and (lambda: run(x, ref))
        ours()
        if peer:
            peer()
        else:
            e = np.exp(x.reshape(rows, cols) - x.reshape(rows, cols).max(1, keepdims=True))
            ref[:] = (e / e.sum(1, keepdims=True)).ravel()
        close(out, ref, 1e-6, f"softmax {cols}")
        t, tp, r = pairs(ours, peer)
        row(f"softmax {rows}x{cols}", "GB/s", 8e-9 * n / t, tp and 8e-9 * n / tp, "oneDNN", r, 1.0)
    for cols in (1024, 4096, 8192, 32768):
        rows = n // cols
        w, b = (rng.standard_normal(cols, dtype=np.float32) for _ in range(2))
        run = prepared(peers, "layernorm", peers.peer_layernorm_run, rows, cols)
        ours = lambda: kernels.layer_norm[(rows,)](x, w, b, out, cols, cols, 1e-5, BLOCK=cols)
        peer = run and (lambda: run(x, w, b, ref))
        ours()
        if peer:
            peer()
        else:
            v = x.reshape(rows, cols).astype(np.float64)
            ref[:] = ((v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5) * w + b).ravel()
        close(out, ref, 1e-4, f"layer_norm {cols}")
        t, tp, r = pairs(ours, peer)
        row(f"layer_norm {rows}x{cols}", "GB/s", 8e-9 * n / t, tp and 8e-9 * n / tp, "oneDNN", r, 1.0)


def bench_attention(rate):
    heads, d = 4, 64
    for n in (1024, 2048, 4096):
        for causal in (False, True):
            rng = np.random.default_rng(n)
            q, k, v = (rng.standard_normal((heads, n, d), dtype=np.float32) for _ in range(3))
            out = np.empty_like(q)
            bm, bn = 128, 128
            ours = lambda: kernels.attention[(n // bm, heads)](q, k, v, out, d**-0.5, n, n * d, d, BM=bm, BN=bn, D=d, CAUSAL=causal)
            ours()
            s = q[0] @ k[0].T * d**-0.5
            if causal:
                s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
            s = np.exp(s - s.max(1, keepdims=True))
            close(out[0], s / s.sum(1, keepdims=True) @ v[0], 2e-5, f"attention {n}")
            times = []
            stop = time.perf_counter() + 1.0
            while len(times) < 7 or time.perf_counter() < stop:
                t0 = time.perf_counter()
                ours()
                times.append(time.perf_counter() - t0)
            flops = 4e-9 * heads * n * n * d * (0.5 if causal else 1.0)
            mine = flops / statistics.median(times)
            peer = rate[1024]
            row(f"attention fp32 D=64 {n}{' causal' if causal else ''}", "GFLOP/s", mine, peer, "our matmul", mine / peer,
                None if causal else 0.5)


def bench_compile():
    """Cold: a fresh process-wide state is made by a fresh context without disk cache; source text to callable."""
    script = OUT / "compile_times.py"
    script.write_text("""
import sys, json, time
sys.path.insert(0, sys.argv[1])
import numpy as np
import tegula, kernels
f, i = np.zeros(16, np.float32), 4096
blocks = dict(BM=128, BN=256, BK=256, GROUP=8)
cases = {
    'add': (kernels.add, (f, f, f, i), dict(BLOCK=1024)),
    'softmax': (kernels.softmax, (f, f, i, i), dict(BLOCK=4096)),
    'matmul': (kernels.matmul, (f, f, f, i, i, i, i, 1, i, 1, i, 1), blocks),
    'attention': (kernels.attention, (f, f, f, f, 0.125, i, i * 64, 64), dict(BM=128, BN=128, D=64, CAUSAL=False)),
}
fn, args, options = cases[sys.argv[2]]
start = time.perf_counter()
kernel = fn.warmup(*args, grid=(1,), **options)
total = time.perf_counter() - start
print(json.dumps(dict(total=total * 1e3, stages={k: v * 1e-6 for k, v in kernel.timings.items()})))
""")
    env = dict(os.environ, TEGULA_CACHE_DIR="", TEGULA_DISK_CACHE="0")
    for name, goal in dict(add=30, softmax=40, matmul=80, attention=120).items():
        runs = []
        for _ in range(5):
            p = subprocess.run([sys.executable, str(script), str(ROOT / "bench"), name], env=env, capture_output=True, text=True, check=True)
            runs.append(json.loads(p.stdout.splitlines()[-1]))
        runs.sort(key=lambda r: r["total"])
        middle = runs[len(runs) // 2]
        row(f"cold compile {name}", "ms", middle["total"], None, "", None, goal, higher=False)
        print("    " + ", ".join(f"{k} {v:.1f}" for k, v in middle["stages"].items()))
        ROWS[-1]["stages"] = middle["stages"]


def bench_launch():
    def per_call(fn, count=20000):
        best = []
        for _ in range(9):
            t0 = time.perf_counter()
            for _ in range(count):
                fn()
            best.append((time.perf_counter() - t0) / count)
        return statistics.median(best) * 1e6

    x = np.zeros(16, np.float32)
    e0, e19 = kernels.empty0[(1,)], kernels.empty19[(1,)]
    args = [x] * 5 + [64 + i for i in range(14)]
    row("launch empty, Python, 0 args", "us", per_call(lambda: e0()), None, "", None, 3, higher=False)
    row("launch empty, Python, 19 args", "us", per_call(lambda: e19(*args)), None, "", None, 3, higher=False)
    tool = ROOT / "build/bin/launch-bench"
    for count in (0, 19):
        p = subprocess.run([str(tool), str(count)], capture_output=True, text=True, check=True)
        launch, handle, others, bare = map(float, p.stdout.split())
        row(f"launch empty, C++, {count} args", "us", launch, None, "", None, 1, higher=False)
        row(f"launch empty, C++, {count} args, by a handle, beyond the kernel's call", "us", handle - bare, None, "", None, 0.3, higher=False)
        row(f"launch empty, C++, {count} args, by a handle with other arguments than it was bound to, beyond the kernel's call", "us", others - bare, None, "", None, 0.3, higher=False)
        p = subprocess.run([str(ROOT / "build/bin/tuned-launch-bench"), str(count)], capture_output=True, text=True, check=True)
        bare, wrapped = map(float, p.stdout.split())
        row(f"launch empty, C++, {count} args, autotuned, beyond bare", "us", wrapped - bare, None, "", None, 0.1, higher=False)
    p = subprocess.run([str(ROOT / "build/bin/trace-bench")], capture_output=True, text=True, check=True)
    row("attention in C++ written down and taken", "ms", float(re.search(r"^both +median (\S+)", p.stdout, re.M)[1]), None, "", None, 0.3, higher=False)
    for name, bare, wrapped in wrapped_launch.measure(x):
        row(f"launch empty, Python, {name}, beyond bare", "us", wrapped - bare, None, "", None, 1, higher=False)
    for name, _, bound in bound_launch.measure(x):
        row(f"launch empty, Python, {name}, by a handle", "us", bound, None, "", None, 0.8, higher=False)


def bench_process():
    def wall(cmd, n=9, env=None):
        times = []
        for _ in range(n):
            t0 = time.perf_counter()
            subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL, env=env)
            times.append(time.perf_counter() - t0)
        return statistics.median(times) * 1e3

    tegula_bin = str(ROOT / "build/bin/tegula")
    row("tegula --version", "ms", wall([tegula_bin, "--version"]), None, "", None, 30, higher=False)
    base = wall([sys.executable, "-c", "import numpy"])
    row("import tegula beyond numpy", "ms", wall([sys.executable, "-c", "import numpy, tegula, tegula.language"]) - base, None, "", None, 60,
        higher=False)
    attention = ("q:*f32:16, k:*f32:16, v:*f32:16, out:*f32:16, scale:f32, N:i32:16, stride_h:i32:16, stride_n:i32:16")
    command = [tegula_bin, "compile", str(ROOT / "bench/kernels.py") + "::attention", "--sig", attention, "-c", "BM=128", "-c", "BN=128", "-c", "D=64",
               "-c", "CAUSAL=false", "-t", "cpu", "--emit", "obj", "-o", "/dev/null"]
    # From a small process: the peak of a child counts from before its exec, when it still shares the memory of this one.
    probe = "import os, sys; pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ); _, s, u = os.wait4(pid, 0); print(u.ru_maxrss); sys.exit(s != 0)"
    p = subprocess.run([sys.executable, "-S", "-c", probe, *command], capture_output=True, text=True, check=True, env=dict(os.environ, TEGULA_CACHE_DIR=""))
    row("peak RSS, compile attention", "MB", int(p.stdout) / 1024, None, "", None, 250, higher=False)


GROUPS = ("matmul", "memory", "attention", "compile", "launch", "process")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("groups", nargs="*", metavar="GROUP", help=f"only these of {', '.join(GROUPS)}")
    only = p.parse_args().groups
    if unknown := set(only) - set(GROUPS):
        p.error(f"there is no group {min(unknown)}; there are {', '.join(GROUPS)}")
    peers = build_peers()
    print(f"{THREADS} threads; tegula {tegula.__version__}")
    want = lambda name: not only or name in only
    rate = bench_matmul(peers) if want("matmul") or want("attention") else {}
    if want("memory"):
        bench_memory(peers)
    if want("attention"):
        bench_attention(rate)
    if want("compile"):
        bench_compile()
    if want("launch"):
        bench_launch()
    if want("process"):
        bench_process()
    missed = [r["name"] for r in ROWS if r["met"] is False]
    (OUT / "cpu.json").write_text(json.dumps(dict(threads=THREADS, rows=ROWS), indent=1))
    print(f"{sum(r['met'] is True for r in ROWS)} rows met, {len(missed)} missed{': ' + ', '.join(missed) if missed else ''}")


if __name__ == "__main__":
    main()
