"""Random expressions of a wanted type, top down. Each `x_NAME(t, d)` gives an expression of type t whose operands are
at
most d deep, or raises Invalid where the operation cannot give that type."""
import combine
import library
import numpy as np
import program as P
from assembly import ASSEMBLY
from rules import SCALED, Invalid, make, need
from program import FLOATS, FP8, INTS, NUMPY, Type, bits

WIDE = ("int32", "int64", "uint32", "uint64")


class Expressions:
    """Needs of the generator: g (random numbers), scope (name -> Type), features, helper(), buffer arguments."""

    # Draws

    def pick(self, xs):
        xs = list(xs)
        need(xs, "nothing to pick")
        return xs[int(self.g.integers(len(xs)))]

    def chance(self, p):
        return self.g.random() < p

    def number(self, low, high):
        need(low <= high)
        return int(self.g.integers(low, high + 1))

    def has(self, feature):
        need(feature in self.features, feature)

    # Leaves

    def var(self, name):
        self.uses[name] = self.uses.get(name, 0) + 1
        return make("var", name=name, type=self.scope[name])

    def const(self, t, value=None):
        if value is None:
            value = self.constant(t.dtype)
        return make("const", value=value, type=t)

    def constant(self, dtype):
        if dtype == "int1":
            return self.chance(0.5)
        if dtype in FLOATS + FP8:
            if dtype in FLOATS and self.chance(0.08):
                return self.pick([float("inf"), float("-inf")])
            return float(self.pick([0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.0, 100.0]))
        if self.chance(0.2):
            info = np.iinfo(NUMPY[dtype])
            return int(self.pick([info.min, info.max, info.max - 1]))
        return self.number(0 if dtype[0] == "u" else -9, 100)

    def lit(self, dtype):
        if dtype in FLOATS:
            return make("literal", value=self.pick([0.5, -1.5, 2.0, 3, 1, 0.25, 4.0]))
        return make("literal", value=self.number(0 if dtype[0] == "u" else -7, 100))

    def variables(self, t):
        return [n for n, v in self.scope.items() if v == t]

    def leaf(self, t):
        vs = self.variables(t)
        if vs and self.chance(0.75):
            fresh = [n for n in vs if not self.uses.get(n)]
            return self.var(self.pick(fresh or vs[-4:]))
        if t == Type("int32") and self.chance(0.4):
            return make("pid", axis=self.number(0, len(self.grid) - 1)) if self.kernel_level else self.const(t)
        same = [n for n, v in self.scope.items() if v.shape == t.shape and v.dtype in NUMPY and v.dtype != t.dtype]
        if same and self.chance(0.3):
            try:
                return self.convert(self.var(self.pick(same)), t.dtype)
            except Invalid:
                pass
        try:
            if self.chance(0.9):
                return self.x_load(t, 0)
        except Invalid:
            pass
        if vs:
            return self.var(self.pick(vs))
        try:
            # Of whatever dtype there is: constants are folded.
            inputs = {b.dtype for b in self.buffers if b.name[0] == "x"}
            if self.chance(0.9):
                return self.convert(self.x_load(Type(self.pick(sorted(inputs)), t.shape), 0), t.dtype)
            if t.shape and self.chance(0.5):
                return self.convert(self.index(t.shape, t.numel, 0), t.dtype)
        except Invalid:
            pass
        return self.const(t)

    def expr(self, t, d=2):
        if d <= 0 or self.chance(0.08):
            return self.leaf(t)
        for _ in range(6):
            f = self.pick(self.SCALAR if self.in_map else self.CHOICES)
            try:
                e = f(self, t, d - 1)
                need(e.type == t, "type")
                return e
            except Invalid:
                continue
        return self.leaf(t)

    # Conversions with guards

    def convert(self, e, to):
        """e as `to`, kept in the range in which the conversion is defined, mostly."""
        src = e.type.dtype
        if src == to:
            return e
        if to in FP8 or src in FP8:
            need((src in ("float32", "float16", "bfloat16")) if to in FP8 else to in FLOATS)
            return make("cast", e, to=to)
        if src in INTS + ("int1", ) and to in ("float16", "bfloat16"):
            return make("cast", make("and", e, make("literal", value=127), value=127) if src != "int1" else e, to=to)
        if src == "float64" and to in ("float16", "bfloat16"):
            return make("cast", make("cast", e, to="float32"), to=to)
        if src in FLOATS and to in INTS and bits(to) < 32:
            return make("cast", make("cast", e, to="int32"), to=to)
        return make("cast", e, to=to)

    def small_float(self, t, d):
        """Small integers as floats: sums of them are exact."""
        if self.chance(0.4):
            return self.x_load(t, d, recipe="small")
        e = self.expr(Type("int32", t.shape), d)
        e = make("and", e, make("literal", value=15), value=15)
        if self.chance(0.5):
            e = make("sub", e, make("literal", value=8), value=8)
        return make("cast", e, to=t.dtype)

    # Element-wise

    def x_binary(self, t, d):
        ops = ("and", "or", "xor") if t.dtype == "int1" else ("add", "sub", "mul")
        if t.dtype in INTS:
            ops += ("and", "or", "xor")
        need(t.dtype not in FP8)
        a, b = self.expr(t, d), self.expr(t, d)
        if t.shape and self.chance(0.2):
            b = self.expr(self.thinner(t), d)
        if self.chance(0.3):
            a, b = b, a
        return make(self.pick(ops), a, b)

    def thinner(self, t):
        """A type that broadcasts to t: a scalar, or some extents 1."""
        if self.chance(0.4):
            return Type(t.dtype)
        return Type(t.dtype, tuple(n if self.chance(0.5) else 1 for n in t.shape))

    def x_literal(self, t, d):
        need(t.dtype in INTS + FLOATS)
        lit, e = self.lit(t.dtype), self.expr(t, d)
        op = self.pick(("add", "sub", "mul") + (("and", "or", "xor") if t.dtype in INTS else ()))
        a = (lit, e) if self.chance(0.3) else (e, lit)
        return make(op, *a, value=lit.attrs["value"])

    def x_mixed(self, t, d):
        """Operands of two dtypes."""
        other = self.pick([x for x in self.dtypes if x in INTS + FLOATS])
        a, b = self.expr(t, d), self.expr(Type(other, t.shape), d)
        return make(self.pick(("add", "sub", "mul")), *((a, b) if self.chance(0.5) else (b, a)))

    def x_divide(self, t, d):
        need(t.dtype in INTS)
        op = self.pick(("div", "mod"))
        a = self.expr(t, d)
        if self.chance(0.5):
            k = self.number(1, 30) if self.chance(0.6) else 1 << self.number(0, bits(t.dtype) - 2)
            return make(op, a, make("literal", value=k), value=k)
        b = make("and", self.expr(t, d), make("literal", value=15), value=15)
        return make(op, a, make("add", b, make("literal", value=1), value=1))

    def x_shift(self, t, d):
        need(t.dtype in INTS)
        n = bits(t.dtype) - 1
        op, a = self.pick(("shl", "shr")), self.expr(t, d)
        # By the width and more too, where nothing but the sign is left.
        if self.chance(0.5):
            k = self.number(0, n if self.chance(0.8) else 2 * n)
            return make(op, a, make("literal", value=k), value=k)
        amount = self.expr(t, d)
        if self.chance(0.2):
            return make(op, a, amount)
        n = n if self.chance(0.7) else 2 * n + 1
        return make(op, a, make("and", amount, make("literal", value=n), value=n))

    def x_unary(self, t, d):
        return make(self.pick(("neg", "abs", "not")), self.expr(t, d))

    def x_round(self, t, d):
        need(t.dtype == "float32")
        if self.chance(0.3):
            return make("div_rn", self.expr(t, d), self.expr(t, d))
        e = self.expr(t, d)
        op = self.pick(("floor", "ceil", "sqrt_rn"))
        return make(op, make("abs", e) if op == "sqrt_rn" else e)

    def x_extremum(self, t, d):
        return make(self.pick(("min", "max")), self.expr(t, d), self.expr(t, d))

    def x_umulhi(self, t, d):
        return make("umulhi", self.expr(t, d), self.expr(t, d))

    def x_compare(self, t, d):
        need(t.dtype == "int1")
        u = Type(self.pick([x for x in self.dtypes if x in INTS + FLOATS]), t.shape)
        op = self.pick(("lt", "le", "gt", "ge", "eq", "ne"))
        if self.chance(0.5):
            lit = self.lit(u.dtype)
            return make(op, self.expr(u, d), lit, value=lit.attrs["value"])
        return make(op, self.expr(u, d), self.expr(u, d))

    def x_where(self, t, d):
        c = self.expr(Type("int1", t.shape), d)
        if self.chance(0.3) and t.dtype in INTS + FLOATS:
            lit = self.lit(t.dtype)
            return make("where", c, self.expr(t, d), lit, value=lit.attrs["value"])
        return make("where", c, self.expr(t, d), self.expr(t, d))

    def x_ternary(self, t, d):
        need("branch" in self.features)
        return make("ternary", self.expr(Type("int1"), d), self.expr(t, d), self.expr(t, d))

    def x_cast(self, t, d):
        return self.convert(self.expr(Type(self.pick(self.dtypes), t.shape), d), t.dtype)

    def x_bitcast(self, t, d):
        need(t.dtype != "int1")
        src = self.pick([x for x in INTS + FLOATS if bits(x) == bits(t.dtype) and x != t.dtype])
        need(t.dtype in INTS or src in INTS)
        e = self.expr(Type(src, t.shape), d)
        if src in FLOATS:
            zero = make("literal", value=0.0)
            e = make("where", make("ne", e, e), zero, e, value=0.0)
        return make("bitcast", e, to=t.dtype)

    # Shapes

    def shapes_of(self, n):
        """Shapes with n elements."""
        s = [(n, )]
        for a in (1, 2, 4, 8, 16):
            if n % a == 0:
                s += [(a, n // a), (n // a, a)]
                if (n // a) % 2 == 0 and n // a >= 2:
                    s += [(a, 2, n // a // 2), (2, a, n // a // 2), (n // a // 2, a, 2)]
        return s

    def x_reshape(self, t, d):
        need(t.shape)
        s = self.pick([s for s in self.shapes_of(t.numel) if s != t.shape])
        if len(t.shape) == 1 and self.chance(0.4):
            return make("ravel", self.expr(Type(t.dtype, s), d))
        return make("reshape", self.expr(Type(t.dtype, s), d), shape=t.shape)

    def x_permute(self, t, d):
        need(len(t.shape) >= 2)
        dims = [int(i) for i in self.g.permutation(len(t.shape))]
        src = [0] * len(dims)
        for k, i in enumerate(dims):
            src[i] = t.shape[k]
        return make("permute", self.expr(Type(t.dtype, tuple(src)), d), dims=tuple(dims))

    def x_expand(self, t, d):
        axis = self.pick([i for i, n in enumerate(t.shape) if n == 1])
        s = t.shape[:axis] + t.shape[axis + 1:]
        need(s)
        return make("expand", self.expr(Type(t.dtype, s), d), axis=axis, slice=self.chance(0.5))

    def x_broadcast(self, t, d):
        need(t.shape)
        if self.chance(0.3):
            return make("splat", self.expr(Type(t.dtype), d), shape=t.shape)
        axis = self.number(0, len(t.shape) - 1)
        need(t.shape[axis] > 1)
        s = t.shape[:axis] + (1, ) + t.shape[axis + 1:]
        return make("broadcast", self.expr(Type(t.dtype, s), d), shape=t.shape)

    def x_join(self, t, d):
        self.has("split")
        need(t.shape and t.shape[-1] == 2)
        a = Type(t.dtype, t.shape[:-1])
        return make("join", self.expr(a, d), self.expr(a, d))

    def x_interleave(self, t, d):
        self.has("split")
        need(t.shape and t.shape[-1] >= 2)
        s = t.shape[:-1] + (t.shape[-1] // 2, )
        a = Type(t.dtype, s if s != (1, ) or self.chance(0.5) else ())
        return make("interleave", self.expr(a, d), self.expr(a, d))

    def x_cat(self, t, d):
        self.has("split")
        axis = self.pick([i for i, n in enumerate(t.shape) if n > 1])
        a = Type(t.dtype, t.shape[:axis] + (t.shape[axis] // 2, ) + t.shape[axis + 1:])
        return make("cat", self.expr(a, d), self.expr(a, d), axis=axis)

    def x_split(self, t, d):
        self.has("split")
        need(t.numel <= 1024)
        return make("split_part", self.expr(Type(t.dtype, t.shape + (2, )), d), part=self.number(0, 1))

    def x_flip(self, t, d):
        need(t.shape)
        return make("flip", self.expr(t, d), axis=self.number(0, len(t.shape) - 1))

    def x_gather(self, t, d):
        self.has("gather")
        need(t.shape)
        axis = self.number(0, len(t.shape) - 1)
        n = t.shape[axis]
        if self.chance(0.3):
            n = self.pick((2, 4, 16, 32))
        src = Type(t.dtype, t.shape[:axis] + (n, ) + t.shape[axis + 1:])
        need(src.numel <= 4096)
        i = make("and", self.expr(Type("int32", t.shape), d), make("literal", value=n - 1), value=n - 1)
        return make("gather", self.expr(src, d), i, axis=axis)

    def x_slice(self, t, d):
        """Parts of a larger block."""
        self.has("slice")
        index, extents, positions = [], [], []
        for n in t.shape + (0, ):
            if self.chance(0.25) and len(extents) < 4:  # an axis of which one position is taken
                extents.append(self.pick((1, 2, 4, 8)))
                if self.chance(0.5):
                    index.append(self.number(-extents[-1], extents[-1] - 1))
                else:
                    index.append("at")
                    positions.append(self.expr(Type("int32"), d) if self.chance(0.5) else make("pid", axis=0) if self.kernel_level else self.const(Type("int32")))
            if not n:
                continue
            step = self.pick((1, 1, 1, 2, 3, -1, -2))
            first = self.number(0, 3)
            last = first + (n - 1) * abs(step)
            extent = last + 1 + self.number(0, 3)
            extents.append(extent if "odd" in self.features and self.chance(0.5) else 1 << (extent - 1).bit_length())
            stop = last + 1 if self.chance(0.5) or last + abs(step) < extents[-1] else None
            low = first - 1 if first else None
            index.append((first or None, stop, step if step > 1 else None) if step > 0 else (last, low, step))
        need(any(isinstance(i, tuple) and i != (None, None, None) or not isinstance(i, tuple) for i in index))
        need(Type(t.dtype, tuple(1 << (n - 1).bit_length() for n in extents)).numel <= 1 << 20)  # the largest block of the language
        return make("slice", self.expr(Type(t.dtype, tuple(extents)), d), *positions, index=tuple(index))

    # Reductions, scans

    def before(self, t, n=None):
        """(type, axis, keep) of what reduces to t."""
        n = n or self.pick((1, 2, 4, 8, 16, 32) + ((3, 5, 12) if "odd" in self.features else ()))
        ones = [i for i, k in enumerate(t.shape) if k == 1]
        if ones and self.chance(0.5):
            axis = self.pick(ones)
            return Type(t.dtype, t.shape[:axis] + (n, ) + t.shape[axis + 1:]), axis, True
        axis = self.number(0, len(t.shape))
        s = t.shape[:axis] + (n, ) + t.shape[axis:]
        need(len(s) <= 4 and Type("int32", s).numel <= 4096)
        if t.shape == () and self.chance(0.3):
            return Type(t.dtype, self.pick(self.shapes)), None, False
        return Type(t.dtype, s), axis, False

    def x_sum(self, t, d):
        self.has("reduce")
        s, axis, keep = self.before(t)
        need(s.shape)
        if t.dtype in FLOATS:
            return make("sum", self.small_float(s, d), axis=axis, keep=keep)
        op = self.pick(("sum", "xor_sum", "reduce_or", "amax", "amin"))
        if op == "sum" and t.dtype in ("int32", "uint32") and self.chance(0.3):
            s = Type({"i": "int8", "u": "uint16"}[t.dtype[0]], s.shape)
        return make(op, self.expr(s, d), axis=axis, keep=keep)

    def x_amax(self, t, d):
        self.has("reduce")
        s, axis, keep = self.before(t)
        need(s.shape)
        return make(self.pick(("amax", "amin")), self.expr(s, d), axis=axis, keep=keep)

    def x_arg(self, t, d):
        self.has("reduce")
        need(t.dtype == "int32")
        s, axis, keep = self.before(t)
        need(axis is not None and not keep)
        return make(self.pick(("argmax", "argmin")), self.expr(Type(self.pick(WIDE), s.shape), d), axis=axis)

    def x_cumsum(self, t, d):
        self.has("scan")
        need(t.shape)
        return make(self.pick(("cumsum", "cumsum", "cumprod")),
                    self.expr(t, d),
                    axis=self.number(0,
                                     len(t.shape) - 1),
                    reverse=self.chance(0.5))

    def x_sort(self, t, d):
        self.has("sort")
        need(t.shape and t.numel <= 512)
        if self.chance(0.3):
            n = t.shape[-1] * 2
            return make("topk", self.expr(Type(t.dtype, t.shape[:-1] + (n, )), d), k=n // 2)
        return make("sort", self.expr(t, d), descending=self.chance(0.5))

    def x_histogram(self, t, d):
        self.has("sort")
        need(t.dtype == "int32" and len(t.shape) == 1)
        n = t.shape[0]
        e = self.expr(Type("int32", (self.pick((8, 16, 64, 128)), )), d)
        return make("histogram", make("and", e, make("literal", value=n - 1), value=n - 1), bins=n)

    def combine_function(self, kind, values, dtype):
        """A helper for a reduction or scan and its template's inputs."""
        ok = [c for c in combine.TEMPLATES if c[0] == values and dtype in c[1] and (kind == "scan" or c[2] == "reduce")]
        _, _, _, inputs, build = self.pick(ok)
        name = f"combine{len(self.functions)}"
        parameters = tuple(f"{n}{i}" for n in "ab" for i in range(values))
        self.functions.append(
            P.Function(name, parameters, build(self.g, *(make("var", name=n, type=Type(dtype)) for n in parameters))))
        return name, inputs

    def combine_inputs(self, kind, values, t, d):
        out = []
        for k in range(values):
            e = self.small_float(t, d) if t.dtype in FLOATS else self.expr(t, d)
            if kind == "byte":
                e = make("and", e, make("literal", value=127), value=127)
            if kind == "flag" and k == 0:
                e = make("and", e, make("literal", value=1), value=1)
            if kind == "same":
                e = self.const(t, 2.5 if k == 0 else float(self.number(0, 2))) if k == 0 or self.chance(0.5) else make(
                    "abs", e)
            out.append(e)
        return out

    def x_reduce(self, t, d, values=1):
        self.has("combine")
        need(t.dtype in ("int32", "int64", "uint32", "float32", "float64"))
        s, axis, keep = self.before(t)
        need(s.shape and (axis is not None or s.numel <= 64))
        f, inputs = self.combine_function("reduce", values, t.dtype)
        return make("reduce", *self.combine_inputs(inputs, values, s, d), axis=axis, keep=keep, function=f)

    def x_flags(self, t, d, values=1):
        """any(), all() and their like: conditions and narrow integers by a function, or conditions counted as integers."""
        self.has("flags")
        need(t.dtype in combine.FLAGS + ("int32", ))
        s, axis, keep = self.before(t)
        need(s.shape and (axis is not None or s.numel <= 64))
        if t.dtype == "int32":
            e = make("cast", self.expr(Type("int1", s.shape), d), to="int32")
            return make(self.pick(("amax", "amin", "sum")), e, axis=axis, keep=keep)
        f, inputs = self.combine_function("reduce", values, t.dtype)
        return make("reduce", *self.combine_inputs(inputs, values, s, d), axis=axis, keep=keep, function=f)

    def x_scan(self, t, d, values=1):
        self.has("combine")
        need(t.shape and t.dtype in ("int32", "int64", "uint32", "float32"))
        axis = self.number(0, len(t.shape) - 1)
        need(t.shape[axis] <= 64)
        f, inputs = self.combine_function("scan", values, t.dtype)
        return make("scan", *self.combine_inputs(inputs, values, t, d), axis=axis, reverse=self.chance(0.4), function=f)

    # Functions of scalars

    def x_map(self, t, d):
        self.has("map")
        need(t.dtype in INTS + FLOATS)
        return self.mapped((t.dtype, ), t.shape, d)

    def mapped(self, results, shape, d):
        """A new function applied to the elements of blocks; it may load from buffers, each element from where it likes."""
        inputs = [self.pick([x for x in self.dtypes if x in INTS + FLOATS]) for _ in range(self.number(1, 3))]
        args = [self.expr(Type(x, shape), d) for x in inputs]
        if len(args) > 1 and shape and self.chance(0.2):
            args[-1] = self.expr(Type(inputs[-1]), d)
        memory = []
        if "map_load" in self.features and self.kernel_level:
            read = [b for b in self.buffers if b.name[0] == "x" and b.dtype in INTS + FLOATS]
            memory = [self.pick(self.arguments_of(b.name)) for b in read[:self.number(1, 2)]]
        args += [self.pointer(a) for a in memory]
        return make("map", *args, function=self.map_function(inputs, results, memory), types=tuple(Type(r) for r in results))

    def x_map_load(self, t, d):
        """In a function of elements: from a place that depends on the element."""
        need(self.in_map and t.shape == ())
        name, a, b = self.pick([x for x in self.pointers if x[2].dtype == t.dtype])
        last = (1 << ((b.size - a.offset).bit_length() - 1)) - 1
        i = make("and", self.expr(Type("int32"), d), make("literal", value=last), value=last)
        address = make("addptr", make("var", name=name, type=Type("*" + b.dtype)), i)
        if self.chance(0.3):
            return make("load", address, self.expr(Type("int1"), 1), make("literal", value=1 if t.dtype in INTS else 1.0), value=1)
        return make("load", address)

    def x_asm(self, t, d):
        self.has("asm")
        name = self.pick([n for n, row in ASSEMBLY.items() if row[3] == (t.dtype, )])
        return self.assembly(name, t.shape, d)

    def assembly(self, name, shape, d):
        inputs, pack = ASSEMBLY[name][2], ASSEMBLY[name][4]
        args = [self.expr(Type(i, shape), d) for i in inputs]
        if len(args) > 1 and shape and pack == 1 and self.chance(0.2):
            args[-1] = self.expr(Type(inputs[-1]), d)
        return make("asm", *args, name=name)

    # Functions of libdevice

    def x_lib(self, t, d):
        self.has("lib")
        family = self.pick(library.FAMILIES.get(t.dtype, []))
        name = self.pick(family)
        row = library.TABLE[name]
        args = [self.operand(kind, Type(x, t.shape), d) for kind, x in zip(row.kinds, row.inputs)]
        if len(args) > 1 and t.shape and self.chance(0.2):
            args[-1] = self.operand(row.kinds[-1], Type(row.inputs[-1]), d)
        return make("lib", *args, name=name)

    def operand(self, kind, t, d):
        """any: whatever comes; order, shift: small whole numbers; else floats: quarters or small ones of either sign, unit (-1..1), positive, above (1 and more),
        chance (between 0 and 1)."""
        if kind == "any" or self.chance(0.05):
            return self.expr(t, d)
        lit = lambda op, e, v: make(op, e, make("literal", value=v), value=v)
        if kind in ("order", "shift"):
            e = lit("and", self.expr(t, d), 7)
            return e if kind == "order" else lit("sub", e, 4)
        e = self.small_float(t, d)
        if kind in ("quarters", "small"):
            return lit("mul", e, 0.25) if kind == "quarters" else e
        if kind == "unit":
            return lit("mul", e, 0.0625)
        e = lit("mul", make("abs", e), 0.25 if kind != "chance" else 0.03125)
        return lit("add", e, {"positive": 0.125, "above": 1.0, "chance": 0.0625}[kind])

    # Numbers of four bits

    def x_int4(self, t, d):
        """As quantized weights: two in a byte or eight in a word, unpacked, perhaps less a zero point and times a scale of each row."""
        self.has("int4")
        need(t.dtype in INTS + FLOATS and t.shape and t.shape[-1] > 1)
        lit = lambda op, e, v: make(op, e, make("literal", value=v), value=v)
        k, n = self.number(0, 3), t.shape[-1]
        if k == 0:
            need(n % 8 == 0)
            w = make("expand", self.expr(Type(self.pick(("int32", "uint32")), t.shape[:-1] + (n // 8, )), d), axis=len(t.shape), slice=len(t.shape) == 1)
            shift = lit("mul", make("arange", start=0, end=8), 4)
            for _ in t.shape:
                shift = make("expand", shift, axis=0)
            e = make("reshape", lit("and", make("shr", w, make("cast", shift, to=w.type.dtype)), 15), shape=t.shape)
        elif k == 1:
            a, size = self.input(self.pick(("uint8", "int8")), None)
            i = self.index(t.shape, size, d)
            half = lit("mul", lit("and", i, 1), 4)
            byte = make("load", self.address(a, lit("shr", i, 1)))
            e = lit("and", make("shr", byte, make("cast", half, to=byte.type.dtype)), 15)
        else:
            need(n % 2 == 0)
            byte = self.expr(Type(self.pick(("uint8", "int8")), t.shape[:-1] + (n // 2, )), d)
            if byte.type.dtype == "int8" and self.chance(0.6):
                parts = [lit("shr", lit("shl", byte, 4), 4), lit("shr", byte, 4)]  # with their signs
            else:
                parts = [lit("and", byte, 15), lit("and", lit("shr", byte, 4), 15)]
            e = make("interleave", *parts) if k == 2 or n == 2 else make("reshape", make("join", *parts), shape=t.shape)
        if len(t.shape) == 1 and self.chance(0.3):
            table = self.small_float(Type(t.dtype, (16, )), d) if t.dtype in FLOATS else self.expr(Type(t.dtype, (16, )), d)
            return make("gather", table, lit("and", make("cast", e, to="int32"), 15), axis=0)
        e = make("cast", e, to="int32")
        if self.chance(0.5):
            e = lit("sub", e, self.pick((8, 7)))
        e = make("cast", e, to=t.dtype)
        if t.dtype in FLOATS and self.chance(0.3):
            e = make("mul", e, self.small_float(Type(t.dtype, t.shape[:-1] + (1, )), d))
        return e

    # Dots

    def x_dot_scaled(self, t, d):
        self.has("scaled")
        need(t.dtype == "float32" and len(t.shape) == 2 and t.numel <= 2048)
        m, n = t.shape
        k = self.pick((32, 64))
        formats = [self.pick(("e2m1", "e4m3", "e5m2", "bf16", "fp16")) for _ in range(2)]
        if "fp16" in formats or "bf16" in formats:  # with themselves or one of the small ones
            formats = [f if f not in ("fp16", "bf16") else next(x for x in formats if x in ("fp16", "bf16")) for f in formats]
        scales = [self.chance(0.7) for _ in range(2)]
        args = []
        for f, has, s, rows in zip(formats, scales, ((m, k), (k, n)), (m, n)):
            if f == "e2m1":
                x = self.expr(Type("uint8", (s[0], s[1] // 2) if s == (m, k) else (s[0] // 2, s[1])), d)
            elif f in ("bf16", "fp16"):
                x = self.small_float(Type(SCALED[f], s), d)
            else:
                x = make("cast", self.small_float(Type("float32", s), d), to=SCALED[f])
            scale = x
            if has:
                e = make("and", self.expr(Type("uint8", (rows, k // 32)), d), make("literal", value=3), value=3)
                scale = make("add", e, make("literal", value=125), value=125)
            args += [x, scale]
        if self.chance(0.4):
            args.append(self.small_float(t, d))
        return make("dot_scaled", *args, formats=tuple(formats), scales=tuple(scales))

    def x_dot(self, t, d):
        self.has("dot")
        need(len(t.shape) == 2 or (len(t.shape) == 3 and t.shape[0] <= 4))
        need(t.dtype in ("int32", "float32", "float64", "float16") and t.numel <= 4096)
        src = {
            "int32": ("int8", ),
            "float64": ("float64", ),
            "float16": ("float16", ),
            "float32": ("float32", "float16", "bfloat16") + FP8
        }[t.dtype]
        src = self.pick([s for s in src if s not in FP8] if not self.fp8 or self.chance(0.3) else src[-2:])
        least = 32 // NUMPY[src].itemsize
        k = self.pick([k for k in (4, 8, 16, 32, 64) if k >= least])
        a = self.dot_operand(Type(src, t.shape[:-1] + (k, )), d)
        b = self.dot_operand(Type(src, t.shape[:-2] + (k, t.shape[-1])), d)
        attrs = {"out": "float16" if t.dtype == "float16" else None}
        if src == "float32":
            attrs["precision"] = self.pick(("ieee", "tf32", "tf32x3"))
        args = [a, b]
        if self.chance(0.4):
            args.append(self.small_float(t, d) if t.dtype != "int32" else self.expr(t, d))
        return make("dot", *args, **attrs)

    def dot_operand(self, t, d):
        if self.chance(0.3):
            s = t.shape[:-2] + t.shape[:-3:-1]
            dims = tuple(range(len(s) - 2)) + (len(s) - 1, len(s) - 2)
            return make("permute", self.dot_operand(Type(t.dtype, s), d), dims=dims)
        if "int4" in self.features and t.dtype in ("float16", "bfloat16", "float32") and self.chance(0.3):
            return self.x_int4(t, d)
        if "rows" in self.features and t.dtype in ("float16", "bfloat16", "float32") and self.chance(0.2):
            return self.x_rows_load(t, d)
        if t.dtype == "int8":
            return self.expr(t, d)
        if t.dtype in FP8:
            return make("cast", self.small_float(Type("float32", t.shape), d), to=t.dtype)
        return self.small_float(t, d)

    # Calls

    def x_call(self, t, d):
        self.has("helper")
        return self.helper((t, ), d)

    # A value of the same type that has other elements at each place

    def twist(self, e, d):
        t = e.type
        if not t.shape:
            return e
        for _ in range(4):
            try:
                k = self.number(0, 6)
                axis = self.number(0, len(t.shape) - 1)
                if k == 0:
                    return make("flip", e, axis=axis)
                if k == 1:
                    n = t.shape[axis]
                    i = make("and", self.expr(Type("int32", t.shape), d), make("literal", value=n - 1), value=n - 1)
                    return make("gather", e, i, axis=axis)
                if k == 2:
                    return make("cumsum", e, axis=axis, reverse=self.chance(0.5))
                if k == 3:
                    return make("sort", e, descending=self.chance(0.5))
                if k == 4:
                    need(t.numel > 1)
                    halves = [make("split_part", make("reshape", e, shape=(t.numel // 2, 2)), part=i) for i in (1, 0)]
                    return make("reshape",
                                make(self.pick(("join", "interleave", "cat")), *halves, axis=0),
                                shape=t.shape)
                if k == 5:
                    need(len(t.shape) > 1)
                    dims = tuple(reversed(range(len(t.shape))))
                    return make("reshape", make("permute", e, dims=dims), shape=t.shape)
                op = "sum" if t.dtype in WIDE else "amax"
                return make("broadcast", make(op, e, axis=axis, keep=True), shape=t.shape)
            except Invalid:
                pass
        return e
