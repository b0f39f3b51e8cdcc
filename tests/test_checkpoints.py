"""Checkpoints: a run that goes on as if it had not stopped, and files that are whole or as they were."""

import errno
import io
import os
import pickle
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from transformer_lib import checkpoints, training
from transformer_lib.data import Batch
from transformer_lib.model import Transformer, TransformerConfig

CONFIG = TransformerConfig(vocabulary=12, d_model=8, heads=2, d_ff=8, layers=1, dropout=0.2, max_length=8)
BATCHES = [Batch.from_pairs([([5, 6 + i], [7, 6]), ([8], [9, 8, 5])]) for i in range(6)]


def translator(**changes: object) -> Transformer:
    return Transformer(TransformerConfig(**(vars(CONFIG) | changes)))


def adam(model: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=1.0)


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int) -> list[float]:
    run = training.train(
        model, BATCHES[first - 1 : last], training.translation_loss, optimizer, lambda step: 0.01 / step, first
    )
    return list(run)


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[tuple[Path, Transformer, torch.optim.Adam]]:
    """A checkpoint after three steps, with the model and the optimiser that it is of."""
    model = translator()
    optimizer = adam(model)
    steps(model, optimizer, 1, 3)
    path = tmp_path / "run.pt"
    checkpoints.save_checkpoint(path, model, optimizer, step=3, best=1.5, curve=[[1, 2.5], [3, 1.5]])
    yield path, model, optimizer


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(trained):
    path, model, optimizer = trained
    losses = steps(model, optimizer, 4, 6)
    torch.manual_seed(99)
    resumed = translator()
    other = adam(resumed)
    steps(resumed, other, 1, 1)  # any state of its own must go
    step, extra = checkpoints.load_checkpoint(path, resumed, other)
    assert (step, extra) == (3, {"best": 1.5, "curve": [[1, 2.5], [3, 1.5]]})
    assert steps(resumed, other, step + 1, 6) == losses
    assert same(state_of(resumed), state_of(model))
    for mine, theirs in zip(other.state.values(), optimizer.state.values(), strict=True):
        assert all(mine[name].equal(theirs[name]) for name in theirs)


def test_the_dropout_of_a_resumed_run_needs_the_stored_random_state(trained):
    path, model, optimizer = trained
    losses = steps(model, optimizer, 4, 4)
    resumed = translator()
    other = adam(resumed)
    checkpoints.load_checkpoint(path, resumed, other)
    torch.manual_seed(99)
    assert steps(resumed, other, 4, 4) != losses


def test_without_an_optimiser_only_the_model_changes(trained):
    path, model, _ = trained
    other = translator()
    random_state = torch.get_rng_state()
    checkpoints.load_checkpoint(path, other)
    assert same(state_of(other), state_of(model)) and torch.get_rng_state().equal(random_state)


def test_saving_again_replaces_the_file_and_saving_makes_folders(trained, tmp_path):
    path, model, optimizer = trained
    checkpoints.save_checkpoint(path, model, optimizer, step=7)
    assert checkpoints.load_checkpoint(path, model, optimizer) == (7, {})
    deep = tmp_path / "a" / "b" / "c.pt"
    checkpoints.save_checkpoint(deep, model, optimizer, step=8)
    assert checkpoints.load_checkpoint(str(deep), model)[0] == 8
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["c.pt", "run.pt"]


# files that don't fit


def refuses(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer | None, *texts: str) -> None:
    """Demand an error that holds the texts and the path, and a model, optimiser and random state left as they were."""
    before, random_state = state_of(model), torch.get_rng_state()
    moments = [s["exp_avg"].clone() for s in optimizer.state.values()] if optimizer else []
    with pytest.raises(ValueError) as caught:
        checkpoints.load_checkpoint(path, model, optimizer)
    assert all(text in str(caught.value) for text in (str(path), "must", *texts)), caught.value
    assert same(state_of(model), before) and torch.get_rng_state().equal(random_state)
    if optimizer:
        assert all(s["exp_avg"].equal(m) for s, m in zip(optimizer.state.values(), moments, strict=True))


def test_a_file_cut_short_anywhere_is_refused(trained):
    path, model, optimizer = trained
    whole = path.read_bytes()
    steps(model, optimizer, 4, 4)
    for length in [0, 1, 10, *range(100, len(whole), len(whole) // 40), len(whole) - 1]:
        path.write_bytes(whole[:length])
        refuses(path, model, optimizer, "checkpoint", f"a file of {length} bytes")


def test_a_flipped_bit_is_refused_or_lies_where_it_changes_nothing(trained):
    path, model, optimizer = trained
    whole, saved = path.read_bytes(), state_of(model)
    generator = random.Random(0)
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        try:
            step, extra = checkpoints.load_checkpoint(path, model, optimizer)
        except ValueError:
            refused += 1
        else:
            assert step == 3 and extra["best"] == 1.5
        assert same(state_of(model), saved)
    assert refused > 30


class Trap:
    """What a file made by somebody else could run."""

    def __reduce__(self):
        return os.mkdir, ("trapped",)


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("readme.txt", "not a checkpoint")
    return buffer.getvalue()


FOREIGN = {
    "text": lambda: b"a page that says 404\n" * 50,
    "zeros": lambda: bytes(2000),
    "another zip": archive,
    "pickled list": lambda: pickle.dumps([1, 2, 3]),
    "a list by torch": lambda: saved([1, 2, 3]),
    "only weights": lambda: saved(translator().state_dict()),
    "half of the parts": lambda: saved({"format": checkpoints.FORMAT, "model": {}}),
    "another format": lambda: saved(dict.fromkeys(checkpoints.PARTS, "transformer_lib checkpoint 999")),
    "a trap": lambda: saved({"format": checkpoints.FORMAT, "model": Trap()}),
    "a pickled trap": lambda: pickle.dumps(Trap()),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_and_runs_nothing(kind, trained, tmp_path, monkeypatch):
    path, model, optimizer = trained
    monkeypatch.chdir(tmp_path)
    path.write_bytes(FOREIGN[kind]())
    refuses(path, model, optimizer, "checkpoint", "got")
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"d_model": 16}, ["[8, 8]", "[16, 16]"]),
        ({"vocabulary": 13}, ["embedding.table", "[12, 8]", "[13, 8]"]),
        ({"layers": 2}, ["layers.1", "none"]),
        ({"positions": "learned"}, ["embedding.learned.table", "none", "[8, 8]"]),
        ({"norm": "post"}, ["encoder.norm.weight", "[8]", "none"]),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(trained, changes, texts):
    path, _, _ = trained
    other = translator(**changes)
    refuses(path, other, adam(other), *texts)


def test_a_checkpoint_of_another_optimiser_is_refused_and_leaves_the_model(trained):
    path, model, _ = trained
    steps(model, adam(model), 4, 4)
    several = torch.optim.Adam([{"params": [p]} for p in model.parameters()])
    refuses(path, model, several, "optimiser")


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.pt"):
        checkpoints.load_checkpoint(tmp_path / "nothing.pt", translator())


@pytest.mark.parametrize("unreadable", [Path("x"), {"a": [Trap()]}, lambda: 0], ids=["path", "object", "function"])
def test_what_could_not_be_read_back_is_not_written(trained, unreadable):
    path, model, optimizer = trained
    before = path.read_bytes()
    with pytest.raises(TypeError, match=r"extra must hold numbers, strings, .*got \{'note': "):
        checkpoints.save_checkpoint(path, model, optimizer, step=4, note=unreadable)
    assert path.read_bytes() == before and not Path("trapped").exists()


# files that can't be written


def fail(number: int):
    def raise_it(*_, **__):
        raise OSError(number, os.strerror(number))

    return raise_it


class FullDisk(io.BytesIO):
    """A file that takes no byte."""

    write = staticmethod(fail(errno.ENOSPC))


@pytest.mark.parametrize(
    ("where", "number"),
    [
        ("os.fsync", errno.ENOSPC),
        ("os.replace", errno.EACCES),
        ("os.fsync", errno.EIO),
        ("tempfile.mkstemp", errno.EROFS),
    ],
)
@pytest.mark.parametrize("old", [True, False], ids=["old file", "no file"])
def test_a_disk_that_refuses_leaves_the_old_file_and_no_other(trained, monkeypatch, where, number, old):
    path, model, optimizer = trained
    if not old:
        path.unlink()
    before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    monkeypatch.setattr(where, fail(number))
    with pytest.raises(OSError, match="run.pt could not be written and is as it was") as caught:
        checkpoints.save_checkpoint(path, model, optimizer, step=4)
    assert caught.value.errno == number and os.strerror(number) in str(caught.value)
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == before


def test_a_disk_that_is_full_in_the_middle_leaves_the_old_file_and_no_other(trained, monkeypatch):
    path, model, optimizer = trained
    before = path.read_bytes()
    real = os.fdopen

    def full(handle: int, mode: str):
        file = real(handle, mode)
        file.write(b"part")
        file.flush()
        file.close()
        return FullDisk()

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space left on device"):
        checkpoints.save_checkpoint(path, model, optimizer, step=4)
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == ["run.pt"]


def test_an_interruption_while_writing_leaves_the_old_file_and_no_other(trained, monkeypatch):
    path, model, optimizer = trained
    before = path.read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save_checkpoint(path, model, optimizer, step=4)
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == ["run.pt"]


def test_a_folder_in_the_files_place_is_an_error_that_names_it(trained, tmp_path):
    _, model, optimizer = trained
    (tmp_path / "folder.pt").mkdir()
    with pytest.raises(OSError, match=r"folder\.pt could not be written"):
        checkpoints.save_checkpoint(tmp_path / "folder.pt", model, optimizer, step=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.pt", "run.pt"]


def test_another_kind_of_optimiser_is_refused_before_anything_changes(tmp_path):
    model = torch.nn.Linear(2, 3)
    checkpoints.save_checkpoint(tmp_path / "adam.pt", model, torch.optim.Adam(model.parameters()), step=0)
    other, before = torch.nn.Linear(2, 3), torch.get_rng_state()
    weights = other.weight.detach().clone()
    with pytest.raises(ValueError, match="same kind of optimiser.*momentum"):
        checkpoints.load_checkpoint(tmp_path / "adam.pt", other, torch.optim.SGD(other.parameters(), momentum=0.9))
    assert torch.equal(other.weight, weights) and torch.equal(torch.get_rng_state(), before)


def test_a_checkpoint_of_another_dtype_is_refused_and_changes_nothing(tmp_path):
    wide, narrow = nn.Linear(3, 2).double(), nn.Linear(3, 2)
    checkpoints.save_checkpoint(tmp_path / "wide.pt", wide, torch.optim.SGD(wide.parameters()), step=1)
    before = narrow.weight.clone()
    with pytest.raises(
        ValueError, match=r"weight has shape \[2, 3\] of torch.float64 where .*torch.float32 was wanted"
    ):
        checkpoints.load_checkpoint(tmp_path / "wide.pt", narrow)
    assert narrow.weight.equal(before)


def test_the_random_state_of_gpus_is_kept_where_there_are_as_many(tmp_path, monkeypatch):
    model, put_back = nn.Linear(3, 2), []
    optimizer, states = torch.optim.SGD(model.parameters()), [torch.arange(16, dtype=torch.uint8)] * 2
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: states)
    checkpoints.save_checkpoint(tmp_path / "on_gpus.pt", model, optimizer, step=1)
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", put_back.append)
    for available, count in ((False, 0), (True, 1)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=available: found)
        monkeypatch.setattr(torch.cuda, "device_count", lambda found=count: found)
        checkpoints.load_checkpoint(tmp_path / "on_gpus.pt", model, optimizer)
        assert put_back == []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    checkpoints.load_checkpoint(tmp_path / "on_gpus.pt", model, optimizer)
    assert len(put_back) == 1 and all(a.equal(b) for a, b in zip(put_back[0], states, strict=True))


@pytest.mark.cuda
def test_a_gpu_draws_after_loading_what_it_drew_after_saving(tmp_path):
    model = nn.Linear(3, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    checkpoints.save_checkpoint(tmp_path / "on_gpu.pt", model, optimizer, step=1)
    drawn = torch.rand(5, device="cuda")
    checkpoints.load_checkpoint(tmp_path / "on_gpu.pt", model, optimizer)
    assert torch.rand(5, device="cuda").equal(drawn)
