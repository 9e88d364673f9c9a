"""Draws programs: `generate(seed)` gives a program that the reference accepts, with what it leaves in memory.

Each program has its own few features, dtypes and shapes, so that those that it has meet often."""
from dataclasses import replace

import combine
import library
import numpy as np
import program as P
from accesses import REGION, Accesses
from arithmetic import Undefined
from check import retype
from expressions import WIDE, Expressions
from idioms import Idioms
from kernels import Kernels, RANGES
from loops import OLD, Loops
from program import FLOATS, FP8, INTS, Type
from reference import evaluate
from rules import Invalid, make, need

FEATURES = ("for", "while", "branch", "reduce", "scan", "combine", "split", "gather", "mask", "in_place", "alias",
            "atomic", "dot", "helper", "noinline", "return", "block", "sort", "barrier", "stride", "cluster", "slice", "map", "exit",
            "scaled", "assume", "bundle", "odd", "asm", "assert", "map_load", "block_write", "rows", "int4", "overlap", "views",
            "step", "chain", "boxes", "olds", "wide64", "tuple", "select", "sums", "kernel", "lib", "peek", "flags")
SMALL = [(1, ), (2, ), (4, ), (8, ), (16, ), (32, ), (64, ), (2, 2), (1, 8), (8, 1), (4, 8), (8, 16), (16, 16),
         (2, 2, 4), (4, 2, 8), (2, 4, 2, 4)]
LARGE = [(128, ), (256, ), (1024, ), (32, 32), (64, 16), (16, 128), (1, 256), (64, 64), (2, 64, 8)]


ODD = [(3, ), (5, ), (12, ), (7, ), (24, ), (100, ), (3, 8), (4, 6), (5, 3), (1, 7), (2, 3, 4), (48, 20)]


HUGE = [(8192, ), (16384, ), (128, 128), (64, 256), (16, 32, 32), (8192, 2), (4, 4096)]


class Generator(Expressions, Accesses, Loops, Idioms, Kernels):

    def __init__(self, seed, without=()):
        self.g = np.random.default_rng([seed, 1])
        g = self.g
        density = g.random() * 0.7 + 0.1
        self.features = {f for f in FEATURES if g.random() < density}
        self.features -= set(without)
        self.features |= {f[1:] for f in without if f[:1] == "+"}
        self.fp8 = g.random() < 0.25
        dtypes = list(INTS + FLOATS)
        weights = np.array(
            [4 if d in ("int32", "float32") else 2 if d in ("int64", "uint32", "float16") else 1 for d in dtypes],
            float)
        count = int(g.integers(1, 5))
        self.dtypes = [str(d) for d in g.choice(dtypes, count, replace=False, p=weights / weights.sum())]
        if self.fp8:
            self.dtypes.append(self.pick(FP8))
        self.dtypes += ["int32", "int1"]
        self.shapes = [self.pick(LARGE if g.random() < 0.15 else SMALL) for _ in range(int(g.integers(1, 4)))]
        if "odd" in self.features and self.chance(0.5):
            self.shapes.append(self.pick(ODD))
        else:
            self.features.discard("odd")
        self.grid = self.pick([(1, ), (1, ), (2, ), (3, ), (2, 2), (5, )])
        self.programs = int(np.prod(self.grid))
        self.buffers, self.arguments, self.functions, self.kinds = [], [
            P.Argument("n", value=self.pick((0, 2, 3, 4, 5, 7, 9)))
        ], [], {}
        self.scope, self.uses, self.names, self.work = {"n": Type("int32")}, {"n": 1}, 0, []
        self.kernel_level, self.depth, self.pointers, self.in_map = True, 0, [], False
        self.options = {"num_warps": self.pick((1, 2, 4, 4, 4, 8)), "num_stages": self.pick((1, 2, 3, 4))}
        if any(Type("int1", s).numel >= 2048 for s in self.shapes):
            # Hundreds of registers a thread take LLVM seconds.
            self.options["num_warps"] = max(4, self.options["num_warps"])
        if "cluster" in self.features and self.chance(0.3):
            self.options["num_ctas"] = 2
        if "parts" in self.features:  # asked for by `+parts` only, as it takes seconds a program: tiles that GPU code does in parts
            self.shapes, self.options["num_warps"] = [self.pick(HUGE)] + self.shapes[:1], self.pick((1, 1, 2))

    def fresh(self, prefix, t=None):
        name = f"{prefix}{self.names}"
        self.names += 1
        if t is not None:
            self.scope[name] = t
        return name

    def random_type(self):
        shape = self.pick(self.shapes) if self.chance(0.85) else ()
        return Type(self.pick(self.dtypes), shape)

    # Statements. Each gives a list of them, or raises Invalid.

    def block(self, count):
        out = []
        while len(out) < count:
            s = self.attempt(self.pick(self.STATEMENTS))
            if s is None:
                s = self.s_assign(self.depth) if self.chance(0.2) else []
            out += s
        return out

    def attempt(self, f):
        """The statements that f gives, or None if it found no way."""
        state = (len(self.buffers), len(self.arguments), len(self.functions), dict(self.scope))
        try:
            return f(self, self.depth)
        except Invalid:
            del self.buffers[state[0]:], self.arguments[state[1]:], self.functions[state[2]:]
            self.kinds = {k: v for k, v in self.kinds.items() if any(b.name == k for b in self.buffers)}
            self.scope = state[3]
            return None

    def wishes(self):
        """Statements of kinds that a uniform choice would rarely give, in programs that have their features."""
        out = []
        for _ in range(self.number(0, 3)):
            f = self.pick([f for name, f in self.RARE if name in self.features] or [Generator.s_assign])
            out += next((s for s in (self.attempt(f) for _ in range(5)) if s is not None), [])
        return out

    def nested(self, count, names=()):
        """A block with `names` (name -> type) whose own names are not visible behind it."""
        outer = dict(self.scope)
        self.scope.update(names)
        self.depth += 1
        try:
            return self.block(count)
        finally:
            self.depth -= 1
            self.scope = outer

    def s_assign(self, depth):
        t = self.random_type()
        e = self.expr(t, self.number(1, 3))
        return [P.Assign((self.fresh("v", t), ), e)]

    def assignable(self):
        return [n for n, t in self.scope.items() if n[0] == "v" and t.dtype in P.NUMPY]

    def s_update(self, depth):
        """A new value for a name, made from other elements of its old one."""
        need(depth > 0 or self.chance(0.3))
        return [self.update(self.pick(self.assignable()))]

    def update(self, name):
        t = self.scope[name]
        e = self.var(name)
        r = self.g.random()
        if r < 0.35 and t.shape:
            return P.Assign((name, ), self.twist(e, 1))
        if t.dtype in INTS + FLOATS and r < 0.8:
            op = self.pick(("add", "sub", "mul") + (("xor", "and", "or") if t.dtype in INTS else ()))
            return P.Assign(
                (name, ),
                self.same(make(op, e,
                               self.twist(self.var(name), 1) if self.chance(0.7) else self.expr(t, 1)), t))
        return P.Assign((name, ), self.expr(t, 2))

    def same(self, e, t):
        need(e.type == t)
        return e

    def carried(self):
        """Some names that the body of a loop surely changes."""
        out = []
        while not self.assignable():
            out += self.s_assign(0)
        # No set: the order of its names is another one in each process.
        names = dict.fromkeys(self.pick(self.assignable()) for _ in range(self.number(1, 3)))
        return out, list(names)

    def s_for(self, depth):
        self.has("for")
        need(depth < 2)
        before, names = self.carried()
        kind = self.pick(("range", "range", "tl.range", "tl.static_range"))
        c = lambda v: self.const(Type("int32"), v)
        start, step = c(self.number(-2, 2)), c(self.pick((1, 1, 1, 2, 3)))
        stop = c(start.attrs["value"] + self.number(0, 5))
        if self.chance(0.15):
            start, stop, step = stop, start, c(-1)
        elif kind != "tl.static_range" and self.chance(0.4):
            start = c(0)
            stop = self.var("n") if self.kernel_level and self.chance(0.5) else make(
                "and", self.expr(Type("int32"), 1), make("literal", value=3), value=3)
            if "step" in self.features and self.chance(0.4):
                step = self.positive()
        counter = Type("int32")
        if kind != "tl.static_range" and "wide64" in self.features and start.op == stop.op == step.op == "const" and step.attrs["value"] > 0 and self.chance(0.3):
            counter = Type("int64")
            start, stop, step = (self.const(counter, e.attrs["value"]) for e in (start, stop, step))
        options = {}
        if kind == "tl.range":
            for k, vs in RANGES:
                if self.chance(0.3):
                    options[k] = self.pick(vs)
        i = self.fresh("i")
        body = self.nested(self.number(0, 3), {i: counter}) + [self.update(n) for n in names]
        other = self.exits(body, names, make("var", name=i, type=counter))
        return before + [P.For(i, start, stop, step, body, kind, options, other)]

    def exits(self, body, names, at=None, first=0):
        """Puts `break`, `continue` and `return` into the body of a loop, behind its first statements; the loop's `else`."""
        if "exit" not in self.features or not self.chance(0.6):
            return []
        for _ in range(self.number(1, 2)):
            c = self.expr(Type("int1"), 1)
            if at is not None and self.chance(0.5):
                k = self.number(-1, 3)
                c = make(self.pick(("eq", "gt")), at, make("literal", value=k), value=k)
            leave = [P.Break(), P.Break(), P.Continue(), P.Continue()]
            if self.kernel_level and not self.in_map:
                leave.append(P.Return())
            then = [self.update(self.pick(names))] if self.chance(0.4) else []
            body.insert(self.number(first, len(body)), P.If(c, then + [self.pick(leave)], []))
        return [self.update(n) for n in names if self.chance(0.7)] if self.chance(0.4) else []

    def s_while(self, depth):
        self.has("while")
        need(depth < 2)
        before, names = self.carried()
        w = self.fresh("w", Type("int32"))
        trips = self.const(Type("int32"), self.number(0, 4))
        if self.kernel_level and self.chance(0.4):
            trips = self.var("n")
        count = make("var", name=w, type=Type("int32"))
        condition = make("gt", count, make("literal", value=0), value=0)
        if self.chance(0.3):
            condition = make("and", condition, self.expr(Type("int1"), 2))
        down = P.Assign((w, ), make("sub", count, make("literal", value=1), value=1))
        body = self.nested(self.number(0, 2)) + [self.update(n) for n in names]
        other = self.exits(body, names, count)
        # In front of what may end an iteration.
        last = next((k for k, s in enumerate(body) if any(isinstance(x, P.Continue) for x in P.walk([s]))), len(body))
        body.insert(self.number(0, last), down)
        return before + [P.Assign((w, ), trips), P.While(condition, body, other)]

    def s_if(self, depth):
        self.has("branch")
        need(depth < 3)
        before, names = self.carried()
        c = self.expr(Type(self.pick(("int1", "int32"))), 2)
        then = self.nested(self.number(0, 2)) + [self.update(n) for n in names]
        other = self.nested(self.number(0, 2)) + [self.update(n) for n in names] if self.chance(0.5) else []
        return before + [P.If(c, then, other)]

    def s_split(self, depth):
        """Splits a tile, perhaps down to scalars."""
        self.has("split")
        t = self.random_type()
        need(t.shape and t.numel >= 2)
        if self.chance(0.5):
            t = Type(t.dtype, (self.pick((2, 4, 8)), ))
        e = self.expr(t, 2)
        out = []
        while t.numel >= 2:
            t = Type(t.dtype, (t.numel // 2, ))
            pair = (t.numel, 2) if t.numel > 1 or self.chance(0.5) else (2, )
            s = e if e.type.shape == pair else make("reshape", e, shape=pair)
            half = Type(t.dtype, pair[:-1])
            names = (self.fresh("v", half), self.fresh("v", half))
            out.append(P.Assign(names, make("split", s)))
            e = make("var", name=self.pick(names), type=half)
            if self.chance(0.3) or half.shape == ():
                break
        return out

    def s_several(self, depth):
        """Reductions and scans of several values."""
        self.has("combine")
        dtype = self.pick([d for d in self.dtypes if d in WIDE + ("float32", ) + (combine.FLAGS if "flags" in self.features else ())])
        values = self.pick((2, 2, 2, 3, 4)) if dtype not in combine.FLAGS else 2
        t = Type(dtype, self.pick(self.shapes + [()]))
        if dtype in combine.FLAGS:
            e = self.x_flags(t, 1, values)
        else:
            e = self.x_reduce(t, 1, values) if self.chance(0.6) else self.x_scan(t, 1, values)
        return [P.Assign(tuple(self.fresh("v", u) for u in e.type), e)]

    def map_function(self, inputs, results, memory=()):
        """A function of scalars of dtypes `inputs`, and arguments to load from, with results of dtypes `results`; elements go their own ways in it."""
        need(len(self.functions) < 8 and not self.in_map)
        name = f"map{len(self.functions)}"
        pointers = [(f"{name}_p{k}", a, next(b for b in self.buffers if b.name == a.buffer)) for k, a in enumerate(memory)]
        f = P.Function(name, tuple(f"v{name}_{k}" for k in range(len(inputs))) + tuple(p[0] for p in pointers), [])
        self.functions.append(f)
        outer = self.scope, self.kernel_level, self.depth, self.work, self.pointers
        self.scope = dict(zip(f.parameters, map(Type, inputs)))
        self.kernel_level, self.depth, self.work, self.pointers, self.in_map = False, 0, [], pointers, True
        values = lambda: tuple(self.expr(Type(r), 1) for r in results)
        try:
            if memory:
                t = Type(self.pick([p[2].dtype for p in pointers]))
                f.body.append(P.Assign((self.fresh("v", t), ), self.x_map_load(t, 1)))
            f.body += self.map_block(self.number(0, 3), values)
            f.body.append(P.Return(values()))
        finally:
            self.scope, self.kernel_level, self.depth, self.work, self.pointers = outer
            self.in_map = False
        return name

    def map_block(self, count, values):
        out = []
        for _ in range(count):
            k = self.number(0, 7)
            names = list(dict.fromkeys(self.pick(self.assignable()) for _ in range(self.number(1, 2))))
            changes = [self.update(n) for n in names]
            if k <= 2 or self.depth > 1:
                t = Type(self.pick([p[2].dtype for p in self.pointers] or [x for x in self.dtypes if x in INTS + FLOATS]))
                out.append(P.Assign((self.fresh("v", t), ), self.expr(t, 2)))
                continue
            outer = dict(self.scope)
            self.depth += 1
            limit = make("and", self.expr(Type("int32"), 1), make("literal", value=3), value=3)
            if k <= 4:
                c = self.expr(Type("int1"), 2)
                leave = [P.Return(values())] if self.chance(0.3) else []
                other = [self.update(n) for n in names] if self.chance(0.5) else []
                out.append(P.If(c, self.map_block(self.number(0, 1), values) + (leave or changes), other))
            elif k <= 6:
                i, c = self.fresh("i"), lambda x: self.const(Type("int32"), x)
                self.scope[i] = Type("int32")
                body = self.map_block(self.number(0, 1), values) + changes
                other = self.exits(body, names, make("var", name=i, type=Type("int32")))
                out.append(P.For(i, c(self.number(-1, 1)), limit if self.chance(0.7) else c(2), c(1), body, other=other))
            else:
                w = self.fresh("w", Type("int32"))
                at = make("var", name=w, type=Type("int32"))
                down = P.Assign((w, ), make("sub", at, make("literal", value=1), value=1))
                body = self.map_block(self.number(0, 1), values) + changes
                other = self.exits(body, names, at)
                out += [P.Assign((w, ), limit), P.While(make("gt", at, make("literal", value=0), value=0), [down] + body, other)]
            self.depth -= 1
            self.scope = {n: t for n, t in self.scope.items() if n in outer}
        return out

    def s_map(self, depth):
        """Several results of a function of scalars."""
        need(self.features & {"map", "map_load"})
        t = self.random_type()
        results = [self.pick([x for x in self.dtypes if x in INTS + FLOATS]) for _ in range(self.number(1, 3))]
        e = self.mapped(results, t.shape, 1)
        types = e.type if isinstance(e.type, tuple) else (e.type, )
        return [P.Assign(tuple(self.fresh("v", u) for u in types), e)]

    def s_assume(self, depth):
        self.has("assume")
        ok = [n for n, t in self.scope.items() if t == Type("int32")]
        k = self.number(-9, 9)
        x = self.var(self.pick(ok)) if ok and self.chance(0.7) or not self.kernel_level else make("pid", axis=0)
        return [P.Effect(make("assume", make(self.pick(("ge", "lt", "ne")), x, make("literal", value=k), value=k)))]

    def s_assembly(self, depth):
        """Several results of one statement, or those of packs."""
        self.has("asm")
        name = self.pick(("both", "both", "bytes", "halves", "pairs"))
        e = self.assembly(name, self.pick(self.shapes + [()]), 1)
        return [P.Assign(tuple(self.fresh("v", t) for t in (e.type if isinstance(e.type, tuple) else (e.type, ))), e)]

    def s_lib(self, depth):
        self.has("lib")
        shape, out = self.pick(self.shapes + [()]), []
        for _ in range(self.number(1, 4)):
            t = Type(self.pick(("float32", "float32", "float64", "int32") + tuple(library.FAMILIES)), shape)
            e = self.x_lib(t, 2)
            out.append(P.Assign((self.fresh("v", t), ), e))
        return out

    def s_assert(self, depth):
        """A condition that is true: one of which the compiler can tell, or one that the programs happen to meet, else it is dropped."""
        self.has("assert")
        t = Type(self.pick([x for x in self.dtypes if x in INTS]), self.pick(self.shapes + [()]))
        k = self.number(1, 100)
        x = make("and", self.expr(t, 2), make("literal", value=k), value=k)
        c = make("le", x, make("literal", value=k), value=k)
        if self.chance(0.5):
            c = make("or", self.expr(Type("int1", t.shape), 2), make("ge", self.expr(t, 1), make("literal", value=0), value=0))
        mask = [self.expr(Type("int1", t.shape), 1)] if t.shape and self.chance(0.4) else []
        return [P.Effect(make("assert", c, *mask))]

    def s_block_loop(self, depth):
        """A loop over blocks by a block pointer that advances, in some iterations perhaps."""
        self.has("block")
        need(depth < 2 and self.kernel_level)
        t = self.random_type()
        need(t.shape and t.dtype in INTS + FLOATS)
        a, size = self.input(t.dtype, None)
        at = self.block_attrs(t, size)
        at.pop("kind")
        c = lambda x: self.const(Type("int32"), x)
        first = self.expr(t, 1)
        p, v, i = self.fresh("p"), self.fresh("v", t), self.fresh("i")
        block = make("block_ptr", self.pointer(a), *(c(self.number(-2, 3)) for _ in t.shape), **at)
        pointer = make("var", name=p, type=block.type)
        read = self.same(make(self.pick(("add", "sub", "mul")), self.var(v), make("block_read", pointer)), t)
        move = P.Assign((p, ), make("advance", pointer, *(c(self.number(-2, 4)) for _ in t.shape)))
        if self.chance(0.3):
            move = P.If(self.expr(Type("int1"), 1), [move], [])
        body = [P.Assign((v, ), read), move]
        if self.chance(0.4):
            body.insert(self.number(0, 2), self.update(v))
        begin = [P.Assign((v, ), first), P.Assign((p, ), block)]
        trips = self.number(0, 4)
        if "block_write" in self.features and self.chance(0.6):
            # Another pointer goes through an output; its blocks may overlap.
            at, room = self.block_room(t)
            at.pop("kind")
            q, base = self.fresh("p"), self.block_base(t, room)
            out = make("var", name=q, type=block.type)
            begin.append(P.Assign((q, ), make("block_ptr", base, *(c(self.number(-2, 1)) for _ in t.shape), **at)))
            body.insert(self.number(0, len(body)), P.Effect(make("block_write", out, self.var(v))))
            body.append(P.Assign((q, ), make("advance", out, *(c(self.number(-1, 3)) for _ in t.shape))))
        return begin + [P.For(i, c(0), c(trips), c(1), body, self.pick(("range", "tl.range")), {}, self.exits(body, [v]))]

    def s_barrier(self, depth):
        self.has("barrier")
        return [P.Barrier()]

    def s_return(self, depth):
        """Some programs of the grid end here."""
        self.has("return")
        need(depth == 0 and self.kernel_level and self.chance(0.3))
        stored = [self.output(self.var(self.pick(self.assignable())))]
        return stored + [P.If(self.expr(Type("int1"), 2), [P.Return()], [])]

    def s_output(self, depth):
        need(self.kernel_level and len(self.buffers) < 9)
        return [self.output(self.expr(self.random_type(), 2))]

    def s_call(self, depth):
        self.has("helper")
        types = tuple(self.random_type() for _ in range(self.number(2, 3)))
        e = self.helper(types, 2)
        return [P.Assign(tuple(self.fresh("v", t) for t in types), e)]

    def s_dot(self, depth):
        self.has("dot")
        m, n = (self.pick((1, 2, 4, 8, 16, 16, 32, 64, 128)) for _ in range(2))
        t = Type(self.pick(("int32", "float32", "float32", "float32", "float64", "float16") + 6 * self.fp8 * ("float32", )),
                 (m, n) if self.chance(0.8) else (self.pick((1, 2, 4)), m, n))
        need(t.numel <= 4096)
        return [P.Assign((self.fresh("v", t), ), self.x_dot(t, 1))]

    def s_int4(self, depth):
        """Numbers of four bits, as they are or in a dot."""
        self.has("int4")
        t = Type(self.pick([d for d in self.dtypes if d in INTS + FLOATS]), self.pick([s for s in self.shapes if s[-1] > 1]))
        if self.chance(0.5):
            t = Type("float32", (self.pick((8, 16, 32)), self.pick((8, 16, 32))))
            x = self.x_int4(Type(self.pick(("float16", "bfloat16")), (t.shape[0], 16)), 1)
            y = self.dot_operand(Type(x.type.dtype, (16, t.shape[1])), 1)
            return [P.Assign((self.fresh("v", t), ), make("dot", x, y))]
        return [P.Assign((self.fresh("v", t), ), self.x_int4(t, 2))]

    def s_rows(self, depth):
        """Rows by index, as they are or in a dot."""
        self.has("rows")
        t = Type("float32", (self.pick((8, 16, 32)), self.pick((8, 16, 32))))
        if self.chance(0.5):
            x = self.x_rows_load(Type(self.pick(("float16", "bfloat16")), (t.shape[0], self.pick((16, 32)))), 1)
            y = self.dot_operand(Type(x.type.dtype, (x.type.shape[1], t.shape[1])), 1)
            return [P.Assign((self.fresh("v", t), ), make("dot", x, y))]
        return [P.Assign((self.fresh("v", t), ), self.x_rows_load(t, 1))]

    def s_dot_scaled(self, depth):
        self.has("scaled")
        t = Type("float32", (self.pick((1, 4, 8, 16, 32)), self.pick((2, 8, 16, 32, 64))))
        return [P.Assign((self.fresh("v", t), ), self.x_dot_scaled(t, 1))]

    def positive(self):
        """A step that is known when the loop runs: 1 or 2."""
        literal = lambda v: make("literal", value=v)
        return make("add", make("and", self.expr(Type("int32"), 1), literal(1), value=1), literal(1), value=1)

    def s_chain(self, depth):
        """A loop like attention's: what a dot of transposed rows gives, narrowed, is an operand of the next, and a reduction over its columns is carried and added to each row. Or all of it transposed."""
        self.has("chain")
        need(depth == 0 and self.kernel_level and self.chance(0.5))
        is_turned = self.chance(0.4)  # rows of keys, columns of queries; as many as an asynchronous dot has rows
        d = self.pick(("float16", "bfloat16") if is_turned else ("float32", "float16", "bfloat16", "int8"))
        m, n, k, o = 64 if is_turned else self.pick((16, 32)), self.pick((16, 32, 64)), self.pick((16, 32)), self.pick((16, 32))
        if d == "int8":
            n, k = max(n, 32), 32
        wide = "int32" if d == "int8" else "float32"
        turn = lambda *shape: shape[::-1] if is_turned else shape
        turned = lambda x: make("permute", x, dims=(1, 0))
        var = lambda name, t: make("var", name=name, type=t)
        literal = lambda v: make("literal", value=v)
        q_type, s_type, acc_type, most_type = Type(d, (m, k)), Type(wide, turn(m, n)), Type(wide, turn(m, o)), Type(wide, turn(m, 1))
        q, acc, most = self.fresh("v", q_type), self.fresh("v", acc_type), self.fresh("v", most_type)
        begin = [P.Assign((q, ), self.dot_operand(q_type, 1)), P.Assign((acc, ), self.const(acc_type, 0)), P.Assign((most, ), self.const(most_type, 0))]
        i, c = self.fresh("i"), lambda v: self.const(Type("int32"), v)
        outer = dict(self.scope)
        self.scope[i] = Type("int32")
        self.depth += 1
        s = f"v{self.names}"
        self.names += 1
        rows, values = self.dot_operand(Type(d, (n, k)), 1), self.dot_operand(Type(d, (n, o)), 1)
        body = [P.Assign((s, ), make("dot", rows, turned(var(q, q_type))) if is_turned else make("dot", var(q, q_type), turned(rows)))]
        whole = var(s, s_type) if wide == "int32" else make("cast", var(s, s_type), to="int32")
        p = make("cast", make("sub", make("and", whole, literal(7), value=7), literal(4), value=4), to=d)
        body.append(P.Assign((most, ), make("max", var(most, most_type), make("amax", var(s, s_type), axis=0 if is_turned else 1, keep=True))))
        body.append(P.Assign((acc, ), make("dot", turned(values), p, var(acc, acc_type)) if is_turned else make("dot", p, values, var(acc, acc_type))))
        if self.chance(0.5):
            body.append(P.Assign((acc, ), make("add", var(acc, acc_type), make("broadcast", var(most, most_type), shape=turn(m, o)))))
        self.depth -= 1
        self.scope = {name: t for name, t in self.scope.items() if name in outer}
        step = self.positive() if "step" in self.features and self.chance(0.5) else c(1)
        return begin + [P.For(i, c(0), c(self.number(1, 4)), step, body, self.pick(("range", "tl.range")), {})]

    def s_dot_loop(self, depth):
        """A loop like a matmul's: tiles by pointers that advance, a dot into an accumulator."""
        self.has("dot")
        need(depth == 0 and self.kernel_level and self.chance(0.5))
        d = self.pick(("float32", "float16", "bfloat16", "int8", "float64"))
        m, n = self.pick((8, 16, 32, 64)), self.pick((8, 16, 32, 64))
        if self.chance(0.1):
            m, n = self.pick(((64, 256), (16, 512), (128, 64), (64, 128), (1, 64), (2, 8)))
        k = self.pick((16, 32)) if d != "int8" else self.pick((32, 64))
        trips = self.number(1, 4)
        a, size_a = self.input(d, "small")
        b, size_b = self.input(d, "small")
        need(m * k * trips <= size_a and n * k * trips <= size_b)
        acc_type = Type({"int8": "int32", "float64": "float64"}.get(d, "float32"), (m, n))
        acc, pa, pb = self.fresh("v", acc_type), self.fresh("p"), self.fresh("p")
        col = self.chance(0.3)
        out = [
            P.Assign((acc, ), self.const(acc_type, 0)),
            P.Assign((pa, ), self.address(a, self.linear((m, k), (1, m) if col else (k * trips, 1)))),
            P.Assign((pb, ), self.address(b, self.linear((k, n), (n, 1) if self.chance(0.7) else (1, k))))
        ]
        ptr = lambda name, s: make("var", name=name, type=Type("*" + d, s))
        move = lambda name, s, by: P.Assign((name, ), make("addptr", ptr(name, s), self.const(Type("int32"), by)))
        attrs = {"precision": self.pick(("ieee", "tf32"))} if d == "float32" else {}
        dot = make("dot", make("load", ptr(pa, (m, k))), make("load", ptr(pb, (k, n))),
                   make("var", name=acc, type=acc_type), **attrs)
        body = [P.Assign((acc, ), dot), move(pa, (m, k), k * m if col else k), move(pb, (k, n), k * n)]
        return out + [self.ranged(self.fresh("i"), 0, trips, 1, body)]

    def s_pointer_loop(self, depth):
        """A loop over tiles by a pointer that advances."""
        self.has("for")
        need(depth < 2 and self.kernel_level)
        t = self.random_type()
        a, size = self.input(t.dtype, None)
        need(t.shape and t.dtype in INTS + FLOATS)
        trips, step = self.number(0, 4), self.pick((1, t.numel, 3, 16))
        need(t.numel + trips * step <= size)
        first = self.expr(t, 1)
        p, v = self.fresh("p"), self.fresh("v", t)
        pt = Type("*" + t.dtype, t.shape)
        pointer, c = make("var", name=p, type=pt), lambda x: self.const(Type("int32"), x)
        load = make("load", pointer)
        if "mask" in self.features and self.chance(0.5):
            load = make("load", pointer, self.expr(Type("int1", t.shape), 1), make("literal", value=0))
        op = self.pick(("add", "sub", "mul", "max"))
        value = self.same(make(op, self.var(v), load), t)
        body = [P.Assign((v, ), value), P.Assign((p, ), make("addptr", pointer, self.stride_of(step)))]
        if self.chance(0.5):
            body.insert(self.number(0, 1), self.update(v))
        begin = [P.Assign((v, ), first), P.Assign((p, ), self.address(a, self.permutation(t.shape)))]
        return begin + [P.For(self.fresh("i"), c(0), c(trips), c(1), body, self.pick(("range", "tl.range")), {})]

    def stride_of(self, n):
        s = self.stride(n)
        return self.const(Type("int32"), n) if s.op == "literal" else s

    # Helpers

    def helper(self, types, d):
        """A call of a new helper that returns values of `types`."""
        need(len(self.functions) < 6 and not (self.depth > 2))
        noinline = "noinline" in self.features and self.chance(0.5)
        ok = [n for n, t in self.scope.items() if t.dtype in P.NUMPY and (not noinline or t.shape == ())]
        chosen = [self.pick(ok) for _ in range(self.number(0, min(3, len(ok))))] if ok else []
        args = [self.var(n) for n in chosen] or [self.const(Type("int32"))]
        name = f"f{len(self.functions)}"
        read = [b for b in self.buffers if b.name[0] == "x"] if self.kernel_level else []
        inputs = [(a, b) for b in read for a in self.arguments_of(b.name)]
        pointers = [(f"{name}_p", *self.pick(inputs))] if inputs and self.chance(0.5) else []
        args += [self.pointer(a) for _, a, _ in pointers]
        parameters = tuple(f"{name}_{k}" for k in range(len(args) - len(pointers))) + tuple(p[0] for p in pointers)
        f = P.Function(name, parameters, [], noinline)
        self.functions.append(f)
        outer = self.scope, self.kernel_level, self.depth, self.work, self.pointers
        self.scope = dict(zip(f.parameters, (a.type for a in args)))
        self.kernel_level, self.depth, self.work, self.pointers = False, self.depth + 2, [], pointers
        try:
            f.body = self.block(self.number(0, 3))
            if self.chance(0.4):
                f.body.append(P.If(self.expr(Type("int1"), 2), [P.Return(tuple(self.expr(t, 1) for t in types))], []))
            if "exit" in self.features and self.chance(0.3):
                c, i = lambda x: self.const(Type("int32"), x), self.fresh("i", Type("int32"))
                leave = P.If(self.expr(Type("int1"), 2), [P.Return(tuple(self.expr(t, 1) for t in types))], [])
                del self.scope[i]
                body = self.nested(self.number(0, 1)) + [leave]
                if self.assignable():
                    body.append(self.update(self.pick(self.assignable())))
                f.body.append(P.For(i, c(0), c(self.number(1, 3)), c(1), body))
            f.body.append(P.Return(tuple(self.expr(t, d) for t in types)))
        finally:
            self.scope, self.kernel_level, self.depth, self.work, self.pointers = outer
        return make("call", *args, function=name, types=types)

    # The whole

    def program(self):
        if self.features & {"in_place", "atomic", "overlap", "olds", "select"}:
            for _ in range(self.number(1, 2)):
                dtype = self.pick([d for d in self.dtypes if d != "int1" and ("olds" not in self.features or d in OLD)])
                aliases = [self.pick((1, 8, 16, 64))] if "alias" in self.features else []
                if "overlap" in self.features:
                    aliases += [self.pick((0, 1, 1, 2, 7, 16, 100)) for _ in range(self.number(1, 2))]
                name = self.add_buffer("w", dtype, REGION * self.programs, self.pick(
                    ("edge", "wide", "small", "count")), aliases)
                self.work += [(name, d) for d in dict.fromkeys(a.dtype or dtype for a in self.arguments if a.buffer == name)]
        body = self.block(self.number(1, 5)) + self.wishes() + self.block(self.number(1, 4))
        if "peek" in self.features:
            self.peeks(body)
        unused = [n for n in self.assignable() if not self.uses.get(n)]
        last = [n for n in self.assignable() if n not in unused][-3:]
        for n in (unused + last)[:6]:
            body.append(self.output(self.var(n)))
        if not any(isinstance(s, (P.Store, P.BlockStore)) for s in P.walk(body)):
            body.append(self.output(self.expr(self.random_type(), 2)))
        return P.Program(self.buffers, self.arguments, self.functions, body, self.grid, self.options, bundles=self.bundles(body),
                         ordered="overlap" in self.features)

    def bundles(self, body):
        """Names that are fields of an aggregate: such as loops change, if there are."""
        top = [n for s in body if isinstance(s, P.Assign) for n in s.names if n[0] == "v" and self.scope.get(n) and not self.scope[n].is_pointer]
        kinds = [k for f, k in (("bundle", ()), ("tuple", ("tuple", ))) if f in self.features]
        if not kinds or not self.chance(0.7):
            return ()
        changed = [n for s in body if P.blocks(s) for x in P.walk([s]) if isinstance(x, P.Assign) for n in x.names if n in top]
        names = list(dict.fromkeys(changed + top))[:self.pick((2, 4))]
        return tuple(pair + self.pick(kinds) for pair in zip(names[0::2], names[1::2]))


Generator.CHOICES = [getattr(Expressions, n) for n in dir(Expressions) if n.startswith("x_")]
Generator.CHOICES += [Expressions.x_binary] * 5 + [Expressions.x_where, Expressions.x_literal, Expressions.x_compare
                                                   ] * 2
Generator.CHOICES += [Accesses.x_load] * 3 + [Expressions.x_lib] * 2
Generator.CHOICES += [getattr(Idioms, n) for n in dir(Idioms) if n.startswith("x_")]
Generator.SCALAR = [getattr(Expressions, "x_" + n) for n in ("literal", "mixed", "divide", "shift", "unary", "round", "extremum", "umulhi", "compare",
                                                             "where", "ternary", "cast", "bitcast", "lib")] + [Expressions.x_binary] * 5 + [Expressions.x_map_load] * 4
Generator.STATEMENTS = [getattr(Generator, n) for n in dir(Generator) if n.startswith("s_")]
Generator.RARE = [("atomic", Generator.s_atomic), ("atomic", Generator.s_atomic), ("combine", Generator.s_several),
                  ("dot", Generator.s_dot), ("dot", Generator.s_dot), ("dot", Generator.s_dot), ("dot", Generator.s_dot_loop), ("chain", Generator.s_chain),
                  ("while", Generator.s_while), ("return", Generator.s_return), ("helper", Generator.s_call),
                  ("split", Generator.s_split), ("for", Generator.s_pointer_loop), ("map", Generator.s_map), ("block", Generator.s_block_loop),
                  ("assume", Generator.s_assume), ("asm", Generator.s_assembly), ("assert", Generator.s_assert), ("lib", Generator.s_lib), ("lib", Generator.s_lib), ("map_load", Generator.s_map), ("scaled", Generator.s_dot_scaled), ("atomic", Generator.s_atomic_alone),
                  ("rows", Generator.s_rows_store), ("rows", Generator.s_rows_store), ("rows", Generator.s_rows), ("int4", Generator.s_int4),
                  ("overlap", Generator.s_overlap), ("overlap", Generator.s_overlap), ("overlap", Generator.s_overlap_dot),
                  ("boxes", Generator.s_boxes), ("boxes", Generator.s_boxes), ("boxes", Generator.s_box_dot), ("boxes", Generator.s_box_dot), ("olds", Generator.s_olds), ("olds", Generator.s_olds),
                  ("select", Generator.s_swap), ("select", Generator.s_select_store), ("sums", Generator.s_sums), ("sums", Generator.s_sums), ("sums", Generator.s_online),
                  ("reduce", Generator.s_max_with), ("chain", Generator.s_attention), ("boxes", Generator.s_block_atomic)]
Generator.RARE += [("kernel", getattr(Generator, n)) for n in dir(Kernels) if n.startswith("s_")]
Generator.STATEMENTS += [Generator.s_assign
                         ] * 5 + [Generator.s_while, Generator.s_for, Generator.s_in_place, Generator.s_split] * 2


def drop_statement(p, s):
    """`p` without s; names that it defines get a constant instead."""
    if isinstance(s, P.Assign):
        types = s.value.type if isinstance(s.value.type, tuple) else (s.value.type, )
        if any(t.is_pointer for t in types):
            raise Invalid("a pointer")
        return P.substitute(
            p, statements={id(s): [P.Assign((n, ), make("const", value=1, type=t)) for n, t in zip(s.names, types)]})
    return P.substitute(p, statements={id(s): []})


def repair(p, u):
    """`p` with what the reference refused replaced by something else."""
    if u.barrier:
        return P.substitute(p, statements={id(u.statement): [P.Barrier(), u.statement]})
    e = u.node
    if not isinstance(e, P.E) or isinstance(e.type, tuple) or e.type.is_pointer or e.type.dtype.startswith("literal"):
        return drop_statement(p, u.statement)
    same = next((a for a in e.args if a.type == e.type), None)
    return P.substitute(p, nodes={id(e): same if same is not None else make("const", value=1, type=e.type)})


def prune(p):
    """Without the helpers, arguments and buffers that nothing uses."""
    while True:
        called = {e.attrs["function"] for e in P.all_expressions(p) if "function" in e.attrs}
        if all(f.name in called for f in p.functions):
            break
        p = replace(p, functions=[f for f in p.functions if f.name in called])
    names = {e.attrs["name"] for e in P.all_expressions(p) if e.op == "var"}
    arguments = [a for a in p.arguments if a.name in names]
    used = {a.buffer for a in arguments}
    return replace(p, arguments=arguments, buffers=[b for b in p.buffers if b.name in used])


def variant(p, k):
    """`p` with other options, which change no result; the same ones for each k > 0. 0: `p` itself."""
    if not k:
        return p
    g = np.random.default_rng([p.seed, k, 7])
    pick = lambda xs: xs[int(g.integers(len(xs)))]
    large = any(t.numel >= 2048 for e in P.all_expressions(p) for t in (e.type if isinstance(e.type, tuple) else (e.type, )))
    options = dict(p.options, num_warps=pick((4, 8, 16) if large else (1, 2, 4, 8, 16)), num_stages=pick((1, 2, 3, 4, 5)), num_ctas=pick((1, 1, 2, 4)))
    return replace(p, options=options)


def generate(seed, without=()):
    """(program, contents of its buffers after the launch). without: features that it may not have; `+name`: it has that one."""
    for attempt in range(20):
        try:
            p = Generator(seed * 20 + attempt, without).program()
            for _ in range(40):
                try:
                    p = prune(retype(p))
                    memory, rounded = evaluate(p)
                    break
                except Undefined as u:
                    p = repair(p, u)
            else:
                continue
            if not any(isinstance(s, (P.Store, P.BlockStore, P.Effect)) for s in P.walk(p.body)):
                continue
            if any(e.op == "assert" for e in P.all_expressions(p)):
                p = replace(p, options=dict(p.options, debug=True, sanitize_overflow=False))
            # Contraction changes nothing where no product is rounded.
            p = replace(p, seed=seed, options=dict(p.options, enable_fp_fusion=not rounded and seed % 2 == 0))
            return p, memory
        except Invalid:
            continue
    raise RuntimeError(f"no program for seed {seed}")
