"""Statements that Python does not have, or that stop in the middle."""
x = 1 +
1 = x
f(x) = 2
f() += 1
x y
print "hello"
print x
n := 3
a, b: int = 3
import
from import x
x++
i = i++ + 1
f(a=1, 2)
f(**a, *b)
return return
x = yield = 3
"text" b"bytes"
f(if=1)
x = a ? b : c
x = $HOME
x = !y
x = a && b
del f()
for 1 in x: pass
x = 1 if y
lambda x x
