"""Correctness without a GPU: every kernel of the zoo on cpu and sim beside numpy, and compiled for a GPU that is not there."""
import re
from types import SimpleNamespace

from zoo import arrays as data
from zoo.table import TOLERANCE


def compare(row, config, device, maker):
    """Launches one configuration and compares all outputs; raises with what is wrong."""
    a = data.made(maker, row.entry, row.shape, row.dtype)
    run(row, config, a, maker, data.expected(maker, row.entry, a, row.shape), device=device)


def run(row, config, a, maker, want, **options):
    for launch in row.spelling.launches(a, row.shape, config):
        launch(**options)
    verify(row, a, maker, want)


def verify(row, a, maker, want):
    for name, value in want.items():
        got = getattr(a, name)
        limit = row.entry.tolerance or TOLERANCE.get(maker.name(got), 0)
        error = maker.error(got, value)
        if not error <= limit:
            raise ValueError(f"wrong result: {name} is off by {error:.3g} of the largest value, {limit:g} is allowed")


def reason(e):
    """The first lines of an error that say something."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return (f"{type(e).__name__}: " + " ".join(lines[:2]))[:240] if lines else type(e).__name__


def compiled_for(row, config, maker, target):
    """One record per kernel: registers, spills, shared memory, and what the assembler says (wgmmas that it serializes)."""
    a = data.made(maker, row.entry, row.shape, row.dtype)
    out = []
    for launch in row.spelling.launches(a, row.shape, config):
        kernel = launch.kernel.warmup(*launch.args, grid=launch.grid, device="sim", **launch.options).compile_for(target)
        log = getattr(kernel, "assembler_log", "") or ""
        out.append(SimpleNamespace(name=kernel.name, registers=kernel.n_regs, spills=kernel.n_spills, shared=kernel.metadata.shared,
                                   advisories=sorted(set(re.findall(r"\bC7\d{3}\b", log)))))
    return out
