#!/usr/bin/env python3
"""Source files stop at 800 lines, headers at 300; files over it need a line with a reason in size_exceptions.txt."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {".cpp": 800, ".py": 800, ".h": 300}


def main() -> int:
    allowed = {}
    for line in (ROOT / "scripts/size_exceptions.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            path, _, reason = line.partition(":")
            allowed[path.strip()] = reason.strip()
    errors = []
    for top in ("src", "unittests", "include", "python", "scripts", "bench", "test", "examples"):
        for path in sorted((ROOT / top).rglob("*")):
            limit = LIMITS.get(path.suffix)
            if limit is None:
                continue
            name = str(path.relative_to(ROOT))
            lines = len(path.read_text(errors="replace").splitlines())
            if lines > limit and not allowed.get(name):
                errors.append(f"{name}: {lines} lines, limit {limit}; split it or give a reason in scripts/size_exceptions.txt")
            if name in allowed and lines <= limit:
                errors.append(f"scripts/size_exceptions.txt: {name} is within its limit now; drop the line")
    print("\n".join(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
