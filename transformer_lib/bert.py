"""BERT's encoder, and texts as vectors: what published weights need beyond `siblings.EncoderOnly` (chapter 11)."""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from transformer_lib import checks, encoder_decoder, masks, model
from transformer_lib.config import TransformerConfig
from transformer_lib.positional import LearnedPositions


class SegmentEmbedding(nn.Module):
    """Each token's vector plus its position's and its segment's, then LayerNorm and dropout; not scaled.

    Devlin et al. (2019), section 3 and Figure 2; the norm as in their code.

    Args:
        segments: number of parts that a text may have, such as two sentences.

    Raises:
        TypeError: `config` is something else, or `segments` not an integer.
        ValueError: `segments` is below 1, or the config's positions are not "learned".
    """

    def __init__(self, config: TransformerConfig, segments: int = 2) -> None:
        super().__init__()
        checks.instance(TransformerConfig, config=config)
        checks.matrix(segments=segments, d_model=config.d_model)
        checks.one_of(("learned",), positions=config.positions)
        self.config = config
        self.words = nn.Embedding(config.vocabulary, config.d_model)
        self.positions = LearnedPositions(config.max_length, config.d_model)
        self.segments = nn.Embedding(segments, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, tokens: Int[Tensor, "batch position"], segments: Int[Tensor, "batch position"] | None = None
    ) -> Float[Tensor, "batch position d_model"]:
        """Return the vectors of the tokens.

        Args:
            segments: number of each token's segment, from 0; None puts all into segment 0.

        Raises:
            TypeError: the tokens or the segments are not integers.
            ValueError: the text is too long or empty, an id is out of range, or the shapes differ.
        """
        checks.tokens(self.config.vocabulary, tokens=tokens)
        checks.enough_positions(self.config.max_length, 0, tokens.size(1))
        segments = torch.zeros_like(tokens) if segments is None else segments
        checks.tokens(self.segments.num_embeddings, segments=segments)
        if segments.shape != tokens.shape:
            raise ValueError(
                f"segments must have one number for each token, got {checks.shape(segments)} for {checks.shape(tokens)}"
            )
        vectors = self.words(tokens) + self.positions(tokens.size(1)) + self.segments(segments)
        return self.dropout(self.norm(vectors))


class TextEncoder(nn.Module):
    """A stack in which every position sees all the others, over embeddings with segments: the body of BERT.

    Devlin et al. (2019), section 3: post-norm, GELU, learnt positions, biases in the attentions. These are the
    config's: `bert_config` returns one that has them.

    Args:
        segments: number of parts that a text may have.

    Raises:
        TypeError: `config` is something else, or `segments` not an integer.
        ValueError: `segments` is below 1, or the config's positions are not "learned".
    """

    def __init__(self, config: TransformerConfig, segments: int = 2) -> None:
        super().__init__()
        self.config, self.embedding = config, SegmentEmbedding(config, segments)
        self.encoder = encoder_decoder.Encoder(model.layer_stack(encoder_decoder.EncoderLayer, config))

    def forward(
        self, tokens: Int[Tensor, "batch position"], segments: Int[Tensor, "batch position"] | None = None
    ) -> Float[Tensor, "batch position d_model"]:
        """Return one vector per token, each of which has seen all tokens that are not padding.

        Arguments and errors are those of `SegmentEmbedding.forward`.
        """
        return self.encoder(self.embedding(tokens, segments), masks.padding_mask(tokens, self.config.padding))

    def sentence_vectors(self, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "batch d_model"]:
        """Return one vector of length 1 per text, whose products are cosines: the mean over its tokens, normalised.

        Reimers & Gurevych (2019), section 3. Padding doesn't count; a text of nothing else gets zeros.

        Raises:
            TypeError: the tokens are not integers.
            ValueError: the text is too long or empty, or an id is out of range.
        """
        vectors = self(tokens)
        real = (tokens != self.config.padding).unsqueeze(-1)
        mean = (vectors * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return nn.functional.normalize(mean, dim=-1)


def bert_config(
    vocabulary: int, d_model: int, heads: int, d_ff: int, layers: int, max_length: int = 512
) -> TransformerConfig:
    """Return a config with what BERT has beside its sizes: post-norm, GELU, learnt positions, biases, dropout 0.1.

    Devlin et al. (2019), section 3 and appendix A.2; the norm's 1e-12 as in their code.

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is out of range, or they don't fit together.
    """
    sizes = {"vocabulary": vocabulary, "d_model": d_model, "heads": heads, "d_ff": d_ff, "layers": layers}
    kinds = {"norm": "post", "positions": "learned", "activation": "gelu"}
    return TransformerConfig(**sizes, **kinds, max_length=max_length, attention_bias=True, norm_eps=1e-12)


NAMES = {  # of a published BERT's parts -> of ours
    "embeddings.word_embeddings": "embedding.words",
    "embeddings.token_type_embeddings": "embedding.segments",
    "embeddings.LayerNorm": "embedding.norm",
    "encoder.layer": "encoder.layers",
    "attention.self": "self_attention",
    "attention.output.dense": "self_attention.output",
    "attention.output.LayerNorm": "residuals.0.norm",
    "intermediate.dense": "feed_forward.inner",
    "output.dense": "feed_forward.outer",
    "output.LayerNorm": "residuals.1.norm",
}


def bert_weights(published: Mapping[str, Shaped[Tensor, "..."]]) -> dict[str, Float[Tensor, "..."]]:
    """Return a published BERT's weights by the names in `TextEncoder`, for its `load_state_dict`.

    The layer over the first token (`pooler`) and the numbers of the positions have no counterpart and are left out.

    Args:
        published: names as in the checkpoints of the package transformers, with or without "bert." before them.

    Raises:
        TypeError: it is not a mapping of tensors.
        ValueError: it is not of a BERT.
    """
    checks.instance(Mapping, published=published)
    checks.instance(Tensor, **{str(name): tensor for name, tensor in published.items()})
    found = {}
    for name, tensor in published.items():
        ours = (
            str(name)
            .removeprefix("bert.")
            .replace("embeddings.position_embeddings.weight", "embedding.positions.table")
        )
        if ours.startswith("pooler.") or ours.endswith("position_ids"):
            continue
        for theirs, part in NAMES.items():
            ours = ours.replace(f"{theirs}.", f"{part}.")
        found[ours] = tensor
    if not found:
        raise ValueError("published must hold weights, got none")
    if wrong := [name for name in found if not name.startswith(("embedding.", "encoder.layers."))]:
        raise ValueError(f"published must be the weights of a BERT's encoder, got {checks.shown(wrong)}")
    return found
