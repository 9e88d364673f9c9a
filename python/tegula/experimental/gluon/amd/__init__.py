from . import gfx1250

__all__ = ["gfx1250"]
