"""What Triton tries out: only `gsan` is here. Gluon, a language of its own, is not (docs/differences.md)."""
