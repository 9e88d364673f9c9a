"""Exceptions of launches and of loading, under the names of triton.runtime.errors."""
from ..errors import AutotunerError, InterpreterError, OutOfResources, PTXASError, TritonError
