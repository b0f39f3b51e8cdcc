"""The whole Transformer: equal to one assembled from torch's parts, and true to what a translator must not do."""

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from transformer_lib import config, fast, model, positional, relative, training

CONFIG = model.TransformerConfig(vocabulary=11, d_model=12, heads=3, d_ff=20, layers=2, dropout=0.0, max_length=16)
ABSOLUTE = [("pre", "sinusoidal", 0), ("post", "learned", 0), ("pre", "learned", 3), ("pre", "none", 0)]
SCHEMES = {
    "rotary": relative.RotaryPositions,
    "alibi": relative.LinearBias,
    "shaw": relative.ShawPositions,
    "t5": relative.BucketBias,
}
RELATIVE = [("pre", "rotary", 3), ("post", "alibi", 0), ("pre", "shaw", 0), ("post", "t5", 0)]
KINDS = [*ABSOLUTE, *RELATIVE]


def each(kinds: list[tuple[str, str, int]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: "-".join(map(str, kind)))


kinds = each(KINDS)


def transformer(kind: tuple[str, str, int] = KINDS[0], **changes: object) -> model.Transformer:
    """Return the same model for the same arguments."""
    norm, positions, padding = kind
    torch.manual_seed(7)
    made = model.Transformer(replace(CONFIG, norm=norm, positions=positions, padding=padding, **changes)).double()
    twins.randomise(made)
    return made.eval()


def tokens(seed: int, *shape: int) -> Tensor:
    """Return ids of real tokens: from 4 up, so that neither 0 nor 3 comes in as padding by chance."""
    return torch.randint(4, CONFIG.vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def assembled(ours: model.Transformer) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the same translator made of `torch.nn` alone, with our weights."""
    c = ours.config
    theirs = nn.Transformer(
        c.d_model, c.heads, c.layers, c.layers, c.d_ff, 0.0, batch_first=True, norm_first=c.norm == "pre"
    ).double()
    if c.norm == "post":
        theirs.encoder.norm = theirs.decoder.norm = None
    twins.copy_stack(ours.encoder, theirs.encoder)
    twins.copy_stack(ours.decoder, theirs.decoder)
    table = ours.embedding.table
    positions = torch.zeros(c.max_length, c.d_model, dtype=torch.float64)
    if c.positions == "learned":
        positions = ours.embedding.learned.table
    elif c.positions == "sinusoidal":
        positions = positional.sinusoidal_positions(c.max_length, c.d_model).double()

    def logits(source: Tensor, target: Tensor) -> Tensor:
        embedded = (table[t] * math.sqrt(c.d_model) + positions[: t.size(1)] for t in (source, target))
        future = nn.Transformer.generate_square_subsequent_mask(target.size(1)) < 0
        padding = source == c.padding
        vectors = theirs(*embedded, None, future, src_key_padding_mask=padding, memory_key_padding_mask=padding)
        return vectors @ table.T

    return logits


@each(ABSOLUTE)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_agrees_with_a_translator_made_of_torchs_parts(kind):
    ours = transformer(kind)
    theirs = assembled(ours)
    source, target = tokens(1, 3, 7), tokens(2, 3, 5)
    source[1, 4:] = kind[2]
    mine, other = ours(source, target), theirs(source, target)
    torch.testing.assert_close(mine, other)
    gradients = zip(*(twins.gradients(y, [ours.embedding.table]) for y in (mine, other)), strict=True)
    for a, b in gradients:
        torch.testing.assert_close(a, b)


@kinds
@settings(max_examples=5)
@given(seed=st.integers(0, 99), length=st.integers(2, 6), data=st.data())
def test_changing_the_future_changes_nothing_before_it(kind, seed, length, data):
    ours = transformer(kind)
    source, target = tokens(seed, 2, 5), tokens(seed + 1, 2, length)
    change = data.draw(st.integers(1, length - 1))
    changed = target.clone()
    changed[:, change:] = 4 + (changed[:, change:] - 3) % 7  # every one another
    before, after = ours(source, target), ours(source, changed)
    torch.testing.assert_close(after[:, :change], before[:, :change])
    assert not torch.isclose(after[:, change:], before[:, change:]).all(-1).any()


@kinds
@settings(max_examples=5)
@given(
    seed=st.integers(0, 99), lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=2, max_size=3)
)
def test_padding_changes_nothing(kind, seed, lengths):
    ours, padding = transformer(kind), kind[2]
    pairs = [(tokens(seed + i, n), tokens(seed - i, m)) for i, (n, m) in enumerate(lengths)]
    sources, targets = (
        nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding) for rows in zip(*pairs, strict=True)
    )
    logits = ours(sources, targets)
    for row, (source, target) in enumerate(pairs):
        alone = ours(source.unsqueeze(0), target.unsqueeze(0))
        torch.testing.assert_close(logits[row : row + 1, : len(target)], alone)


def test_an_id_of_0_is_a_token_where_padding_has_another_id():
    ours = transformer(("pre", "sinusoidal", 3))
    source, target = tokens(1, 1, 4), tokens(2, 1, 3)
    with_zero = torch.cat([source, torch.zeros(1, 1, dtype=torch.int64)], dim=1)
    assert not torch.allclose(ours(with_zero, target), ours(source, target))


@kinds
def test_a_source_of_nothing_but_padding_gives_finite_numbers(kind):
    ours = transformer(kind)
    logits = ours(torch.full((2, 3), kind[2]), tokens(1, 2, 4))
    assert logits.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in twins.gradients(logits, [ours.embedding.table]))


def test_samples_do_not_mix():
    ours = transformer()
    source, target = tokens(1, 3, 5), tokens(2, 3, 4)
    changed_source, changed_target = source.clone(), target.clone()
    changed_source[1], changed_target[1] = 5, 6
    before, after = ours(source, target), ours(changed_source, changed_target)
    torch.testing.assert_close(after[[0, 2]], before[[0, 2]])
    assert not torch.allclose(after[1], before[1])


@kinds
@pytest.mark.parametrize(("sources", "targets"), [(1, 6), (6, 1), (5, 3)])
def test_source_and_target_may_differ_in_length(kind, sources, targets):
    logits = transformer(kind)(tokens(1, 2, sources), tokens(2, 2, targets))
    assert logits.shape == (2, targets, CONFIG.vocabulary)


def test_the_first_prediction_depends_on_every_source_token():
    ours = transformer()
    source, target = tokens(1, 1, 5), tokens(2, 1, 1)
    before = ours(source, target)
    for position in range(5):
        changed = source.clone()
        changed[0, position] = 4 + (changed[0, position] - 3) % 7
        assert not torch.allclose(ours(changed, target), before)


@each([kind for kind in KINDS if kind[1] not in ("none", "alibi")])
def test_order_matters_in_source_and_target(kind):
    ours = transformer(kind)
    source, target = torch.tensor([[4, 5, 6]]), torch.tensor([[7, 8, 9]])
    last = ours(source, target)[:, -1]
    assert not torch.allclose(ours(source[:, [1, 0, 2]], target)[:, -1], last)
    assert not torch.allclose(ours(source, target[:, [1, 0, 2]])[:, -1], last)


@kinds
@settings(max_examples=5)
@given(seed=st.integers(0, 99), sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_cached_decoding_agrees_with_uncached_at_every_step(kind, seed, sizes):
    ours = transformer(kind)
    source, target = tokens(seed, 2, 5), tokens(seed + 1, 2, sum(sizes))
    source[0, 3:] = kind[2]
    memory = ours.encode(source)
    caches = ours.decoder.new_caches()
    done = 0
    for part in target.split(sizes, dim=1):
        done += part.size(1)
        cached = ours.decode(part, memory, source, caches)
        whole = ours.decode(target[:, :done], memory, source)
        torch.testing.assert_close(cached, whole[:, -part.size(1) :])


def test_selected_rows_of_the_caches_go_on_as_those_sentences():
    ours = transformer()
    source, target, rows = tokens(1, 3, 5), tokens(2, 3, 4), torch.tensor([2, 0, 0])
    caches = ours.decoder.new_caches()
    ours.decode(target[:, :3], ours.encode(source), source, caches)
    for pair in caches:
        for cache in pair:
            cache.select(rows)
    memory = ours.encode(source[rows])
    cached = ours.decode(target[rows, 3:], memory, source[rows], caches)
    torch.testing.assert_close(cached, ours.decode(target[rows], memory, source[rows])[:, 3:])


def test_logits_are_the_decoders_vectors_times_the_embedding():
    ours = transformer()
    source, target = tokens(1, 2, 5), tokens(2, 2, 4)
    vectors = ours.decode(target, ours.encode(source), source)
    torch.testing.assert_close(ours(source, target), vectors @ ours.embedding.table.T)


def test_without_positions_the_source_is_a_set():
    ours = transformer(("pre", "none", 0))
    source, target = torch.tensor([[4, 5, 6]]), torch.tensor([[7, 8, 9]])
    torch.testing.assert_close(ours(source[:, [1, 0, 2]], target), ours(source, target))


def test_linear_biases_alone_cannot_tell_a_source_from_its_mirror_image():
    ours = transformer(("pre", "alibi", 0))
    source, target = torch.tensor([[4, 5, 6, 7]]), torch.tensor([[7, 8, 9]])
    torch.testing.assert_close(ours(source.flip(1), target), ours(source, target))
    assert not torch.allclose(ours(source[:, [1, 0, 2, 3]], target), ours(source, target))


@kinds
def test_a_shift_of_the_whole_source_counts_with_absolute_positions_alone(kind):
    ours, source = transformer(kind), tokens(1, 2, 4)
    shifted = torch.cat([torch.full((2, 3), kind[2]), source], dim=1)
    memory, other = ours.encode(source), ours.encode(shifted)[:, 3:]
    assert torch.allclose(other, memory) == (kind[1] not in ("sinusoidal", "learned"))


def self_attentions(ours: model.Transformer) -> tuple[list[nn.Module], list[nn.Module]]:
    """Return the schemes of the encoder's self-attentions and of the decoder's."""
    stacks = (ours.encoder.layers, ours.decoder.layers)
    return tuple([layer.self_attention.position for layer in stack] for stack in stacks)


@pytest.mark.parametrize("positions", config.POSITIONS)
def test_each_self_attention_has_a_scheme_of_its_own_and_cross_attention_none(positions):
    ours = transformer(("pre", positions, 0))
    encoder, decoder = self_attentions(ours)
    wanted = SCHEMES.get(positions, positional.PositionScheme)
    assert {type(scheme) for scheme in encoder + decoder} == {wanted}
    assert len({id(scheme) for scheme in encoder + decoder}) == 2 * CONFIG.layers
    cross = [layer.cross_attention.position for layer in ours.decoder.layers]
    assert {type(scheme) for scheme in cross} == {positional.PositionScheme}
    causal = [scheme.causal_only for scheme in encoder + decoder]
    assert causal == [False] * CONFIG.layers + [positions == "t5"] * CONFIG.layers


@each(RELATIVE)
def test_a_scheme_changes_what_the_model_says(kind):
    ours, without = transformer(kind), transformer((kind[0], "none", kind[2]))
    names = without.load_state_dict(ours.state_dict(), strict=False)
    assert names.missing_keys == [] and all(name.endswith("position.table") for name in names.unexpected_keys)
    source, target = tokens(1, 2, 5), tokens(2, 2, 4)
    assert not torch.allclose(ours(source, target), without(source, target))


@kinds
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_the_fast_forms_and_half_precision_change_a_model_by_rounding_only(kind, precision):
    ours, source, target = transformer(kind).float(), tokens(1, 2, 5), tokens(2, 2, 4)
    source[1, 3:] = kind[2]
    parameters = list(ours.parameters())
    exact = ours(source, target)
    with training.autocast("cpu", precision):
        clear = ours(source, target).float()
        with fast.enabled():
            quick = ours(source, target).float()
    near = 1e-4 if precision == torch.float32 else 0.04
    gradients = [torch.cat([g.flatten() for g in twins.gradients(y, parameters)]) for y in (exact, clear, quick)]
    for logits, gradient in ((clear, gradients[1]), (quick, gradients[2])):
        assert (logits - exact).norm() < near * exact.norm()
        assert (gradient - gradients[0]).norm() < 4 * near * gradients[0].norm()


def test_the_default_models_weights_keep_their_names():
    names = set(model.Transformer(model.TransformerConfig(vocabulary=9)).state_dict())
    attention = [f"{part}.weight" for part in ("query", "key", "value", "output")]
    rest = [f"feed_forward.{part}.{kind}" for part in ("inner", "outer") for kind in ("weight", "bias")]
    norms = ["weight", "bias"]
    expected = {"embedding.table"} | {f"{stack}.norm.{n}" for stack in ("encoder", "decoder") for n in norms}
    for layer in range(4):
        for stack, attentions in (("encoder", ["self"]), ("decoder", ["self", "cross"])):
            start = f"{stack}.layers.{layer}"
            expected |= {f"{start}.{which}_attention.{part}" for which in attentions for part in attention}
            expected |= {f"{start}.{part}" for part in rest}
            expected |= {f"{start}.residuals.{i}.norm.{n}" for i in range(len(attentions) + 1) for n in norms}
    assert names == expected


def test_a_configuration_can_be_made_from_what_older_files_hold():
    old = {"vocabulary": 5000, "d_model": 128, "heads": 4, "d_ff": 256, "layers": 4, "dropout": 0.1, "norm": "pre"}
    old |= {"positions": "sinusoidal", "max_length": 256, "padding": 0}
    assert model.TransformerConfig(**old) == model.TransformerConfig(vocabulary=5000)


@pytest.mark.parametrize("positions", ["none", *SCHEMES])
def test_without_absolute_positions_an_embedding_is_the_same_everywhere(positions):
    embedding = transformer(("pre", positions, 0)).embedding
    ids = tokens(1, 2, 4)
    torch.testing.assert_close(embedding(ids, first=3), embedding.table[ids] * math.sqrt(CONFIG.d_model))
    assert [name for name, _ in embedding.named_parameters()] == ["table"] and not list(embedding.buffers())


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_embeddings_are_scaled_and_stand_at_their_positions(positions):
    embedding = transformer(("pre", positions, 0)).embedding
    ids = tokens(1, 2, 4)
    table = embedding.learned.table if positions == "learned" else embedding.sinusoids
    expected = embedding.table[ids] * math.sqrt(CONFIG.d_model) + table[3:7]
    torch.testing.assert_close(embedding(ids, first=3), expected)
    assert embedding(torch.full((1, 16), 5)).size(1) == CONFIG.max_length


def test_scaled_embeddings_start_about_as_large_as_sinusoids():
    embedding = model.Embedding(replace(CONFIG, vocabulary=500, d_model=64, heads=4))
    tokens_size = (embedding.table * 8).square().mean().sqrt().item()
    assert tokens_size == pytest.approx(1, abs=0.05)
    assert embedding.sinusoids.square().mean().sqrt().item() == pytest.approx(0.5**0.5, abs=0.01)


def test_source_target_and_output_share_one_table():
    ours = model.Transformer(CONFIG)
    shapes = [tuple(p.shape) for p in ours.parameters()]
    assert shapes.count((CONFIG.vocabulary, CONFIG.d_model)) == 1


def test_the_number_of_parameters_is_what_the_sizes_say():
    c = CONFIG
    attention, feed_forward, norm = 4 * c.d_model**2, 2 * c.d_model * c.d_ff + c.d_ff + c.d_model, 2 * c.d_model
    encoder = c.layers * (attention + feed_forward + 2 * norm) + norm
    decoder = c.layers * (2 * attention + feed_forward + 3 * norm) + norm
    expected = encoder + decoder + c.vocabulary * c.d_model
    assert sum(p.numel() for p in model.Transformer(c).parameters()) == expected


def test_weights_start_from_glorots_bounds_and_embeddings_from_theirs():
    ours = model.Transformer(replace(CONFIG, d_model=64, heads=4, d_ff=128, vocabulary=400))
    bound = math.sqrt(6 / (64 + 128))
    inner = ours.encoder.layers[0].feed_forward.inner.weight
    assert 0.98 * bound < inner.abs().max() <= bound
    assert ours.embedding.table.std().item() == pytest.approx(64**-0.5, rel=0.03)


def test_dropout_falls_in_training_alone():
    ours = model.Transformer(replace(CONFIG, dropout=0.3))
    source, target = tokens(1, 2, 5), tokens(2, 2, 4)
    assert not ours(source, target).equal(ours(source, target))
    ours.eval()
    assert ours(source, target).equal(ours(source, target))


def test_sinusoids_are_computed_not_stored():
    ours = model.Transformer(CONFIG)
    assert not any("sinusoids" in name for name in ours.state_dict())
    assert "sinusoids" in dict(ours.embedding.named_buffers())


@pytest.mark.cuda
def test_the_gpu_gives_the_same_logits():
    ours, source, target = transformer(), tokens(1, 2, 5), tokens(2, 2, 4)
    expected = ours(source, target)
    torch.testing.assert_close(ours.cuda()(source.cuda(), target.cuda()).cpu(), expected)


def test_a_configuration_cannot_change_and_takes_names_only():
    with pytest.raises(FrozenInstanceError):
        CONFIG.heads = 4
    with pytest.raises(TypeError):
        model.TransformerConfig(11, 12, 3)
    assert replace(CONFIG) == CONFIG and hash(CONFIG) == hash(replace(CONFIG))
