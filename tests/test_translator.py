"""The translator: what it saves it loads, what is damaged it refuses, and the one that ships translates."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from transformer_lib import data, decoding, files, multi30k, translator
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.translator import DESCRIPTION, SHIPPED, TOKENISER, WEIGHTS, Translator

LINES = ["ein Hund läuft", "ein Mann sitzt", "zwei Hunde laufen", "a dog runs", "a man sits", "two dogs run"]
SIZES = {"d_model": 8, "heads": 2, "d_ff": 8, "layers": 1, "max_length": 12}

ROOT = Path(__file__).parents[1]


def small(seed: int = 0) -> Translator:
    torch.manual_seed(seed)
    tokeniser = data.train_tokeniser(LINES, 60)
    return Translator(Transformer(TransformerConfig(vocabulary=len(tokeniser), **SIZES)).eval(), tokeniser)


@pytest.fixture
def saved(tmp_path):
    """A folder with a saved translator, and the translator."""
    mine = small()
    translator.save_translator(tmp_path / "de_en", mine, seed=3)
    return tmp_path / "de_en", mine


# saving and loading


def test_what_is_saved_is_loaded_with_weights_rounded_to_float16(saved):
    folder, mine = saved
    loaded = translator.load_translator(folder)
    state = loaded.model.state_dict()
    assert state.keys() == mine.model.state_dict().keys()
    for name, tensor in mine.model.state_dict().items():
        assert state[name].dtype == torch.float32 and state[name].equal(tensor.half().float())
    assert loaded.model.config == mine.model.config
    assert [loaded.tokeniser.encode(line) for line in LINES] == [mine.tokeniser.encode(line) for line in LINES]
    assert not loaded.model.training and not any(p.requires_grad for p in loaded.model.parameters())
    assert loaded.translate(LINES) == loaded.translate(LINES)


def test_a_folder_holds_three_files_and_the_description_what_was_given(saved):
    folder, mine = saved
    assert sorted(path.name for path in folder.parent.rglob("*") if path.is_file()) == sorted(
        [WEIGHTS, TOKENISER, DESCRIPTION]
    )
    found = json.loads((folder / DESCRIPTION).read_text())
    assert found["seed"] == 3 and TransformerConfig(**found["config"]) == mine.model.config
    assert (folder / WEIGHTS).stat().st_size < 3 * sum(p.numel() for p in mine.model.parameters()) + 4000


def test_a_string_serves_as_a_folder_and_saving_again_replaces_all(saved):
    folder, _ = saved
    other = small(1)
    translator.save_translator(str(folder), other)
    state = translator.load_translator(str(folder)).model.state_dict()
    assert all(state[name].equal(tensor.half().float()) for name, tensor in other.model.state_dict().items())
    assert "seed" not in json.loads((folder / DESCRIPTION).read_text())


@pytest.mark.parametrize("name", [WEIGHTS, TOKENISER])
@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:50] + bytes([b[50] ^ 1]) + b[51:], lambda b: b""])
def test_a_file_that_was_changed_is_refused_by_its_sum(saved, name, damage):
    folder, _ = saved
    before = translator._sha256((folder / name).read_bytes())
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    after = translator._sha256((folder / name).read_bytes())
    with pytest.raises(ValueError) as caught:
        translator.load_translator(folder)
    assert all(text in str(caught.value) for text in (name, f"must have sha256 {before}", f"got {after}"))


def described(folder, **changes):
    """Rewrite the description; the sums fit the files unless they are changed, too."""
    found = json.loads((folder / DESCRIPTION).read_text())
    found["sha256"] = {name: translator._sha256((folder / name).read_bytes()) for name in (WEIGHTS, TOKENISER)}
    (folder / DESCRIPTION).write_text(json.dumps(found | changes))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"config": {}}', '{"config": {"layers": 1}, "sha256": {}}'])
def test_a_damaged_description_is_refused(saved, text):
    folder, _ = saved
    (folder / DESCRIPTION).write_text(text)
    with pytest.raises(ValueError, match=f"{DESCRIPTION} must be a description .*, got {len(text)} bytes"):
        translator.load_translator(folder)


def test_a_description_of_another_model_is_refused(saved):
    folder, mine = saved
    config = vars(mine.model.config)
    described(folder, config=config | {"d_model": 16})
    with pytest.raises(ValueError, match=r"must hold .* of shape \[16, 16\], got \[8, 8\]"):
        translator.load_translator(folder)
    described(folder, config=config | {"layers": 2})
    with pytest.raises(ValueError, match=r"must hold \S+layers.1\S+ of shape .*, got None"):
        translator.load_translator(folder)
    described(folder, config=config | {"heads": 3})
    with pytest.raises(ValueError, match="heads must divide d_model"):
        translator.load_translator(folder)


def test_foreign_files_whose_sums_fit_are_refused(saved):
    folder, _ = saved
    tokeniser = (folder / TOKENISER).read_bytes()
    data.train_tokeniser(["abc abc"], 10).save(folder / TOKENISER)
    described(folder)
    with pytest.raises(ValueError, match=r"the tokeniser must have the model's \d+ tokens, got \d+"):
        translator.load_translator(folder)
    (folder / TOKENISER).write_text("{}")
    described(folder)
    with pytest.raises(ValueError, match=f"{TOKENISER} must be a tokeniser"):
        translator.load_translator(folder)
    (folder / TOKENISER).write_bytes(tokeniser)
    (folder / WEIGHTS).write_text("weights")
    described(folder)
    with pytest.raises(ValueError, match=f"{WEIGHTS} must be a file of safetensors, got 7 bytes"):
        translator.load_translator(folder)


@pytest.mark.parametrize("name", [WEIGHTS, TOKENISER, DESCRIPTION, "."])
def test_a_missing_file_is_named_with_what_would_make_it(saved, name):
    folder, _ = saved
    if name == ".":
        folder = folder / "nowhere"
    else:
        (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match="must have the file .*none; `make train ARGS=--ship` makes") as caught:
        translator.load_translator(folder)
    assert str(folder) in str(caught.value)


def failing(real, number):
    """Return a function that works until its call of this number, which fails as on a full disk."""
    calls = []

    def function(*arguments):
        calls.append(arguments)
        if len(calls) >= number:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments)

    return function


@pytest.mark.parametrize("name", ["fsync", "replace"])
@pytest.mark.parametrize("number", range(1, 7))
def test_a_stop_at_any_write_or_move_keeps_the_old_one_or_fails_loudly(saved, monkeypatch, name, number):
    folder, mine = saved
    old = {path.name: path.read_bytes() for path in folder.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing(getattr(os, name), number))
        if name == "fsync" and number > 3:
            translator.save_translator(folder, small(1))  # three files, three times written
            return
        with pytest.raises(OSError, match="No space left"):
            translator.save_translator(folder, small(1))
    assert [path.name for path in folder.parent.iterdir()] == ["de_en"]
    if name == "fsync" or number <= 4:  # up to the first move
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == old
        translator.load_translator(folder)
    else:
        with pytest.raises(ValueError, match="must have sha256"):
            translator.load_translator(folder)


def test_a_failed_first_save_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "fsync", failing(os.fsync, 2))
    with pytest.raises(OSError):
        translator.save_translator(tmp_path / "new", small())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 70000.0])
def test_weights_that_float16_cannot_hold_are_refused(tmp_path, value):
    mine = small()
    with torch.no_grad():
        mine.model.embedding.table[0, 0] = value
    with pytest.raises(ValueError, match=f"finite in float16 .*, got {value} in embedding.table"):
        translator.save_translator(tmp_path / "x", mine)
    assert list(tmp_path.iterdir()) == []


# translating


@pytest.fixture
def echo(monkeypatch) -> Translator:
    """A translator whose decoding gives the source back, and notes the batches' shapes."""
    seen = []

    def source_back(model, source, *_):
        seen.append(tuple(source.shape))
        return [[token for token in row if token] for row in source.tolist()]

    monkeypatch.setattr(decoding, "greedy", source_back)
    monkeypatch.setattr(decoding, "beam_search", source_back)
    mine = small()
    object.__setattr__(mine, "seen", seen)
    return mine


def test_translations_come_in_the_order_of_the_sentences(echo):
    sentences = ["a dog runs", "a", "two dogs run", "dog", "ein Mann sitzt", "a dog"]
    for size in (1, 2, 4, 64):
        assert echo.translate(sentences, sentences_per_batch=size) == sentences
    assert echo.seen[-1][0] == 6 and len(echo.seen) == 6 + 3 + 2 + 1


def test_sentences_of_similar_length_share_a_batch(echo):
    echo.translate(["a dog runs", "a", "two dogs run", "dog"], sentences_per_batch=2)
    assert echo.seen[0][1] < echo.seen[1][1]


def test_any_iterable_of_strings_will_do(echo):
    assert echo.translate(line for line in ("a dog", "a man")) == ["a dog", "a man"]
    assert echo.translate(("a dog",)) == ["a dog"] and echo.translate([]) == []


def test_a_sentence_beyond_the_models_positions_is_cut_and_the_rest_not_translated(echo):
    long = "dog " * 50
    ids = echo.tokeniser.encode(long)
    assert len(ids) > 12
    assert echo.translate([long, "a man"]) == [echo.tokeniser.decode(ids[:12]), "a man"]


def test_a_long_sentence_decodes_within_the_models_positions():
    mine = small()
    (found,) = mine.translate(["dog " * 50], beam=2)
    assert len(mine.tokeniser.encode(found)) <= 2 * 12  # pieces may be cut otherwise when read again


def test_characters_that_training_never_met_are_translated_as_unknown():
    mine = small()
    assert data.UNKNOWN in mine.tokeniser.encode("漢")
    assert all(isinstance(line, str) for line in mine.translate(["漢字 dog", "🦆"], beam=2))


def test_one_beam_is_greedy_and_a_batch_is_as_its_sentences_alone():
    mine = small(2)
    greedy = [
        mine.tokeniser.decode(decoding.greedy(mine.model, torch.tensor([mine.tokeniser.encode(line)]))[0])
        for line in LINES
    ]
    assert mine.translate(LINES, beam=1) == greedy
    assert mine.translate(LINES) == [mine.translate([line])[0] for line in LINES]


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("blank", ["", " \n\t"])
def test_an_empty_sentence_is_an_error_that_says_where(place, blank):
    sentences = ["a dog"] * 3
    sentences[place] = blank
    with pytest.raises(ValueError, match=f"every sentence must have a token, got an empty one at place {place}"):
        small().translate(sentences)


def test_a_model_in_training_mode_is_refused():
    mine = small()
    mine.model.train()
    for beam in (1, 2):
        with pytest.raises(ValueError, match="evaluation mode"):
            mine.translate(["a dog"], beam=beam)


def test_model_and_tokeniser_must_belong_together():
    mine = small()
    with pytest.raises(ValueError, match=r"must have the model's \d+ tokens, got 5"):
        replace(mine, tokeniser=data.WordTokeniser(["word"]))


# the one that ships


@pytest.fixture(scope="module")
def shipped() -> Translator:
    if not (SHIPPED / DESCRIPTION).exists():
        pytest.skip(f"no translator in {SHIPPED} yet: make train ARGS=--ship makes it")
    return translator.load_translator()


def test_the_shipped_translator_is_whole_and_small(shipped):
    description = json.loads((SHIPPED / DESCRIPTION).read_text())
    files_of_it = sorted(path.name for path in SHIPPED.iterdir())
    assert files_of_it == sorted([WEIGHTS, TOKENISER, DESCRIPTION, "record.json"])
    assert (SHIPPED / "record.json").read_bytes() == (ROOT / description["record"]).read_bytes()
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 6_000_000
    assert description["test"]["sacrebleu"] >= 39


@pytest.mark.parametrize("beam", [1, 5])
def test_the_shipped_translator_translates_plain_captions(shipped, beam):
    wanted = {
        "Ein Mann fährt Fahrrad.": ("man", "bi"),
        "Zwei Kinder spielen im Schnee.": ("Two", "children", "play", "snow"),
        "Eine Frau sitzt auf einer Bank und liest ein Buch.": ("woman", "sit", "bench", "read", "book"),
    }
    found = shipped.translate(list(wanted), beam)
    for words, line in zip(wanted.values(), found, strict=True):
        assert all(word in line for word in words) and line.endswith("."), line


def test_the_shipped_translator_scores_on_the_test_set(shipped):
    if not multi30k.available():
        pytest.skip("Multi30k is not on this machine: set TRANSFORMER_LIB_DATA, or load it once")
    from sacrebleu.metrics import BLEU

    pairs = multi30k.load_multi30k("test_2016_flickr")[100:200]
    found = shipped.translate([source for source, _ in pairs], beam=1)
    assert BLEU().corpus_score(found, [[target for _, target in pairs]]).score > 36  # 42.4 with five beams
