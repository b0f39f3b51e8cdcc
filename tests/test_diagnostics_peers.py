"""The doctor and the models of the transformers package, from tiny configurations: healthy ones get nothing but notes.

The package is one of the benchmarks' peers (`make bench` installs them); without it this file isn't collected.
"""

import pytest
import torch
from test_diagnostics_more import WORDS, padded, seeded  # noqa: F401  the last one works by being there

import benchmarks.__main__  # noqa: F401  it finds the peers
from transformer_lib.diagnostics import check_model

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()

HALVES = {"layers": 2, "attention_heads": 4, "ffn_dim": 64}


def tiny(**more):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return {"vocab_size": 64, "max_position_embeddings": 40, **sizes, **more}


def test_roberta_is_healthy():
    tokens = padded(padding=1)
    model = transformers.RobertaModel(transformers.RobertaConfig(**tiny()))
    assert check_model(model, {"input_ids": tokens, "attention_mask": (tokens != 1).long()}).ids == []


def test_gpt_2_with_its_positions_given_is_healthy():
    tokens = torch.randint(5, WORDS, (3, 12))
    real = torch.ones_like(tokens)
    tokens[1, :3] = real[1, :3] = 0
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=64, n_positions=40, n_embd=32, n_layer=2, n_head=4)
    )
    places = (real.cumsum(1) - 1).clamp(min=0)
    assert check_model(model, {"input_ids": tokens, "attention_mask": real, "position_ids": places}).ids == []


def test_a_classifying_bert_is_healthy():
    tokens = padded()
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**tiny()))
    batch = {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "labels": torch.tensor([0, 1, 0])}
    assert check_model(model, batch).ids == []  # it has no map to words that could be tied


@pytest.mark.parametrize("decoder_input", [False, True], ids=["labels only", "decoder_input_ids"])
def test_t5_is_healthy(decoder_input):
    tokens, labels = padded(), padded(7)
    labels = labels.masked_fill(labels == 0, -100)
    sizes = {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    model = transformers.T5ForConditionalGeneration(
        transformers.T5Config(**sizes, decoder_start_token_id=0, pad_token_id=0)
    )
    batch = {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "labels": labels}
    if decoder_input:
        batch["decoder_input_ids"] = model._shift_right(labels)
    assert check_model(model, batch).ids == []


def test_marian_is_healthy_with_labels_only():
    tokens, labels = padded(padding=1), padded(7)
    halves = {f"{half}_{name}": size for half in ("encoder", "decoder") for name, size in HALVES.items()}
    ids = {"pad_token_id": 1, "decoder_start_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": None}
    sizes = {"vocab_size": 64, "d_model": 32, "max_position_embeddings": 40, "scale_embedding": True}
    model = transformers.MarianMTModel(transformers.MarianConfig(**sizes, **halves, **ids))
    batch = {
        "input_ids": tokens,
        "attention_mask": (tokens != 1).long(),
        "labels": labels.masked_fill(labels == 0, -100),
    }
    assert check_model(model, batch).ids == []
