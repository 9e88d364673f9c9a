"""Linear layouts: which element of a tile each register, lane, warp or place in memory has. The algebra is the library's own.

A layout maps named indices to named coordinates. All sizes are powers of two, and the map is linear over bits: the image of an index is the
exclusive or of the images (bases) of its bits.
"""
from .. import _core


def _bits(size, what):
    if size < 1 or size & (size - 1):
        raise ValueError(f"linear layout: {what} is {size}; sizes are powers of 2")
    return size.bit_length() - 1


class LinearLayout:
    """Immutable. LinearLayout() maps nothing to nothing, the neutral element of `*`."""

    __slots__ = ("_ins", "_outs", "_bases")

    def __init__(self):
        self._ins, self._outs, self._bases = (), (), ()  # (name, bits) of inputs and outputs; coordinates by input bit

    @classmethod
    def _of(cls, ins, outs, bases):
        layout = cls()
        layout._ins, layout._outs, layout._bases = tuple(ins), tuple(outs), tuple(bases)
        _core.layout_rank(layout._value())  # refuses what is none
        return layout

    def _value(self):
        return self._ins, self._outs, self._bases

    @classmethod
    def from_bases(cls, bases, out_dim_names, out_dim_sizes=None, require_surjective=True):
        """`bases`: [(input, [image of bit 0, of bit 1 ...])], an image being a list of coordinates, one for each of `out_dim_names`. Without
        sizes an output has what its largest coordinate needs."""
        rows = list(bases.items() if isinstance(bases, dict) else bases)
        images = [tuple(image) for _, list_ in rows for image in list_]
        names = list(out_dim_names)
        for image in images:
            if len(image) != len(names):
                raise ValueError(f"linear layout: the basis {list(image)} has {len(image)} coordinates for {len(names)} outputs")
        if out_dim_sizes is None:
            sizes = [1 << max((image[i].bit_length() for image in images), default=0) for i in range(len(names))]
        else:
            sizes = list(out_dim_sizes)
            if len(sizes) != len(names):
                raise ValueError(f"linear layout: {len(sizes)} sizes for {len(names)} outputs")
        layout = cls._of([(name, len(list_)) for name, list_ in rows], [(n, _bits(s, f"`{n}`")) for n, s in zip(names, sizes)], images)
        if require_surjective and not layout.is_surjective():
            raise ValueError("linear layout: not every output is reached; require_surjective=False allows that")
        return layout

    @classmethod
    def identity_1d(cls, size, inDim, outDim):
        """i -> i"""
        return cls.strided_1d(size, 1, inDim, outDim)

    @classmethod
    def strided_1d(cls, size, stride, inDim, outDim):
        """i -> i * stride"""
        n = _bits(size, f"`{inDim}`")
        return cls._of([(inDim, n)], [(outDim, n + _bits(stride, "the stride"))], [(stride << i,) for i in range(n)])

    @classmethod
    def zeros_1d(cls, size, inDim, outDim, outDimSize=1):
        """i -> 0"""
        n = _bits(size, f"`{inDim}`")
        return cls._of([(inDim, n)], [(outDim, _bits(outDimSize, f"`{outDim}`"))], [(0,)] * n)

    @property
    def in_dim_names(self):
        return [name for name, _ in self._ins]

    @property
    def out_dim_names(self):
        return [name for name, _ in self._outs]

    @property
    def num_in_dims(self):
        return len(self._ins)

    @property
    def num_out_dims(self):
        return len(self._outs)

    @property
    def in_dims(self):
        """[(name, size)]"""
        return [(name, 1 << bits) for name, bits in self._ins]

    @property
    def out_dims(self):
        """[(name, size)]"""
        return [(name, 1 << bits) for name, bits in self._outs]

    @property
    def bases(self):
        """[(input, [image of bit 0, ...])], as from_bases takes it."""
        found, at = [], 0
        for name, bits in self._ins:
            found.append((name, [list(image) for image in self._bases[at:at + bits]]))
            at += bits
        return found

    def get_bases(self):
        return self.bases

    def get_in_dim_names(self):
        return self.in_dim_names

    def get_out_dim_names(self):
        return self.out_dim_names

    def get_in_dim_size(self, name):
        return dict(self.in_dims)[name]

    def get_out_dim_size(self, name):
        return dict(self.out_dims)[name]

    def apply(self, inputs):
        """{output: coordinate} of {input: index}, which names every input."""
        if set(inputs) != set(self.in_dim_names):
            raise ValueError(f"linear layout: its inputs are {self.in_dim_names}, found {list(inputs)}")
        image = [0] * len(self._outs)
        for name, rows in self.bases:
            if not 0 <= inputs[name] < 1 << len(rows):
                raise ValueError(f"linear layout: `{name}` has {1 << len(rows)} values, {inputs[name]} is none of them")
            for i, row in enumerate(rows):
                if inputs[name] >> i & 1:
                    image = [a ^ b for a, b in zip(image, row)]
        return dict(zip(self.out_dim_names, image))

    def _rank(self):
        return _core.layout_rank(self._value())

    def is_surjective(self):
        """Is every output reached?"""
        return self._rank() == sum(bits for _, bits in self._outs)

    def is_injective(self):
        """Have no two inputs the same image?"""
        return self._rank() == len(self._bases)

    def is_invertible(self):
        return self.is_surjective() and self.is_injective()

    def _operate(self, name, other=None):
        if other is not None and not isinstance(other, LinearLayout):
            raise TypeError(f"a LinearLayout is needed, found {type(other).__name__}")
        return self._of(*_core.layout_operate(name, self._value(), None if other is None else other._value()))

    def compose(self, outer):
        """x -> outer(self(x))"""
        return self._operate("compose", outer)

    def invert(self):
        return self._operate("invert")

    def pseudoinvert(self):
        """An input for each output that is reached: of several the one of the earliest bits."""
        return self._operate("pseudoinvert")

    def invert_and_compose(self, outer):
        """Where `outer` has what this one has: other(result(x)) is self(x)."""
        return self._operate("invert_and_compose", outer)

    def divide_left(self, lo):
        """The layout with lo * layout == self, None if there is none."""
        return self._divide("divide_left", lo)

    def divide_right(self, hi):
        """The layout with layout * hi == self, None if there is none."""
        return self._divide("divide_right", hi)

    def _divide(self, name, other):
        try:
            return self._operate(name, other)
        except LookupError:
            return None

    def get_matrix_view(self):
        """Rows of 0 and 1, one for each bit of the outputs, with a column for each bit of the inputs; the first dimension's lowest bit first."""
        return [[image[i] >> bit & 1 for image in self._bases] for i, (_, bits) in enumerate(self._outs) for bit in range(bits)]

    def __mul__(self, hi):
        """Side by side; in dimensions of both this one has the low bits."""
        return self._operate("multiply", hi) if isinstance(hi, LinearLayout) else NotImplemented

    def __eq__(self, other):
        return self._value() == other._value() if isinstance(other, LinearLayout) else NotImplemented

    def __hash__(self):
        return hash(self._value())

    def __reduce__(self):
        return LinearLayout._of, self._value()

    def __repr__(self):
        lines = []
        for name, rows in self.bases:
            lines.append(f" - {name} is a size 1 dimension" if not rows else
                         "\n".join(f" {'-' if i == 0 else ' '} {name}={1 << i} -> ({', '.join(map(str, row))})" for i, row in enumerate(rows)))
        return "\n".join([*lines, f"where out dims are: [{', '.join(f'{n} (size {s})' for n, s in self.out_dims)}]"])
