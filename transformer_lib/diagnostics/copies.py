"""Copies of a model to try things on, so that the model itself stays as it is."""

import copy

import torch
from torch import Tensor, nn

from transformer_lib.diagnostics.subject import Subject


def stirred(subject: Subject) -> Subject | None:
    """Return the subject with a copy of its model in which matrices of nothing but 0 are drawn; None if it has none.

    Maps that start at 0 on purpose (an output map, a branch, LoRA's second map) let nothing through for one step only.
    """
    if not any(p.dim() > 1 and p.requires_grad and not p.any() for p in subject.model.parameters()):
        return None
    other = copy.copy(subject)
    other.model = twin(subject.model)
    generator = torch.Generator().manual_seed(4)
    for p in other.model.parameters():
        if p.dim() > 1 and not p.any():
            p.data = (0.02 * torch.randn(p.shape, generator=generator)).to(p)
    return other


def twin(model: nn.Module) -> nn.Module:
    """Return a copy of a model that shares nothing with it; what it keeps of earlier runs loses its gradient."""
    kept = [value for module in model.modules() for value in vars(module).values() if isinstance(value, Tensor)]
    memo = {id(value): value.detach().clone() for value in kept if not value.is_leaf}
    return copy.deepcopy(model, memo).eval()
