"""Every head of the coreference model on two pairs of twins: a control, and the data of its twin (chapter 09).

The built page shows the same by `head_selector.js`, which finds the weights in `pronoun_heads_data.js`, written by
`write` from the chapter's own model. See `visualisation.heads`.
"""

from pathlib import Path

import ipywidgets as widgets
import torch
from torch import nn

from transformer_lib import coreference
from transformer_lib.experiments import pronoun_heads, pronouns
from transformer_lib.visualisation import heads
from transformer_lib.visualisation.moving import write_data

SHOWN = ({"animal", "street", "tired"}, {"hen", "cat", "slow", "caught"})  # words that only one held-out pair has
FIRST = {"sentence": 0, "layer": 1, "head": 3, "query": 7}  # the head that follows best, and the row of "it"


def twins() -> list[tuple[coreference.Coreference, coreference.Coreference]]:
    """Return the book's own pair, and one in which the object comes first; neither is trained on."""
    pairs = coreference.coreference_twins(pronouns.HELD_OUT, torch.Generator().manual_seed(0), held_out=True)
    return [next(pair for pair in pairs if words <= set(pair[0].words)) for words in SHOWN]


def maps(model: nn.Module) -> dict[str, tuple[heads.Maps, ...]]:
    """Return sentence -> all weights of the model on it, as the head selector wants them."""
    found = {}
    for pair in twins():
        layers = pronoun_heads.maps(model, pronouns.batch_of([pair])).values()
        for row, one in enumerate(pair):
            weights, words = torch.stack([weights[row] for weights in layers]), list(one.words)
            found[one.text] = (heads.Maps(kind="self-attention", queries=words, keys=words, weights=weights),)
    return found


def write(folder: Path, model: nn.Module) -> None:
    """Write the data that the built page's twin of the control reads."""
    data = heads.page_form("Every head of the coreference model", maps(model), FIRST)
    write_data(folder / "pronoun_heads_data.js", "pronounHeads", data, by=__name__)


def control(model: nn.Module) -> widgets.VBox:
    """Return knobs for sentence, layer and head, above the map that they choose."""
    return heads.selector(maps(model), FIRST)
