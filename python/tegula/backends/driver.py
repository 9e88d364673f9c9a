"""Base of the objects that `triton.runtime.driver.active` may be."""
import abc


class DriverBase(abc.ABC):

    @classmethod
    @abc.abstractmethod
    def is_active(cls):
        """Can kernels run on its device?"""

    @abc.abstractmethod
    def get_current_target(self):
        """The GPUTarget that launches are compiled for unless they say otherwise."""
