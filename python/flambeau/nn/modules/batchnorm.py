"""Normalizations with statistics of channels: batch, instance, group."""

import flambeau
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


class _ChannelNorm(Module):
    """Parameters weight and bias [num_features], buffers running_mean and running_var."""

    dims = ()

    def __init__(
        self, num_features, eps, momentum, affine, track_running_stats, device=None, dtype=None
    ):
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        kind = {"device": device, "dtype": dtype}
        for name in ("weight", "bias"):
            value = Parameter(flambeau.empty(num_features, **kind)) if affine else None
            self.register_parameter(name, value)
        tracked = track_running_stats
        self.register_buffer(
            "running_mean", flambeau.zeros(num_features, **kind) if tracked else None
        )
        self.register_buffer(
            "running_var", flambeau.ones(num_features, **kind) if tracked else None
        )
        count = flambeau.tensor(0, dtype=flambeau.int64) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self):
        """Running statistics of no batch: mean 0, variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """weight 1, bias 0, no running statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def _check(self, input):
        if input.dim() not in self.dims:
            allowed = " or ".join(f"{d}D" for d in self.dims)
            raise ValueError(f"expected {allowed} input (got {input.dim()}D input)")

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_ChannelNorm):
    """See F.batch_norm. A momentum of None averages all batches alike."""

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def forward(self, input):
        self._check(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        use_batch = self.training or self.running_mean is None
        keeps = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            use_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch norm over [n, c] or [n, c, l]."""

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm over [n, c, h, w]."""

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch norm over [n, c, d, h, w]."""

    dims = (5,)


class _InstanceNorm(_ChannelNorm):
    """See F.instance_norm. The batch dim may be missing."""

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=False,
        track_running_stats=False,
        device=None,
        dtype=None,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def forward(self, input):
        self._check(input)
        lacks_batch = input.dim() == self.dims[0]
        x = input.unsqueeze(0) if lacks_batch else input
        if x.size(1) != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim=1 to match num_features ({self.num_features}), "
                f"but got: {x.size(1)}."
            )
        y = F.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return y.squeeze(0) if lacks_batch else y


class InstanceNorm1d(_InstanceNorm):
    """Instance norm over [n, c, l] or [c, l]."""

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance norm over [n, c, h, w] or [c, h, w]."""

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance norm over [n, c, d, h, w] or [c, d, h, w]."""

    dims = (4, 5)


class GroupNorm(Module):
    """Norm of groups of channels in each instance; see F.group_norm."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError("num_channels must be divisible by num_groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        kind = {"device": device, "dtype": dtype}
        for name in ("weight", "bias"):
            value = Parameter(flambeau.empty(num_channels, **kind)) if affine else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self):
        """weight 1, bias 0."""
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"
