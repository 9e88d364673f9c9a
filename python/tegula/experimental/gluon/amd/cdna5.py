from .._host import class_of

TensorDescriptor = class_of(__name__, "TensorDescriptor")

__all__ = ["TensorDescriptor"]
