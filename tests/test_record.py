"""A record holds what was run, on what, for each seed; a stopped one goes on; the library's copy is equal."""

import json

import pytest

from tools import record
from transformer_lib import experiments


def test_each_seed_is_run_once_and_the_record_says_on_what(tmp_path):
    asked = []

    def found(seed):
        asked.append(seed)
        return {"accuracy": seed / 10}

    record.run("toy", [1, 2], found, tmp_path)
    record.run("toy", [1, 2, 3], found, tmp_path)
    written = json.loads((tmp_path / "book/results/toy.json").read_text())
    assert asked == [1, 2, 3]
    assert [(one["seed"], one["accuracy"]) for one in written["runs"]] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert written["command"] == "python -m tools.record toy" and written["versions"]["torch"] and written["machine"]
    copy = tmp_path / "transformer_lib/records/toy.json"
    assert copy.read_bytes() == (tmp_path / "book/results/toy.json").read_bytes()


def test_a_stopped_record_keeps_the_seeds_that_were_done(tmp_path):
    def fails_at_two(seed):
        if seed == 2:
            raise KeyboardInterrupt
        return {}

    with pytest.raises(KeyboardInterrupt):
        record.run("toy", [1, 2, 3], fails_at_two, tmp_path)
    assert len(json.loads((tmp_path / "book/results/toy.json").read_text())["runs"]) == 1


def test_a_fresh_record_replaces_the_old_one_when_its_first_run_is_done_and_not_before(tmp_path):
    def fails(seed):
        raise ModuleNotFoundError

    record.run("toy", [1, 2], lambda seed: {"accuracy": 0.1}, tmp_path)
    old = (tmp_path / "book/results/toy.json").read_bytes()
    with pytest.raises(ModuleNotFoundError):
        record.run("toy", [1], fails, tmp_path, fresh=True)
    assert (tmp_path / "book/results/toy.json").read_bytes() == old
    record.run("toy", [1], lambda seed: {"accuracy": 0.9}, tmp_path, fresh=True)
    written = json.loads((tmp_path / "book/results/toy.json").read_text())
    assert [(one["seed"], one["accuracy"]) for one in written["runs"]] == [(1, 0.9)]


def test_runs_of_another_machine_are_not_mixed_with_this_ones(tmp_path):
    record.run("toy", [1], lambda seed: {}, tmp_path)
    path = tmp_path / "book/results/toy.json"
    path.write_text(path.read_text().replace('"machine": "', '"machine": "another, '))
    record.run("toy", [2], lambda seed: {}, tmp_path)
    assert [one["seed"] for one in json.loads(path.read_text())["runs"]] == [2]


def test_the_stored_records_are_whole_and_equal_to_their_copies():
    assert record.problems() == []


@pytest.mark.parametrize("change", ["differs", "no original", "no field", "no function"])
def test_a_planted_fault_is_found(tmp_path, change):
    source = tmp_path / "transformer_lib" / "experiments" / "toy.py"
    source.parent.mkdir(parents=True)
    source.write_text("def record(seed: int) -> dict: ...\n")
    record.run("toy", [1], lambda seed: {}, tmp_path)
    assert record.problems(tmp_path) == []
    original, copy = tmp_path / "book/results/toy.json", tmp_path / "transformer_lib/records/toy.json"
    if change == "differs":
        copy.write_text(copy.read_text() + " ")
    elif change == "no original":
        original.unlink()
    elif change == "no field":
        for path in (original, copy):
            path.write_text('{"runs": []}')
    else:
        source.write_text("")
    assert record.problems(tmp_path)


def test_an_unknown_record_is_refused():
    with pytest.raises(ValueError, match="name must be one of .* got 'nothing'"):
        experiments.recorded("nothing")
