"""Rows of the tables in this folder, done one by one in a process that sweep.py starts: it reads a task a line from stdin, a JSON object, and answers with one.

A task: {"do": "list"}, {"do": "check", "row": ROW}, {"do": "compile", "row": ROW}, {"do": "measure", "seconds": S} of what was compiled last. ROW is [kind, name,
data type], as "list" gives them. Where $TEGULA_CACHE_DIR names a folder, "compile" also gives `rest_s`: the seconds of a second compilation, in which every kernel is found there. An answer: {"ok": true, ...}, or {"ok": false, "error": TEXT, "lost": whether the process is of no use any more}.
"""
import json
import os
import sys
import time
import traceback

# What programs print goes where errors go; answers go to what was stdout.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

import torch

import bench
import large
import models
from cases import CASES
from test_models import losses
from test_operators import DEVICE, check

torch.backends.cudnn.allow_tf32 = False
TABLES = {"operator": {c.name: c for c in CASES}, "large": {c.name: c for c in large.CASES}}
compiled = None


def rows():
    found = [("model", name, "float32") for name in models.MODELS]
    for kind, table in TABLES.items():
        found += [(kind, c.name, str(t)[6:]) for c in table.values() for t in c.dtypes if kind != "large" or DEVICE != "cpu"]
    return found


def check_row(kind, name, dtype):
    torch._dynamo.reset()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
    if kind != "model":
        return {"off": check(TABLES[kind][name], getattr(torch, dtype))}
    expected = losses(name, compiled=False)
    assert expected[-1] < expected[0], "the eager model does not learn"
    found = losses(name, compiled=True)
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-5)
    return {"off": ((found - expected).abs() / (2e-5 + 2e-4 * expected.abs())).max().item()}


def compile_row(kind, name, dtype):
    global compiled
    compiled = None
    if DEVICE == "cuda":
        torch.cuda.empty_cache()  # processes side by side share its memory
    compiled, seconds = bench.step_of(TABLES[kind][name], getattr(torch, dtype), {})
    found = {"compile_s": seconds, "backward": TABLES[kind][name].backward}
    if os.environ.get("TEGULA_CACHE_DIR"):  # kernels of the first compilation are found: what is left is PyTorch's own
        found["rest_s"] = bench.step_of(TABLES[kind][name], getattr(torch, dtype), {})[1]
    return found


def device_ms(step, count=20):
    """Milliseconds that the GPU takes for one step when the host is ahead of it: it sleeps first, while the host starts the steps."""
    start = time.perf_counter()
    step()
    ahead = (time.perf_counter() - start) * (count + 5) * 2
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(int(min(ahead, 0.2) * 2e9))
    begin.record()
    for _ in range(count):
        step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / count


def measure(seconds):
    found = {"ms": bench.least([compiled], seconds)[0]}
    if DEVICE == "cuda":
        found["gpu_ms"] = min(device_ms(compiled) for _ in range(5))
    return found


def is_lost():
    """Whether the GPU's context is: after an illegal access nothing works in this process."""
    try:
        bench.synchronize()
        return False
    except Exception:
        return True


def do(task):
    if task["do"] == "list":
        return {"rows": rows(), "torch": torch.__version__, "gpu": torch.cuda.get_device_name() if DEVICE == "cuda" else None,
                "triton": "tegula" if "tegula" in sys.modules else _version("triton")}
    if task["do"] == "measure":
        return measure(task["seconds"])
    return {"check": check_row, "compile": compile_row}[task["do"]](*task["row"])


def _version(module):
    try:
        return __import__(module).__version__
    except ImportError:
        return None


def main():
    for line in sys.stdin:
        start = time.perf_counter()
        try:
            answer = {"ok": True, **do(json.loads(line))}
        except Exception as e:
            answer = {"ok": False, "error": f"{type(e).__name__}: {e}"[:4000], "trace": traceback.format_exc()[-6000:], "lost": is_lost()}
        answers.write(json.dumps({**answer, "seconds": time.perf_counter() - start}) + "\n")


main()
