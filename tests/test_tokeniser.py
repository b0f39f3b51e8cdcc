"""Tokenisers: text comes back, the same lines give the same pieces, typed special tokens stay text."""

import json
import os
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_lib import toy_grammar
from transformer_lib.tokeniser import END, PADDING, SPECIAL_TOKENS, START, UNKNOWN, Tokeniser, WordTokeniser
from transformer_lib.tokeniser import train_tokeniser as train

LINES = [
    "Zwei junge weiße Männer sind im Freien, in der Nähe vieler Büsche.",
    "Two young, White males are outside near many bushes.",
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
    "A little girl climbing into a wooden \"playhouse\" (it's well-made); doesn't she like it?",
    "ÄÖÜ äöüß ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz 0123456789 !:/%&-",
] * 2
ALPHABET = sorted(set("".join(LINES)))
tokeniser = train(LINES, 300)


@given(st.text(ALPHABET, max_size=40))
def test_text_comes_back_but_for_runs_of_blanks(text):
    assert tokeniser.decode(tokeniser.encode(text)) == " ".join(text.split())


@given(st.text(ALPHABET, max_size=30))
def test_pieces_joined_are_the_text(text):
    pieces = tokeniser.tokens(tokeniser.encode(text))
    assert "".join(pieces).replace("▁", " ").strip() == " ".join(text.split())


def test_punctuation_stands_alone_and_a_common_word_is_one_piece():
    pieces = tokeniser.tokens(tokeniser.encode("Männer, Männer."))
    assert pieces == ["▁Männer", ",", "▁Männer", "."]


def test_blanks_of_every_kind_and_both_forms_of_an_umlaut_are_one():
    ids = tokeniser.encode("in der Nähe")
    assert tokeniser.encode("  in\tder\n\u00a0Nähe ") == ids
    assert tokeniser.encode(unicodedata.normalize("NFD", "in der Nähe")) == ids


def test_special_tokens_typed_in_a_text_are_text():
    for text in SPECIAL_TOKENS:
        assert not {PADDING, START, END} & set(tokeniser.encode(text))
        assert not {PADDING, START, END} & set(WordTokeniser(["a"]).encode(text))


def test_an_unseen_character_is_unknown_and_the_rest_of_the_text_stays():
    ids = tokeniser.encode("in 猫 der")
    assert UNKNOWN in ids
    assert tokeniser.decode(ids) == "in <unknown> der"


def test_decode_stops_at_the_end_and_leaves_out_start_and_padding():
    ids = tokeniser.encode("Two males.")
    assert tokeniser.decode([START, *ids, END, PADDING, *ids]) == "Two males."
    words = WordTokeniser(["hello", "world"])
    assert words.decode([START, 4, 5, END, 4, PADDING]) == "hello world"


def test_every_id_has_a_piece_and_the_first_are_the_special_tokens():
    pieces = tokeniser.tokens(range(len(tokeniser)))
    assert tuple(pieces[:4]) == SPECIAL_TOKENS
    assert len(set(pieces)) == len(tokeniser) <= 300


def test_training_is_the_same_in_another_process_on_one_thread():
    script = (
        "import sys, json; from transformer_lib.tokeniser import train_tokeniser as train\n"
        "print(json.dumps(train(json.load(sys.stdin), 300).model.to_str()))"
    )
    environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, input=json.dumps(LINES), env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == tokeniser.model.to_str()


def test_a_bigger_vocabulary_makes_fewer_pieces():
    small = train(LINES, 120)
    assert len(small) == 120
    assert sum(len(small.encode(line)) for line in LINES) > sum(len(tokeniser.encode(line)) for line in LINES)


def test_save_and_load_give_the_same_tokeniser(tmp_path):
    tokeniser.save(tmp_path / "tokeniser.json")
    loaded = Tokeniser.load(tmp_path / "tokeniser.json")
    assert [loaded.encode(line) for line in LINES] == [tokeniser.encode(line) for line in LINES]
    assert not {PADDING, START, END} & set(loaded.encode("".join(SPECIAL_TOKENS)))
    assert [path.name for path in tmp_path.iterdir()] == ["tokeniser.json"]


def test_word_tokeniser_agrees_with_a_dictionary():
    words = ["the", "dog", "sees", "the"]
    ids = {"the": 4, "dog": 5, "sees": 6}
    assert WordTokeniser(words).encode("the dog sees a dog") == [ids["the"], ids["dog"], ids["sees"], UNKNOWN, 5]
    assert WordTokeniser(words).tokens([START, 6]) == ["<start>", "sees"]
    assert len(WordTokeniser(words)) == 7


def test_both_tokenisers_give_the_grammar_back():
    words = toy_grammar.grammar_tokeniser()
    text = "the big dogs do not find a cat in the garden today"
    subwords = train([text] * 2, 60)
    assert words.decode(words.encode(text)) == text == subwords.decode(subwords.encode(text))
    assert UNKNOWN not in words.encode(text)


def test_the_library_imports_without_the_tokenizers_package():
    script = (
        "import sys; sys.modules['tokenizers'] = None\n"
        "from transformer_lib import data, multi30k, toy, toy_grammar\n"
        "try:\n    data.train_tokeniser(['a'])\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install transformer-lib[translation]" in done.stdout


@pytest.mark.parametrize("content", [b"", b"{", b'{"version": "1.0"}', b"\x80\x04garbage"])
def test_a_file_cut_short_or_foreign_is_named(tmp_path, content):
    path = tmp_path / "tokeniser.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"tokeniser\.json must be a tokeniser written by Tokeniser\.save, got"):
        Tokeniser.load(path)


def test_a_tokeniser_with_other_special_tokens_is_refused(tmp_path):
    text = tokeniser.model.to_str().replace("<start>", "<s>")
    (tmp_path / "other.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="must begin with .*<start>.*, got .*<s>"):
        Tokeniser.load(tmp_path / "other.json")
