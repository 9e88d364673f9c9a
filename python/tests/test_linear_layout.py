"""tools.LinearLayout: the library's algebra of layouts, against the maps themselves."""
import copy
import itertools
import pickle
import random

import pytest
from tegula.tools import LinearLayout

MMA = LinearLayout.from_bases([("register", [[0, 1], [8, 0]]), ("lane", [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]])], ["row", "column"])


def points(layout):
    """Every input with its image."""
    names = [n for n, _ in layout.in_dims]
    for at in itertools.product(*(range(s) for _, s in layout.in_dims)):
        inputs = dict(zip(names, at))
        yield inputs, layout.apply(inputs)


def random_layout(g, ins, outs, invertible=False):
    while True:
        sizes = [1 << b for b in outs.values()]
        bases = [(n, [[g.randrange(s) for s in sizes] for _ in range(b)]) for n, b in ins.items()]
        layout = LinearLayout.from_bases(bases, list(outs), sizes, require_surjective=False)
        if not invertible or layout.is_invertible():
            return layout


def test_what_it_says():
    assert MMA.apply({"register": 3, "lane": 5}) == {"row": 9, "column": 3}
    assert MMA.get_bases() == MMA.bases == [("register", [[0, 1], [8, 0]]), ("lane", [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]])]
    assert MMA.in_dims == [("register", 4), ("lane", 32)] and MMA.out_dims == [("row", 16), ("column", 8)]
    assert MMA.in_dim_names == ["register", "lane"] and MMA.num_out_dims == 2 and MMA.get_out_dim_size("row") == 16
    assert MMA.is_invertible() and LinearLayout.from_bases(MMA.bases, MMA.out_dim_names, [16, 8]) == MMA
    assert pickle.loads(pickle.dumps(MMA)) == MMA == copy.deepcopy(MMA) and hash(MMA) == hash(copy.copy(MMA)) and MMA != LinearLayout()
    assert MMA.get_matrix_view()[0] == [0, 0, 0, 0, 1, 0, 0]
    assert repr(LinearLayout.identity_1d(4, "i", "x")) == " - i=1 -> (1)\n   i=2 -> (2)\nwhere out dims are: [x (size 4)]"


def test_simple_ones():
    assert [LinearLayout.strided_1d(4, 2, "i", "x").apply({"i": i})["x"] for i in range(4)] == [0, 2, 4, 6]
    zeros = LinearLayout.zeros_1d(4, inDim="i", outDim="x", outDimSize=2)
    assert {y["x"] for _, y in points(zeros)} == {0} and not zeros.is_injective() and not zeros.is_surjective()
    assert LinearLayout.zeros_1d(4, "i", "x").is_surjective()


@pytest.mark.parametrize("seed", range(20))
def test_algebra(seed):
    g = random.Random(seed)
    a = random_layout(g, {"i": 2, "j": 3}, {"x": 3, "y": 2}, invertible=True)
    outer = random_layout(g, {"y": 2, "x": 3}, {"u": 2, "v": 4})
    composed = a.compose(outer)
    for x, y in points(a):
        assert composed.apply(x) == outer.apply(y)
    inverse = a.invert()
    assert all(inverse.apply(y) == x for x, y in points(a)) and inverse == a.pseudoinvert()
    b = random_layout(g, {"k": 5}, {"x": 3, "y": 2}, invertible=True)
    where = a.invert_and_compose(b)
    assert all(b.apply(where.apply(x)) == y for x, y in points(a))
    low = random_layout(g, {"i": 1}, {"x": 1, "z": 1})
    product = low * a
    assert product.in_dims == [("i", 8), ("j", 8)] and product.out_dims == [("x", 16), ("z", 2), ("y", 4)]
    for x, y in points(product):
        first, second = low.apply({"i": x["i"] & 1}), a.apply({"i": x["i"] >> 1, "j": x["j"]})
        assert y == {"x": first["x"] | second["x"] << 1, "z": first["z"], "y": second["y"]}
    assert low * product.divide_left(low) == product and product.divide_right(a) * a == product
    assert a * LinearLayout() == a == LinearLayout() * a
    assert a.divide_left(LinearLayout.identity_1d(2, "other", "x")) is None


def test_mistakes():
    i = LinearLayout.identity_1d(4, "i", "x")
    for make, text in [
        (lambda: LinearLayout.identity_1d(3, "i", "x"), "sizes are powers of 2"),
        (lambda: LinearLayout.from_bases([("i", [[4]])], ["x"], [4]), "which has 4 values"),
        (lambda: LinearLayout.from_bases([("i", [[1, 2]])], ["x"]), "has 2 coordinates for 1 outputs"),
        (lambda: LinearLayout.from_bases([("i", [[0]])], ["x"], [2]), "not every output is reached"),
        (lambda: LinearLayout.from_bases([("i", []), ("i", [])], ["x"]), "dimension `i` is there twice"),
        (lambda: LinearLayout.from_bases([("i", [[1 << 31]])], ["x"], require_surjective=False), r"2\^32 values"),
        (lambda: LinearLayout.from_bases([(str(n), []) for n in range(29)], []), "at most 28"),
        (lambda: LinearLayout.identity_1d(1 << 31, "i", "x") * LinearLayout.identity_1d(1 << 31, "j", "y") * LinearLayout.identity_1d(2, "k", "z"),
         "the product has too many values"),
        (lambda: i * LinearLayout.identity_1d(1 << 30, "i", "x"), "the product has too many values"),
        (lambda: i.compose(MMA), "output `x`, of 4 values, does not fit the inputs of the outer layout"),
        (lambda: LinearLayout.zeros_1d(4, "i", "x").invert(), "it is not invertible"),
        (lambda: i.invert_and_compose(LinearLayout.zeros_1d(4, "i", "x", 4)), "values that the other layout never gives"),
        (lambda: i.apply({"j": 1}), r"its inputs are \['i'\]"),
        (lambda: i.apply({"i": 4}), "has 4 values"),
    ]:
        with pytest.raises(ValueError, match=text):
            make()
    with pytest.raises(TypeError, match="a LinearLayout is needed, found int"):
        i.compose(3)
    with pytest.raises(TypeError):
        i * 3
