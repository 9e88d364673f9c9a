"""Speed and compile time of the table's operators beside another compiler's: `python -m tegula test/torch/bench.py [part of a name ...]`.

On CPUs the other one is Inductor's C++, which needs a C++ compiler; the two take turns in one process. On GPUs (TEGULA_TEST_TORCH_DEVICE=cuda) it is Triton in
another process: `python bench.py --out triton.json`, then `python -m tegula bench.py --beside triton.json`. Set TEGULA_CACHE_DIR= so that nothing comes from
a cache. Each row: milliseconds of forward and, where there is one, backward pass, the least of several rounds; seconds from torch.compile to the end of the
first pass. Ends with geometric means.
"""
import argparse
import json
import math
import os
import time
import types

import torch
from torch._inductor import config
from torch._inductor.utils import fresh_cache

from cases import CASES
from test_operators import DEVICE, flat, inputs_of


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def own(function):
    """`function` behind a code object of its own: what Dynamo compiled is found again by code object, so two compilers of one function would share it."""
    def entry(*inputs):
        return function(*inputs)

    return types.FunctionType(entry.__code__.replace(), entry.__globals__, closure=entry.__closure__)


def step_of(case, dtype, settings):
    """(function of no arguments that runs the case once, compiled; seconds of its first run). Both functions of a row stand until torch._dynamo.reset()."""
    inputs = inputs_of(case, dtype)
    wanted = [i for i in inputs if i.requires_grad]
    start = time.perf_counter()
    with config.patch(**settings, **dict(case.config)), fresh_cache():
        compiled = torch.compile(own(case.function), fullgraph=True)

        def step():
            results = flat(compiled(*inputs))
            if case.backward:
                used = [r for r in results if r.requires_grad]
                torch.autograd.grad(used, wanted, [torch.ones_like(r) for r in used], allow_unused=True)

        step()
        synchronize()
    return step, time.perf_counter() - start


def least(steps, seconds):
    """Milliseconds of each function: the least of many rounds in which they take turns."""
    def round_of(step, count):
        start = time.perf_counter()
        for _ in range(count):
            step()
        synchronize()
        return (time.perf_counter() - start) / count * 1e3

    best = [math.inf] * len(steps)
    counts = []
    for step in steps:
        step()
        counts.append(max(1, int(5 / round_of(step, 1))))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, step in enumerate(steps):
            best[i] = min(best[i], round_of(step, counts[i]))
    return best


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1, help="only every so many of the rows")
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, for each row")
    parser.add_argument("--out", help="a JSON file of what was measured")
    parser.add_argument("--beside", help="such a file, of another compiler")
    options = parser.parse_args()
    compilers = [{"cpu_backend": "triton"}, {"cpu_backend": "cpp"}] if DEVICE == "cpu" else [{}]
    others = {(r["name"], r["dtype"]): r for r in json.load(open(options.beside, encoding="utf-8"))} if options.beside else {}
    cases = [c for c in CASES if not options.names or any(n in c.name for n in options.names)][::options.every]
    for settings in compilers:  # what the first compilation of all pays for
        step_of(CASES[0], torch.float32, settings)
    rows, failed = [], 0
    print(f"{'operator':28} {'passes':8} {'dtype':9} {'ms':>9} {'other ms':>9} {'speed':>6} {'compile s':>9} {'other s':>8} {'ratio':>6}", flush=True)
    for case in cases:
        for dtype in case.dtypes:
            row = {"name": case.name, "dtype": str(dtype)[6:], "backward": case.backward}
            torch._dynamo.reset()
            try:
                steps, seconds = zip(*(step_of(case, dtype, settings) for settings in compilers))
                with torch.compiler.set_stance("fail_on_recompile"):  # outside of the settings, a compilation would be another compiler's
                    ms = least(steps, options.seconds)
            except Exception as e:
                failed += 1
                print(f"{case.name:28} {type(e).__name__}: {str(e).splitlines()[0][:120]}", flush=True)
                continue
            row.update(ms=ms[0], compile_s=seconds[0])
            other = others.get((row["name"], row["dtype"]), {"ms": ms[-1], "compile_s": seconds[-1]} if len(ms) > 1 else None)
            if other:
                row.update(other_ms=other["ms"], other_compile_s=other["compile_s"])
            rows.append(row)
            beside = f"{other['ms']:9.4f} {other['ms'] / ms[0]:6.2f} {seconds[0]:9.2f} {other['compile_s']:8.2f} {seconds[0] / other['compile_s']:6.2f}" if other else f"{seconds[0]:26.2f}"
            print(f"{case.name:28} {'fwd+bwd' if case.backward else 'fwd':8} {row['dtype']:9} {ms[0]:9.4f} {beside}", flush=True)
    both = [r for r in rows if "other_ms" in r]
    print(f"speed beside the other: {mean(r['other_ms'] / r['ms'] for r in both):.3f}, compile time: {mean(r['compile_s'] / r['other_compile_s'] for r in both):.3f} of the other's; "
          f"{len(both)} of {len(rows)} rows, {failed} failed, {os.cpu_count()} processors")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
