#!/usr/bin/env python3
"""Runs test/run on the simulator, and assembles every kernel of it for GPUs: `assemble.py [--all-targets] [pytest arguments]`.

Each kernel that a case launches is compiled for sm_90a meanwhile, on another thread, once per source, signature and options; a third of them for one
of the older targets, too: a hash of the kernel's name and signature says which ones (`--all-targets`: all kernels for all targets). Several kernels
in one call of the assembler were tried (linked, and as one text): they take as long as each alone. Ends with `N passed, N failed`: the cases, and one
result per kernel and target. That a kernel needs more shared memory than an older GPU has is a result like any other, as long as tegula
says so.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import os
import re
import sys
import threading
import time
import zlib
from pathlib import Path

os.environ["TEGULA_TEST_DEVICES"] = "sim"
os.environ["TEGULA_CACHE_DIR"] = ""  # everything is compiled here and now

import pytest
import tegula

ROOT = Path(__file__).resolve().parents[2]
NEWEST, OLDER = "sm_90a", ("sm_80", "sm_86", "sm_89")
SHARE = 3  # one kernel of so many is assembled for an older target as well


EXPECTED = "ok", "too large", "for newer GPUs"
NEWER = re.compile(r"not supported on \.target|requires \.target")


class Assembler:
    """A pytest plugin that sees every launch of the cases and counts their results."""

    def __init__(self, all_targets):
        self.all_targets = all_targets
        self.results = collections.Counter()
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.printing = threading.Lock()
        self.jobs = {}  # hash of the kernel -> (what it is, futures of targets)
        self.seconds = 0.0

    def pytest_collection_finish(self, session):
        device = sys.modules["conftest"].Device
        launch = device.__call__

        def call(dev, kernel, grid, *args, **kw):
            # Before the launch, which may be one that has to fail.
            made = kernel.warmup(*args, grid=grid, **{"device": dev.name, **kw})
            for k in made if isinstance(made, list) else [made]:  # an autotuned one has a kernel for each configuration
                self.add(k)
            return launch(dev, kernel, grid, *args, **kw)

        device.__call__ = call

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Nothing is compiled on the side while a case reads what is printed: compiling prints, too."""
        with self.printing if "capfd" in item.fixturenames else contextlib.nullcontext():
            return (yield)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed:
            self.results["failed" if report.failed else "skipped" if report.skipped else "passed"] += 1

    def add(self, k):
        if k.hash not in self.jobs:
            what = f"{k.name}({k.metadata.signature})"
            sample = zlib.crc32(what.encode()) % (SHARE * len(OLDER))
            older = OLDER if self.all_targets else OLDER[sample:sample + 1]
            targets = [NEWEST, *(older if k.metadata.num_ctas == 1 else [])]  # clusters came with sm_90
            self.jobs[k.hash] = (what, [(t, self.pool.submit(self.assemble, k, t)) for t in targets])

    def assemble(self, kernel, target):
        """One of "ok", "too large", "for newer GPUs" (inline assembly of the kernel's own that the target has not), or what went wrong."""
        start = time.thread_time()
        try:
            with self.printing:
                made = kernel.compile_for(target)
            return "ok" if made.stage("cubin")[:4] == b"\x7fELF" and made.n_regs > 0 else "no machine code"
        except tegula.OutOfResources as e:
            return "too large" if e.name == "shared memory" and e.required > e.limit else str(e)
        except Exception as e:
            is_own = "inline_asm_elementwise" in kernel.asm["source"]
            return "for newer GPUs" if is_own and NEWER.search(str(e)) else f"{type(e).__name__}: {e}"
        finally:
            self.seconds += time.thread_time() - start

    def report(self):
        results = collections.Counter()
        for what, futures in self.jobs.values():
            for target, future in futures:
                text = future.result()
                results[text if text in EXPECTED else "failed"] += 1
                if text not in EXPECTED and results["failed"] <= 20:
                    print(f"--- {what} for {target}\n{text}")
        print(f"{len(self.jobs)} kernels for {NEWEST} and {'each' if self.all_targets else f'one of {SHARE} for one'} of {', '.join(OLDER)}; {results['too large']} need more shared memory than their target has, {results['for newer GPUs']} have instructions of newer GPUs in inline assembly; "
              f"{self.seconds:.0f} s of compiling; assembler: {tegula._core.assembler()}")
        return sum(results[r] for r in EXPECTED), results["failed"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--all-targets", action="store_true")
    a, rest = p.parse_known_args()
    if tegula._core.assembler() == "none":
        print("no assembler: install scripts/requirements.txt, or say where libnvJitLink is by TEGULA_NVJITLINK\n0 passed, 1 failed")
        return 1
    plugin = Assembler(a.all_targets)
    code = pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *(rest or [str(ROOT / "test/run")])], plugins=[plugin])
    passed, failed = plugin.report()
    passed, failed = passed + plugin.results["passed"], failed + plugin.results["failed"]
    if code not in (0, 1) or not plugin.jobs:
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
