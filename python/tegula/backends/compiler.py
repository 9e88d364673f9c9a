"""The classes that programs written for Triton name when they speak of targets."""
import abc
import dataclasses
import enum


@dataclasses.dataclass(frozen=True)
class GPUTarget:
    """What code is made for: backend "cuda" or "cpu", arch 90 (compute capability) or the processor's name, threads of
    a warp (cpu: 0)."""
    backend: str
    arch: object
    warp_size: int


class Language(enum.Enum):
    TRITON = 0
    GLUON = 1


class BaseBackend(abc.ABC):
    """Base of Triton's pluggable backends; there are none here."""

    def __init__(self, target):
        self.target = target

    @staticmethod
    @abc.abstractmethod
    def supports_target(target):
        raise NotImplementedError
