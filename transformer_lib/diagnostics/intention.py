"""Whether a model is meant to predict the next word: what its caller, its batch, its masks and its name say."""

import re

import torch
from torch import Tensor

from transformer_lib.diagnostics.attentions import Attention
from transformer_lib.diagnostics.subject import Subject

CAUSAL_NAMES = r"gpt|causal|decoder|languagemodel|llama|lmhead|(?<![a-z])lm(?![a-z])"


def causal_intended(subject: Subject, attentions: list[Attention]) -> tuple[bool | None, str]:
    """Return whether the outputs must not depend on later words, None where nothing says so, and how one knows."""
    said = subject.config.get("causal")
    if said is not None:
        return bool(said), "the config says causal"
    if len(subject.sequences) > 1:
        return True, "a decoder must not see them"
    if shifted_labels(subject):
        return True, "the labels are the next words"
    if any(is_square(a) and _looks_one_way(a) for a in attentions):
        return True, "some of its masks look one way"
    if any(_is_triangle(buffer) for buffer in subject.model.buffers()):
        return True, "it holds a triangular mask"
    if "masked" not in _name(subject) and re.search(CAUSAL_NAMES, _name(subject)):
        return True, "its name says that it predicts the next word (if it doesn't, give config={'causal': False})"
    return None, ""


def _name(subject: Subject) -> str:
    name = type(subject.model).__name__
    return re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower() + " " + name.lower()


def shifted_labels(subject: Subject) -> bool:
    """Return whether the labels are the input, one word ahead."""
    labels, tokens = subject.given.labels, subject.target.tokens
    if labels is None or tokens is None or labels.dim() != 2:
        return False
    labels = labels.T if subject.target.batch_axis else labels
    if labels.shape != tokens.shape or tokens.size(1) < 3:
        return False
    real = labels[:, :-1] >= 0
    return bool(real.any()) and float((labels[:, :-1] == tokens[:, 1:])[real].float().mean()) > 0.9


def _looks_one_way(attention: Attention) -> bool:
    visible = attention.visible & (attention.used > 1e-12)
    same = visible == visible.transpose(-2, -1)
    rows = visible.any(-1)
    real = (rows & visible.any(-2)).unsqueeze(-1) & (rows & visible.any(-2)).unsqueeze(-2)
    return bool(real.any()) and float((~same & real).float().sum() / real.float().sum()) > 0.25


def _is_triangle(buffer: Tensor) -> bool:
    if buffer.dim() < 2 or buffer.size(-1) != buffer.size(-2) or buffer.size(-1) < 4 or buffer.dtype.is_complex:
        return False
    square = buffer.reshape(-1, *buffer.shape[-2:])[0]
    one = square == square[-1, 0]
    lower = torch.ones_like(one).tril()
    return bool(torch.equal(one, lower)) or bool(torch.equal(square != 0, lower.T.bool().triu(1)))


def is_square(attention: Attention) -> bool:
    """Return whether a sequence attends to itself, so that a triangle could hide later words."""
    return not attention.crosses and attention.scores.size(-1) == attention.scores.size(-2) > 2
