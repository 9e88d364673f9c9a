#!/usr/bin/env python3
"""Checks that somebody reads each attribute of the IR (ir/Attrs.def, gpu/Attrs.def) beside verifier and text, and that no attribute is asked for by a key in quotes."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r'^IR_ATTR\((\w+), "(\w+)",', re.M)
KNOW_ALL = {"src/ir/Verifier.cpp", "src/ir/Print.cpp", "src/ir/Text.cpp", "src/ir/Attr.cpp", "src/ir/Attr.h"}
# Layers in which such a word in quotes could only be an attribute's.
LAYERS = "src/gpu", "src/passes", "src/targets/nvidia"


def main() -> int:
    tables = {name: ROW.findall((ROOT / name).read_text()) for name in ("src/ir/Attrs.def", "src/gpu/Attrs.def")}
    files = {str(p.relative_to(ROOT)): p.read_text() for p in sorted((ROOT / "src").rglob("*")) if p.suffix in (".cpp", ".h")}
    readers = {name: text for name, text in files.items() if name not in KNOW_ALL}
    errors = []
    for table, rows in tables.items():
        for attr, key in rows:
            read = re.compile(rf"(\.|->){attr}\(\)|\b(get|find)\((ir::)?attr::{attr}\b|\{{attr::{attr}, &AxisFact")
            if not any(read.search(text) for text in readers.values()):
                errors.append(f"{table}: nobody reads `{key}`")
            quoted = re.compile(rf'\b(get|set|find|has|remove)\(\s*"{key}"')
            errors += [f"{name}: `{key}` in quotes; attr::{attr} is its name" for name, text in files.items() if name.startswith(LAYERS) and quoted.search(text)]
    if not sum(map(len, tables.values())):
        errors.append("no attributes found")
    print("\n".join(errors) if errors else "attributes: ok")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
