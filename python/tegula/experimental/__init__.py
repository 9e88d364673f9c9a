"""What Triton tries out: `gsan`, and `gluon`, whose kernels are not compiled (docs/differences.md)."""
