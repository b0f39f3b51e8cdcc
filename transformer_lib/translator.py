"""The small German-to-English translator that ships with the library, and what it takes to use or save one.

Trained on Multi30k (Elliott et al., 2016) by `make train ARGS=--ship`; the record of that run is `book/results/`.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer_lib import checks, decoding, files
from transformer_lib.config import TransformerConfig
from transformer_lib.data import Tokeniser, WordTokeniser
from transformer_lib.generation import in_batches
from transformer_lib.model import Transformer

SHIPPED = Path(__file__).parent / "weights" / "de_en"
WEIGHTS, TOKENISER, DESCRIPTION = "model.safetensors", "tokeniser.json", "description.json"


@dataclass(frozen=True)
class Translator:
    """A trained model with the tokeniser that it was trained with.

    Raises:
        ValueError: the tokeniser has another number of tokens than the model's vocabulary.
    """

    model: Transformer
    tokeniser: Tokeniser | WordTokeniser

    def __post_init__(self) -> None:
        checks.instance(Transformer, model=self.model)
        checks.instance(Tokeniser | WordTokeniser, tokeniser=self.tokeniser)
        wanted, got = self.model.config.vocabulary, len(self.tokeniser)
        if wanted != got:
            raise ValueError(f"the tokeniser must have the model's {wanted} tokens, got {got}")

    def translate(
        self, sentences: Iterable[str], beam: int = 5, alpha: float = 1.0, sentences_per_batch: int = 64
    ) -> list[str]:
        """Return each sentence's translation, in the order of the sentences.

        A sentence of more tokens than the model has positions (`max_length`) is cut: the rest is not translated.

        Args:
            beam: candidates kept at every step; 1 decodes greedily.
            alpha: strength of `decoding.length_penalty`; of 0, 0.6, 1 and 1.4, the shipped translator did best with 1
                on the validation set.

        Raises:
            TypeError: `sentences` is one string instead of several, one of them is no string, or a number is none.
            ValueError: a sentence is empty, a number is out of range, or the model is in training mode.
        """
        checks.positive(beam=beam, sentences_per_batch=sentences_per_batch)
        if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
            kind = type(sentences).__name__
            raise TypeError(f"sentences must be a list of strings, got {kind}: put one sentence into a list")
        ids = [row[: self.model.config.max_length] for row in self.tokeniser.encode_all(sentences)]
        if [] in ids:
            raise ValueError(f"every sentence must have a token, got an empty one at place {ids.index([])}")
        device = self.model.embedding.table.device
        targets = in_batches(ids, lambda source: self._decode(source.to(device), beam, alpha), sentences_per_batch)
        return [self.tokeniser.decode(target) for target in targets]

    def _decode(self, source: Tensor, beam: int, alpha: float) -> list[list[int]]:
        if beam == 1:
            return decoding.greedy(self.model, source)
        return decoding.beam_search(self.model, source, beam, alpha)


def save_translator(folder: str | Path, translator: Translator, **about: object) -> None:
    """Write model (float16 safetensors), tokeniser and description into a folder.

    All is written beside the folder first and then moved, the description last: a full disk changes nothing, and what
    a process that is killed between two moves leaves behind is refused by `load_translator`.

    Args:
        about: what else the description should hold, such as the score and the seed.

    Raises:
        OSError: the disk is full or the folder can't be written; what was there is as it was.
        TypeError: `about` holds what JSON can't, or the tokeniser is not a `Tokeniser`.
        ValueError: a weight is not finite, or too large for float16.
    """
    checks.path(folder=folder)
    checks.instance(Translator, translator=translator)
    checks.instance(Tokeniser, tokeniser=translator.tokeniser)
    folder, weights = Path(folder), _weights(translator.model)
    if overlap := {"config", "sha256"} & about.keys():
        raise ValueError(f"about must have other names than config and sha256, got {', '.join(sorted(overlap))}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=folder.name + ".", suffix=".part") as beside:
        new = Path(beside)
        files.write_whole(new / WEIGHTS, weights)
        translator.tokeniser.save(new / TOKENISER)
        sums = {name: _sha256((new / name).read_bytes()) for name in (WEIGHTS, TOKENISER)}
        description = {"config": asdict(translator.model.config), "sha256": sums, **about}
        files.write_whole(new / DESCRIPTION, json.dumps(description, indent=1).encode() + b"\n")
        folder.mkdir(exist_ok=True)
        for name in (WEIGHTS, TOKENISER, DESCRIPTION):
            os.replace(new / name, folder / name)


def load_translator(folder: str | Path = SHIPPED) -> Translator:
    """Return a translator in evaluation mode, in float32; without a folder, the one that ships with the library.

    Raises:
        FileNotFoundError: the folder or a file in it is missing.
        ValueError: the description is damaged, or a file is not the one that it names by its sha256.
        ModuleNotFoundError: the package safetensors or tokenizers is missing.
    """
    checks.path(folder=folder)
    folder = Path(folder)
    config, sums = _description(folder)
    content = {name: _read(folder / name) for name in (WEIGHTS, TOKENISER)}
    for name, wanted in sums.items():
        if (got := _sha256(content[name])) != wanted:
            raise ValueError(f"{folder / name} must have sha256 {wanted}, got {got}: save or download it again")
    model = Transformer(config)
    state = _state(content[WEIGHTS], folder / WEIGHTS)
    wanted, got = ({name: list(t.shape) for name, t in s.items()} for s in (model.state_dict(), state))
    if wanted != got:
        name = next(name for name in [*wanted, *got] if wanted.get(name) != got.get(name))
        raise ValueError(f"{folder} must hold {name} of shape {wanted.get(name)}, got {got.get(name)}")
    model.load_state_dict(state)
    return Translator(model.eval().requires_grad_(False), Tokeniser.load(folder / TOKENISER))


@lru_cache(maxsize=1)
def shipped() -> Translator:
    """Return the translator that ships with the library, loaded once: not to be changed."""
    return load_translator()


def _weights(model: Transformer) -> bytes:
    state = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            largest = model.state_dict()[name].abs().max().item()
            raise ValueError(f"every weight must be finite in float16 (below 65,520), got {largest} in {name}")
    return _safetensors().save(state)


def _state(content: bytes, path: Path) -> dict[str, Tensor]:
    library = _safetensors()
    try:
        return {name: tensor.float() for name, tensor in library.load(content).items()}
    except Exception as error:  # the package has errors of its own
        raise ValueError(f"{path} must be a file of safetensors, got {len(content)} bytes ({error})") from error


def _description(folder: Path) -> tuple[TransformerConfig, dict[str, str]]:
    content = _read(folder / DESCRIPTION)
    try:
        found: dict[str, Any] = json.loads(content)
        return TransformerConfig(**found["config"]), {name: found["sha256"][name] for name in (WEIGHTS, TOKENISER)}
    except (ValueError, TypeError, KeyError) as error:
        wanted = "a description written by save_translator, with config and sha256"
        raise ValueError(f"{folder / DESCRIPTION} must be {wanted}, got {len(content)} bytes ({error!r})") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        how = "`make train ARGS=--ship` makes the one that ships with the library, `save_translator` writes any other"
        raise FileNotFoundError(f"a translator must have the file {path}, and there is none; {how}") from error


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ModuleNotFoundError as error:
        text = "the translator needs the package safetensors: pip install transformer-lib[translation]"
        raise ModuleNotFoundError(text) from error
    return safetensors.torch
