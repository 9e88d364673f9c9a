"""Exceptions. A CompilationError carries its diagnostics as text (str(e)) and as data (e.diagnostics)."""
import ast
import functools
import linecache
import re
import types
import warnings

from ._memory import is_memory

# What Python would raise where a function of the language is called wrongly, by the kind of the message. Mistakes that are not those of a call
# (operators, names, statements) are not here.
_CALL_ERRORS = {kind: cls for cls, kinds in {
    ValueError: """bitcastWidth roundingNotAllowed unknownRounding pointerCast badCast incompatibleShapes rankMismatch oddExtent needsPowers notPowerOfTwo
        tooManyElements rankTooHigh notIntList runtimeInShape invalidAxis duplicateAxes changesElements badPermutation rankTooLow splitExtent notOneElement wrongShape
        notConstexpr unknownOption badProgramAxis arangeConstexpr arangeEmpty arangeRange arangeInt32 fullValue notPointer otherWithoutMask maskNotBool
        blockForScalar pointerShape storeToConst boundaryOnTensor maskOnBlockPtr badBoundaryDim duplicateBoundaryDim nanPadding blockPtrLengths blockPtrOrder
        advanceLength descriptorRank descriptorLengths descriptorLastStride descriptorBlockBytes descriptorReduceDtype atomicDtype badSemantics badScope
        plainSemantics pollDtype pollNegative pollTimeout casTypes dotUnsupported dotOutDtype impreciseAcc expectedDtype expectedDtypes fdivRounding fdivApprox
        blockExtremum whereCondition hintLength mapResult mapCount mapTypes mapOperation asmCount asmOperand asmConstraint combineResults inputShapes
        reduceScalar gatherIndex gatherExtent zeroStep typesMismatch""",
    TypeError: """badArgument fdivNoFloat hintNotConstexpr noLength rangeArgument rangeScalar tooManyArguments missingArguments unknownKeyword multipleValues""",
    AssertionError: """squeezeExtent catRanks catShapes descriptorOffsets descriptorWideOffset descriptorReduceValue descriptorGatherBlock descriptorGatherColumns
        descriptorGatherRows dotScalar dotDtypes dotInner dotBatch dotPrecision dotPrecisionTwice dotAcc histogramInput prefixAscii""",
    NotImplementedError: "staticAssertUnknown",
}.items() for kind in kinds.split()}

_ARGUMENT_ERRORS = {"cannotConvert": TypeError}  # as _CALL_ERRORS, where the mistake is an argument of a call and no operand


class TegulaError(Exception):
    """Base of what tegula raises by itself."""


class CompilationError(TegulaError):
    """A mistake in a kernel. `diagnostics`: list of dicts with severity, kind, message, file, line, column, end_line, end_column, rendered, notes.
    Of a class for the kind of its first error, where there is one. The text begins with `at L:C:` as Triton counts: lines from the kernel's `def` on, which is 1,
    columns from 0."""

    _kinds: dict = {}  # of diagnostics: the class of errors

    def __new__(cls, text="", diagnostics=()):
        kind = next((d["kind"] for d in diagnostics if d["severity"] == "error"), None)
        return super().__new__(CompilationError._kinds.get(kind, cls) if cls is CompilationError else cls)

    def __init__(self, text="", diagnostics=()):
        super().__init__(text)
        self.diagnostics = list(diagnostics)
        self._origin = None

    @property
    def __cause__(self):
        """Of a mistake in a helper: a CompilationError without the call; of a wrong call of the language's functions: the exception that Python would
        raise there; else None. A property, so that what Python prints of an uncaught error says everything once."""
        if self._origin is None and not super().__cause__:
            self._origin = self._cause_of_first()
        return super().__cause__ or self._origin

    @__cause__.setter
    def __cause__(self, cause):
        BaseException.__cause__.__set__(self, cause)

    def _cause_of_first(self):
        first = self._first
        calls = [i for i, note in enumerate(first.get("notes", ())) if note["message"].startswith("in `") and note["message"].endswith("called from here")]
        if calls:  # the innermost call comes first
            outer = first["notes"][calls[-1]]
            text = first["rendered"].split(f"{outer['file']}:{outer['line']}:{outer['column']}: note: {outer['message']}")[0]
            function = outer["message"].split("`")[1]
            return CompilationError(text, [{**first, "rendered": text, "notes": first["notes"][:calls[-1]], "function": function}])
        cls = _CALL_ERRORS.get(first.get("kind"))
        if first.get("kind") in _ARGUMENT_ERRORS and isinstance(_around(first, 0)[1], ast.Call):
            cls = _ARGUMENT_ERRORS[first["kind"]]
        return cls(first["message"]) if cls else None

    @property
    def _first(self):
        return next((d for d in self.diagnostics if d["severity"] == "error"), {})

    @property
    def message(self):
        return self._first.get("message", str(self))

    error_message = message

    @property
    def kind(self):
        return self._first.get("kind")

    @property
    def file(self):
        return self._first.get("file")

    @property
    def line(self):
        return self._first.get("line")

    @property
    def column(self):
        return self._first.get("column")

    def __str__(self):
        return f"{_at(self._first)}\n{super().__str__()}"

    def __reduce__(self):
        return type(self), (super().__str__(), self.diagnostics)


def _at(error):
    """`at L:C:` of a diagnostic in the kernel, or in the outermost helper where its caller was left out; nothing where the text is not found."""
    notes = error.get("notes", ())  # the interpreter's have none
    place = next((n for n in reversed(notes) if n["message"].endswith("called from here")), error)
    kernel = next((n for n in notes if n["message"].startswith("while instantiating")), None)
    start = kernel["line"] if kernel else _line_of_def(place, error.get("function", ""))
    if not start or place["line"] < start:
        return ""
    first = linecache.getline(place["file"], start)
    indent = len(first) - len(first.lstrip())  # columns count from the `def`
    begin, (operation, _) = _position(place["file"], place["line"], place["column"], indent), _around(place, indent)
    line, column = begin if error["kind"] in _AT_NAMES else operation
    column -= indent
    return f"at {line - start + 1}:{column}:"


def _line_of_def(place, name):
    """Where the function of this name that the place is in begins; 0 if its text is not found."""
    starts = re.compile(rf"\s*(async\s+)?def\s+{re.escape(name.rpartition('.')[2])}\b")
    lines = linecache.getlines(place["file"])[:place["line"]] if name else []
    return next((i for i in range(len(lines), 0, -1) if starts.match(lines[i - 1])), 0)


# As src/support/Source.cpp counts columns: of no width, and of two columns. The regular expressions take longer to compile than the rest of this file to load.
_NO_WIDTH = "[\u0300-\u036f\u200b-\u200f\ufe00-\ufe0f]"
_WIDE = "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\U0001f300-\U0001faff\U00020000-\U0003fffd]"


def _position(file, line, column, indent):
    """(line, offset in UTF-8), as syntax trees have them, of a diagnostic's column in a text without the indentation of its `def`."""
    text, shown, n = linecache.getline(file, line), 0, indent
    while n < len(text) and shown < column - 1:
        shown = shown // 8 * 8 + 8 if text[n] == "\t" else shown + (0 if re.match(_NO_WIDTH, text[n]) else 2 if re.match(_WIDE, text[n]) else 1)
        n += 1
    return line, len(text[:n].encode(errors="surrogatepass"))


def _around(place, indent):
    """Of a diagnostic: where the innermost call or operator around it begins (line, offset in UTF-8), and its syntax; where it begins itself, and None, if there is
    none."""
    begin = _position(place["file"], place["line"], place["column"], indent)
    end = _position(place["file"], place["end_line"], place["end_column"], indent)
    around = [(first, node) for first, last, node in _operations("".join(linecache.getlines(place["file"]))) if first <= begin and end <= last]
    return around[-1] if around else (begin, None)


@functools.lru_cache(maxsize=4)
def _operations(text):
    """Begin, end and syntax of the calls and operators in a file, outer ones first."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the program's text they were said when it was compiled
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset), n) for n in ast.walk(tree)
            if isinstance(n, (ast.Call, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Subscript))]


_AT_NAMES = {"undefinedName", "usedBeforeAssigned", "globalVariable", "noAttribute"}


class CompileTimeAssertionFailure(CompilationError):
    """tl.static_assert does not hold."""


class UnsupportedLanguageConstruct(CompilationError):
    """Python that kernels cannot have."""


CompilationError._kinds.update({
    "staticAssertFailed": CompileTimeAssertionFailure,
    **dict.fromkeys(("unsupportedExpr", "unsupportedStmt", "chainedAssignment", "itemAssignment", "attributeAssignment", "starredTarget", "plainFunction",
                     "loopElse", "doubleStar"), UnsupportedLanguageConstruct)
})


class DeviceError(TegulaError, RuntimeError):
    """A program failed while running: an assert, or in checked mode an access outside a buffer. `fault` has the fields."""

    def __init__(self, text, fault=None):
        super().__init__(text)
        self.fault = fault or {}


class OutOfResources(TegulaError):
    """A kernel needs more of something (`name`) than there is: `required`, `limit` (None where the numbers are not known)."""

    def __init__(self, required=None, limit=None, name="memory", text=None):
        self.required, self.limit, self.name = required, limit, name
        super().__init__(text or f"out of resource: {name}, Required: {required}, Hardware limit: {limit}. Reducing block sizes or `num_stages` may help.")

    def __reduce__(self):
        return type(self), (self.required, self.limit, self.name, str(self))


class PTXASError(TegulaError):
    """NVIDIA's assembler refused a kernel's code. The text is its log, with the lines of the PTX and of the kernel that it means."""

    def __init__(self, error_message=None):
        self.error_message = error_message
        super().__init__(error_message or "")

    def __str__(self):
        return f"PTXAS error: {self.error_message or ''}"


class AutotunerError(TegulaError):
    """An autotuner is left without a configuration. `error_message`: why."""

    def __init__(self, error_message=None):
        self.error_message = error_message
        super().__init__(error_message or "")

    def __str__(self):
        return f"Autotuner error: {self.error_message or ''}"


class InterpreterError(TegulaError):
    """An exception in a kernel that is interpreted. `error_message`: its text."""

    def __init__(self, error_message=None):
        self.error_message = error_message
        super().__init__(error_message or "")


TritonError = TegulaError


_INTERPRETER = "in the interpreter ($TEGULA_INTERPRET=1, tegula.interpret()) Python runs the kernel, and this works"


def explain(fn, error, warmup, args, kwargs):
    """After a mistake in a kernel was found: adds to the text what of the arguments and of Python's objects may be the cause."""
    from ._source import captured
    lines = []
    for d in error.diagnostics:
        if d["kind"] == "globalVariable":
            name = d["message"].split("`")[1]
            _, value, place = captured(fn.fn, name)
            if isinstance(value, types.FunctionType):
                lines.append(f"`{name}` is a function of Python: kernels call those that are decorated with @jit; {_INTERPRETER}")
            elif isinstance(value, type):
                lines.append(f"`{name}` is a class of Python: kernels make tuples, NamedTuples and objects of classes that are decorated with @triton.aggregate")
            elif isinstance(place, types.CellType):
                lines.append(f"{name} is not defined for the kernel: of the function around it kernels see functions, types and tl.constexpr(...) only")
    bound = {**dict(zip(fn.param_names, args)), **kwargs}
    scalars = [k for k, v in bound.items() if getattr(v, "shape", None) == () and is_memory(v)]
    if scalars:
        names = ", ".join(f"`{k}`" for k in scalars)
        lines.append(f"{names}: tensors without dimensions are pointers to kernels; their values are given by .item()")
    if lines:
        error.args = ("\n".join([error.args[0], *lines]), *error.args[1:])
