"""What programs written for Triton import from triton.runtime, as far as it is there."""
from . import errors
from .autotuner import Autotuner, Config, Heuristics
from .driver import driver
from .errors import OutOfResources, PTXASError
from .jit import JITFunction, KernelInterface
