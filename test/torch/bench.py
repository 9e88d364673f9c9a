"""Speed and compile time of the table's operators beside Inductor's C++ (which needs a C++ compiler): `python -m tegula test/torch/bench.py [part of a name ...]`.

Set TEGULA_CACHE_DIR= so that nothing comes from a cache. Each row: milliseconds of forward and, where there is one, backward pass, least of several rounds that
take turns; seconds from torch.compile to the end of the first pass. Ends with geometric means of C++'s times over tegula's.
"""
import argparse
import json
import math
import os
import time

import torch
from torch._inductor import config
from torch._inductor.utils import fresh_cache

from cases import CASES
from test_operators import flat, inputs_of

BACKENDS = ("triton", "cpp")


def step_of(case, dtype, backend):
    """(function of no arguments that runs the case once, compiled; seconds of its first run)"""
    torch._dynamo.reset()
    inputs = inputs_of(case, dtype)
    wanted = [i for i in inputs if i.requires_grad]
    start = time.perf_counter()
    with config.patch(cpu_backend=backend, **dict(case.config)), fresh_cache():
        compiled = torch.compile(case.function, fullgraph=True)

        def step():
            results = flat(compiled(*inputs))
            if case.backward:
                used = [r for r in results if r.requires_grad]
                torch.autograd.grad(used, wanted, [torch.ones_like(r) for r in used], allow_unused=True)

        step()
    return step, time.perf_counter() - start


def least(steps, seconds):
    """Milliseconds of each function: the least of many rounds in which they take turns."""
    best = [math.inf] * len(steps)
    counts = []
    for step in steps:
        step()
        start = time.perf_counter()
        step()
        counts.append(max(1, int(0.005 / (time.perf_counter() - start))))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, step in enumerate(steps):
            start = time.perf_counter()
            for _ in range(counts[i]):
                step()
            best[i] = min(best[i], (time.perf_counter() - start) / counts[i] * 1e3)
    return best


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1, help="only every so many of the rows")
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, for each row")
    parser.add_argument("--out", help="a JSON file")
    options = parser.parse_args()
    cases = [c for c in CASES if not options.names or any(n in c.name for n in options.names)][::options.every]
    for backend in BACKENDS:  # what the first compilation of all pays for
        step_of(CASES[0], torch.float32, backend)
    rows = []
    print(f"{'operator':28} {'passes':8} {'dtype':9} {'ms':>9} {'C++ ms':>9} {'speed':>6} {'compile s':>9} {'C++ s':>7} {'ratio':>6}", flush=True)
    for case in cases:
        for dtype in case.dtypes:
            try:
                steps, seconds = zip(*(step_of(case, dtype, b) for b in BACKENDS))
            except Exception as e:
                print(f"{case.name:28} {type(e).__name__}: {str(e).splitlines()[0][:120]}", flush=True)
                continue
            ms = least(steps, options.seconds)
            rows.append({"name": case.name, "dtype": str(dtype)[6:], "backward": case.backward, "ms": ms[0], "cpp_ms": ms[1], "compile_s": seconds[0],
                         "cpp_compile_s": seconds[1]})
            print(f"{case.name:28} {'fwd+bwd' if case.backward else 'fwd':8} {str(dtype)[6:]:9} {ms[0]:9.4f} {ms[1]:9.4f} {ms[1] / ms[0]:6.2f} {seconds[0]:9.2f} {seconds[1]:7.2f} "
                  f"{seconds[0] / seconds[1]:6.2f}", flush=True)
    print(f"speed beside C++: {mean([r['cpp_ms'] / r['ms'] for r in rows]):.3f}, compile time: {mean([r['compile_s'] / r['cpp_compile_s'] for r in rows]):.3f} of C++'s, "
          f"{len(rows)} rows, {os.cpu_count()} processors")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
