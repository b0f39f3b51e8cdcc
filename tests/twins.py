"""Modules of `torch.nn` that carry the weights of ours, to compare the two forward and backward."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from transformer_lib import encoder_decoder, multi_head


def randomise(module: nn.Module) -> None:
    """Move every parameter away from its start: biases of 0 and norms of 1 would hide a forgotten one."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))


def copy(theirs: nn.Module, **parts: Tensor | None) -> None:
    """Copy tensors into a module's parameters, by name; None is left out."""
    for name, part in parts.items():
        if part is not None:
            getattr(theirs, name).data.copy_(part)


def _like(ours: nn.Linear | nn.LayerNorm, theirs: nn.Module) -> None:
    copy(theirs, weight=ours.weight, bias=ours.bias)


def copy_attention(ours: multi_head.MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """Copy our weights into torch's attention; biases that ours hasn't are set to zero there."""
    theirs.to(ours.query.weight.dtype)
    projections = [ours.query, ours.key, ours.value]
    copy(theirs, in_proj_weight=torch.cat([linear.weight for linear in projections]))
    _like(ours.output, theirs.out_proj)
    if theirs.in_proj_bias is not None:
        nn.init.zeros_(theirs.in_proj_bias)
        if ours.query.bias is None:
            nn.init.zeros_(theirs.out_proj.bias)
        else:
            copy(theirs, in_proj_bias=torch.cat([linear.bias for linear in projections]))


def copy_layer(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy the weights of one of our encoder or decoder layers into torch's."""
    theirs.to(ours.feed_forward.inner.weight.dtype)
    copy_attention(ours.self_attention, theirs.self_attn)
    if hasattr(ours, "cross_attention"):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
    _like(ours.feed_forward.inner, theirs.linear1)
    _like(ours.feed_forward.outer, theirs.linear2)
    for number, residual in enumerate(ours.residuals, start=1):
        _like(residual.norm, getattr(theirs, f"norm{number}"))


def copy_stack(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy a whole encoder or decoder, the last norm included."""
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        copy_layer(mine, other)
    if isinstance(ours.norm, nn.LayerNorm):
        _like(ours.norm, theirs.norm.to(ours.norm.weight.dtype))
    else:
        assert theirs.norm is None


def attention(ours: multi_head.MultiHeadAttention) -> nn.MultiheadAttention:
    """Return torch's attention with our weights."""
    has_bias = ours.query.bias is not None
    theirs = nn.MultiheadAttention(ours.query.in_features, ours.heads, bias=has_bias, batch_first=True)
    copy_attention(ours, theirs)
    return theirs


def layer(ours: encoder_decoder.EncoderLayer | encoder_decoder.DecoderLayer) -> nn.Module:
    """Return torch's encoder or decoder layer with our weights, dropout 0."""
    kinds = {
        encoder_decoder.EncoderLayer: nn.TransformerEncoderLayer,
        encoder_decoder.DecoderLayer: nn.TransformerDecoderLayer,
    }
    theirs = kinds[type(ours)](
        ours.feed_forward.inner.in_features,
        ours.self_attention.heads,
        ours.feed_forward.inner.out_features,
        dropout=0.0,
        batch_first=True,
        norm_first=ours.residuals[0].norm_first,
    )
    copy_layer(ours, theirs)
    return theirs


def stack(ours: encoder_decoder.Encoder | encoder_decoder.Decoder) -> nn.Module:
    """Return torch's encoder or decoder with our weights, dropout 0."""
    norm = nn.LayerNorm(ours.norm.normalized_shape) if isinstance(ours.norm, nn.LayerNorm) else None
    first = layer(ours.layers[0])
    if isinstance(ours, encoder_decoder.Encoder):
        theirs = nn.TransformerEncoder(first, len(ours.layers), norm, enable_nested_tensor=False)
    else:
        theirs = nn.TransformerDecoder(first, len(ours.layers), norm)
    copy_stack(ours, theirs)
    return theirs


def gradients(output: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of a sum in which each element of the output has a weight of its own."""
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).cos().reshape(output.shape)
    return list(torch.autograd.grad((output * weights).sum(), inputs))
