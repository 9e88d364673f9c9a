from .hopper import TensorDescriptor, TensorDescriptorIm2Col

__all__ = ["TensorDescriptor", "TensorDescriptorIm2Col"]
