"""`python -m triton.profiler.viewer` (`proton-viewer`) and its functions: trees that sessions wrote (NAME.hatchet), printed with sums and rates. Needs no other package."""
import argparse
import json
import re
import sys

from . import specs
from .hooks import COMPUTE_METADATA_SCOPE_NAME, LaunchHook

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_SCALES = {"": 1.0, "g": 1e9, "t": 1e12}
_FORMATS = ("full", "file_function_line", "function_line", "file_function")


class Node:
    """A frame of a profile. `metrics`: what the file says of it alone; `values`: the columns that parse() made, inclusive (None: cannot be said)."""

    def __init__(self, frame):
        self.name = frame["frame"]["name"]
        self.metrics = dict(frame["metrics"])
        self.children = [Node(c) for c in frame["children"]]
        self.values = {}

    def nodes(self):
        """It and all below it."""
        yield self
        for c in self.children:
            yield from c.nodes()

    def total(self, metric):
        """The sum over the node and all below it; None where no one has it."""
        found = [m for n in self.nodes() if isinstance(m := n.metrics.get(metric), (int, float))]
        return sum(found) if found else None


def get_raw_metrics(database):
    """(tree, names of its metrics, device information) of a file that is open, or of what data.get() gives."""
    if hasattr(database, "read"):
        database = json.load(database)
    try:
        tree, devices = Node(database[0]), database[1] if len(database) > 1 else {}
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ValueError("this is no profile of a session (NAME.hatchet)") from None
    names = dict.fromkeys(k for n in tree.nodes() for k, v in n.metrics.items() if isinstance(v, (int, float)))
    return tree, list(names), devices


def read(filename):
    """(tree, names of its metrics, device information) of NAME.hatchet or NAME.hatchet_msgpack."""
    if str(filename).endswith("_msgpack"):
        import msgpack
        with open(filename, "rb") as f:
            return get_raw_metrics(msgpack.unpackb(f.read(), raw=False, strict_map_key=False))
    with open(filename, encoding="utf-8") as f:
        return get_raw_metrics(f)


def _bare(metric):
    return metric.split("(")[0].strip().lower()


def _matched(metric, raw):
    """The metric of the file that is called so, with or without its unit."""
    for name in raw:
        if metric.lower() in (name.lower(), _bare(name)):
            return name
    raise RuntimeError(f"Metric {metric} is not found. Use the --list flag to list available metrics: {', '.join(map(_bare, raw)) or 'none'}")


def _ratio(a, b, scale=1.0):
    return a / b / scale if a is not None and b else None


def _least_time(node, devices):
    """Seconds that the node's operations and bytes take at the rates of the hardware, the longer of the two; None of devices whose rates are not known."""
    flops = transfer = 0.0
    for n in node.nodes():
        for kind, each in devices.items():
            d = each.get(str(n.metrics.get("device_id")))
            if d is None or n.metrics.get("device_type", kind) != kind:
                continue
            for width in LaunchHook.flops_width:
                if f"flops{width}" in n.metrics:
                    try:
                        flops += n.metrics[f"flops{width}"] / specs.max_flops(kind, d["arch"], width, d["num_sms"], d["clock_rate"])
                    except ValueError:
                        return None
            rate = specs.max_bps(kind, d["arch"], d["bus_width"], d["memory_clock_rate"])
            transfer += n.metrics.get("bytes", 0) / rate if rate else 0.0
    return max(flops, transfer)


def _column(metric, raw, devices, root):
    """(name of the column, function of a node)"""
    lower = metric.lower()
    if m := re.fullmatch(r"(avg_)?((?:cpu_)?time)/(s|ms|us|ns|%)", lower):
        average, base, unit = m.groups()
        name = _matched(base, raw)
        seconds = _SECONDS[name.split("(")[1].split(")")[0]] if "(" in name else 1.0
        if unit == "%":
            whole = root.total(name)
            return metric, lambda n: _ratio(n.total(name), whole, 0.01)
        scale = _SECONDS[unit] / seconds
        if average:
            return metric, lambda n: None if n.children else _ratio(n.total(name), n.total("count"), scale)
        return metric, lambda n: None if n.total(name) is None else n.total(name) / scale
    if m := re.fullmatch(r"([gt]?)(flop(?:8|16|32|64)?|byte)/s", lower):
        scale, kind = m.groups()
        name = _matched(kind.replace("flop", "flops") if kind.startswith("flop") else "bytes", raw)
        time = _matched("time", raw)
        seconds = _SECONDS[time.split("(")[1].split(")")[0]]
        return metric, lambda n: _ratio(n.total(name), n.total(time), _SCALES[scale] * seconds)
    if lower == "util":
        time = _matched("time", raw)
        return metric, lambda n: None if n.children else _ratio(_least_time(n, devices), n.total(time), _SECONDS[time.split("(")[1].split(")")[0]])
    name = _matched(metric, raw)
    return name, lambda n: n.total(name)


def derive_metrics(tree, metrics, raw_metrics, device_info):
    """Gives each node the columns, and returns their names."""
    columns = [_column(m, raw_metrics, device_info, tree) for m in metrics or raw_metrics[:1]]
    for n in tree.nodes():
        n.values = {f"{name} (inc)": of(n) for name, of in columns}
    return [f"{name} (inc)" for name, _ in columns]


def filter_frames(tree, include=None, exclude=None, threshold=None, metric=None):
    """Of the tree the paths with a frame that `include` matches; without the frames that `exclude` matches, those below `threshold` of the column, and the profiler's own."""
    def kept(node, inside):
        inside = inside or bool(include and re.search(include, node.name))
        node.children = [c for c in node.children if c.name != COMPUTE_METADATA_SCOPE_NAME and not (exclude and re.search(exclude, c.name)) and kept(c, inside)]
        low = threshold and not node.children and (node.values.get(metric) or 0) < threshold
        return not low and (inside or not include or bool(node.children))
    kept(tree, False)
    return tree


def parse(metrics, filename, include=None, exclude=None, threshold=None):
    """(tree, columns) of a file: `metrics` are names of the file's or derived ones (--help lists them)."""
    tree, raw, devices = read(filename)
    if not raw:
        raise RuntimeError(f"{filename}: no metrics found in the profile")
    columns = derive_metrics(tree, metrics, raw, devices)
    return filter_frames(tree, include, exclude, threshold, columns[0]), columns


def _name(name, form):
    name = {"file_function_line": lambda: name.split("/")[-1], "function_line": lambda: name.split(":")[-1],
            "file_function": lambda: name.split("/")[-1].split("@")[0]}.get(form, lambda: name)()
    return name


def format_frames(tree, format):
    """Shortens the names of frames of Python, file:function@line."""
    for n in tree.nodes():
        n.name = _name(n.name, format)
    return tree


def print_tree(tree, metrics, depth=100, format=None, print_sorted=False):
    """Prints the columns of each frame before its name; `print_sorted`: then the kernels, those with the most of the first column first."""
    def line(node, prefix, below, level):
        values = " ".join("nan" if node.values.get(m) is None else f"{node.values[m]:.3f}" for m in metrics)
        print(f"{prefix}{values} {_name(node.name, format)}")
        for i, c in enumerate(node.children if level < depth else ()):
            last = i + 1 == len(node.children)
            line(c, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), level + 1)
    line(tree, "", "", 0)
    if print_sorted:
        print("Sorted kernels by metric " + metrics[0].removesuffix(" (inc)"))
        whole = tree.values.get(metrics[0])
        for n in sorted((n for n in tree.nodes() if not n.children), key=lambda n: n.values.get(metrics[0]) or 0, reverse=True):
            share = _ratio(n.values.get(metrics[0]), whole, 0.01)
            print(f"{_name(n.name, format)[:100]:105} {'nan' if share is None else f'{share:.4}'}%")


def show_metrics(filename):
    print("Available metrics:")
    for name in read(filename)[1]:
        print(f"- {_bare(name)}")


def main(arguments=None):
    p = argparse.ArgumentParser(prog="proton-viewer", description="Prints a profile.", formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("file")
    p.add_argument("-l", "--list", action="store_true", help="names of the file's metrics")
    p.add_argument("-m", "--metrics", default=None, help="columns, separated by commas: metrics of the file (without their unit), or\n"
                   "time/s, ms, us, ns, %%; avg_time/...; cpu_time/...: sums, or divided by the number of launches\n"
                   "flop/s, flop8/s, flop16/s, flop32/s, flop64/s, byte/s, with g or t before them: rates\n"
                   "util: the least time that the hardware needs for operations and bytes, over the time")
    p.add_argument("-i", "--include", default=None, help="only paths with a frame that the regular expression matches")
    p.add_argument("-e", "--exclude", default=None, help="without frames that it matches, and those below them")
    p.add_argument("-t", "--threshold", type=float, default=None, help="without kernels that have less of the first column")
    p.add_argument("-d", "--depth", type=int, default=100)
    p.add_argument("-f", "--format", choices=_FORMATS, default="full", help="of frames of Python")
    p.add_argument("--print-sorted", "--print_sorted", action="store_true", help="then the kernels in order")
    a = p.parse_args(arguments)
    if a.include and a.exclude:
        p.error("--include and --exclude cannot be given together")
    try:
        if a.list:
            show_metrics(a.file)
            return
        tree, columns = parse(a.metrics.split(",") if a.metrics else None, a.file, a.include, a.exclude, a.threshold)
    except (OSError, ValueError, RuntimeError, re.error) as e:
        sys.exit(f"{p.prog}: {e if isinstance(e, OSError) or a.file in str(e) else f'{a.file}: {e}'}")
    print_tree(tree, columns, a.depth, a.format, a.print_sorted)


if __name__ == "__main__":
    main()
