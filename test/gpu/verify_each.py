#!/usr/bin/env python3
"""Verifies the GPU level after each of its passes: `verify_each.py [--keep FOLDER] [pytest arguments]`.

The tile IR of every kernel that the cases of test/run launch (they compile it for the simulator and are not run) goes through `tegula-opt --verify-each`
with all passes of the GPU level, for each GPU, with the warps, stages and CTAs that the case asks for. `--keep`: the texts, and beside them what the
passes make of each, for comparisons of two builds. Ends with `N passed, N failed`: one result per kernel and GPU.
"""
import argparse
import collections
import concurrent.futures
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["TEGULA_TEST_DEVICES"] = "sim"
os.environ["TEGULA_CACHE_DIR"] = ""

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPT = ROOT / "build/bin/tegula-opt"


@functools.cache
def gpus():
    """The targets that tegula-opt lists."""
    last = subprocess.run([OPT, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    assert last.startswith("Targets with a GPU level: "), last
    return last.split(": ")[1].split()


class Collector:
    """A pytest plugin that writes the tile IR of each launch's kernels and ends the case there."""

    def __init__(self, folder):
        self.folder = folder
        self.kernels = {}  # hash -> (text file, options)

    def pytest_collection_finish(self, session):
        device = sys.modules["conftest"].Device

        def call(dev, kernel, grid, *args, **kw):
            made = kernel.warmup(*args, grid=grid, **{"device": dev.name, **kw})
            for k in made if isinstance(made, list) else [made]:
                self.add(k)
            pytest.skip("its kernels are collected")

        device.__call__ = call

    def add(self, k):
        if k.hash in self.kernels:
            return
        file = self.folder / f"{k.name}-{k.hash[:16]}.ir"
        file.write_text(k.stage("tile"))
        m = k.metadata
        self.kernels[k.hash] = (file, [f"--num-warps={m.num_warps}", f"--num-stages={m.num_stages}", f"--num-ctas={m.num_ctas}"])


def run(file, target, options, keeps):
    """None, or what is wrong. The tile IR is for the newest GPU: what others do not keep of it is expanded first."""
    p = subprocess.run([OPT, "--verify-each", f"--target={target}", "--passes=expand-descriptors,simplify,gpu" if target != "sm_90a" else "--passes=gpu",
                        *options, file], capture_output=True, text=True)
    if keeps:
        file.with_suffix(f".{target}").write_text(p.stdout)
    return None if p.returncode == 0 else f"exit {p.returncode}: {p.stderr[-600:]}"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--keep", type=Path)
    a, rest = p.parse_known_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = a.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        plugin = Collector(folder)
        pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *(rest or [str(ROOT / "test/run")])], plugins=[plugin])
        count = collections.Counter()
        jobs = [(file, target, options) for file, options in plugin.kernels.values() for target in gpus_of(options)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(lambda job: run(*job, a.keep is not None), jobs)
            for (file, target, options), wrong in zip(jobs, results):
                count["failed" if wrong else "passed"] += 1
                if wrong and count["failed"] <= 20:
                    print(f"--- {file.name} for {target} {' '.join(options)}\n{wrong}")
        print(f"{len(plugin.kernels)} kernels for {', '.join(gpus())}")
    if not plugin.kernels:
        count["failed"] += 1
    print(f"{count['passed']} passed, {count['failed']} failed")
    return 1 if count["failed"] else 0


def gpus_of(options):
    """Clusters came with sm_90."""
    return gpus() if "--num-ctas=1" in options else ["sm_90a"]


if __name__ == "__main__":
    sys.exit(main())
