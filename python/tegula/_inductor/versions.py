"""What each version of PyTorch wants of tegula: one table, and an error for versions that it does not have."""
import dataclasses


class UnknownVersion(RuntimeError):
    """A version of PyTorch that the table does not have."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What Inductor of one version is told: {name in torch._inductor.config: value}."""
    settings: dict


# Kernels are launched by the library: Inductor's own launcher of cubins gives arguments as Triton's cubins take them.
_STATIC = "use_static_cuda_launcher"
_ALL = {"cpu_backend": "triton", _STATIC: False}

VERSIONS = {
    (2, 9): Wanted(_ALL),
    (2, 10): Wanted(_ALL),
    (2, 11): Wanted(_ALL),
    (2, 12): Wanted(_ALL),
    (2, 13): Wanted(_ALL),
    (2, 14): Wanted(_ALL),
    (2, 15): Wanted(_ALL),
}


def wanted(version=None):
    """The row of a version's text, of the PyTorch here by default; raises UnknownVersion."""
    if version is None:
        import torch
        version = torch.__version__
    major, minor = (int(n) for n in str(version).split(".")[:2])
    found = VERSIONS.get((major, minor))
    if found is None:
        first, last = (".".join(map(str, v)) for v in (min(VERSIONS), max(VERSIONS)))
        raise UnknownVersion(f"tegula emits for torch {first} to {last}, not for torch {version}")
    return found
