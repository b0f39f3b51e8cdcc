"""Masks of a sentence, combined by `&`: who may see whom, and what a uniform head weighs. A control; see `moving`.

The built page shows the same by `mask_builder.js`, which computes all of it.
"""

from dataclasses import dataclass

import ipywidgets as widgets
import torch
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lib import attention, checks, masks
from transformer_lib.visualisation.maps import attention_maps
from transformer_lib.visualisation.moving import follow

TOKENS = ("<start>", "a", "small", "dog", "runs", "through", "the", "snow")
PAD = "<pad>"
LENGTH = len(TOKENS)


@dataclass(frozen=True, kw_only=True)
class State:
    """What the figure shows: the tokens, the mask, and the weights of a head whose scores are all alike."""

    tokens: list[str]
    mask: Bool[Tensor, "query key"]
    weights: Float[Tensor, "query key"]


def state(
    causal: bool = True,
    prefix: int | None = None,
    window: int | None = None,
    padding: int = 2,
    left: bool = False,
) -> State:
    """Return what the figure shows at these settings, as the library computes it.

    Args:
        prefix: length of the prefix; None leaves this mask out.
        window: length of the window; None leaves this mask out.
        padding: how many tokens are padding.
        left: whether the padding comes first instead of last.

    Raises:
        ValueError: a length doesn't fit the sentence.
    """
    checks.not_negative(padding=padding)
    if padding > LENGTH:
        raise ValueError(f"padding must be at most {LENGTH}, got {padding}")
    words, fill = list(TOKENS[: LENGTH - padding]), [PAD] * padding
    tokens = fill + words if left else words + fill
    ids = torch.tensor([[int(token != PAD) for token in tokens]])
    mask = masks.padding_mask(ids)[0, 0].expand(LENGTH, LENGTH)
    if causal:
        mask = mask & masks.causal_mask(LENGTH)
    if prefix is not None:
        mask = mask & masks.prefix_mask(LENGTH, prefix)
    if window is not None:
        mask = mask & masks.sliding_window_mask(LENGTH, window)
    return State(tokens=tokens, mask=mask, weights=attention.masked_softmax(torch.zeros(LENGTH, LENGTH), mask))


def control() -> widgets.VBox:
    """Return knobs for each mask, above the weights that a uniform head gives."""
    causal = widgets.Checkbox(value=True, description="causal")
    left = widgets.Checkbox(value=False, description="padding first")
    prefix, window = (widgets.Checkbox(value=False, description=name) for name in ("prefix", "window"))
    prefix_length = widgets.IntSlider(value=3, min=0, max=LENGTH, description="prefix of")
    window_length = widgets.IntSlider(value=3, min=1, max=LENGTH, description="window of")
    padding = widgets.IntSlider(value=2, min=0, max=4, description="padding")

    def draw(causal: bool, left: bool, prefix: bool, prefix_length: int, window: bool, *rest: int) -> Figure:
        window_length, padding = rest
        chosen = state(causal, prefix_length if prefix else None, window_length if window else None, padding, left)
        return attention_maps({"weights of a uniform head": chosen.weights}, chosen.tokens, chosen.tokens)

    return follow([causal, left, prefix, prefix_length, window, window_length, padding], draw, width=480)
