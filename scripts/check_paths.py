#!/usr/bin/env python3
"""Proves that the files and folders that the documents name exist.

In README.md, the other documents at the top and docs/**/*.md three things count as paths:
 - the target of a link, relative to its document (addresses with a scheme and anchors do not count);
 - in `code spans` and code blocks a word that begins with a folder of the tree (`src/ir`, `test/run/*.py`);
 - anywhere, a word that ends like a source file (`Parser.h`, `ir/Ops.def`).
A path is looked up at the top, in src/, in python/tegula/ and beside the document; a bare file name anywhere in the tree. `*` stands for any characters, and must match
something; {a,b} for each of these. A word may end in `:LINE` or `::NAME`. What a build or a user makes is in MADE, documents of others in FOREIGN, and `build/...` is never looked up.
"""
import fnmatch
import itertools
import re
import sys
from pathlib import Path

from check_text import ROOT, files

SUFFIXES = ("h", "hpp", "cpp", "c", "py", "pyi", "def", "md", "sh", "cmake", "ir", "map")
# Names in examples, of files that are not in the tree: who makes them.
MADE = {
    "kernel.py": "the user",
    "script.py": "the user",
    "train.py": "the user",
    "add.*.h": "python -m tegula.tools.compile",
    "cpp_wrapper_gpu.py": "PyTorch",
    "src/passes/Name.h": "who adds a pass",
    "Name.cpp": "who adds a pass",
}
# Documents about somebody else's files, whose links alone count.
FOREIGN = {
    "docs/language.md": "what Triton's language means, and Triton's own tests",
}
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
WORD = re.compile(r"[\w.*{},/-]+")
FILE = re.compile(rf"[\w.*{{}},/-]*[\w*}}]\.(?:{'|'.join(SUFFIXES)})\b(?![\w/])")


def tree() -> set[str]:
    """Files that git knows or would add, and their folders."""
    known = files()
    return {*known, *(str(p) for f in known for p in Path(f).parents if str(p) != ".")}


def alternatives(path: str) -> list[str]:
    parts = [p[1:-1].split(",") if p.startswith("{") else [p] for p in re.split(r"(\{[^{}]*\})", path)]
    return ["".join(p) for p in itertools.product(*parts)]


def exists(path: str, beside: str, known: set[str], names: set[str]) -> bool:
    if path in MADE or path.split("/")[0] == "build":
        return True
    if "/" not in path:
        return any(fnmatch.fnmatchcase(n, path) for n in names) if "*" in path else path in names
    for top in ("", "src/", "python/tegula/", f"{beside}/"):
        whole = str(Path(top + path))
        if any(fnmatch.fnmatchcase(k, whole) for k in known) if "*" in whole else whole in known:
            return True
    return False


def paths(line: str, isCode: bool, tops: set[str]):
    """What the line names: (path, whether it is a link)."""
    for target in LINK.findall(line if isCode else SPAN.sub("", line)):
        if "://" not in target and not target.startswith(("#", "mailto:")):
            yield target.split("#")[0], True
    line = LINK.sub("]", line)
    for m in FILE.finditer(line):
        if not line[: m.start()].endswith(("://", "~", "$", "<", ">")) and not m.group().startswith(("/", ".", "-")):
            yield m.group(), False
    for code in [line] if isCode else SPAN.findall(line):
        for word in WORD.findall(code):
            if word.split("/")[0] in tops and "/" in word:
                yield word.rstrip(".,"), False


def main() -> int:
    known = tree()
    names = {Path(k).name for k in known}
    tops = {k for k in known if "/" not in k and (ROOT / k).is_dir()}
    errors = []
    documents = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
    for document in documents:
        where, isCode = document.relative_to(ROOT), False
        for number, line in enumerate(document.read_text().splitlines(), 1):
            if line.startswith("```"):
                isCode = not isCode
            for path, isLink in dict.fromkeys(paths(line, isCode or line.startswith("    "), tops)):
                if str(where) in FOREIGN and not isLink:
                    continue
                for one in alternatives(path):
                    found = (document.parent / one).exists() if isLink else exists(one.rstrip("/"), str(where.parent), known, names)
                    if not found:
                        errors.append(f"{where}:{number}: `{one}` does not exist")
    print("\n".join(errors) if errors else f"paths: ok, {len(documents)} documents")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
