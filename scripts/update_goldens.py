#!/usr/bin/env python3
"""Rewrites the goldens: the recorded outputs of the cases in the folders of test/ that FOLDERS lists.

`update_goldens.py` rewrites them all; `--check` compares those that a command writes (unit tests compare their own) and prints
`N passed, N failed`. With names of cases: only those, of the folders whose goldens a command writes.

A case of such a folder begins with lines `# RUN: <arguments of the command>`, `%s` standing for the case file. Standard output,
standard error and exit code of all of them are the golden, which stands beside the case as NAME.out. A name that begins with
`fail-` marks exactly the cases that report an error.
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
BIN = ROOT / "build/bin"
# Folder of test/ -> the program in build/bin that writes its goldens: a command, run on each case, or the unit tests of a layer,
# which need no command line; `--check` leaves those to the suite `unit`.
FOLDERS = {
    "syntax": "syntax-tests",
    "instantiate": "sema-tests",
    "sema": "tegula",
    "targets": "tegula",
    "ir": "ir-tests",
    "passes": "passes-tests",
    "lowering": "targets-tests",
}


def output(case, command):
    runs = re.findall(r"^# RUN: (.*)$", case.read_text(errors="surrogateescape"), re.M)
    name = str(case.relative_to(ROOT))
    out = []
    failed = False
    with tempfile.TemporaryDirectory() as cache:
        env = dict(os.environ, TEGULA_CACHE_DIR=cache)
        for run in runs:
            p = subprocess.run([str(BIN / command), *shlex.split(run.replace("%s", name))], cwd=ROOT, env=env, capture_output=True, text=True,
                               errors="replace", timeout=60, stdin=subprocess.DEVNULL)
            out.append(f"$ {command} {run}\n{p.stdout}{p.stderr}" + (f"exit {p.returncode}\n" if p.returncode else ""))
            failed |= p.returncode != 0
    return "".join(out), failed, bool(runs)


def update_unit_tests():
    for program in sorted({p for p in FOLDERS.values() if p.endswith("-tests")}):
        if (BIN / program).exists():
            subprocess.run([str(BIN / program), "--gtest_brief=1", "--gtest_filter=*olden*"], env=dict(os.environ, TEGULA_UPDATE_GOLDENS="1"))
        else:
            print(f"build/bin/{program} is not built: its goldens are left as they are")


def check(case, text, erred, has_runs, compares):
    """What is wrong with a case; the empty string if nothing is."""
    golden = case.with_suffix(".out")
    old = golden.read_text() if golden.exists() else ""
    if not compares:
        golden.write_text(text)
    if not has_runs:
        return "no `# RUN:` line"
    if erred != case.stem.startswith("fail-"):
        return "it reports an error: name it fail-..." if erred else "it reports no error: drop fail- from its name"
    if compares and text != old:
        return "".join(difflib.unified_diff(old.splitlines(True), text.splitlines(True), "golden", "now"))
    return ""


def main() -> int:
    compares = "--check" in sys.argv
    wanted = [a for a in sys.argv[1:] if a != "--check"]
    cases = [(c, command) for folder, command in FOLDERS.items() if not command.endswith("-tests")
             for c in sorted((ROOT / "test" / folder).glob("*.py")) if not wanted or c.stem in wanted]
    if not compares and not wanted:
        update_unit_tests()
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (case, _), result in zip(cases, pool.map(lambda c: output(*c), cases)):
            problem = check(case, *result, compares)
            if problem:
                print(f"--- {case.relative_to(ROOT)}\n{problem}")
            failed += bool(problem)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
