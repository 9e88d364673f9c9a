"""What hardware can do."""


def max_bps(device_type, arch, bus_width, memory_clock_rate):
    """Bytes a second of memory `bus_width` bits wide at `memory_clock_rate` kHz, two transfers a clock."""
    return 2 * bus_width * memory_clock_rate * 1e3 / 8


def max_flops(device_type, arch, width, num_sms, clock_rate):
    """Dense operations a second of the tensor cores on operands of `width` bits at `clock_rate` kHz."""
    from ..testing import _TENSOR_OPS
    if device_type != "CUDA" or int(arch) // 10 not in _TENSOR_OPS:
        raise ValueError(f"Unsupported device type: {device_type} {arch}")
    return num_sms * 4 * clock_rate * 1e3 * (_TENSOR_OPS[int(arch) // 10] * 16 // width)
