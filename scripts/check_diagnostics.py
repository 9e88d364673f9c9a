#!/usr/bin/env python3
"""Every kind in a Diagnostics.def is emitted somewhere in its layer, and its name is used for one kind only."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    errors = []
    seen = {}
    for table in sorted((ROOT / "src").rglob("Diagnostics.def")):
        layer = table.parent
        text = "\n".join(p.read_text(errors="replace") for p in (ROOT / "src").rglob("*.cpp")) + "\n".join(
            p.read_text(errors="replace") for p in layer.rglob("*.h"))
        for name in re.findall(r"^\s*(?:[A-Z]+_)?DIAG\(\s*(\w+)\s*,", table.read_text(), re.M):
            where = str(table.relative_to(ROOT))
            if name in seen:
                errors.append(f"{where}: `{name}` is also a kind of {seen[name]}")
            seen[name] = where
            if not re.search(rf"\b{name}\b", text):
                errors.append(f"{where}: `{name}` is never emitted")
    print("\n".join(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
