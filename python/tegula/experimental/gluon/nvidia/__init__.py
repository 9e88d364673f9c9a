from . import blackwell, hopper

__all__ = ["blackwell", "hopper"]
