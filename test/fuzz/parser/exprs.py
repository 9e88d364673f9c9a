f"{x!r:>{w}}" + b"\x00" if a := 1 else lambda: (yield)
