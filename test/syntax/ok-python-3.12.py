"""What 3.12 brought: nested quotes in f-strings, type parameters, type aliases."""
type Pair[T] = tuple[T, T]
type = 3
def first[T: int, *Ts, **P](x: T) -> T:
    return f"{x["key"]} {f"{f'{x:>{width}}'}"} {
        x  # a comment, with } in it
        !r
    } {x=} {{}}"
class Box[T](Base[T], metaclass=Meta):
    pass
match command.split():
    case ["go", ("north" | "south") as where] if where: pass
    case {"x": 1, **rest} | Point(x=0, y=[*_]): pass
    case -1 | 2 + 3j | None | a.b: pass
    case _: pass
with (open(a) as b, c as (d, e)): pass
try: pass
except* (A, B) as e: pass
