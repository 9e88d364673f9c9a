# not UTF-8: the byte is Latin-1
name = "café"
