"""Hints where a mask was wanted: tensors of True and False that differ."""

from torch import Tensor


def hints(got: Tensor, wanted: Tensor) -> list[str]:
    """Return one sentence on how two boolean tensors of one shape differ; nothing where they don't."""
    if got.equal(~wanted):
        return ["True and False are exchanged."]
    for axis in range(-1, -got.dim() - 1, -1):
        if got.flip(axis).equal(wanted):
            return [f"This is the right mask in reverse order along axis {axis}."]
    if got.dim() > 1 and got.size(-1) == got.size(-2) and got.mT.equal(wanted):
        return ["This is the right mask with its last two axes, queries and keys, exchanged."]
    sentences = {
        "True where False was wanted": int((got & ~wanted).sum()),
        "False where True was wanted": int((~got & wanted).sum()),
    }
    found = [f"{count} of {got.numel()} {_are(count)} {what}" for what, count in sentences.items() if count]
    return [f"On this input {', and '.join(found)}."] if found else []


def _are(count: int) -> str:
    return "place is" if count == 1 else "places are"
