"""Multi30k, German to English: 29,000 captions of photographs, found on disk or downloaded.

Elliott et al. (2016), "Multi30K: Multilingual English-German Image Descriptions".
"""

import gzip
import hashlib
import http.client
import os
import urllib.request
import zlib
from pathlib import Path

from transformer_lib import files

SPLITS = ("train", "val", "test_2016_flickr")
SHA256 = {  # of the text inside, since hosts compress differently
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
}
SOURCES = (
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/{name}.gz",
    "https://cdn.jsdelivr.net/gh/multi30k/dataset@master/data/task1/raw/{name}.gz",
    "https://github.com/multi30k/dataset/raw/master/data/task1/raw/{name}.gz",
)
TIMEOUT = 30.0  # seconds for one source to answer


class DataUnavailable(OSError):
    """Multi30k is neither on this machine nor to be had from the network; the text says what to do."""


def load_multi30k(split: str, folder: str | Path | None = None) -> list[tuple[str, str]]:
    """Return a split's (German, English) sentences, cased and detokenised.

    Looks for `multi30k/train.de.gz` and so on in the folder that the variable TRANSFORMER_LIB_DATA names,
    then in the cache; what is in neither is downloaded into the cache. Each text's sha256 is checked.

    Args:
        split: "train" (29,000 pairs), "val" (1,014) or "test_2016_flickr" (1,000).
        folder: the cache; None means `~/.cache/transformer_lib`.

    Raises:
        ValueError: there is no such split, or a file on disk is not the published text.
        DataUnavailable: no source could be reached, or none gave the published text.
        OSError: the download can't be written (a full disk); nothing is left behind.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {SPLITS}, got {split!r}")
    german, english = (_lines(f"{split}.{language}", folder) for language in ("de", "en"))
    return list(zip(german, english, strict=True))


def available(folder: str | Path | None = None) -> bool:
    """Return whether all six files lie on this machine, so that `load_multi30k` needs no network."""
    return all(_found(name, folder) for name in SHA256)


def _lines(name: str, folder: str | Path | None) -> list[str]:
    path = _found(name, folder)
    text = (
        _download(name, folder)
        if path is None
        else _published(name, path.read_bytes(), f"{path} (remove it to get it anew)")
    )
    return [line.strip() for line in text.decode("utf-8").rstrip("\n").split("\n")]


def _cache(folder: str | Path | None) -> Path:
    return Path.home() / ".cache" / "transformer_lib" if folder is None else Path(folder)


def _found(name: str, folder: str | Path | None) -> Path | None:
    roots = [Path(os.environ["TRANSFORMER_LIB_DATA"])] if os.environ.get("TRANSFORMER_LIB_DATA") else []
    paths = [root / "multi30k" / f"{name}.gz" for root in [*roots, _cache(folder)]]
    return next((path for path in paths if path.is_file()), None)


def _published(name: str, content: bytes, where: str) -> bytes:
    """Return the text inside `content` if it is the published one."""
    try:
        text = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{where}: wanted a whole gzip file, got {len(content)} bytes ({error})") from error
    got = hashlib.sha256(text).hexdigest()
    if got != SHA256[name]:
        raise ValueError(f"{where}: wanted a text with sha256 {SHA256[name]}, got {got}")
    return text


def _download(name: str, folder: str | Path | None) -> bytes:
    failures = []
    for source in SOURCES:
        url = source.format(name=name)
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                text = _published(name, answer.read(), url)
        except (OSError, ValueError, http.client.HTTPException) as error:
            failures.append(f"  {url}: {error}")
            continue
        files.write_whole(_cache(folder) / "multi30k" / f"{name}.gz", gzip.compress(text, mtime=0))
        return text
    raise DataUnavailable(
        f"Multi30k's {name}.gz is not on this machine and no source gave it:\n" + "\n".join(failures) + "\n"
        "Set TRANSFORMER_LIB_DATA to a folder that holds multi30k/train.de.gz and its siblings, "
        "or go on without it: the toy grammar (transformer_lib.toy_grammar) needs no data."
    )
