"""What more training changes, and what a larger model can't: chapter 11's models against their ceilings.

The sizes and the rest are those of `objectives`; the model of cut spans is trained twice as long, and the model of the
next word has ten times as many parameters.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from transformer_lib.experiments import closed_language, corruptions, objectives
from transformer_lib.experiments.closed_language import VERB, Ids
from transformer_lib.experiments.steps import count_parameters

LONGER = 2 * objectives.STEPS
LARGER = {"d_model": 112, "d_ff": 224}  # in place of 32 and 64


def best_restored(sources: Sequence[Ids]) -> float:
    """Return the share of sentences that one who knows the language restores just as they were, from what is left.

    By counting: of all sentences and spans that leave such a source, each weighted by its chance, the likeliest.

    Raises:
        ValueError: there are no sources, or no sentence of the language leaves one of them.
    """
    found: dict[tuple[int, ...], Counter[int]] = {tuple(source): Counter() for source in sources}
    for number, sentence in enumerate(closed_language.ids(closed_language.sentences())):
        for spans, chance in corruptions.possible_spans(len(sentence)).items():
            source = tuple(corruptions.cut_spans(sentence, spans)[0])
            if source in found:
                found[source][number] += chance
    if not found or not all(found.values()):
        raise ValueError("sources must be at least one, each cut out of a sentence of the language")
    likeliest = {source: max(counts.values()) / counts.total() for source, counts in found.items()}
    return sum(likeliest[tuple(source)] for source in sources) / len(sources)


def longer(seed: int) -> dict[str, Any]:
    """Return what the model of cut spans restores after twice as many steps, and the most that could be."""
    held_out = closed_language.split()[1]
    model = objectives.fresh("cut spans", seed=seed)
    objectives.train(model, "cut spans", seed=seed, steps=LONGER)
    cut, whole = objectives.restored(model, held_out, seed=seed)
    every = set(closed_language.sentences())
    return {
        "steps": LONGER,
        "of the language": round(sum(words in every for words in whole) / len(whole), 4),
        "as it was": round(sum(a == b for a, b in zip(whole, held_out, strict=True)) / len(whole), 4),
        "as it was, at best": round(best_restored(closed_language.ids(cut)), 4),
    }


def larger(seed: int) -> dict[str, Any]:
    """Return how often a larger model of the next word is right, at all words and at the verb of active sentences."""
    held_out = closed_language.split()[1]
    model = objectives.fresh("next word", seed=seed, **LARGER)
    objectives.train(model, "next word", seed=seed)
    return {
        "parameters": count_parameters(model),
        "accuracy": round(objectives.accuracy(model, held_out), 4),
        "verbs": round(objectives.accuracy(model, closed_language.active(held_out), VERB), 4),
    }


def record(seed: int) -> dict[str, Any]:
    """Return what a longer training and a larger model bring, in a dictionary for `tools.record`."""
    return {"longer": longer(seed), "larger": larger(seed)}
