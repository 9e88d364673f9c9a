from .._host import class_of

TensorDescriptor = class_of(__name__, "TensorDescriptor")
TensorDescriptorIm2Col = class_of(__name__, "TensorDescriptorIm2Col")

__all__ = ["TensorDescriptor", "TensorDescriptorIm2Col"]
