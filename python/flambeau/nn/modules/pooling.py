"""Pooling over the last one to three dims."""

from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module


class _MaxPool(Module):
    """The largest element of each window. The stride is the kernel's size unless given."""

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        return_indices=False,
        ceil_mode=False,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return self._function()(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window of [n, c, l] or [c, l]."""

    def _function(self):
        return F.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest element of each window of [n, c, h, w] or [c, h, w]."""

    def _function(self):
        return F.max_pool2d


class MaxPool3d(_MaxPool):
    """The largest element of each window of [n, c, d, h, w] or [c, d, h, w]."""

    def _function(self):
        return F.max_pool3d


class AvgPool1d(Module):
    """Means of windows of [n, c, l] or [c, l]."""

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input):
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(AvgPool1d):
    """Means of windows of [n, c, h, w] or [c, h, w]; the divisor may be given."""

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def _function(self):
        return F.avg_pool2d

    def forward(self, input):
        return self._function()(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool3d(AvgPool2d):
    """Means of windows of [n, c, d, h, w] or [c, d, h, w]; the divisor may be given."""

    def _function(self):
        return F.avg_pool3d


class _AdaptiveAvgPool(Module):
    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return self._function()(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of output_size parts of the last dim."""

    def _function(self):
        return F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of parts of the last two dims; None in output_size keeps a size."""

    def _function(self):
        return F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of parts of the last three dims; None in output_size keeps a size."""

    def _function(self):
        return F.adaptive_avg_pool3d


class _AdaptiveMaxPool(Module):
    def __init__(self, output_size, return_indices=False):
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input):
        return self._function()(input, self.output_size, self.return_indices)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of output_size parts of the last dim."""

    def _function(self):
        return F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of parts of the last two dims; None in output_size keeps a size."""

    def _function(self):
        return F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of parts of the last three dims; None in output_size keeps a size."""

    def _function(self):
        return F.adaptive_max_pool3d
