"""What Triton tries out: `gsan`, and `gluon`, whose kernels are not compiled (docs/differences.md)."""

WHY_NO_GLUON = ("Gluon is a language of its own, written in the layouts and instructions of one GPU; tegula compiles the Triton language, "
                "and chooses these by itself (docs/differences.md)")
