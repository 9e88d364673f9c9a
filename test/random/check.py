"""`retype` types a whole program by the rules of rules.py; what does not fit raises Invalid."""
from dataclasses import replace

import program as P
from program import E, NUMPY, Type
from rules import FUNCTION_OPS, RULES, block_rules, broadcast, converts, need



class Checker:
    """Re-types every expression from its leaves; raises Invalid if names or types do not fit any more."""

    def __init__(self, p, leaf=None):
        self.p, self.leaf = p, leaf
        self.bodies, self.signatures = {}, {}
        self.loops = 0

    def program(self):
        p = self.p
        env = {}
        for a in p.arguments:
            env[a.name] = Type("*" + p.element(a)) if a.buffer else Type("int32")
        body = self.block(p.body, env, None)
        functions = [replace(f, body=self.bodies[f.name]) for f in p.functions if f.name in self.bodies]
        return replace(p, body=body, functions=functions)

    def function(self, name, types):
        """Results of function `name` for parameters of `types`."""
        f = self.p.function(name)
        need(f is not None and len(types) == len(f.parameters), name)
        key = tuple(types)
        if name in self.signatures:
            need(self.signatures[name][0] == key, "a helper with two signatures")
            return self.signatures[name][1]
        need(not f.noinline or all(t.shape == () for t in types))
        returns, outer, self.loops = [], self.loops, 0
        body = self.block(f.body, dict(zip(f.parameters, types)), returns)
        self.loops = outer
        need(returns and isinstance(f.body[-1], P.Return) and all(r == returns[0] for r in returns), "returns")
        self.bodies[name] = body
        self.signatures[name] = (key, returns[0])
        return returns[0]

    def expression(self, e, env):
        args = [self.expression(a, env) for a in e.args]
        attrs = e.attrs
        if e.op == "var":
            need(attrs["name"] in env, attrs["name"])
            attrs = dict(attrs, type=env[attrs["name"]])
        elif self.leaf:
            attrs = self.leaf(e, args) or attrs
        ts = [a.type for a in args]
        for a in args:
            need(isinstance(a.type, Type))
            if a.op == "literal" and attrs.get("value") != a.attrs["value"]:
                attrs = dict(attrs, value=a.attrs["value"])
        if e.op in FUNCTION_OPS:
            scalars = ts if e.op == "call" else [Type(t.dtype) for t in ts]
            out = self.function(attrs["function"], scalars * 2 if e.op in ("reduce", "scan") else scalars)
            if e.op in ("call", "map"):
                attrs = dict(attrs, types=out)
            else:
                need(tuple(scalars) == tuple(out), "combine function")
        need(e.op != "pointer_cast" or args[0].op == "var" and any(a.name == args[0].attrs["name"] for a in self.p.arguments))
        type_ = RULES[e.op](ts, attrs)
        if type_ == e.type and attrs == e.attrs and all(a is b for a, b in zip(args, e.args)):
            return e
        return E(e.op, args, attrs, type_)

    def block(self, body, env, returns):
        return [self.statement(s, env, returns) for s in body]

    def inner(self, body, env, returns):
        """A block whose new names are not visible behind it."""
        own = dict(env)
        out = self.block(body, own, returns)
        need(all(own[n] == env[n] for n in env), "changes a type")
        return out

    def loop_body(self, body, env, returns):
        self.loops += 1
        try:
            return self.inner(body, env, returns)
        finally:
            self.loops -= 1

    def statement(self, s, env, returns):
        ex = lambda e: self.expression(e, env)
        if isinstance(s, P.Assign):
            v = ex(s.value)
            types = v.type if isinstance(v.type, tuple) else (v.type, )
            need(v.op not in ("assume", "assert", "atomic_store", "block_write", "rows_store", "block_atomic"))
            need(len(types) == len(s.names) and not any(t.dtype.startswith("literal") for t in types))
            for n, t in zip(s.names, types):
                need(env.get(n, t) == t, "changes a type")
                env[n] = t
            return P.Assign(s.names, v)
        if isinstance(s, P.Store):
            p, v, m = ex(s.pointer), ex(s.value), ex(s.mask) if s.mask is not None else None
            need(p.type.is_pointer and v.type.dtype in NUMPY and broadcast(p.type.shape, v.type.shape) == p.type.shape)
            need(v.type.dtype == p.type.dtype[1:] or converts(v.type.dtype, p.type.dtype[1:]))
            need(m is None or (m.type.dtype == "int1" and broadcast(p.type.shape, m.type.shape) == p.type.shape))
            return P.Store(p, v, m, s.hint)
        if isinstance(s, P.BlockStore):
            p, v = ex(s.pointer), ex(s.value)
            at = dict(s.attrs, block=v.type.shape)
            need(p.type == Type("*" + v.type.dtype))
            block_rules(v.type.dtype, dict(at, kind=s.kind), len(s.offsets))
            return P.BlockStore(s.kind, p, v, tuple(map(ex, s.offsets)), at)
        if isinstance(s, P.For):
            bounds = [ex(e) for e in (s.start, s.stop, s.step)]
            counter = bounds[0].type
            need(counter in (Type("int32"), Type("int64")) and all(b.type == counter for b in bounds))
            own = dict(env)
            own[s.name] = counter
            need(s.name not in env)
            body = self.loop_body(s.body, own, returns)
            need(s.kind != "tl.static_range" or all(b.op == "const" for b in bounds))
            return P.For(s.name, *bounds, body, s.kind, s.options, self.inner(s.other, env, returns))
        if isinstance(s, P.While):
            c = ex(s.condition)
            need(c.type == Type("int1"))
            return P.While(c, self.loop_body(s.body, env, returns), self.inner(s.other, env, returns))
        if isinstance(s, (P.Break, P.Continue)):
            need(self.loops > 0, "outside of loops")
            return s
        if isinstance(s, P.If):
            c = ex(s.condition)
            need(c.type.shape == () and c.type.dtype in ("int1", "int32"))
            return P.If(c, self.inner(s.then, env, returns), self.inner(s.other, env, returns))
        if isinstance(s, P.Return):
            values = tuple(map(ex, s.values))
            if returns is None:
                need(not values)
            else:
                need(values)
                returns.append(tuple(v.type for v in values))
            return P.Return(values)
        if isinstance(s, P.Effect):
            return P.Effect(ex(s.value))
        return s


def retype(p, leaf=None):
    """`p` with every type inferred anew; Invalid if it is no program any more. `leaf`(e, operands) may give new
    attributes."""
    return Checker(p, leaf).program()
