"""Recurrent networks, attention and transformer layers: sums recorded from PyTorch 2.14.1."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def filled(module):
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + i).reshape(p.shape) * 0.3)
    return module.eval()


def sums(*tensors):
    return [float(t.detach().abs().sum()) for t in tensors]


def sequence():
    return torch.cos(torch.arange(60, dtype=torch.float32)).reshape(5, 3, 4)


RECURRENT = [
    (
        nn.LSTM,
        {},
        [12.97644, 2.96982, 7.33558, 6.51496, 31.35153, 20.89216, 25.37862],
        [8.01429, 2.54175, 6.30488],
    ),
    (
        nn.LSTM,
        {"num_layers": 2, "bidirectional": True},
        [26.41407, 13.35337, 28.72037, 9.25028, 28.34048, 20.45677, 24.42247],
        [15.88496, 11.62422, 24.64764],
    ),
    (
        nn.LSTM,
        {"proj_size": 2},
        [4.62160, 1.08222, 6.63053, 4.75323, 18.93421, 5.67222, 18.25904],
        [2.85454, 0.91632, 6.14606],
    ),
    (
        nn.GRU,
        {"num_layers": 2, "batch_first": True},
        [17.23588, 13.52283, 3.57009, 28.06530, 11.22238, 23.49924],
        [12.28752, 9.84995],
    ),
    (
        nn.RNN,
        {"nonlinearity": "relu", "bias": False},
        [17.56293, 3.61596, 27.71846, 95.67993, 47.65160],
        [10.91268, 2.61317],
    ),
    (
        nn.GRU,
        {"bidirectional": True},
        [48.46073, 11.81157, 24.59642, 50.92942, 19.12620, 28.97775],
        [30.61755, 11.13341],
    ),
]


@pytest.mark.parametrize("cls, options, expected, packed", RECURRENT)
def test_recurrent_networks(cls, options, expected, packed):
    module = filled(cls(4, 6, **options))
    x = sequence().requires_grad_()
    y, h = module(x)
    states = h if isinstance(h, tuple) else (h,)
    (y.square().sum() + sum(s.sum() for s in states)).backward()
    got = sums(y, *states, x.grad, *[p.grad for p in list(module.parameters())[:3]])
    assert got == pytest.approx(expected, rel=1e-5)

    first = options.get("batch_first", False)
    x = sequence().transpose(0, 1) if first else sequence()
    short = pack_padded_sequence(x, [3, 5, 2], batch_first=first, enforce_sorted=False)
    y, h = module(short)
    padded, lengths = pad_packed_sequence(y, batch_first=first)
    assert lengths.tolist() == [3, 5, 2]
    got = sums(pad_packed_sequence(y)[0], *(h if isinstance(h, tuple) else (h,)))
    assert got == pytest.approx(packed, rel=1e-5)


@pytest.mark.parametrize(
    "cls, expected",
    [(nn.LSTMCell, [1.59790, 3.29731]), (nn.GRUCell, [3.03332]), (nn.RNNCell, [6.95378])],
)
def test_cells(cls, expected):
    out = filled(cls(4, 6))(sequence()[0])
    assert sums(*(out if isinstance(out, tuple) else (out,))) == pytest.approx(expected, rel=1e-5)


def test_a_cell_is_a_step_of_the_network():
    network = filled(nn.LSTM(4, 6))
    cell = nn.LSTMCell(4, 6)
    cell.load_state_dict({k[: -len("_l0")]: v for k, v in network.state_dict().items()})
    x, state = sequence(), None
    for step in x:
        state = cell(step, state)
    assert (network(x)[0][-1] == state[0]).all()


def test_multihead_attention():
    x = sequence()
    y, w = filled(nn.MultiheadAttention(4, 2))(x, x, x)
    assert sums(y, w) == pytest.approx([13.08946, 15.0], rel=1e-5)
    module = filled(
        nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True, kdim=4)
    )
    hidden = torch.tensor([[False, False, True]] * 5)
    y, w = module(x, x, x, key_padding_mask=hidden)
    assert sums(y, w) == pytest.approx([11.11197, 15.0], rel=1e-5)
    causal = torch.ones(3, 3).triu(1).bool()
    y, _ = module(x, x, x, attn_mask=causal, need_weights=False)
    assert sums(y) == pytest.approx([11.08269], rel=1e-5)


@pytest.mark.parametrize(
    "norm_first, encoded, decoded", [(False, 18.78384, 15.30503), (True, 45.67676, 12.97602)]
)
def test_transformer_layers(norm_first, encoded, decoded):
    x = sequence()
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, norm_first=norm_first, activation="gelu")
    assert sums(filled(nn.TransformerEncoder(layer, 2))(x)) == pytest.approx([encoded], rel=1e-5)
    layer = nn.TransformerDecoderLayer(4, 2, 8, 0.0, norm_first=norm_first, batch_first=True)
    module = filled(nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(4)))
    causal = torch.ones(3, 3).triu(1).bool()
    assert sums(module(x, x, tgt_mask=causal)) == pytest.approx([decoded], rel=1e-5)


def test_attention_of_a_row_does_not_depend_on_its_batch():
    q, k = torch.randn(4, 2, 7, 8), torch.randn(4, 2, 9, 8)
    whole = nn.functional.scaled_dot_product_attention(q, k, k)
    alone = nn.functional.scaled_dot_product_attention(q[1:2], k[1:2], k[1:2])
    assert (whole[1:2] == alone).all()


def test_bad_input():
    with pytest.raises(RuntimeError, match="at least 3 dims"):
        q, k = torch.ones(9, 4, 3), torch.ones(4, 3)
        nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    with pytest.raises(RuntimeError, match="input_size"):
        nn.LSTM(4, 6)(torch.zeros(5, 3, 5))
    with pytest.raises(RuntimeError, match="hidden"):
        nn.GRU(4, 6)(torch.zeros(5, 3, 4), torch.zeros(1, 2, 6))
    with pytest.raises(ValueError):
        nn.RNN(4, 6, nonlinearity="sin")
    with pytest.raises(RuntimeError, match="sorted"):
        pack_padded_sequence(torch.zeros(5, 2, 1), [1, 2])
    with pytest.raises(AssertionError):
        nn.MultiheadAttention(5, 2)
