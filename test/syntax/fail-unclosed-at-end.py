x = 1
y = foo(x,
        [1, 2],
        a
z = 3
