"""`tl.extra`: functions beyond the core language."""
