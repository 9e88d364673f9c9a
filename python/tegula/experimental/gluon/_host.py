"""What programs on the host hand to kernels of Gluon. It can be imported, and asked for by isinstance(); making one says that tegula has no such kernels."""
from .. import WHY_NO_GLUON


class TensorDescriptor:
    def __new__(cls, *args, **kwargs):
        raise NotImplementedError(f"{cls.__module__.partition('.experimental.')[2]}.{cls.__name__} is of Gluon. {WHY_NO_GLUON}; "
                                  "triton.tools.tensor_descriptor.TensorDescriptor is the language's own")

    @classmethod
    def from_tensor(cls, *args, **kwargs):
        return cls()


def class_of(module, name):
    return type(name, (TensorDescriptor,), {"__module__": module})
