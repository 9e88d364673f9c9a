"""Which kernels take the time: the profiler counts and times launches, sorted into scopes of the program.

`proton.data.get` gives the tree while the program runs; finalize() writes it to a file, which viewers of Triton's profiler read. """
import json

import numpy as np
import tegula
import tegula.language as tl
import tegula.profiler as proton


def work(grid, metadata, args):
    """What the profiler shows beside times, for its column of bandwidth."""
    return {"name": f"scale_{args['n']}", "bytes": 8 * args["n"]}


@tegula.jit(launch_metadata=work)
def scale_kernel(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


def scale(x, factor):
    out = np.empty_like(x)
    scale_kernel[(tegula.cdiv(x.size, 1024),)](x, out, x.size, factor, BLOCK=1024)
    return out


def rows_of(node, depth=0):
    """The tree as lines."""
    metrics = node["metrics"]
    yield f"{'  ' * depth}{node['frame']['name']:<{24 - 2 * depth}}" + ", ".join(f"{k}: {v}" for k, v in metrics.items() if k in ("count", "time (ns)", "bytes"))
    for child in node["children"]:
        yield from rows_of(child, depth + 1)


def main(name="scales"):
    session = proton.start(name, hook="triton")
    x = np.ones(100_000, np.float32)
    with proton.scope("warm up"):
        scale(x, 2.0)
    with proton.scope("steps"):
        for n in (1_000, 100_000):
            for _ in range(3):
                assert (scale(x[:n], 3.0) == 3).all()
    proton.finalize(session)
    with open(f"{name}.hatchet") as file:
        tree = json.load(file)[0]
    lines = list(rows_of(tree))
    assert any("scale_1000" in line for line in lines) and any("steps" in line for line in lines)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
