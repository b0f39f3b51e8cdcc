"""A text continued by a decoder alone: with caches as without, greedily as by chance at temperature 0."""

import pytest
import torch
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from transformer_lib import config, generation, sampling, siblings

CONFIG = config.TransformerConfig(vocabulary=11, d_model=12, heads=3, d_ff=20, layers=2, dropout=0.1, max_length=16)
positions = pytest.mark.parametrize("positions", config.POSITIONS)


def made(positions: str = "sinusoidal", padding: int = 0) -> siblings.DecoderOnly:
    """Return the same model for the same arguments."""
    torch.manual_seed(7)
    fields = vars(CONFIG) | {"positions": positions, "padding": padding}
    ours = siblings.DecoderOnly(config.TransformerConfig(**fields)).double()
    twins.randomise(ours)
    return ours.eval()


def prompts(seed: int, *shape: int) -> Tensor:
    return torch.randint(1, CONFIG.vocabulary, shape, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def without_caches(model: siblings.DecoderOnly, prompt: Tensor, count: int, choose, prefix: int = 0) -> list[list[int]]:
    """Read the whole text anew at every step."""
    tokens = prompt
    for _ in range(count):
        logits = model(tokens, prefix)[:, -1]
        logits[:, model.config.padding] = -torch.inf
        tokens = torch.cat([tokens, choose(logits)], dim=1)
    return tokens[:, prompt.size(1) :].tolist()


def likeliest(logits: Tensor) -> Tensor:
    return logits.argmax(dim=-1, keepdim=True)


@positions
@given(seed=st.integers(0, 99), length=st.integers(1, 5), count=st.integers(1, 6), data=st.data())
@settings(max_examples=4)
def test_greedily_it_says_with_caches_what_it_says_without(positions, seed, length, count, data):
    ours, prompt = made(positions), prompts(seed, 3, length)
    prefix = data.draw(st.integers(0, length))
    found = generation.continue_greedily(ours, prompt, count, prefix=prefix)
    assert found == without_caches(ours, prompt, count, likeliest, prefix)


@given(seed=st.integers(0, 99), count=st.integers(1, 6))
def test_by_chance_it_says_with_caches_what_it_says_without(seed, count):
    ours, prompt, options = made(), prompts(seed, 3, 4), {"temperature": 1.5, "k": 6, "p": 0.9}
    one, other = (torch.Generator().manual_seed(seed) for _ in range(2))
    found = generation.continue_by_chance(ours, prompt, count, one, **options)
    assert found == without_caches(ours, prompt, count, lambda logits: sampling.draw(logits, other, **options))


@given(seed=st.integers(0, 99))
def test_each_text_is_continued_as_if_it_were_alone(seed):
    ours, prompt = made(), prompts(seed, 3, 4)
    alone = [generation.continue_greedily(ours, row.unsqueeze(0), 6, end=5)[0] for row in prompt]
    assert generation.continue_greedily(ours, prompt, 6, end=5) == alone


@given(seed=st.integers(0, 99), end=st.integers(1, 10))
def test_a_text_ends_before_its_first_end(seed, end):
    ours, prompt = made(), prompts(seed, 4, 3)
    endless = generation.continue_greedily(ours, prompt, 8)
    expected = [row[: row.index(end)] if end in row else row for row in endless]
    assert generation.continue_greedily(ours, prompt, 8, end=end) == expected
    assert all(len(row) == 8 for row in endless)


def test_at_temperature_0_chance_is_greedy_and_the_global_generator_is_left_alone():
    ours, prompt, one = made(), prompts(1, 3, 4), torch.Generator().manual_seed(1)
    before = torch.get_rng_state()
    found = generation.continue_by_chance(ours, prompt, 5, one, temperature=0.0)
    generation.continue_by_chance(ours, prompt, 5, one)
    assert found == generation.continue_greedily(ours, prompt, 5)
    assert torch.get_rng_state().equal(before)


def test_the_same_seed_gives_the_same_texts_and_another_one_others():
    ours, prompt = made(), prompts(1, 3, 4)
    found = [generation.continue_by_chance(ours, prompt, 8, torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("padding", [0, 3])
def test_padding_is_never_said(padding):
    ours, prompt = made(padding=padding), 4 + prompts(1, 20, 2) % 7
    with torch.no_grad():
        ours.embedding.table[padding] = 20 * ours.embedding.table.abs().max()
    one = torch.Generator().manual_seed(1)
    assert padding not in sum(generation.continue_by_chance(ours, prompt, 5, one, temperature=9.0), [])


def test_a_text_may_fill_the_models_positions_to_the_last():
    ours, prompt = made(), prompts(1, 2, 4)
    assert [len(row) for row in generation.continue_greedily(ours, prompt, 13)] == [13, 13]


def test_only_new_tokens_are_read_at_each_step(monkeypatch):
    ours, lengths, decode = made(), [], siblings.DecoderOnly.decode
    monkeypatch.setattr(
        ours, "decode", lambda tokens, *more: lengths.append(tokens.size(1)) or decode(ours, tokens, *more)
    )
    generation.continue_greedily(ours, prompts(1, 2, 4), 5)
    assert lengths == [4, 1, 1, 1, 1]


@pytest.mark.cuda
def test_the_gpu_says_the_same():
    ours, prompt = made(), prompts(1, 3, 4)
    expected = generation.continue_greedily(ours, prompt, 6, end=5)
    assert generation.continue_greedily(ours.cuda(), prompt.cuda(), 6, end=5) == expected
