"""What chapter 05's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.exercises.authoring import draw, guarded, pick, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Probe, Question


def _tril(rows: int, columns: int, diagonal: int = 0) -> Tensor:
    return torch.ones(rows, columns, dtype=torch.bool).tril(diagonal)


# 5.1 the causal mask


def causal_cases(seed: int) -> list[Case]:
    """Return lengths with and without a past; one is longer than the masks that people keep and cut."""
    g = torch.Generator().manual_seed(seed)
    drawn = [tuple(sizes(g, 2, 3, 11)) for _ in range(2)]
    lengths = {
        "small": (3, 0),
        "one query": (1, 0),
        "longer": (pick(g, 5, 9), 0),
        "two after three": (2, 3),
        "one after some": (1, pick(g, 4, 9)),
        "three after one": (3, 1),
        "as many as before": (4, 4),
        "no past given": (pick(g, 3, 6),),
        "some after some": drawn[0],
        "some after some others": drawn[1],
        "one after many": (1, pick(g, 64, 67)),
    }
    return [Case(name, dict(zip(("length", "past"), of, strict=False))) for name, of in lengths.items()]


def causal(length: int, past: int = 0) -> Tensor:
    """Return the right mask."""
    return _tril(length, past + length, past)


def causal_by_loop(length: int, past: int = 0) -> Tensor:
    """Return the same, pair by pair."""
    return torch.tensor([[key <= past + query for key in range(past + length)] for query in range(length)])


def causal_by_comparison(length: int, past: int = 0) -> Tensor:
    """Return the same, positions compared."""
    return torch.arange(past + length) <= torch.arange(past, past + length).unsqueeze(1)


CAUSAL_WRONG = [
    Mistake(
        "strictly before",
        "No query sees its own position. A query may look at itself: that's the token which is known, and the next one "
        "is what is asked for. (The first query would see nothing at all.)",
        lambda n, past=0: _tril(n, past + n, past - 1),
        0.5,
    ),
    Mistake(
        "one too many",
        "Each query sees one key too many: the next token, which it's to predict.",
        lambda n, past=0: _tril(n, past + n, past + 1),
        0.5,
    ),
    Mistake(
        "upper triangle",
        "Queries look ahead instead of back: rows are queries, columns are keys, and a key may not be later.",
        lambda n, past=0: torch.ones(n, past + n, dtype=torch.bool).triu(past),
        0.25,
    ),
    Mistake(
        "True hides",
        "True and False are exchanged: in this book True means may attend. nn.MultiheadAttention has it the other way.",
        lambda n, past=0: ~causal(n, past),
        0.5,
    ),
    Mistake(
        "past left out",
        "The past has no keys. Its tokens were decoded earlier, and their keys come first: length + past columns.",
        lambda n, past=0: causal(n),
        0.5,
    ),
    Mistake(
        "diagonal not moved",
        "The shape is right, but query i stands at position past + i, not at i: the diagonal must move by past.",
        lambda n, past=0: _tril(n, past + n),
        0.5,
    ),
    Mistake(
        "past hidden",
        "The keys of the past are hidden. They are all earlier than every query: all of them may be seen.",
        lambda n, past=0: torch.cat([torch.zeros(n, past, dtype=torch.bool), causal(n)], dim=1),
        0.5,
    ),
    Mistake(
        "past comes last",
        "The past's keys stand at the end. They come first, since they are earlier.",
        lambda n, past=0: torch.cat([causal(n), torch.ones(n, past, dtype=torch.bool)], dim=1),
        0.5,
    ),
    Mistake(
        "queries of the past",
        "There are rows for the past, too. Only keys and values of the past are needed; its queries were answered.",
        lambda n, past=0: causal(past + n),
        0.5,
    ),
    Mistake(
        "numbers",
        "These are numbers, 1 and 0. A mask is boolean here; numbers would be added to the scores by some functions: "
        "dtype=torch.bool.",
        lambda n, past=0: causal(n, past).float(),
        0.75,
    ),
    Mistake(
        "numbers to add",
        "This is a mask to add, 0 and -inf. This library's masks are boolean: True where the query may attend.",
        lambda n, past=0: torch.zeros(n, past + n).masked_fill(~causal(n, past), -math.inf),
        0.75,
    ),
    Mistake(
        "everything allowed",
        "Every query sees every key. Later keys are to be hidden.",
        lambda n, past=0: torch.ones(n, past + n, dtype=torch.bool),
    ),
]


# 5.2 both masks together


def _tokens(generator: torch.Generator, lengths: list[int], padding: int, longest: int = 0) -> Tensor:
    """Return sentences of ids that aren't the padding's, filled up at the end."""
    longest = max(*lengths, longest, 1)
    words = torch.randint(1, 9, (len(lengths), longest), generator=generator)
    words = words + (words >= padding).long() if padding else words
    return words.masked_fill(torch.arange(longest) >= torch.tensor(lengths)[:, None], padding)


def decoder_cases(seed: int) -> list[Case]:
    """Return batches of targets; the padding's id isn't always 0, and may stand in front."""
    g = torch.Generator().manual_seed(seed + 1000)

    def case(name: str, lengths: list[int], padding: int, longest: int = 0) -> Case:
        return Case(name, {"tokens": _tokens(g, lengths, padding, longest), "padding": padding})

    front = case("padding in front", [4, 2], 0)
    front.inputs["tokens"] = front.inputs["tokens"].flip(-1)
    zero = case("0 is a word", [3, 2], 7)
    zero.inputs["tokens"][0, 1] = 0
    between = case("padding in between", [5], 3)
    between.inputs["tokens"][0, pick(g, 1, 3)] = 3
    longest, some = sizes(g, 2, 2, 6)
    return [
        case("small", [2], 0, 3),
        case("batch", [longest, 1, min(longest, some)], 0, longest + pick(g, 0, 1)),
        case("no padding", [3, 3, 3], 0),
        zero,
        front,
        between,
        case("square", [3, 2, 1], 2),
        case("one sentence, no padding", [pick(g, 3, 5)], pick(g, 0, 5)),
        case("a sentence of nothing but padding", [0, 2], pick(g, 0, 5), pick(g, 2, 4)),
    ]


def decoder(tokens: Tensor, padding: int) -> Tensor:
    """Return the right mask."""
    return _tril(tokens.size(1), tokens.size(1)) & (tokens != padding)[:, None, None, :]


def decoder_by_loop(tokens: Tensor, padding: int) -> Tensor:
    """Return the same, pair by pair."""
    batch, length = tokens.shape
    mask = torch.zeros(batch, 1, length, length, dtype=torch.bool)
    for b, query in ((b, query) for b in range(batch) for query in range(length)):
        for key in range(query + 1):
            mask[b, 0, query, key] = bool(tokens[b, key] != padding)
    return mask


def decoder_by_product(tokens: Tensor, padding: int) -> Tensor:
    """Return the same from numbers, multiplied."""
    real = tokens.ne(padding).float()
    return torch.einsum("qk,bk->bqk", torch.ones(tokens.size(1), tokens.size(1)).tril(), real).unsqueeze(1) > 0.5


def _both(combine: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """Return a mask from the causal one [query key] and from which tokens are real [batch position]."""
    return lambda tokens, padding: combine(_tril(tokens.size(1), tokens.size(1)), tokens != padding)


DECODER_WRONG = [
    Mistake(
        "padding as a query",
        "The padding mask is a column: it empties the rows of padded queries, and words may still look at padding. "
        "It's keys that must be hidden: [:, None, None, :].",
        _both(lambda past, real: past & real[:, None, :, None]),
        0.5,
    ),
    Mistake(
        "padding as query and key",
        "Padded queries are emptied, too. That's harmless, since their outputs aren't used, but only keys were asked "
        "to be hidden.",
        _both(lambda past, real: past & real[:, None, :, None] & real[:, None, None, :]),
        0.75,
    ),
    Mistake(
        "or for and",
        "The masks are combined by |: a later word may be seen since it's real, padding since it's early. Both must "
        "allow it: &.",
        _both(lambda past, real: past | real[:, None, None, :]),
        0.25,
    ),
    Mistake(
        "padding only",
        "Padding is hidden, but not the future: the causal mask is missing.",
        _both(lambda past, real: real[:, None, None, :].expand(-1, 1, len(past), -1)),
        0.25,
    ),
    Mistake(
        "no query axis",
        "This is the padding mask alone, with an axis of size 1 for the queries. The causal mask differs from query to "
        "query, so that the mask must, too.",
        _both(lambda past, real: real[:, None, None, :]),
        0.25,
    ),
    Mistake(
        "causal only",
        "The future is hidden, but not the padding.",
        _both(lambda past, real: past.expand(len(real), 1, -1, -1)),
        0.25,
    ),
    Mistake(
        "no axis for the heads",
        "The values are right, but the shape is [batch query key]. Scores are [batch heads query key]; broadcasting "
        "lines axes up from the last: batch would be taken for heads. Give the heads an axis of size 1.",
        _both(lambda past, real: past & real[:, None, :]),
        0.5,
    ),
    Mistake(
        "True hides",
        "True and False are exchanged: in this book True means may attend.",
        _both(lambda past, real: ~(past & real[:, None, None, :])),
        0.5,
    ),
    Mistake(
        "0 taken for padding",
        "The id 0 is taken for the padding's. It's `padding` that says which id fills up.",
        lambda tokens, padding: decoder(tokens, 0),
        0.75,
    ),
    Mistake(
        "padding the wrong way round",
        "The padding is seen, and the words are hidden: tokens != padding is True at words.",
        _both(lambda past, real: past & ~real[:, None, None, :]),
        0.5,
    ),
    Mistake(
        "future instead of past",
        "The triangle is the upper one: queries see what comes later.",
        _both(lambda past, real: past.T & real[:, None, None, :]),
        0.5,
    ),
    Mistake(
        "own position hidden",
        "No query sees its own token. The diagonal is allowed.",
        _both(lambda past, real: past.tril(-1) & real[:, None, None, :]),
        0.5,
    ),
    Mistake(
        "diagonal always allowed",
        "The diagonal is set to True also where the token is padding. That saves rows from being empty, but lets "
        "padding be seen; here an empty row is right.",
        _both(lambda past, real: past & real[:, None, None, :] | torch.eye(len(past), dtype=torch.bool)),
        0.75,
    ),
    Mistake(
        "one sentence for all",
        "The first sentence's padding is used for the whole batch. Each sentence ends at its own place.",
        _both(lambda past, real: (past & real[:1, None, None, :]).expand(len(real), -1, -1, -1)),
        0.5,
    ),
    Mistake(
        "numbers",
        "These are numbers. A mask is boolean here: combine by &, not by *, or compare at the end.",
        _both(lambda past, real: (past & real[:, None, None, :]).float()),
        0.75,
    ),
]


# 5.3 a mask of the wrong polarity


def polarity_cases(seed: int) -> list[Case]:
    """Return self- and cross-attention in which some keys are padding; every sentence has a word.

    In some cases the words have scores far from 0, though they are nearly the same, or padding's are far above them.
    """
    g = torch.Generator().manual_seed(seed + 2000)

    def case(name: str, lengths: list[int], heads: int, n: int, d_k: int, d_v: int = 2) -> Case:
        batch, m = len(lengths), max(lengths) + 1
        tensors = {"query": draw(g, batch, heads, n, d_k), "key": draw(g, batch, heads, m, d_k, mean=0.3)}
        tensors |= {"value": draw(g, batch, heads, m, d_v, mean=0.3)}
        return Case(name, tensors | {"real": torch.arange(m) < torch.tensor(lengths)[:, None]})

    heads, n, d_k, d_v = sizes(g, 4, 1, 5)
    scattered = case("padding in between", [3, 2], 1, 3, 3)
    scattered.inputs["real"] = torch.tensor([[True, False, True, True], [False, True, False, True]])
    far = case("words with scores far below 0", [2, 3], 1, 2, 4)
    far.inputs["query"] = far.inputs["query"].sign() * -100
    far.inputs["key"] = far.inputs["query"][..., :1, :].sign() * -3 + far.inputs["key"] / 100
    far.inputs["query"][..., 1, :] = far.inputs["query"][..., 0, :] / 2
    return [
        case("small", [2], 1, 2, 2),
        case("as many queries as sentences", [2, 1, 3], 2, 3, 2, 3),
        case("as many queries as keys", [3, 1], 1, 4, 2),
        case("more heads than sentences", [1, 2], 3, 2, 3),
        case("all sizes alike", [2, 1, 2], 3, 3, 3, 3),
        case("sizes from the seed", [2, pick(g, 3, 4)], heads, n, d_k, d_v),
        scattered,
        far,
        _far_words(g, case("words with scores far from 0", [2, 3], 1, 2, 4)),
        _far_padding(g, case("padding with scores far above the words'", [2, 1], 1, pick(g, 2, 3), 4)),
    ]


def _far_words(generator: torch.Generator, case: Case) -> Case:
    """Give all keys nearly the same scores, beyond 709 for one query and -709 for the other: exp doesn't reach there.

    All products are exact.
    """
    signs = torch.randint(0, 2, (4,), generator=generator) * 2.0 - 1
    offsets = torch.randint(-2, 3, case.inputs["key"].shape, generator=generator) / 4
    case.inputs["query"] = torch.stack([4 * signs, -4 * signs]).expand(2, 1, 2, 4).clone()
    case.inputs["key"] = 100 * signs + offsets
    return case


def _far_padding(generator: torch.Generator, case: Case) -> Case:
    """Give padding scores beyond 2,000, and the word that is alone one below -100,000: no fill may come near it."""
    signs = torch.randint(0, 2, (4,), generator=generator) * 2.0 - 1
    query, key, real = (case.inputs[name] for name in ("query", "key", "real"))
    query[0] = signs * (query[0].abs() + 1)
    query[1] = signs * 40
    key[1] = signs * -2500
    case.inputs["key"] = torch.where(real[:, None, :, None], key, signs * 1000)
    return case


def hidden(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    """Return the right output."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return scores.masked_fill(~real[:, None, None, :], -math.inf).softmax(dim=-1) @ value


def hidden_by_sentence(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    """Return the same, padding cut off."""
    outputs = []
    for q, k, v, kept in zip(query, key, value, real, strict=True):
        weights = (q @ k[:, kept].mT / q.size(-1) ** 0.5).softmax(dim=-1)
        outputs.append(weights @ v[:, kept])
    return torch.stack(outputs)


def hidden_by_adding(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    """Return the same as the broken function, mended."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return (scores + (~real)[:, None, None, :] * -1e9).softmax(dim=-1) @ value


def _added(mask: Callable[[Tensor], Tensor], size: float = -1e9) -> Callable[..., Tensor]:
    """Return the exercise's function, with another mask to add."""

    def answer(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        return (scores + mask(real) * size).softmax(dim=-1) @ value

    return answer


def _weighed(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return an output from weights that are made from the scores and the keys' mask in another way."""

    def answer(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        return change(scores, real[:, None, None, :]) @ value

    return answer


def _brought_back(weights: Tensor) -> Tensor:
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)


POLARITY_WRONG = [
    Mistake(
        "both bugs are there",
        "Both bugs are still there: words are hidden instead of padding, and the mask's batch is lined up with the "
        "queries.",
        _added(lambda real: real),
    ),
    Mistake(
        "polarity mended, shape not",
        "Padding is hidden now, but the mask has the shape [batch key], and broadcasting takes its batch for queries. "
        "With as many queries as sentences nobody complains, and the wrong keys are hidden: [:, None, None, :].",
        _added(lambda real: ~real),
        0.5,
    ),
    Mistake(
        "shape mended, polarity not",
        "The shape is right now, but words are hidden and padding is seen: real is True at words, and -1e9 belongs "
        "where it's False.",
        _added(lambda real: real[:, None, None, :]),
        0.5,
    ),
    Mistake(
        "batch taken for heads",
        "The mask has the shape [batch 1 key], and broadcasting takes its batch for the heads. Two axes of size 1 are "
        "needed between batch and keys.",
        _added(lambda real: ~real[:, None, :]),
        0.5,
    ),
    Mistake(
        "queries hidden",
        "The mask is a column, [batch 1 query 1]: whole rows lose the same number, which the softmax doesn't notice, "
        "and no key is hidden.",
        _added(lambda real: ~real[:, None, :, None]),
        0.5,
    ),
    Mistake(
        "no mask",
        "Nothing is hidden: words attend to padding.",
        _weighed(lambda scores, real: scores.softmax(dim=-1)),
        0.25,
    ),
    Mistake(
        "scores set to 0",
        "The scores of padding, or its keys, are set to 0. exp(0) = 1 is a fair share: -inf, or something very "
        "negative, is needed.",
        _weighed(lambda scores, real: (scores * real).softmax(dim=-1)),
        0.25,
    ),
    Mistake(
        "after the softmax",
        "The weights of padding, or its values, are set to 0 after the softmax. The words' don't sum to 1 then.",
        _weighed(lambda scores, real: scores.softmax(dim=-1) * real),
        0.5,
    ),
    Mistake(
        "brought back to 1 after the softmax",
        "Padding's weights are set to 0 after the softmax, and the rows are brought back to 1. Where padding's score "
        "is far above the words', these have nothing left that could be brought back: hide it before the softmax.",
        _weighed(lambda scores, real: _brought_back(scores.softmax(dim=-1) * real)),
        0.75,
    ),
    Mistake(
        "-1 is too little",
        "Padding's scores are lowered by 1 only. It keeps a share: -1e9 or -inf leaves it none.",
        _added(lambda real: ~real[:, None, None, :], -1.0),
        0.5,
    ),
    Mistake(
        "padding favoured",
        "A large number is added to the scores of padding: all attention goes there. It must be negative.",
        _added(lambda real: ~real[:, None, None, :], 1e9),
        0.5,
    ),
    Mistake(
        "no scale",
        "Both bugs are mended, but the scale is gone: divide by math.sqrt(query.size(-1)).",
        lambda query, key, value, real: hidden(query * math.sqrt(query.size(-1)), key, value, real),
        0.75,
    ),
]


# 5.4 a window and its sinks


def window_cases(seed: int) -> list[Case]:
    """Return lengths, windows and sinks."""
    g = torch.Generator().manual_seed(seed + 3000)
    window, sinks = sizes(g, 2, 1, 6)
    lengths = {
        "small": (5, 2, 1),
        "no sinks": (5, 3, 0),
        "more sinks than the window": (7, 2, 3),
        "window of one": (4, 1, 1),
        "window as long as the text": (4, 4, 1),
        "window and sinks overlap": (pick(g, 6, 9), 4, 2),
        "sinks beyond the end": (3, 1, 5),
        "window beyond the end": (3, pick(g, 4, 9), 0),
        "many sinks": (pick(g, 9, 12), 2, pick(g, 4, 6)),
        "sizes from the seed": (window + sinks + pick(g, 1, 4), window, sinks),
    }
    return [Case(name, {"length": n, "window": w, "sinks": s}) for name, (n, w, s) in lengths.items()]


def _apart(length: int) -> tuple[Tensor, Tensor]:
    """Return how far each key lies before each query, and the keys' positions."""
    position = torch.arange(length)
    return position[:, None] - position, position


def window(length: int, window: int, sinks: int) -> Tensor:
    """Return the right mask."""
    back, key = _apart(length)
    return (back >= 0) & ((back < window) | (key < sinks))


def window_by_loop(length: int, window: int, sinks: int) -> Tensor:
    """Return the same, pair by pair."""
    mask = torch.zeros(length, length, dtype=torch.bool)
    for query in range(length):
        for key in [*range(min(sinks, query + 1)), *range(max(0, query - window + 1), query + 1)]:
            mask[query, key] = True
    return mask


def window_by_triangles(length: int, window: int, sinks: int) -> Tensor:
    """Return the same from triangles."""
    mask = torch.ones(length, length).tril().triu(1 - window)
    mask[:, :sinks] = 1
    return mask.tril().bool()


def _window(allowed: Callable[[Tensor, Tensor, int, int], Tensor]) -> Callable[[int, int, int], Tensor]:
    return lambda length, window, sinks: allowed(*_apart(length), window, sinks)


WINDOW_WRONG = [
    Mistake(
        "window one too wide",
        "The window holds one position too many. A window of w is the query's own position and the w - 1 before it.",
        _window(lambda back, key, w, s: (back >= 0) & ((back <= w) | (key < s))),
        0.75,
    ),
    Mistake(
        "window one too narrow",
        "The window holds one position too few: the query's own counts as one of the w.",
        _window(lambda back, key, w, s: (back >= 0) & ((back < w - 1) | (key < s))),
        0.75,
    ),
    Mistake(
        "sinks seen too early",
        "Queries see sinks that are later than themselves. Sinks are an exception from the window, not from causality.",
        _window(lambda back, key, w, s: (back >= 0) & (back < w) | (key < s).expand_as(back)),
        0.5,
    ),
    Mistake(
        "both sides",
        "The window reaches to both sides, so that queries see what is later.",
        _window(lambda back, key, w, s: (back.abs() < w) | (key < s) & (back >= 0)),
        0.25,
    ),
    Mistake(
        "no sinks",
        "The window is right, but the first positions aren't kept visible.",
        _window(lambda back, key, w, s: (back >= 0) & (back < w)),
        0.5,
    ),
    Mistake(
        "no window",
        "Every earlier key is visible. Only those in the window and the sinks should be.",
        _window(lambda back, key, w, s: back >= 0),
        0.25,
    ),
    Mistake(
        "window and sinks",
        "Only keys that are in the window and are sinks, too, are visible. One of the two is enough: |.",
        _window(lambda back, key, w, s: (back >= 0) & (back < w) & (key < s)),
        0.5,
    ),
    Mistake(
        "sinks at the end",
        "The last positions are taken for sinks. They are the first ones of the text.",
        _window(lambda back, key, w, s: (back >= 0) & ((back < w) | (key >= len(key) - s))),
        0.5,
    ),
    Mistake(
        "sinks widen the window",
        "The window is made wider by the number of sinks. Sinks are the first positions of the text, however far away.",
        _window(lambda back, key, w, s: (back >= 0) & (back < w + s)),
        0.5,
    ),
    Mistake(
        "one sink too many",
        "One position too many counts as a sink: `sinks` of them are 0 to sinks - 1.",
        _window(lambda back, key, w, s: (back >= 0) & ((back < w) | (key <= s))),
        0.75,
    ),
    Mistake(
        "True hides",
        "True and False are exchanged: in this book True means may attend.",
        lambda *sizes: ~window(*sizes),
        0.5,
    ),
    Mistake(
        "rows of the sinks",
        "The sinks are taken for queries that see everything before them: whole rows are True. It's columns that stay "
        "visible.",
        _window(lambda back, key, w, s: (back >= 0) & ((back < w) | (key < s)[:, None])),
        0.5,
    ),
]


# 5.5 packed sentences


def packed_cases(seed: int) -> list[Case]:
    """Return rows of sentences' numbers, 17 or more in one of them; 0 is padding."""
    g = torch.Generator().manual_seed(seed + 4000)

    def row(lengths: list[int], padding: int = 0) -> list[int]:
        return [i for i, length in enumerate(lengths, start=1) for _ in range(length)] + [0] * padding

    lengths, padding, before = [pick(g, 1, 3) for _ in range(pick(g, 4, 6))], pick(g, 0, 2), pick(g, 3, 13)
    rows = {
        "small": [[1, 1, 2, 2]],
        "padding at the end": [[1, 1, 2, 0, 0]],
        "batch": [[1, 2, 2, 3, 3, 3], [1, 1, 1, 1, 2, 0]],
        "one sentence": [[1, 1, 1], [1, 1, 0]],
        "square": [[1, 2, 3], [1, 1, 2], [1, 0, 0]],
        "longer": [row([pick(g, 1, 3), 3, 2], 1)],
        "nothing but padding in a row": [(first := row([pick(g, 1, 3), 1])), [0] * len(first)],
        "many sentences": [row(lengths, padding)],
        "sentences of one word": [row([1] * pick(g, 3, 5))],
        "more than sixteen sentences": [row([1] * before + [2] + [1] * (16 - before), pick(g, 0, 1))],
    }
    return [Case(name, {"sentence": torch.tensor(numbers)}) for name, numbers in rows.items()]


def packed(sentence: Tensor) -> Tensor:
    """Return the right mask."""
    same = sentence[:, None, :, None] == sentence[:, None, None, :]
    return same & _tril(sentence.size(1), sentence.size(1)) & (sentence != 0)[:, None, None, :]


def packed_by_loop(sentence: Tensor) -> Tensor:
    """Return the same, pair by pair."""
    batch, length = sentence.shape
    mask = torch.zeros(batch, length, length, dtype=torch.bool)
    for b, query in ((b, query) for b in range(batch) for query in range(length)):
        for key in range(query + 1):
            mask[b, query, key] = int(sentence[b, query]) == int(sentence[b, key]) != 0
    return mask[:, None]


def packed_by_blocks(sentence: Tensor) -> Tensor:
    """Return the same from one triangle for each sentence."""
    rows = []
    for row in sentence:
        lengths = [int((row == number).sum()) for number in range(1, int(row.max()) + 1)]
        blocks = [_tril(length, length) for length in lengths] + [torch.zeros(1, 1).bool()] * int((row == 0).sum())
        rows.append(torch.block_diag(*(block.long() for block in blocks)).bool())
    return torch.stack(rows).unsqueeze(1)


def _packed(combine: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a mask from sentences' numbers as queries [batch 1 n 1] and as keys [batch 1 1 n], and a triangle."""
    return lambda s: combine(s[:, None, :, None], s[:, None, None, :], _tril(s.size(1), s.size(1)))


PACKED_WRONG = [
    Mistake(
        "not causal",
        "Sentences are kept apart, but inside each, queries see later words.",
        _packed(lambda query, key, past: (query == key) & (key != 0)),
        0.5,
    ),
    Mistake(
        "padding sees itself",
        "Padding is treated as one more sentence, whose tokens see each other. Nobody attends to padding.",
        _packed(lambda query, key, past: (query == key) & past),
        0.5,
    ),
    Mistake(
        "sentences not kept apart",
        "Padding and future are hidden, but a sentence sees those before it: compare the numbers of query and key.",
        _packed(lambda query, key, past: past & (key != 0)),
        0.25,
    ),
    Mistake(
        "earlier sentences seen",
        "A sentence sees those before it, as with >=: only the same number will do.",
        _packed(lambda query, key, past: (query >= key) & past & (key != 0) & (query != 0)),
        0.25,
    ),
    Mistake(
        "other sentences seen",
        "Queries see other sentences' words, not their own: == is wanted, not !=.",
        _packed(lambda query, key, past: (query != key) & past & (key != 0)),
        0.25,
    ),
    Mistake(
        "no axis for the heads",
        "The values are right, but the shape is [batch query key]. Give the heads an axis of size 1.",
        lambda s: packed(s)[:, 0],
        0.5,
    ),
    Mistake(
        "True hides",
        "True and False are exchanged: in this book True means may attend.",
        lambda s: ~packed(s),
        0.5,
    ),
    Mistake(
        "upper triangle",
        "Queries look ahead instead of back.",
        _packed(lambda query, key, past: (query == key) & past.T & (key != 0)),
        0.5,
    ),
    Mistake(
        "own position hidden",
        "No query sees its own token. The diagonal is allowed, but at padding.",
        _packed(lambda query, key, past: (query == key) & past.tril(-1) & (key != 0)),
        0.5,
    ),
    Mistake(
        "first row for all",
        "The first row of the batch is used for all. Each row is packed in its own way.",
        lambda s: packed(s[:1]).expand(len(s), -1, -1, -1),
        0.5,
    ),
    Mistake(
        "diagonal always allowed",
        "Padding sees itself on the diagonal. An empty row is right here: its output isn't used.",
        _packed(lambda query, key, past: (query == key) & past & (key != 0) | torch.eye(len(past), dtype=torch.bool)),
        0.75,
    ),
]


# 5.6 prefixes


def prefix_cases(seed: int) -> list[Case]:
    """Return prefixes that fit and prefixes that don't."""
    g = torch.Generator().manual_seed(seed + 5000)
    s = torch.Generator().manual_seed(seed + 5500)

    def case(name: str, prefixes: list[int], length: int, words: tuple[str, ...] = (), telling: str = "") -> Case:
        return Case(name, {"prefixes": torch.tensor(prefixes), "length": length}, mentions=words, telling=telling)

    floats = case("not integers", [1, 2], pick(s, 4, 7), ("float32",), "the dtype that came")
    floats.inputs["prefixes"] = floats.inputs["prefixes"].float()
    doubles = case("not integers, but of 64 bits", [3, 2], pick(s, 4, 7), ("float64",), "the dtype that came")
    doubles.inputs["prefixes"] = doubles.inputs["prefixes"].double()
    half = case("not integers, of 16 bits", [1, pick(g, 2, 3)], pick(s, 3, 7), ("float16",), "the dtype that came")
    half.inputs["prefixes"] = half.inputs["prefixes"].half()
    room, other = pick(s, 4, 7), "not integers, of 16 bits, the other kind"
    brief = case(other, [0, 2], room, ("bfloat16",), "the dtype that came")
    brief.inputs["prefixes"] = brief.inputs["prefixes"].bfloat16()
    truth = case("truth values", [1, 0, 1, 1][: pick(s, 2, 4)], pick(s, 3, 7), ("bool",), "the dtype that came")
    truth.inputs["prefixes"] = truth.inputs["prefixes"].bool()
    short = case("integers of 16 bits", [2, 1], pick(s, 3, 7))
    short.inputs["prefixes"] = short.inputs["prefixes"].short()
    unsigned = case("integers of 8 bits, without a sign", [3, 0, pick(g, 1, 2)], pick(s, 4, 7))
    unsigned.inputs["prefixes"] = unsigned.inputs["prefixes"].to(torch.uint8)
    both, n, most = "the prefix and the length", pick(g, 5, 8), pick(g, 11, 19)
    below, room, full = -pick(g, 2, 9), pick(s, 6, 11), pick(s, 3, 8)
    return [
        case("small", [1], 3),
        case("batch", [2, 0, 3], 4),
        case("all of it", [3, 2], 3),
        case("square", [2, 1, 0], 3),
        case("longer", [pick(g, 3, n), pick(g, 0, 4)], n),
        case("one for each of some", [pick(g, 0, 4) for _ in range(pick(g, 3, 5))], pick(g, 4, 6)),
        short,
        unsigned,
        case("too long", [2, most], n, (str(most), str(n)), both),
        case("too long by one", [full + 1], full, (str(full + 1), str(full)), both),
        case("too long, not the last", [1, most, 2], n, (str(most), str(n)), both),
        case("negative", [1, below], room, (str(below),), "the prefix"),
        case("negative, not the last", [below, room, 5], room, (str(below),), "the prefix"),
        case("negative by one", [3, -1, 2], pick(s, 4, 9), ("-1",), "the prefix"),
        floats,
        doubles,
        half,
        brief,
        truth,
    ]


def prefix(prefixes: Tensor, length: int) -> Tensor:
    """Return the right mask, or say what is wrong."""
    if prefixes.dtype.is_floating_point or prefixes.dtype.is_complex or prefixes.dtype == torch.bool:
        raise TypeError(f"prefixes must be integers, got {prefixes.dtype}")
    for number in prefixes.tolist():
        if not 0 <= number <= length:
            raise ValueError(f"a prefix must be between 0 and the length {length}, got {number}")
    return _prefix(prefixes, length)


def _prefix(prefixes: Tensor, length: int) -> Tensor:
    return _tril(length, length) | (torch.arange(length) < prefixes[:, None])[:, None, None, :]


def prefix_by_loop(prefixes: Tensor, length: int) -> Tensor:
    """Return the same, sentence by sentence."""
    if "int" not in str(prefixes.dtype):
        raise TypeError(f"want integers, got {prefixes.dtype}")
    if prefixes.min() < 0 or prefixes.max() > length:
        raise ValueError(f"{prefixes.tolist()} isn't between 0 and {length}")
    masks = torch.ones(len(prefixes), 1, length, length).tril().bool()
    for mask, number in zip(masks, prefixes, strict=True):
        mask[:, :, : int(number)] = True
    return masks


def prefix_by_reach(prefixes: Tensor, length: int) -> Tensor:
    """Return the same, from how many keys each query sees."""
    prefix(prefixes, length)
    reach = torch.maximum(prefixes[:, None], torch.arange(1, length + 1))  # how many keys each query sees
    return (torch.arange(length) < reach[..., None]).unsqueeze(1)


def _too_long_only(prefixes: Tensor, length: int) -> Tensor:
    prefix(prefixes[:0], length)
    if prefixes.max() > length:
        raise ValueError(f"{int(prefixes.max())} is more than {length}")
    return _prefix(prefixes, length)


def _by_dtype(refused: Callable[[Tensor], bool]) -> Callable[[Tensor, int], Tensor]:
    """Return the right answer, but that the dtype is judged otherwise."""

    def answer(prefixes: Tensor, length: int) -> Tensor:
        if refused(prefixes):
            raise TypeError(f"prefixes must be integers, got {prefixes.dtype}")
        return prefix(prefixes.long(), length)

    return answer


def _below(prefixes: Tensor, length: int) -> Tensor:
    return (torch.arange(length) < prefixes[:, None])[:, None]


PREFIX_WRONG = [
    Mistake(
        "prefix only",
        "Only the prefix is visible. After it, each position also sees the positions up to its own: |.",
        guarded(prefix, lambda p, n: _below(p, n)[:, :, None].expand(-1, 1, n, -1)),
        0.25,
    ),
    Mistake(
        "and for or",
        "The masks are combined by &: only what is in the prefix and not later. One of the two is enough: |.",
        guarded(prefix, lambda p, n: _tril(n, n) & _below(p, n)[:, :, None]),
        0.25,
    ),
    Mistake(
        "causal only",
        "This is the causal mask: the prefix doesn't see all of itself.",
        guarded(prefix, lambda p, n: _tril(n, n).expand(len(p), 1, -1, -1)),
        0.25,
    ),
    Mistake(
        "the prefix sees all",
        "The rows of the prefix are True: its queries see the whole sentence, answer and all. It's the columns of the "
        "prefix that everybody sees.",
        guarded(prefix, lambda p, n: _tril(n, n) | _below(p, n)[..., None]),
        0.5,
    ),
    Mistake(
        "one too many",
        "The prefix is one position too long: a prefix of p is positions 0 to p - 1.",
        guarded(prefix, lambda p, n: _prefix(p + 1, n)),
        0.5,
    ),
    Mistake(
        "one prefix for all",
        "The first prefix is used for all sentences. Each has its own.",
        guarded(prefix, lambda p, n: _prefix(p[:1], n).expand(len(p), -1, -1, -1)),
        0.5,
    ),
    Mistake(
        "the longest prefix for all",
        "The longest prefix is used for all sentences: others see beyond their own.",
        guarded(prefix, lambda p, n: _prefix(p.max().expand(len(p)), n)),
        0.5,
    ),
    Mistake(
        "no axis for the heads",
        "The values are right, but the shape is [batch query key]. Give the heads an axis of size 1.",
        guarded(prefix, lambda p, n: _prefix(p, n)[:, 0]),
        0.5,
    ),
    Mistake(
        "True hides",
        "True and False are exchanged: in this book True means may attend.",
        guarded(prefix, lambda p, n: ~_prefix(p, n)),
        0.5,
    ),
    Mistake(
        "nothing checked",
        "Nothing is checked: prefixes that don't fit are cut off in silence.",
        _prefix,
        0.5,
    ),
    Mistake(
        "negative let through",
        "Prefixes that are too long are refused, but negative ones aren't.",
        _too_long_only,
        0.75,
    ),
    Mistake(
        "truth values let through",
        "True and False pass for prefixes of 1 and 0. torch.bool isn't a dtype of floating point, but it isn't one of "
        "integers, either: raise TypeError.",
        _by_dtype(lambda p: p.is_floating_point()),
        0.75,
    ),
    Mistake(
        "only two dtypes allowed",
        "Prefixes of int16 or uint8 are refused. These are integers, too, as good as int32 and int64.",
        _by_dtype(lambda p: p.dtype not in (torch.int32, torch.int64)),
        0.75,
    ),
    Mistake(
        "assert",
        "Errors are raised by assert. Python leaves assertions out when run with -O: raise TypeError or ValueError.",
        with_errors(prefix, lambda error: AssertionError(str(error))),
        0.5,
    ),
    Mistake(
        "ValueError for the dtype",
        "A wrong dtype raises ValueError. By Python's custom that's for a wrong value; a wrong type is a TypeError.",
        with_errors(prefix, lambda error: ValueError(str(error))),
        0.75,
    ),
    Mistake(
        "errors that don't tell",
        "The errors are of the right kinds, but their texts lack the numbers, or the dtype, that came.",
        with_errors(prefix, lambda error: type(error)("wrong prefixes")),
        0.75,
    ),
]


PROBES = [
    Probe(
        id="5.1",
        title="the causal mask, with a past",
        kind="function",
        entry="causal_mask",
        points=3,
        minutes=8,
        difficulty=1,
        cases=causal_cases,
        reference=causal,
        right={"pair by pair": causal_by_loop, "positions compared": causal_by_comparison},
        wrong=CAUSAL_WRONG,
        replaces="masks.causal_mask",
    ),
    Probe(
        id="5.2",
        title="future and padding, both hidden",
        kind="function",
        entry="decoder_mask",
        points=4,
        minutes=12,
        difficulty=2,
        cases=decoder_cases,
        reference=decoder,
        right={"pair by pair": decoder_by_loop, "a product of numbers": decoder_by_product},
        wrong=DECODER_WRONG,
    ),
    Probe(
        id="5.3",
        title="a mask that hides the words",
        kind="bug",
        entry="padded_attention",
        points=4,
        minutes=12,
        difficulty=2,
        cases=polarity_cases,
        reference=hidden,
        right={"padding cut off": hidden_by_sentence, "the broken one, mended": hidden_by_adding},
        wrong=POLARITY_WRONG,
    ),
    Probe(
        id="5.4",
        title="a window with sinks",
        kind="function",
        entry="sink_mask",
        points=4,
        minutes=12,
        difficulty=2,
        cases=window_cases,
        reference=window,
        right={"pair by pair": window_by_loop, "triangles": window_by_triangles},
        wrong=WINDOW_WRONG,
    ),
    Probe(
        id="5.5",
        title="several sentences in one row",
        kind="function",
        entry="packed_mask",
        points=5,
        minutes=15,
        difficulty=3,
        cases=packed_cases,
        reference=packed,
        right={"pair by pair": packed_by_loop, "blocks": packed_by_blocks},
        wrong=PACKED_WRONG,
    ),
    Probe(
        id="5.6",
        title="a prefix for each sentence",
        kind="error",
        entry="prefix_masks",
        points=5,
        minutes=15,
        difficulty=2,
        cases=prefix_cases,
        reference=prefix,
        right={"sentence by sentence": prefix_by_loop, "by how far each query sees": prefix_by_reach},
        wrong=PREFIX_WRONG,
    ),
]


QUESTIONS = [
    Question(
        id="5.7",
        title="minus infinity, or a large number",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "what differs in a row where something is allowed", "nothing, as long as the number is large enough"),
            (1, "what differs in a row where nothing is allowed", "NaN with -inf, equal weights with a finite number"),
            (1, "what half precision does to -1e9", "it isn't a float16 (largest 65,504): -inf, and masks added twice"),
            (1, "what a mask should do then, and how to test it", "zero weights; a test with an empty row, gradients"),
        ),
    ),
    Question(
        id="5.8",
        title="too good to be true",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "what the model has learnt instead", "to copy the next token, which it sees"),
            (1, "why the validation loss doesn't show it", "it leaks there in the same way: the target is the input"),
            (1, "how it shows when text is generated", "there is no next token to copy: nonsense or repetition"),
            (1, "a test that needs no training", "change a later token: earlier outputs may not change; or gradients"),
        ),
    ),
]
