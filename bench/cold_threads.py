#!/usr/bin/env python3
"""Seconds that many cold compilations for a GPU take in all by 1, 2, 4, ... workers: tegula by threads of one process, as its autotuner compiles, and Triton by processes, as Inductor has them.

The kernels and their descriptions are those of cold.py (--per-row configurations of each of its rows), in one queue, the longest first, so that no worker is left alone with a long one at the end. A speed-up is the
time of one worker over that of n. What a process compiled it remembers, so each number of threads has a process of its own. `cold_threads.py [--most N] [--per-row N] [--rounds N]`; needs what cold.py needs.
"""
import argparse
import json
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import cold

HERE = Path(__file__).resolve().parent


def drained(jobs, workers):
    """Seconds until `workers`, functions of a job, have done all `jobs`; what failed first is raised."""
    left, failed = queue.SimpleQueue(), []
    for j in jobs:
        left.put(j)

    def work(do):
        try:
            while not failed:
                do(left.get_nowait())
        except queue.Empty:
            pass
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(w, )) for w in workers]
    start = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
    return time.perf_counter() - start


def compile_here(jobs_file, threads, target):
    """In a process that has compiled nothing: {"seconds", "processor", "each": by job} for tegula by so many threads."""
    from sources import load_as
    from zoo import load
    side = cold.TegulaSide(target)
    side.compile(load_as("gpu_kernels_tegula", HERE / "gpu_kernels.py", load.aliases("tegula")).empty0, ({}, {}, {}, {"num_warps": 4}))
    rows = list(load.rows(load.entries("tegula")))
    jobs = [(at, cold.launches(rows, row, config), pickle.loads(bytes.fromhex(made))) for at, (row, config, made) in enumerate(json.loads(Path(jobs_file).read_text()))]
    each = [0.0] * len(jobs)

    def do(job):
        at, wanted, descriptions = job
        start = time.perf_counter()
        for w, d in zip(wanted, descriptions, strict=True):
            side.compile(w.kernel, d, w.args)
        each[at] = time.perf_counter() - start

    before = cold.processor()
    seconds = drained(jobs, [do] * threads)
    return {"seconds": seconds, "processor": cold.processor() - before, "each": each}


def by_threads(jobs_file, threads, a):
    env = {**os.environ, "TEGULA_CACHE_DIR": "", "CUDA_CACHE_DISABLE": "1"}
    return json.loads(subprocess.run([sys.executable, __file__, "--here", jobs_file, "--most", str(threads), "--target", a.target], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout)


def asking(process):

    def do(job):
        answer = process.ask(*job)
        if isinstance(answer, dict):
            raise RuntimeError(answer["error"])

    return do


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--here", metavar="FILE", help=argparse.SUPPRESS)
    p.add_argument("--target", default="sm_90a")
    p.add_argument("--most", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="workers (all processors that this process may use)")
    p.add_argument("--per-row", type=int, default=2, metavar="N")
    p.add_argument("--rounds", type=int, default=2)
    a = p.parse_args()
    sys.path.insert(0, str(HERE))
    if a.here:
        answers, sys.stdout = sys.stdout, sys.stderr
        return print(json.dumps(compile_here(a.here, a.most, ("cuda", int(a.target.removeprefix("sm_").rstrip("af")), 32))), file=answers)
    from zoo import load
    rows = list(load.rows(load.entries("tegula")))
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= a.most]
    with tempfile.TemporaryDirectory() as folder:
        triton = [cold.Process("triton", a, folder) for _ in range(counts[-1])]
        print("triton:", triton[0].about)
        jobs, jobs_file = [], str(Path(folder) / "jobs.json")
        for row in dict.fromkeys(r for r, _, _ in cold.chosen("", False)):
            for config in range(min(a.per_row, len(rows[row].spelling.configs_for(rows[row].shape)))):
                made = triton[0].ask(row, config, None)
                if isinstance(made, str):  # else it is Triton that refuses it
                    jobs.append((row, config, made))
        Path(jobs_file).write_text(json.dumps(jobs))
        each = by_threads(jobs_file, 1, a)["each"]
        jobs = [j for _, j in sorted(zip(each, jobs), reverse=True)]
        Path(jobs_file).write_text(json.dumps(jobs))
        ours, theirs = {}, {}
        for _ in range(a.rounds):
            for n in counts:
                ours[n] = min((ours[n], by_threads(jobs_file, n, a)) if n in ours else (by_threads(jobs_file, n, a), ), key=lambda r: r["seconds"])
                theirs[n] = min(theirs.get(n, 1e9), drained(jobs, [asking(t) for t in triton[:n]]))
        for t in triton:
            t.end()
    print(f"{len(jobs)} configurations, seconds (times as fast as one worker)")
    print(f"{'workers':>26} " + " ".join(f"{n:>14}" for n in counts))
    print(f"{'tegula by threads':>26} " + " ".join(f"{ours[n]['seconds']:7.2f} ({ours[1]['seconds'] / ours[n]['seconds']:4.1f})" for n in counts))
    print(f"{'its processor time':>26} " + " ".join(f"{ours[n]['processor']:7.2f}       " for n in counts))
    print(f"{'Triton by processes':>26} " + " ".join(f"{theirs[n]:7.2f} ({theirs[1] / theirs[n]:4.1f})" for n in counts))
    print(f"{'ratio':>26} " + " ".join(f"{ours[n]['seconds'] / theirs[n]:7.3f}       " for n in counts))


if __name__ == "__main__":
    sys.exit(main())
