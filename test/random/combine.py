"""Combine functions for reductions and scans: associative ones with literals, branches, early returns and several
values.

TEMPLATES: (values, dtypes, "reduce" if it commutes too, else "scan", kind of its input, builder). The builder gets the
parameters as expressions and gives the function's body. Inputs: "any", "byte" ([0, 127]), "small" (floats that are
small integers), "flag" (the first value is 0 or 1), "same" (the first value is one constant)."""
import program as P
from rules import make
from program import Type

INT = ("int32", "int64", "uint32")
FLAGS = ("int1", "int8", "uint8", "int16", "uint16")
FLOAT = ("float32", "float64")
TEMPLATES = []


def template(values, dtypes, kind, inputs="any"):

    def add(f):
        TEMPLATES.append((values, dtypes, kind, inputs, f))
        return f

    return add


def lit(v):
    return make("literal", value=v)


def con(v, like):
    return make("const", value=v, type=Type(like.type.dtype))


def ret(*values):
    return [P.Return(values)]


def where(c, x, y):
    value = next((v.attrs["value"] for v in (x, y) if v.op == "literal"), 0)
    return make("where", c, x, y, value=value)


def op(name, x, y):
    value = next((v.attrs["value"] for v in (x, y) if v.op == "literal"), 0)
    return make(name, x, y, value=value)


@template(1, INT, "reduce")
def add(g, a, b):
    return ret(op("add", a, b))


@template(1, INT, "reduce")
def masked_add(g, a, b):
    return ret(op("and", op("add", a, b), lit((1 << int(g.integers(4, 24))) - 1)))


@template(1, INT + FLOAT, "reduce", "small")
def larger_by_where(g, a, b):
    return ret(where(op("gt", a, b), a, b))


@template(1, INT + FLOAT, "reduce", "small")
def larger_by_return(g, a, b):
    return [P.If(op("ge", a, b), ret(a), [])] + ret(b)


@template(1, INT + FLOAT, "reduce", "small")
def smaller_by_branch(g, a, b):
    r = make("var", name="r", type=a.type)
    return [P.Assign(("r", ), b), P.If(op("lt", a, b), [P.Assign(("r", ), a)], [])] + ret(r)


@template(1, INT, "reduce")
def smaller_by_ternary(g, a, b):
    return ret(make("ternary", op("lt", a, b), a, b))


@template(1, INT, "reduce")
def xor_with_literal(g, a, b):
    return ret(op("xor", op("xor", a, b), lit(int(g.integers(1, 100)))))


@template(1, INT, "reduce")
def product_of_successors(g, a, b):
    return ret(op("add", op("add", op("mul", a, b), a), b))


@template(1, ("int32", "int64"), "reduce", "byte")
def product_modulo(g, a, b):
    return ret(op("mod", op("mul", a, b), lit(int(g.choice([251, 241, 197])))))


@template(1, ("int32", "int64"), "reduce", "byte")
def saturating_add(g, a, b):
    return ret(make("min", op("add", a, b), con(int(g.integers(200, 1000)), a)))


@template(1, FLOAT, "reduce", "small")
def float_add_unless_zero(g, a, b):
    return ret(where(op("eq", b, lit(0.0)), a, op("add", a, b)))


@template(1, FLOAT, "reduce", "small")
def float_sum_minus_literal(g, a, b):
    return ret(op("add", op("sub", op("add", a, b), lit(1.5)), lit(1.5)))


@template(1, FLAGS, "reduce")
def either(g, a, b):
    return ret(op("or", a, b))


@template(1, FLAGS, "reduce")
def both(g, a, b):
    return ret(op("and", a, b))


@template(1, FLAGS, "reduce")
def odd_number(g, a, b):
    return ret(op("xor", a, b))


@template(1, FLAGS[1:], "reduce")
def largest_of_narrow(g, a, b):
    return ret(make("max", a, b))


@template(1, FLAGS[1:], "reduce")
def smallest_of_narrow_by_where(g, a, b):
    return ret(where(op("lt", a, b), a, b))


@template(2, FLAGS, "reduce")
def either_and_both(g, a, c, b, d):
    return ret(op("or", a, b), op("and", c, d))


@template(1, INT, "scan")
def first_not_zero(g, a, b):
    return ret(where(op("ne", a, lit(0)), a, b))


@template(1, INT, "scan")
def last(g, a, b):
    return ret(b)


@template(2, INT, "reduce")
def extremes(g, a, c, b, d):
    return ret(make("min", a, b), make("max", c, d))


@template(2, INT + FLOAT, "reduce", "small")
def largest_with_key(g, v, k, w, m):
    better = op("or", op("gt", v, w), op("and", op("eq", v, w), op("lt", k, m)))
    return ret(where(better, v, w), where(better, k, m))


@template(2, INT + FLOAT, "reduce", "small")
def largest_with_key_by_return(g, v, k, w, m):
    return [P.If(op("gt", v, w), ret(v, k), []), P.If(op("lt", v, w), ret(w, m), [])] + ret(v, make("min", k, m))


@template(2, INT, "reduce")
def sum_and_xor(g, a, c, b, d):
    return ret(op("add", a, b), op("xor", c, d))


@template(2, ("float32", ), "reduce", "same")
def weighted_mean(g, m, w, n, v):
    s = make("var", name="s", type=m.type)
    r = make("var", name="r", type=m.type)
    return [
        P.Assign(("s", ), op("add", w, v)),
        P.Assign(("r", ), where(op("eq", s, lit(0.0)), lit_of(0.0, m), make("div_rn", v, s)))
    ] + ret(op("add", m, op("mul", op("sub", n, m), r)), s)


def lit_of(v, like):
    return con(v, like)


@template(2, INT, "scan")
def affine(g, a, c, b, d):
    return ret(op("mul", a, b), op("add", op("mul", c, b), d))


@template(2, INT, "scan", "flag")
def segmented_sum(g, f, v, h, w):
    return ret(op("or", f, h), where(op("ne", h, lit(0)), w, op("add", v, w)))


@template(2, INT, "scan", "flag")
def segmented_sum_by_branch(g, f, v, h, w):
    return [P.If(op("ne", h, lit(0)), ret(h, w), [])] + ret(f, op("add", v, w))


@template(3, INT, "reduce")
def sum_and_extremes(g, a, c, e, b, d, h):
    return ret(op("add", a, b), make("min", c, d), make("max", e, h))


@template(4, INT, "scan")
def matrix_product(g, a, b, c, d, e, f, h, k):
    cell = lambda x, y, z, w: op("add", op("mul", x, y), op("mul", z, w))
    return ret(cell(a, e, b, h), cell(a, f, b, k), cell(c, e, d, h), cell(c, f, d, k))
