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
import tegula  # noqa: E402
from zoo import arrays, check, load  # noqa: E402


def chosen(rows, part, text):
    """The rows of part K of N whose name contains `text`, or one of several texts with | between them; a row's part depends on its name alone."""
    k, n = map(int, part.split("/"))
    if not 1 <= k <= n:
        sys.exit(f"--part {part}: K/N with 1 <= K <= N")
    return [r for r in rows if zlib.crc32(r.name.encode()) % n == k - 1 and load.is_named(r.name, text)]


def described(kernel, target):
    """Registers, shared memory and what costs speed."""
    return (f"{kernel.name}: {kernel.n_regs} registers, {kernel.metadata.shared} bytes of shared memory" + (f", {4 * kernel.n_spills} bytes spilled" if kernel.n_spills else "")
            + "".join(f", {a}" for a in check.advisories(kernel, target)))


def check_all(rows, devices):
    """Prints what fails; the number of failures. For a device sm_XX kernels are compiled and described, too large ones named."""
    count = collections.Counter()
    for row in rows:
        for config in row.spelling.configs_for(row.shape):
            for device in devices:
                start, text = time.process_time(), ""
                try:
                    if device.startswith("sm_"):
                        text = "; ".join(described(k, device) for k in check.compiled_for(row, config, device))
                    else:
                        check.compare(row, config, device, arrays.Numpy(1))
                    count["passed"] += 1
                except tegula.OutOfResources as e:
                    count["too large"] += 1
                    text = f"too large: {check.reason(e)}"
                except Exception as e:  # the next one may work
                    count["failed"] += 1
                    text = f"FAILED on {device}: {check.reason(e)}"
                seconds = time.process_time() - start
                if text or seconds > 5:
                    print(f"{row.name} | {config} | {text}" + (f", {seconds:.1f} s to compile and run" if seconds > 2 else ""), flush=True)
    print(f"{count['passed']} passed, {count['failed']} failed" + (f", {count['too large']} need more than the device has" if count["too large"] else ""))
    return count["failed"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="measure nothing: compare small shapes with numpy on cpu and sim, compile the large ones for sm_XX")
    p.add_argument("--devices", default="cpu,sim", help="of --check")
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="to measure on")
    p.add_argument("--part", default="1/1", metavar="K/N", help="only the K-th of N parts")
    p.add_argument("--rows", default="", metavar="TEXT", help="only rows whose name contains TEXT, or one of several: TEXT|TEXT; a name is entry / spelling / shape / dtype")
    p.add_argument("--first", action="store_true", help="only the first configuration of each spelling")
    p.add_argument("--seconds", type=float, default=460, help="start no row after so long")
    p.add_argument("--jobs", type=int, default=None, help="processes that compile ahead of the measurement (default: the cores)")
    p.add_argument("--gpus", type=int, default=1, metavar="N", help="measure N parts side by side, each on a GPU of its own, and report them as one run")
    p.add_argument("--rounds", type=int, default=15, help="of each configuration")
    p.add_argument("--cubins", type=Path, metavar="DIR", help="what cubins.py wrote is a third compiler")
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
        devices = a.devices.split(",")
        gpus = [d for d in devices if d.startswith("sm_")]
        failed = 0
        for where, those in ("small", [d for d in devices if d not in gpus]), ("gpu", gpus):
            if those:
                failed += check_all(chosen(load.rows(table, where), a.part, a.rows), those)
        return 1 if failed else 0
    from zoo import measure
    return measure.main(a, chosen)


if __name__ == "__main__":
    sys.exit(main())
