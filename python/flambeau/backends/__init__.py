"""Libraries and devices that programs ask for by name. Kernels are Flambeau's own: none of these
is used, and settings for them are checked, remembered and change nothing."""

from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
