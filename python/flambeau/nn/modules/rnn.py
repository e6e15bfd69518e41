"""Recurrent networks: Elman, LSTM, GRU, over sequences and step by step."""

import math

import flambeau
from flambeau import _C
from flambeau.autograd import Function
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence


class _Split(Function):
    """Rows [sum of sizes, width] as a tensor for each step: one call on the tape for all."""

    @staticmethod
    def forward(ctx, data, sizes):
        ctx.set_materialize_grads(False)
        ctx.sizes, ctx.width = sizes, data.shape[1]
        return tuple(data.split(sizes))

    @staticmethod
    def backward(ctx, *cotangents):
        some = next(c for c in cotangents if c is not None)
        filled = [
            some.new_zeros((n, ctx.width)) if c is None else c
            for c, n in zip(cotangents, ctx.sizes)
        ]
        return _Join.apply(*filled), None


class _Parts(Function):
    """Equal parts of the columns, whose cotangents are joined at once."""

    @staticmethod
    def forward(ctx, gates, count):
        ctx.set_materialize_grads(False)
        return gates.chunk(count, 1)

    @staticmethod
    def backward(ctx, *cotangents):
        some = next(c for c in cotangents if c is not None)
        filled = [flambeau.zeros_like(some) if c is None else c for c in cotangents]
        return flambeau.cat(filled, 1), None


class _Join(Function):
    """The inverse of _Split."""

    @staticmethod
    def forward(ctx, *steps):
        ctx.sizes = [s.shape[0] for s in steps]
        data = steps[0].new_empty((sum(ctx.sizes), steps[0].shape[1]))
        for place, step in zip(data.split(ctx.sizes), steps):
            place.copy_(step)
        return data

    @staticmethod
    def backward(ctx, cotangent):
        return _Split.apply(cotangent, ctx.sizes)


class RNNBase(Module):
    """Layers of recurrent cells over a sequence, in one direction or both.

    Parameters of layer k (with suffix _reverse for the second direction): weight_ih_l[k]
    [gates * hidden_size, input], weight_hh_l[k] [gates * hidden_size, proj_size or hidden_size],
    bias_ih_l[k], bias_hh_l[k] [gates * hidden_size], and with proj_size weight_hr_l[k]. Initial
    values are uniform within 1 / sqrt(hidden_size).
    """

    gates = 1

    def __init__(
        self,
        mode,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        proj_size=0,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1]")
        if proj_size < 0 or proj_size >= hidden_size:
            raise ValueError("proj_size must be from 0 to below hidden_size")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        kind = {"device": device, "dtype": dtype}
        out = proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else out * (2 if bidirectional else 1)
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes = {
                    "weight_ih": (self.gates * hidden_size, width),
                    "weight_hh": (self.gates * hidden_size, out),
                }
                if bias:
                    shapes["bias_ih"] = shapes["bias_hh"] = (self.gates * hidden_size,)
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    full = f"{name}_l{layer}{suffix}"
                    self.register_parameter(full, Parameter(flambeau.empty(shape, **kind)))
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self):
        """Nothing: parameters are used where they lie."""

    @property
    def all_weights(self):
        """The parameters by layer and direction."""
        result = []
        for layer in range(self.num_layers):
            for suffix in ("", "_reverse") if self.bidirectional else ("",):
                names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
                found = (getattr(self, f"{n}_l{layer}{suffix}", None) for n in names)
                result.append([p for p in found if p is not None])
        return result

    def _zeros(self, x, count, width):
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return x.new_zeros((layers, count, width))

    def _check(self, x, packed):
        if not packed and x.dim() not in (2, 3):
            raise ValueError(
                f"{self.mode}: Expected input to be 2D or 3D, got {x.dim()}D tensor instead"
            )
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, "
                f"got {x.shape[-1]}"
            )

    def _check_state(self, state, name, count, width):
        expected = (self.num_layers * (2 if self.bidirectional else 1), count, width)
        if tuple(state.shape) != expected:
            raise RuntimeError(f"Expected {name} size {expected}, got {list(state.shape)}")

    def _step(self, gates, state, weight, bias, projection):
        """The next state, a tuple whose first element is h."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def _direction(self, data, sizes, state, suffix, backwards):
        """data [sum of sizes, width]: the steps in time; returns the same of results, the state."""
        weight = getattr(self, f"weight_hh{suffix}")
        bias = getattr(self, f"bias_hh{suffix}", None)
        projection = getattr(self, f"weight_hr{suffix}", None)
        own = getattr(self, f"bias_ih{suffix}", None)
        gates = _Split.apply(F.linear(data, getattr(self, f"weight_ih{suffix}"), own), sizes)
        results = [None] * len(sizes)
        order = range(len(sizes) - 1, -1, -1) if backwards else range(len(sizes))
        for t in order:
            n = sizes[t]
            whole = n == state[0].shape[0]
            now = state if whole else tuple(s[:n] for s in state)
            new = self._step(gates[t], now, weight, bias, projection)
            results[t] = new[0]
            # Sequences that have ended, or not begun, keep their state.
            state = new if whole else tuple(flambeau.cat([a, b[n:]]) for a, b in zip(new, state))
        return _Join.apply(*results), state

    def _run(self, data, sizes, states):
        """All layers; states: tuple of [layers * directions, n, width]."""
        finals = []
        for layer in range(self.num_layers):
            outputs = []
            for direction, suffix in enumerate(("", "_reverse")[: 1 + self.bidirectional]):
                index = layer * (1 + self.bidirectional) + direction
                state = tuple(s[index] for s in states)
                name = f"_l{layer}{suffix}"
                result, state = self._direction(data, sizes, state, name, direction == 1)
                outputs.append(result)
                finals.append(state)
            data = flambeau.cat(outputs, 1) if self.bidirectional else outputs[0]
            if self.dropout and self.training and layer + 1 < self.num_layers:
                data = F.dropout(data, self.dropout, True)
        return data, tuple(flambeau.stack(parts) for parts in zip(*finals))

    def _forward(self, input, states, widths):
        packed = isinstance(input, PackedSequence)
        x = input.data if packed else input
        self._check(x, packed)
        batched = packed or x.dim() == 3
        if packed:
            sizes = input.batch_sizes.tolist()
            count = sizes[0]
        else:
            if not batched:
                x = x.unsqueeze(1)
                states = None if states is None else tuple(s.unsqueeze(1) for s in states)
            elif self.batch_first:
                x = x.transpose(0, 1)
            count = x.shape[1]
            sizes = [count] * x.shape[0]
            if not sizes:
                raise RuntimeError(f"{self.mode}: Expected sequence length to be larger than 0")
        if states is None:
            states = tuple(self._zeros(x, count, width) for width in widths)
        else:
            for state, width, name in zip(states, widths, ("hidden[0]", "hidden[1]")):
                self._check_state(state, name, count, width)
            if packed and input.sorted_indices is not None:
                states = tuple(s.index_select(1, input.sorted_indices) for s in states)
        data, states = self._run(x.reshape(-1, x.shape[-1]), sizes, states)
        if packed:
            result = input._replace(data=data)
            if input.unsorted_indices is not None:
                states = tuple(s.index_select(1, input.unsorted_indices) for s in states)
            return result, states
        result = data.reshape(len(sizes), count, data.shape[1])
        if self.batch_first and batched:
            result = result.transpose(0, 1)
        if not batched:
            result, states = result.squeeze(1), tuple(s.squeeze(1) for s in states)
        return result, states

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0.0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """Elman network: h = tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh.

    Input [l, n, input_size], [n, l, input_size] with batch_first, [l, input_size], or a
    PackedSequence; returns the results of the last layer and the last h of each layer.
    """

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", **options):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        if options.pop("proj_size", 0):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(mode, input_size, hidden_size, num_layers, **options)
        self.nonlinearity = nonlinearity

    def _step(self, gates, state, weight, bias, projection):
        return (_C._rnn_step(gates, state[0], weight, bias, self.nonlinearity == "relu"),)

    def forward(self, input, hx=None):
        states = None if hx is None else (hx,)
        result, states = self._forward(input, states, (self.hidden_size,))
        return result, states[0]


class GRU(RNNBase):
    """Gated recurrent units. Source: Cho et al., 2014. Shapes: see RNN."""

    gates = 3

    def __init__(self, input_size, hidden_size, num_layers=1, *args, **options):
        if options.pop("proj_size", 0):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", input_size, hidden_size, num_layers, *args, **options)

    def _step(self, gates, state, weight, bias, projection):
        return (_C._gru_step(gates, state[0], weight, bias),)

    def forward(self, input, hx=None):
        states = None if hx is None else (hx,)
        result, states = self._forward(input, states, (self.hidden_size,))
        return result, states[0]


class LSTM(RNNBase):
    """Long short-term memory. Source: Hochreiter and Schmidhuber, 1997. Shapes: see RNN.

    Returns the results and (h, c). With proj_size, h is projected: Sak, Senior and Beaufays, 2014.
    """

    gates = 4

    def __init__(self, input_size, hidden_size, num_layers=1, *args, **options):
        super().__init__("LSTM", input_size, hidden_size, num_layers, *args, **options)

    def _step(self, gates, state, weight, bias, projection):
        gates = _C._recurrent_gates(gates, state[0], weight, bias)
        h, c = _C._lstm_cell(*_Parts.apply(gates, 4), state[1])
        return (h if projection is None else F.linear(h, projection), c)

    def forward(self, input, hx=None):
        widths = (self.proj_size or self.hidden_size, self.hidden_size)
        return self._forward(input, hx, widths)


class RNNCellBase(Module):
    """Parameters weight_ih, weight_hh, bias_ih, bias_hh of one cell."""

    def __init__(self, input_size, hidden_size, bias, gates, device=None, dtype=None):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        kind = {"device": device, "dtype": dtype}
        rows = gates * hidden_size
        self.weight_ih = Parameter(flambeau.empty((rows, input_size), **kind))
        self.weight_hh = Parameter(flambeau.empty((rows, hidden_size), **kind))
        for name in ("bias_ih", "bias_hh"):
            offset = Parameter(flambeau.empty(rows, **kind)) if bias else None
            self.register_parameter(name, offset)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _prepared(self, input, states, count):
        """The projected input, the states, and whether a batch dim was there."""
        if input.dim() not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.dim()}D instead"
            )
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if x.shape[1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {x.shape[1]}, expected {self.input_size}"
            )
        if states is None:
            states = tuple(x.new_zeros((x.shape[0], self.hidden_size)) for _ in range(count))
        elif not batched:
            states = tuple(s.unsqueeze(0) for s in states)
        return F.linear(x, self.weight_ih, self.bias_ih), states, batched

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """One step of an Elman network: input [n, input_size], hx [n, hidden_size] -> next h."""

    def __init__(
        self,
        input_size,
        hidden_size,
        bias=True,
        nonlinearity="tanh",
        device=None,
        dtype=None,
    ):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {nonlinearity}")
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        gates, (h,), batched = self._prepared(input, None if hx is None else (hx,), 1)
        h = _C._rnn_step(gates, h, self.weight_hh, self.bias_hh, self.nonlinearity == "relu")
        return h if batched else h.squeeze(0)


class LSTMCell(RNNCellBase):
    """One step of an LSTM: input [n, input_size], (h, c) [n, hidden_size] -> next (h, c)."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        gates, (h, c), batched = self._prepared(input, hx, 2)
        gates = _C._recurrent_gates(gates, h, self.weight_hh, self.bias_hh)
        h, c = _C._lstm_cell(*_Parts.apply(gates, 4), c)
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a GRU: input [n, input_size], hx [n, hidden_size] -> next h."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        gates, (h,), batched = self._prepared(input, None if hx is None else (hx,), 1)
        h = _C._gru_step(gates, h, self.weight_hh, self.bias_hh)
        return h if batched else h.squeeze(0)
