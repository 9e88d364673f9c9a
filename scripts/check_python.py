#!/usr/bin/env python3
"""Names in Python files: imports that nothing uses, and definitions and keys of dicts that a later one hides (a test that is hidden never runs).

Not the kernels that are cases of other tests (test/syntax, test/sema, ...): they are wrong on purpose. In python/tegula imports are names that programs find there.
"""
import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("bench", "examples", "python/tegula", "python/tests", "scripts", "test/aot", "test/cli", "test/gpu", "test/llm", "test/random", "test/run", "test/torch")


def unused_imports(tree: ast.Module):
    """What the module imports and no name in the file reads; `import a.b` counts as `a`. Imports in functions may be what a kernel is refused for."""
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    for node in tree.body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)) or getattr(node, "module", None) == "__future__":
            continue
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            if name != "*" and name not in read:
                yield alias.lineno, f"`{name}` is imported and not used"


def hidden_definitions(tree: ast.Module):
    """Functions and classes of one block; `_` is a name for those that only their decorator wants, and a setter belongs to its property."""
    for block in ast.walk(tree):
        seen = {}
        for node in getattr(block, "body", None) if isinstance(getattr(block, "body", None), list) else ():
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name == "_" or any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in node.decorator_list):
                continue
            if node.name in seen:
                yield node.lineno, f"`{node.name}` hides the one of line {seen[node.name]}"
            seen[node.name] = node.lineno


def hidden_keys(tree: ast.Module):
    for node in ast.walk(tree):
        seen = set()
        for k in node.keys if isinstance(node, ast.Dict) else ():
            if not isinstance(k, ast.Constant):
                continue
            key = type(k.value), k.value
            if key in seen:
                yield k.lineno, f"the key {k.value!r} is given twice"
            seen.add(key)


def main() -> int:
    problems = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree, name = ast.parse(path.read_bytes(), str(path)), path.relative_to(ROOT).as_posix()
            found = [*hidden_definitions(tree), *hidden_keys(tree), *(() if folder == "python/tegula" else unused_imports(tree))]
            problems += [f"{name}:{line}: {text}" for line, text in sorted(found)]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
