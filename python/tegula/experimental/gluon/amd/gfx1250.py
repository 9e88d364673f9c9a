from .cdna5 import TensorDescriptor

__all__ = ["TensorDescriptor"]
