"""Classes that other libraries ask kernels to be of. This version of tegula cannot tune: Autotuner has no objects."""
from ..errors import OutOfResources, PTXASError
from ..heuristics import Heuristics, heuristics


class Config:
    """One choice of meta-parameters and options of a launch."""

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None):
        self.kwargs = kwargs
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg
        self.pre_hook, self.ir_override = pre_hook, ir_override

    def all_kwargs(self):
        """What a launch with this choice is given, options that are not set left out."""
        return {**self.kwargs, **{k: v for k, v in self._options().items() if v is not None}}

    def _options(self):
        names = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")
        return {name: getattr(self, name) for name in names}

    def __str__(self):
        return ", ".join(f"{k}: {v}" for k, v in {**self.kwargs, **self._options()}.items())


class Autotuner:

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("this version of tegula has no autotuner")


def autotune(*args, **kwargs):
    raise NotImplementedError("this version of tegula has no autotuner")
