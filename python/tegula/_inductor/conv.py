"""Convolutions on CPUs by templates: Inductor gives the bias to the library's kernel there, and its template has none."""
import functools


def _wants_template(x):
    from torch._inductor import config, ir
    backends = {name.strip() for name in config.max_autotune_conv_backends.upper().split(",")}
    return config.cpu_backend == "triton" and config.max_autotune and "TRITON" in backends and ir.get_device_type(x) == "cpu"


def add_bias_apart(module):
    """Wraps the lowerings of torch._inductor.kernel.conv: where the template is a choice, the bias is added to what it gives, as on GPUs."""
    import torch
    from torch._inductor.lowering import lowerings
    aten = torch.ops.aten

    def wrapped(lowering):
        @functools.wraps(lowering)
        def convolution(x, weight, bias, *args, **kwargs):
            if bias is None or not _wants_template(x):
                return lowering(x, weight, bias, *args, **kwargs)
            result = lowering(x, weight, None, *args, **kwargs)
            return lowerings[aten.add](result, lowerings[aten.view](bias, [-1] + [1] * (len(weight.get_size()) - 2)))
        return convolution

    for operator in (aten.convolution, aten.convolution.default):
        if operator in lowerings:
            lowerings[operator] = wrapped(lowerings[operator])
