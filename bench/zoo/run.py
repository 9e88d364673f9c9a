#!/usr/bin/env python3
"""The zoo: every kernel of bench/zoo/kernels through both compilers, over the same configurations (README.md beside this file).

    run.py [--part K/N] [--rows TEXT] [--seconds S] [--json FILE] [--picture FILE] [--record]     on a GPU: tegula beside Triton
    run.py --device cpu ...                                                                       on this CPU: tegula beside numpy and, where it is, torch
    run.py --check [--devices cpu,sim,sm_90a] [--part K/N] [--rows TEXT]                          correctness of all configurations, small shapes, no GPU
"""
import argparse
import collections
import sys
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from zoo import arrays, check, load  # noqa: E402


def chosen(rows, part, text):
    """The rows of part K of N whose name contains `text`; a row's part depends on its name alone."""
    k, n = map(int, part.split("/"))
    if not 1 <= k <= n:
        sys.exit(f"--part {part}: K/N with 1 <= K <= N")
    return [r for r in rows if zlib.crc32(r.name.encode()) % n == k - 1 and text in r.name]


def check_all(rows, devices):
    """Prints what fails; the number of failures. For a device sm_XX the kernels are compiled, and their registers printed."""
    count, maker = collections.Counter(), arrays.Numpy()
    for row in rows:
        for config in row.spelling.configs_for(row.shape):
            for device in devices:
                start = time.time()
                try:
                    if device.startswith("sm_"):
                        for k in check.compiled_for(row, config, maker, device):
                            notes = (f", {k.spills} spilled" if k.spills else "") + "".join(f", {a}" for a in k.advisories)
                            print(f"{row.name} | {config} | {k.name}: {k.registers} registers, {k.shared} bytes of shared memory{notes}", flush=True)
                    else:
                        check.compare(row, config, device, arrays.Numpy(1))
                    count["passed"] += 1
                except Exception as e:  # the next one may work
                    count["failed"] += 1
                    print(f"FAILED {row.name} | {config} | {device}: {check.reason(e)}", flush=True)
                if time.time() - start > 10:
                    print(f"slow: {row.name} | {config} | {device}: {time.time() - start:.0f} s", flush=True)
    print(f"{count['passed']} passed, {count['failed']} failed")
    return count["failed"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="compare small shapes on --devices with numpy, or compile for sm_XX; measure nothing")
    p.add_argument("--devices", default="cpu,sim", help="of --check")
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="to measure on")
    p.add_argument("--part", default="1/1", metavar="K/N", help="only the K-th of N parts")
    p.add_argument("--rows", default="", metavar="TEXT", help="only rows whose name contains TEXT: entry / spelling / shape / dtype")
    p.add_argument("--first", action="store_true", help="only the first configuration of each spelling")
    p.add_argument("--seconds", type=float, default=460, help="start no row after so long")
    p.add_argument("--jobs", type=int, default=None, help="processes that compile ahead of the measurement (default: the cores)")
    p.add_argument("--rounds", type=int, default=15, help="of each configuration")
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--picture", metavar="FILE")
    p.add_argument("--record", action="store_true", help="write the rows that were measured to bench/ledger")
    a = p.parse_args()
    if a.check:
        table = load.entries("tegula")
        if a.first:
            for e in table.values():
                for s in e.spellings.values():
                    s.configs = s.configs[:1]
        return 1 if check_all(chosen(load.rows(table, "small"), a.part, a.rows), a.devices.split(",")) else 0
    from zoo import measure
    return measure.main(a, chosen)


if __name__ == "__main__":
    sys.exit(main())
