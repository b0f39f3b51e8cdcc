"""What chapter 11's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.exercises.authoring import draw, guarded, pick, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Probe, Question


def _real(lengths: list[int], longest: int) -> Tensor:
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


# 11.1 words masked as for BERT

NOTHING = -100


def masked_cases(seed: int) -> list[Case]:
    """Return batches with their draws; specials come first in the vocabulary, and 0 may be a word."""
    g = torch.Generator().manual_seed(seed)

    def case(name: str, shape: list[int], share: float, blank: int, specials: int = 4) -> Case:
        tokens = torch.randint(specials, 30, shape, generator=g)
        if specials:
            tokens[:, 0], tokens[-1, -1] = 1, 0
        tokens[0, 1] = specials  # the first id that may be chosen
        which, how = (torch.rand(shape, generator=g).mul(1000).round() / 1000 + 0.0003 for _ in range(2))
        which[0, 1:4] = torch.tensor([0.0203, 0.0403, 0.0603])[: shape[1] - 1]
        how[0, 1:4] = torch.tensor([0.0703, 0.8453, 0.9403])[: shape[1] - 1]
        which[:, 0] = 0.0103
        which[-1, -2], how[-1, -2] = (share if share == 0.5 else 0.0103), 0.8  # ends that don't count; 0.5 is exact
        if shape[0] > 1 and share == 0.5:
            tokens[0, -1] = specials
            which[0, -1], how[0, -1] = 0.0203, 0.8
        inputs = {"tokens": tokens, "which": which, "how": how}
        inputs |= {"instead": torch.randint(specials, 30, shape, generator=g), "share": share, "blank": blank}
        return Case(name, inputs | {"specials": specials})

    batch, length = sizes(g, 2, 3, 9)
    return [
        case("small", [1, 5], 0.15, 3),
        case("batch", [3, 8], 0.3, 3),
        case("sizes from the seed", [batch, length + 2], 0.5, 3),
        case("no specials but the blank", [2, 9], 0.4, 30, 0),
        case("six specials", [4, 7], 0.6, 5, 6),
        case("square", [6, 6], 0.5, 2),
    ]


def _masked(
    change: Callable[..., Tensor] | None = None,
    label: Callable[..., Tensor] | None = None,
    choose: Callable[..., Tensor] | None = None,
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return a corruption of which a part is another.

    Args:
        change: from tokens, chosen, how, instead and blank to the inputs.
        label: from tokens, chosen, how and the inputs to the labels.
        choose: from tokens, which, share and specials to what is chosen.
    """

    def answer(
        tokens: Tensor, which: Tensor, how: Tensor, instead: Tensor, share: float, blank: int, specials: int
    ) -> tuple[Tensor, Tensor]:
        chosen = (which < share) & (tokens >= specials) if choose is None else choose(tokens, which, share, specials)
        inputs = (_spoilt if change is None else change)(tokens, chosen, how, instead, blank)
        return inputs, (_labels if label is None else label)(tokens, chosen, how, inputs)

    return answer


def _spoilt(tokens: Tensor, chosen: Tensor, how: Tensor, instead: Tensor, blank: int) -> Tensor:
    inputs = tokens.masked_fill(chosen & (how < 0.8), blank)
    return torch.where(chosen & (how >= 0.8) & (how < 0.9), instead, inputs)


def _labels(tokens: Tensor, chosen: Tensor, how: Tensor, inputs: Tensor) -> Tensor:
    return tokens.masked_fill(~chosen, NOTHING)


masked = _masked()


def masked_by_loop(
    tokens: Tensor, which: Tensor, how: Tensor, instead: Tensor, share: float, blank: int, specials: int
) -> tuple[Tensor, Tensor]:
    """Return the same, token by token."""
    inputs, labels = tokens.clone(), torch.full_like(tokens, NOTHING)
    for b in range(tokens.size(0)):
        for i in range(tokens.size(1)):
            if which[b, i] < share and tokens[b, i] >= specials:
                labels[b, i] = tokens[b, i]
                if how[b, i] < 0.8:
                    inputs[b, i] = blank
                elif how[b, i] < 0.9:
                    inputs[b, i] = instead[b, i]
    return inputs, labels


def masked_by_choice(
    tokens: Tensor, which: Tensor, how: Tensor, instead: Tensor, share: float, blank: int, specials: int
) -> tuple[Tensor, Tensor]:
    """Return the same, by the number of each token's fate: blank, another word, itself."""
    fate = torch.bucketize(how.contiguous(), torch.tensor([0.8, 0.9], dtype=how.dtype), right=True)
    fate = torch.where(which.lt(share) & tokens.ge(specials), fate, 3)
    options = torch.stack([torch.full_like(tokens, blank), instead, tokens, tokens])
    return options.gather(0, fate[None])[0], torch.where(fate < 3, tokens, NOTHING)


def _by_which(
    tokens: Tensor, which: Tensor, how: Tensor, instead: Tensor, share: float, blank: int, specials: int
) -> tuple[Tensor, Tensor]:
    """Return what comes out if the one draw decides both: whether a word is chosen, and what becomes of it."""
    return masked(tokens, which, which / share, instead, share, blank, specials)


MASKED_WRONG = [
    Mistake(
        "the share itself chosen",
        "A word whose draw is exactly `share` is chosen, too. It's those below it: <, not <=.",
        _masked(choose=lambda tokens, which, share, specials: (which <= share) & (tokens >= specials)),
        0.75,
    ),
    Mistake(
        "blank at 0.8, too",
        "Where how is exactly 0.8 the blank comes in. It's below 0.8 only; from 0.8 on it's the word in `instead`.",
        _masked(
            lambda tokens, chosen, how, instead, blank: torch.where(
                chosen & (how > 0.8) & (how < 0.9), instead, tokens.masked_fill(chosen & (how <= 0.8), blank)
            )
        ),
        0.75,
    ),
    Mistake(
        "kept at 0.8",
        "A word for which how is exactly 0.8 stays as it is: it's in neither of the ranges. From 0.8 on it's the word "
        "in `instead`: >=, not >.",
        _masked(
            lambda tokens, chosen, how, instead, blank: torch.where(
                chosen & (how > 0.8) & (how < 0.9), instead, tokens.masked_fill(chosen & (how < 0.8), blank)
            )
        ),
        0.75,
    ),
    Mistake(
        "always the blank",
        "All chosen words become the blank. Only those with how below 0.8 do; from 0.8 to 0.9 another word comes in, "
        "and the rest stay as they are.",
        _masked(lambda tokens, chosen, how, instead, blank: tokens.masked_fill(chosen, blank)),
        0.5,
    ),
    Mistake(
        "never another word",
        "No word is exchanged for another: from 0.8 to 0.9, `instead` should come in.",
        _masked(lambda tokens, chosen, how, instead, blank: tokens.masked_fill(chosen & (how < 0.8), blank)),
        0.5,
    ),
    Mistake(
        "none kept",
        "All that isn't blanked is exchanged: above 0.9 a chosen word stays as it is.",
        _masked(
            lambda tokens, chosen, how, instead, blank: torch.where(
                chosen & (how >= 0.8), instead, tokens.masked_fill(chosen & (how < 0.8), blank)
            )
        ),
        0.5,
    ),
    Mistake(
        "other words over the blanks",
        "Other words come in wherever how is below 0.9, and so overwrite the blanks. They belong to the range from "
        "0.8 to 0.9 only.",
        _masked(
            lambda tokens, chosen, how, instead, blank: torch.where(
                chosen & (how < 0.9), instead, tokens.masked_fill(chosen & (how < 0.8), blank)
            )
        ),
        0.5,
    ),
    Mistake(
        "blank above 0.8",
        "Words with how above 0.8 become the blank, a fifth of the chosen ones. It's those below: four fifths.",
        _masked(
            lambda tokens, chosen, how, instead, blank: torch.where(
                chosen & (how < 0.1), instead, tokens.masked_fill(chosen & (how >= 0.8), blank)
            )
        ),
        0.25,
    ),
    Mistake(
        "labels everywhere",
        "Every token has a label, so that the model is paid for copying what it sees. Only chosen places are asked; "
        "the others get -100.",
        _masked(label=lambda tokens, chosen, how, inputs: tokens.clone()),
        0.25,
    ),
    Mistake(
        "labels at the blanks only",
        "Only the blanks have labels. Chosen words that were exchanged or kept are asked, too; else the model could "
        "trust every word that isn't a blank.",
        _masked(label=lambda tokens, chosen, how, inputs: tokens.masked_fill(~chosen | (how >= 0.8), NOTHING)),
        0.5,
    ),
    Mistake(
        "labels where something changed",
        "Words that were chosen and kept have no label. They're asked, too, though they look as ever.",
        _masked(label=lambda tokens, chosen, how, inputs: tokens.masked_fill(~chosen | (how >= 0.9), NOTHING)),
        0.5,
    ),
    Mistake(
        "labels after the change",
        "The labels are read off the changed tokens: the model is asked for the blank. Keep the words that stood "
        "there.",
        _masked(label=lambda tokens, chosen, how, inputs: inputs.masked_fill(~chosen, NOTHING)),
        0.5,
    ),
    Mistake(
        "labels where nothing was chosen",
        "The labels stand at the words that weren't chosen, and the chosen ones have none: it's the other way round.",
        _masked(label=lambda tokens, chosen, how, inputs: tokens.masked_fill(chosen, NOTHING)),
        0.25,
    ),
    Mistake(
        "0 for no label",
        "Places without a label hold 0, which is an id: the loss would ask for it. -100 is what F.cross_entropy "
        "leaves out.",
        _masked(label=lambda tokens, chosen, how, inputs: tokens.masked_fill(~chosen, 0)),
        0.5,
    ),
    Mistake(
        "specials chosen, too",
        "Special tokens are chosen, padding among them. Ids below `specials` are left alone.",
        _masked(choose=lambda tokens, which, share, specials: which < share),
        0.5,
    ),
    Mistake(
        "chosen above the share",
        "Words with a draw above the share are chosen: with a share of 0.15 that's 85 of 100.",
        _masked(choose=lambda tokens, which, share, specials: (which >= share) & (tokens >= specials)),
        0.25,
    ),
    Mistake(
        "share not used",
        "0.15 is built in. How many are chosen is for `share` to say.",
        _masked(choose=lambda tokens, which, share, specials: (which < 0.15) & (tokens >= specials)),
        0.75,
    ),
    Mistake(
        "labels first",
        "Inputs and labels are exchanged: first the inputs, then the labels.",
        lambda *inputs: masked(*inputs)[::-1],
        0.75,
    ),
    Mistake(
        "how not used",
        "`how` isn't used: what becomes of a chosen word is read off `which` a second time. That's for `how` to say.",
        _by_which,
        0.5,
    ),
    Mistake(
        "blank at every place",
        "Wherever how is below 0.8 the blank comes in, at words that nobody chose, too. Each mask needs `chosen &`.",
        _masked(
            lambda tokens, chosen, how, instead, blank: torch.where(
                chosen & (how >= 0.8) & (how < 0.9), instead, tokens.masked_fill(how < 0.8, blank)
            )
        ),
        0.5,
    ),
    Mistake(
        "other words at every place",
        "From 0.8 to 0.9 another word comes in at words that nobody chose, too. Each mask needs `chosen &`.",
        _masked(
            lambda tokens, chosen, how, instead, blank: torch.where(
                (how >= 0.8) & (how < 0.9), instead, tokens.masked_fill(chosen & (how < 0.8), blank)
            )
        ),
        0.5,
    ),
    Mistake(
        "exchanged and kept turned round",
        "The two small ranges are turned round: from 0.8 to 0.9 another word comes in, from 0.9 on the word stays.",
        _masked(
            lambda tokens, chosen, how, instead, blank: torch.where(
                chosen & (how >= 0.9), instead, tokens.masked_fill(chosen & (how < 0.8), blank)
            )
        ),
        0.5,
    ),
    Mistake(
        "first word left out",
        "The id `specials` itself is taken for a special one. Special are the ids below it: >=, not >.",
        _masked(choose=lambda tokens, which, share, specials: (which < share) & (tokens > specials)),
        0.75,
    ),
    Mistake(
        "special up to the blank",
        "Ids up to the blank's are taken for special. `specials` says where the words begin; the blank may be "
        "anywhere.",
        lambda tokens, which, how, instead, share, blank, specials: masked(
            tokens, which, how, instead, share, blank, blank + 1
        ),
        0.75,
    ),
]


# 11.2 spans cut as for T5


def spans_cases(seed: int) -> list[Case]:
    """Return sentences with the places to cut; in some cases the sentinels don't suffice."""
    g = torch.Generator().manual_seed(seed + 1000)

    def case(name: str, cut: str, sentinels: tuple[int, ...], needed: int = 0) -> Case:
        tokens = torch.randint(4, 60, (len(cut),), generator=g)
        words = (str(needed), str(len(sentinels))) if needed else ()
        telling = "how many are needed and how many there are" if needed else ""
        inputs = {"tokens": tokens, "cut": torch.tensor([mark == "x" for mark in cut]), "sentinels": sentinels}
        return Case(name, inputs, mentions=words, telling=telling)

    more, other = sizes(g, 2, 1, 4)
    s = torch.Generator().manual_seed(seed + 1500)
    begin, middle, end = sizes(s, 3, 1, 4)
    twice = case("words said twice", "..xx.." + "." * pick(s, 0, 2) + "x..", (64, 63, 62))
    tokens = twice.inputs["tokens"]
    tokens[1], tokens[3], tokens[-1] = tokens[0], tokens[2], tokens[-2]
    tokens[4] = tokens[3]  # one is cut, and one stays
    v = torch.Generator().manual_seed(seed + 1700)

    def short(name: str, spans: int, sentinels: int) -> Case:
        """Return so many spans of one or two tokens each, with too few sentinels."""
        parts = ["x" * pick(v, 1, 2) + "." * pick(v, 1, 3) for _ in range(spans)]
        first = pick(v, 70, 99)
        cut = "." * pick(v, 0, 2) + "xx." + "".join(parts[1:])
        return case(name, cut, tuple(range(first, first - sentinels, -1)), spans + 1)

    few, almost, none = pick(v, 4, 6), pick(v, 5, 8), pick(v, 3, 6)
    return [
        case("small", "..x.", (91, 90)),
        case("two spans", "." * begin + "xx" + "." * middle + "x" + "." * end, (99, 98, 97, 96)),
        case("at both ends", "x" * end + ".." + "x" * begin + "." + "xx", (80, 81, 82, 83, 84)),
        case("nothing cut", "." * pick(s, 4, 7), (71, 70)),
        case("all cut", "x" * pick(s, 2, 5), (93, 95)),
        case("spans from the seed", "." * other + "x" * more + "." + "x" * other + ".." + "x", (88, 85, 82, 79)),
        case("as many as needed", "x.x.x", (66, 65, 64, 63)),
        twice,
        short("too few", few, few - 2),
        short("too few by one", almost, almost),
        short("none at all", none, 0),
        case("nothing cut, and none for the end", "." * pick(v, 3, 12), (), 1),
    ]


def _pieces(tokens: Tensor, cut: Tensor) -> list[tuple[bool, list[int]]]:
    """Return runs of tokens that are all cut or all kept."""
    found: list[tuple[bool, list[int]]] = []
    for token, gone in zip(tokens.tolist(), cut.tolist(), strict=True):
        if not found or found[-1][0] != gone:
            found.append((gone, []))
        found[-1][1].append(token)
    return found


def _enough(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> None:
    needed = 1 + sum(gone for gone, _ in _pieces(tokens, cut))
    if needed > len(sentinels):
        raise ValueError(f"{needed} sentinels are needed, got {len(sentinels)}")


def spans(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the right source and target, or say that there are too few sentinels."""
    _enough(tokens, cut, sentinels)
    return _cut()(tokens, cut, sentinels)


def _cut(
    source: Callable[[list[int], int], list[int]] = lambda span, sentinel: [sentinel],
    target: Callable[[list[int], int], list[int]] = lambda span, sentinel: [sentinel, *span],
    end: Callable[[int], list[int]] = lambda sentinel: [sentinel],
    number: Callable[[int], int] = lambda n: n,
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return source and target from what each span leaves in the one and puts into the other."""

    def answer(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        left: list[int] = []
        taken: list[int] = []
        count = 0
        for gone, run in _pieces(tokens, cut):
            left += source(run, sentinels[number(count)]) if gone else run
            taken += target(run, sentinels[number(count)]) if gone else []
            count += gone
        taken += end(sentinels[count])
        return torch.tensor(left, dtype=torch.long), torch.tensor(taken, dtype=torch.long)

    return answer


def spans_by_places(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the same without a loop over tokens: sentinels put before each span's first token."""
    first = cut & ~torch.cat([torch.tensor([False]), cut[:-1]])
    if (needed := int(first.sum()) + 1) > len(sentinels):
        raise ValueError(f"there are {len(sentinels)} sentinels for {needed}")
    marks = torch.tensor(sentinels)[(first.cumsum(0) - 1).clamp(min=0)]
    source = torch.where(first, marks, tokens)[~cut | first]
    both = torch.stack([marks, tokens], dim=1).flatten()
    target = both[torch.stack([first, cut], dim=1).flatten()]
    return source, torch.cat([target, torch.tensor(sentinels[needed - 1 : needed])])


def spans_by_recursion(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the same, one run at a time."""
    _enough(tokens, cut, sentinels)

    def rest(words: list[int], marks: list[bool], left: tuple[int, ...]) -> tuple[list[int], list[int]]:
        if not words:
            return [], [left[0]]
        size = next((i for i, mark in enumerate(marks) if mark != marks[0]), len(marks))
        source, target = rest(words[size:], marks[size:], left[1:] if marks[0] else left)
        if marks[0]:
            return [left[0], *source], [left[0], *words[:size], *target]
        return [*words[:size], *source], target

    return tuple(torch.tensor(part).long() for part in rest(tokens.tolist(), cut.tolist(), sentinels))


def _told(answer: Callable[..., Any]) -> Callable[..., Any]:
    return guarded(spans, answer)


def _each_token(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return source and target with a sentinel for each cut token, of which there are as many as it takes."""
    _enough(tokens, cut, sentinels)
    many = [*sentinels, *range(1000, 1030)]
    source, target, count = [], [], 0
    for token, gone in zip(tokens.tolist(), cut.tolist(), strict=True):
        source.append(many[count] if gone else token)
        target += [many[count], token] if gone else []
        count += gone
    return torch.tensor(source).long(), torch.tensor([*target, many[count]]).long()


def _each_counted(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return source and target with a sentinel for each cut token, if there are as many as that takes."""
    if (needed := 1 + int(cut.sum())) > len(sentinels):
        raise ValueError(f"{needed} sentinels are needed, got {len(sentinels)}")
    return _each_token(tokens, cut, sentinels)


def _late(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return source and target, and complain only where the spans themselves have too few sentinels."""
    needed = sum(gone for gone, _ in _pieces(tokens, cut))
    if needed > len(sentinels):
        raise ValueError(f"{needed + 1} sentinels are needed, got {len(sentinels)}")
    return _cut()(tokens, cut, (*sentinels, sentinels[-1] if sentinels else 0))


def _ended(choose: Callable[[tuple[int, ...], int], list[int]]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return source and target, with another end: from the sentinels and the number of spans."""

    def answer(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        source, target = spans(tokens, cut, sentinels)
        end = choose(sentinels, sum(gone for gone, _ in _pieces(tokens, cut)))
        return source, torch.cat([target[:-1], torch.tensor(end, dtype=torch.long)])

    return answer


def _ended_in_both(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    source, target = spans(tokens, cut, sentinels)
    return torch.cat([source, target[-1:]]), target


def _start_missed(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return source and target if a span begins only where the token before it stays: not at the very first."""
    size = len(_pieces(tokens, cut)[0][1]) if cut[0] else 0
    source, target = spans(tokens[size:], cut[size:], sentinels) if size < len(cut) else (tokens[:0], sentinels[:1])
    return source, torch.cat([tokens[:size], torch.as_tensor(target)])


def _one_too_strict(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    needed = 1 + sum(gone for gone, _ in _pieces(tokens, cut))
    if needed >= len(sentinels):
        raise ValueError(f"{needed} sentinels are needed, got {len(sentinels)}")
    return spans(tokens, cut, sentinels)


def _merged(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    source, target = spans(tokens, cut, sentinels)
    return source.unique_consecutive(), target


def _none_for_nothing(tokens: Tensor, cut: Tensor, sentinels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    return spans(tokens, cut, sentinels) if cut.any() else (tokens, torch.tensor(sentinels[:1], dtype=torch.long))


SPANS_WRONG = [
    Mistake(
        "words said twice merged",
        "A word that's said twice in a row stands in the source only once. It's the spans that leave one sentinel "
        "each; all tokens that stay stay.",
        _told(_merged),
        0.5,
    ),
    Mistake(
        "nothing cut, not counted",
        "Where nothing is cut, nothing is counted. The end needs a sentinel then, too: refuse if there's none.",
        _none_for_nothing,
        0.75,
    ),
    Mistake(
        "a sentinel for each token",
        "Each cut token gets a sentinel of its own. A run of tokens side by side is one span: one sentinel for all of "
        "it.",
        _each_token,
        0.5,
    ),
    Mistake(
        "a sentinel for each token, and counted so",
        "Each cut token gets a sentinel of its own, and so many are asked for. A run of tokens side by side is one "
        "span: one sentinel for all of it.",
        _each_counted,
        0.5,
    ),
    Mistake(
        "sentinels repeated in the source",
        "The source holds the span's sentinel as often as the span has tokens. Once is enough: the model isn't to "
        "know how long the span is.",
        _told(_cut(source=lambda span, sentinel: [sentinel] * len(span))),
        0.5,
    ),
    Mistake(
        "one sentinel for all spans",
        "All spans have the same sentinel. With one for each, the target says which span is which.",
        _told(_cut(number=lambda n: 0)),
        0.5,
    ),
    Mistake(
        "no last sentinel",
        "The target doesn't end with a sentinel. One more, the next in turn, says that the last span is over.",
        _told(_cut(end=lambda sentinel: [])),
        0.5,
    ),
    Mistake(
        "no sentinels in the target",
        "The target holds the cut tokens alone. Each span begins with its sentinel.",
        _told(_cut(target=lambda span, sentinel: span, end=lambda sentinel: [])),
        0.5,
    ),
    Mistake(
        "sentinel after its span",
        "In the target, the sentinels come after their spans. First the sentinel, then what stood there.",
        _told(_cut(target=lambda span, sentinel: [*span, sentinel], end=lambda sentinel: [])),
        0.5,
    ),
    Mistake(
        "the whole sentence as target",
        "The target is the whole sentence. That's another objective; here only what was cut is to be written.",
        _told(lambda tokens, cut, sentinels: (spans(tokens, cut, sentinels)[0], tokens.clone())),
        0.25,
    ),
    Mistake(
        "nothing left in the source",
        "Spans vanish from the source without a trace. A sentinel stands for each.",
        _told(_cut(source=lambda span, sentinel: [])),
        0.25,
    ),
    Mistake(
        "cut and kept exchanged",
        "What was to be kept is cut, and what was to be cut is kept: cut is True at tokens that go.",
        _told(lambda tokens, cut, sentinels: _cut()(tokens, ~cut, (*sentinels, *range(2000, 2010)))),
        0.25,
    ),
    Mistake(
        "source and target exchanged",
        "Source and target are exchanged: first the source.",
        _told(lambda *inputs: spans(*inputs)[::-1]),
        0.75,
    ),
    Mistake(
        "last sentinel not counted",
        "The sentinels suffice for the spans, but not for the end of the target, and nobody complains: one more is "
        "needed.",
        _late,
        0.75,
    ),
    Mistake(
        "IndexError",
        "Too few sentinels end in an IndexError, from inside. Count first, and raise a ValueError that says so.",
        with_errors(spans, lambda error: IndexError("tuple index out of range")),
        0.5,
    ),
    Mistake(
        "assert",
        "Errors are raised by assert. Python leaves assertions out when run with -O: raise ValueError.",
        with_errors(spans, lambda error: AssertionError(str(error))),
        0.5,
    ),
    Mistake(
        "errors that don't tell",
        "ValueError is right, but its text lacks how many sentinels are needed, or how many there are.",
        with_errors(spans, lambda error: ValueError("too few sentinels")),
        0.75,
    ),
    Mistake(
        "last sentinel twice",
        "The target ends with the last span's own sentinel once more. The end has one of its own: the next in turn.",
        _ended(lambda sentinels, count: [sentinels[max(count - 1, 0)]]),
        0.5,
    ),
    Mistake(
        "ends with the last of all",
        "The target ends with the last sentinel that there is. It's the next in turn, after those of the spans.",
        _ended(lambda sentinels, count: [sentinels[-1]]),
        0.75,
    ),
    Mistake(
        "nothing cut, nothing said",
        "Where nothing is cut the target is empty. The sentinel that ends it comes all the same.",
        _ended(lambda sentinels, count: [sentinels[count]] if count else []),
        0.75,
    ),
    Mistake(
        "end in the source, too",
        "The source ends with a sentinel, too. The one for the end stands in the target only.",
        _ended_in_both,
        0.5,
    ),
    Mistake(
        "start missed",
        "A span at the very beginning has no sentinel. Nothing stands before it, and it begins all the same.",
        _start_missed,
        0.75,
    ),
    Mistake(
        "sentinels from the end",
        "The sentinels are taken from the last to the first. They are to be used in their order.",
        _told(lambda tokens, cut, sentinels: spans(tokens, cut, sentinels[::-1])),
        0.75,
    ),
    Mistake(
        "one too strict",
        "As many sentinels as needed do suffice, and there's a complaint about them all the same.",
        _one_too_strict,
        0.75,
    ),
]


# 11.3 a loss of the next word that's too good


def next_cases(seed: int) -> list[Case]:
    """Return logits and tokens; the padding's id isn't always 0."""
    g = torch.Generator().manual_seed(seed + 2000)

    def case(name: str, lengths: list[int], longest: int, vocabulary: int, padding: int = 0) -> Case:
        tokens = torch.randint(0 if padding else 1, vocabulary - 1, (len(lengths), longest), generator=g)
        tokens = tokens + (tokens >= padding).long() if padding else tokens
        tokens = tokens.masked_fill(~_real(lengths, longest), padding)
        logits = draw(g, len(lengths), longest, vocabulary, scale=1.4)
        return Case(name, {"logits": logits, "tokens": tokens, "padding": padding})

    batch, length, vocabulary = sizes(g, 3, 3, 7)
    zero = case("0 is a word", [4, 3], 5, 6, 5)
    zero.inputs["tokens"][0, 1] = 0
    sure = case("sure of itself", [4, 3], 4, 5)
    sure.inputs["logits"] = sure.inputs["logits"] * 200
    sure.inputs["logits"][0, 0, sure.inputs["tokens"][0, 1]] = 1000.0  # a loss of exactly 0
    return [
        case("small", [3], 3, 4),
        case("padding", [5, 2, 3], 5, 6),
        case("sizes from the seed", [length] + [2] * (batch - 1), length, vocabulary + 2),
        case("no padding", [4, 4], 4, 7),
        case("much padding", [2, 6], 8, 5, 3),
        zero,
        case("as many words as positions", [4, 3], 4, 4),
        sure,
    ]


def _logs(logits: Tensor) -> Tensor:
    return logits - logits.logsumexp(dim=-1, keepdim=True)


def next_loss(logits: Tensor, tokens: Tensor, padding: int) -> Tensor:
    """Return the right losses."""
    return _asked(slice(None, -1), slice(1, None))(logits, tokens, padding)


def _asked(
    said: slice, wanted: slice, counts: Callable[[Tensor, Tensor, int], Tensor] | None = None
) -> Callable[[Tensor, Tensor, int], Tensor]:
    """Return a loss that compares some positions' logits with some tokens.

    Args:
        counts: from wanted tokens, all tokens and padding to what counts; None takes what isn't padding.
    """

    def answer(logits: Tensor, tokens: Tensor, padding: int) -> Tensor:
        labels = tokens[:, wanted]
        found = -_logs(logits)[:, said].gather(-1, labels[..., None])[..., 0]
        counted = labels != padding if counts is None else counts(labels, tokens, padding)
        return (found * counted).sum(dim=1) / counted.sum(dim=1)

    return answer


def next_by_torch(logits: Tensor, tokens: Tensor, padding: int) -> Tensor:
    """Return the same by PyTorch's own."""
    labels = tokens[:, 1:]
    found = F.cross_entropy(logits[:, :-1].mT, labels, ignore_index=padding, reduction="none")
    return found.sum(dim=1) / (labels != padding).sum(dim=1)


def next_by_loop(logits: Tensor, tokens: Tensor, padding: int) -> Tensor:
    """Return the same, token by token."""
    means = []
    for row, words in zip(logits, tokens.tolist(), strict=True):
        pairs = [(row[place], word) for place, word in enumerate(words[1:]) if word != padding]
        losses = [(said - said.max()).exp().sum().log() + said.max() - said[word] for said, word in pairs]
        means.append(sum(losses) / len(pairs))
    return torch.stack(means)


def _all(labels: Tensor, tokens: Tensor, padding: int) -> Tensor:
    return torch.ones_like(labels, dtype=torch.bool)


def _rolled(logits: Tensor, tokens: Tensor, padding: int) -> Tensor:
    labels = tokens.roll(-1, dims=1)
    found = F.cross_entropy(logits.mT, labels, ignore_index=padding, reduction="none")
    return found.sum(dim=1) / (labels != padding).sum(dim=1)


def _counts(tokens: Tensor, padding: int) -> Tensor:
    return (tokens[:, 1:] != padding).sum(dim=1)


def _together(logits: Tensor, tokens: Tensor, padding: int) -> Tensor:
    counts = _counts(tokens, padding)
    return (next_loss(logits, tokens, padding) * counts).sum() / counts.sum()


def _from_probabilities(logits: Tensor, tokens: Tensor, padding: int) -> Tensor:
    labels = tokens[:, 1:]
    found = -logits[:, :-1].softmax(dim=-1).gather(-1, labels[..., None])[..., 0].log()
    real = labels != padding
    return found.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1)


def _only_positive(logits: Tensor, tokens: Tensor, padding: int) -> Tensor:
    losses = F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], ignore_index=padding, reduction="none")
    return losses.sum(dim=1) / (losses > 0).sum(dim=1)


NEXT_WRONG = [
    Mistake(
        "logarithm of a softmax",
        "Where the model is far off, the loss is infinite: the probability is too small for its dtype and becomes 0 "
        "before the logarithm. `log_softmax` and `F.cross_entropy` never form it.",
        _from_probabilities,
        0.75,
    ),
    Mistake(
        "both bugs are there",
        "Both bugs are still there: each position is asked for the token that it reads, and padding counts.",
        _asked(slice(None), slice(None), _all),
    ),
    Mistake(
        "no shift",
        "Padding is left out now, but each position is still asked for the very token that it reads. It's to say the "
        "next one: logits[:, :-1] against tokens[:, 1:].",
        _asked(slice(None), slice(None)),
        0.5,
    ),
    Mistake(
        "padding counted",
        "The shift is right now, but padding still counts: the model is paid for saying padding after padding.",
        _asked(slice(None, -1), slice(1, None), _all),
        0.5,
    ),
    Mistake(
        "both cut at the front",
        "Logits and tokens both lose their first position, so that each is still asked for the token that it reads. "
        "Cut the logits at the end.",
        _asked(slice(1, None), slice(1, None)),
        0.5,
    ),
    Mistake(
        "a loss of 0 not counted",
        "Tokens whose loss is 0 aren't counted. It's 0 where the model is sure and right, too: count the labels that "
        "aren't padding.",
        _only_positive,
        0.75,
    ),
    Mistake(
        "shifted the wrong way",
        "Each position is asked for the token before it, which it has read: logits[:, 1:] against tokens[:, :-1].",
        _asked(slice(1, None), slice(None, -1)),
        0.25,
    ),
    Mistake(
        "wrapped around",
        "The tokens are rolled, so that the last position is asked for the sentence's first token. It has no next one: "
        "leave it out.",
        _rolled,
        0.5,
    ),
    Mistake(
        "shifted by two",
        "The shift is done twice: each position is asked for the token after the next. (Some models shift by "
        "themselves when they're given labels.)",
        lambda logits, tokens, padding: _asked(slice(None, -2), slice(2, None))(logits, tokens, padding),
        0.5,
    ),
    Mistake(
        "readers of padding left out",
        "What counts is decided by the token that is read, not by the one that is wanted: the word before the padding "
        "is asked for padding.",
        _asked(slice(None, -1), slice(1, None), lambda labels, tokens, padding: tokens[:, :-1] != padding),
        0.5,
    ),
    Mistake(
        "one number for all texts",
        "All texts' tokens are averaged together. Each text was to have its own mean.",
        _together,
        0.5,
    ),
    Mistake(
        "divided by all places",
        "Each sum is divided by the number of all places, padding too. Divide by the number of tokens that count.",
        lambda logits, tokens, padding: (
            next_loss(logits, tokens, padding) * _counts(tokens, padding) / (tokens.size(1) - 1)
        ),
        0.5,
    ),
    Mistake(
        "not divided",
        "These are the sums over each text's tokens. The means were asked for, or long texts look worse than short "
        "ones.",
        lambda logits, tokens, padding: next_loss(logits, tokens, padding) * _counts(tokens, padding),
        0.5,
    ),
    Mistake(
        "bits",
        "The loss is in bits. Nats were asked for: the natural logarithm.",
        lambda logits, tokens, padding: next_loss(logits, tokens, padding) / math.log(2),
        0.75,
    ),
    Mistake(
        "0 taken for padding",
        "The id 0 is taken for the padding's. It's `padding` that says which id fills up.",
        lambda logits, tokens, padding: next_loss(logits, tokens, 0),
        0.75,
    ),
    Mistake(
        "divided by the lengths",
        "Each sum is divided by the number of the text's tokens, its first included. Nobody is asked for the first: "
        "one less.",
        lambda logits, tokens, padding: (
            next_loss(logits, tokens, padding) * _counts(tokens, padding) / (tokens != padding).sum(dim=1)
        ),
        0.5,
    ),
    Mistake(
        "divided by the batch's count",
        "Each text's sum is divided by the number of all texts' tokens. Divide by the text's own.",
        lambda logits, tokens, padding: (
            next_loss(logits, tokens, padding) * _counts(tokens, padding) / _counts(tokens, padding).sum()
        ),
        0.5,
    ),
    Mistake(
        "softmax before",
        "A softmax is taken before F.cross_entropy, which takes one itself. Give it the logits.",
        lambda logits, tokens, padding: next_loss(logits.softmax(dim=-1), tokens, padding),
        0.5,
    ),
    Mistake(
        "no minus",
        "The mean log-probability is returned. A loss is minus that.",
        lambda logits, tokens, padding: -next_loss(logits, tokens, padding),
        0.75,
    ),
    Mistake(
        "perplexity",
        "The perplexity is returned: e to the power of the loss. The loss itself was asked for.",
        lambda logits, tokens, padding: next_loss(logits, tokens, padding).exp(),
        0.75,
    ),
]


# 11.4 a text as one vector


def pooled_cases(seed: int) -> list[Case]:
    """Return texts of several lengths; one is empty, and one has padding in front."""
    g = torch.Generator().manual_seed(seed + 3000)

    def case(name: str, lengths: list[int], longest: int, d: int) -> Case:
        x = draw(g, len(lengths), longest, d, mean=0.4)
        return Case(name, {"x": x, "words": _real(lengths, longest)})

    batch, longest, d = sizes(g, 3, 2, 6)
    front = case("padding in front", [3, 1, 2], 4, 3)
    front.inputs["words"] = front.inputs["words"].flip(-1)
    short = case("short vectors", [3, 2], 4, 3)
    short.inputs["x"] = short.inputs["x"] / 100
    return [
        case("small", [2], 3, 2),
        case("batch", [4, 1, 3], 5, 4),
        case("sizes from the seed", [longest] * (batch - 1) + [1], longest, d),
        case("no padding", [3, 3], 3, 4),
        case("an empty text", [2, 0], 3, 5),
        case("all sizes alike", [3, 2, 1], 3, 3),
        front,
        short,
    ]


def _mean(x: Tensor, words: Tensor) -> Tensor:
    kept = words[..., None].to(x.dtype)
    return (x * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1)


def pooled(x: Tensor, words: Tensor) -> Tensor:
    """Return the right vectors."""
    return F.normalize(_mean(x, words), dim=-1)


def pooled_by_loop(x: Tensor, words: Tensor) -> Tensor:
    """Return the same, text by text."""
    rows = []
    for text, real in zip(x, words, strict=True):
        mean = text[real].mean(dim=0) if bool(real.any()) else torch.zeros_like(text[0])
        length = float((mean * mean).sum()) ** 0.5
        rows.append(mean / length if length else mean)
    return torch.stack(rows)


def pooled_by_sum(x: Tensor, words: Tensor) -> Tensor:
    """Return the same from sums: their direction is the mean's."""
    total = torch.einsum("bnd,bn->bd", x, words.to(x.dtype))
    return total / total.norm(dim=-1, keepdim=True).masked_fill(~words.any(dim=1, keepdim=True), 1.0)


def _finished(pool: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, words: F.normalize(pool(x, words), dim=-1)


def _unit_words(x: Tensor, words: Tensor) -> Tensor:
    return _mean(F.normalize(x, dim=-1), words)


def _chosen_word(place: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Return each text's first or last word, whatever padding stands around it."""

    def answer(x: Tensor, words: Tensor) -> Tensor:
        return torch.stack(
            [text[real][place] if real.any() else 0 * text[0] for text, real in zip(x, words, strict=True)]
        )

    return _finished(answer)


def _from_the_front(x: Tensor, words: Tensor) -> Tensor:
    front = torch.arange(x.size(1)) < words.sum(dim=1, keepdim=True)
    return pooled(x, front)


POOLED_WRONG = [
    Mistake(
        "padding counted",
        "The mean is taken over padding, too: the same text has another vector in a longer batch.",
        _finished(lambda x, words: x.mean(dim=1)),
        0.5,
    ),
    Mistake(
        "not normalised",
        "The means aren't brought to length 1: their products are no cosines.",
        _mean,
        0.5,
    ),
    Mistake(
        "sums",
        "These are the sums of the words' vectors, not brought to length 1.",
        lambda x, words: (x * words[..., None]).sum(dim=1),
        0.25,
    ),
    Mistake(
        "first token",
        "The first token's vector is taken. Some models are made for that; here it's the mean over all words.",
        _finished(lambda x, words: x[:, 0] * words.any(dim=1, keepdim=True)),
        0.25,
    ),
    Mistake(
        "last place",
        "The last place's vector is taken, which is padding in most texts. The mean over all words was asked for.",
        _finished(lambda x, words: x[:, -1] * words.any(dim=1, keepdim=True)),
        0.25,
    ),
    Mistake(
        "largest numbers",
        "Of each feature the largest number is taken. The mean was asked for.",
        _finished(lambda x, words: x.masked_fill(~words[..., None], -1e4).amax(dim=1) * words.any(1, keepdim=True)),
        0.25,
    ),
    Mistake(
        "words normalised first",
        "Each word's vector is brought to length 1 before the mean. Only the mean is to be.",
        _finished(_unit_words),
        0.5,
    ),
    Mistake(
        "words normalised instead",
        "The words' vectors are brought to length 1, and their mean isn't: it's shorter than 1.",
        _unit_words,
        0.5,
    ),
    Mistake(
        "NaN for an empty text",
        "A text without words gives NaN: 0 / 0. Its vector is to be zero.",
        lambda x, words: (lambda mean: mean / mean.norm(dim=-1, keepdim=True))(_mean(x, words)),
        0.75,
    ),
    Mistake(
        "normalised over the batch",
        "The lengths are taken over the texts, feature by feature. Each text's vector is to have length 1: dim=-1.",
        lambda x, words: F.normalize(_mean(x, words), dim=0),
        0.5,
    ),
    Mistake(
        "sum of 1",
        "The numbers are divided by the sum of their absolute values. The length was meant: the root of the sum of "
        "squares.",
        lambda x, words: F.normalize(_mean(x, words), p=1.0, dim=-1),
        0.5,
    ),
    Mistake(
        "softmax",
        "A softmax has been taken over the features. Divide by the vector's length.",
        lambda x, words: _mean(x, words).softmax(dim=-1),
        0.25,
    ),
    Mistake(
        "mean over the texts",
        "The mean runs over the texts of the batch. It's over the words of each text.",
        _finished(lambda x, words: _mean(x.transpose(0, 1), words.T)),
        0.25,
    ),
    Mistake(
        "words and padding exchanged",
        "The mean is taken over padding, and the words are left out: `words` is True at words.",
        _finished(lambda x, words: _mean(x, ~words)),
        0.25,
    ),
    Mistake(
        "words at the front",
        "The words are counted, and as many places from the front are averaged. Padding may stand in front: take the "
        "places where `words` is True.",
        _from_the_front,
        0.75,
    ),
    Mistake(
        "last word",
        "Each text's last word is taken. A decoder's last word has seen all others; here it's the mean over all words.",
        _chosen_word(-1),
        0.25,
    ),
    Mistake(
        "first word",
        "Each text's first word is taken. The mean over all words was asked for.",
        _chosen_word(0),
        0.25,
    ),
    Mistake(
        "squared length",
        "The mean is divided by the sum of its squares. Divide by the root of that.",
        lambda x, words: (lambda mean: mean / mean.pow(2).sum(dim=-1, keepdim=True).clamp(min=1e-12))(_mean(x, words)),
        0.5,
    ),
    Mistake(
        "one length for the batch",
        "All texts are divided by one number, the length of the whole batch's numbers. Each has a length of its own: "
        "dim=-1, keepdim=True.",
        lambda x, words: _mean(x, words) / _mean(x, words).norm(),
        0.5,
    ),
]


# 11.5 weights in another order


def packed_cases(seed: int) -> list[Case]:
    """Return packed matrices in both orders."""
    g = torch.Generator().manual_seed(seed + 4000)

    def case(name: str, d_model: int, heads: int, by_head: bool) -> Case:
        return Case(name, {"packed": draw(g, d_model, 3 * d_model), "heads": heads, "by_head": by_head})

    heads, d_k = sizes(g, 2, 2, 3)
    s = torch.Generator().manual_seed(seed + 4500)
    few, wide, more = pick(s, 1, 2), pick(s, 3, 4), pick(s, 2, 3)
    return [
        case("small, in blocks", 2, 1, False),
        case("in blocks", 2 * more, 2, False),
        case("small, by head", 4, 2, True),
        case("three heads, by head", 3 * few, 3, True),
        case("sizes from the seed, by head", heads * d_k, heads, True),
        case("three heads, in blocks", 3 * pick(s, 1, 2), 3, False),
        case("wide heads, by head", 2 * wide, 2, True),
    ]


def packed(packed: Tensor, heads: int, by_head: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the right matrices, outputs first as in nn.Linear."""
    if by_head:
        return tuple(packed.T.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(1, 2))
    return tuple(packed.T.chunk(3))


def packed_by_loop(packed: Tensor, heads: int, by_head: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same, column by column."""
    d_model = packed.size(0)
    d_k, parts = d_model // heads, []
    for part in range(3):
        columns = []
        for i in range(d_model):
            head, place = divmod(i, d_k)
            columns.append(packed[:, (3 * head + part) * d_k + place if by_head else part * d_model + i])
        parts.append(torch.stack(columns))
    return tuple(parts)


def packed_by_einsum(packed: Tensor, heads: int, by_head: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same, the axes named."""
    named = packed.reshape(len(packed), *((heads, 3, -1) if by_head else (3, heads, -1)))
    parts = torch.einsum("ihpk->phki" if by_head else "iphk->phki", named)
    return tuple(part.reshape(len(packed), -1) for part in parts)


def _unpacked(order: Callable[[int, bool], bool], finish: Callable[[Tensor], Tensor] = lambda W: W) -> Callable:
    """Return the matrices read in an order of another choice, each finished."""
    return lambda weights, heads, by_head: tuple(finish(W) for W in packed(weights, heads, order(heads, by_head)))


def _turned(weights: Tensor, heads: int, by_head: bool) -> tuple[Tensor, ...]:
    """Return blocks of heads of which each is read with place before part."""
    if not by_head:
        return packed(weights, heads, by_head)
    return tuple(weights.T.unflatten(0, (heads, -1, 3)).movedim(2, 0).flatten(1, 2))


def _one_block_on(weights: Tensor, heads: int, by_head: bool) -> tuple[Tensor, ...]:
    """Return what comes out if head i's part p is looked for in block i + p, in place of 3 i + p."""
    if not by_head:
        return packed(weights, heads, by_head)
    blocks = weights.T.unflatten(0, (3 * heads, -1))
    return tuple(blocks[part : part + heads].flatten(0, 1) for part in range(3))


PACKED_WRONG = [
    Mistake(
        "not transposed",
        "The matrices have the right columns, but inputs are still the first axis. nn.Linear keeps outputs first: .T. "
        "(They are square, so that nobody complains.)",
        _unpacked(lambda heads, by_head: by_head, lambda W: W.T),
        0.5,
    ),
    Mistake(
        "always in blocks",
        "The matrix is cut into three blocks, whatever `by_head` says. If it's True, each head's query, key and value "
        "stand side by side.",
        _unpacked(lambda heads, by_head: False),
        0.5,
    ),
    Mistake(
        "always by head",
        "The matrix is read by head, whatever `by_head` says. If it's False, all queries come first, then all keys, "
        "then all values.",
        _unpacked(lambda heads, by_head: True),
        0.5,
    ),
    Mistake(
        "the two orders exchanged",
        "The two orders are exchanged: True is each head's three side by side, False is three blocks.",
        _unpacked(lambda heads, by_head: not by_head),
        0.5,
    ),
    Mistake(
        "in blocks, not transposed",
        "Cut into three blocks whatever `by_head` says, and not transposed.",
        _unpacked(lambda heads, by_head: False, lambda W: W.T),
        0.25,
    ),
    Mistake(
        "key first",
        "Keys come first, then queries. The order is query, key, value.",
        lambda *inputs: (lambda q, k, v: (k, q, v))(*packed(*inputs)),
        0.5,
    ),
    Mistake(
        "value first",
        "The three are in reverse. The order is query, key, value.",
        lambda *inputs: packed(*inputs)[::-1],
        0.5,
    ),
    Mistake(
        "reshaped, not transposed",
        "The matrix is brought into the other shape by reshape, which keeps the order of the numbers: use .T.",
        lambda weights, heads, by_head: packed(weights.reshape(weights.size(1), -1).T, heads, by_head),
        0.25,
    ),
    Mistake(
        "every third column",
        "Every third column is taken. The three alternate in steps of d_k columns, or stand in blocks of d_model.",
        lambda weights, heads, by_head: tuple(weights.T[part::3] for part in range(3)),
        0.25,
    ),
    Mistake(
        "every third column of a head",
        "Inside each head, every third column is taken. A head's d_k query columns come first, then its keys', then "
        "its values'.",
        _turned,
        0.5,
    ),
    Mistake(
        "one for all",
        "All three are the same block, the first. Keys and values come after it.",
        lambda *inputs: (packed(*inputs)[0],) * 3,
        0.25,
    ),
    Mistake(
        "heads as an axis",
        "The heads are still an axis of their own. Join them: [d_model d_model], head after head.",
        lambda weights, heads, by_head: tuple(W.unflatten(0, (heads, -1)) for W in packed(weights, heads, by_head)),
        0.75,
    ),
    Mistake(
        "place before head",
        "By head, the rows come out with the heads' first places together, then the second ones. Head 0's columns come "
        "first, all of them: join (head, place) in this order.",
        lambda weights, heads, by_head: tuple(
            W.unflatten(0, (heads, -1)).transpose(0, 1).flatten(0, 1) if by_head else W
            for W in packed(weights, heads, by_head)
        ),
        0.5,
    ),
    Mistake(
        "steps of one block",
        "By head, the next head is looked for d_k columns on. Each head takes up 3 d_k columns: its query, its key, "
        "its value.",
        _one_block_on,
        0.5,
    ),
    Mistake(
        "inputs cut",
        "In blocks, the inputs' axis is cut in three. The three stand side by side along the other axis.",
        lambda weights, heads, by_head: packed(weights, heads, by_head) if by_head else tuple(weights.chunk(3)),
        0.25,
    ),
]


# 11.6 heads that share keys and values


def grouped_cases(seed: int) -> list[Case]:
    """Return layers with several numbers of groups, with and without a mask."""
    g = torch.Generator().manual_seed(seed + 5000)

    def case(name: str, shape: tuple[int, int], heads: int, groups: int, d_k: int, **mask: Tensor) -> Case:
        d_model = heads * d_k
        state = {
            "query.weight": draw(g, d_model, d_model, scale=0.6),
            "key.weight": draw(g, groups * d_k, d_model, scale=0.6),
            "value.weight": draw(g, groups * d_k, d_model),
            "output.weight": draw(g, d_model, d_model, scale=0.6),
        }
        inputs = {"x": draw(g, *shape, d_model)} | mask
        return Case(name, inputs, {"d_model": d_model, "heads": heads, "groups": groups}, state)

    s = torch.Generator().manual_seed(seed + 5500)
    length, other, n = sizes(g, 1, 3, 5)[0], pick(s, 3, 5), pick(s, 3, 5)
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    near = (torch.arange(4)[:, None] - torch.arange(4)).abs() < 2
    early = torch.ones(4, 4, dtype=torch.bool).tril() & _real([3, 4], 4)[:, None, None, :]
    own = torch.rand(2, 2, 3, 3, generator=s).lt(0.5) | torch.eye(3, dtype=torch.bool)
    real = _real([1, 2], 3)
    while True:
        far = case("padding far above the words", (2, 3), 2, 1, 1, mask=real[:, None, None, :])
        far.inputs["x"] = torch.where(real[..., None], far.inputs["x"], 300 * far.inputs["x"])
        if _is_above(far, real):
            break
    return [
        case("small", (1, 3), 4, 2, 1),
        case("two groups of two", (2, other), 4, 2, 2),
        case("one group", (1, length), pick(s, 2, 3), 1, 2),
        case("a group for each head", (1, n), 2, 2, pick(s, 2, 3)),
        case("two groups of three, causal", (1, length), 6, 2, 1, mask=causal),
        case("three groups, padding", (2, n), 6, 3, 1, mask=_real([n, pick(s, 2, n - 1)], n)[:, None, None, :]),
        case("neighbours only", (1, 4), 2, 1, 1, mask=near),
        case("causal, padding", (2, 4), 2, 1, 1, mask=early),
        case("a mask for each head", (2, 3), 2, 1, 1, mask=own),
        far,
    ]


def _is_above(case: Case, real: Tensor) -> bool:
    """Tell whether padding scores far above every word, with a word's query (one feature a head, one group)."""
    x, (query, key) = case.inputs["x"], (case.state[f"{name}.weight"] for name in ("query", "key"))
    scores = (x @ query.T).mT[..., None] * (x @ key.T).mT[:, :, None]  # [batch heads query key]
    above = scores.masked_fill(real[:, None, None], -math.inf).amax(-1)
    above = above - scores.masked_fill(~real[:, None, None], -math.inf).amax(-1)
    return above.masked_fill(~real[:, None], -math.inf).max().item() > 200


class Grouped(nn.Module):
    """The right layer, in steps, each of which a mistake can replace."""

    def __init__(self, d_model: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups = heads, groups
        shared = d_model // heads * groups
        self.query, self.output = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(d_model, shared, bias=False) for _ in range(2))

    def cut(self, x: Tensor, parts: int) -> Tensor:
        """Return vectors in pieces, [batch part position d_k]."""
        return x.unflatten(-1, (parts, -1)).transpose(1, 2)

    def shared(self, x: Tensor) -> Tensor:
        """Return each group's keys or values as often as it has heads."""
        return x.repeat_interleave(self.heads // self.groups, dim=1)

    def weights(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        """Return the attention weights."""
        scores = query @ key.mT / math.sqrt(query.size(-1))
        return (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(dim=-1)

    def joined(self, found: Tensor) -> Tensor:
        """Return the heads' findings side by side, [batch position d_model]."""
        return found.transpose(1, 2).flatten(2)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return what the heads find, joined and mixed."""
        query, key, value = self.cut(self.query(x), self.heads), self.key(x), self.value(x)
        key, value = (self.shared(self.cut(each, self.groups)) for each in (key, value))
        return self.output(self.joined(self.weights(query, key, mask) @ value))


class GroupedByHead(Grouped):
    """The right layer, head after head."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the same."""
        d_k, found = x.size(-1) // self.heads, []
        for head in range(self.heads):
            group = head * self.groups // self.heads
            own, both = slice(head * d_k, (head + 1) * d_k), slice(group * d_k, (group + 1) * d_k)
            query, key = x @ self.query.weight[own].T, x @ self.key.weight[both].T
            scores = torch.einsum("bnc,bmc->bnm", query, key) * d_k**-0.5
            scores = scores if mask is None else scores.masked_fill(~self.of(mask, x, head), -1e9)
            found.append(scores.softmax(dim=-1) @ (x @ self.value.weight[both].T))
        return torch.cat(found, dim=-1) @ self.output.weight.T

    def of(self, mask: Tensor, x: Tensor, head: int) -> Tensor:
        """Return one head's mask, [batch position position]."""
        return mask.expand(len(x), self.heads, x.size(1), x.size(1))[:, head]


class GroupedByEinsum(Grouped):
    """The right layer with an axis for the groups, nothing repeated: g groups, r heads in each."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the same."""
        query = self.query(x).unflatten(-1, (self.groups, self.heads // self.groups, -1))
        key, value = (part(x).unflatten(-1, (self.groups, -1)) for part in (self.key, self.value))
        scores = torch.einsum("bngrc,bmgc->bgrnm", query, key) / key.size(-1) ** 0.5
        if mask is not None:
            mask = mask.expand(len(x), self.heads, x.size(1), x.size(1)).unflatten(1, (self.groups, -1))
            scores = scores.masked_fill(~mask, -math.inf)
        return self.output(torch.einsum("bgrnm,bmgc->bngrc", scores.softmax(dim=-1), value).flatten(2))


def _grouped(**changes: Callable[..., Any]) -> type[Grouped]:
    """Return the layer with some of its steps replaced."""
    return type("GroupedQueryAttention", (Grouped,), changes)


def _soft(scores: Tensor, mask: Tensor | None, axis: int = -1) -> Tensor:
    return (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(dim=axis)


class _NoOutput(Grouped):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self.output = nn.Identity()
        return super().forward(x, mask)


class _ValuesAveraged(Grouped):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = self.cut(self.query(x), self.heads), self.key(x), self.value(x)
        key, value = self.shared(self.cut(key, self.groups)), self.cut(value, self.groups).mean(dim=1, keepdim=True)
        return self.output((self.weights(query, key, mask) @ value).transpose(1, 2).flatten(2))


def _other_inputs(arrange: Callable[[Grouped, Tensor], tuple[Tensor, Tensor, Tensor]]) -> type[Grouped]:
    """Return the layer whose query, key and value, a head's each, are made in another way."""

    def forward(self: Grouped, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = arrange(self, x)
        return self.output(self.joined(self.weights(query, key, mask) @ value))

    return _grouped(forward=forward)


def _three(layer: Grouped, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    key, value = (layer.shared(layer.cut(each(x), layer.groups)) for each in (layer.key, layer.value))
    return layer.cut(layer.query(x), layer.heads), key, value


def _queries_shared(layer: Grouped, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = _three(layer, x)
    return layer.shared(query.unflatten(1, (layer.groups, -1)).mean(dim=2)), key, value


def _keys_in_turn(layer: Grouped, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    query, _, value = _three(layer, x)
    return query, layer.cut(layer.key(x), layer.groups).repeat(1, layer.heads // layer.groups, 1, 1), value


def _by_groups(layer: Grouped, x: Tensor) -> Tensor:
    """Return for head i group i // groups, or the last: the number of groups taken for their size."""
    return x[:, [min(head // layer.groups, layer.groups - 1) for head in range(layer.heads)]]


GROUPED_WRONG = [
    Mistake(
        "groups take turns",
        "Heads 0, 1, 2, ... get the groups in turn, as from repeat. Neighbouring heads share a group: "
        "repeat_interleave.",
        _grouped(shared=lambda self, x: x.repeat(1, self.heads // self.groups, 1, 1)),
        0.5,
    ),
    Mistake(
        "first group for all",
        "All heads use the first group's keys and values. Each run of heads / groups heads has its own.",
        _grouped(shared=lambda self, x: x[:, :1].expand(-1, self.heads, -1, -1)),
        0.25,
    ),
    Mistake(
        "groups averaged",
        "The groups' keys and values are averaged, and all heads use the mean. Each run of heads has its own group.",
        _grouped(shared=lambda self, x: x.mean(dim=1, keepdim=True).expand(-1, self.heads, -1, -1)),
        0.25,
    ),
    Mistake(
        "values averaged",
        "The keys are shared rightly, but all heads get the mean of the groups' values.",
        _ValuesAveraged,
        0.5,
    ),
    Mistake(
        "groups in reverse",
        "The first heads use the last group. Head 0 belongs to group 0.",
        _grouped(shared=lambda self, x: x.flip(1).repeat_interleave(self.heads // self.groups, dim=1)),
        0.5,
    ),
    Mistake(
        "cut by reshape",
        "The pieces are cut by a reshape straight to [batch part position d_k], which mixes positions. Cut the last "
        "axis, then transpose(1, 2).",
        _grouped(cut=lambda self, x, parts: x.reshape(x.size(0), parts, x.size(1), -1)),
        0.5,
    ),
    Mistake(
        "every h-th number",
        "Each piece takes every h-th number of a vector. It's one block of d_k.",
        _grouped(cut=lambda self, x, parts: x.unflatten(-1, (-1, parts)).movedim(-1, 1)),
        0.5,
    ),
    Mistake(
        "no scale",
        "The scores aren't divided by sqrt(d_k).",
        _grouped(weights=lambda self, query, key, mask: _soft(query @ key.mT, mask)),
        0.5,
    ),
    Mistake(
        "sqrt(d_model)",
        "The scores are divided by sqrt(d_model). A head's score is a sum of d_k = d_model / heads products.",
        _grouped(
            weights=lambda self, query, key, mask: _soft(query @ key.mT / (query.size(-1) * self.heads) ** 0.5, mask)
        ),
        0.5,
    ),
    Mistake(
        "width of the groups",
        "The scores are divided by the root of d_model / groups. A head is d_model / heads wide, however many share a "
        "key.",
        _grouped(
            weights=lambda self, query, key, mask: _soft(
                query @ key.mT / (query.size(-1) * self.heads / self.groups) ** 0.5, mask
            )
        ),
        0.5,
    ),
    Mistake(
        "softmax over the queries",
        "The softmax runs over the queries' axis. Each query shares out its attention over the keys: dim=-1.",
        _grouped(weights=lambda self, query, key, mask: _soft(query @ key.mT / query.size(-1) ** 0.5, mask, -2)),
        0.25,
    ),
    Mistake(
        "mask ignored",
        "The mask isn't used: heads also look where they may not.",
        _grouped(weights=lambda self, query, key, mask: _soft(query @ key.mT / query.size(-1) ** 0.5, None)),
        0.5,
    ),
    Mistake(
        "mask the wrong way round",
        "The mask is read the wrong way round. In this book True means: may attend.",
        _grouped(
            weights=lambda self, query, key, mask: _soft(
                query @ key.mT / query.size(-1) ** 0.5, None if mask is None else ~mask
            )
        ),
        0.5,
    ),
    Mistake(
        "no output projection",
        "The heads' outputs are joined, but W_o is missing: call self.output at last.",
        _NoOutput,
        0.5,
    ),
    Mistake(
        "number of groups for their size",
        "Head i gets group i // groups. As many heads as share a group, heads / groups, is what to divide by.",
        _grouped(shared=_by_groups),
        0.5,
    ),
    Mistake(
        "queries shared, too",
        "The queries of a group are averaged, so that its heads all find the same. Only keys and values are shared.",
        _other_inputs(_queries_shared),
        0.5,
    ),
    Mistake(
        "keys in turn",
        "The values are shared by neighbours, but the keys' groups take turns, as from repeat. Both: "
        "repeat_interleave.",
        _other_inputs(_keys_in_turn),
        0.5,
    ),
    Mistake(
        "key and value exchanged",
        "Keys and values are exchanged: what is compared with the query is the key, and what is mixed is the value.",
        _other_inputs(lambda layer, x: (lambda query, key, value: (query, value, key))(*_three(layer, x))),
        0.5,
    ),
    Mistake(
        "keys for values",
        "The keys are mixed. It's the values: self.value isn't used at all.",
        _other_inputs(lambda layer, x: (lambda query, key, value: (query, key, key))(*_three(layer, x))),
        0.5,
    ),
    Mistake(
        "joined by reshape",
        "The heads are joined by a reshape straight from [batch heads position d_k], which mixes positions: "
        "transpose(1, 2) first.",
        _grouped(joined=lambda self, found: found.reshape(found.size(0), found.size(2), -1)),
        0.5,
    ),
    Mistake(
        "joined place by place",
        "The heads' first numbers stand together, then the second ones. Join them head after head.",
        _grouped(joined=lambda self, found: found.permute(0, 2, 3, 1).flatten(2)),
        0.5,
    ),
    Mistake(
        "heads averaged",
        "The heads' outputs are averaged, and repeated to the model's width. Put them side by side.",
        _grouped(joined=lambda self, found: found.mean(dim=1).repeat(1, 1, self.heads)),
        0.25,
    ),
    Mistake(
        "scaled twice",
        "The scores are divided by sqrt(d_k) twice: attention.attend does so by itself.",
        _grouped(weights=lambda self, query, key, mask: _soft(query @ key.mT / query.size(-1), mask)),
        0.5,
    ),
    Mistake(
        "mask multiplied in",
        "The scores are multiplied by the mask: e to the power of 0 is 1, so that what's hidden still gets a weight. "
        "Fill in minus infinity.",
        _grouped(
            weights=lambda self, query, key, mask: _soft(
                query @ key.mT / query.size(-1) ** 0.5 * (1 if mask is None else mask), None
            )
        ),
        0.5,
    ),
    Mistake(
        "mask after the softmax",
        "The mask is applied after the softmax: what's left of a row doesn't sum to 1. Mask the scores.",
        _grouped(
            weights=lambda self, query, key, mask: (
                _soft(query @ key.mT / query.size(-1) ** 0.5, None) * (1 if mask is None else mask)
            )
        ),
        0.5,
    ),
    Mistake(
        "causal without being asked",
        "Each query sees only what came before it, mask or not. Only the mask says what may be seen.",
        _grouped(
            weights=lambda self, query, key, mask: _soft(
                query @ key.mT / query.size(-1) ** 0.5,
                torch.ones(query.size(2), query.size(2), dtype=torch.bool).tril(),
            )
        ),
        0.5,
    ),
]


PROBES = [
    Probe(
        id="11.1",
        title="words masked as for BERT",
        kind="function",
        entry="mask_words",
        points=5,
        minutes=15,
        difficulty=2,
        cases=masked_cases,
        reference=masked,
        right={"token by token": masked_by_loop, "each token's fate": masked_by_choice},
        wrong=MASKED_WRONG,
    ),
    Probe(
        id="11.2",
        title="spans cut as for T5",
        kind="error",
        entry="cut_spans",
        points=5,
        minutes=18,
        difficulty=3,
        cases=spans_cases,
        reference=spans,
        right={"without a loop": spans_by_places, "one run at a time": spans_by_recursion},
        original=("experiments.corruptions.cut_spans",),
        wrong=SPANS_WRONG,
    ),
    Probe(
        id="11.3",
        title="a loss that's too good",
        kind="bug",
        entry="next_word_loss",
        points=4,
        minutes=12,
        difficulty=2,
        cases=next_cases,
        reference=next_loss,
        right={"PyTorch's own": next_by_torch, "token by token": next_by_loop},
        wrong=NEXT_WRONG,
    ),
    Probe(
        id="11.4",
        title="a text as one vector",
        kind="function",
        entry="text_vectors",
        points=3,
        minutes=10,
        difficulty=1,
        cases=pooled_cases,
        reference=pooled,
        right={"text by text": pooled_by_loop, "sums": pooled_by_sum},
        original=("bert.TextEncoder.sentence_vectors",),
        wrong=POOLED_WRONG,
    ),
    Probe(
        id="11.5",
        title="weights in another order",
        kind="function",
        entry="unpacked",
        points=4,
        minutes=15,
        difficulty=3,
        cases=packed_cases,
        reference=packed,
        right={"column by column": packed_by_loop, "named axes": packed_by_einsum},
        wrong=PACKED_WRONG,
    ),
    Probe(
        id="11.6",
        title="heads that share keys and values",
        kind="module",
        entry="GroupedQueryAttention",
        points=5,
        minutes=18,
        difficulty=2,
        cases=grouped_cases,
        reference=Grouped,
        right={"head by head": GroupedByHead, "an axis for the groups": GroupedByEinsum},
        original=("experiments.modern.GroupedQueryAttention",),
        wrong=GROUPED_WRONG,
    ),
]


QUESTIONS = [
    Question(
        id="11.7",
        title="which of the three?",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "what each of the three sees when it makes a guess", "both sides; the past; the rest, then own target"),
            (
                1,
                "which tasks suit which, and why",
                "represent/classify; continue; rewrite, translate, fill several words",
            ),
            (1, "how much is learnt from one sentence", "a share of the tokens; every token; the cut tokens"),
            (
                1,
                "how you would compare them fairly",
                "same data, parameters, compute; each on a task of the others', seeds",
            ),
        ),
    ),
    Question(
        id="11.8",
        title="the weights fit, the vectors don't",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "what fitting shapes don't prove", "square matrices transposed or exchanged, q, k, v in another order"),
            (
                1,
                "what isn't in the weights at all",
                "norm's place and epsilon, activation, scale, positions, tokeniser",
            ),
            (1, "how to find the layer at fault", "compare layer by layer with the original's outputs on one text"),
            (
                1,
                "when you would call it reproduced",
                "a stated tolerance on several texts, padded and of unlike lengths",
            ),
        ),
    ),
]
