from . import cdna5, gfx1250

__all__ = ["cdna5", "gfx1250"]
