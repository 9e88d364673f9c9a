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


CHUNK = 60  # cases of a long file in one process, so that none of them is what all others wait for


def tasks_of(path, every, env, options, alone):
    """What pytest runs in one process each, for one file: all of it, or some of its cases."""
    ids = node_ids(path, every, env, options)
    size = 1 if Path(path).name in alone else CHUNK
    return [ids[i:i + size] for i in range(0, len(ids), size)] if len(ids) > size or size == 1 else [[path]]


def conformance(every, jobs, env, options=(), what="on cuda", alone=ALONE):
    """Runs one of `every` cases with the environment and the options of pytest, and prints a line for each file when it is through, and why cases failed. The table of what came out."""
    paths = [str(f.relative_to(ROOT)) for f in sorted((ROOT / "test/run").glob("test_*.py"))]
    start = time.time()
    results, files, left = [], {}, {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        tasks = [t for ts in pool.map(lambda p: tasks_of(p, every, env, options, alone), paths) for t in ts]
        for t in tasks:
            name = t[0].split("::")[0]
            left[name] = left.get(name, 0) + 1
        for done in concurrent.futures.as_completed([pool.submit(pytest, t, 1 if "::" in t[0] else every, env, options) for t in tasks]):
            r = done.result()
            results.append(r)
            if r["failed"]:
                print(f"--- {r['target'][:300]}: {r['failed']} failed\n" + "\n".join(r["log"].splitlines()[-25:]), flush=True)
            name = r["target"].split("::")[0]
            f = files.setdefault(name, {"passed": 0, "failed": 0, "skipped": 0})
            for k in f:
                f[k] += r[k]
            left[name] -= 1
            if not left[name]:
                print(f"{name:34} {f['passed']:6} passed {f['failed']:5} failed {f['skipped']:5} skipped", flush=True)
    total = {k: sum(r[k] for r in results) for k in ("passed", "failed", "skipped")}
    print(f"conformance {what}: {total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped in {time.time() - start:.0f} s", flush=True)
    return {**total, "files": files, "skips": [s for r in results for s in r["skips"]],
            "failures": [{"target": r["target"], "log": r["log"][-4000:]} for r in results if r["failed"]]}
