"""Correctness without a GPU: every kernel of the zoo on cpu and sim beside numpy, and compiled for a GPU that is not there."""
import os
import re
import shutil
import subprocess
import tempfile

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


def compiled_for(row, config, target):
    """The kernels of a configuration, compiled for a GPU that need not be there."""
    a = data.made(data.unset(data.Numpy()), row.entry, row.shape, row.dtype)
    return [launch.kernel.warmup(*launch.args, grid=launch.grid, device="sim", **launch.options).compile_for(target) for launch in row.spelling.launches(a, row.shape, config)]


def advisories(kernel, target):
    """What ptxas ($TRITON_PTXAS_PATH, or the one of the path) says costs speed: C7512 to C7515 are wgmmas that it serializes. Empty without ptxas."""
    ptxas = os.environ.get("TRITON_PTXAS_PATH") or shutil.which("ptxas")
    if not ptxas:
        return []
    text = kernel.asm["ptx"]
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as f:
        f.write((text.decode() if isinstance(text, bytes) else text).rstrip("\0"))
        f.flush()
        p = subprocess.run([ptxas, f"-arch={target}", "-v", "-o", os.devnull, f.name], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return sorted(set(re.findall(r"\((C\d+)\) Potential Performance Loss", p.stdout)))
