"""Inductor, the compiler of torch.compile, emits to tegula (docs/pytorch.md)."""
