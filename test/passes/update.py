#!/usr/bin/env python3
"""Rewrites the expected outputs in test/passes/*.ir by running tegula-opt; unittests/passes checks them.

usage: test/passes/update.py path/to/tegula-opt [file ...]

A case: a line `# === title`, a line `# RUN: pass,pass`, the input, a line `# OUT`, the output with `# ` before each line.
"""
import re
import subprocess
import sys
from pathlib import Path


def main() -> int:
    opt, files = sys.argv[1], [Path(p) for p in sys.argv[2:]] or sorted(Path(__file__).parent.glob("*.ir"))
    for path in files:
        head, *cases = re.split(r"(?m)^(?=# === )", path.read_text())
        out = [head]
        for case in cases:
            text = case.split("# OUT\n")[0].rstrip() + "\n"
            passes = re.search(r"(?m)^# RUN: (.*)$", text).group(1)
            p = subprocess.run([opt, f"--passes={passes}", "-"], input=text, text=True, capture_output=True)
            if p.returncode:
                print(f"{path.name}: {case.splitlines()[0]}\n{p.stderr}")
            out.append(text + "# OUT\n" + "".join(f"# {line}\n" for line in (p.stdout or p.stderr).splitlines()) + "\n")
        path.write_text("".join(out).rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
