"""Numbers, strings and backslashes."""
a = 0777
b = 1__0
c = 0x
d = 1abc
e = 'abc
f = "\xg0"
g = f"{}"
h = f"}"
i = f"{x"
j = f"{x!z}"
k = f"{x:{y}"
l = 1 \ + 2
m = '\u12'
n = b'\xff' rb"\q" + 1_000.0_1e+1_0j
