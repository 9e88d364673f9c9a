"""The conformance suite in several processes: a file in each, and cases that may take a GPU's context with them alone (scripts/gpu-check, test/aot/carry.py)."""
import concurrent.futures
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Tests that stop kernels by an error: the GPU's context is lost then, so each runs in a process of its own.
ALONE = ("test_checked.py", "test_debug.py", "test_map.py")


def pytest(target, every, env, options=(), timeout=900):
    cmd = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "--every", str(every), *options, *target]
    try:
        p = subprocess.run(cmd, cwd=ROOT, env=env, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout)
        out, code = p.stdout, p.returncode
    except subprocess.TimeoutExpired as e:
        out, code = (e.stdout or b"").decode(errors="replace") + f"\ntimed out after {timeout} s", 124
    count = {k: sum(int(n) for n in re.findall(rf"(\d+) {k}", out.splitlines()[-1] if out.strip() else "")) for k in ("passed", "failed", "skipped", "error")}
    failed = count["failed"] + count["error"] + (1 if code not in (0, 1, 5) else 0)
    return {"target": " ".join(str(t) for t in target), "passed": count["passed"], "failed": failed, "skipped": count["skipped"],
            "log": out if failed else "", "skips": re.findall(r"^SKIPPED \[\d+\] (.*)$", out, re.M)}


def node_ids(path, every, env, options=()):
    out = subprocess.run([sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "--every", str(every), *options, path], cwd=ROOT, env=env,
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    return [line for line in out.splitlines() if "::" in line]


def conformance(every, jobs, env, options=(), what="on cuda", alone=ALONE):
    """Runs one of `every` cases with the environment and the options of pytest, and prints a line for each file, and why cases failed. The table of what came out."""
    tasks = []
    for f in sorted((ROOT / "test/run").glob("test_*.py")):
        path = str(f.relative_to(ROOT))
        tasks += [[i] for i in node_ids(path, every, env, options)] if f.name in alone else [[path]]
    start = time.time()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda t: pytest(t, 1 if "::" in t[0] else every, env, options), tasks))
    total = {k: sum(r[k] for r in results) for k in ("passed", "failed", "skipped")}
    for r in results:
        if r["failed"]:
            print(f"--- {r['target']}: {r['failed']} failed\n" + "\n".join(r["log"].splitlines()[-25:]))
    files = {}
    for r in results:
        f = files.setdefault(r["target"].split("::")[0], {"passed": 0, "failed": 0, "skipped": 0})
        for k in f:
            f[k] += r[k]
    for name, f in files.items():
        print(f"{name:34} {f['passed']:6} passed {f['failed']:5} failed {f['skipped']:5} skipped")
    print(f"conformance {what}: {total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped in {time.time() - start:.0f} s", flush=True)
    return {**total, "files": files, "skips": [s for r in results for s in r["skips"]],
            "failures": [{"target": r["target"], "log": r["log"][-4000:]} for r in results if r["failed"]]}
