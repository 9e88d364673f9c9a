"""`triton.profiler.metric`: numbers that programs add to scopes."""
import re

from . import _session

FLOPS_WIDTHS = (8, 16, 32, 64)


def _metric(v):
    """A number, or a list of numbers."""
    if hasattr(v, "tolist"):
        v = v.tolist()
    return [float(x) for x in v] if isinstance(v, (list, tuple)) else float(v)


def _add_metrics(metrics):
    """"name (pty)" is a property, which may be text and is not summed up, "name (exc)" too."""
    sums, properties = {}, {}
    for k, v in metrics.items():
        bare = re.sub(r"\s*\((?:pty|exc)\)$", "", k)
        if bare == k:
            sums[k] = _metric(v)
        else:
            properties[bare] = v if isinstance(v, str) else _metric(v)
    for s in _session.active_sessions():
        node = s.root.at(s.path())
        node.add(sums)
        node.metrics.update(properties)


def transform_tensor_metrics(metrics):
    """({name: number or list}, {}): tensors, of any device, become what they hold."""
    return {k: v if isinstance(v, str) else _metric(v) for k, v in metrics.items()}, {}
