"""Finding the source text of a function and the values it captures."""
import ast
import inspect
import re
import sys
import textwrap
import types

_NO_SOURCE = """@jit functions should be defined in a Python file: the source of `{}` ({}) cannot be found. Write it to a file and import that, or give linecache its \
text under a name of its own:
  linecache.cache["<kernel 1>"] = (len(text), None, text.splitlines(True), "<kernel 1>"); exec(compile(text, "<kernel 1>", "exec"))"""


def function_source(fn):
    """(file name, text of the definition with its decorators, line of the first line of that text)."""
    try:
        lines, start = inspect.findsource(inspect.unwrap(fn))
        lines, first = _block(lines[start:]), start + 1
    except (OSError, TypeError) as e:
        text = _executed_text(fn.__code__)
        if text is None:
            raise ValueError(_NO_SOURCE.format(fn.__qualname__, fn.__code__.co_filename)) from e
        first = fn.__code__.co_firstlineno
        lines = _block(text.splitlines(keepends=True)[first - 1:])
    return _file_of(fn), textwrap.dedent("".join(lines)), first


_DEFINITION = re.compile(r"[ \t]*(@|(async[ \t]+)?def\b)")
_TRIES = 16


def _indent(line):
    return len(line) - len(line.lstrip(" \t"))


def _block(lines):
    """The lines of the definition that the first one begins: what inspect.getblock() gives, which runs Python's tokenizer in Python over the whole body
    and would be most of what a decorator costs.

    The definition ends before a line that is indented no deeper than its first one, unless that line is in the middle of a statement (brackets, a string)
    or belongs to the `def` below a decorator. What ends too early is no complete definition, so the parser tells."""
    if _DEFINITION.match(lines[0]):
        base, tries = _indent(lines[0]), 0
        for end in range(1, len(lines) + 1):
            if end < len(lines) and (lines[end].lstrip()[:1] in ("", "#") or _indent(lines[end]) > base):
                continue
            text = "".join(lines[:end])
            tries += 1
            if "\\" in text or tries > _TRIES:
                break  # to parse an escape sequence may be to warn of it, at a place that is none
            try:
                found, = ast.parse("if 1:\n" + text if base else text).body
            except (SyntaxError, ValueError):
                continue
            found = found.body[0] if base else found
            return lines[:_with_comments(lines, found, end)]
    return inspect.getblock(lines)


def _with_comments(lines, definition, end):
    """The line after a definition and the comments that stand in line with its body, or deeper, at its end."""
    above = 1 if definition.col_offset else 0  # the line in front of an indented text
    last, body = definition.end_lineno - above, definition.body[0]
    if body.lineno > definition.lineno:
        for i in range(last, end):
            if lines[i].lstrip().startswith("#") and _indent(lines[i]) >= body.col_offset:
                last = i + 1
    return last


def _file_of(fn):
    try:
        return inspect.getsourcefile(fn) or fn.__code__.co_filename
    except TypeError:
        return fn.__code__.co_filename


def _executed_text(code):
    """What exec() was given, if the function is just being defined by it: a string of one of the callers which compiles to this very code."""
    frame = sys._getframe()
    while frame and not (frame.f_code.co_filename == code.co_filename and frame.f_code.co_name == "<module>"):
        frame = frame.f_back
    tried = set()
    for caller in _callers(frame):
        for text in (*caller.f_locals.values(), *caller.f_code.co_consts, *caller.f_globals.values()):
            if isinstance(text, str) and id(text) not in tried and code.co_name in text:
                tried.add(id(text))
                if _contains(text, code):
                    return text
    return None


def _callers(frame):
    for _ in range(4):
        frame = frame and frame.f_back
        if frame:
            yield frame


def _contains(text, code):
    try:
        pending = [compile(text, code.co_filename, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return False
    while pending:
        for c in pending.pop().co_consts:
            if isinstance(c, types.CodeType):
                if _same(c, code):
                    return True
                pending.append(c)
    return False


def _same(a, b):
    """Whether two code objects are of one text. Their flags may differ, by what `from __future__` gave the one that runs."""
    fields = ("co_name", "co_firstlineno", "co_code", "co_names", "co_varnames", "co_freevars")
    return all(getattr(a, f) == getattr(b, f) for f in fields) and len(a.co_consts) == len(b.co_consts) and all(
        _same(x, y) if isinstance(x, types.CodeType) and isinstance(y, types.CodeType) else type(x) is type(y) and repr(x) == repr(y)
        for x, y in zip(a.co_consts, b.co_consts))


def captured(fn, name):
    """(found, value, the cell or dict that it is or would be in) of a free name: closure cell, then module global."""
    code = fn.__code__
    if fn.__closure__ and name in code.co_freevars:
        cell = fn.__closure__[code.co_freevars.index(name)]
        try:
            return True, cell.cell_contents, cell
        except ValueError:
            return False, None, cell
    if name in fn.__globals__:
        return True, fn.__globals__[name], fn.__globals__
    return False, None, fn.__globals__


def is_namedtuple_class(value):
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def is_module(value):
    return isinstance(value, types.ModuleType)


def start_of_def(text):
    """Behind the decorators."""
    start = re.search(r"^(async )?def\s", text, re.MULTILINE)
    return start.start() if start else 0


def stand_in(name, signature):
    """The text of a function that somebody gave another signature, until _unsafe_update_src() brings the one that belongs to it."""
    bare = [p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else None) for p in signature.parameters.values()]
    return f"def {name}{inspect.Signature(bare)}:\n    pass\n"
