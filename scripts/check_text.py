#!/usr/bin/env python3
"""Checks what .editorconfig says: spaces and no tabs, no white space at the ends of lines, LF, one newline at the end of a file.

The cases of test/ (all of it but test/run and test/random, which are programs) are what they are, to the byte.
"""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WITH_TABS = {"Makefile"}


def files() -> list[str]:
    """Those that git knows or would add and that are there."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in sorted(set(listed.splitlines())) if (ROOT / name).exists()]


def problems(text: str, name: str):
    if not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end"
    if text.endswith("\n\n"):
        yield text.count("\n"), "empty lines at the end"
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield number, "white space at the end of the line" if not line.endswith("\r") else "CR LF"
        if "\t" in line and name not in WITH_TABS:
            yield number, "a tab"


def main() -> int:
    errors = []
    for name in files():
        path = ROOT / name
        isCase = name.startswith("test/") and not name.startswith(("test/run/", "test/random/"))
        if isCase or not path.is_file() or path.is_symlink():
            continue
        data = path.read_bytes()
        if data and b"\0" not in data:
            errors += [f"{name}:{number}: {what}" for number, what in problems(data.decode(errors="replace"), name)]
    print("\n".join(errors) if errors else "text: ok")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
