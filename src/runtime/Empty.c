/* A shared library needs a source of its own; the rest is tegula_runtime. */
