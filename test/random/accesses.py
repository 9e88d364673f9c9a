"""Random accesses to memory: buffers, index tiles, loads, stores, atomics.

Buffers that are only read have any index; `work` buffers have a region of REGION elements for each program of the grid,
which it alone reads and writes; an output has a slot for each program; sums have a few elements that all programs
change
atomically."""
import numpy as np
import program as P
from rules import BLOCKS, DESCRIPTORS, Invalid, make, need
from program import FLOATS, FP8, INTS, NUMPY, Type

REGION = 256


def bytes_of(dtype):
    return NUMPY[dtype].itemsize


HINTS = ("volatile=True", 'cache_modifier=".cg"', 'cache_modifier=".ca"', 'eviction_policy="evict_first"', 'eviction_policy="evict_last"')


class Accesses:
    """Part of the generator: see Expressions for what it needs."""

    def add_buffer(self, prefix, dtype, size, recipe, aliases=()):
        name = f"{prefix}{len(self.buffers)}"
        self.buffers.append(P.Buffer(name, dtype, int(size), recipe, self.number(0, 999)))
        self.arguments.append(P.Argument(name, name))
        for k, offset in enumerate(aliases):
            self.arguments.append(P.Argument(f"{name}_{'bcd'[k]}", name, offset))
        if "views" in self.features and dtype != "int1" and self.chance(0.8 if prefix == "w" else 0.4):
            # A view of other elements, which begins at one of them.
            view = self.pick([d for d in self.dtypes if d not in (dtype, "int1")] or ["int8"])
            self.arguments.append(P.Argument(f"{name}_v", name, self.pick((0, 0, 0, 1, 5, 16)), dtype=view))
        return name

    def arguments_of(self, buffer, dtype=None):
        """Those that point to elements of dtype (None: the buffer's)."""
        b = next(b for b in self.buffers if b.name == buffer)
        return [a for a in self.arguments if a.buffer == buffer and (a.dtype or b.dtype) == (dtype or b.dtype)]

    def elements(self, a, count=None):
        """How many elements of the argument's own dtype there are from it to the end of `count` elements of its buffer (None: all)."""
        b = next(b for b in self.buffers if b.name == a.buffer)
        n = b.size if count is None else count
        return n * bytes_of(b.dtype) // bytes_of(a.dtype or b.dtype) - a.offset

    def pointer(self, a):
        b = next(b for b in self.buffers if b.name == a.buffer)
        return make("var", name=a.name, type=Type("*" + (a.dtype or b.dtype)))

    def input(self, dtype, recipe):
        """An argument into a buffer that is only read."""
        if not self.kernel_level:
            # A parameter of this helper; it takes the place of the argument that is passed for it.
            ok = [x for x in self.pointers if x[2].dtype == dtype and recipe in (None, x[2].recipe)]
            name, a, b = self.pick(ok)
            return P.Argument(name, a.buffer, a.offset), b.size - a.offset
        views = [a for a in self.arguments if a.dtype == dtype and a.name[0] == "x"]
        if views and recipe is None and self.chance(0.3):
            a = self.pick(views)
            return a, self.elements(a)
        ok = [
            b for b in self.buffers if b.name[0] == "x" and b.dtype == dtype and (recipe is None or b.recipe == recipe)
        ]
        if not ok or (len(self.buffers) < 5 and self.chance(0.15)):
            need(len(self.buffers) < 7, "enough buffers")
            size = 1 << self.number(9, 12)
            recipe = recipe or self.pick(("edge", "edge", "wide", "small", "count"))
            aliases = [self.number(0, size // 2)] if "alias" in self.features and self.chance(0.3) else []
            name = self.add_buffer("x", dtype, size, recipe, aliases)
            ok = [b for b in self.buffers if b.name == name]
        b = self.pick(ok)
        a = self.pick(self.arguments_of(b.name))
        return a, b.size - a.offset

    # Index tiles

    def linear(self, shape, strides, start=0):
        """start + sum of coordinate * stride, int32. Strides of None: row-major."""
        if strides is None:
            strides, n = [], 1
            for d in reversed(shape):
                strides.insert(0, n)
                n *= d
        rank = len(shape)
        total = None
        for k, (d, s) in enumerate(zip(shape, strides)):
            e = make("arange", start=0, end=d)
            for i in range(k):
                e = make("expand", e, axis=0, slice=rank == 2)
            for i in range(k + 1, rank):
                e = make("expand", e, axis=i, slice=rank == 2)
            if s != 1 or self.chance(0.05):
                e = make("mul", e, self.stride(s), value=s)
            total = e if total is None else make("add", total, e)
        if total is None:
            return self.const(Type("int32"), start)
        if start:
            total = make("add", total, make("literal", value=start), value=start)
        return total

    def stride(self, s):
        """A number as it stands or, as in most kernels, an argument that holds it (1 is a compile-time number then)."""
        if not self.kernel_level or "stride" not in self.features or self.chance(0.4):
            return make("literal", value=s)
        name = f"stride{s}"
        if all(a.name != name for a in self.arguments):
            self.arguments.append(P.Argument(name, value=s))
        return make("var", name=name, type=Type("int32"))

    def permutation(self, shape):
        """An index tile of the numbers below the number of elements, each once."""
        n = Type("int32", shape).numel
        if not shape:
            return self.const(Type("int32"), 0)
        k = self.number(0, 5)
        if k <= 2 or n == 1:
            return self.linear(shape, None)
        if k == 3:
            order = [int(i) for i in self.g.permutation(len(shape))]
            strides, step = [0] * len(shape), 1
            for i in order:
                strides[i] = step
                step *= shape[i]
            return self.linear(shape, strides)
        c = n - 1 if k == 4 else self.number(1, n - 1)
        if n & (n - 1):
            return make("sub", make("literal", value=n - 1), self.linear(shape, None), value=n - 1)
        return make("xor", self.linear(shape, None), make("literal", value=c), value=c)

    def index(self, shape, size, d):
        """An index tile with values in [0, size), duplicates allowed."""
        n = Type("int32", shape).numel
        k = self.number(0, 10)
        if not shape:
            if k < 5 or not self.kernel_level:
                return self.const(Type("int32"), self.number(0, size - 1))
            p = 1 << (size.bit_length() - 1)
            return make("and", self.expr(Type("int32"), d), make("literal", value=p - 1), value=p - 1)
        need(n <= size)
        if k <= 2:
            e = self.linear(shape, None, self.number(0, size - n) if self.chance(0.5) else 0)
            if self.kernel_level and n * self.programs <= size and self.chance(0.5):
                start = make("mul", self.pid(), make("literal", value=n), value=n)
                if self.chance(0.3):
                    start = make("multiple_of", start, n=n)
                e = make("add", start, self.linear(shape, None))
            elif len(shape) == 1 and self.chance(0.3):
                e = make("max_contiguous", e, n=n)
            return e
        if k == 3:
            return self.permutation(shape)
        if k == 4 or k == 5:
            room = (size - 1) // max(1, sum(d - 1 for d in shape) or 1)
            strides = [self.number(0, min(room, 40)) for _ in shape]
            top = sum((d - 1) * s for d, s in zip(shape, strides))
            need(top < size)
            start = self.number(0, size - 1 - top)
            e = self.linear(shape, strides, start)
            if k == 4:
                m = start + top + start
                e = make("sub", make("literal", value=m), e, value=m)
            return e
        if k == 6:
            return make("reshape", self.linear((n, ), None), shape=shape)
        if k == 7:
            # As the rows of a matmul's operand that is shorter than its tiles.
            e = self.linear(shape, None, self.number(0, 2 * n))
            m = self.number(1, min(size, 2 * n))
            return make("mod", e, make("literal", value=m), value=m)
        self.has("gather")
        p = 1 << (size.bit_length() - 1)
        return make("and", self.expr(Type("int32", shape), d), make("literal", value=p - 1), value=p - 1)

    def pid(self):
        """The number of this program of the grid."""
        if len(self.grid) == 1:
            return make("pid", axis=0)
        return make("add", make("pid", axis=0), make("mul", make("pid", axis=1), make("nprog", axis=0)))

    # Loads

    def address(self, a, index):
        if a.dtype and self.kernel_level and self.chance(0.4):
            # The same place by a pointer that the kernel makes of the buffer's own.
            base = make("pointer_cast", self.pointer(self.arguments_of(a.buffer)[0]), to=a.dtype)
            return make("addptr", make("addptr", base, make("literal", value=a.offset)) if a.offset else base, index)
        if "wide64" in self.features and self.chance(0.3):
            return self.widened(self.pointer(a), index)
        return make("addptr", self.pointer(a), index)

    def x_load(self, t, d, recipe=None):
        if self.work and recipe is None and self.chance(0.4):
            return self.work_load(t, d)
        if "select" in self.features and recipe is None and self.kernel_level and self.chance(0.25):
            return self.selected(t, d)
        a, size = self.input(t.dtype, recipe)
        if recipe is None and "block" in self.features and self.chance(0.3):
            return self.block_load(t, a, size)
        if "mask" in self.features and t.shape and self.chance(0.4):
            return self.masked(t, a, size, d)
        return make("load", self.address(a, self.index(t.shape, size, d)), **self.hint())

    def hint(self):
        """How a load asks for its data, which changes no result."""
        return {"hint": self.pick(HINTS)} if self.chance(0.08) else {}

    def masked(self, t, a, size, d):
        """A load whose mask keeps it in bounds, or thins it out."""
        if t.dtype in INTS + FLOATS and self.chance(0.7):
            other = make("literal", value=self.pick((0, 0, 1)) if t.dtype in INTS else self.pick((0.0, 1.5, -np.inf)))
        else:
            other = self.expr(t, d)
        if len(t.shape) == 2 and self.chance(0.5):
            i, m = self.edge_of_a_matrix(t.shape, size)
            return make("load", self.address(a, i), m, other, **self.hint())
        if self.chance(0.5):
            i = self.index(t.shape, size, d)
            return make("load", self.address(a, i), self.expr(Type("int1", t.shape), d), other)
        i = self.linear(t.shape, None, self.number(0, 8))
        n = min(self.number(0, t.numel + 8), size)
        limit = self.var("n") if self.kernel_level and self.chance(0.3) else make("literal", value=n)
        m = make("lt", i, limit, value=n)
        if self.chance(0.3):
            m = make("and", m, self.expr(Type("int1", t.shape), d))
        return make("load", self.address(a, i), m, other)

    def extent(self, n):
        """A bound for n coordinates: a number, or the argument."""
        if self.kernel_level and self.chance(0.3):
            return self.var("n"), 0
        k = self.number(0, n)
        return make("literal", value=k), k

    def edge_of_a_matrix(self, shape, size):
        """(index, mask) of a tile that hangs over two edges of a matrix in `size` elements."""
        rows, columns = shape
        top = (size - columns) // max(rows - 1, 1)
        need(top >= columns)
        stride = self.number(columns, min(top, columns + 9))
        edges = []
        for axis, n in enumerate(shape):
            bound, value = self.extent(n)
            i = make("expand", make("arange", start=0, end=n), axis=1 - axis, slice=True)
            edges.append(make("lt", i, bound, value=value))
        return self.linear(shape, (stride, 1)), make("and", *edges)

    def work_load(self, t, d):
        ok = [w for w in self.work if w[1] == t.dtype]
        need(ok and self.kernel_level)
        a = self.pick(self.arguments_of(*self.pick(ok)))
        i = self.index(t.shape, self.room(a), d)
        return make("load", self.address(a, self.in_region(a, i)))

    def room(self, a):
        """Elements of a work buffer's region from where its argument begins."""
        return self.elements(a, REGION)

    def in_region(self, a, i):
        if self.programs == 1 and self.chance(0.5):
            return i
        n = self.room(a) + a.offset
        return make("add", make("mul", self.pid(), make("literal", value=n), value=n), i)

    def block_attrs(self, t, size):
        """Extents and strides of a tensor in `size` elements of which a block of t's shape is read or written."""
        kind = self.pick([k for k in BLOCKS if k == "pointer" or all(n & (n - 1) == 0 for n in t.shape)])
        rank = len(t.shape)
        unit = max(1, 16 // NUMPY[t.dtype].itemsize) if kind in DESCRIPTORS else 1
        shape = [max(1, n + self.number(-3, 6)) for n in t.shape]
        strides = [1] * rank
        for k in range(rank - 2, -1, -1):
            strides[k] = -(-(shape[k + 1] * strides[k + 1] + self.number(0, 3)) // unit) * unit
        need(sum((n - 1) * s for n, s in zip(shape, strides)) < size and t.shape and t.dtype != "int1")
        return {"kind": kind, "shape": tuple(shape), "strides": tuple(strides), "block": t.shape}

    def block_load(self, t, a, size):
        at = self.block_attrs(t, size)
        offsets = [self.const(Type("int32"), self.number(-3, 5)) for _ in t.shape]
        need(at["kind"] == "pointer" or a.offset == 0)
        need(at["kind"] != "host" or self.kernel_level)
        return make("block_load", self.pointer(a), *offsets, **at)

    def rows_attrs(self, d, columns, rows):
        """Of a descriptor for rows by index: extents, strides, and a block of one row."""
        unit = max(1, 16 // NUMPY[d].itemsize)
        need(columns * NUMPY[d].itemsize >= 32 and columns <= 256 and columns & (columns - 1) == 0)
        n = max(1, columns + self.number(-3, 6))
        stride = -(-(n + self.number(0, 3)) // unit) * unit
        return {"kind": self.pick(DESCRIPTORS), "shape": (rows, n), "strides": (stride, 1), "block": (1, columns)}

    def x_rows_load(self, t, d):
        self.has("rows")
        need(len(t.shape) == 2 and t.dtype in INTS + FLOATS + FP8 and 8 <= t.shape[0] <= 256)
        a, size = self.input(t.dtype, "small" if t.dtype in FLOATS and self.chance(0.5) else None)
        at = self.rows_attrs(t.dtype, t.shape[1], 1)
        rows = min(self.pick((5, 16, 32)), size // at["strides"][0])
        need(rows > 0 and a.offset == 0 and (at["kind"] != "host" or self.kernel_level))
        i = make("and", self.expr(Type("int32", t.shape[:1]), d), make("literal", value=31 if self.chance(0.5) else 7), value=31)
        if self.chance(0.3):
            i = make("sub", i, make("literal", value=2), value=2)
        return make("rows_load", self.pointer(a), i, self.column(), **dict(at, shape=(rows, at["shape"][1])))

    def column(self):
        return self.const(Type("int32"), self.pick((0, 0, -2, 1, 4)))

    def s_rows_store(self, depth):
        """Rows of an output by index, each row once."""
        self.has("rows")
        t = self.pick([Type(self.pick([x for x in self.dtypes if x != "int1"]), s) for s in self.shapes if len(s) == 2 and s[0] >= 8])
        need(self.kernel_level and t.shape[0] & (t.shape[0] - 1) == 0)
        at = self.rows_attrs(t.dtype, t.shape[1], t.shape[0] + self.number(-2, 3))
        room = at["strides"][0] * (at["shape"][0] + 1)
        need(at["kind"] != "host" or self.programs == 1)
        base = self.block_base(t, -(-room // 16) * 16)
        i = self.permutation(t.shape[:1])
        if self.chance(0.4):
            i = make("add", i, make("literal", value=2), value=2)
        return [P.Effect(make("rows_store", base, i, self.column(), self.expr(t, 2), **at))]

    # Stores

    def output(self, value):
        """A store of `value` to a buffer of its own."""
        t = value.type
        n = t.numel
        if self.chance(0.15) and t.shape and t.dtype != "int1" and "block" in self.features:
            try:
                return self.block_output(value)
            except Invalid:
                pass
        if len(t.shape) == 2 and self.chance(0.25):
            return self.matrix_output(value)
        name = self.add_buffer("o", t.dtype, n * self.programs, self.pick(("zero", "count")))
        i = self.permutation(t.shape)
        if self.programs > 1:
            i = make("add", make("mul", self.pid(), make("literal", value=n), value=n), i)
        mask = None
        if t.shape and "mask" in self.features and self.chance(0.2):
            mask = self.expr(Type("int1", t.shape), 1)
        return P.Store(self.address(self.arguments_of(name)[0], i), value, mask)

    def matrix_output(self, value):
        """A store to some rows of a matrix that is wider than the tile; the mask cuts two edges off."""
        t = value.type
        room = 1 << (t.shape[0] * (t.shape[1] + 9) - 1).bit_length()
        need(room * self.programs <= 1 << 16)
        i, mask = self.edge_of_a_matrix(t.shape, room)
        name = self.add_buffer("o", t.dtype, room * self.programs, self.pick(("zero", "count")))
        if self.programs > 1:
            i = make("add", make("mul", self.pid(), make("literal", value=room), value=room), i)
        return P.Store(self.address(self.arguments_of(name)[0], i), value, mask if self.chance(0.7) else None)

    def block_room(self, t):
        """Extents and strides of a tensor for blocks of t, and the elements that it takes."""
        at = self.block_attrs(t, 1 << 20)
        room = sum((n - 1) * s for n, s in zip(at["shape"], at["strides"])) + 1
        return at, -(-room // 16) * 16

    def block_base(self, t, room):
        """A pointer to this program's `room` elements of a new output."""
        need(len(self.buffers) < 9)
        name = self.add_buffer("o", t.dtype, room * self.programs, "count")
        base = self.pointer(self.arguments_of(name)[0])
        if self.programs > 1:
            base = make("addptr", base, make("mul", self.pid(), make("literal", value=room), value=room))
        return base

    def block_output(self, value):
        t = value.type
        at, room = self.block_room(t)
        base = self.block_base(t, room)
        kind = at.pop("kind")
        # A descriptor of the launch is one for all programs.
        need(kind != "host" or self.programs == 1)
        return P.BlockStore(kind, base, value, tuple(self.const(Type("int32"), self.number(-2, 3)) for _ in t.shape),
                            at)

    def s_in_place(self, depth):
        """A store to this program's part of a work buffer, often of a value made from what is there."""
        self.has("in_place")
        name, dtype = self.pick(self.work)
        t = self.pick([Type(dtype, s) for s in self.shapes + [()] if Type(dtype, s).numel <= REGION])
        a = self.pick(self.arguments_of(name, dtype))
        need(t.numel <= self.room(a))
        i = self.permutation(t.shape)
        start = self.number(0, self.room(a) - t.numel) if self.chance(0.3) else 0
        if start:
            i = make("add", i, make("literal", value=start), value=start)
        mask = self.expr(Type("int1", t.shape), 1) if t.shape and "mask" in self.features and self.chance(0.2) else None
        address = self.address(a, self.in_region(a, i))
        if self.chance(0.5):
            # Load it first, keep it for later, store something else there.
            v = self.fresh("v", t)
            out = [P.Assign((v, ), make("load", address))]
            return out + [P.Store(address, self.expr(t, 2), mask)]
        return [P.Store(address, self.expr(t, 2), mask)]

    def s_overlap(self, depth):
        """A loop that loads through one argument of a work buffer and stores through another, at places that move."""
        self.has("overlap")
        need(depth < 2 and self.kernel_level and self.work)
        name, _ = self.pick(self.work)
        ways = [x for x in self.arguments if x.buffer == name]
        a, b = self.pick(ways), self.pick(ways)
        da, db = (self.pointer(x).type.dtype[1:] for x in (a, b))
        s = self.pick([s for s in self.shapes if Type(da, s).numel <= 64] or [(8, )])
        n, trips, i = Type(da, s).numel, self.number(1, 5), self.fresh("i")
        at = make("var", name=i, type=Type("int32"))

        def moving(x):
            step = self.pick((n, n, 1, 3, 16))
            start = self.number(0, min(self.room(x) - n - (trips - 1) * step, 20))
            need(start >= 0)
            e = make("add", make("mul", at, make("literal", value=step), value=step), self.permutation(s))
            return self.address(x, self.in_region(x, make("add", e, make("literal", value=start), value=start) if start else e))

        self.scope[i] = Type("int32")
        v = self.fresh("v", Type(da, s))
        load = make("load", moving(a))
        if "mask" in self.features and da in INTS + FLOATS and self.chance(0.3):
            load = make("load", load.args[0], self.expr(Type("int1", s), 1), make("literal", value=1 if da in INTS else 1.0))
        body = [P.Assign((v, ), load)]
        if self.chance(0.5):
            body.append(self.update(v))
        value = self.var(v)
        value = make("bitcast", value, to=db) if da != db and bytes_of(da) == bytes_of(db) and self.chance(0.5) else self.convert(value, db)
        mask = self.expr(Type("int1", s), 1) if "mask" in self.features and self.chance(0.2) else None
        body.append(P.Store(moving(b), value, mask))
        if self.chance(0.3):
            body.append(P.Store(moving(a), self.expr(Type(da, s), 1)))
        del self.scope[i], self.scope[v]
        kind = self.pick(("range", "tl.range", "tl.range", "tl.static_range"))
        options = {"num_stages": self.pick((1, 2, 3))} if kind == "tl.range" else {}
        c = lambda x: self.const(Type("int32"), x)
        return [P.For(i, c(0), c(trips), c(1), body, kind, options)]

    def s_overlap_dot(self, depth):
        """A loop of products whose operand comes through one argument of a buffer and whose result goes through another, which is shifted."""
        self.has("overlap")
        need(depth == 0 and self.kernel_level and "dot" in self.features and len(self.buffers) < 6)
        d = self.pick(("float16", "bfloat16", "float32", "int8"))
        m, k, n = self.pick((4, 8, 16)), self.pick((16, 32)), self.pick((8, 16, 32))
        y, size = self.input(d, "small")
        need(k * n <= size)
        trips, reads, writes, shift = self.number(1, 5), self.pick((1, k, m * k)), self.pick((1, n, m * n)), self.pick((1, 8, 16, m * k, 100))
        each = shift + max((trips - 1) * reads + m * k, (trips - 1) * writes + m * n)
        name = self.add_buffer("w", d, -(-each // 64) * 64 * self.programs, "small", [shift])
        own = [a for a in self.arguments_of(name)]
        a, b = own[:2] if self.chance(0.5) else own[1::-1]
        begin = make("mul", self.pid(), make("literal", value=-(-each // 64) * 64), value=-(-each // 64) * 64)
        i, acc_type = self.fresh("i"), Type("int32" if d == "int8" else "float32", (m, n))
        acc, at = self.fresh("v", acc_type), make("var", name=i, type=Type("int32"))
        place = lambda x, step, shape: self.address(x, make("add", make("add", begin, make("mul", at, make("literal", value=step), value=step)), self.linear(shape, None)))
        attrs = {"precision": self.pick(("ieee", "tf32"))} if d == "float32" else {}
        right = make("load", self.address(y, self.linear((k, n), None)))
        dot = make("dot", make("load", place(a, reads, (m, k))), right, make("var", name=acc, type=acc_type), **attrs)
        low = make("var", name=acc, type=acc_type) if d == "int8" else make("cast", make("var", name=acc, type=acc_type), to="int32")
        value = make("cast", make("and", low, make("literal", value=7), value=7), to=d)
        body = [P.Assign((acc, ), dot), P.Store(place(b, writes, (m, n)), value)]
        c = lambda v: self.const(Type("int32"), v)
        loop = P.For(i, c(0), c(trips), c(1), body, "tl.range", {"num_stages": self.pick((1, 2, 3, 4))})
        return [P.Assign((acc, ), self.const(acc_type, 0)), loop]

    def s_atomic(self, depth):
        self.has("atomic")
        if self.chance(0.3) and self.work:
            return self.s_atomic_alone(depth)
        dtype = self.pick(("int32", "int64", "uint32", "float32"))
        kind = "add" if dtype == "float32" else self.pick(("add", "max", "min", "and", "or", "xor"))
        ok = [b for b in self.buffers if b.name[0] == "s" and b.dtype == dtype and self.kinds[b.name] == kind]
        if not ok:
            need(len(self.buffers) < 8)
            name = self.add_buffer("s", dtype, self.pick((1, 4, 16, 64)), "zero" if dtype == "float32" else "wide")
            self.kinds[name] = kind
            ok = [b for b in self.buffers if b.name == name]
        b = self.pick(ok)
        t = Type(dtype, self.pick(self.shapes + [()]))
        i = self.expr(Type("int32", t.shape), 1) if t.shape else self.const(Type("int32"), 0)
        i = make("and", i, make("literal", value=b.size - 1), value=b.size - 1)
        value = make("abs", self.small_float(t, 1)) if dtype == "float32" else self.expr(t, 2)
        args = [self.address(self.arguments_of(b.name)[0], i), value]
        if t.shape and "mask" in self.features and self.chance(0.4):
            args.append(self.expr(Type("int1", t.shape), 1))
        sem = self.pick((None, None, "relaxed", "acq_rel"))
        return [P.Effect(make("atomic", *args, kind=kind, sem=sem))]

    def s_atomic_alone(self, depth):
        """An atomic of this program's own memory whose old values are used, atomic loads and stores."""
        self.has("atomic")
        kind = self.pick(("add", "max", "min", "and", "or", "xor", "xchg", "cas", "load", "load", "store", "store"))
        name, dtype = self.pick([w for w in self.work if w[1] in (INTS + FLOATS if kind in ("load", "store") else ("int32", "int64", "uint32"))])
        a = self.arguments_of(name, dtype)[0]
        t = self.pick([Type(dtype, s) for s in self.shapes + [()] if Type(dtype, s).numel <= self.room(a)])
        args = [self.address(a, self.in_region(a, self.permutation(t.shape))), self.expr(t, 1)]
        if kind == "load":
            return [P.Assign((self.fresh("v", t), ), make("atomic_load", args[0]))]
        if kind == "store":
            if t.shape and self.chance(0.3):
                args.append(self.expr(Type("int1", t.shape), 1))
            return [P.Effect(make("atomic_store", *args))]
        if kind == "cas":
            args.append(self.expr(t, 1))
        e = make("atomic", *args, kind=kind)
        return [P.Assign((self.fresh("v", t), ), e)]
