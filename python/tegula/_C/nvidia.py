"""`triton._C.libtriton.nvidia`: cuBLAS as benchmarks of Triton's call it, by PyTorch's own."""
import types


class CublasLt:
    """Matrices of PyTorch on a GPU, row-major, B transposed: a (M, K), b (N, K), c and d (M, N). The workspace is not used: PyTorch has one."""

    def __init__(self, workspace):
        self.workspace = workspace

    @staticmethod
    def _checked(a, b, out):
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or tuple(out.shape) != (a.shape[0], b.shape[0]):
            raise RuntimeError(f"A is (M, K), B is (N, K), the result (M, N); found {tuple(a.shape)}, {tuple(b.shape)} and {tuple(out.shape)}")
        if a.dtype != b.dtype:
            raise RuntimeError(f"A and B have one type; found {a.dtype} and {b.dtype}")

    def matmul(self, a, b, c):
        """c = a @ b.T"""
        import torch
        self._checked(a, b, c)
        if a.dtype.itemsize > 1:
            if c.dtype == a.dtype:
                torch.mm(a, b.T, out=c)
            else:
                c.copy_(torch.mm(a, b.T))
            return
        one = torch.ones((), device=a.device)
        c.copy_(torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=c.dtype))

    def gemm(self, a, b, c, d, alpha=1.0, beta=0.0):
        """d = alpha * (a @ b.T) + beta * c"""
        import torch
        self._checked(a, b, d)
        torch.addmm(c, a, b.T, beta=beta, alpha=alpha, out=d)

    def _refuse(self, *args, **kwargs):
        raise NotImplementedError("tegula brings no bindings of cuBLASLt; torch.nn.functional.scaled_mm multiplies scaled blocks")

    block_scaled_matmul_mxfp8 = block_scaled_matmul_nvfp4 = _refuse


cublas = types.SimpleNamespace(CublasLt=CublasLt)
