"""What each version of PyTorch wants of tegula: one table, and an error for versions that it does not have."""
import dataclasses


class UnknownVersion(RuntimeError):
    """A version of PyTorch that the table does not have."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What Inductor of one version is told and where its parts are."""
    settings: dict  # {name in torch._inductor.config: value}
    flex: str  # the module with the lowering of flex_attention


_SETTINGS = {"cpu_backend": "triton"}
_WITH_FLEX = Wanted(_SETTINGS, "torch._inductor.kernel.flex.flex_attention")
VERSIONS = {(2, minor): _WITH_FLEX for minor in range(9, 16)}


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
