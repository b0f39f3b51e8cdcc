"""The parts of the model in the order in which data pass them, each with the shape of what leaves it. See `moving`.

The built page shows the same by `data_flow.js`. Here the shapes are those of a real model with one layer.
"""

from dataclasses import dataclass, replace

import ipywidgets as widgets
import torch
from matplotlib.figure import Figure
from torch import nn

from transformer_lib import checks, multi_head, observe
from transformer_lib.config import TransformerConfig
from transformer_lib.model import Transformer
from transformer_lib.visualisation.moving import follow
from transformer_lib.visualisation.style import COLOURS, new_figure

ENCODER, DECODER = "encoder.layers.0", "decoder.layers.0"
# side, what leaves the part, where it's found: a module, "heads of" one's output, or "weights of" an attention
PARTS = [
    ("encoder", "source tokens", "source"),
    ("encoder", "embedding + positions", "embedding 0"),
    ("encoder", "self-attention: Q, K, V", f"heads of {ENCODER}.self_attention.query"),
    ("encoder", "self-attention: weights", f"weights of {ENCODER}.self_attention"),
    ("encoder", "self-attention: output", f"{ENCODER}.self_attention"),
    ("encoder", "feed-forward: inner", f"{ENCODER}.feed_forward.inner"),
    ("encoder", "feed-forward: output", f"{ENCODER}.feed_forward"),
    ("encoder", "memory", "encoder"),
    ("decoder", "target tokens", "target"),
    ("decoder", "embedding + positions", "embedding 1"),
    ("decoder", "self-attention: Q, K, V", f"heads of {DECODER}.self_attention.query"),
    ("decoder", "self-attention: weights", f"weights of {DECODER}.self_attention"),
    ("decoder", "self-attention: output", f"{DECODER}.self_attention"),
    ("decoder", "cross-attention: Q", f"heads of {DECODER}.cross_attention.query"),
    ("decoder", "cross-attention: K, V", f"heads of {DECODER}.cross_attention.key"),
    ("decoder", "cross-attention: weights", f"weights of {DECODER}.cross_attention"),
    ("decoder", "cross-attention: output", f"{DECODER}.cross_attention"),
    ("decoder", "feed-forward: inner", f"{DECODER}.feed_forward.inner"),
    ("decoder", "feed-forward: output", f"{DECODER}.feed_forward"),
    ("decoder", "logits", "logits"),
]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the user chooses: sentences in the batch, their lengths in tokens, and the model's sizes.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is below 1, or `heads` doesn't divide `d_model`.
    """

    batch: int = 2
    source: int = 7
    target: int = 5
    d_model: int = 64
    heads: int = 4
    vocabulary: int = 1000

    def __post_init__(self) -> None:
        checks.positive(**vars(self))
        checks.heads_divide(self.d_model, self.heads)

    @property
    def d_ff(self) -> int:
        """The inner width, four times the model's as in the paper."""
        return 4 * self.d_model


def state(sizes: Sizes) -> list[tuple[int, ...]]:
    """Return the shape of what leaves each of `PARTS`, seen in a model of these sizes at work."""
    config = TransformerConfig(
        vocabulary=sizes.vocabulary, d_model=sizes.d_model, heads=sizes.heads, d_ff=sizes.d_ff, layers=1
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():  # the caller's random state stays as it is
        model = Transformer(config).eval()
    source, target = (
        torch.full((sizes.batch, length), sizes.vocabulary - 1) for length in (sizes.source, sizes.target)
    )
    seen = {"source": [source], "target": [target]}
    hooks = [module.register_forward_hook(_keep(seen, name)) for name, module in model.named_modules()]
    with torch.no_grad(), observe.record_attention(model) as weights:
        seen["logits"] = [model(source, target)]
    for hook in hooks:
        hook.remove()
    found = []
    for _, _, where in PARTS:
        name = where.split()[-1]
        if where.startswith("weights of"):
            found.append(weights[name][0])
        elif where.startswith("heads of"):
            found.append(multi_head.split_heads(seen[name][0], sizes.heads))
        else:
            found.append(seen[where.split()[0]][int(where.endswith(" 1"))])
    return [tuple(one.shape) for one in found]


def _keep(seen: dict[str, list[torch.Tensor]], name: str):
    def hook(module: nn.Module, arguments: object, output: torch.Tensor) -> None:
        seen.setdefault(name, []).append(output)

    return hook


def figure(shapes: list[tuple[int, ...]], step: int) -> Figure:
    """Draw the encoder's parts beside the decoder's, with their shapes; the part of this step stands out."""
    drawn = new_figure(7.4, 4.4)
    axes = drawn.subplots()
    axes.axis("off")
    rows = {"encoder": 0, "decoder": 0}
    for number, ((side, name, _), shape) in enumerate(zip(PARTS, shapes, strict=True)):
        left, height = (0.0 if side == "encoder" else 0.52), -rows[side]
        rows[side] += 1
        colour = COLOURS["key"] if number == step else "#333333" if number < step else "#9aa0a6"
        text = f"{name}  →  {' × '.join(map(str, shape))}"
        axes.text(left, height, text, fontsize=8.5, color=colour, weight="bold" if number == step else "normal")
    axes.set(xlim=(0, 1), ylim=(-max(rows.values()), 1))
    return drawn


def control() -> widgets.VBox:
    """Return knobs for the step and the sizes, above the parts with their shapes."""
    first = Sizes()
    step = widgets.IntSlider(value=3, min=0, max=len(PARTS) - 1, description="step")
    lengths = [
        widgets.IntSlider(value=getattr(first, name), min=1, max=12, description=name)
        for name in ("batch", "source", "target")
    ]
    d_model = widgets.Dropdown(options=(64, 128, 256, 512), value=first.d_model, description="d_model")
    heads = widgets.Dropdown(options=(1, 2, 4, 8), value=first.heads, description="heads")

    def draw(step: int, batch: int, source: int, target: int, *model: int) -> Figure:
        lengths = {"batch": batch, "source": source, "target": target}
        return figure(state(replace(first, **lengths, d_model=model[0], heads=model[1])), step)

    return follow([step, *lengths, d_model, heads], draw)
