#!/usr/bin/env python3
"""Runs every test suite and ends with one line: `N passed, N failed`.

`run_tests.py [suite ...]` runs some of them (names as printed). Each row of SUITES says what runs and how its results
are counted. A suite that cannot run counts as one failure; a suite that is not built is an error, never a silent skip.
"""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PY = BUILD / "venv/bin/python"
JOBS = str(os.cpu_count() or 2)


def run(cmd, timeout=1500, **kw):
    env = dict(os.environ, PYTHONPATH=str(BUILD / "python"), PYTHONDONTWRITEBYTECODE="1", **kw.pop("env", {}))
    try:
        p = subprocess.run([str(c) for c in cmd], cwd=ROOT, env=env, timeout=timeout, text=True, errors="replace",
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **kw)
        return p.returncode, p.stdout
    except subprocess.TimeoutExpired as e:
        out = e.stdout or b""
        return 124, (out.decode(errors="replace") if isinstance(out, bytes) else out) + f"\ntimed out after {timeout} s"


def tail(text, n=60):
    return "\n".join(text.splitlines()[-n:])


def gtests(folder):
    passed = failed = 0
    binaries = sorted((folder / "bin").glob("*-tests"))
    if not binaries:
        return 0, 1, f"no test binaries in {folder.name}/bin"
    log = []
    for b in binaries:
        code, out = run([b, "--gtest_brief=1"], timeout=900,
                        env={"UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": "halt_on_error=1"})
        p = sum(int(m) for m in re.findall(r"\[  PASSED  \] (\d+) test", out))
        f = sum(int(m) for m in re.findall(r"(\d+) FAILED TEST", out))
        for reason in re.findall(r"^.*Skipped.*$|^SKIP.*$", out, re.M):
            log.append(f"    {b.name}: {reason.strip()}")
        if code != 0 and f == 0:
            f = 1
        if f:
            log.append(f"--- {b.name} (exit {code})\n{tail(out)}")
        passed, failed = passed + p, failed + f
    return passed, failed, "\n".join(log)


def unit():
    return gtests(BUILD)


def sanitized(preset):
    def suite():
        code, out = run(["cmake", "--preset", preset, "-Wno-dev", "--log-level=WARNING"])
        if code == 0:
            code, out = run(["cmake", "--build", f"build-{preset}", "-j", JOBS, "--", "--quiet"])
        if code != 0:
            return 0, 1, tail(out)
        return gtests(ROOT / f"build-{preset}")
    return suite


# Folders of the tree that are a corpus as they are.
FUZZ_SEEDS = {"parser-fuzz": ["src/lib", "examples"]}


def fuzz():
    """Every libFuzzer target for TEGULA_FUZZ_SECONDS (60) from its corpus in test/fuzz; targets run two at a time."""
    seconds = os.environ.get("TEGULA_FUZZ_SECONDS", "60")
    targets = sorted((ROOT / "build-asan/bin").glob("*-fuzz"))
    if not targets:
        return 0, 1, "no fuzz targets in build-asan/bin (run suite asan first)"
    passed = failed = 0
    log = []
    jobs = []
    for t in targets:
        seeds = [ROOT / folder for folder in FUZZ_SEEDS.get(t.name, [])] + [ROOT / "test/fuzz" / t.name.removesuffix("-fuzz")]
        work = ROOT / "build-asan/fuzz" / t.name
        work.mkdir(parents=True, exist_ok=True)
        cmd = [t, f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={work}/crash-", "-rss_limit_mb=4096",
               "-timeout=20", work, *seeds]
        jobs.append((t, [str(c) for c in cmd]))
    for i in range(0, len(jobs), 2):
        procs = [(t, subprocess.Popen(c, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      errors="replace")) for t, c in jobs[i:i + 2]]
        for t, p in procs:
            out, _ = p.communicate()
            runs = re.search(r"number_of_executed_units:\s*(\d+)", out)
            log.append(f"    {t.name}: {runs.group(1) if runs else '?'} inputs in {seconds} s")
            if p.returncode == 0:
                passed += 1
            else:
                failed += 1
                log.append(tail(out))
    return passed, failed, "\n".join(log)


def pytest(*paths, env=None):
    def suite():
        code, out = run([PY, "-m", "pytest", "-q", "-ra", "--no-header", "-p", "no:cacheprovider", *paths],
                        timeout=1500, env=env or {})
        count = lambda word: sum(int(m) for m in re.findall(rf"(\d+) {word}", out.splitlines()[-1] if out else ""))
        passed = count("passed") + count("xfailed")
        failed = count("failed") + count("error")
        if code not in (0, 1) and failed == 0:
            failed = 1
        log = "\n".join("    " + l for l in out.splitlines() if l.startswith(("SKIPPED", "XFAIL", "conformance")))
        return passed, failed, log + ("\n" + tail(out) if failed else "")
    return suite


def other_isas(*targets, every):
    """A sample of test/run for instruction sets that are not the richest one of this machine (that one runs them all)."""
    def suite():
        passed = failed = 0
        logs = []
        for target in targets:
            env = {"TEGULA_CPU_TARGET": target}
            code, out = run([BUILD / "bin/tegula", "info"], env=env)
            if code != 0:
                logs.append(f"    SKIPPED {target}: {out.strip()}")
                continue
            p, f, log = pytest("test/run", f"--every={every}", env=env)()
            passed, failed = passed + p, failed + f
            logs.append(f"    {target}: {p} passed, {f} failed" + (f"\n{log}" if f else ""))
        return passed, failed, "\n".join(logs)
    return suite


def script(*cmd):
    """A script that prints `N passed, N failed`, or counts as one test by its exit code."""
    def suite():
        code, out = run(cmd)
        m = re.search(r"^(\d+) passed, (\d+) failed", out, re.M)
        passed, failed = (int(m.group(1)), int(m.group(2))) if m else (int(code == 0), int(code != 0))
        if code != 0 and failed == 0:
            failed = 1
        return passed, failed, tail(out) if failed else ""
    return suite


# Features of random programs with known bugs that are being mended: nothing may stay here.
UNMENDED = "while,split,combine"


def random_programs():
    """Random programs (test/random): 3,000 on cpu, as fast as this machine can, and sim; 500 others on two older instruction sets."""
    passed, failed, log = pytest("test/random")()
    logs = [log]
    for seeds, devices in (("0..3000", "cpu,sim"), ("3000..3500", "cpu:x86-64,cpu:avx2")):
        code, out = run([PY, "test/random/soak.py", "--seeds", seeds, "--devices", devices, "--jobs", JOBS, "--without", UNMENDED, "--shrink", "3"],
                        timeout=3000)
        m = re.search(r"^(\d+) passed, (\d+) failed", out, re.M)
        p, f = (int(m.group(1)), int(m.group(2))) if m else (0, 1)
        passed, failed = passed + p, failed + f
        logs += ["    " + line for line in out.splitlines() if line.startswith("SKIPPED") or "programs/s with" in line]
        if f:
            logs.append(tail(out, 150))
    return passed, failed, "\n".join(logs)


SUITES = {
    "check": script("scripts/check"),
    "unit": unit,
    "goldens": script(PY, "scripts/update_goldens.py", "--check"),
    "python": pytest("python/tests"),
    "cli": pytest("test/cli"),
    "run": pytest("test/run"),
    "sim": pytest("test/run", env={"TEGULA_TEST_DEVICES": "sim"}),
    "sim-clusters": pytest("test/run", "--every", "2", env={"TEGULA_TEST_DEVICES": "sim", "TEGULA_TEST_CTAS": "2"}),
    "assemble": script(PY, "test/gpu/assemble.py"),
    "registers": pytest("test/gpu"),
    "run-isa": other_isas("cpu:x86-64", "cpu:avx2", every=4),
    "random": random_programs,
    "examples": pytest("test/examples"),
    "package": script("scripts/test_package.sh"),
    "dist": script("scripts/test_dist.sh"),
    "asan": sanitized("asan"),
    "fuzz": fuzz,
    "tsan": sanitized("tsan"),
}


def main() -> int:
    # A test that hangs names the line and the programs in place of running into its timeout.
    os.environ.setdefault("TEGULA_HANG_S", "120")
    names = sys.argv[1:] or list(SUITES)
    total_passed = total_failed = 0
    for name in names:
        if name not in SUITES:
            print(f"no suite `{name}`; there are {', '.join(SUITES)}")
            return 2
        start = time.time()
        passed, failed, log = SUITES[name]()
        print(f"{name}: {passed} ok, {failed} not ok in {time.time() - start:.0f} s", flush=True)
        if log.strip():
            print(log, flush=True)
        total_passed += passed
        total_failed += failed
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main())
