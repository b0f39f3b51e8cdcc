"""Text to ids of subwords and back: the table of special tokens and a byte-pair tokeniser."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from transformer_lib import checks, files

PADDING, START, END, UNKNOWN = range(4)
SPECIAL_TOKENS = ("<pad>", "<start>", "<end>", "<unknown>")  # the text at place i belongs to id i


class Tokeniser:
    """Text to ids of subwords and back, over one vocabulary for both languages.

    Byte-pair encoding, Sennrich et al. (2016). A piece that starts a word begins with "▁"; punctuation stands alone.
    `decode(encode(text))` gives the text back, with runs of blanks made one and characters never seen in training lost.
    """

    def __init__(self, model) -> None:
        """Wrap a trained `tokenizers.Tokenizer` that has our special tokens."""
        found = tuple(model.id_to_token(i) for i in range(len(SPECIAL_TOKENS)))
        if found != SPECIAL_TOKENS:
            raise ValueError(f"a tokeniser must begin with {SPECIAL_TOKENS}, got {found}")
        model.encode_special_tokens = True  # "<end>" typed in a text is text
        self.model = model

    def __len__(self) -> int:
        return self.model.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the text's ids, without START and END."""
        return self.model.encode(_text(text), add_special_tokens=False).ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without START and END."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text up to END, without START and PADDING."""
        return self.model.decode(_spoken(_known(ids, len(self))), skip_special_tokens=False)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the visible piece for each id, special tokens included: labels for a figure's axis."""
        return [self.model.id_to_token(i) for i in _known(ids, len(self))]

    def save(self, path: str | Path) -> None:
        """Write the tokeniser as one JSON file, whole or not at all."""
        checks.path(path=path)
        files.write_whole(path, self.model.to_str(pretty=False).encode())

    @classmethod
    def load(cls, path: str | Path) -> "Tokeniser":
        """Return the tokeniser that `save` wrote.

        Raises:
            ValueError: the file is not a tokeniser, or not one with our special tokens.
        """
        checks.path(path=path)
        library, content = _library(), Path(path).read_bytes()
        try:
            return cls(library.Tokenizer.from_buffer(content))
        except Exception as error:
            raise ValueError(f"{path} must be a tokeniser written by Tokeniser.save, got: {error}") from error


class WordTokeniser:
    """Text to ids of whole words and back, for small languages; used like `Tokeniser`.

    Raises:
        ValueError: there are no words, or one is empty, holds a blank or is a special token.
    """

    def __init__(self, words: Iterable[str]) -> None:
        words = list(dict.fromkeys(words))
        if not words:
            raise ValueError("wanted at least one word, got none")
        for word in words:
            if word.split() != [word] or word in SPECIAL_TOKENS:
                raise ValueError(f"a word must be without blanks and not one of {SPECIAL_TOKENS}, got {word!r}")
        self.words = (*SPECIAL_TOKENS, *words)
        self._ids = {word: i for i, word in enumerate(self.words) if i >= len(SPECIAL_TOKENS)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, text: str) -> list[int]:
        """Return the id of each word, UNKNOWN for one that is not in the vocabulary, without START and END."""
        return [self._ids.get(word, UNKNOWN) for word in _text(text).split()]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without START and END."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text up to END, without START and PADDING."""
        return " ".join(self.words[i] for i in _spoken(_known(ids, len(self))))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the word for each id, special tokens included: labels for a figure's axis."""
        return [self.words[i] for i in _known(ids, len(self))]


def train_tokeniser(lines: Iterable[str], vocabulary_size: int = 8000) -> Tokeniser:
    """Return a tokeniser whose pieces are learnt from `lines` (for translation: both languages' lines).

    The same lines give the same pieces. With few lines the vocabulary stays smaller than asked for: see `len`.

    Raises:
        TypeError: a line is not a string, or `vocabulary_size` is not an integer.
        ValueError: there are no lines, or `vocabulary_size` can't hold the special tokens and the lines' characters.
        ModuleNotFoundError: the `tokenizers` package is missing.
    """
    checks.positive(vocabulary_size=vocabulary_size)
    library = _library()
    model = library.Tokenizer(library.models.BPE(unk_token=SPECIAL_TOKENS[UNKNOWN]))
    normalizers, splitters = library.normalizers, library.pre_tokenizers
    one_blank = normalizers.Replace(library.Regex(r"\s+"), " ")
    model.normalizer = normalizers.Sequence([normalizers.NFC(), one_blank, normalizers.Strip()])
    model.pre_tokenizer = splitters.Sequence([splitters.Metaspace(), splitters.Punctuation()])
    model.decoder = library.decoders.Metaspace()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary_size, min_frequency=2, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    model.train_from_iterator(map(_text, lines), trainer)
    if model.get_vocab_size() == len(SPECIAL_TOKENS):
        raise ValueError("wanted lines of text to learn a vocabulary from, got none")
    if model.get_vocab_size() > vocabulary_size:
        raise ValueError(
            f"vocabulary_size must hold the special tokens and every character, here {model.get_vocab_size()}, "
            f"got {vocabulary_size}"
        )
    return Tokeniser(model)


def _text(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    return text


def _known(ids: Sequence[int], vocabulary: int) -> list[int]:
    numbers = [int(i) for i in ids]
    if numbers and not 0 <= min(numbers) <= max(numbers) < vocabulary:
        raise ValueError(f"ids must be from 0 to {vocabulary - 1}, got ids from {min(numbers)} to {max(numbers)}")
    return numbers


def _spoken(ids: list[int]) -> list[int]:
    """Return the ids before END that are not START or PADDING."""
    ids = ids[: ids.index(END)] if END in ids else ids
    return [i for i in ids if i not in (PADDING, START)]


def _library():
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the tokeniser needs the package tokenizers: pip install transformer-lib[translation]"
        ) from error
    return tokenizers
