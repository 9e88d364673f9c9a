# RUN: compile test/sema/missing.py::k --sig 'x:*f32' --emit tile
