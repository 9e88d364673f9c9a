"""A table of numbers with names of columns: what reports give where pandas is not installed."""


def _text(x, precision=6):
    return f"{x:.{precision}f}" if isinstance(x, float) else "" if x is None else str(x)


class Table:
    """`table[column]` is a list; `rows` is a list of lists."""

    def __init__(self, columns, rows):
        self.columns, self.rows = list(columns), [list(r) for r in rows]

    def __getitem__(self, column):
        i = self.columns.index(column)
        return [r[i] for r in self.rows]

    def __len__(self):
        return len(self.rows)

    def select(self, columns):
        return Table(columns, zip(*(self[c] for c in columns)) if self.rows else [])

    def with_column(self, name, values):
        return Table(self.columns + [name], [r + [v] for r, v in zip(self.rows, values)])

    def to_csv(self, precision=6):
        return "".join(",".join(_text(x, precision) for x in row) + "\n" for row in [self.columns, *self.rows])

    def to_string(self):
        lines = [["", *self.columns], *([str(i), *map(_text, r)] for i, r in enumerate(self.rows))]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths)).rstrip() for line in lines)

    __str__ = __repr__ = to_string
