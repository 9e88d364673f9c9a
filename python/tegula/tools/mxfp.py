"""Block-scaled formats on the host, with PyTorch: elements e2m1 (MXFP4) and scales e8m0."""
import torch

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of e2m1, by its lowest three bits


def fp8e8m0_to_float32(scale):
    """2^(byte - 127); byte 255 is NaN."""
    exponent = scale.view(torch.uint8).to(torch.int32)
    bits = torch.where(exponent == 0, torch.full_like(exponent, 1 << 22), exponent << 23)  # 2^-127 is subnormal
    return torch.where(exponent == 255, torch.full_like(exponent, 0x7FC00000), bits).view(torch.float32)


class _Codes:
    """Values of a format of a byte or less, one in each byte of `data`: of a tensor of any floating-point type, or without data, of a shape."""

    def __init__(self, data=None, size=None, device=None):
        if data is None and size is None:
            raise ValueError("Either data or size must be provided")
        self.device = device if data is None or device is not None else data.device
        self.data = None
        if data is not None:
            self.data = self._encode(data.to(torch.float32).to(self.device))
            self.size = tuple(data.shape)
        else:
            self.size = size if isinstance(size, tuple) else (size,)


class MXFP4Tensor(_Codes):
    """e2m1 values."""

    @staticmethod
    def _encode(x):
        """Round to nearest, ties to the even code; too large gives 6."""
        magnitudes = torch.tensor(_MAGNITUDES, dtype=torch.float32, device=x.device)
        a = x.abs().clamp(max=6.0)
        above = torch.searchsorted(magnitudes, a.contiguous()).clamp(max=7)
        below = (above - 1).clamp(min=0)
        low, high = magnitudes[below], magnitudes[above]
        up = (high - a < a - low) | ((high - a == a - low) & (above % 2 == 0)) | (a == high)
        code = torch.where(up, above, below).to(torch.uint8)
        return code | (torch.signbit(x).to(torch.uint8) << 3)

    def random(self):
        """Fills it with random values."""
        self.data = torch.randint(0, 16, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype):
        if dtype != torch.float32:
            raise AssertionError("Currently only float32 is supported for f4e2m1 to float conversion")
        magnitudes = torch.tensor(_MAGNITUDES, dtype=torch.float32, device=self.data.device)
        value = magnitudes[(self.data & 7).to(torch.int64)]
        return torch.where((self.data & 8) != 0, -value, value)

    def to_packed_tensor(self, dim):
        """Two values a byte along `dim`, the first in the low half; an odd extent is filled up with 0."""
        data = self.data
        if not -data.dim() <= dim < data.dim():
            raise AssertionError("The dimension to pack along is not within the range of tensor dimensions")
        if data.size(dim) % 2:
            padding = [0] * (2 * data.dim())
            padding[2 * (data.dim() - 1 - dim % data.dim()) + 1] = 1
            data = torch.nn.functional.pad(data, padding)
        low, high = data.unflatten(dim, (-1, 2)).unbind(dim % data.dim() + 1)
        return (high << 4) | low

    def unpack_packed_tensor(self, packed_tensor, dim, original_shape):
        """What to_packed_tensor(dim) of a tensor of that shape was made of, one value a byte."""
        dim = dim % packed_tensor.dim()
        both = torch.stack((packed_tensor & 15, packed_tensor >> 4), dim + 1).flatten(dim, dim + 1)
        return both.narrow(dim, 0, original_shape[dim])


class MXScaleTensor(_Codes):
    """e8m0 scales, of positive numbers."""

    @staticmethod
    def _encode(x):
        """The exponent of the next lower power of two; 255, NaN, for what is not positive and finite."""
        wrong = ~torch.isfinite(x) | (x <= 0)
        exponent = torch.frexp(torch.where(wrong, torch.ones_like(x), x)).exponent - 1 + 127
        return torch.where(wrong, torch.full_like(exponent, 255), exponent.clamp(0, 254)).to(torch.uint8)

    def random(self, low=None, high=None):
        """Fills it with random powers of two from `low` to `high`."""
        exponent = lambda x, default: default if x is None else int(torch.log2(torch.tensor(float(x))).item()) + 127
        low, high = max(0, exponent(low, 0)), min(254, exponent(high, 254))
        if low > high:
            raise AssertionError("Low must not be greater than high")
        self.data = torch.randint(low, high + 1, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype):
        if dtype != torch.float32:
            raise AssertionError("Currently only float32 is supported for f8e8m0 to float conversion")
        return fp8e8m0_to_float32(self.data)
