"""Runs the programs of many seeds on some devices in several processes, shrinks what fails, writes a report.

    soak.py --seeds 0..1000000 --devices cpu,sim --jobs 16 --seconds 3600 --out soak.json

Needs numpy, ml_dtypes and the Python extension of tegula (PYTHONPATH, or the folder that scripts/gpu-check finds).
Devices: cpu, cpu:NAME (an instruction set that `tegula info` lists), sim, interpreter, cuda, cuda:N. A device that this machine
lacks is left out with its reason.
A process that crashes or hangs is a finding with its seed. Continues where it stopped if --out exists and is of the
same
seeds. Ends with `N passed, N failed`: programs times devices."""
import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def find_package():
    """Puts tegula's package on the path of this process and its children, if it is not there already."""
    root = HERE.parent.parent
    found = next((p for p in (root / "python", root / "build/python") if list((p / "tegula").glob("_core*.so"))), None)
    if found and "tegula" not in os.environ.get("PYTHONPATH", ""):
        sys.path.insert(0, str(found))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(found)] +
                                                   os.environ.get("PYTHONPATH", "").split(os.pathsep)).rstrip(
                                                       os.pathsep)


def normal(text):
    """A program's text without numbers, so that one bug's programs are mostly one."""
    return re.sub(r"\d+", "#", "\n".join(line for line in text.splitlines() if not line.startswith("#")))


class Soak:

    def __init__(self, o):
        self.o = o
        self.lock = threading.Lock()
        self.groups = {}
        devices = o.devices.split(",")
        for d in devices:
            if d.startswith("cpu"):
                self.groups[d if d != "cpu" else ""] = ["cpu"]
        # An instruction set is a process's; the other devices go with the first one, so that a program is made once for them.
        shared = self.groups.setdefault(next(iter(self.groups), ""), [])
        shared += [d for d in devices if not d.startswith("cpu")]
        self.state = {
            "seeds": f"{o.seeds.start}..{o.seeds.stop}",
            "devices": o.devices,
            "without": o.without,
            "next": o.seeds.start,
            "seconds": 0.0,
            "programs": 0,
            "passed": {},
            "failed": {},
            "skipped": {},
            "findings": []
        }
        self.out = Path(o.out) if o.out else None
        if self.out and self.out.exists():
            old = json.loads(self.out.read_text())
            if all(old[k] == self.state[k] for k in ("seeds", "devices", "without")):
                self.state = old
                print(f"continues at seed {old['next']}", flush=True)
        self.before = self.state["seconds"]
        self.start = time.monotonic()
        self.queue = iter(range(self.state["next"], o.seeds.stop))
        self.running = set()
        self.shrunk = {}
        self.saved = self.start

    def late(self):
        return self.o.seconds and time.monotonic() - self.start > self.o.seconds

    def end(self):
        """When programs that still run are given up. A kernel of `+parts` can take the assembler of GPUs a minute."""
        return self.start + self.o.seconds + self.o.grace if self.o.seconds else float("inf")

    def take(self):
        with self.lock:
            s = None if self.late() else next(self.queue, None)
            if s is not None:
                self.running.add(s)
                self.highest = s
            return s

    def finish(self, seed, results):
        with self.lock:
            self.running.discard(seed)
            st = self.state
            st["programs"] += 1
            for d, r in results.items():
                kind = "passed" if r is None else "skipped" if isinstance(r, str) else "failed"
                st[kind][d] = st[kind].get(d, 0) + 1
            st["next"] = min(self.running, default=self.highest + 1)
            now = time.monotonic()
            if now - self.saved > 10:
                self.saved = now
                self.save()
                print(
                    f"  {st['programs']} programs, {sum(st['failed'].values())} failures, "
                    f"{(now - self.start) and st['programs'] / (self.before + now - self.start):.1f} programs/s",
                    flush=True)

    def save(self):
        self.state["seconds"] = self.before + time.monotonic() - self.start
        if self.out:
            tmp = self.out.with_suffix(".tmp")
            tmp.write_text(json.dumps(self.state, indent=1) + "\n")
            tmp.replace(self.out)

    def found(self, seed, device, failure):
        """Notes a failure; the first few of each signature are shrunk."""
        signature = f"{device.split(':')[0]} {failure.signature()}"
        with self.lock:
            count = self.shrunk[signature] = self.shrunk.get(signature, 0) + 1
            what = failure.signature() if failure.kind == "error" else f"{failure.kind}: {failure.text.splitlines()[0]}"
            print(f"seed {seed} on {device}{f' (variant {failure.variant})' if failure.variant else ''}: {what}", flush=True)
        program = ""
        if count <= self.o.shrink and failure.kind != "generator":
            program = self.shrink(seed, device, failure.variant)
        elif failure.kind == "generator":
            program = failure.text
        with self.lock:
            for f in self.state["findings"]:
                if f["signature"] == signature and (not program or normal(f["program"]) == normal(program)):
                    f["seeds"].append([seed, device])
                    return
            self.state["findings"].append({
                "signature": signature,
                "failure": failure.text[:4000],
                "program": program,
                "seeds": [[seed, device]]
            })

    def shrink(self, seed, device, variant):
        cmd = [
            sys.executable,
            str(HERE / "shrink.py"), "--seed",
            str(seed), "--device", device, "--seconds",
            str(self.o.shrink_seconds), "--without", self.o.without, "--variant",
            str(variant)
        ]
        try:
            p = subprocess.run(cmd,
                               text=True,
                               errors="replace",
                               stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT,
                               timeout=4 * self.o.shrink_seconds + 120)
            return p.stdout
        except subprocess.TimeoutExpired:
            return "shrinking did not end"

    def work(self):
        from run import Failure, Worker
        workers = {t: Worker(self.o.timeout, target=t, end=self.end()) for t in self.groups}
        try:
            while (seed := self.take()) is not None:
                results = {}
                for t, devices in self.groups.items():
                    for d, r in workers[t].seed(seed, devices, self.o.without.split(","), self.o.variants).items():
                        results[t if t and d == "cpu" else d] = r
                for d, r in results.items():
                    if isinstance(r, Failure):
                        self.found(seed, d, r)
                    elif r is not None and time.monotonic() > self.end():
                        print(f"seed {seed} on {d}: {r}", flush=True)
                self.finish(seed, results)
        finally:
            for w in workers.values():
                w.stop()

    def probe(self):
        """Leaves out the devices that this machine lacks."""
        from run import Failure, Worker
        for t, devices in list(self.groups.items()):
            for d in list(devices):
                w = Worker(self.o.timeout, target=t)
                answer, _ = w.ask(("available", d))
                w.stop()
                if answer is not None:
                    text = answer.text if isinstance(answer, Failure) else answer
                    print(f"SKIPPED {t if t and d == 'cpu' else d}: {text}", flush=True)
                    devices.remove(d)
            if not devices:
                del self.groups[t]
        return bool(self.groups)

    def run(self):
        if not self.probe():
            return 1
        threads = [threading.Thread(target=self.work) for _ in range(self.o.jobs)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.save()
        return self.report()

    def report(self):
        st = self.state
        for f in sorted(st["findings"], key=lambda f: -len(f["seeds"])):
            seeds = ", ".join(
                f"{s} ({d})"
                for s, d in f["seeds"][:8]) + (f" and {len(f['seeds']) - 8} more" if len(f["seeds"]) > 8 else "")
            print(f"\n--- {f['signature']}: seeds {seeds}\n{f['program'] or f['failure']}")
        print(
            f"\n{st['programs']} programs (seeds {st['seeds']}, next {st['next']}) in {st['seconds']:.0f} s, "
            f"{st['programs'] / max(st['seconds'], 1e-9):.1f} programs/s "
            f"with {self.o.jobs} jobs; skipped: {st['skipped'] or 'none'}")
        passed, failed = sum(st["passed"].values()), sum(st["failed"].values())
        print(f"{passed} passed, {failed} failed")
        return int(failed > 0)


def main():
    find_package()
    from run import seeds
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--seeds", type=seeds, required=True, help="A..B, without B")
    a.add_argument("--devices", default="cpu,sim")
    a.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2)))
    a.add_argument("--seconds", type=float, default=0, help="stop after so long (0: never)")
    a.add_argument("--grace", type=float, default=60, help="give programs up that still run so many seconds later")
    a.add_argument("--out", help="JSON file with the findings and how far it came")
    a.add_argument("--timeout", type=float, default=60, help="seconds of processor time after which a program hangs")
    a.add_argument("--shrink", type=int, default=12, help="shrink so many failures of one signature")
    a.add_argument("--shrink-seconds", type=float, default=60)
    a.add_argument("--variants", type=int, default=0, help="run each program with so many other options (warps, stages, CTAs), too, where they count")
    a.add_argument("--without", default="", help="features of generate.py to leave out, with commas; +NAME: one that all programs have")
    return Soak(a.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
