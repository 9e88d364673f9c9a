"""What a tuner may choose among: single configurations, and spaces of them."""
import itertools

_OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")


class Config:
    """One choice of meta-parameters and options of a launch. `pre_hook(dict of all arguments)` runs before each launch with it."""

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None):
        if not hasattr(kwargs, "keys"):
            raise TypeError(f"Config takes a dict of the parameters that are tuned, {{'BLOCK': 64}}, and options by name; found {kwargs!r}")
        self.kwargs = kwargs
        self.num_warps, self.num_ctas, self.num_stages, self.maxnreg = num_warps, num_ctas, num_stages, maxnreg
        self.pre_hook, self.ir_override = pre_hook, ir_override

    def __setstate__(self, state):
        self.__init__(state.get("kwargs", {}))
        self.__dict__.update(state)

    def _options(self):
        return {name: getattr(self, name) for name in _OPTIONS}

    def all_kwargs(self):
        """What a launch with this choice is given, options that are not set left out."""
        return {**self.kwargs, **{k: v for k, v in self._options().items() if v is not None}}

    def __str__(self):
        return ", ".join(f"{k}: {v}" for k, v in {**self.kwargs, **self._options()}.items())

    __repr__ = __str__

    def _identity(self):
        return tuple(self.all_kwargs().items()), self.pre_hook

    def __hash__(self):
        return hash(self._identity())

    def __eq__(self, other):
        return isinstance(other, Config) and self._identity() == other._identity()


SPACE_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_MOST_POINTS = 100000  # as in the library


def powers(first, last):
    """`first` and its doubles up to `last`, for the ranges of a space: powers(16, 128) is [16, 32, 64, 128]."""
    if first < 1:
        raise ValueError(f"powers({first}, {last}) has no end")
    return [first << i for i in range((last // first).bit_length())]


class Space:
    """Ranges of meta-parameters and options of launches, {name: values}, and which combinations count: `where(META)`, all if it is None."""

    def __init__(self, ranges, where=None):
        self.ranges = {name: list(values) for name, values in dict(ranges).items()}
        self.where = where

    def points(self, arg_names):
        """[(index of each value, {name: value})], the last name changing fastest."""
        if not self.ranges:
            raise ValueError("the space has no axes")
        for name, values in self.ranges.items():
            if name not in arg_names and name not in SPACE_OPTIONS:
                raise ValueError(f"the space contains a name that is not a kernel argument: {name}. Valid argument names are: {', '.join(arg_names)}")
            if not values:
                raise ValueError(f"the space has no values for {name}")
        found = []
        for pairs in itertools.product(*(enumerate(v) for v in self.ranges.values())):
            values = dict(zip(self.ranges, (v for _, v in pairs)))
            if self.where is not None and not self.where(dict(values)):
                continue
            found.append((tuple(i for i, _ in pairs), values))
            if len(found) > _MOST_POINTS:
                raise ValueError(f"the space has more than {_MOST_POINTS} configurations")
        if not found:
            raise ValueError("`where` leaves no configuration of the space")
        return found
