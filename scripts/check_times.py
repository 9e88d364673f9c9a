#!/usr/bin/env python3
"""Tests assert no times: a machine may be as slow as it likes. They wait for events, and what is to be fast stands in bench/.

Python: an `assert` that compares what a clock gave, or what was computed from that in the same function. C++: an EXPECT or ASSERT of one line that reads a clock or a duration.
"""
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {"test/run/test_extra.py"}  # compares the clock that a kernel reads with the host's
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "thread_time", "time_ns", "monotonic_ns", "perf_counter_ns", "process_time_ns"}
CPP = re.compile(r"\b(EXPECT|ASSERT)_(LT|LE|GT|GE|TRUE|NEAR)\(.*(_clock::now|\belapsed|chrono::duration|\.count\(\) *<)")


def reads_clock(e: ast.AST, known: set[str]) -> bool:
    """Is a clock called in the expression, or a name of `known` read?"""
    for n in ast.walk(e):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and isinstance(n.func.value, ast.Name) and n.func.value.id == "time" and n.func.attr in CLOCKS:
            return True
        if isinstance(n, ast.Name) and n.id in known:
            return True
    return False


def timed_asserts(text: str):
    for f in [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.Module))]:
        known: set[str] = set()
        for n in [n for s in f.body for n in ast.walk(s)]:
            if isinstance(n, ast.Assign) and reads_clock(n.value, known):
                known |= {t.id for t in n.targets if isinstance(t, ast.Name)}
        yield from (n.lineno for s in f.body for n in ast.walk(s) if isinstance(n, ast.Assert) and any(isinstance(c, ast.Compare) for c in ast.walk(n.test)) and reads_clock(n.test, known))


def main() -> int:
    errors = []
    for folder in ("test", "unittests", "python/tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT)
            if str(name) in ALLOWED:
                continue
            if path.suffix == ".py" and path.name.startswith("test_"):
                errors += [f"{name}:{line}: a test asserts a time" for line in sorted(set(timed_asserts(path.read_text())))]
            elif path.suffix in (".cpp", ".h"):
                errors += [f"{name}:{number}: a test asserts a time" for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1) if CPP.search(line)]
    print("\n".join(errors) if errors else "times: ok")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
