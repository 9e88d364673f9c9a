# Arithmetic on numbers and tensors that is composed of operators.
import tegula.language as tl
from tegula import jit


@jit
def cdiv(x, div):
    # On tensors `//` truncates, so this is the ceiling for x >= 0 and div > 0, as in C.
    return (x + (div - 1)) // div


@jit
def sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@jit
def swizzle2d(i, j, size_i, size_j, size_g):
    # Rows are taken in groups of size_g; inside a group the walk is column by column, so that neighbouring programs
    # share columns. The last group has the rows that are left.
    position = i * size_j + j
    group_size = size_g * size_j
    first_row = (position // group_size) * size_g
    rows = tl.minimum(size_i - first_row, size_g)
    in_group = position % group_size
    return first_row + in_group % rows, in_group // rows
