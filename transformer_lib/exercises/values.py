"""Values that an answer takes or returns: copied, compared, and written as JSON (never pickled)."""

import math
from typing import Any

import torch
from torch import Tensor

SHOWN = 8  # rows, and numbers of a row, of a large tensor
DIGITS = 7  # significant ones that are stored of a float: all that float32 has


def encode(value: Any) -> Any:
    """Return the value as JSON knows it.

    Raises:
        TypeError: it is not made of tensors, numbers, strings, None, lists, tuples and dicts.
    """
    if isinstance(value, Tensor):
        numbers = [_short(number) for number in value.detach().flatten().tolist()]
        return {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "values": numbers}
    if isinstance(value, list | tuple):
        return [encode(part) for part in value]
    if isinstance(value, dict):
        return {"items": {name: encode(part) for name, part in value.items()}}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _short(value)
    raise TypeError(f"an exercise's values must be tensors, numbers or strings, got {type(value).__name__}")


def _short(number: Any) -> Any:
    if not isinstance(number, float):
        return number
    return float(f"{number:.{DIGITS}g}") if math.isfinite(number) else str(number)


def decode(written: Any) -> Any:
    """Return the value that `encode` wrote; a list comes back as a tuple."""
    if isinstance(written, dict) and "dtype" in written:
        dtype = getattr(torch, written["dtype"])
        numbers = [float(n) if isinstance(n, str) else n for n in written["values"]]
        return torch.tensor(numbers, dtype=dtype, device="cpu").reshape(written["shape"])
    if isinstance(written, dict):
        return {name: decode(part) for name, part in written["items"].items()}
    if isinstance(written, list):
        return tuple(decode(part) for part in written)
    return float(written) if written in ("nan", "inf", "-inf") else written


def copied(value: Any) -> Any:
    """Return a copy that shares no memory, so that an answer can't spoil what it is given."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(copied(part) for part in value)
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    return value


def same(got: Any, wanted: Any, tolerance: float) -> bool:
    """Tell whether two values agree: in kind, in shape, and everywhere within the tolerance (NaN agrees with NaN)."""
    if isinstance(wanted, Tensor):
        return same_kind(got, wanted) and got.shape == wanted.shape and not different(got, wanted, tolerance).any()
    if isinstance(wanted, list | tuple):
        return (
            isinstance(got, list | tuple)
            and len(got) == len(wanted)
            and all(same(one, other, tolerance) for one, other in zip(got, wanted, strict=True))
        )
    if isinstance(wanted, float):
        number = as_number(got)
        return number is not None and same(torch.tensor(number), torch.tensor(wanted), tolerance)
    return type(got) is type(wanted) and got == wanted


def edited(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names of the tensors that were changed in place, or made to collect gradients."""
    return [
        name
        for name, tensor in before.items()
        if isinstance(tensor, Tensor)
        and not (same(after[name], tensor, 0.0) and after[name].requires_grad == tensor.requires_grad)
    ]


def same_kind(got: Any, wanted: Tensor) -> bool:
    """Tell whether both are tensors of the same kind of numbers; float64 is as good as float32."""
    return isinstance(got, Tensor) and kind(got) == kind(wanted)


def kind(tensor: Tensor) -> str:
    """Return what a tensor's numbers are: boolean, floating point, complex or integer."""
    if tensor.dtype == torch.bool:
        return "boolean"
    if tensor.is_floating_point():
        return "floating point"
    return "complex" if tensor.is_complex() else "integer"


def different(got: Tensor, wanted: Tensor, tolerance: float) -> Tensor:
    """Return True where two tensors of one shape differ by more than tolerance * (1 + |wanted|)."""
    got, wanted = got.detach().cpu().to(torch.float64), wanted.to(torch.float64)
    return ~torch.isclose(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


def as_number(value: Any) -> float | None:
    """Return a Python number or a tensor with one element as a float; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, Tensor) and value.numel() == 1 and value.dtype != torch.bool and not value.is_complex():
        return float(value.detach())
    return None


def dtype_of(inputs: dict[str, Any]) -> torch.dtype:
    """Return the dtype of the first input of floating point; the default one where there is none."""
    found = [v.dtype for v in inputs.values() if isinstance(v, Tensor) and v.is_floating_point()]
    return found[0] if found else torch.get_default_dtype()


def shown(tensor: Tensor, indent: str = "", decimals: int = 3, first: tuple[int, int] = (0, 0)) -> str:
    """Return a tensor's text, short: a few decimals, and of a large one some rows and columns.

    Args:
        first: the row and the column with which to begin.
    """
    tensor = tensor.detach().cpu()
    while tensor.dim() > 2:
        tensor = tensor[0]
    if tensor.is_floating_point():
        tensor = torch.where(tensor.abs() < 0.5 * 10**-decimals, torch.zeros_like(tensor), tensor)  # no -0.000
    table = tensor if tensor.dim() == 2 else tensor.reshape(1, -1)
    rows = table[first[0] : first[0] + SHOWN, first[1] : first[1] + SHOWN]
    lines = ["[" + ", ".join(_decimal(number, decimals) for number in row) + "]" for row in rows.tolist()]
    return ("\n" + indent).join(lines)


def _decimal(number: Any, decimals: int) -> str:
    if not isinstance(number, float):
        return f"{number!s:>5}" if isinstance(number, bool) else str(number)
    return f"{number:{decimals + 3}.{decimals}f}" if not 1e5 < abs(number) < math.inf else f"{number:.{decimals}g}"
