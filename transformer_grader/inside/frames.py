"""Messages between the grader and a sandbox: a length, a JSON header, the tensors' bytes. Nothing is ever unpickled.

Both sides use this file; the trusted side believes nothing that it reads. Only the standard library is imported.
"""

import json
import math
import struct
import sys

HEAD = struct.Struct(">4sII")  # mark, bytes of the header, bytes of the body
MARK = b"TGF1"
HEADER_BYTES, BODY_BYTES, TEXT_BYTES = 1 << 18, 1 << 23, 1 << 21  # of one message
NODES, DEPTH, AXES = 512, 8, 8
WIDTHS = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8}
WIDTHS |= {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


class Malformed(ValueError):
    """A message isn't what the format says."""


def pack(header, body=b""):
    """Return a message's bytes.

    Raises:
        Malformed: it is larger than the other side would read.
    """
    text = json.dumps(header).encode()
    if len(text) > HEADER_BYTES or len(body) > BODY_BYTES:
        raise Malformed(f"a message must have at most {BODY_BYTES} bytes, got {len(text)} and {len(body)}")
    return HEAD.pack(MARK, len(text), len(body)) + text + body


def sizes(head):
    """Return how many bytes of header and body follow; Malformed before anything is allocated for them."""
    mark, header, body = HEAD.unpack(head)
    if mark != MARK or header > HEADER_BYTES or body > BODY_BYTES:
        raise Malformed(f"a message must begin with {MARK} and two bounded sizes, got {head.hex()}")
    return header, body


def parsed(text):
    """Return the header that a text holds: a JSON object with a kind, of few enough parts to be read at once."""
    if text.count(b"[") + text.count(b"{") > 8 * NODES:
        raise Malformed("a header must have few parts")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed("a header must be JSON") from error
    if not isinstance(header, dict) or not isinstance(header.get("kind"), str):
        raise Malformed("a header must be an object with a kind")
    return header


def texts(body):
    """Return name -> text of a body of JSON; nothing where it's anything else."""
    try:
        found = json.loads(body) if len(body) <= TEXT_BYTES else {}
    except (ValueError, RecursionError):
        return {}
    return {name: text for name, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}


def encode(value):
    """Return a value as a JSON tree and the bytes of its tensors; what isn't known becomes its type's name."""
    chunks, room = [], [NODES]
    return _tree(value, chunks, 0, room), b"".join(chunks)


def _tree(value, chunks, depth, room):
    room[0] -= 1
    if depth >= DEPTH or room[0] < 0:
        return {"x": "too deep or too long"}
    if value is None or isinstance(value, bool | str):
        return {"v": value if not isinstance(value, str) else value[:2000]}
    if isinstance(value, int):
        return {"v": int(value)} if abs(value) < 1 << 63 else {"x": "int"}
    if isinstance(value, float):
        return {"v": float(value)} if math.isfinite(value) else {"f": str(float(value))}
    if value is ...:
        return {"x": "ellipsis"}
    if isinstance(value, list | tuple):
        if len(value) > room[0]:
            return {"x": "too long"}
        return {"l": [_tree(part, chunks, depth + 1, room) for part in value]}
    return _tensor(value, chunks)


def _tensor(value, chunks):
    """Return the leaf of a tensor; of anything else the name of its type."""
    torch = sys.modules.get("torch")  # where nobody has imported it, there is no tensor
    if torch is None or not isinstance(value, torch.Tensor):
        return {"x": type(value).__name__[:40]}
    try:
        dtype, plain = str(value.dtype).removeprefix("torch."), value.detach().cpu()
        if dtype not in WIDTHS:
            return {"x": dtype[:40]}
        numbers = plain.reshape(-1).clone(memory_format=torch.contiguous_format)  # of one number, strides may lie
        chunks.append(numbers.view(torch.uint8).numpy().tobytes() if numbers.numel() else b"")
        return {"t": dtype, "shape": list(plain.shape), "even": bool(plain.is_contiguous())}
    except Exception as error:
        return {"x": type(error).__name__[:40]}


def decode(tree, body):
    """Return the value of a tree, lists as tuples.

    Raises:
        Malformed: shapes and bytes don't fit, or there are too many parts.
    """
    reader = _Reader(body)
    value = reader.value(tree, 0)
    if reader.at != len(body):
        raise Malformed(f"{len(body) - reader.at} bytes are left over")
    return value


class Unknown:
    """Stands for what can't be sent: it equals nothing."""

    def __init__(self, name):
        self.name = name


class _Reader:
    def __init__(self, body):
        self.body, self.at, self.nodes = body, 0, 0

    def value(self, tree, depth):
        self.nodes += 1
        if self.nodes > NODES or depth > DEPTH or not isinstance(tree, dict):
            raise Malformed("a value must be a tree of bounded size")
        if "l" in tree and isinstance(tree["l"], list):
            return tuple(self.value(part, depth + 1) for part in tree["l"])
        if "v" in tree and (tree["v"] is None or isinstance(tree["v"], bool | int | float | str)):
            large = isinstance(tree["v"], int) and abs(tree["v"]) >= 1 << 63  # larger than any float may be
            return Unknown("int") if large else tree["v"]
        if tree.get("f") in ("nan", "inf", "-inf"):
            return float(tree["f"])
        if isinstance(tree.get("x"), str):
            return ... if tree["x"] == "ellipsis" else Unknown(tree["x"][:40])
        if isinstance(tree.get("t"), str):
            return self.tensor(tree)
        raise Malformed("a value must be one of the known leaves")

    def tensor(self, tree):
        shape, width = tree.get("shape"), WIDTHS.get(tree["t"])
        if width is None or not isinstance(shape, list) or len(shape) > AXES:
            raise Malformed("a tensor must have a known dtype and a short shape")
        if not all(type(size) is int and 0 <= size <= BODY_BYTES for size in shape):
            raise Malformed("a tensor's sizes must be counts")
        size = math.prod(shape) * width
        if size > len(self.body) - self.at:
            raise Malformed("a tensor's shape must fit its bytes")
        chunk = bytearray(self.body[self.at : self.at + size])
        self.at += size
        return _of_bytes(chunk, tree["t"], shape, tree.get("even") is not False)


def _of_bytes(chunk, dtype, shape, even):
    import torch

    if dtype == "bool":
        flat = torch.frombuffer(chunk, dtype=torch.uint8) != 0 if chunk else torch.zeros(0, dtype=torch.bool)
    else:
        kind = getattr(torch, dtype)
        flat = torch.frombuffer(chunk, dtype=kind) if chunk else torch.zeros(0, dtype=kind)
    tensor = flat.reshape(shape)
    if even or not chunk:
        return tensor
    if tensor.dim() > 1:
        return tensor.transpose(-2, -1).contiguous().transpose(-2, -1)
    return tensor.repeat_interleave(2)[::2] if tensor.dim() else tensor
