"""Host code of every kind around a kernel is parsed and left alone."""
import sys
from dataclasses import dataclass
import triton
import triton.language as tl


@dataclass
class Config:
    size: int = 3

    def run(self):
        try:
            yield from (lambda x: x)(range(self.size))
        except ValueError as e:
            raise RuntimeError(f"{e!r:>10}") from e


@triton.jit
def k(x):
    tl.store(x, 1.0)


match sys.argv:
    case [_, name]:
        print(name)

if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        data = {k: v for k, v in (line.split("=") for line in f) if k}
