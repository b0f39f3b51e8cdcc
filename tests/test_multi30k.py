"""Multi30k: found, or downloaded and checked; a bad download leaves nothing. No test uses the network."""

import errno
import gzip
import hashlib
import os
import urllib.request

import pytest

from transformer_lib import data, multi30k
from transformer_lib.data import PADDING
from transformer_lib.multi30k import DataUnavailable, load_multi30k

here = pytest.mark.skipif(
    not multi30k.available(), reason="Multi30k is not on this machine: set TRANSFORMER_LIB_DATA to its folder"
)
TEXTS = {"val.de": "Ein Hund.\nZwei  Männer \n", "val.en": "A dog.\nTwo\u2028men\n"}
CACHE = "home/.cache/transformer_lib"
PAIRS = [("Ein Hund.", "A dog."), ("Zwei  Männer", "Two\u2028men")]


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """Two hosts made of folders, a cache folder, a corpus of two sentences, and no other way to the data."""
    monkeypatch.delenv("TRANSFORMER_LIB_DATA", raising=False)
    names = ("first", "second")
    for name in names:
        (tmp_path / name).mkdir()
        for split, text in TEXTS.items():
            (tmp_path / name / f"{split}.gz").write_bytes(gzip.compress(text.encode()))
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in TEXTS.items()}
    monkeypatch.setattr(multi30k, "SHA256", sums)
    monkeypatch.setattr(multi30k, "SOURCES", [(tmp_path / name).as_uri() + "/{name}.gz" for name in names])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def names_in(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_what_is_missing_is_downloaded_once(hosts):
    assert not multi30k.available()
    assert load_multi30k("val") == PAIRS
    assert names_in(hosts / CACHE) == ["val.de.gz", "val.en.gz"]
    assert multi30k.available()
    for name in ("first", "second"):
        for path in (hosts / name).iterdir():
            path.unlink()
    assert load_multi30k("val") == PAIRS


def test_a_folder_of_ones_own_is_the_cache(hosts):
    assert load_multi30k("val", hosts / "mine") == PAIRS
    assert multi30k.available(hosts / "mine")
    assert not multi30k.available()


def test_the_variable_comes_before_the_cache(hosts, monkeypatch):
    load_multi30k("val")
    folder = hosts / "course" / "multi30k"
    folder.mkdir(parents=True)
    for name, text in (("val.de", "Hallo\n"), ("val.en", "Hello\n")):
        (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        monkeypatch.setitem(multi30k.SHA256, name, hashlib.sha256(text.encode()).hexdigest())
    monkeypatch.setenv("TRANSFORMER_LIB_DATA", str(hosts / "course"))
    assert load_multi30k("val") == [("Hallo", "Hello")]


def test_the_next_host_is_asked_when_one_is_gone_or_gives_something_else(hosts):
    (hosts / "first" / "val.de.gz").unlink()
    (hosts / "first" / "val.en.gz").write_bytes(b"<html>Please log in</html>")
    assert load_multi30k("val") == PAIRS


def test_a_host_that_unpacks_on_the_way_serves_too(hosts):
    (hosts / "first" / "val.de.gz").write_bytes(TEXTS["val.de"].encode())
    assert load_multi30k("val") == PAIRS
    assert gzip.decompress((hosts / CACHE / "multi30k" / "val.de.gz").read_bytes()).decode() == TEXTS["val.de"]


def bad_contents() -> dict[str, bytes]:
    whole = gzip.compress(TEXTS["val.de"].encode())
    return {
        "other text": gzip.compress(b"something else\n"),
        "cut short": whole[:-9],
        "flipped": whole[:10] + b"\xff" * 9,
    }


@pytest.mark.parametrize("kind", bad_contents())
def test_a_corrupted_download_names_the_sums_and_leaves_no_file(hosts, kind):
    for name in ("first", "second"):
        (hosts / name / "val.de.gz").write_bytes(bad_contents()[kind])
    with pytest.raises(DataUnavailable, match="wanted") as caught:
        load_multi30k("val")
    if kind == "other text":
        assert multi30k.SHA256["val.de"] in str(caught.value)
        assert hashlib.sha256(b"something else\n").hexdigest() in str(caught.value)
    assert names_in(hosts) == ["val.de.gz", "val.de.gz", "val.en.gz", "val.en.gz"]  # the hosts' own


@pytest.mark.parametrize("kind", bad_contents())
def test_a_corrupted_file_on_disk_is_named_and_kept(hosts, kind):
    load_multi30k("val")
    path = hosts / CACHE / "multi30k" / "val.de.gz"
    path.write_bytes(bad_contents()[kind])
    with pytest.raises(ValueError, match=r"val\.de\.gz \(remove it to get it anew\): wanted .*, got"):
        load_multi30k("val")
    assert path.read_bytes() == bad_contents()[kind]


def test_offline_it_says_what_to_do(hosts, monkeypatch):
    def offline(url, timeout):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(multi30k.urllib.request, "urlopen", offline)
    with pytest.raises(DataUnavailable) as caught:
        load_multi30k("val")
    for wanted in ("val.de.gz", "TRANSFORMER_LIB_DATA", "toy grammar", "first/", "second/", "Name or service"):
        assert wanted in str(caught.value)
    assert not (hosts / CACHE).exists()


def test_a_connection_that_breaks_off_is_a_failed_host(hosts, monkeypatch):
    class Broken:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def read(self):
            raise multi30k.http.client.IncompleteRead(b"ab", 10)

    monkeypatch.setattr(multi30k.urllib.request, "urlopen", lambda url, timeout: Broken())
    with pytest.raises(DataUnavailable, match="IncompleteRead"):
        load_multi30k("val")


def test_a_full_disk_is_an_error_and_leaves_nothing(hosts, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(multi30k.files.os, "fsync", full)
    with pytest.raises(OSError, match=r"val\.de\.gz could not be written") as caught:
        load_multi30k("val")
    assert caught.value.errno == errno.ENOSPC
    assert names_in(hosts / CACHE) == []


def test_every_host_is_reached_safely_and_every_file_has_a_sum():
    assert len(set(multi30k.SOURCES)) >= 2
    assert all(source.startswith("https://") and source.endswith("/{name}.gz") for source in multi30k.SOURCES)
    wanted = {f"{split}.{language}" for split in multi30k.SPLITS for language in ("de", "en")}
    assert set(multi30k.SHA256) == wanted


@here
@pytest.mark.parametrize(("split", "count"), [("train", 29_000), ("val", 1_014), ("test_2016_flickr", 1_000)])
def test_the_real_splits_have_their_published_sizes(split, count):
    pairs = load_multi30k(split)
    assert len(pairs) == count
    assert all(text == text.strip() and text for pair in pairs for text in pair)
    assert sum("ß" in german or "ü" in german for german, _ in pairs) > count / 5
    assert not any("ß" in english or "ü" in english for _, english in pairs)


@here
@pytest.mark.slow
def test_real_sentences_come_back_and_pad_little():
    pairs = load_multi30k("train")
    tokeniser = data.train_tokeniser((text for pair in pairs for text in pair), 8000)
    assert len(tokeniser) == 8000
    ids = data.encode_pairs(pairs, tokeniser)
    for (german, english), (source, target) in zip(pairs[:3000], ids, strict=False):
        assert tokeniser.decode(source) == " ".join(german.split())
        assert tokeniser.decode(target) == " ".join(english.split())
    for tokens_per_batch in (1024, 2048):
        epoch = data.batches(ids, tokens_per_batch, generator=data.torch.Generator().manual_seed(0))
        positions = sum(batch.source.numel() + batch.labels.numel() for batch in epoch)
        padding = sum(int((part == PADDING).sum()) for batch in epoch for part in (batch.source, batch.labels))
        assert padding / positions < 0.08
        assert sum(len(batch.source) for batch in epoch) == 29_000
