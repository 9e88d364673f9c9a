def f():
    """A text that never ends.

    x = 1
