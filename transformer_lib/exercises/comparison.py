"""What was expected and what came, as text: the part of it that holds the largest difference, in enough digits."""

from typing import Any

import torch
from torch import Tensor

from transformer_lib.exercises import values
from transformer_lib.exercises.declared import Case, Outcome

LENGTH = 200  # characters of a text that is no table
LEADING = ("batch", "head")  # what the axes before the last two are called


def compared(got: Outcome, wanted: Outcome, case: Case) -> tuple[str, list[str]]:
    """Return which part is shown (", batch 1, head 0", or nothing), and the lines of both outcomes."""
    value, target, part = differing(got.value, wanted.value)
    places, first = [part] if part else [], (0, 0)
    if comparable(value, target) and target.numel():
        *place, row, column = (0, 0, *_worst(value, target))[-max(target.dim(), 2) :]
        value, target = value[tuple(place)], target[tuple(place)]
        places += [_named(tuple(place))] if place else []
        first, window = _window(target, row, column)
        places += window
    elif isinstance(target, Tensor) and max(x.dim() for x in (value, target) if isinstance(x, Tensor)) > 2:
        places.append("of which the first batch is shown")
    texts = _texts(value, target, first)
    if wanted.errors:
        texts[0] = wanted_error(wanted, case)
    if got.errors:
        texts[1] = f"{got.errors[0]}: {got.message}".rstrip(": ")
    return "".join(f", {place}" for place in places), [f"  expected  {texts[0]}", f"  got       {texts[1]}"]


def _texts(value: Any, target: Any, first: tuple[int, int]) -> list[str]:
    """Return the texts of what was wanted and of what came, unlike each other if that can be done."""
    if not isinstance(target, Tensor):
        return _cut([_shown(target, 3, first), _shown(value, 3, first)])
    for decimals in range(3, 8):
        texts = [_shown(target, decimals, first), _shown(value, decimals, first)]
        if texts[0] != texts[1] or not comparable(value, target):
            break
    return texts


def _cut(texts: list[str]) -> list[str]:
    """Return the texts, of long ones the part in which they differ."""
    alike = next((n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, alike - LENGTH // 2) if alike >= LENGTH else 0
    cut = [text[start : start + LENGTH] for text in texts]
    return [
        ("... " if start else "") + (part if text.endswith(part) else part[: part.rfind(" ") + 1] + "...")
        for text, part in zip(texts, cut, strict=True)
    ]


def _window(table: Tensor, *place: int) -> tuple[tuple[int, int], list[str]]:
    """Return the row and the column with which to begin so that a place is shown, and the words that say so."""
    sizes = (1, 1, *table.shape)[-2:]
    first = [
        0 if at < values.SHOWN else max(0, min(at - values.SHOWN // 2, size - values.SHOWN))
        for at, size in zip(place, sizes, strict=True)
    ]
    names = ("row", "column" if table.dim() > 1 else "number")
    words = [
        f"{name}s {start} to {min(start + values.SHOWN, size) - 1}"
        for name, start, size in zip(names, first, sizes, strict=True)
        if start
    ]
    found = [f"{name} {at}" for name, at in zip(names, place, strict=True)][-max(table.dim(), 1) :]
    return (first[0], first[1]), words + ([f"differing most at {', '.join(found)}"] if words else [])


def wanted_error(wanted: Outcome, case: Case) -> str:
    """Return what an error should be and say: "ValueError, whose text holds both shapes: [2, 3] and [4]"."""
    words = " and ".join(f"[{word}]" if ", " in word else word for word in case.mentions)
    told = ": ".join(text for text in (case.telling, words) if text)
    return f"{wanted.errors[0]}, whose text holds {told or 'what is wrong'}"


def differing(got: Any, wanted: Any) -> tuple[Any, Any, str]:
    """Return the values, or of two tuples of one length the first parts that differ, with their name."""
    if isinstance(got, list | tuple) and isinstance(wanted, tuple) and len(got) == len(wanted):
        for number, (one, other) in enumerate(zip(got, wanted, strict=True)):
            if not values.same(one, other, 1e-4):
                return one, other, f"part {number} of what you return"
    return got, wanted, ""


def comparable(value: Any, target: Any) -> bool:
    """Tell whether two values are tensors of one shape and kind, so that their numbers can be compared."""
    return isinstance(target, Tensor) and values.same_kind(value, target) and value.shape == target.shape


def described(value: Any) -> str:
    """Return what a value is: "a tensor of shape [2, 3]", "a list"."""
    if value is None:
        return "None"
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else a(type(value).__name__)


def a(word: str) -> str:
    """Return the word behind its article: "a list", "an int"."""
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _worst(got: Tensor, wanted: Tensor) -> tuple[int, ...]:
    """Return where the largest difference stands."""
    gap = (got.detach().double() - wanted.double()).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    gap[got == wanted] = 0.0
    return tuple(int(i) for i in torch.unravel_index(gap.argmax(), gap.shape))


def _named(place: tuple[int, ...]) -> str:
    if len(place) > len(LEADING):
        return f"batch {', '.join(map(str, place))}"
    return ", ".join(f"{name} {index}" for name, index in zip(LEADING, place, strict=False))


def _shown(value: Any, decimals: int, first: tuple[int, int]) -> str:
    if isinstance(value, Tensor) and not value.is_complex():
        return values.shown(value, " " * 12, decimals, first)
    if isinstance(value, list | tuple) and any(isinstance(part, Tensor) for part in value):
        return f"{len(value)} parts: {', '.join(described(part) for part in value)}"
    return _plain(value)


def _plain(value: Any) -> str:
    """Return a value's text on one line; a tuple's is a list's, since either will do."""
    if isinstance(value, list | tuple) and not any(isinstance(part, Tensor) for part in value):
        return f"[{', '.join(_plain(part) for part in value)}]"
    return " ".join(repr(value).split())
