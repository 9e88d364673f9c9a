"""`driver.active`: the device that launches run on unless their tensors say otherwise."""
import os

from ..backends import backends
from ..backends.driver import CPUDriver, DriverBase, GPUDriver

_BY_NAME = {"cuda": "nvidia", "gpu": "nvidia"}


def _create_driver():
    """The one that $TRITON_DEFAULT_BACKEND or $TEGULA_DEVICE names, else the one from outside that is active, else a GPU's if there is one, else the CPU's."""
    chosen = os.environ.get("TRITON_DEFAULT_BACKEND") or os.environ.get("TEGULA_DEVICE", "").partition(":")[0]
    if chosen:
        name = _BY_NAME.get(chosen, chosen)
        if name not in backends:
            raise RuntimeError(f"Unknown backend '{chosen}'. Available backends: {sorted(backends)}")
        return backends[name].driver()
    active = [b.driver for name, b in backends.items() if name not in ("cpu", "sim") and b.driver.is_active()]
    if len(active) > 1:
        raise RuntimeError(f"{len(active)} active drivers ({active}). There should only be one.")
    return active[0]() if active else CPUDriver()


class DriverConfig:
    """`active` is made when it is asked for first."""

    def __init__(self):
        self._default = self._active = None

    @property
    def default(self):
        if self._default is None:
            self._default = _create_driver()
        return self._default

    @property
    def active(self):
        return self.default if self._active is None else self._active

    def set_active(self, driver):
        """What launches without tensors, autotuning and tests ask from now on. Launches with tensors run where these are."""
        self._active = driver

    def reset_active(self):
        self._active = None

    def set_active_to_cpu(self):
        self.set_active(backends["cpu"].driver())

    def set_active_to_gpu(self):
        self.set_active(backends["nvidia"].driver())

    def get_active_gpus(self):
        return [b for name, b in backends.items() if name not in ("cpu", "sim") and b.driver.is_active()]


driver = DriverConfig()


def __getattr__(name):
    # `triton.runtime.driver` is the object to some and this module to others, depending on what was imported last.
    return getattr(driver, name)
