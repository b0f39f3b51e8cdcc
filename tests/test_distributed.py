"""Several processes equal one: shares and weights in one process, and two Gloo processes by torchrun."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_model
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transformer_lib import distributed, training
from transformer_lib.data import Batch
from transformer_lib.model import Transformer

ROOT = Path(__file__).parent.parent
PAIRS = [([5, 6, 7], [7, 6, 5]), ([8, 9], [9, 8]), ([9, 5, 8, 9], [9, 8, 5, 9, 4, 4]), ([6], [6]), ([7, 7], [7])]


def translator() -> Transformer:
    return tiny_model(0, sharpness=1.0, dropout=0.0).double().train()


@given(st.integers(1, 9), st.integers(1, 9))
def test_the_shares_make_up_the_batch_and_differ_by_a_row_at_most(rows, count):
    batch = Batch.from_pairs([([4 + i], [4 + i] * (1 + i % 3)) for i in range(rows)])
    shares = [distributed.rows_of(batch, rank, count) for rank in range(min(rows, count))]
    assert sorted(row for share in shares for row in share.source[:, 0].tolist()) == list(range(4, 4 + rows))
    sizes = [len(share.source) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    for share in shares:
        for source, target in zip(share.source.tolist(), share.target.tolist(), strict=True):
            assert target == batch.target[source[0] - 4].tolist()


@pytest.fixture
def pretend(monkeypatch):
    """Return a function that makes this process one of several; what the others add up to is left out."""

    def be(rank: int, count: int) -> None:
        monkeypatch.setattr(distributed.processes, "is_initialized", lambda: True)
        monkeypatch.setattr(distributed.processes, "get_rank", lambda: rank)
        monkeypatch.setattr(distributed.processes, "get_world_size", lambda: count)
        monkeypatch.setattr(distributed.processes, "all_reduce", lambda tensor: None)

    return be


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_the_mean_of_the_processes_gradients_is_that_of_the_whole_batch(count, pretend):
    """With 8 processes for 5 rows three of them have nothing to do, but take part."""
    whole, batch = translator(), Batch.from_pairs(PAIRS)
    expected = training.translation_loss(whole, batch)
    expected.backward()
    models, losses = [], []
    for rank in range(count):
        pretend(rank, count)
        models.append(translator())
        loss = distributed.shared_loss(training.translation_loss)(models[-1], batch)
        loss.backward()
        losses.append(loss.item() * count)  # of all processes but this one nothing was added
    assert sum(losses) / count == pytest.approx(expected.item())
    for wanted, *found in zip(*(m.parameters() for m in [whole, *models]), strict=True):
        mean = torch.stack([parameter.grad for parameter in found]).mean(dim=0)
        torch.testing.assert_close(mean, wanted.grad, rtol=1e-9, atol=1e-12)


def test_a_mean_without_weights_would_be_another(pretend):
    model, batch = translator(), Batch.from_pairs(PAIRS)
    losses = [training.translation_loss(model, distributed.rows_of(batch, rank, 2)).item() for rank in range(2)]
    assert abs(sum(losses) / 2 - training.translation_loss(model, batch).item()) > 1e-3


def test_one_process_without_torchrun_trains_as_ever():
    ours, theirs, batch = translator(), translator(), Batch.from_pairs(PAIRS)
    run = {"batches": [batch] * 3, "rate": lambda _: 1e-2}
    with distributed.process_group() as device:
        wrapped = DistributedDataParallel(ours.to(device))
        optimizer = torch.optim.Adam(ours.parameters())
        shared = distributed.shared_loss(training.translation_loss)
        found = list(training.train(wrapped, loss_of=shared, optimizer=optimizer, **run))
    assert not distributed.processes.is_initialized() and "MASTER_PORT" not in os.environ
    optimizer = torch.optim.Adam(theirs.parameters())
    expected = list(training.train(theirs, loss_of=training.translation_loss, optimizer=optimizer, **run))
    assert found == pytest.approx(expected, rel=1e-12)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_the_group_is_left_also_after_an_error():
    with pytest.raises(ZeroDivisionError), distributed.process_group():
        raise ZeroDivisionError
    assert not distributed.processes.is_initialized()


def test_a_loss_that_is_not_finite_in_one_process_is_not_finite_in_all(pretend, monkeypatch):
    pretend(0, 2)
    monkeypatch.setattr(distributed.processes, "all_reduce", lambda tensor: tensor.add_(float("nan")))
    model, batch = translator(), Batch.from_pairs(PAIRS)

    def loss_of(model: nn.Module, part: Batch) -> Tensor:
        return training.translation_loss(model, part)

    optimizer = torch.optim.Adam(model.parameters())
    with pytest.raises(ValueError, match="finite, got nan"):
        next(training.train(model, [batch], distributed.shared_loss(loss_of), optimizer, lambda _: 0.1))


def trained(path: Path, processes: int) -> tuple[dict[str, Tensor], str]:
    command = [sys.executable, "-m"]
    if processes:
        command += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    command += ["tools.train_distributed", "--double", "--dropout", "0", "--steps", "12", "--tokens-per-batch", "150"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [*command, "--out", str(path)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return torch.load(path, weights_only=True), run.stdout


@pytest.mark.slow
def test_two_processes_equal_one_with_the_double_batch(tmp_path):
    one, said = trained(tmp_path / "one.pt", 0)
    two, also_said = trained(tmp_path / "two.pt", 2)
    assert one.keys() == two.keys() and one["embedding.table"].dtype == torch.float64
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-6, atol=1e-9, msg=lambda m, name=name: f"{name}: {m}")
    losses, also_losses = (
        [float(line.split()[2]) for line in text.splitlines() if "nats" in line] for text in (said, also_said)
    )
    assert len(losses) == 2 and also_losses == pytest.approx(losses, abs=2e-6)
    assert "1 processes" in said and "2 processes" in also_said
