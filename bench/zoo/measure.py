"""Times the zoo's rows: both compilers in one process, in turns, the L2 cache flushed before each launch, results checked against torch.

On a GPU two measures: `burst`, the median of single launches with a cold cache, and for products `sustained`, launches in a row for a fifth of a second, where
the clock depends on the power that a kernel draws. On a CPU tegula alone has kernels; its peers are the references in numpy and torch.
"""
import collections
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from zoo import arrays, check, cubins, load, report
from zoo.quiet import quiet


class Gpu:
    """The current GPU by torch."""

    def __init__(self):
        import torch
        self.torch = torch
        self.maker = arrays.Torch("cuda")
        torch.set_default_device("cuda")  # of what references make
        self.flush = torch.empty(1 << 28, dtype=torch.int8, device="cuda")  # five times the L2
        torch.backends.cuda.matmul.allow_tf32 = False  # of the references

    def info(self):
        import tegula
        p = self.torch.cuda.get_device_properties(0)
        out = {"device": p.name, "torch": self.torch.__version__, "cuda": self.torch.version.cuda, "tegula": tegula.__version__, "assembler": tegula._core.assembler()}
        try:
            import triton
            out["triton"] = triton.__version__
        except ImportError:
            pass
        return out

    def compilers(self, folder=None):
        """{name: entries} of tegula, of Triton where it is installed, and of the code in `folder` that cubins.py made."""
        out = {"tegula": load.entries("tegula")}
        try:
            import triton
            triton.set_allocator(lambda size, align, stream: self.torch.empty(size, dtype=self.torch.int8, device="cuda"))
            out["triton"] = load.entries("triton")
            if folder:
                out["cubins"] = cubins.entries(folder)
        except ImportError as e:
            print(f"no Triton: {e}")
        return out

    def sync(self):
        self.torch.cuda.synchronize()

    def bursts(self, peers, rounds, before=None):
        """{peer: median seconds of a launch}; `before` goes before each launch, untimed."""
        times = {who: [] for who in peers}
        order = list(peers.items())
        for i in range(rounds + 2):
            # What ran before a kernel is worth half a per cent of its time, so each peer comes behind every other one.
            for who, f in order[i % len(order):] + order[:i % len(order)]:
                if before:
                    before()
                self.flush.zero_()
                begin, end = self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)
                begin.record()
                f()
                end.record()
                if i >= 2:
                    times[who].append((begin, end))
        self.sync()
        return {who: statistics.median(a.elapsed_time(b) for a, b in events) / 1e3 for who, events in times.items()}

    def sustained(self, peers, seconds=0.2, before=None):
        """{peer: seconds of a launch among many in a row}, the better of two turns; `before`, if there is one, is timed with each."""
        if before:
            peers = {who: lambda f=f: (before(), f()) for who, f in peers.items()}
        out = {}
        for _ in range(2):
            for who, f in peers.items():
                count = max(2, int(seconds / max(self.bursts({who: f}, 1)[who], 1e-6)))
                begin, end = self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)
                for _ in range(count // 2):
                    f()
                begin.record()
                for _ in range(count):
                    f()
                end.record()
                self.sync()
                out[who] = min(out.get(who, float("inf")), begin.elapsed_time(end) / 1e3 / count)
        return out


def launcher(row, config, a):
    """One call that launches all kernels of a spelling."""
    launches = row.spelling.launches(a, row.shape, config)
    bound = [(one.kernel[one.grid], one.args, one.options) for one in launches]

    def go():
        for f, args, options in bound:
            f(*args, **options)
    return go


def counting(maker, row, a):
    """What has to go before every launch, if anything: a kernel that finds its counter at the end has nothing to do."""
    if not row.entry.counters:
        return None
    return lambda: [maker.clear(getattr(a, n)) for n in row.entry.counters]


def measure_row(gpu, pair, rounds):
    """{configuration: {compiler: seconds or text}} and, for products, the sustained seconds of each compiler's best; `pair` is {compiler: Row}."""
    row = next(iter(pair.values()))
    a = arrays.made(gpu.maker, row.entry, row.shape, row.dtype)
    first = {n: gpu.maker.copy(getattr(a, n)) for n in {*row.entry.restored, *row.entry.zeroed, *row.entry.counters}}
    before = counting(gpu.maker, row, a)
    want = arrays.expected(gpu.maker, row.entry, a, row.shape)
    out, fast = {}, {}
    for config in row.spelling.configs_for(row.shape):
        cell, alive = {}, {}
        for who, mine in pair.items():
            try:
                for n, v in first.items():
                    gpu.maker.restore(getattr(a, n), v)
                for n in row.entry.outputs:
                    if n not in first:
                        gpu.maker.clear(getattr(a, n))
                go = launcher(mine, config, a)
                with quiet():
                    go()
                    gpu.sync()
                check.verify(row, a, gpu.maker, want)
                alive[who] = go
            except Exception as e:  # the row goes on with the others
                cell[who] = check.reason(e)
                if "illegal" in cell[who] or "device-side" in cell[who] or "misaligned" in cell[who]:
                    raise RuntimeError(f"{who}, {config}: {cell[who]}") from e  # the context is lost
        if alive:
            for who, seconds in gpu.bursts(alive, rounds, before).items():
                cell[who] = seconds
                if seconds < fast.get(who, (float("inf"),))[0]:
                    fast[who] = seconds, alive[who]
        out[str(config)] = cell
    record = {"name": row.name, "unit": row.entry.unit, "work": row.entry.work(row.shape, arrays.SIZES[row.dtype]), "configs": out}
    peers = {who: f for who, (_, f) in fast.items()}
    if row.entry.library:
        try:
            library = lambda: row.entry.library(gpu.torch, a, row.shape)
            library()
            record["library"] = gpu.bursts({"library": library}, rounds)["library"]
            peers["library"] = library
        except Exception as e:
            record["library"] = check.reason(e)
    if row.entry.sustained and peers:
        record["sustained"] = gpu.sustained(peers, before=before)
    return record


def compile_named():
    """Runs in a process of its own: compiles the configuration of each line of the input (a row's name, a tab, the configuration's place) by all compilers, so that
    the measuring process finds it in the disk caches, and answers each line by one."""
    import torch
    torch.set_default_device("cuda")
    answers, maker, name, a = os.dup(1), arrays.unset(arrays.Torch("cuda")), None, None
    os.dup2(2, 1)  # what kernels and compilers print is no answer
    tables = [{r.name: r for r in load.rows(load.entries(who))} for who in json.loads(sys.stdin.readline())]
    for line in sys.stdin:
        wanted, place = line.rstrip("\n").split("\t")
        try:
            if wanted != name:
                name = a = None
                torch.cuda.empty_cache()
                name, a = wanted, arrays.made(maker, tables[0][wanted].entry, tables[0][wanted].shape, tables[0][wanted].dtype)
        except Exception:
            name = None  # too little memory beside the other processes
        for row in [t[wanted] for t in tables] if name else ():
            try:
                for launch in row.spelling.launches(a, row.shape, row.spelling.configs_for(row.shape)[int(place)]):
                    launch.kernel.warmup(*launch.args, grid=launch.grid, **launch.options)
            except Exception:
                pass  # the measuring process says why
        os.write(answers, b"\n")


def compile_ahead(rows, compilers, jobs, seconds):
    """Fills the compilers' disk caches by `jobs` processes, for at most `seconds`; the names of the rows that are compiled whole. A process gets its next
    configuration when it is done with one, so that a kernel that takes a minute holds up nothing else."""
    script = "import sys; sys.path.insert(0, sys.argv[1]); from zoo import measure; measure.compile_named()"
    tasks = collections.deque((r.name, i) for r in rows for i in range(len(r.spelling.configs_for(r.shape))))
    wanted, done = set(tasks), set()
    processes, over = set(), threading.Event()

    def serve(_):
        process = None
        while tasks and not over.is_set():
            if process is None or process.poll() is not None:
                process = subprocess.Popen([sys.executable, "-c", script, str(load.HERE.parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                processes.add(process)
                process.stdin.write(json.dumps(compilers) + "\n")
            try:
                task = tasks.popleft()
            except IndexError:
                break
            try:
                process.stdin.write("%s\t%d\n" % task)
                process.stdin.flush()
                if process.stdout.readline():
                    done.add(task)
            except OSError:
                pass  # the process died by this one
        if process:
            process.kill()
            process.wait()

    def end():
        over.set()
        for p in list(processes):
            p.kill()
    timer = threading.Timer(seconds, end)
    timer.start()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(serve, range(jobs)))
    timer.cancel()
    return {name for name, _ in wanted} - {name for name, _ in wanted - done}


def keep(options, info, records):
    """Writes --json, where it is given."""
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": info, "rows": records}, indent=1) + "\n")


def on_gpu(options, chosen):
    gpu = Gpu()
    compilers = gpu.compilers(options.cubins)
    info = gpu.info()
    print(", ".join(f"{k} {v}" for k, v in info.items()), flush=True)
    start = time.time()
    tables = {who: {r.name: r for r in load.rows(t)} for who, t in compilers.items()}
    rows = chosen(tables["tegula"].values(), options.part, options.rows)
    jobs = options.jobs or os.cpu_count() or 1
    # At most half of the time. What is not compiled by then is compiled when its turn comes, behind everything else.
    ready = compile_ahead(rows, [who for who in compilers if who != "cubins"], jobs, options.seconds / 2)
    rows.sort(key=lambda r: r.name not in ready)
    print(f"{len(ready)} of {len(rows)} rows compiled in {time.time() - start:.0f} s by {jobs} processes", flush=True)
    records, left = [], 0
    for row in rows:
        if time.time() - start > options.seconds:
            left += 1
            continue
        try:
            records.append(measure_row(gpu, {who: t[row.name] for who, t in tables.items()}, options.rounds))
            report.show(records[-1])
        except Exception as e:
            records.append({"name": row.name, "error": check.reason(e)})
            report.show(records[-1])
            try:
                gpu.sync()
            except Exception:
                print("the GPU's context is lost; the rest of this part was not measured", flush=True)
                break
        keep(options, info, records)  # a row may never end
        gpu.torch.cuda.empty_cache()
    if left:
        print(f"{left} rows were not measured: {options.seconds:g} s are over")
    return info, records


def cpu_seconds(f, least=5, seconds=0.3):
    f()
    times, stop = [], time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < stop:
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
        if time.perf_counter() > stop + 10 * seconds:
            break
    return statistics.median(times)


def cpu_peers(row, a):
    """The reference in float32, by numpy (OpenBLAS does its products) and, where there is one, by torch, eager and compiled."""
    import numpy as np
    from types import SimpleNamespace
    maker = arrays.Numpy()
    wide = SimpleNamespace(**{k: maker.wide(v, np.float32) for k, v in vars(a).items()})
    peers = {"numpy": lambda: row.entry.reference(maker.x, wide, row.shape)}
    try:
        import torch
    except ImportError:
        return peers
    tensors = SimpleNamespace(**{k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in vars(wide).items()})
    x = arrays.Torch("cpu").x
    eager = lambda: row.entry.reference(x, tensors, row.shape)
    compiled = torch.compile(lambda arrays_by_name: row.entry.reference(x, SimpleNamespace(**arrays_by_name), row.shape))
    peers["torch"] = eager
    peers["torch.compile"] = lambda: compiled(vars(tensors))
    return peers


def distinct(configs):
    """One of those that differ only in what a CPU has no use for."""
    return list({str({k: v for k, v in vars(c).items() if k not in ("num_warps", "num_stages", "STAGES")}): c for c in reversed(configs)}.values())[::-1]


def on_cpu(options, chosen):
    import tegula
    info = {"device": "cpu", "tegula": tegula.__version__, "threads": os.environ.get("TEGULA_NUM_THREADS", os.cpu_count())}
    start, records = time.time(), []
    for row in chosen(load.rows(load.entries("tegula"), "cpu"), options.part, options.rows):
        if time.time() - start > options.seconds:
            print(f"stopped at {row.name}: {options.seconds:g} s are over")
            break
        maker = arrays.Numpy()
        record = {"name": row.name, "unit": row.entry.unit, "work": row.entry.work(row.shape, arrays.SIZES[row.dtype]), "configs": {}}
        a = arrays.made(maker, row.entry, row.shape, row.dtype)
        first = {n: maker.copy(getattr(a, n)) for n in {*row.entry.restored, *row.entry.zeroed, *row.entry.counters}}
        before = counting(maker, row, a)
        want, others = arrays.expected(maker, row.entry, a, row.shape), {}
        for who, f in cpu_peers(row, a).items():
            try:
                others[who] = cpu_seconds(f)
            except Exception as e:
                others[who] = check.reason(e)
        for config in distinct(row.spelling.configs_for(row.shape)):
            try:
                for n, v in first.items():
                    maker.restore(getattr(a, n), v)
                go = launcher(row, config, a)
                go()
                check.verify(row, a, maker, want)
                record["configs"][str(config)] = {"tegula": cpu_seconds((lambda f=go: (before(), f())) if before else go), **others}
            except Exception as e:
                record["configs"][str(config)] = {"tegula": check.reason(e), **others}
        records.append(record)
        report.show(record)
    return info, records


def on_gpus(options):
    """The rows in as many parts as there are GPUs, each part by a process with a GPU, a share of the cores and disk caches of its own. What they print is in
    files beside --json; what they measured comes back as one run."""
    count = options.gpus
    jobs = options.jobs or max(1, (os.cpu_count() or 1) // count)
    stop = time.time() + options.seconds + 30  # for the row under way
    with tempfile.TemporaryDirectory() as folder:
        stem = Path(options.json).with_suffix("") if options.json else Path(folder) / "zoo"
        running = []
        for k in range(count):
            out = stem.with_name(f"{stem.name}.{k + 1}of{count}")
            env = dict(os.environ, CUDA_VISIBLE_DEVICES=str(k), TEGULA_CACHE_DIR=f"{folder}/tegula{k}", TRITON_CACHE_DIR=f"{folder}/triton{k}")
            log = open(f"{out}.txt", "w")
            running.append((out, log, subprocess.Popen([sys.executable, load.HERE / "run.py", "--part", f"{k + 1}/{count}", "--rows", options.rows, "--seconds", str(options.seconds),
                                                        "--jobs", str(jobs), "--rounds", str(options.rounds), "--json", f"{out}.json",
                                                        *(["--cubins", options.cubins] if options.cubins else [])], env=env, stdout=log, stderr=log)))
        info, records = {}, []
        for out, log, process in running:
            try:
                process.wait(max(1, stop - time.time()))
            except subprocess.TimeoutExpired:  # what it measured until now is kept
                process.kill()
                process.wait()
            log.close()
            try:
                part = json.loads(Path(f"{out}.json").read_text())
            except OSError:
                print(f"no report of {out.name}:\n" + "\n".join(Path(f"{out}.txt").read_text().splitlines()[-5:]))
                records.append({"name": out.name, "error": "no report"})
                continue
            Path(f"{out}.json").unlink()
            info = info or part["machine"]
            records += part["rows"]
    if not info:
        sys.exit("no part has a report")
    for record in sorted(records, key=lambda r: r["name"]):
        report.show(record)
    return info, records


def main(options, chosen):
    info, records = on_gpus(options) if options.gpus > 1 else (on_gpu if options.device == "cuda" else on_cpu)(options, chosen)
    info["date"] = time.strftime("%Y-%m-%d %H:%M")
    summary = report.summary(records, "triton" if options.device == "cuda" else "numpy")
    print(summary)
    report.compare_with_ledger(info, records, record=options.record)
    keep(options, info, records)
    if options.picture:
        report.picture(info, records, options.picture)
    return 1 if any(report.failed(r) for r in records) else 0
