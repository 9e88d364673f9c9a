"""Colons, indentation and what belongs to a block."""
def no_body():
x = 1
  y = 2
if x = 3:
    pass
while (x = 3):
    pass
if x:
    a
  b
if x:
	a
        b
else if y:
    pass
for i in range(3)
    pass
try:
    x
y = 1
class C(:
    pass
def two(a, a): pass
def order(a=1, b): pass
