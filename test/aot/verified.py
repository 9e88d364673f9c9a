#!/usr/bin/env python3
"""A plugin of pytest: every launch of the conformance cases is also run by tegula_verify, on the CPU and on the first GPU (without one: on the simulator). A difference fails the case.

    PYTHONPATH=build/python:test/aot pytest -p verified test/run
    verified.py [--every N] [--jobs N]     the same of the whole suite in several processes, with a table of what came out; CUDA_VISIBLE_DEVICES= is for the simulator where there is a GPU
"""
import argparse
import collections
import os
import sys
import tempfile
from pathlib import Path

counts = collections.Counter()


# Kernels of which the language leaves open what they compute, so that both devices may be right.
OPEN = {
    "k_combine": "a reduction by a function that is not commutative",
    "angles": "a reduction by a function that is not associative",
    "scalar_atomics": "the order of programs",
    "where_and_when": "clocks and numbers of multiprocessors",
    "read_twice": "clocks",
    "k17": "memory that holds addresses of the host",
    "table": "memory that holds addresses of the host",
    "table_and_rows": "memory that holds addresses of the host",
    "of_integer": "an integer that is an address of the host",
    "k_target": "the name of the device",
}


def _left_open(function, args):
    """Why two devices may give different results, or None."""
    if "print(" in function.src:
        return "what it prints, which the cases read"
    names = {getattr(a, "__name__", "") for a in args}
    if names & {"f_argmax", "f_argmin", "f_max_index", "f_min_index"} and any(isinstance(a, tuple) and len(a) == 3 and a[1] is False for a in args):
        return "argmax without a tie break"  # any index of the best is right
    return OPEN.get(function.__name__)


def _too_large(args):
    """Verifying copies what is pointed to, for each device, and compares all of it."""
    return "more than 1 GiB" if sum(getattr(a, "nbytes", 0) for a in args) > 1 << 30 else None


def _install():
    import pytest
    from tegula.jit import JITFunction
    plain = JITFunction.__getitem__

    def verified(self, grid):
        launch = plain(self, grid)

        def run(*args, **keywords):
            if why := _left_open(self, args) or _too_large(args):
                counts[f"not compared: {why}"] += 1
                return launch(*args, **keywords)
            refusal = None
            try:
                found = self.verify(grid, args, {k: v for k, v in keywords.items() if k not in ("warmup", "stream")})
            except Exception as e:
                refusal, found = e, None
            if found not in (None, "=", "~"):
                counts["different"] += 1
                pytest.fail(f"{self.__name__}: {found}")
            try:
                result = launch(*args, **keywords)
            except BaseException:
                counts["fails on both" if refusal is None else "refused by the launch, too"] += 1
                raise
            # What the CPU takes and the other device does not is no difference, but is listed.
            lines = str(refusal).splitlines() or [""]
            counts["same bits" if found == "=" else "near" if found == "~" else "fails in verify alone" if refusal is None else
                   f"only the other device refuses: {type(refusal).__name__}: {' '.join(lines[:2])[:160]}"] += 1
            return result

        return run

    JITFunction.__getitem__ = verified


def pytest_configure(config):
    _install()


def pytest_terminal_summary(terminalreporter):
    for what, count in counts.most_common():
        terminalreporter.write_line(f"verified launches: {count} {what}")
    if os.environ.get("TEGULA_VERIFIED_OUT"):
        with open(os.environ["TEGULA_VERIFIED_OUT"], "a") as f:
            f.writelines(f"{count}\t{what}\n" for what, count in counts.items())


def main():
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "run"))
    from suite import conformance
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="one of N cases")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    args = parser.parse_args()
    with tempfile.NamedTemporaryFile("r") as out:
        env = {**os.environ, "TEGULA_TEST_DEVICES": "cpu", "TEGULA_VERIFIED_OUT": out.name, "PYTHONDONTWRITEBYTECODE": "1",
               "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])])}
        result = conformance(args.every, args.jobs, env, ("-p", "verified"), "verified", ())
        total = collections.Counter()
        for line in out:
            count, _, what = line.rstrip("\n").partition("\t")
            total[what] += int(count)
    for what, count in total.most_common():
        print(f"verified launches: {count} {what}")
    return result["failed"] != 0


if __name__ == "__main__":
    sys.exit(main())
