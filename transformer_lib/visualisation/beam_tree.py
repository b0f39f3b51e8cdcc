"""Beam search by the shipped translator, step by step: which extensions were best, which survive. See `moving`.

The built page shows the same by `beam_tree.js`, which repeats the search from the log-probabilities in
`beam_tree_data.js`, written by `write`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import ipywidgets as widgets
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lib import checks, decoding
from transformer_lib.decoding import Beams
from transformer_lib.translator import shipped
from transformer_lib.visualisation.heads import words
from transformer_lib.visualisation.moving import follow, write_data
from transformer_lib.visualisation.style import COLOURS, new_figure

SENTENCE = "Das Mädchen füttert die Enten am See."
BEAMS, ALPHA = (1, 2, 3, 4, 5), 1.0


@dataclass(frozen=True, kw_only=True)
class State:
    """The search after a step: targets without START, best first, each with its score.

    That is the log-probability in nats where it's `live`, and the same over the length penalty where it's `done`.

    Args:
        tokens: for each target that was live before the step, its likeliest next tokens: what the page starts from.
        log_probability: of those, in nats.
    """

    live: list[tuple[tuple[str, ...], float]]
    done: list[tuple[tuple[str, ...], float]]
    tokens: list[list[str]]
    log_probability: list[list[float]]


@lru_cache(maxsize=len(BEAMS))
def search(beam: int = 3) -> tuple[State, ...]:
    """Return the states after each step of `decoding.beam_search` with this beam, up to its last.

    Raises:
        TypeError: `beam` is not an integer.
        ValueError: it isn't between 1 and 5.
    """
    checks.positive(beam=beam)
    if beam not in BEAMS:
        raise ValueError(f"beam must be from {BEAMS[0]} to {BEAMS[-1]}, got {beam}")
    known, states = shipped(), []
    source = torch.tensor([known.tokeniser.encode(SENTENCE)])
    longest, beams = decoding.longest_target(known.model, source, None), Beams.start(source, beam)
    with torch.no_grad():
        memory, copies = known.model.encode(source).expand(beam, -1, -1), source.expand(beam, -1)
        for _ in range(longest):
            alive = int(beams.live_scores[0].isfinite().sum())
            found = decoding.log_probabilities(known.model, beams.live[0], memory, copies)
            beams.advance(found.unsqueeze(0), ALPHA)
            states.append(_state(beams, found[:alive].topk(beam)))
            if beams.settled(longest, ALPHA):
                break
    return tuple(states)


def _state(beams: Beams, best: tuple[Float[Tensor, "live k"], Int[Tensor, "live k"]]) -> State:
    values, ids = best
    return State(
        live=_texts(beams.live, beams.live_scores),
        done=_texts(beams.done, beams.done_scores),
        tokens=[words(shipped().tokeniser.tokens(row)) for row in ids.tolist()],
        log_probability=[[round(value, 4) for value in row] for row in values.tolist()],
    )


def _texts(targets: Tensor, scores: Tensor) -> list[tuple[tuple[str, ...], float]]:
    known, found = shipped().tokeniser, []
    for row, score in zip(targets[0].tolist(), scores[0].tolist(), strict=True):
        if score > -math.inf:
            found.append((tuple(words(known.tokens(decoding.words_of(row)))), score))
    return found


def state(beam: int = 3, step: int = 1) -> State:
    """Return the search with this beam after so many steps.

    Raises:
        TypeError: a number is not an integer.
        ValueError: there is no such beam or step.
    """
    checks.positive(step=step)
    if step > len(search(beam)):
        raise ValueError(f"step must be at most {len(search(beam))} with beam {beam}, got {step}")
    return search(beam)[step - 1]


def write(folder: Path) -> None:
    """Write the log-probabilities that the built page's twin of the control starts from."""
    steps = {beam: [[s.tokens, s.log_probability] for s in search(beam)] for beam in BEAMS}
    data = {"sentence": SENTENCE, "alpha": ALPHA, "beams": steps}
    write_data(folder / "beam_tree_data.js", "beamTreeData", data, by=__name__)


def figure(shown: State) -> Figure:
    """Write the live and the finished targets with their scores."""
    drawn = new_figure(7.4, 2.6)
    axes = drawn.subplots()
    axes.axis("off")
    lines = [("with", "going on", f"{score:.2f}", text) for text, score in shown.live]
    lines += [("output", "finished", f"{score:.2f}", text) for text, score in shown.done]
    for row, (role, fate, score, text) in enumerate(lines):
        axes.text(0, -row, f"{fate}  {score}  {' '.join(text)}", fontsize=9, color=COLOURS[role])
    axes.set(xlim=(0, 1), ylim=(-max(BEAMS) * 2, 1))
    return drawn


def control() -> widgets.VBox:
    """Return knobs for beam and step, above the targets that are live or finished."""
    beam = widgets.IntSlider(value=3, min=BEAMS[0], max=BEAMS[-1], description="beam")
    step = widgets.IntSlider(value=4, min=1, max=max(len(search(one)) for one in BEAMS), description="step")
    return follow([beam, step], lambda beam, step: figure(state(beam, min(step, len(search(beam))))))
