"""`make train`: a run that may be stopped at any point, says what is wrong in plain words, and records what it did."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import jaxtyping
import pytest
import torch

from tools import ROOT, lock, train, training_run, training_settings
from tools.training_run import BEST, FILES, LAST, SETTINGS, Run
from tools.training_settings import Corpus, Settings
from transformer_lib import accumulation, multi30k, training, translator

SIZES = {"epochs": 3, "vocabulary": 120, "d_model": 16, "heads": 2, "d_ff": 16, "layers": 1, "warmup": 8}
SIZES |= {"tokens_per_batch": 320, "factor": 2.0}
ARGUMENTS = ["--toy", *(word for name, value in SIZES.items() for word in (f"--{name.replace('_', '-')}", str(value)))]
STEPS = 21


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """A hundred sentences of the toy grammar."""
    full = training_settings.toy_corpus()
    return Corpus(full.train[:100], full.validation[:10], full.test[:10])


@pytest.fixture(autouse=True)
def at_full_speed():
    """Other tests check the shapes."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def tiny(corpus, monkeypatch):
    """Let `make train --toy` be a matter of seconds."""
    monkeypatch.setattr(train, "toy_corpus", lambda: corpus)
    monkeypatch.setattr(training_run, "SAVE_EVERY", 2)
    monkeypatch.setattr(train, "keep_memory", lambda: None)


def call(monkeypatch, *arguments: object) -> str | int | None:
    """Run the command in this process; return what it exits with, None when it ends well."""
    monkeypatch.setattr(sys, "argv", ["train", *map(str, arguments)])
    try:
        train.main()
    except SystemExit as stop:
        return stop.code
    return None


def settings(**changes: object) -> Settings:
    return Settings(**(SIZES | changes))


def run_in(folder: Path, corpus: Corpus, **changes: object) -> Run:
    """Return a run that goes on from what the folder holds."""
    run = Run(settings(**changes), corpus, folder)
    run.resume()
    return run


def outcome(folder: Path) -> dict[str, object]:
    """Return all that two equal runs must have in common, down to the last bit."""
    found: dict[str, object] = {}
    for name in (LAST, BEST):
        state = torch.load(folder / name, weights_only=True)
        found[name] = [state["step"], state["random"].tolist(), state["extra"]["losses"]]
        found[name] += [t.tolist() for t in state["model"].values()]
        found[name] += [t.tolist() for s in state["optimizer"]["state"].values() for t in s.values()]
    record = json.loads((folder / "translator_toy_seed1.json").read_text())
    for row in (record, *record["curve"], *record["test"].values()):
        for timing in ("cpu_minutes", "wall_minutes", "cpu_seconds", "command"):
            row.pop(timing, None)
    found["record"] = record
    found |= {path.name: path.read_bytes() for path in folder.glob("*.txt")}
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != lock.LOCK)


HYPOTHESES = ["translator_toy_seed1_beam_5.txt", "translator_toy_seed1_greedy.txt"]
ALL_FILES = sorted([*FILES, "translator_toy_seed1.json", *HYPOTHESES])


# stops and restarts


class Stop(BaseException):
    """What a stop looks like to the code: nobody catches it."""


SUBWORDS = pytest.param(("--bpe-dropout", "0.2", "--positions", "rotary"), marks=pytest.mark.slow)


@pytest.mark.parametrize("chance", [(), SUBWORDS])
def test_a_run_stopped_after_each_step_and_before_each_evaluation_ends_where_a_whole_one_ends(
    corpus, tiny, monkeypatch, tmp_path, chance
):
    """In one process, so that each point can be tried; with real kills: the next test but one."""
    own = (*ARGUMENTS, *chance)
    assert call(monkeypatch, *own, "--folder", tmp_path / "whole") is None
    wanted = outcome(tmp_path / "whole")
    assert (chance or wanted[LAST][0] == STEPS) and names_in(tmp_path / "whole") == ALL_FILES
    step, evaluate, stops = Run.loss, training.evaluate, []

    def stopping(real, name):
        def function(*arguments):
            point = (name, arguments[0].step if name == "loss" else len(stops))
            if len(stops) % 3 != 2:  # two of three calls stop; the third goes on
                stops.append(point)
                raise Stop
            stops.append(point)
            return real(*arguments)

        return function

    monkeypatch.setattr(training_run, "SAVE_EVERY", 1)
    monkeypatch.setattr(Run, "loss", stopping(step, "loss"))
    monkeypatch.setattr(training, "evaluate", stopping(evaluate, "evaluate"))
    for _ in range(300):
        try:
            assert call(monkeypatch, *own, "--folder", tmp_path / "stopped") is None
            break
        except Stop:
            continue
    assert len(stops) >= 3 * (STEPS + SIZES["epochs"])
    assert outcome(tmp_path / "stopped") == wanted


DRIVER = """
import os, random, signal, sys
import torch
import torch._dynamo  # what the first optimiser step would load in each child anew

torch.set_num_threads(1)
from tools import train, training_run
from tools.training_settings import Corpus, toy_corpus
from transformer_lib import training

full = toy_corpus()
train.toy_corpus = lambda: Corpus(full.train[:100], full.validation[:10], full.test[:10])
training_run.SAVE_EVERY = 2
left = float("inf")

def mortal(function):
    def call(*arguments, **more):
        strike()
        found = function(*arguments, **more)
        strike()
        return found
    return call

def strike():
    global left
    left -= 1
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)

def run(folder, lives):
    global left
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        left = lives
        for owner, name in [(os, "replace"), (os, "fsync"), (torch.nn.utils, "clip_grad_norm_"),
                            (training, "evaluate"), (train, "scores"), (training_run, "encode_pairs")]:
            setattr(owner, name, mortal(getattr(owner, name)))
        sys.argv = ["train", *sys.argv[3:], "--folder", folder]
        train.main()
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)

assert run(sys.argv[1] + "/whole", float("inf")) == 0
random.seed(int(sys.argv[2]))
kills = 0
while (code := run(sys.argv[1] + "/killed", random.randint(1, 30))) == -signal.SIGKILL:
    kills += 1
print("kills", kills, "code", code)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks a process that has loaded torch")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_run_killed_at_random_points_ends_bit_for_bit_where_a_whole_one_ends(tmp_path, seed):
    command = [sys.executable, "-c", DRIVER, str(tmp_path), str(seed), *ARGUMENTS]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    words = done.stdout.split()
    assert words[-1] == "0" and int(words[-3]) >= 7, done.stdout[-500:] + done.stderr[-2000:]
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    assert names_in(tmp_path / "killed") == ALL_FILES


ENDLESS = """
import signal
import sys
from tools import train, training_run
from tools.training_settings import Corpus, toy_corpus

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is deaf to it
full = toy_corpus()
train.toy_corpus = lambda: Corpus(full.train[:100], full.validation[:10], full.test[:10])
training_run.SAVE_EVERY = 2
train.main()
"""


@pytest.mark.slow
def test_control_c_stops_with_a_message_and_the_same_command_goes_on(tmp_path):
    arguments = [*ARGUMENTS, "--epochs", "3000", "--folder", str(tmp_path)]
    wanted = "from the start"
    for _ in range(2):
        started = time.time()
        (tmp_path / BEST).unlink(missing_ok=True)
        command = [sys.executable, "-c", ENDLESS, *arguments]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        before = (tmp_path / LAST).stat().st_mtime_ns if (tmp_path / LAST).exists() else 0
        while time.time() < started + 120 and process.poll() is None:
            if (tmp_path / LAST).exists() and (tmp_path / LAST).stat().st_mtime_ns > before:
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 1 and "Traceback" not in errors, errors[-2000:]
        assert "Stopped after step" in errors and "goes on from step" in errors
        assert wanted in output, output
        wanted = f"from step {torch.load(tmp_path / LAST, weights_only=True)['step']};"
    assert not list(tmp_path.glob("*.part"))


def test_control_c_outside_training_is_no_traceback_either(tiny, monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "translate", interrupted)
    code = call(monkeypatch, *ARGUMENTS, "--folder", tmp_path)
    assert "Stopped." in code and "goes on" in code


def test_an_interrupt_before_the_first_checkpoint_says_that_none_was_written(tiny, monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "loss", interrupted)
    code = call(monkeypatch, *ARGUMENTS, "--folder", tmp_path)
    assert "Stopped after step 0" in code and "no checkpoint has been written yet" in code


def test_a_finished_run_is_translated_again_without_a_step(tiny, monkeypatch, tmp_path):
    assert call(monkeypatch, *ARGUMENTS, "--folder", tmp_path) is None
    wanted = outcome(tmp_path)
    minutes = json.loads((tmp_path / "translator_toy_seed1.json").read_text())["cpu_minutes"]
    for path in tmp_path.glob("translator*"):
        path.unlink()
    monkeypatch.setattr(Run, "loss", lambda *_: pytest.fail("a step was taken"))
    assert call(monkeypatch, *ARGUMENTS, "--folder", tmp_path) is None
    assert outcome(tmp_path) == wanted
    assert json.loads((tmp_path / "translator_toy_seed1.json").read_text())["cpu_minutes"] == minutes


# the books: time, precision, the best state


@pytest.fixture
def clock(tiny, monkeypatch):
    """A clock by which a step takes one second, an evaluation ten, and nothing else takes time."""
    now = [0.0]
    loss, evaluate = Run.loss, training.evaluate

    def taking(seconds, real):
        def function(*arguments):
            now[0] += seconds
            return real(*arguments)

        return function

    monkeypatch.setattr(training_run, "_now", lambda: (now[0], 2 * now[0]))
    monkeypatch.setattr(Run, "loss", taking(1.0, loss))
    monkeypatch.setattr(training, "evaluate", taking(10.0, evaluate))
    return now


def test_time_counts_steps_and_evaluations_once_also_over_stops(corpus, clock, monkeypatch, tmp_path):
    whole = run_in(tmp_path / "whole", corpus)
    whole.train()
    assert (whole.cpu_seconds, whole.wall_seconds) == (STEPS + 30.0, 2 * (STEPS + 30.0))
    taking = Run.loss
    for stop_at in (3, 6, 11, 18):

        def stopping(run, model, batch, stop_at=stop_at):
            found = taking(run, model, batch)
            if run.step == stop_at:
                raise Stop
            return found

        with monkeypatch.context() as patch, pytest.raises(Stop):
            patch.setattr(Run, "loss", stopping)
            run_in(tmp_path / "stopped", corpus).train()
        clock[0] += 1000  # nobody works between two starts
    stopped = run_in(tmp_path / "stopped", corpus)
    stopped.train()
    assert stopped.cpu_seconds == whole.cpu_seconds
    assert [row["cpu_minutes"] for row in stopped.curve] == [row["cpu_minutes"] for row in whole.curve]


def test_a_run_keeps_the_precision_in_which_it_began(corpus, tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(training, "best_precision", lambda device: torch.float32)
    run_in(tmp_path, corpus, epochs=1).train()
    monkeypatch.setattr(training, "best_precision", lambda device: torch.bfloat16)
    assert run_in(tmp_path, corpus, epochs=1).precision == torch.float32


def test_half_precision_scales_its_loss_and_goes_on_with_the_same_scale(corpus, tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(training, "best_precision", lambda device: torch.float16)
    whole = run_in(tmp_path / "whole", corpus, epochs=1)
    whole.train()
    new = accumulation.gradient_scaler("cpu", torch.float16).state_dict()
    assert whole.scaler.is_enabled() and whole.scaler.state_dict() != new
    with monkeypatch.context() as patch:
        patch.setattr(Run, "_end_epoch", lambda *_: None)
        run_in(tmp_path / "stopped", corpus, epochs=1).train()  # its last checkpoint stands before the last step
    again = run_in(tmp_path / "stopped", corpus, epochs=1)
    assert 0 < again.step < whole.step and again.scaler.state_dict() not in (new, whole.scaler.state_dict())
    again.train()
    assert again.scaler.state_dict() == whole.scaler.state_dict()
    assert all(a.equal(b) for a, b in zip(again.model.parameters(), whole.model.parameters(), strict=True))


def test_other_precisions_need_no_scale(corpus, tmp_path):
    run = run_in(tmp_path, corpus, epochs=1)
    assert not run.scaler.is_enabled() and run.scaler.get_scale() == 1


def test_a_second_run_in_a_folder_is_refused_while_the_first_is_at_work(tiny, monkeypatch, tmp_path):
    arguments = [*ARGUMENTS, "--epochs", "1", "--folder", tmp_path]
    with lock.alone_in(tmp_path):
        for more in ([], ["--fresh"]):
            text = call(monkeypatch, *arguments, *more)
            assert f"{tmp_path} must be used by one run at a time, got another at work" in text and "--folder" in text
        assert [path.name for path in tmp_path.iterdir()] == [lock.LOCK]
    assert call(monkeypatch, *arguments) is None


def test_a_lock_goes_with_its_process_even_when_that_is_killed(tmp_path):
    code = "import sys; from pathlib import Path; from tools import lock\n"
    code += "with lock.alone_in(Path(sys.argv[1])): print(1, flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout.readline() == b"1\n"
    with pytest.raises(ValueError, match="one run at a time"), lock.alone_in(tmp_path):
        pass
    other.kill()
    other.communicate()
    with lock.alone_in(tmp_path):
        pass


def test_the_best_state_is_that_of_the_lowest_validation_loss(corpus, tiny, monkeypatch, tmp_path):
    losses = iter([3.0, 2.0, 2.5, 2.00001, 2.2])
    monkeypatch.setattr(training, "evaluate", lambda *_: next(losses))
    run = run_in(tmp_path, corpus, epochs=5)
    run.train()
    best = torch.load(tmp_path / BEST, weights_only=True)
    assert best["step"] == run.curve[1]["step"] and run.step == run.curve[-1]["step"]
    for name, tensor in run.best().model.state_dict().items():
        assert tensor.equal(best["model"][name].half().float())


def test_train_losses_are_means_over_their_own_epoch(corpus, tiny, monkeypatch, tmp_path):
    train_of, seen = accumulation.train_in_groups, []

    def noting(*arguments, **options):
        for loss in train_of(*arguments, **options):
            seen.append(loss)
            yield loss

    monkeypatch.setattr(accumulation, "train_in_groups", noting)
    run = run_in(tmp_path, corpus)
    run.train()
    ends = [0, *(row["step"] for row in run.curve)]
    means = [sum(seen[a:b]) / (b - a) for a, b in zip(ends, ends[1:], strict=False)]
    assert [row["train_loss"] for row in run.curve] == pytest.approx(means, abs=1e-4)


# what doesn't fit


def held(folder):
    """Return what a folder holds, but for the lock, which a run leaves there."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != lock.LOCK}


@pytest.mark.parametrize("change", [["--epochs", 4], ["--seed", 2], ["--dropout", 0.2], ["--d-model", 8]])
def test_other_settings_in_the_folder_of_a_run_are_named(corpus, tiny, monkeypatch, tmp_path, change):
    run_in(tmp_path, corpus).train()
    before = held(tmp_path)
    code = call(monkeypatch, *ARGUMENTS, *change, "--folder", tmp_path)
    name = change[0].strip("-").replace("-", "_")
    old, new = asdict(settings())[name], change[1]
    assert f"is of a run with {name} = {old}; this one has {name} = {new}" in code and "--fresh" in code, code
    assert held(tmp_path) == before


def test_other_settings_are_refused_before_the_first_checkpoint_too(corpus, tmp_path):
    Run(settings(), corpus, tmp_path)
    with pytest.raises(ValueError, match="vocabulary = 120; this one has vocabulary = 100"):
        Run(settings(vocabulary=100), corpus, tmp_path)


def test_other_sentences_are_refused(corpus, tmp_path):
    Run(settings(), corpus, tmp_path)
    with pytest.raises(ValueError, match="is of a run with data = "):
        Run(settings(), Corpus(corpus.train[1:], corpus.validation, corpus.test), tmp_path)


def test_a_checkpoint_without_a_file_of_settings_goes_on_and_is_compared(corpus, tiny, tmp_path):
    """As the first recorded run left it."""
    run = run_in(tmp_path, corpus)
    run.train()
    (tmp_path / SETTINGS).unlink()
    again = run_in(tmp_path, corpus)
    assert (again.step, again.curve) == (run.step, run.curve) and not (tmp_path / SETTINGS).exists()
    with pytest.raises(ValueError, match="warmup = 8; this one has warmup = 9"):
        run_in(tmp_path, corpus, warmup=9)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named_and_nothing_is_written(corpus, tiny, monkeypatch, tmp_path, name):
    run_in(tmp_path, corpus).train()
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:20])
    before = held(tmp_path)
    code = call(monkeypatch, *ARGUMENTS, "--folder", tmp_path)
    assert code.startswith("make train: ") and str(tmp_path / name) in code, code
    assert held(tmp_path) == before


def test_fresh_removes_what_a_run_wrote_and_nothing_else(corpus, tiny, monkeypatch, tmp_path):
    run_in(tmp_path, corpus, epochs=2).train()
    (tmp_path / "last.pt.abc.part").write_text("half")
    (tmp_path / "thesis.txt").write_text("mine")
    assert call(monkeypatch, *ARGUMENTS, "--fresh", "--folder", tmp_path) is None
    assert names_in(tmp_path) == sorted([*ALL_FILES, "thesis.txt"])
    assert json.loads((tmp_path / SETTINGS).read_text())["epochs"] == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--epochs", "0"], "epochs must be at least 1, got 0"),
        (["--seed", "-1"], "seed must be at least 0, got -1"),
        (["--heads", "3"], "heads must divide d_model, got d_model = 16 and heads = 3"),
        (["--d-model", "0"], "d_model must be at least 1, got 0"),
        (["--dropout", "1"], r"dropout must be in [0, 1), got 1.0"),
        (["--positions", "spiral"], "positions must be one of"),
        (["--bpe-dropout", "1"], "bpe_dropout must be in [0, 1), got 1.0"),
        (["--smoothing", "-0.1"], r"smoothing must be in [0, 1), got -0.1"),
        (["--warmup", "0"], "warmup must be at least 1, got 0"),
        (["--factor", "0"], "factor must be a finite number above 0, got 0.0"),
        (["--tail", "2"], "tail must be from 0 to 1, got 2.0"),
        (["--alpha", "-1"], "alpha must be at least 0 and finite, got -1.0"),
        (["--threads", "0"], "threads must be at least 1, got 0"),
        (["--tokens-per-batch", "0"], "tokens_per_batch must be at least 1, got 0"),
        (["--tokens-per-batch", "5"], "tokens_per_batch must hold the longest pair"),
        (["--vocabulary", "10"], "vocabulary_size must hold the special tokens and every character"),
    ],
)
def test_a_setting_out_of_range_is_named(tiny, monkeypatch, tmp_path, arguments, text):
    code = call(monkeypatch, *ARGUMENTS, *arguments, "--folder", tmp_path / "run")
    assert code.startswith("make train: ") and text in code, code
    assert not (tmp_path / "run" / LAST).exists()


@pytest.mark.parametrize("arguments", [["--toy", "--ship"], ["--epochs", "many"], ["--unknown"]])
def test_arguments_that_make_no_sense_are_refused(monkeypatch, capsys, arguments):
    assert call(monkeypatch, *arguments) == 2
    assert capsys.readouterr().err.startswith("usage: make train")


def test_a_full_disk_is_named_and_the_last_checkpoint_stays(corpus, tiny, monkeypatch, tmp_path):
    fsync, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) > 6:
            raise OSError(28, "No space left on device")
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        code = call(monkeypatch, *ARGUMENTS, "--folder", tmp_path)
    assert "could not be written and is as it was: No space left on device" in code
    run = run_in(tmp_path, corpus)
    assert 0 < run.step < STEPS
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.slow
def test_without_data_and_network_it_offers_the_toy_grammar(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRANSFORMER_LIB_DATA"}
    nowhere = "http://127.0.0.1:9"
    environment |= {"HOME": str(tmp_path), "https_proxy": nowhere, "HTTPS_PROXY": nowhere, "no_proxy": ""}
    command = [sys.executable, "-m", "tools.train", "--folder", str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "not on this machine" in done.stderr and done.stderr.endswith("make train ARGS=--toy\n"), done.stderr
    assert not (tmp_path / "run").exists()


# what it leaves


def test_settings_are_what_was_given_else_the_defaults_of_the_data(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train", "--toy", "--epochs", "12"])
    assert train.chosen(train.arguments()) == Settings(**(train.TOY | {"epochs": 12}))
    monkeypatch.setattr(sys, "argv", ["train", "--seed", "4"])
    assert train.chosen(train.arguments()) == Settings(**training_settings.USUAL, seed=4)
    for flag in ("--ship", "--of-2017"):  # chapters look into the model of 2017
        monkeypatch.setattr(sys, "argv", ["train", "--seed", "4", flag])
        assert train.chosen(train.arguments()) == Settings(seed=4)


@pytest.mark.parametrize("changes", [{}, training_settings.USUAL, {"seed": 3, "bpe_dropout": 0.05, "d_model": 256}])
def test_what_to_type_gives_the_settings_again(changes, monkeypatch):
    words = training_settings.command(Settings(**changes)).removeprefix("make train ARGS='").removesuffix("'")
    monkeypatch.setattr(sys, "argv", ["train", *words.split()])
    assert train.chosen(train.arguments()) == Settings(**changes)


def test_the_record_says_what_was_run_on_what_and_what_came_of_it(tiny, monkeypatch, tmp_path):
    assert call(monkeypatch, *ARGUMENTS, "--folder", tmp_path / "a b") is None
    record = json.loads((tmp_path / "a b" / "translator_toy_seed1.json").read_text())
    assert (
        record["command"]
        == f"make train ARGS={chr(39)}{' '.join(ARGUMENTS)} --folder "
        + repr(str(tmp_path / "a b")).replace("'", "'\"'\"'")
        + "'"
    )
    assert record["settings"] == asdict(settings()) and record["settings"]["seed"] == 1
    assert record["steps"] == STEPS and record["parameters"] > 1000
    assert record["machine"].endswith(", 1 thread") and len(record["machine"]) > len(", 1 thread") + 2
    assert record["precision"] in ("torch.float32", "torch.bfloat16")
    assert record["versions"].keys() == {"python", "torch", "numpy", "tokenizers", "sacrebleu"}
    assert record["versions"]["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    assert 0 <= record["cpu_minutes"] < 5 and 0 <= record["wall_minutes"] < 10
    assert [row["step"] for row in record["curve"]] == [7, 14, 21]
    assert all(row["validation_loss"] > 0 and row["train_loss"] > 0 for row in record["curve"])
    for decoder in ("greedy", "beam 5"):
        result = record["test"][decoder]
        lines = (tmp_path / "a b" / result["hypotheses"]).read_text().split("\n")
        assert len(lines) == 11 and lines[-1] == ""
        assert 0 <= result["sacrebleu"] <= 100 and "case:mixed" in result["sacrebleu_signature"]
        assert 0 <= result["lower_cased"] <= 100 and "case:lc" in result["lower_cased_signature"]


def test_scores_are_sacrebleus():
    text = ["A man is riding a red bike .", "Two dogs run in the snow ."]
    assert train.scores(text, text)["sacrebleu"] == pytest.approx(100)
    upper = train.scores([line.upper() for line in text], text)
    assert upper["sacrebleu"] < 20 and upper["lower_cased"] == pytest.approx(100)


def test_shipping_writes_the_translator_whose_scores_it_records(corpus, tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(train, "multi30k_corpus", lambda: corpus)
    for name, path in {"ROOT": tmp_path, "RESULTS": tmp_path / "results", "SHIPPED": tmp_path / "de_en"}.items():
        monkeypatch.setattr(train, name, path)
    assert call(monkeypatch, *ARGUMENTS[1:], "--ship") is None
    description = json.loads((tmp_path / "de_en" / "description.json").read_text())
    record = json.loads((tmp_path / description["record"]).read_text())
    assert description["record"] == "results/translator_de_en_seed1.json" and description["seed"] == 1
    assert description["test"] == record["test"]["beam 5"]
    shipped = translator.load_translator(tmp_path / "de_en")
    lines = (tmp_path / "results" / record["test"]["beam 5"]["hypotheses"]).read_text().split("\n")[:-1]
    assert shipped.translate([source for source, _ in corpus.test], 5, record["settings"]["alpha"]) == lines


def test_the_record_of_the_shipped_translator_is_complete():
    if not (translator.SHIPPED / "description.json").exists():
        pytest.skip(f"no translator in {translator.SHIPPED} yet: make train ARGS=--ship makes it")
    description = json.loads((translator.SHIPPED / "description.json").read_text())
    record = json.loads((ROOT / description["record"]).read_text())
    assert record["test"]["beam 5"] == description["test"] and description["test"]["sacrebleu"] >= 39
    assert record["command"] == "make train ARGS='--seed 1 --ship'"  # so what --ship takes must be what it ran with
    assert training_run.UNSAID | record["settings"] == asdict(Settings(seed=1))
    assert record["cpu_minutes"] <= 25 and len(record["curve"]) == record["settings"]["epochs"]
    for name in ("greedy", "beam_5"):
        path = (ROOT / description["record"]).with_name(f"translator_de_en_seed{description['seed']}_{name}.txt")
        assert len(path.read_text().splitlines()) == 1000


def test_unavailable_data_is_no_traceback(monkeypatch):
    def unavailable():
        raise multi30k.DataUnavailable("no source gave it")

    monkeypatch.setattr(train, "multi30k_corpus", unavailable)
    with pytest.raises(SystemExit, match="no source gave it\nWithout it, train on the toy grammar: make train"):
        train.corpus(toy=False)
