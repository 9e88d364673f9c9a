"""`driver.active`: what launches run on unless they say otherwise."""
import platform
import sys

from .. import _core
from ..backends.compiler import GPUTarget
from ..backends.driver import DriverBase


class _Active(DriverBase):
    """The first GPU that tegula can use, or PyTorch's current one, else the CPU."""

    def _gpus(self):
        return [target for name, target in _core.devices() if name.startswith("cuda:") and target.startswith("sm_")]

    @staticmethod
    def _cuda():
        """torch.cuda, if the program imported PyTorch and it sees a GPU."""
        torch = sys.modules.get("torch")
        return torch.cuda if torch is not None and torch.cuda.is_available() else None

    @classmethod
    def is_active(cls):
        return True

    def get_current_device(self):
        """Ordinal of the GPU; 0 for the CPU."""
        cuda = self._cuda()
        return cuda.current_device() if cuda and self._gpus() else 0

    def get_current_target(self):
        gpus = self._gpus()
        if not gpus:
            return GPUTarget("cpu", platform.machine(), 0)
        target = gpus[min(self.get_current_device(), len(gpus) - 1)]
        return GPUTarget("cuda", int("".join(c for c in target if c.isdigit())), 32)

    def get_current_stream(self, device=None):
        """Address of PyTorch's current stream; 0, the default stream, without it."""
        cuda = self._cuda()
        return cuda.current_stream(device).cuda_stream if cuda and self._gpus() else 0

    def get_active_torch_device(self):
        import torch
        return torch.device("cuda", self.get_current_device()) if self._gpus() else torch.device("cpu")


class _Driver:

    def __init__(self):
        self.active = self.default = _Active()


driver = _Driver()


def __getattr__(name):
    # `triton.runtime.driver` is the object to some and this module to others, depending on what was imported last.
    return getattr(driver, name)
