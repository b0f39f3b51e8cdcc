"""Small models and sources that several test files decode, observe or train."""

import torch

from transformer_lib.data import PADDING
from transformer_lib.model import Transformer, TransformerConfig

SOURCE = torch.tensor([[5, 6, 4, 7, 8], [8, 4, PADDING, PADDING, PADDING], [9, 9, 6, PADDING, PADDING]])


def tiny_model(seed: int = 0, sharpness: float = 3.0, **changes: object) -> Transformer:
    """Return a model in evaluation mode; the sharper, the more its next tokens differ in probability."""
    torch.manual_seed(seed)
    sizes = {"vocabulary": 10, "d_model": 16, "heads": 2, "d_ff": 24, "layers": 2, "dropout": 0.1, "max_length": 20}
    model = Transformer(TransformerConfig(**(sizes | changes)))
    with torch.no_grad():
        model.embedding.table *= sharpness
    return model.eval()
