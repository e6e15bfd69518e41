"""Attention with many heads and the layers of transformers.

Source: Vaswani et al., "Attention is all you need", 2017.
"""

import copy

import flambeau
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.container import ModuleList
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.regularization import Dropout, LayerNorm
from flambeau.nn.parameter import Parameter


class MultiheadAttention(Module):
    """Attention of num_heads heads of embed_dim / num_heads each.

    query [l, n, embed_dim], key [s, n, kdim], value [s, n, vdim], or with n first (batch_first), or
    without n. Returns the result, of query's sizes, and the weights: [n, l, s], averaged over
    heads, or [n, heads, l, s]. key_padding_mask [n, s] and attn_mask [l, s] or [n * heads, l, s]:
    true, or what is added, hides a key.
    """

    def __init__(
        self,
        embed_dim,
        num_heads,
        dropout=0.0,
        bias=True,
        add_bias_kv=False,
        add_zero_attn=False,
        kdim=None,
        vdim=None,
        batch_first=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        kind = {"device": device, "dtype": dtype}
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        shapes = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if self._qkv_same_embed_dim else None,
            "q_proj_weight": None if self._qkv_same_embed_dim else (embed_dim, embed_dim),
            "k_proj_weight": None if self._qkv_same_embed_dim else (embed_dim, self.kdim),
            "v_proj_weight": None if self._qkv_same_embed_dim else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            value = None if shape is None else Parameter(flambeau.empty(shape, **kind))
            self.register_parameter(name, value)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, **kind)
        self._reset_parameters()

    def _reset_parameters(self):
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                init.xavier_normal_(getattr(self, name))

    def _projected(self, query, key, value):
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]

    def _mask(self, key_padding_mask, attn_mask, is_causal, n, queries, keys, dtype):
        """What is added to the scores [n, heads, l, s], or None."""

        def added(mask):
            if mask.dtype == flambeau.bool:
                return flambeau.zeros(mask.shape, dtype=dtype).masked_fill(mask, float("-inf"))
            return mask.to(dtype)

        total = None
        if attn_mask is None and is_causal:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        if attn_mask is not None:
            if attn_mask.dim() == 2:
                expected = (queries, keys)
            else:
                expected = (n * self.num_heads, queries, keys)
            if tuple(attn_mask.shape) != expected:
                raise RuntimeError(
                    f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but "
                    f"should be {expected}."
                )
            total = added(attn_mask)
            if attn_mask.dim() == 3:
                total = total.view(n, self.num_heads, queries, keys)
        if key_padding_mask is not None:
            if tuple(key_padding_mask.shape) != (n, keys):
                raise RuntimeError(
                    f"expecting key_padding_mask shape of {(n, keys)}, but got "
                    f"{tuple(key_padding_mask.shape)}"
                )
            hidden = added(key_padding_mask).view(n, 1, 1, keys)
            total = hidden if total is None else total + hidden
        return total

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        batched = query.dim() == 3
        if query.dim() not in (2, 3) or key.dim() != query.dim() or value.dim() != query.dim():
            raise AssertionError(
                f"query, key and value should all be 2-D or 3-D, got {query.dim()}-D, "
                f"{key.dim()}-D and {value.dim()}-D"
            )
        if not batched:
            query, key, value = (t.unsqueeze(0) for t in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        n, queries, keys = query.shape[0], query.shape[1], key.shape[1]
        if query.shape[2] != self.embed_dim:
            raise AssertionError(
                f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[2]}"
            )
        mask = self._mask(key_padding_mask, attn_mask, is_causal, n, queries, keys, query.dtype)
        q, k, v = self._projected(query, key, value)
        more = 0
        if self.bias_k is not None:
            k = flambeau.cat([k, self.bias_k.expand(n, 1, self.embed_dim)], 1)
            v = flambeau.cat([v, self.bias_v.expand(n, 1, self.embed_dim)], 1)
            more += 1
        if self.add_zero_attn:
            k = flambeau.cat([k, k.new_zeros((n, 1, self.embed_dim))], 1)
            v = flambeau.cat([v, v.new_zeros((n, 1, self.embed_dim))], 1)
            more += 1
        if more and mask is not None:
            mask = F.pad(mask, (0, more))
        heads = [t.reshape(n, -1, self.num_heads, self.head_dim).transpose(1, 2) for t in (q, k, v)]
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = heads[0] @ heads[1].transpose(-2, -1) / self.head_dim**0.5
            if mask is not None:
                scores = scores + mask
            weights = flambeau.softmax(scores, -1)
            if dropout:
                weights = F.dropout(weights, dropout)
            result = weights @ heads[2]
        else:
            result = F.scaled_dot_product_attention(*heads, attn_mask=mask, dropout_p=dropout)
        result = self.out_proj(result.transpose(1, 2).reshape(n, queries, self.embed_dim))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            result = result.squeeze(0)
            weights = None if weights is None else weights.squeeze(0)
        elif not self.batch_first:
            result = result.transpose(0, 1)
        return result, weights


def _activation(activation):
    if callable(activation):
        return activation
    if activation in ("relu", "gelu"):
        return getattr(F, activation)
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _layers(module, count):
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class _TransformerLayer(Module):
    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        options = {"dropout": dropout, "bias": bias, "batch_first": batch_first, **kind}
        self.self_attn = MultiheadAttention(d_model, nhead, **options)
        if self.crosses:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **options)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **kind)
        self.norm_first = norm_first
        for i in range(1, 4 if self.crosses else 3):
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kind))
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def _attend(self, attention, x, memory, mask, padding_mask, is_causal):
        return attention(
            x,
            memory,
            memory,
            attn_mask=mask,
            key_padding_mask=padding_mask,
            need_weights=False,
            is_causal=is_causal and mask is not None,
        )[0]

    def _feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _blocks(self, x, blocks):
        """x + dropout(block(x)) one after the other, normalized before or after each."""
        for i, block in enumerate(blocks, 1):
            norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
            if self.norm_first:
                x = x + dropout(block(norm(x)))
            else:
                x = norm(x + dropout(block(x)))
        return x


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward network, each with a residual and a norm."""

    crosses = False

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        return self._blocks(
            src,
            [
                lambda x: self._attend(
                    self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal
                ),
                self._feed_forward,
            ],
        )


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to `memory` and a feed-forward network."""

    crosses = True

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        return self._blocks(
            tgt,
            [
                lambda x: self._attend(
                    self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal
                ),
                lambda x: self._attend(
                    self.multihead_attn,
                    x,
                    memory,
                    memory_mask,
                    memory_key_padding_mask,
                    memory_is_causal,
                ),
                self._feed_forward,
            ],
        )


class TransformerEncoder(Module):
    """num_layers copies of an encoder layer one after the other, then `norm`."""

    def __init__(
        self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True
    ):
        super().__init__()
        self.layers = _layers(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(
                src,
                src_mask=mask,
                src_key_padding_mask=src_key_padding_mask,
                is_causal=bool(is_causal),
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """num_layers copies of a decoder layer one after the other, then `norm`."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _layers(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)
