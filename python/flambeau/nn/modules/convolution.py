"""Convolutions and their transposes in one to three dims."""

import math

import flambeau
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def spread(value, count, name):
    """One number for all dims, or a tuple with one for each."""
    if isinstance(value, int):
        return (value,) * count
    value = tuple(value)
    if len(value) != count:
        raise ValueError(f"{name} must be an integer or {count} of them, got {value}")
    return value


class _Convolution(Module):
    """What all convolutions have: parameters, their initial values, the padding.

    Shapes: weight [out_channels, in_channels / groups, *kernel_size], of transposed ones
    [in_channels, out_channels / groups, *kernel_size]; bias [out_channels]. Initial values are
    uniform within 1 / sqrt(in_channels / groups * taps).
    """

    rank = 0
    transposed = False

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        output_padding,
        dilation,
        groups,
        bias,
        padding_mode,
        device,
        dtype,
    ):
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {_PADDING_MODES}, but got {padding_mode!r}"
            )
        if self.transposed and padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = spread(kernel_size, self.rank, "kernel_size")
        self.stride = spread(stride, self.rank, "stride")
        self.dilation = spread(dilation, self.rank, "dilation")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of ('same', 'valid')"
                )
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
            self.padding = padding
        else:
            self.padding = spread(padding, self.rank, "padding")
        self.output_padding = spread(output_padding, self.rank, "output_padding")
        self.groups = groups
        self.padding_mode = padding_mode
        kind = {"device": device, "dtype": dtype}
        first, second = (
            (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        )
        self.weight = Parameter(
            flambeau.empty((first, second // groups, *self.kernel_size), **kind)
        )
        offset = Parameter(flambeau.empty(out_channels, **kind)) if bias else None
        self.register_parameter("bias", offset)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the parameters anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _amounts_around(self):
        """Padding for F.pad: pairs for the last dim, the one before it, and so on."""
        if isinstance(self.padding, str):
            totals = [
                d * (k - 1) if self.padding == "same" else 0
                for d, k in zip(self.dilation, self.kernel_size)
            ]
            pairs = [(t // 2, t - t // 2) for t in totals]
        else:
            pairs = [(p, p) for p in self.padding]
        return [amount for pair in reversed(pairs) for amount in pair]

    def extra_repr(self):
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        for name in ("padding", "dilation", "output_padding"):
            value = getattr(self, name)
            default = (1 if name == "dilation" else 0,) * self.rank
            if value != default:
                text += f", {name}={value!r}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_Convolution):
    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            0,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input):
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._amounts_around(), mode=self.padding_mode)
            padding = 0
        return self._function()(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class Conv1d(_Conv):
    """Convolution over [n, c, l] or [c, l]; see F.conv1d."""

    rank = 1

    def _function(self):
        return F.conv1d


class Conv2d(_Conv):
    """Convolution over [n, c, h, w] or [c, h, w]; see F.conv2d."""

    rank = 2

    def _function(self):
        return F.conv2d


class Conv3d(_Conv):
    """Convolution over [n, c, d, h, w] or [c, d, h, w]; see F.conv3d."""

    rank = 3

    def _function(self):
        return F.conv3d


class _ConvTranspose(_Convolution):
    transposed = True

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _padding_for(self, input, output_size):
        """The output_padding with which the result has `output_size`."""
        if output_size is None:
            return self.output_padding
        spatial = input.shape[-self.rank :]
        wanted = list(output_size)[-self.rank :]
        result = []
        for i, size in enumerate(wanted):
            reach = self.dilation[i] * (self.kernel_size[i] - 1)
            least = (spatial[i] - 1) * self.stride[i] - 2 * self.padding[i] + reach + 1
            if not least <= size < least + self.stride[i]:
                raise ValueError(
                    f"requested output size {tuple(wanted)}, but valid sizes of dim {i} range "
                    f"from {least} to {least + self.stride[i] - 1} for an input of {tuple(spatial)}"
                )
            result.append(size - least)
        return tuple(result)

    def forward(self, input, output_size=None):
        return self._function()(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._padding_for(input, output_size),
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution over [n, c, l] or [c, l]; see F.conv_transpose1d."""

    rank = 1

    def _function(self):
        return F.conv_transpose1d


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution over [n, c, h, w] or [c, h, w]; see F.conv_transpose2d."""

    rank = 2

    def _function(self):
        return F.conv_transpose2d


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution over [n, c, d, h, w] or [c, d, h, w]; see F.conv_transpose3d."""

    rank = 3

    def _function(self):
        return F.conv_transpose3d
