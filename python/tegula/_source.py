"""Finding the source text of a function and the values it captures."""
import inspect
import textwrap
import types


def function_source(fn):
    """(file name, text of the definition with its decorators, line of the first line of that text)."""
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError) as e:
        raise ValueError("@jit functions should be defined in a Python file") from e
    return inspect.getsourcefile(fn) or fn.__code__.co_filename, textwrap.dedent("".join(lines)), first


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
