"""What programs written for Triton import from triton.runtime, as far as it is there."""
from . import errors
from .errors import OutOfResources, PTXASError
