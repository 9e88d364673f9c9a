#!/usr/bin/env python3
"""Proves that every diagnostic is emitted, has a name of its own, and stands in a golden as its table says.

A kind of a Diagnostics.def must stand in a golden (a `.out` file, or an output in a `.ir` file, of test/) with its severity, with a
text that its format gives, and with the source line and a caret below. ELSEWHERE and NO_CARET list the exceptions with reasons.
What a golden shows must be what the tables say now. Every rule of the IR verifier must be broken in a test.
"""
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOW = ("add a mistake that provokes it to a case of test/instantiate, test/syntax, test/sema, test/targets or test/ir, and run "
       "scripts/update_goldens.py (docs/how-to-add.md, `a message`)")
LITERALS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
# Kinds that no golden can show: where their text is tested, and why there.
ELSEWHERE = {
    "noDefinition": ("unittests/sema/ModuleTest.cpp", "only Python and the C API hand over the text of a single function"),
    "noUsableAttribute": ("python/tests/test_errors.py", "only Python knows what is in modules like numpy"),
    "enumInKernel": ("python/tests/test_enums.py", "only Python has enumerations"),
    "noMember": ("python/tests/test_enums.py", "only Python has enumerations"),
    "noCodegenForTarget": ("unittests/targets/CodegenTest.cpp", "the named targets are all built in; only C++ can ask for another"),
    "malformedIr": ("unittests/ir/VerifierTest.cpp", "a mistake of the compiler itself"),
    "malformedLlvm": ("unittests/targets/CodegenTest.cpp", "a mistake of the compiler itself"),
    "noLibraryFunction": ("unittests/sema/ModuleTest.cpp", "a mistake of the compiler itself"),
    "unreadableModule": ("unittests/sema/ModuleTest.cpp", "the file that shows it has more than 64 MiB"),
}
# Kinds that have no place in a source text, and why.
NO_CARET = {
    "noSuchKernel": "the name stands on the command line",
    "noKernel": "the module is empty",
}


def literal(text: str) -> str:
    return "".join(ast.literal_eval(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', text))


def tables():
    """(kind, severity, format, table) of every row."""
    for table in sorted((ROOT / "src").rglob("Diagnostics.def")):
        for name, severity, text in re.findall(rf"^\s*(?:[A-Z]+_)?DIAG\(\s*(\w+)\s*,\s*(\w+)\s*,\s*{LITERALS}\)", table.read_text(), re.M):
            yield name, severity.lower(), literal(text), table


def goldens():
    """(path, text) of every recorded output."""
    for path in sorted((ROOT / "test").rglob("*.out")):
        yield path, path.read_text(errors="replace")
    for path in sorted((ROOT / "test").rglob("*.ir")):
        outputs = re.findall(r"^# OUT\n((?:# .*\n?|#\n)*)", path.read_text(), re.M)
        yield path, "".join(re.sub(r"^# ?", "", o, flags=re.M) for o in outputs)


def pattern(text: str) -> re.Pattern:
    return re.compile("".join("(.*)" if re.fullmatch(r"\{\d\}", part) else re.escape(part) for part in re.split(r"(\{\d\})", text)), re.S)


def check_emitted(rows) -> list[str]:
    errors, seen = [], {}
    words = lambda files: set(re.findall(r"\w+", "\n".join(p.read_text(errors="replace") for p in files)))
    sources = words((ROOT / "src").rglob("*.cpp"))
    headers = {table: words(table.parent.rglob("*.h")) for table in {row[3] for row in rows}}
    for name, _, _, table in rows:
        where = str(table.relative_to(ROOT))
        if name in seen:
            errors.append(f"{where}: `{name}` is also a kind of {seen[name]}")
        seen[name] = where
        if name not in sources and name not in headers[table]:
            errors.append(f"{where}: `{name}` is never emitted; delete it")
    return errors


def check_goldens(rows) -> list[str]:
    kinds = {name: (severity, pattern(text)) for name, severity, text, _ in rows}
    errors, shown, with_caret = [], set(), set()
    for path, text in goldens():
        lines = text.splitlines()
        for i, line in enumerate(lines):
            m = re.fullmatch(r"(.+:\d+:\d+: |tegula: |)(remark|warning|error): (.*) \[(\w+)\]", line)
            # Remarks of an assembler or a tool may have kinds of their own.
            if not m or (m.group(4) not in kinds and m.group(2) == "remark"):
                continue
            place, severity, message, kind = m.groups()
            where = f"{path.relative_to(ROOT)}: `{kind}`"
            if kind not in kinds:
                errors.append(f"{where} is in no Diagnostics.def; run scripts/update_goldens.py")
                continue
            if kinds[kind][0] != severity or not kinds[kind][1].fullmatch(message):
                errors.append(f"{where} has another text or severity in its table; run scripts/update_goldens.py")
            shown.add(kind)
            if place and len(lines) > i + 2 and re.match(r" *\d+ \| ", lines[i + 1]) and re.match(r" *\| +\^", lines[i + 2]):
                with_caret.add(kind)
    for name, _, text, table in rows:
        where = f"{table.relative_to(ROOT)}: `{name}`"
        if name in ELSEWHERE:
            test = ELSEWHERE[name][0]
            if name in shown:
                errors.append(f"{where} is in a golden; take it out of ELSEWHERE in scripts/check_diagnostics.py")
            if not all(part.strip() in (ROOT / test).read_text() for part in re.split(r"\{\d\}", text)):
                errors.append(f"{where}: its text is not in {test}")
        elif name not in shown:
            errors.append(f"{where} is in no golden: {HOW}")
        elif (name in with_caret) == (name in NO_CARET):
            errors.append(f"{where} " + ("has a caret; take it out of NO_CARET in scripts/check_diagnostics.py" if name in NO_CARET else
                                         "has no place in any golden: give report() the place of what is wrong"))
    stale = [n for n in (*ELSEWHERE, *NO_CARET) if n not in kinds]
    return errors + [f"scripts/check_diagnostics.py: `{n}` is in no Diagnostics.def" for n in stale]


def check_verifier() -> list[str]:
    """Every text of `bad(...)` in the verifier stands in an output of test/ir or in the verifier's own test."""
    source = (ROOT / "src/ir/Verifier.cpp").read_text()
    tests = "".join(text for path, text in goldens() if path.parent.name == "ir") + (ROOT / "unittests/ir/VerifierTest.cpp").read_text()
    errors, wanted = [], {}
    for call in re.findall(r"\bbad\((?:&\w+|\w+), (.*?)\);", source, re.S):
        # A choice gives several texts; a text may be put together of pieces.
        for choice in re.split(r"[?:](?= )", call) if " ? " in call else [call]:
            pieces = [literal(p) for p in re.findall(r'"(?:[^"\\]|\\.)*"', choice)]
            if pieces:
                wanted[tuple(pieces)] = wanted.get(tuple(pieces), 0) + 1
    for pieces, places in wanted.items():
        shown = len(re.findall("[^\n]*".join(re.escape(p) for p in pieces), tests))
        if shown < places:
            errors.append(f'src/ir/Verifier.cpp: {places} rules say "{"...".join(pieces)}", {shown} tests show it; add a case to test/ir/verifier.ir')
    return errors


def main() -> int:
    rows = list(tables())
    errors = check_emitted(rows) + check_goldens(rows) + check_verifier()
    print("\n".join(errors))
    if not errors:
        print(f"{len(rows)} kinds")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
