a = 'abc
b = f"{}"
c = f"}"
d = 0777
e = '\xg0'
print "hello"
