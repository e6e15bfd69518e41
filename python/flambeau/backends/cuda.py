"""CUDA's libraries: not in this build."""

from .settings import Setting

__all__ = ["is_built", "matmul"]


def is_built():
    """False: this build has no code for CUDA devices."""
    return False


class _Products:
    """What products on a CUDA device may do."""

    allow_tf32 = Setting("backends.cuda.matmul", bool, False)
    allow_fp16_reduced_precision_reduction = Setting("backends.cuda.matmul", bool, True)
    allow_bf16_reduced_precision_reduction = Setting("backends.cuda.matmul", bool, True)


matmul = _Products()
