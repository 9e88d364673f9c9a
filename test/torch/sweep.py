"""The tables of this folder in processes side by side: every row is done, whatever the others do, within a given time; one table comes last.

`python test/torch/sweep.py [--device cuda] [--jobs N] [--seconds S] [--every N] [--pairs N] [--only check|time] [--out FILE] [part of a name ...]`

First each row is compared with eager PyTorch (and the programs of test_programs.py are run), in `--jobs` processes; then rows are measured beside the other compiler
(CPUs: Inductor's C++; GPUs: the Triton that is installed), by `--pairs` pairs of processes, of which one at a time measures. A row that fails, takes too long or ends its process is
a row that failed. What no time was left for is `not run`. Needs no PyTorch in this process. Exit status 1: a row failed.
"""
import argparse
import collections
import json
import math
import os
import queue
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MEASURED = ("operator", "large")


class Process:
    """worker.py, started again when it has ended. Not for several threads."""

    def __init__(self, alias, env, log):
        self.command = [sys.executable, *(["-m", "tegula"] if alias else []), str(HERE / "worker.py")]
        self.env, self.log, self.running = env, log, None

    def _start(self):
        self.started = os.fstat(self.log.fileno()).st_size
        self.running = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=self.env, start_new_session=True)

    def _said(self):
        with open(self.log.name, "rb") as file:
            file.seek(max(self.started, os.fstat(self.log.fileno()).st_size - 3000))
            return file.read().decode(errors="replace")

    def ask(self, limit, **task):
        """The answer; {"ok": False, "error": ...} after so many seconds or when the process ends."""
        if self.running is None:
            self._start()
        until = time.monotonic() + limit
        try:
            self.running.stdin.write(json.dumps(task).encode() + b"\n")
            self.running.stdin.flush()
            line = b""
            while not line.endswith(b"\n"):
                if not select.select([self.running.stdout], [], [], max(0, until - time.monotonic()))[0]:
                    self.end()
                    return {"ok": False, "error": f"timed out after {limit:.0f} s", "timeout": True, "trace": self._said()}
                read = os.read(self.running.stdout.fileno(), 1 << 20)
                if not read:
                    raise BrokenPipeError
                line += read
            answer = json.loads(line)
        except (BrokenPipeError, ConnectionError):
            code = self.running.wait()
            self.end()
            return {"ok": False, "error": f"the process ended with {code}: {' '.join(self._said().split())[-300:]}", "trace": self._said()}
        if answer.get("lost"):
            self.end()
        return answer

    def end(self):
        if self.running is not None:
            try:
                os.killpg(self.running.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.running.wait()
            self.running.stdin.close()
            self.running.stdout.close()
            self.running = None


class Sweep:
    def __init__(self, options):
        self.options, self.begin = options, time.monotonic()
        self.folder = Path(tempfile.mkdtemp())
        self.rows = collections.OrderedDict()
        self.env = dict(os.environ, TEGULA_TEST_TORCH_DEVICE=options.device, PYTHONDONTWRITEBYTECODE="1", TEGULA_CACHE_DIR="")
        self.counter, self.lock = 0, threading.Lock()

    def process(self, alias, threads, keep=False):
        """`keep`: compiled kernels are kept on the disk."""
        with self.lock:
            self.counter += 1
            name = f"{self.counter}-{'tegula' if alias else 'other'}"
        env = dict(self.env, TORCHINDUCTOR_CACHE_DIR=str(self.folder / name), TORCHINDUCTOR_COMPILE_THREADS=str(threads))
        if threads > 1:
            env["OMP_NUM_THREADS"] = str(threads)
        if keep:
            env["TEGULA_CACHE_DIR"] = str(self.folder / f"{name}-kernels")
        if not alias:
            env = {k: v for k, v in env.items() if k != "PYTHONPATH"}
        return Process(alias, env, open(self.folder / f"{name}.log", "ab"))

    def left(self, until):
        return until - (time.monotonic() - self.begin)

    def list(self):
        """Fills self.rows; gives what this and the other compiler are."""
        processes, answers = [self.process(True, 1), self.process(False, 1)], [None, None]
        asked = [threading.Thread(target=lambda i: answers.__setitem__(i, processes[i].ask(300, do="list")), args=(i,)) for i in range(2)]
        for t in asked:
            t.start()
        programs = self.programs() if self.options.only != "time" else []
        for t, p in zip(asked, processes):
            t.join()
            p.end()
        ours, other = answers
        if not ours["ok"]:
            sys.exit(f"sweep: {ours['error']}\n{ours.get('trace', '')}")
        wanted = [tuple(r) for r in ours["rows"]] + [("program", name, "") for name in programs]
        if self.options.names:
            wanted = [r for r in wanted if any(n in r[1] for n in self.options.names)]
        for kind in dict.fromkeys(r[0] for r in wanted):
            rows = [r for r in wanted if r[0] == kind]
            self.rows.update({r: {"kind": kind, "name": r[1], "dtype": r[2]} for r in (rows[::self.options.every] if kind in MEASURED else rows)})
        return {"torch": ours["torch"], "gpu": ours["gpu"], "other": other.get("triton") if other["ok"] else None, "other_error": None if other["ok"] else other["error"]}

    def programs(self):
        """The names of the programs' tests."""
        done = subprocess.run([sys.executable, "-m", "tegula", "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "test_programs.py"], cwd=HERE, env=self.env,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        found = [line.strip().partition("::")[2] for line in done.stdout.splitlines() if "::" in line]
        if not found:
            print(f"no programs: {done.stdout[-2000:]}", flush=True)
        return found

    def in_threads(self, work, count):
        """Runs work(give): give() is the next process of its own; all of them end with it."""
        def run():
            processes = []

            def give(*of):
                processes.append(self.process(*of))
                return processes[-1]

            try:
                work(give)
            finally:
                for process in processes:
                    process.end()

        threads = [threading.Thread(target=run) for _ in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def run_program(self, name, seconds):
        cmd = [sys.executable, "-m", "tegula", "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", f"test_programs.py::{name}"]
        process = subprocess.Popen(cmd, cwd=HERE, env=dict(self.env, TORCHINDUCTOR_CACHE_DIR=str(self.folder / "programs")), text=True, errors="replace", stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            said = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return {"ok": False, "error": f"timed out after {seconds:.0f} s", "timeout": True, "trace": process.communicate()[0][-6000:]}
        last = said.splitlines()[-1] if said.strip() else ""
        if process.returncode == 0:
            return {"ok": True, "skipped": "skipped" in last and "passed" not in last}
        errors = [line for line in said.splitlines() if line.startswith("E ")]
        return {"ok": False, "error": " ".join((errors[-1] if errors else last).split())[:300], "trace": said[-6000:]}

    def check(self, until):
        """Every row beside eager PyTorch."""
        first = {"program": 0, "model": 1}
        rows = list(self.rows)
        random.Random(0).shuffle(rows)  # if time ends, what was done is a sample
        rows.sort(key=lambda r: (first.get(r[0], 3), "template" not in r[1]))
        waiting = queue.SimpleQueue()
        for row in rows:
            waiting.put(row)

        def work(give):
            process = give(True, 1)
            while self.left(until) > 5:
                try:
                    row = waiting.get_nowait()
                except queue.Empty:
                    break
                limit = min(self.options.row_seconds, self.left(until))
                answer = self.run_program(row[1], limit) if row[0] == "program" else process.ask(limit, do="check", row=row)
                if answer.get("timeout") and limit < self.options.row_seconds:
                    continue  # there was no time for it: no failure
                self.rows[row].update(check="skipped" if answer.get("skipped") else "ok" if answer["ok"] else "FAILED", off=answer.get("off"), check_s=answer.get("seconds"))
                if not answer["ok"]:
                    self.rows[row].update(error=answer["error"], trace=answer.get("trace"))
                    print(f"{row[0]} {row[1]} {row[2]}: {first_line(answer['error'])}", flush=True)

        self.in_threads(work, min(self.options.jobs, len(rows)))

    def time(self, until):
        """Rows beside the other compiler; rows of both kinds in turn."""
        rows = [r for r in self.rows if r[0] in MEASURED and self.rows[r].get("check") != "FAILED"]
        random.Random(1).shuffle(rows)
        rows.sort(key=lambda r: r[0] != "large")
        waiting, measuring = queue.SimpleQueue(), threading.Lock()
        for row in rows:
            waiting.put(row)
        threads = max(1, (self.options.jobs + 1) // self.options.pairs) if self.options.pairs > 1 else self.options.jobs + 1

        def work(give):
            pair = [give(True, threads, self.options.rest), give(False, threads)]
            for p in pair:  # what the first compilation of all pays for
                p.ask(min(180, max(1, self.left(until))), do="compile", row=("operator", "add", "float32"))
            while self.left(until) > 5:
                try:
                    row = waiting.get_nowait()
                except queue.Empty:
                    break
                limit = lambda: max(1, min(self.options.row_seconds, self.left(until)))
                answers = [p.ask(limit(), do="compile", row=row) for p in pair]
                best = [{}, {}]
                with measuring:
                    for turn in range(2):
                        for k, p in enumerate(pair):
                            if answers[k]["ok"]:
                                a = p.ask(limit(), do="measure", seconds=self.options.row_measure / 2)
                                if a["ok"]:
                                    best[k] = {m: min(a[m], best[k].get(m, math.inf)) for m in ("ms", "gpu_ms") if m in a}
                                else:
                                    answers[k] = a
                if any(a.get("timeout") for a in answers) and self.left(until) <= 5:
                    break
                found = self.rows[row]
                for prefix, answer, times in zip(("", "other_"), answers, best):
                    if answer["ok"]:
                        found.update({f"{prefix}{k}": v for k, v in {"compile_s": answer["compile_s"], **times, **({"rest_s": answer["rest_s"]} if "rest_s" in answer else {})}.items()}, backward=answer["backward"])
                    else:
                        found[f"{prefix}time_error"] = answer["error"]
                        print(f"{'the other compiler: ' if prefix else ''}{row[0]} {row[1]} {row[2]} measured: {first_line(answer['error'])}", flush=True)

        self.in_threads(work, max(1, min(self.options.pairs, len(rows))))


def first_line(text):
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def number(value, form):
    return format(value, form) if value is not None else "-".rjust(int(form.partition(".")[0]))


def table(rows):
    """Lines: one for each row, what failed, means."""
    lines = [f"{'row':32} {'dtype':9} {'beside eager':13} {'off':>6} {'ms':>9} {'other':>9} {'speed':>6} {'gpu ms':>9} {'other':>9} {'speed':>6} {'compile s':>9} {'other':>7} {'ratio':>6}"]
    ratio = lambda r, a, b: r[a] / r[b] if r.get(a) and r.get(b) else None
    for r in rows:
        lines.append(f"{r['name'][-32:]:32} {r['dtype']:9} {r.get('check', 'not run'):13} {number(r.get('off'), '6.3f')} {number(r.get('ms'), '9.4f')} {number(r.get('other_ms'), '9.4f')} "
                     f"{number(ratio(r, 'other_ms', 'ms'), '6.2f')} {number(r.get('gpu_ms'), '9.4f')} {number(r.get('other_gpu_ms'), '9.4f')} "
                     f"{number(ratio(r, 'other_gpu_ms', 'gpu_ms'), '6.2f')} {number(r.get('compile_s'), '9.2f')} {number(r.get('other_compile_s'), '7.2f')} "
                     f"{number(ratio(r, 'compile_s', 'other_compile_s'), '6.2f')}")
    counts = collections.Counter((r["kind"], r.get("check", "not run")) for r in rows)
    lines += [f"{r['kind']} {r['name']} {r['dtype']}: {first_line(r['error'])}" for r in rows if "error" in r]
    lines.append("; ".join(f"{kind}: " + ", ".join(f"{n} {what}" for (k, what), n in sorted(counts.items()) if k == kind) for kind in dict.fromkeys(r["kind"] for r in rows)))
    for kind in MEASURED:
        of = [r for r in rows if r["kind"] == kind]
        wall, gpu, made = ([x for r in of if (x := ratio(r, *names))] for names in (("other_ms", "ms"), ("other_gpu_ms", "gpu_ms"), ("compile_s", "other_compile_s")))
        if wall:
            lines.append(f"{kind}, beside the other compiler: speed {mean(wall):.3f} ({len(wall)} rows), on the GPU alone {mean(gpu):.3f} ({len(gpu)} rows), compile time {mean(made):.3f}")
        rest = [r for r in of if r.get("rest_s") and r.get("other_compile_s", 0) > r["rest_s"]]
        if rest:
            least, own = mean(r["rest_s"] / r["other_compile_s"] for r in rest), sum(max(0, r["compile_s"] - r["rest_s"]) for r in rest) / sum(r["other_compile_s"] - r["rest_s"] for r in rest)
            lines.append(f"{kind}, compile time with kernels from the disk: {least:.3f} of the other's, which a compiler that takes no time would reach; beyond it all rows together {own:.3f} ({len(rest)} rows)")
    return lines


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("names", nargs="*")
    p.add_argument("--device", default=os.environ.get("TEGULA_TEST_TORCH_DEVICE", "cpu"))
    p.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    p.add_argument("--pairs", type=int, default=1, help="pairs of processes that compile what is measured; with 1, each may use all cores")
    p.add_argument("--seconds", type=float, default=600, help="for all of it")
    p.add_argument("--row-seconds", type=float, default=120, help="the longest that one row may take")
    p.add_argument("--row-measure", type=float, default=0.3, help="seconds of measuring a row, for each compiler")
    p.add_argument("--every", type=int, default=1, help="one of so many rows")
    p.add_argument("--rest", action="store_true", help="compile each row twice, the second time with its kernels on the disk: the part of compile time that is PyTorch's own")
    p.add_argument("--only", choices=("check", "time"))
    p.add_argument("--out", help="a JSON file")
    options = p.parse_args()
    sweep = Sweep(options)
    try:
        found = sweep.list()
        if options.only != "time":
            sweep.check(options.seconds * (1 if options.only else 0.5))
        print(f"checked after {time.monotonic() - sweep.begin:.0f} s", flush=True)
        if options.only != "check":
            sweep.time(options.seconds)
        rows = list(sweep.rows.values())
        lines = table(rows)
        print(f"torch {found['torch']}, {found['gpu'] or 'cpu'}, the other compiler: {found['other'] or found['other_error'] or 'C++'}; {time.monotonic() - sweep.begin:.0f} s, {options.jobs} processes, "
              f"{options.pairs} pairs")
        print("\n".join(lines), flush=True)
        if options.out:
            Path(options.out).write_text(json.dumps({**found, "seconds": time.monotonic() - sweep.begin, "rows": rows, "lines": lines[len(rows) + 1:]}, indent=1) + "\n")
        return int(any(r.get("check") == "FAILED" or "time_error" in r for r in rows))
    finally:
        shutil.rmtree(sweep.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
