"""Backends by name. None: code for every target is made in one library, which no Python plug-in can extend."""
from .compiler import BaseBackend, GPUTarget, Language
from .driver import DriverBase

backends = {}
