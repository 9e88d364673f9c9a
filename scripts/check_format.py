#!/usr/bin/env python3
"""Indentation and spaces of C++ files as .clang-format says, and lines of at most 120 columns: `check_format.py [--all] [--fix]`; by default of files that differ from main, of all of them on
main (`--all`: 15 s of processor time).

Where lines break is left to the author: a formatter that decides about that takes tables and chains of conditions apart. So only what clang-format changes
inside of lines counts, not where it makes other lines of them, nor the column of
a comment behind code or of a backslash. include/tegula has concepts, which clang-format 14 takes for something else. clang-format is that of Debian 12, as other versions have other opinions; where it is
missing this says so and passes.
"""
import difflib
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = "14"
FOLDERS = "src", "unittests", "python/src"
LONGEST = 120


def tool():
    for name in f"clang-format-{VERSION}", "clang-format":
        path = shutil.which(name)
        if path and re.search(rf"version {VERSION}\.", subprocess.run([path, "--version"], text=True, stdout=subprocess.PIPE).stdout):
            return path
    return None


def git(*args):
    p = subprocess.run(["git", *args], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return p.stdout.split("\n") if p.returncode == 0 else []


def files(everything):
    names = git("ls-files", *FOLDERS)
    if not everything:
        base = (git("merge-base", "HEAD", "main") or git("merge-base", "HEAD", "origin/main") or ["HEAD"])[0]
        changed = set(filter(None, git("diff", "--name-only", base)))
        names = [n for n in names if not changed or n in changed]
    return [n for n in names if n.endswith((".h", ".hpp", ".cpp")) and (ROOT / n).exists()]


def too_long(path):
    """(number, line) of each line over LONGEST columns. Texts, which are searched for as they are printed, tables of them, diagrams in comments, and macros may be longer."""
    found, end = [], None  # `end`: of the raw string that the line begins in
    for number, line in enumerate((ROOT / path).read_text().split("\n"), 1):
        is_text = end is not None or '"' in line
        rest = line
        while True:
            if end is not None:
                if end not in rest:
                    break
                rest, end = rest.split(end, 1)[1], None
            begin = re.search(r'\bR"([^()\\ ]*)\(', rest)
            if not begin:
                break
            rest, end = rest[begin.end():], ")" + begin[1] + '"'
        is_diagram = re.match(r"\s*//[/!]? {2,}.*\S {2,}\S", line)
        if len(line) > LONGEST and not is_text and not is_diagram and not line.endswith("\\") and not line.lstrip().startswith("#"):
            found.append((number, line))
    return found


def differ(have, want):
    """In spaces alone, and not only in those in front of a comment behind code."""
    bare = lambda line: re.sub(r"(?<=\S) +(//|/\*|\\$)", r" \1", line)
    return have.replace(" ", "") == want.replace(" ", "") and bare(have) != bare(want)


def wrong(path, formatter):
    """(number, line, as it should be) of each line that has other spaces than it should."""
    have = (ROOT / path).read_text().split("\n")
    want = subprocess.run([formatter, "--style=file", str(ROOT / path)], text=True, stdout=subprocess.PIPE, check=True).stdout.split("\n")
    found = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, have, want, autojunk=False).get_opcodes():
        if kind == "replace" and b - a == d - c:
            found += [(a + i, have[a + i], want[c + i]) for i in range(b - a) if differ(have[a + i], want[c + i])]
    return found


def main():
    formatter = tool()
    if not formatter:
        print(f"format: not checked, there is no clang-format {VERSION} here (Debian 12: apt-get install clang-format)")
        return 0
    names = files("--all" in sys.argv[1:])
    count = longer = 0
    for name in names:
        for number, line in too_long(name):
            longer += 1
            print(f"{name}:{number}: more than {LONGEST} columns\n  {line}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, found in zip(names, pool.map(lambda n: wrong(n, formatter), names)):
            count += len(found)
            if found and "--fix" in sys.argv[1:]:
                lines = (ROOT / name).read_text().split("\n")
                for at, _, want in found:
                    lines[at] = want
                (ROOT / name).write_text("\n".join(lines))
            else:
                for at, have, want in found:
                    print(f"{name}:{at + 1}: other spaces than .clang-format says\n  {have}\n  {want}")
    print(f"format: {len(names)} files, {count} lines " + ("mended" if "--fix" in sys.argv[1:] else "to mend with scripts/check_format.py --fix") if count else f"format: {'lines are too long' if longer else 'ok'}, {len(names)} files")
    return 1 if longer or (count and "--fix" not in sys.argv[1:]) else 0


if __name__ == "__main__":
    sys.exit(main())
