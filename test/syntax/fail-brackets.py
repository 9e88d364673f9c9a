"""Brackets that do not match."""
x = (1]
y = 1)
z = [1, 2
w = {3: 4
def f():
    return (1
