"""The small German-to-English translator that ships with the library, and what it takes to use or save one.

Trained on Multi30k (Elliott et al., 2016) by `make train`; the record of that run is `book/results/`.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from transformer_lib import decoding, files
from transformer_lib.data import Tokeniser, pad
from transformer_lib.model import Transformer, TransformerConfig

SHIPPED = Path(__file__).parent / "weights" / "de_en"
WEIGHTS, TOKENISER, DESCRIPTION = "model.safetensors", "tokeniser.json", "description.json"


@dataclass(frozen=True)
class Translator:
    """A trained model with the tokeniser that it was trained with."""

    model: Transformer
    tokeniser: Tokeniser

    def translate(
        self, sentences: Sequence[str], beam: int = 5, alpha: float = 0.6, sentences_per_batch: int = 64
    ) -> list[str]:
        """Return each sentence's translation, in the order of the sentences.

        Args:
            beam: candidates kept at every step; 1 decodes greedily.
            alpha: strength of `decoding.length_penalty`.

        Raises:
            TypeError: `sentences` is one string instead of a sequence of them.
            ValueError: a sentence is empty, or the model is in training mode.
        """
        if isinstance(sentences, str):
            raise TypeError("sentences must be a sequence of strings, got one string: put it into a list")
        ids = [row[: self.model.config.max_length] for row in self.tokeniser.encode_all(sentences)]
        if [] in ids:
            raise ValueError(f"every sentence must have a token, got an empty one at place {ids.index([])}")
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        outputs = [""] * len(ids)
        for start in range(0, len(order), sentences_per_batch):
            places = order[start : start + sentences_per_batch]
            source = pad([ids[i] for i in places]).to(self.model.embedding.table.device)
            for place, target in zip(places, self._decode(source, beam, alpha), strict=True):
                outputs[place] = self.tokeniser.decode(target)
        return outputs

    def _decode(self, source: Tensor, beam: int, alpha: float) -> list[list[int]]:
        if beam == 1:
            return decoding.greedy(self.model, source)
        return decoding.beam_search(self.model, source, beam, alpha)


def save_translator(folder: str | Path, translator: Translator, **about: object) -> None:
    """Write model (float16 safetensors), tokeniser and description into a folder, the description last.

    Args:
        about: what else the description should hold, such as the score and the seed.

    Raises:
        OSError: the disk is full or the folder can't be written; each file is whole or as it was.
    """
    from safetensors.torch import save

    state = {name: tensor.half().contiguous() for name, tensor in translator.model.state_dict().items()}
    weights, folder = save(state), Path(folder)
    files.write_whole(folder / WEIGHTS, weights)
    translator.tokeniser.save(folder / TOKENISER)
    sums = {name: _sha256(folder / name) for name in (WEIGHTS, TOKENISER)}
    description = {"config": asdict(translator.model.config), "sha256": sums, **about}
    files.write_whole(folder / DESCRIPTION, json.dumps(description, indent=1).encode() + b"\n")


def load_translator(folder: str | Path = SHIPPED) -> Translator:
    """Return a translator in evaluation mode, in float32; without a folder, the one that ships with the library.

    Raises:
        FileNotFoundError: the folder or a file in it is missing.
        ValueError: a file is not the one that the description names by its sha256.
        ModuleNotFoundError: the package safetensors or tokenizers is missing.
    """
    folder = Path(folder)
    description = json.loads((folder / DESCRIPTION).read_text())
    for name, wanted in description["sha256"].items():
        if (got := _sha256(folder / name)) != wanted:
            raise ValueError(f"{folder / name} must have sha256 {wanted}, got {got}")
    try:
        from safetensors.torch import load
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the translator needs the package safetensors: pip install transformer-lib[translation]"
        ) from error
    model = Transformer(TransformerConfig(**description["config"]))
    model.load_state_dict({name: tensor.float() for name, tensor in load((folder / WEIGHTS).read_bytes()).items()})
    return Translator(model.eval().requires_grad_(False), Tokeniser.load(folder / TOKENISER))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
