"""Decoding against slow oracles: recomputing every prefix, and scoring every possible target."""

import itertools
import math
from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transformer_lib import data, decoding, fast, toy, training
from transformer_lib.data import END, PADDING, START, UNKNOWN
from transformer_lib.model import Embedding, Transformer, TransformerConfig
from transformer_lib.multi_head import MultiHeadAttention

SOURCE = torch.tensor([[5, 6, 4, 7, 8], [8, 4, PADDING, PADDING, PADDING], [9, 9, 6, PADDING, PADDING]])


def random_model(seed: int, vocabulary: int = 10, sharpness: float = 2.0, **changes: object) -> Transformer:
    """Return a model whose next tokens differ and depend on the context: fresh layers would repeat the last token."""
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 1, "dropout": 0.1, "max_length": 20} | changes
    model = Transformer(TransformerConfig(vocabulary=vocabulary, **sizes))
    last = model.decoder.layers[-1].residuals[-1] if changes.get("norm") == "post" else model.decoder
    with torch.no_grad():
        for parameter in (*model.encoder.layers.parameters(), *model.decoder.layers.parameters()):
            parameter *= 3.0 if parameter.dim() > 1 else 1.0
        last.norm.weight *= sharpness
    return model.eval()


@torch.no_grad()
def next_log_probability(model: Transformer, source: Tensor, prefix: list[int]) -> Tensor:
    """Score every next token by running the whole model on the whole prefix."""
    logits = model(source.unsqueeze(0), torch.tensor([[START, *prefix]]))[0, -1]
    return logits.log_softmax(dim=-1)


def greedy_by_loop(model: Transformer, source: Tensor, longest: int) -> list[int]:
    prefix: list[int] = []
    while len(prefix) < longest:
        scores = next_log_probability(model, source, prefix)
        token = max((t for t in range(len(scores)) if t not in (PADDING, START)), key=lambda t: float(scores[t]))
        if token == END:
            break
        prefix.append(token)
    return prefix


@torch.no_grad()
def by_teacher_forcing(model: Transformer, source: Tensor, targets: list[list[int]]) -> list[float]:
    """Return the targets' log-probabilities, END included, from one pass of the whole model."""
    batch = data.Batch.from_pairs([(unpadded(source).tolist(), target) for target in targets])
    logits = model(batch.source, batch.target_input)
    of_label = logits.log_softmax(dim=-1).gather(-1, batch.labels.unsqueeze(-1)).squeeze(-1)
    return of_label.masked_fill(batch.labels == PADDING, 0.0).sum(dim=1).tolist()


def unpadded(row: Tensor) -> Tensor:
    return row[row != PADDING]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, list]:
    """Record what the model is asked for while it decodes."""
    seen: dict[str, list] = {"encode": [], "decode": [], "project": []}
    encode, decode, project = Transformer.encode, Transformer.decode, MultiHeadAttention.keys_and_values

    def counting_encode(self, source):
        seen["encode"].append(list(source.shape))
        return encode(self, source)

    def counting_decode(self, target, memory, source, caches=None):
        seen["decode"].append(list(target.shape))
        return decode(self, target, memory, source, caches)

    def counting_project(self, memory, first=0):
        seen["project"].append((self, memory.size(1)))
        return project(self, memory, first)

    monkeypatch.setattr(Transformer, "encode", counting_encode)
    monkeypatch.setattr(Transformer, "decode", counting_decode)
    monkeypatch.setattr(MultiHeadAttention, "keys_and_values", counting_project)
    return seen


# greedy


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("changes", [{"layers": 2}, {"norm": "post"}, {"positions": "learned"}], ids=str)
def test_greedy_equals_a_loop_that_recomputes_each_prefix(seed, changes):
    model = random_model(seed, **changes)
    found = decoding.greedy(model, SOURCE, max_length=8)
    assert found == [greedy_by_loop(model, unpadded(row), 8) for row in SOURCE]


def test_the_random_models_say_something():
    """The other tests compare outputs: these must differ from each other, end at times and not all at once."""
    found = [tuple(row) for seed in range(8) for row in decoding.greedy(random_model(seed), SOURCE, max_length=8)]
    assert len(set(found)) > 12 and len({len(row) for row in found}) > 3
    assert any(len(set(row)) > 2 for row in found)


@pytest.mark.parametrize("decode", [decoding.greedy, decoding.beam_search])
def test_a_sentence_alone_decodes_as_in_a_padded_batch(decode):
    for seed in range(2):
        model = random_model(seed)
        alone = [decode(model, unpadded(row).unsqueeze(0), max_length=8)[0] for row in SOURCE]
        assert decode(model, SOURCE, max_length=8) == alone


@pytest.mark.parametrize("decode", [decoding.greedy, decoding.beam_search])
def test_the_fast_forms_decode_the_same(decode):
    model = random_model(3)
    clear = decode(model, SOURCE, max_length=8)
    with fast.enabled():
        assert decode(model, SOURCE, max_length=8) == clear


@pytest.mark.parametrize("decode", [decoding.greedy, decoding.beam_search])
def test_the_same_call_gives_the_same_and_draws_no_random_numbers(decode):
    model = random_model(1)
    state = torch.get_rng_state()
    first = decode(model, SOURCE)
    assert decode(model, SOURCE) == first and torch.get_rng_state().equal(state)
    assert all(parameter.grad is None for parameter in model.parameters())


# beam search


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0])
def test_one_beam_is_greedy_decoding(alpha):
    for seed in range(5):
        model = random_model(seed, sharpness=1.0)
        assert decoding.beam_search(model, SOURCE, 1, alpha, 8) == decoding.greedy(model, SOURCE, 8)


def test_one_beam_does_not_stop_at_an_end_that_is_second_best():
    """The trap: END at once has 0.4, "4 END" has 0.5 * 0.6 = 0.3; greedy decoding never looks at END first."""
    log_probability = torch.full((1, 1, 6), -math.inf)
    log_probability[0, 0, [END, 4]] = torch.tensor([0.4, 0.5]).log()
    beams = decoding.Beams.start(torch.ones(1, 3, dtype=torch.int64), 1)
    beams.advance(log_probability, 0.0)
    assert beams.live.tolist() == [[[START, 4]]] and beams.done_scores.item() == -math.inf


def every_target(vocabulary: int, longest: int) -> list[list[int]]:
    """Return all targets of at most `longest` tokens, END included."""
    symbols = [token for token in range(vocabulary) if token not in (PADDING, START, END)]
    return [list(t) for length in range(longest) for t in itertools.product(symbols, repeat=length)]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_as_wide_as_the_tree_finds_the_best_of_all_targets(alpha, seed):
    model, longest = random_model(seed, vocabulary=6, sharpness=1.0), 4  # 3 symbols: at most 27 unfinished targets
    source = torch.tensor([[4, 5, 3], [5, PADDING, PADDING]])
    found = decoding.beam_search(model, source, 40, alpha, longest)
    for row, target in zip(source, found, strict=True):
        targets = every_target(6, longest)
        scores = by_teacher_forcing(model, row, targets)
        scores = [score / ((5 + len(t) + 1) / 6) ** alpha for score, t in zip(scores, targets, strict=True)]
        assert len(scores) == 40
        assert scores[targets.index(target)] == pytest.approx(max(scores), abs=1e-5)


def test_the_scores_of_a_beam_are_those_of_teacher_forcing(monkeypatch):
    model, kept = random_model(1, vocabulary=8, sharpness=0.5), []
    source = SOURCE.clamp(max=7)
    monkeypatch.setattr(decoding.Beams, "best", lambda self: kept.append(self) or [])
    decoding.beam_search(model, source, 4, 0.7, 5)
    assert (kept[0].done_scores > -math.inf).sum() > 4
    for row, done, found in zip(source, kept[0].done.tolist(), kept[0].done_scores.tolist(), strict=True):
        targets = [t[1 : t.index(END)] for t, score in zip(done, found, strict=True) if score > -math.inf]
        scores = by_teacher_forcing(model, row, targets) if targets else []
        wanted = [score / ((6 + len(t)) / 6) ** 0.7 for score, t in zip(scores, targets, strict=True)]
        assert found[: len(targets)] == pytest.approx(wanted, abs=1e-5)
        assert found == sorted(found, reverse=True)


def test_stopping_early_changes_no_result_and_saves_steps(monkeypatch, counted):
    saved = 0
    for seed, alpha in itertools.product(range(4), (0.0, 1.0)):
        model = random_model(seed, sharpness=1.0)
        counted["decode"].clear()
        early = decoding.beam_search(model, SOURCE, 3, alpha, 12)
        steps = len(counted["decode"])
        with monkeypatch.context() as patch:
            patch.setattr(decoding.Beams, "settled", lambda *_: torch.tensor(False))
            assert decoding.beam_search(model, SOURCE, 3, alpha, 12) == early
        saved += 12 - steps
    assert saved >= 8  # a step in each of 8 runs, in the mean


def test_a_wider_beam_may_find_a_worse_target_but_not_in_the_mean():
    """Beam search is no exhaustive search, so that no order between two widths holds for each sentence."""
    differences = []
    for seed in range(10):
        model = random_model(seed, sharpness=1.0)
        one, five = decoding.greedy(model, SOURCE, 8), decoding.beam_search(model, SOURCE, 5, 0.0, 8)
        for row, narrow, wide in zip(SOURCE, one, five, strict=True):
            if len(narrow) < 8 and len(wide) < 8:
                scores = by_teacher_forcing(model, row, [narrow, wide])
                differences.append(scores[1] - scores[0])
    assert len(differences) > 6 and sum(differences) / len(differences) > 0.05


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_result_is_the_best_of_all_targets_that_were_ever_finished(alpha, monkeypatch):
    """So where five beams finish greedy decoding's target, theirs is at least as good."""
    model, finished = random_model(3, sharpness=1.0), [[], [], []]
    finish = decoding.Beams._finish

    def watch(self, grown, scores, alpha):
        for row, targets, values in zip(finished, grown.tolist(), scores.tolist(), strict=True):
            row += [t[1:-1] for t, value in zip(targets, values, strict=True) if value > -math.inf]
        finish(self, grown, scores, alpha)

    monkeypatch.setattr(decoding.Beams, "_finish", watch)
    found = decoding.beam_search(model, SOURCE, 5, alpha, 8)
    for row, best, targets in zip(SOURCE, found, finished, strict=True):
        scores = by_teacher_forcing(model, row, [best, *targets])
        lengths = [len(target) + 1 for target in (best, *targets)]
        scores = [s / decoding.length_penalty(n, alpha) for s, n in zip(scores, lengths, strict=True)]
        assert len(targets) > 1 and scores[0] == pytest.approx(max(scores), abs=1e-5)


def test_the_books_of_the_beams_by_hand():
    """Two beams over the tokens END, 4 and 5; all numbers are probabilities."""
    beams = decoding.Beams.start(torch.ones(1, 2, dtype=torch.int64), 2)

    def step(*rows: tuple[float, float, float]) -> list[int]:
        table = torch.full((1, 2, 6), -math.inf)
        table[0, :, [END, 4, 5]] = torch.tensor(rows).log()
        return beams.advance(table, 0.0)[0].tolist()

    assert step((0.1, 0.5, 0.4), (0.9, 0.05, 0.05)) == [0, 0]  # the second beam is empty at first
    assert beams.live.tolist() == [[[START, 4], [START, 5]]] and beams.done_scores.tolist() == [[-math.inf] * 2]
    assert step((0.0, 0.5, 0.5), (0.9, 0.1, 0.0))[0] == 0  # "5 END" 0.36, then "4 4" 0.25, tied with "4 5"
    assert beams.done.tolist()[0][0] == [START, 5, END] and beams.done_scores.exp()[0, 0].item() == pytest.approx(0.36)
    assert beams.live.tolist()[0][0] in ([START, 4, 4], [START, 4, 5])
    assert beams.live_scores.exp().tolist()[0] == pytest.approx([0.25, 0.0])  # the ended one's place is empty
    assert beams.settled(9, 0.0)  # 0.25 can't become 0.36
    assert not beams.settled(9, 1.0)  # but log 0.25 / (14 / 6) is above log 0.36 once longer sentences count more
    step((1.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    assert beams.done_scores.exp().tolist()[0] == pytest.approx([0.36, 0.25])
    assert beams.done.tolist()[0][0] == [START, 5, END, PADDING] and beams.best() == [[5]]


def test_an_unfinished_target_is_returned_only_where_none_has_finished():
    beams = decoding.Beams.start(torch.ones(2, 2, dtype=torch.int64), 2)
    table = torch.full((2, 2, 6), -math.inf)
    table[0, 0, [4, 5]] = torch.tensor([0.9, 0.1]).log()
    table[1, 0, [4, END]] = torch.tensor([0.9, 0.1]).log()
    beams.advance(table, 1.0)
    assert beams.best() == [[4], []]


@pytest.mark.parametrize(
    ("length", "alpha", "wanted"), [(1, 0.6, 1.0), (7, 1.0, 2.0), (7, 0.5, 2**0.5), (99, 0.0, 1.0)]
)
def test_the_length_penalty_is_that_of_the_paper(length, alpha, wanted):
    assert decoding.length_penalty(length, alpha) == pytest.approx(wanted)


def test_a_stronger_length_penalty_prefers_the_longer_of_two_finished_targets():
    """END at once has 0.3, "4 4 4 END" has 0.2 in the end."""
    found = []
    for alpha in (0.0, 1.0):
        beams = decoding.Beams.start(torch.ones(1, 2, dtype=torch.int64), 2)
        for tokens, numbers in (([4, END], [0.2, 0.3]), ([4], [1.0]), ([4], [1.0]), ([END], [1.0])):
            table = torch.full((1, 2, 6), -math.inf)
            table[0, 0, tokens] = torch.tensor(numbers).log()
            beams.advance(table, alpha)
        found += beams.best()
    assert found == [[], [4, 4, 4]]


# limits and costs


@pytest.fixture
def never_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no model say END."""
    clear = Embedding.logits

    def logits(module: Embedding, vectors: Tensor) -> Tensor:
        return clear(module, vectors).index_fill(-1, torch.tensor([END]), -math.inf)

    monkeypatch.setattr(Embedding, "logits", logits)


@pytest.mark.parametrize("decode", [decoding.greedy, decoding.beam_search])
@pytest.mark.parametrize("limit", [1, 5, 99])
def test_no_output_is_longer_than_max_length_or_the_models_positions(decode, limit, never_ending):
    assert [len(row) for row in decode(random_model(2), SOURCE, max_length=limit)] == [min(limit, 20)] * 3


def test_without_a_limit_an_output_may_be_fifty_tokens_longer_than_the_source(never_ending):
    model = random_model(2, max_length=200, d_model=4, d_ff=4)
    assert [len(row) for row in decoding.greedy(model, SOURCE)] == [55, 55, 55]
    assert [len(row) for row in decoding.beam_search(model, SOURCE[:, :2], 2)] == [52, 52, 52]


@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([0.3, 1.0, 4.0]))
def test_no_start_end_or_padding_is_ever_put_out(seed, beam, sharpness):
    model = random_model(seed, sharpness=sharpness)
    with torch.no_grad():  # make them the likeliest of all
        model.embedding.table[[PADDING, START]] = 3 * model.embedding.table[5]
    for found in (decoding.greedy(model, SOURCE, 5), decoding.beam_search(model, SOURCE, beam, 0.6, 5)):
        assert all(0 <= token < 10 and token not in (PADDING, START, END) for row in found for token in row)


def test_an_unknown_word_may_be_put_out():
    model = random_model(4)
    with torch.no_grad():
        vectors = model.decode(torch.full((1, 1), START), model.encode(SOURCE[:1]), SOURCE[:1])
        model.embedding.table[UNKNOWN] = 9 * vectors[0, 0]
    memory = model.encode(SOURCE[:1])
    found = decoding.log_probabilities(model, torch.full((1, 1), START), memory, SOURCE[:1])
    assert found[0, [PADDING, START]].tolist() == [-math.inf] * 2 and found[0, UNKNOWN] > -math.inf


def test_the_encoder_runs_once_the_memory_is_projected_once_and_a_step_projects_one_position(counted):
    model = random_model(2, layers=2)
    for decode, rows in ((decoding.greedy, 3), (decoding.beam_search, 15)):
        for calls in counted.values():
            calls.clear()
        decode(model, SOURCE, max_length=6)
        assert counted["encode"] == [[3, 5]]
        steps = len(counted["decode"])
        assert 1 < steps <= 6 and counted["decode"] == [[rows, 1]] * steps
        for layer in model.decoder.layers:
            lengths = [length for module, length in counted["project"] if module is layer.cross_attention]
            assert lengths == [5]
            lengths = [length for module, length in counted["project"] if module is layer.self_attention]
            assert lengths == [1] * steps


def test_a_batch_stops_when_its_last_sentence_has_ended(counted):
    model = random_model(0)
    found = decoding.greedy(model, SOURCE, max_length=20)
    longest = max(len(row) for row in found)
    assert len(counted["decode"]) == min(longest + 1, 20)


@pytest.mark.parametrize("decode", [decoding.greedy, decoding.beam_search])
def test_a_model_in_training_mode_is_refused(decode):
    with pytest.raises(ValueError, match=r"evaluation mode to decode, got training mode: call model.eval\(\)"):
        decode(random_model(0).train(), SOURCE)


# the whole chain


@pytest.fixture
def without_shape_checks() -> Iterator[None]:
    """Train at full speed: other tests check the shapes."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.slow
@pytest.mark.parametrize("task", [toy.copy_task, toy.reverse_task])
def test_a_trained_toy_model_decodes_what_it_has_not_seen(task, without_shape_checks):
    chance = torch.Generator().manual_seed(0)
    pairs, unseen = (task(count, 5, 12, chance, shortest=2) for count in (3000, 200))
    known = {tuple(source) for source, _ in pairs}
    unseen = [pair for pair in unseen if tuple(pair[0]) not in known]
    model = Transformer(TransformerConfig(vocabulary=12, d_model=32, heads=4, d_ff=64, layers=2, dropout=0.0))
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    steps = [batch for _ in range(12) for batch in data.batches(pairs, 384, generator=chance)]
    with fast.enabled():
        for _ in training.train(
            model,
            steps,
            training.translation_loss,
            optimizer,
            lambda step: 5e-3 * min(1, step / 40, (len(steps) - step + 1) / (0.4 * len(steps))),
        ):
            pass
    for decode in (decoding.greedy, decoding.beam_search):
        found = decode(model.eval(), data.pad([source for source, _ in unseen]))
        right = sum(list(target) == row for (_, target), row in zip(unseen, found, strict=True))
        assert len(unseen) > 100 and right >= 0.97 * len(unseen)  # all of them where this was written


def test_a_model_with_another_padding_never_says_it_and_may_say_token_0():
    torch.manual_seed(0)
    config = TransformerConfig(vocabulary=9, d_model=8, heads=2, d_ff=8, layers=1, padding=5)
    model, source = Transformer(config).eval(), torch.tensor([[6, 7, 5]])
    found = decoding.log_probabilities(model, torch.tensor([[1]]), model.encode(source), source)
    assert found[0, 5] == -math.inf and found[0, 0] > -math.inf


def test_a_refused_call_leaves_the_caches_as_they_were():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocabulary=9, d_model=8, heads=2, d_ff=8, layers=2)).eval()
    source, words = torch.tensor([[6, 7, 8, 4]]), torch.tensor([[4, 5]])
    memory, caches, fresh = model.encode(source), model.decoder.new_caches(), model.decoder.new_caches()
    for each in (caches, fresh):
        model.decode(torch.tensor([[1]]), memory, source, each)
    with pytest.raises((ValueError, jaxtyping.TypeCheckError)):
        model.decode(words, memory, source[:, :3], caches)
    torch.testing.assert_close(model.decode(words, memory, source, caches), model.decode(words, memory, source, fresh))
