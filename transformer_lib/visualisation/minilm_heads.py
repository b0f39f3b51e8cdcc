"""Every head of the published MiniLM on two sentences that differ in one word. A control, and the data of its twin.

The built page shows the same by `head_selector.js`, from `minilm_heads_data.js`, which `write` makes. See `moving`.
"""

from functools import lru_cache
from pathlib import Path

import ipywidgets as widgets
import torch

from transformer_lib import observe, published
from transformer_lib.visualisation.heads import Maps, page_form, selector
from transformer_lib.visualisation.moving import write_data

SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
)
KIND = "self-attention"
FIRST = {"kind": 0, "layer": 0, "head": 2, "query": 10}


@lru_cache(maxsize=1)
def opened() -> published.Published:
    """Return the model, loaded once."""
    return published.load_minilm()


@lru_cache(maxsize=len(SENTENCES))
def maps(sentence: int = 0) -> Maps:
    """Return the weights of all heads on a sentence.

    Raises:
        ValueError: there is no such sentence.
        ModuleNotFoundError: the package with the weights is missing.
    """
    if sentence not in range(len(SENTENCES)):
        raise ValueError(f"sentence must be below {len(SENTENCES)}, got {sentence}")
    model, text = opened(), SENTENCES[sentence]
    with torch.no_grad(), observe.record_attention(model.encoder) as found:
        model.encoder(model.tokens([text]))
    pieces = model.pieces(text)
    return Maps(kind=KIND, queries=pieces, keys=pieces, weights=torch.cat([calls[0] for calls in found.values()]))


def _sentences() -> dict[str, list[Maps]]:
    return {text: [maps(number)] for number, text in enumerate(SENTENCES)}


def write(folder: Path) -> None:
    """Write the data that the built page's twin of the control reads."""
    data = page_form("Every head of all-MiniLM-L6-v2", _sentences(), FIRST)
    write_data(folder / "minilm_heads_data.js", "minilmHeads", data, by=__name__)


def control() -> widgets.VBox:
    """Return knobs for sentence, layer and head, above the map that they choose."""
    return selector(_sentences(), FIRST)
