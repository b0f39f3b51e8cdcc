"""The weights of every head of the shipped translator on sentences of our own. A control, and the data of its twin.

The built page shows the same by `head_selector.js`, which finds the weights in `translator_heads_data.js`, written by
`write`. Another model's figure takes the same script and data made by `page_form`. See `moving`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lib import checks, observe, translator
from transformer_lib.data import START
from transformer_lib.visualisation.maps import attention_maps
from transformer_lib.visualisation.moving import follow, write_data

SENTENCES = (
    "Ein kleiner Hund rennt durch den Schnee.",
    "Zwei Kinder spielen am Strand mit einem roten Ball.",
    "Das Mädchen füttert die Enten am See.",
)
KINDS = {
    "encoder self-attention": "encoder.layers.{}.self_attention",
    "decoder self-attention": "decoder.layers.{}.self_attention",
    "cross-attention": "decoder.layers.{}.cross_attention",
}
FIRST = {"kind": 2, "layer": 3, "head": 0, "query": 2}  # what the translator's figure shows at the start


@dataclass(frozen=True, kw_only=True)
class Maps:
    """The weights of all heads of one kind on one sentence, with the tokens that ask and those that are asked.

    Args:
        following: in a decoder, for each query the token that comes after it, which is what it has to predict.
    """

    kind: str
    queries: list[str]
    keys: list[str]
    weights: Float[Tensor, "layer heads query key"]
    following: list[str] | None = None


@lru_cache(maxsize=len(SENTENCES))
def maps(sentence: int = 0) -> tuple[Maps, ...]:
    """Return the translator's weights on a sentence and its own translation of it, one map of each kind.

    Raises:
        ValueError: there is no such sentence.
    """
    if sentence not in range(len(SENTENCES)):
        raise ValueError(f"sentence must be below {len(SENTENCES)}, got {sentence}")
    known = translator.shipped()
    source = known.tokeniser.encode(SENTENCES[sentence])
    target = [START, *known.tokeniser.encode(known.translate([SENTENCES[sentence]])[0])]
    with torch.no_grad(), observe.record_attention(known.model) as found:
        known.model(torch.tensor([source]), torch.tensor([target]))
    tokens = {"source": words(known.tokeniser.tokens(source)), "target": words(known.tokeniser.tokens(target))}
    sides = {"encoder self-attention": ("source", "source"), "cross-attention": ("target", "source")}
    made = []
    for kind, name in KINDS.items():
        queries, keys = (tokens[side] for side in sides.get(kind, ("target", "target")))
        stacked = torch.cat([found[name.format(layer)][0] for layer in range(known.model.config.layers)])
        following = None if kind.startswith("encoder") else [*queries[1:], "<end>"]
        made.append(Maps(kind=kind, queries=queries, keys=keys, weights=stacked, following=following))
    return tuple(made)


def words(pieces: Sequence[str]) -> list[str]:
    """Return pieces as a figure shows them: a word's start bare, a piece inside a word with a hyphen before it."""
    inside = [not piece.startswith(("▁", "<")) and piece.isalnum() for piece in pieces]
    return [f"-{piece}" if inner else piece.lstrip("▁") for piece, inner in zip(pieces, inside, strict=True)]


def state(
    sentence: int = 0, kind: str = "cross-attention", layer: int = 0, head: int = 0
) -> Float[Tensor, "query key"]:
    """Return one head's weights, as the library computes them.

    Raises:
        TypeError: `layer` or `head` is not an integer.
        ValueError: there is no such sentence, kind, layer or head.
    """
    checks.one_of(tuple(KINDS), kind=kind)
    checks.not_negative(layer=layer, head=head)
    weights = next(found.weights for found in maps(sentence) if found.kind == kind)
    if layer >= weights.size(0) or head >= weights.size(1):
        raise ValueError(f"layer, head must be below {tuple(weights.shape[:2])}, got {layer}, {head}")
    return weights[layer, head]


def page_form(title: str, sentences: Mapping[str, Sequence[Maps]], first: Mapping[str, int]) -> dict[str, Any]:
    """Return what `head_selector.js` reads: each sentence's maps, with weights in thousandths.

    Args:
        title: of the figure.
        sentences: text -> the maps of each kind.
        first: what is chosen at the start: any of sentence, kind, layer, head, query, counted from 0.
    """
    listed = [{"title": text, "maps": [_map(one) for one in found]} for text, found in sentences.items()]
    return {"title": title, "first": first, "sentences": listed}


def _map(one: Maps) -> dict[str, Any]:
    thousandths = (one.weights * 1000).round().int().tolist()
    named = {"kind": one.kind, "queries": one.queries, "keys": one.keys, "following": one.following}
    return {**named, "weights": thousandths}


def write(folder: Path) -> None:
    """Write the data that the built page's twin of the control reads."""
    sentences = {text: maps(number) for number, text in enumerate(SENTENCES)}
    data = page_form("Every head of the shipped translator", sentences, FIRST)
    write_data(folder / "translator_heads_data.js", "translatorHeads", data, by=__name__)


def control() -> widgets.VBox:
    """Return knobs for sentence, layer, head and kind of the shipped translator, above the map that they choose."""
    return selector({text: maps(number) for number, text in enumerate(SENTENCES)}, FIRST)


def selector(sentences: Mapping[str, Sequence[Maps]], first: Mapping[str, int]) -> widgets.VBox:
    """Return knobs for a model's sentence, layer, head and, where there are several, kind, above the map.

    Args:
        sentences: text -> the maps of each kind.
        first: as for `page_form`.
    """
    shown, at = list(sentences.values()), {"sentence": 0, "kind": 0, "layer": 0, "head": 0, **first}
    kinds = [one.kind for one in shown[0]]
    layers, heads = shown[0][0].weights.shape[:2]
    knobs: list[widgets.Widget] = [
        widgets.Dropdown(options=[(text, i) for i, text in enumerate(sentences)], description="sentence"),
        widgets.IntSlider(value=at["layer"] + 1, min=1, max=layers, description="layer"),
        widgets.IntSlider(value=at["head"] + 1, min=1, max=heads, description="head"),
    ]
    knobs[0].value = at["sentence"]
    if len(kinds) > 1:
        knobs.append(widgets.Dropdown(options=kinds, value=kinds[at["kind"]], description="attention"))

    def draw(sentence: int, layer: int, head: int, kind: str = kinds[0]) -> Figure:
        found = next(found for found in shown[sentence] if found.kind == kind)
        chosen = {f"{kind}, layer {layer}, head {head}": found.weights[layer - 1, head - 1]}
        return attention_maps(chosen, found.queries, found.keys)

    return follow(knobs, draw, width=560)
