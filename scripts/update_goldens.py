#!/usr/bin/env python3
"""Golden tests of what the command prints: test/{sema,cpu}/NAME.py next to NAME.out.

A case begins with lines `# RUN: <arguments of tegula>`, `%s` standing for the case file. Standard output, standard error and exit code of
all of them are the golden. `update_goldens.py` rewrites the .out files (and, through the unit tests, those of test/syntax and
test/instantiate), `--check` compares and prints `N passed, N failed`. A name that begins with
`fail-` marks exactly the cases that report an error. With names: only those cases.
"""
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEGULA = ROOT / "build/bin/tegula"
FOLDERS = ("sema", "cpu")
# Layers whose goldens are written by their unit tests, which need no command line; `--check` leaves them to the suite `unit`.
GTESTS = ("syntax", "sema")


def output(case):
    runs = re.findall(r"^# RUN: (.*)$", case.read_text(errors="surrogateescape"), re.M)
    name = str(case.relative_to(ROOT))
    out = []
    failed = False
    with tempfile.TemporaryDirectory() as cache:
        env = dict(os.environ, TEGULA_CACHE_DIR=cache)
        for run in runs:
            p = subprocess.run([str(TEGULA), *shlex.split(run.replace("%s", name))], cwd=ROOT, env=env, capture_output=True, text=True,
                               errors="replace", timeout=60, stdin=subprocess.DEVNULL)
            out.append(f"$ tegula {run}\n{p.stdout}{p.stderr}" + (f"exit {p.returncode}\n" if p.returncode else ""))
            failed |= p.returncode != 0
    return "".join(out), failed, bool(runs)


def main() -> int:
    check = "--check" in sys.argv
    wanted = [a for a in sys.argv[1:] if a != "--check"]
    cases = [c for f in FOLDERS for c in sorted((ROOT / "test" / f).glob("*.py")) if not wanted or c.stem in wanted]
    passed = failed = 0
    for layer in () if check or wanted else GTESTS:
        binary = ROOT / f"build/bin/{layer}-tests"
        if binary.exists():
            subprocess.run([str(binary), "--gtest_brief=1", "--gtest_filter=*olden*"], env=dict(os.environ, TEGULA_UPDATE_GOLDENS="1"))
        else:
            print(f"{binary.relative_to(ROOT)} is not built: its goldens are left as they are")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, (text, erred, has_runs) in zip(cases, pool.map(output, cases)):
            golden = case.with_suffix(".out")
            old = golden.read_text() if golden.exists() else ""
            problem = ""
            if not has_runs:
                problem = "no `# RUN:` line"
            elif erred != case.stem.startswith("fail-"):
                problem = "it reports an error: name it fail-..." if erred else "it reports no error: drop fail- from its name"
            elif check and text != old:
                problem = "".join(difflib.unified_diff(old.splitlines(True), text.splitlines(True), "golden", "now"))
            if not check:
                golden.write_text(text)
            if problem:
                print(f"--- {case.relative_to(ROOT)}\n{problem}")
            failed += bool(problem)
            passed += not problem
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
