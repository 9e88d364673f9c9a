#!/usr/bin/env python3
"""Milliseconds of cold compilations for a GPU that need not be there, from source to cubin, tegula beside Triton: `cold.py [--rows TEXT] [--rounds N]`.

The kernels are those of the zoo (bench/zoo/kernels), each by one configuration of ROWS, or by all of them (`--all`). Both compilers are given the same
description of the arguments, which Triton's launcher makes (`compile(ASTSource, GPUTarget)` in both); tegula is told as well what its launches know of host
descriptors, without which it compiles stores for rows that end anywhere. A round starts a process for each compiler, which
compiles an empty kernel first; then both compile the same row one after the other, each first in half of the rows. No cache is read. Wall and processor
time (child processes included: Triton's assembler is one) are the least of all rounds; the assembler's part is that of the least wall time.
Needs an environment with Triton and torch, and tegula on PYTHONPATH. $TEGULA_NVJITLINK, $TEGULA_PTXAS and $TRITON_PTXAS_PATH ($TRITON_PTXAS_BLACKWELL_PATH from Triton 3.9 on) choose the assemblers.
"""
import argparse
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# How a row's name begins, number of a configuration. Triton 3.9 has no block pointers any more, and takes a minute for `tl.topk` of rows of 4096.
ROWS = [("add / pointers", 1), ("softmax / one block", 1), ("softmax / online", 1), ("layer norm / one block", 0), ("layer norm / loops", 1),
        ("layer norm backward", 1), ("cross entropy / online", 1), ("cross entropy backward", 1), ("matmul / pointers, modulo", 2), ("matmul / pointers, masks", 2),
        ("matmul / persistent pointers", 1), ("matmul / descriptors in the kernel", 2), ("matmul B transposed / persistent /", 2), ("matmul B transposed / persistent, warp", 1),
        ("matmul fp8 by blocks of 128", 1), ("matmul w4a16 / pointers", 1), ("matmul swiglu", 1), ("grouped matmul (experts)", 1), ("attention / host descriptors, k.T", 1),
        ("attention causal / host descriptors, k.T", 1), ("attention causal / pointers", 1),
        ("attention backward / one kernel", 1), ("attention backward dq", 1), ("paged decode", 1), ("gated recurrence / associative", 1), ("linear attention with decay", 1),
        ("selective state space", 1), ("top-k of a router", 1), ("sort of rows", 1), ("rotary halves", 1), ("random normal", 1), ("convolution / one loop", 1), ("cumsum of rows / blocks", 1)]


def chosen(text, every):
    """(number of the row, number of the configuration, name) of what is compiled; the same in all processes."""
    from zoo import load
    rows = list(load.rows(load.entries("triton")))
    wanted = [(r, i) for r in range(len(rows)) for i in range(len(rows[r].spelling.configs_for(rows[r].shape)))] if every else []
    for start, i in [] if every else ROWS:
        r = next((r for r, row in enumerate(rows) if row.name.startswith(start)), None)
        if r is None:
            sys.exit(f"no row of the zoo is named {start}...")
        wanted.append((r, min(i, len(rows[r].spelling.configs_for(rows[r].shape)) - 1)))
    names = [(r, i, f"{rows[r].name} / {rows[r].spelling.configs_for(rows[r].shape)[i]}") for r, i in wanted]
    return [n for n in names if load.is_named(n[2], text)]


# ---- one compiler's process: a request a line, (row, configuration, descriptions); an answer a line


class NoDriver:
    """Stands for Triton's driver where there is no GPU: what its launcher asks before it compiles."""

    def __init__(self, target):
        self.target = target
        self.utils = self

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=0):
        return 0

    def get_active_torch_device(self):
        import torch
        return torch.device("cpu")

    def get_device_properties(self, device):
        return {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32, "max_num_regs": 65536}


def launches(rows, row, config):
    from zoo import arrays
    import torch
    maker = arrays.unset(arrays.Torch("cpu"))
    maker.empty = maker.zeros = lambda shape, dtype="fp32": torch.empty(shape, device="meta", dtype=maker.dtypes[dtype])
    maker.array = lambda values, dtype="int32": maker.empty((len(values), ), dtype)
    r = rows[row]
    return r.spelling.launches(arrays.made(maker, r.entry, r.shape, r.dtype), r.shape, r.spelling.configs_for(r.shape)[config])


def described(rows, row, config):
    """What Triton's launcher would compile: (signature, constants, facts, options) of each launch."""
    import triton
    found = []

    def keep(self, key, signature, device, constexprs, options, attrs, warmup):
        found.append((signature, constexprs, attrs, dict(options.__dict__)))

    saved = triton.runtime.jit.JITFunction._do_compile
    triton.runtime.jit.JITFunction._do_compile = keep
    try:
        for launch in launches(rows, row, config):
            launch.kernel.warmup(*launch.args, grid=launch.grid, **launch.options)
    finally:
        triton.runtime.jit.JITFunction._do_compile = saved
    return found


def divided(descriptor):
    """What a launch of tegula knows of a host descriptor, and Triton's key does not say: that 16 divides its extents and strides."""
    return ":16" if all(n % 16 == 0 for n in (*descriptor.shape, *descriptor.strides[:-1])) else ""


class TegulaSide:

    def __init__(self, target):
        import tegula
        from tegula.backends.compiler import GPUTarget
        self.compiler, self.target, self.core = tegula.compiler, GPUTarget(*target), tegula._core

    def compile(self, fn, description, args=()):
        """Milliseconds of the assembler."""
        signature, constants, facts, options = description
        known = {name: code + divided(x) for (name, code), x in zip(signature.items(), args) if str(code).startswith("tensordesc")}
        kernel = self.compiler.compile(self.compiler.ASTSource(fn, {**signature, **known}, constants, facts), self.target, options)
        assert kernel.stage("cubin")[:4] == b"\x7fELF"
        return kernel.timings_ns()["assemble"] / 1e6

    def about(self):
        return self.core.assembler()


class TritonSide:

    def __init__(self, target):
        import triton
        from triton.backends.compiler import GPUTarget
        self.compiler, self.target = triton.compiler, GPUTarget(*target)
        triton.runtime.driver.set_active(NoDriver(self.target))
        triton.set_allocator(lambda size, align, stream: None)
        self.times, self.knobs = None, triton.knobs
        self.knobs.compilation.listener = lambda *, times, cache_hit, **rest: setattr(self, "times", times)

    def compile(self, fn, description, args=()):
        signature, constants, facts, options = description
        kernel = self.compiler.compile(self.compiler.ASTSource(fn, signature, constants, facts), self.target, options)
        assert kernel.asm["cubin"][:4] == b"\x7fELF"
        return dict(self.times.lowering_stages)["cubin"] / 1e3

    def about(self):
        from triton.backends.nvidia.compiler import get_ptxas
        return "ptxas " + get_ptxas(self.target.arch).version  # Triton 3.9 has two, and takes the newer one from sm_90 on


def processor():
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def serve(who, target):
    sys.path.insert(0, str(HERE))
    answers, sys.stdout = sys.stdout, sys.stderr
    from sources import load_as
    from zoo import load
    side = {"tegula": TegulaSide, "triton": TritonSide}[who](target)
    rows = list(load.rows(load.entries(who)))
    empty = load_as(f"gpu_kernels_{who}", HERE / "gpu_kernels.py", load.aliases(who)).empty0
    options = {"num_warps": 4}
    side.compile(empty, ({}, {}, {}, options))
    print(json.dumps(side.about()), file=answers, flush=True)
    for line in sys.stdin:
        row, config, descriptions = json.loads(line)
        try:
            if descriptions is None:
                answer = pickle.dumps(described(rows, row, config)).hex()
            else:
                made = pickle.loads(bytes.fromhex(descriptions))
                wanted = launches(rows, row, config)
                cpu, start = processor(), time.perf_counter()
                assembler = sum(side.compile(w.kernel, d, w.args) for w, d in zip(wanted, made, strict=True))
                answer = [(time.perf_counter() - start) * 1e3, (processor() - cpu) * 1e3, assembler]
        except Exception as e:  # the next row may work
            answer = {"error": f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"}
        print(json.dumps(answer), file=answers, flush=True)


# ---- both, in turns


class Process:

    def __init__(self, who, a, cache):
        env = {**os.environ, "TEGULA_CACHE_DIR": "", "TRITON_CACHE_DIR": cache, "TRITON_ALWAYS_COMPILE": "1", "CUDA_CACHE_DISABLE": "1"}
        self.process = subprocess.Popen([sys.executable, __file__, "--serve", who, "--target", a.target], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = json.loads(self.process.stdout.readline())

    def ask(self, *request):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--serve", choices=("tegula", "triton"), help=argparse.SUPPRESS)
    p.add_argument("--target", default="sm_90a")
    p.add_argument("--rows", default="", metavar="TEXT", help="only rows whose name contains TEXT, or one of several: TEXT|TEXT")
    p.add_argument("--all", action="store_true", help="every row and configuration of the zoo")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--compilers", default="tegula,triton")
    p.add_argument("--json", metavar="FILE")
    a = p.parse_args()
    target = "cuda", int(a.target.removeprefix("sm_").rstrip("af")), 32
    if a.serve:
        return serve(a.serve, target)
    sys.path.insert(0, str(HERE))
    rows, sides = chosen(a.rows, a.all), a.compilers.split(",")
    best = {name: {} for _, _, name in rows}
    descriptions = {}
    with tempfile.TemporaryDirectory() as cache:
        for turn in range(a.rounds):
            running = {who: Process(who, a, cache) for who in ("tegula", "triton") if who in sides or who == "triton" and not turn}
            if not turn:
                print(", ".join(f"{who}: {r.about}" for who, r in running.items()))
                descriptions = {name: running["triton"].ask(r, i, None) for r, i, name in rows}
            order = random.Random(turn).sample(rows, len(rows))
            for at, (r, i, name) in enumerate(order):
                for who in sides if (at + turn) % 2 else sides[::-1]:
                    made = descriptions[name] if isinstance(descriptions[name], dict) else running[who].ask(r, i, descriptions[name])
                    was = best[name].get(who)
                    if isinstance(made, dict) or isinstance(was, dict):
                        best[name][who] = made if isinstance(made, dict) else was
                    elif was is None:
                        best[name][who] = made
                    else:
                        best[name][who] = [min(was[0], made[0]), min(was[1], made[1]), min(was, made)[2]]
            for process in running.values():
                process.end()
    report(best, sides)
    if a.json:
        Path(a.json).write_text(json.dumps(best, indent=1))
    return 0


def report(best, sides):
    from zoo.report import geomean
    ratios = []
    print(f"{'ms: wall, processor, of it the assembler':88} " + " ".join(f"{who:>22}" for who in sides) + "  ratio: wall, processor")
    for name, made in best.items():
        values = [made.get(who, {"error": "not run"}) for who in sides]
        text = " ".join(f"{v[0]:7.1f} {v[1]:7.1f} {v[2]:6.1f}" if isinstance(v, list) else v["error"][:60] for v in values)
        if len(values) == 2 and all(isinstance(v, list) for v in values):
            ratios.append((values[0][0] / values[1][0], values[0][1] / values[1][1]))
            text += "  {:.3f} {:.3f}".format(*ratios[-1])
        print(f"{name[:88]:88} {text}")
    if ratios:
        print(f"geometric mean of {len(ratios)} ratios: wall {geomean(r[0] for r in ratios):.3f}, processor {geomean(r[1] for r in ratios):.3f}; "
              f"largest {max(r[0] for r in ratios):.3f}, {max(r[1] for r in ratios):.3f}")


if __name__ == "__main__":
    sys.exit(main())
