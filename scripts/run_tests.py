#!/usr/bin/env python3
"""Runs every test suite and ends with one line: `N passed, N failed`.

`run_tests.py [suite ...]` runs some of them (names as printed), `run_tests.py --quick` the ones for daily work. Each row of
SUITES says what runs and how its results are counted. A suite that cannot run counts as one failure; a suite that is not
built is an error, never a silent skip.

Suites run side by side, one on each core (`--jobs N`), the longest first: most of them are one process that keeps one core busy.
Each line says how long the suite took and how much processor time it used, which other load does not change.
"""
import argparse
import concurrent.futures
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PY = BUILD / "venv/bin/python"


class Suite(NamedTuple):
    """One row of the table: `run` returns (passed, failed, log). `seconds` is about what the suite takes alone on one slow core (of sanitizers
    with nothing in the compiler cache), which is only for the order; `after` names a suite that has to end first."""
    run: Callable[[], tuple[int, int, str]]
    seconds: int
    quick: bool = False
    after: str = ""


def run(cmd, timeout=1500, **kw):
    # Every suite verifies the modules of every compilation; TEGULA_VERIFY=0 in the environment tells what that costs. What is tested is compiled
    # here and now: code that an earlier run left in the user's disk cache would be tested in its place. numpy's threads would spin beside the other suites.
    env = {"TEGULA_VERIFY": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ, "TEGULA_CACHE_DIR": "", "PYTHONPATH": str(BUILD / "python"), "PYTHONDONTWRITEBYTECODE": "1", **kw.pop("env", {})}
    try:
        p = subprocess.run([str(c) for c in cmd], cwd=ROOT, env=env, timeout=timeout, text=True, errors="replace",
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **kw)
        return p.returncode, p.stdout
    except subprocess.TimeoutExpired as e:
        out = e.stdout or b""
        return 124, (out.decode(errors="replace") if isinstance(out, bytes) else out) + f"\ntimed out after {timeout} s"


def tail(text, n=60):
    return "\n".join(text.splitlines()[-n:])


def gtests(folder, filters={}, names="*-tests", env={}):
    """Test binaries of a build; `filters` holds the --gtest_filter of those that do not run whole."""
    passed = failed = 0
    binaries = sorted((folder / "bin").glob(names))
    if not binaries:
        return 0, 1, f"no {names} in {folder.name}/bin"
    log = []
    for b in binaries:
        code, out = run([b, "--gtest_brief=1", f"--gtest_filter={filters.get(b.name, '*')}"], timeout=900,
                        env={"UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": "halt_on_error=1", **env})
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


def unit_avx2():
    """The tests of generated code that count on this machine, with AVX-512 hidden; those with a parameter run for every target anyway."""
    return gtests(BUILD, {"targets-tests": "-Gpu*:Targets/*"}, "targets-tests", {"TEGULA_CPU_TARGET": "cpu:avx2"})


def sanitized(preset, *targets, filters={}):
    """The unit tests of the layers without LLVM, built by a preset: all of them, or the binaries that are named."""
    def suite():
        code, out = run(["cmake", "--preset", preset, "-Wno-dev", "--log-level=WARNING"])
        if code == 0:
            code, out = run(["cmake", "--build", f"build-{preset}", "-j", "1", "--", "--quiet", *targets], timeout=3600)  # with nothing in ccache
        if code != 0:
            return 0, 1, tail(out)
        return gtests(ROOT / f"build-{preset}", filters)
    return suite


# Name of a fuzzer: inputs that it runs in an ordinary test run (about 60 s of a core), and folders of the tree that are a corpus beside test/fuzz/<name>.
FUZZERS = {
    "bundle": (300_000, []), "cache": (5_000_000, []), "capi": (18_000, []), "gpu": (200_000, []), "ir": (700_000, []), "layout": (21_000, []), "manifest": (250_000, []),
    "npy": (20_000_000, []), "parser": (80_000, ["src/lib", "examples", "test/fuzz/kernel"]), "sema": (40_000, ["test/fuzz/kernel"]), "signature": (560_000, []),
    "target": (7_000, ["test/fuzz/kernel"]), "tune": (1_300_000, []),
}


def fuzz_command(name, binary):
    """How a fuzzer is run: from its corpora, findings (and libFuzzer's own corpus) to build-asan/fuzz/<name>.

    Without TEGULA_FUZZ_SECONDS and TEGULA_FUZZ_SEED always the same inputs, whatever the machine: a number of them, at most those of 60 s, chosen by nothing
    that depends on addresses or time. What is red here is red elsewhere, and what is green stays so until somebody changes it."""
    inputs, folders = FUZZERS[name]
    seeds = [f for f in (ROOT / folder for folder in [*folders, f"test/fuzz/{name}"]) if f.is_dir()]
    work = ROOT / "build-asan/fuzz" / name
    seconds, seed = os.environ.get("TEGULA_FUZZ_SECONDS"), os.environ.get("TEGULA_FUZZ_SEED")
    same = not seconds and not seed
    if same:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    if name == "target":
        return [binary, "--seconds", seconds or "60", "--seed", seed or "0", *(["--cases", str(inputs)] if same else []), "--findings", work, *seeds]
    return [binary, f"-seed={seed or 1}", f"-max_total_time={seconds or 60}", *([f"-runs={inputs}", "-use_cmp=0", "-use_memmem=0", "-reload=0"] if same else []),
            "-print_final_stats=1", f"-artifact_prefix={work}/crash-", "-rss_limit_mb=4096", "-timeout=20", work, *seeds]


def fuzz():
    """Every fuzzer, one after the other. Those with sanitizers are in build-asan, target-fuzz in build."""
    binaries = {t.name.removesuffix("-fuzz"): t for folder in ("build-asan", "build") for t in sorted((ROOT / folder / "bin").glob("*-fuzz"))}
    if set(binaries) != set(FUZZERS):
        return 0, 1, f"these have no row in FUZZERS or are not built (suite asan goes first): {', '.join(sorted(set(binaries) ^ set(FUZZERS)))}"
    passed = failed = 0
    log, findings = [], []
    for name, binary in binaries.items():
        code, out = run(fuzz_command(name, binary), timeout=int(os.environ.get("TEGULA_FUZZ_SECONDS", "60")) + 600)
        runs = re.search(r"number_of_executed_units:\s*(\d+)", out)
        seconds = re.search(r"Done \d+ runs in (\d+) second", out)
        log.append(f"    {name}: {runs.group(1) if runs else '?'} inputs{f' in {seconds.group(1)} s' if seconds else ''}")
        passed, failed = passed + (code == 0), failed + (code != 0)
        if code != 0:
            findings.append(f"--- {name}\n{tail(out)}")
    return passed, failed, "\n".join(log + findings)


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
    """A sample of test/run, another one for each, for instruction sets that are not the richest one of this machine (that one runs them all)."""
    def suite():
        passed = failed = 0
        logs = []
        for target in targets:
            env = {"TEGULA_CPU_TARGET": target}
            code, out = run([BUILD / "bin/tegula", "info"], env=env)
            if code != 0:
                logs.append(f"    SKIPPED {target}: {out.strip()}")
                continue
            p, f, log = pytest("test/run", f"--every={every}", f"--sample={targets.index(target)}", env=env)()
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


def random_programs():
    """Random programs (test/random): 3,000 on sim and on cpu, of them 2,200 with the richest instruction set of this machine, 400 with each of two older ones;
    150 in the interpreter."""
    passed, failed, log = pytest("test/random")()
    logs = [log]
    # What came last is in some of the programs only, until a soak has gone through it.
    newest = "slice,map,exit,scaled,assume,bundle,odd,asm,assert,map_load,block_write,rows,int4,overlap,views,step,chain,boxes,olds,wide64,tuple,select,sums,kernel,lib,peek,flags"
    for seeds, devices, without in (("0..150", "interpreter", ""), ("0..200", "cpu,sim", ""), ("200..2200", "cpu,sim", newest), ("2200..2600", "cpu:x86-64,sim", newest),
                                    ("2600..3000", "cpu:avx2,sim", newest)):
        code, out = run([PY, "test/random/soak.py", "--seeds", seeds, "--devices", devices, "--jobs", "1", "--shrink", "3", "--without", without],
                        timeout=3000)
        m = re.search(r"^(\d+) passed, (\d+) failed", out, re.M)
        p, f = (int(m.group(1)), int(m.group(2))) if m else (0, 1)
        passed, failed = passed + p, failed + f
        logs += ["    " + line for line in out.splitlines() if line.startswith("SKIPPED") or "programs/s with" in line]
        if f:
            logs.append(tail(out, 150))
    return passed, failed, "\n".join(logs)


# Inputs of a size that only time and depth depend on: suite unit has them, and their like, smaller, runs here under other names.
NOT_UNDER_ASAN = {"sema-tests": "-Limits.RunawayPrograms:Limits.CallsThatMultiply:Limits.LargeInputsStayLinear:*/GoldenTest.Output/fail_limits", "syntax-tests": "-Robustness.largeTextsStayLinear"}

# Every conformance case runs on cpu and on sim, and its kernels are assembled for sm_90a. What is sampled, by a hash of the names: the other instruction sets
# (a sixth of the cases for each, not the same ones), clusters (half), the interpreter (a sixth), the form for large tensors (one of 24), and older GPUs (one of three for a third of the kernels:
# `test/gpu/assemble.py --all-targets` assembles all of them for all). Of the random programs 800 of 3,000 are for older instruction sets; test/random/soak.py
# runs any number for all of them. Threads meet in the layers of tsan's list; asan runs all layers, random tests with a quarter of their rounds (unittests/Rounds.h).
# Where the compiler cache has the objects of both sanitizer builds, those two suites are for the most part their tests, of a minute or two each.
SUITES = {
    "check": Suite(script("scripts/check"), 5, quick=True),
    "asan": Suite(sanitized("asan", filters=NOT_UNDER_ASAN), 1000),
    "sim": Suite(script(PY, "test/gpu/assemble.py"), 550),
    "fuzz": Suite(fuzz, 620, after="asan"),
    "tsan": Suite(sanitized("tsan", "runtime-tests", "sema-tests", "sim-tests", "tune-tests", filters={"sema-tests": "Threads.*", "tune-tests": "Store.*:Lease.*"}), 600),
    "run": Suite(pytest("test/run"), 320),
    "random": Suite(random_programs, 400),
    "unit": Suite(unit, 120, quick=True),
    "unit-avx2": Suite(unit_avx2, 30),
    "run-isa": Suite(other_isas("cpu:x86-64", "cpu:avx2", every=6), 120),
    "sim-clusters": Suite(pytest("test/run", "--every", "2", env={"TEGULA_TEST_DEVICES": "sim", "TEGULA_TEST_CTAS": "2"}), 120),
    # test_wide.py asks which form a launch takes by itself
    "run-wide": Suite(pytest("test/run", "--every", "24", "--ignore=test/run/test_wide.py", env={"TEGULA_TEST_DEVICES": "cpu,sim", "TEGULA_TEST_WIDE": "1"}), 40),
    "run-interpreter": Suite(pytest("test/run", "--every", "6", env={"TEGULA_TEST_DEVICES": "interpreter"}), 200),
    "python": Suite(pytest("python/tests"), 60, quick=True),
    "cli": Suite(pytest("test/cli"), 60, quick=True),
    "cpp": Suite(pytest("test/cpp"), 30),
    "registers": Suite(pytest("test/gpu"), 40),
    "verify-each": Suite(script(PY, "test/gpu/verify_each.py", "test/run", "--every", "8"), 60),
    "dist": Suite(script("scripts/test_dist.sh"), 60),
    "package": Suite(script("scripts/test_package.sh"), 30),
    "examples": Suite(pytest("test/examples"), 30, quick=True),
    "llm": Suite(pytest("test/llm"), 40),
    "goldens": Suite(script(PY, "scripts/update_goldens.py", "--check"), 20, quick=True),
    "run-sample": Suite(pytest("test/run", "--every", "10", env={"TEGULA_TEST_DEVICES": "cpu,sim"}), 60, quick=True),
}
ONLY_QUICK = {"run-sample"}


def measured(name):
    """Runs in a process of its own: what its children used is the suite's."""
    start, before = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    passed, failed, log = SUITES[name].run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return passed, failed, log, time.time() - start, cpu


def run_all(names, jobs):
    """The results of the suites, in order of their end."""
    # The longest first, counted with what waits for its end.
    followed = lambda n: max((s.seconds for m, s in SUITES.items() if m in names and s.after == n), default=0)
    waiting = sorted(names, key=lambda n: -SUITES[n].seconds - followed(n))
    ended, running = set(), {}
    with concurrent.futures.ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        while waiting or running:
            ready = [n for n in waiting if SUITES[n].after not in names or SUITES[n].after in ended]
            for name in ready[:jobs - len(running)]:
                waiting.remove(name)
                running[pool.submit(measured, name)] = name
            done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                ended.add(name)
                yield name, *future.result()


def causes(log):
    """The lines of a suite's log that name what failed: pytest's, GoogleTest's and the random programs', or the last ones."""
    named = [line for line in log.splitlines() if re.match(r"\s*(FAILED |ERROR |--- |\[  FAILED  \] \S+\.|seed )", line)]
    return "\n".join(named[:20]) or tail(log, 10)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("suites", nargs="*", metavar="suite", help=f"{', '.join(SUITES)}; all but {', '.join(ONLY_QUICK)} without any")
    p.add_argument("--quick", action="store_true", help="the suites for daily work, about five minutes")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="suites at a time (one a core)")
    a = p.parse_args()
    # What a shell starts in the background ignores Ctrl-C, and so would the suites, which test it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in a.suites:
        if name not in SUITES:
            p.error(f"no suite `{name}`; there are {', '.join(SUITES)}")
    # No process writes bytecode, so as to leave the sources' folders clean; hundreds of them import the package, which takes a quarter longer without.
    if (BUILD / "python").is_dir():
        subprocess.run([str(PY), "-m", "compileall", "-q", str(BUILD / "python")], check=True)
    names = a.suites or [n for n, s in SUITES.items() if (s.quick if a.quick else n not in ONLY_QUICK)]
    start = time.time()
    total_passed = total_failed = 0
    failures = []
    for name, passed, failed, log, seconds, cpu in run_all(names, max(1, a.jobs)):
        print(f"{name}: {passed} ok, {failed} not ok in {seconds:.0f} s ({cpu:.0f} s of processor time)", flush=True)
        if log.strip():
            print(log, flush=True)
        total_passed += passed
        total_failed += failed
        if failed:
            failures.append(f"{name} failed:\n{causes(log)}")
    # Once more, as a reader who gets the end of a long log alone looks for it here.
    print("\n".join([*failures, ""]), end="")
    print(f"all suites in {time.time() - start:.0f} s")
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main())
