"""Exceptions. A CompilationError carries its diagnostics as text (str(e)) and as data (e.diagnostics)."""


class TegulaError(Exception):
    """Base of what tegula raises by itself."""


class CompilationError(TegulaError):
    """A mistake in a kernel. `diagnostics`: list of dicts with severity, kind, message, file, line, column, end_line, end_column, rendered, notes.
    Of a class for the kind of its first error, where there is one."""

    _kinds: dict = {}  # of diagnostics: the class of errors

    def __new__(cls, text="", diagnostics=()):
        kind = next((d["kind"] for d in diagnostics if d["severity"] == "error"), None)
        return super().__new__(CompilationError._kinds.get(kind, cls) if cls is CompilationError else cls)

    def __init__(self, text="", diagnostics=()):
        super().__init__(text)
        self.diagnostics = list(diagnostics)

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
        return "\n" + super().__str__()

    def __reduce__(self):
        return type(self), (super().__str__(), self.diagnostics)


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
    """An autotuner is left without a configuration."""


class InterpreterError(TegulaError):
    """An exception in a kernel that is interpreted. `error_message`: its text."""

    def __init__(self, error_message=None):
        self.error_message = error_message
        super().__init__(error_message or "")


TritonError = TegulaError
