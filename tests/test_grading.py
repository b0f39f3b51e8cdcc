"""The grader: honest damage costs nothing, no wrong answer is credited, no attack gets out of the sandbox."""

import csv
import inspect
import io
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import grading_cases as cases
import grading_notebooks
import pytest

from transformer_grader import (
    assignment,
    batch,
    cli,
    probe,
    reports,
    results,
    review,
    roster,
    sandbox,
    session,
    sheets,
    submissions,
    tables,
    variant,
)
from transformer_grader.inside import checked
from transformer_grader.limits import MEGABYTE, Limits
from transformer_lib.exercises import check

SECRET = b"of the tests, and of nothing else"
LIMITS = replace(
    Limits(),
    cell_seconds=5.0,
    call_seconds=2.0,
    total_seconds=40.0,
    restarts=3,
    memory=300 * MEGABYTE,
    disk=16 * MEGABYTE,
    processes=24,
    notebook_bytes=4 * MEGABYTE,
    reply_bytes=4 * MEGABYTE,
)

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap isn't installed")
once = pytest.fixture(scope="module")


def all_of(host) -> dict[str, cases.Submitted]:
    """Return every submission, by a name that says what it is."""
    found = {
        f"honest: {n}": cases.Submitted(c if isinstance(c, bytes) else c.encode()) for n, c in cases.honest().items()
    }
    found |= {f"honest: {name}": cases.Submitted(content) for name, content in cases.checked().items()}
    for name, (content, points, status) in cases.stopped().items():
        found[f"stopped: {name}"] = cases.Submitted(content, points, status)
    for name, (double, points) in cases.wrong().items():
        found[f"wrong: {name}"] = cases.Submitted(cases.answers(double=double), points + 4, None)
    for name, (cell, points) in cases.attacks(host).items():
        content = cases.answers(after=(cell,))
        found[f"attack: {name}"] = cases.Submitted(content, points, None)
    for name, (cell, points, *most) in cases.cheats().items():
        found[f"cheat: {name}"] = cases.Submitted(
            cases.answers(after=(cell,)), None if most else points, None, least=points, most=most[0] if most else 8
        )
    for name, content in cases.damaged().items():
        found[f"damaged: {name}"] = cases.Submitted(content if isinstance(content, bytes) else content.encode())
    for name, content in cases.broken().items():
        found[f"broken: {name}"] = cases.Submitted(content, 0, None if name.startswith("a bomb") else "unreadable")
    found["honest: another file name"] = cases.Submitted(cases.answers(), file="My work.ipynb")
    found["honest: a copy's name"] = cases.Submitted(cases.answers(), file="toy (1).ipynb")
    found["honest: letters of elsewhere"] = cases.Submitted(cases.answers(), file="уп ражнение–ü 作业.ipynb")
    beside = {
        "weights.pkl": cases.broken()["a pickle"],
        "torch.py": b"raise SystemExit",
        "json.py": b"raise SystemExit",
    }
    found["attack: files beside"] = cases.Submitted(cases.answers(), beside=beside)
    found["wrong: nothing done"] = cases.Submitted(cases.exercise(), 0)
    found["wrong: one group of two"] = cases.Submitted(
        cases.answers(total="def total(n):\n    return sum(n) if len(n) < 2 else 0"), 7
    )
    found["wrong: syntax in one cell"] = cases.Submitted(cases.answers(double="def double(x) return 2"), 4)
    found["wrong: refuses nothing"] = cases.Submitted(cases.answers(refuse="def refuse(n): return n"), 6)
    return found


@once
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("host")
    (folder / "book" / "solutions" / "09_toy").mkdir(parents=True)
    (folder / "book" / "solutions" / "09_toy" / "probes.py").write_text(cases.PROBES)
    (folder / "book" / "exercises" / "09_toy").mkdir(parents=True)
    (folder / "book" / "exercises" / "09_toy" / "toy.ipynb").write_bytes(cases.exercise())
    (folder / "secret").write_bytes(SECRET)
    (folder / "canary").write_text("CANARY")
    return folder


@once
def work(place) -> assignment.Assignment:
    return assignment.load("09", place / "book")


def handed_in(place: Path, submitted: dict[str, cases.Submitted], folder: str = "submissions") -> list[roster.Student]:
    """Write submissions; return their roster."""
    students = []
    for number, one in enumerate(submitted.values()):
        home = place / folder / f"s{number:03}"
        home.mkdir(parents=True)
        (home / one.file).write_bytes(one.content)
        for name, content in one.beside.items():
            (home / name).write_bytes(content)
        students.append(roster.Student(f"s{number:03}", f"Student {number}"))
    return students


def tree(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): results.digest(p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()
    }


def graded(place, work, submitted, folder="submissions", **changes):
    """Grade some submissions; return name -> result."""
    students = handed_in(place, submitted, folder)
    run = batch.Batch(work, sandbox.bubblewrap(), SECRET, LIMITS, torch=False, quiet=True, **changes)
    found, _ = run.grade(place / folder, students, place / f"out-{folder}")
    assert [result.student for result in found] == [student.id for student in students]
    return dict(zip(submitted, found, strict=True))


@once
def everything(place, work):
    """Grade all of them in one run, and look at what has changed around it."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        server.settimeout(0)
        unix.bind("\0grading-canary")
        unix.listen()
        unix.settimeout(0)
        names = {n: place / n for n in ("book", "secret", "canary", "submissions")}
        host = names | {"out": place / "out-submissions", "port": server.getsockname()[1], "socket": place / "socket"}
        submitted = all_of(host)
        students = handed_in(place, submitted)
        before = tree(place)
        run = batch.Batch(work, sandbox.bubblewrap(), SECRET, LIMITS, torch=False, quiet=True)
        found, _ = run.grade(place / "submissions", students, place / "out-submissions")
        for listening in (server, unix):
            with pytest.raises(BlockingIOError):
                listening.accept()
    after = {name: digest for name, digest in tree(place).items() if not name.startswith("out-")}
    assert after == before
    return submitted, dict(zip(submitted, found, strict=True)), students, run


@pytest.mark.slow
def test_each_submission_gets_what_it_is_worth(everything):
    submitted, found, *_ = everything
    assert len(submitted) >= 60
    off = [
        f"{name}: {result.points}, {result.status}, {result.reason}, {[(m.exercise, m.status) for m in result.marks]}"
        for name, result in found.items()
        if (submitted[name].points is not None and result.points != submitted[name].points)
        or submitted[name].status not in (None, result.status)
        or not (submitted[name].least or 0) <= result.points <= submitted[name].most
    ]
    assert not off, "\n".join(off)


@pytest.mark.slow
def test_no_page_or_table_tells_an_input(everything, place, work):
    submitted, found, students, _ = everything
    reports.write(work, students, list(found.values()), place / "out-submissions")
    files = [path for path in (place / "out-submissions").rglob("*") if path.is_file()]
    assert len(files) > 2 * len(submitted)
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert "LEAK" not in text and "\x1b" not in text and "\u202e" not in text, path


@pytest.mark.slow
def test_nothing_outlives_its_sandbox(everything):
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                command = Path("/proc", entry, "cmdline").read_bytes()
            except OSError:
                continue
            assert b"time.sleep(77.125)" not in command


@pytest.mark.slow
def test_a_second_run_gives_the_same_and_starts_no_sandbox(everything, place, monkeypatch):
    submitted, found, students, run = everything
    monkeypatch.setattr(batch, "Runner", None)
    again, _ = run.grade(place / "submissions", students, place / "out-submissions")
    assert again == list(found.values())


@pytest.mark.parametrize("kind", ["rebound", "in_jupyter", "in_another_order"])
def test_what_runs_in_jupyter_earns_what_its_checks_say(kind, place, work):
    submitted = {name: cases.Submitted(content) for name, content in getattr(grading_notebooks, kind)().items()}
    found = graded(place, work, submitted, kind)
    off = [(name, one.points, one.marks, one.cells) for name, one in found.items() if one.points != 8]
    assert not off, "\n".join(map(str, off))


def test_a_python_behind_a_link_is_found(place, work, monkeypatch):
    (place / "linked").symlink_to(sys.prefix)
    name = Path(sys.executable).relative_to(sys.prefix)
    monkeypatch.setattr(sys, "prefix", str(place / "linked"))
    monkeypatch.setattr(sys, "executable", str(place / "linked" / name))
    found = graded(place, work, {"intact": cases.Submitted(cases.answers("import numpy"))}, "behind a link")
    assert found["intact"].points == 8 and not found["intact"].cells


def test_one_row_for_each_student_whatever_they_hand_in(place, work):
    folder = place / "odd"
    students = [
        roster.Student(name) for name in ("linked", "linked file", "pipe", "nobody", "../evil", "two", "weights")
    ]
    for name in ("pipe", "two", "weights", "a stranger", "linked file"):
        (folder / name).mkdir(parents=True)
    (folder / "linked").symlink_to(folder / "two")
    (folder / "linked file" / "toy.ipynb").symlink_to(place / "secret")
    os.mkfifo(folder / "pipe" / "toy.ipynb")
    (folder / "two" / "toy.ipynb").write_bytes(cases.exercise())
    os.utime(folder / "two" / "toy.ipynb", (1, 1))
    (folder / "two" / "toy (1).ipynb").write_bytes(cases.answers())
    (folder / "weights" / "toy.pkl").write_bytes(b"x")
    (folder / "a stranger" / "toy.ipynb").write_bytes(cases.answers())
    run = batch.Batch(work, sandbox.bubblewrap(), SECRET, LIMITS, torch=False, quiet=True)
    found, orphans = run.grade(folder, students, place / "out-odd")
    assert [result.student for result in found] == [student.id for student in students]
    assert [result.status for result in found] == ["missing"] * 5 + ["graded", "missing"]
    assert found[5].points == 8 and "2 notebooks" in found[5].reason and "toy.pkl" in found[6].reason
    assert orphans == ["a stranger/toy.ipynb: nobody"]
    assert {path.name for path in (place / "out-odd" / "results").iterdir()} == {
        f"{results.key(student.id)}.json" for student in students
    }


ROSTERS = {
    "windows": b"\xef\xbb\xbfID,Name\r\n1,Ada\r\n2,B\xc3\xb6\r\n",
    "old lines": b"id,name\r1,Ada\r2,B\xc3\xb6\r",
    "utf-16": "id,name\n1,Ada\n2,Bö\n".encode("utf-16"),
    "semicolons": "sep=;\nname;id\nAda;1\nBö;2\n".encode(),
    "tabs": "id\tname\n1\tAda\n2\tBö\n".encode(),
    "empty lines, short and long ones": "\nid,name,email\n\n1,Ada\n,,,\n2,Bö,,,x\n".encode(),
    "canvas": "Student,ID,SIS Login ID\n    Points Possible,,\nAda,1,\nBö,2,\n".encode(),
}


@pytest.mark.parametrize("kind", ROSTERS)
def test_a_roster_is_read_whoever_has_saved_it(kind, tmp_path):
    (tmp_path / "roster.csv").write_bytes(ROSTERS[kind])
    assert [(one.id, one.name) for one in roster.read(tmp_path / "roster.csv")] == [("1", "Ada"), ("2", "Bö")]


@pytest.mark.parametrize(
    "content, told",
    [
        (b"", "a column named id, got an empty file"),
        (b"name,points\nAda,3\n", "a column named id, got name, points"),
        (b"id,name\n", "a line for each student"),
        (b"id,name\n1,Ada\n1,Bo\n", "an id of their own, got '1' for 'Bo'"),
        (b"id,name\n,Ada\n", "an id of their own, got '' for 'Ada'"),
        (b"id,name\n1,B\xf6\n", "must be saved as CSV in UTF-8"),
        (b"PK\x03\x04\xff\xfe", "must be saved as CSV in UTF-8"),
        (b'id,name\n1,"' + b"x" * 200_000, "must be a table"),
    ],
)
def test_a_roster_that_is_none_is_refused(content, told, tmp_path):
    (tmp_path / "roster.csv").write_bytes(content)
    with pytest.raises(ValueError, match=told):
        roster.read(tmp_path / "roster.csv")


def test_odd_folders_and_names_cost_nobody_else_anything(place, work, monkeypatch):
    monkeypatch.setattr(submissions, "ENTRIES", 200)
    folder = place / "folders"
    names = {
        "../x": "up",
        "=cmd()": "formula",
        "zip": "zipped",
        "old": "dated",
        "many": "many",
        "deep": "deep",
        "shut": "shut",
        "closed": "closed",
        "\u202eipynb": "turned",
        "text": "text",
        "dir": "dir",
    }
    students = [roster.Student(one, name, f"{name}@x.org") for one, name in names.items()]
    for name in names.values():
        (folder / name).mkdir(parents=True)
    intact = cases.answers()
    for name in ("up", "formula", "turned", "closed"):
        (folder / name / "toy\u202e\x1b[2J.ipynb").write_bytes(intact)
    (folder / "zipped" / "toy.zip").write_bytes(b"PK")
    (folder / "zipped" / "toy.ipynb").write_bytes(b"PK\x03\x04")
    (folder / "dated" / "toy.ipynb").write_bytes(intact)
    os.utime(folder / "dated" / "toy.ipynb", (1 << 40, 1 << 40))
    for n in range(submissions.ENTRIES + 2):
        (folder / "many" / f"{n}.txt").touch()
    deep = folder / "deep" / "/".join("d" * 9)
    deep.mkdir(parents=True)
    (deep / "toy.ipynb").write_bytes(intact)
    (folder / "shut" / "toy.ipynb").write_bytes(intact)
    (folder / "shut" / "toy.ipynb").chmod(0)
    (folder / "closed").chmod(0)
    (folder / "text" / "toy.ipynb.txt").write_bytes(intact)
    (folder / "dir" / "toy.ipynb").mkdir()
    (folder / "dir" / "toy.ipynb" / "toy.ipynb").write_bytes(intact)
    run = batch.Batch(work, sandbox.bubblewrap(), SECRET, LIMITS, torch=False, quiet=True)
    found, orphans = run.grade(folder, students, place / "out-folders")
    (folder / "closed").chmod(0o700)
    assert [one.student for one in found] == list(names) and not orphans
    got = {names[one.student]: (one.status, one.points) for one in found}
    want = dict.fromkeys(("up", "formula", "turned", "dated", "text", "dir", "shut", "closed"), ("graded", 8))
    want |= {"many": ("missing", 0), "deep": ("missing", 0), "zipped": ("unreadable", 0)}
    if os.getuid() != 0:  # root may read all
        want |= {"shut": ("unreadable", 0), "closed": ("missing", 0)}
    assert got == want
    assert "a zip archive" in found[2].reason and "no plain file" in found[4].reason
    text = tables.generic(work, students, found)
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(names)
    assert "\x1b" not in text and "\u202e" not in text and "'=cmd()" in text


@pytest.mark.slow
def test_answers_that_are_tensors(tmp_path):
    for kind, name, content in (("solutions", "probes.py", cases.TENSOR_PROBES), ("exercises", "toy.ipynb", "")):
        (tmp_path / kind / "09_toy").mkdir(parents=True)
        (tmp_path / kind / "09_toy" / name).write_text(content or cases.notebook("import torch").decode())
    work, submitted = assignment.load("09", tmp_path), {}
    for name, (cell, points) in cases.tensors().items():
        content = cases.notebook(cases.PARTS, cell)
        submitted[name] = cases.Submitted(content, points)
    students = handed_in(tmp_path, submitted)
    limits = replace(LIMITS, memory=2048 * MEGABYTE, start_seconds=120.0, cell_seconds=20.0, call_seconds=10.0)
    run = batch.Batch(work, sandbox.bubblewrap(), SECRET, limits, quiet=True)
    found, _ = run.grade(tmp_path / "submissions", students, tmp_path / "out")
    off = [
        f"{n}: {r.points}, {r.marks}"
        for (n, one), r in zip(submitted.items(), found, strict=True)
        if r.points != one.points
    ]
    assert not off, "\n".join(off)


def test_a_hard_limit_is_kept_within_two_seconds(place, work):
    deaf = cases.answers(
        double="def double(x):\n" + "\n".join(f"    {line}" for line in (cases.DEAF + cases.ENDLESS).splitlines())
    )
    box, limits = sandbox.bubblewrap(), replace(LIMITS, call_seconds=1.0, restarts=0)
    exercises = [assignment.hidden(work, work.probes[0], SECRET, "s")]
    runner = session.Runner(box, 0, limits, replace(assignment.plan(exercises, work, 1), torch=False), deaf)
    asked = []
    ask = runner._ask
    runner._ask = lambda *arguments: (asked.append(time.monotonic()), ask(*arguments))
    assert runner.run().lost == {"9.1": "timeout"}
    assert time.monotonic() - asked[-1] < limits.call_seconds + 2.0


def test_a_flood_costs_the_grader_little(place, work):
    send = cases.LINE + "import os, frames\nlists = b'{\"kind\": \"done\", \"x\": [' + b'[],' * 80000 + b'[]]}'\n"
    floods = {
        "prints": "import sys\nfor _ in range(20): sys.stdout.write('x' * 10**7); sys.stderr.write('y' * 10**7)",
        "messages": cases.LINE + "while True: line.send('done', number=0, error='x' * 60, told='y' * 200)",
        "bodies": cases.LINE + "while True: line.send('done', b'z' * (1 << 23), number=0, pad='x' * 200_000)",
        "lists": send + "while True: os.write(line.outward, frames.HEAD.pack(frames.MARK, len(lists), 0) + lists)",
    }
    limits, before = replace(LIMITS, reply_bytes=Limits.reply_bytes), (peak_memory(), time.process_time())
    exercises = [assignment.hidden(work, probe, SECRET, "s") for probe in work.probes]
    for cell in floods.values():
        task = replace(assignment.plan(exercises, work, 1), torch=False)
        found = session.Runner(sandbox.bubblewrap(), 0, limits, task, cases.answers(after=(cell,))).run()
        assert len(found.outcomes) == len(task.calls) and not found.lost
    assert peak_memory() - before[0] < 100 * MEGABYTE and time.process_time() - before[1] < 5.0


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_no_sandbox_no_grade(place, monkeypatch, capsys):
    (place / "none").mkdir()
    (place / "none.csv").write_text("id\na\n")
    options = ["grade", "09", str(place / "none"), str(place / "none.csv"), "--book", str(place / "book")]
    options += ["--secret", str(place / "secret"), "--out", str(place / "out-none")]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert cli.main(options) == 2 and "bubblewrap" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(probe, "breaches", lambda box, limits: ["reach the network"])
    assert cli.main(options) == 2 and "in it one can reach the network" in capsys.readouterr().err
    assert not (place / "out-none").exists()


def test_what_must_stay_hidden_may_not_lie_where_a_sandbox_looks():
    assert sandbox.exposed([sandbox.LIBRARY / "secret", Path("/usr/share/x")])
    assert not sandbox.exposed([Path("/nowhere/secret")])


def test_the_sandbox_is_tried_for_real():
    assert probe.breaches(sandbox.bubblewrap(), LIMITS) == []


def test_a_sandbox_with_a_hole_is_found_out():
    class Holed(sandbox.Box):
        def command(self, limits, extra):
            command, place = super().command(limits, extra), tempfile.gettempdir()
            hole = ["--ro-bind", place, place, "--setenv", "TRANSFORMER_GRADER_CANARY", "1"]
            at = command.index("--remount-ro")
            return [*command[:at], *hole, *command[at:]]

    found = probe.breaches(Holed("bwrap", sandbox.bubblewrap().program), LIMITS)
    assert found == ["read a file of the host", "see the host's environment"]


@pytest.mark.slow
def test_without_a_sandbox_only_when_asked_and_each_row_says_so(place, work):
    submitted = {
        "intact": cases.Submitted(cases.answers()),
        "hangs": cases.Submitted(cases.answers("while True: pass")),
    }
    students = handed_in(place, submitted, "open")
    run = batch.Batch(work, sandbox.Box("unsandboxed"), SECRET, LIMITS, 1, torch=False, quiet=True)
    found, _ = run.grade(place / "open", students, place / "out-open")
    assert [result.points for result in found] == [8, 8]
    rows = list(csv.DictReader(io.StringIO(tables.generic(work, students, found))))
    assert [row["isolation"] for row in rows] == ["unsandboxed"] * 2


def test_the_command_writes_tables_and_pages(place, work, capsys):
    folder, names = place / "command", {"a": "<script>alert(1)</script>", "b": "=cmd|' /C calc'!A0", "c": "Chris"}
    for name in "ab":
        (folder / name).mkdir(parents=True)
    evil = "**Answer 9.4**\n\n<img src=x onerror=alert(1)> because"
    (folder / "a" / "toy.ipynb").write_bytes(
        cases.answers(
            "raise ValueError('<script>alert(2)</script>')",
            double="def double(x): return 3 * x",
            after=(cases.text(evil),),
        )
    )
    (folder / "b" / "toy.ipynb").write_bytes(cases.answers())
    sheet = place / "command.csv"
    sheet.write_text("ID,Student,Email\n" + "".join(f'{i},"{n}",{i}@x.org\n' for i, n in names.items()))
    common = ["--book", str(place / "book"), "--secret", str(place / "secret"), "--out", str(place / "out-command")]
    out, box = place / "out-command", batch.Batch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli.batch, "Batch", lambda *given: box(*given, torch=False, quiet=True))
        assert cli.main(["grade", "09", str(folder), str(sheet), *common, "--workers", "1"]) == 0
        assert "3 students: 2 graded, 1 missing" in capsys.readouterr().out
        rows = list(csv.DictReader(io.StringIO((out / "grades.csv").read_text())))
        assert [row["points"] for row in rows] == ["6", "8", "0"] and rows[0]["9.1 misconception"] == "tripled"
        assert rows[1]["name"].startswith("'=cmd") and {row["isolation"] for row in rows} == {"bwrap"}
        for page in [*out.glob("feedback/*.html"), out / "class.html"]:
            text = page.read_text()
            assert "<script" not in text and "onerror=alert" not in text.replace("&lt;img src=x onerror=alert", "")
            assert "default-src 'none'" in text
        told = (out / "feedback" / f"{results.key('a')}.html").read_text()
        assert "It is three times as much." in told and "&lt;script&gt;alert(2)" in told

        assert cli.main(["review", "09", str(sheet), *common]) == 0
        shown = (out / "review" / "9.4.html").read_text()
        assert "&lt;img src=x" in shown and "any that can fail" in shown and "script" not in shown
        marks = list(csv.DictReader(io.StringIO((out / "review" / "marks.csv").read_text())))
        assert len(marks) == 1 and marks[0]["answer"] != "a"
        text = (out / "review" / "marks.csv").read_text()
        (out / "review" / "marks.csv").write_text(text.replace(f"{marks[0]['answer']},,", f"{marks[0]['answer']},2.5,"))
        assert cli.main(["review", "09", str(sheet), *common]) == 0
        assert "1 of 1 open answers are marked" in capsys.readouterr().out
        rows = list(csv.DictReader(io.StringIO((out / "grades.csv").read_text())))
        assert rows[0]["9.4 points"] == "2.5" and rows[0]["points"] == "8.5"

        assert cli.main(["regrade", "09", str(folder), str(sheet), *common]) == 0
        assert "0 of 3 changed" in capsys.readouterr().out
        (folder / "a" / "toy.ipynb").write_bytes(cases.answers(after=(cases.text("**Answer 9.4** Another one."),)))
        assert cli.main(["regrade", "09", str(folder), str(sheet), *common]) == 0
        line = capsys.readouterr().out.splitlines()[0]
        told = "a: 8.5: 8: 9.1 2 misconception -> 4 right; 9.4 2.5 -> not marked: another notebook was handed in"
        assert line == told
        assert cli.main(["review", "09", str(sheet), *common]) == 0
        captured = capsys.readouterr()
        assert "0 of 1 open answers are marked" in captured.out and "handed in anew" in captured.err


def test_an_interrupted_run_goes_on(place, work, monkeypatch):
    submitted = {f"intact {n}": cases.Submitted(cases.answers(f"{n}")) for n in range(4)}
    students = handed_in(place, submitted, "interrupted")
    run, done = batch.Batch(work, sandbox.bubblewrap(), SECRET, LIMITS, 1, torch=False, quiet=True), []

    def counted(*given):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(given)
        return session.Runner(*given)

    monkeypatch.setattr(batch, "Runner", counted)
    with pytest.raises(KeyboardInterrupt):
        run.grade(place / "interrupted", students, place / "out-interrupted")
    done.clear()
    monkeypatch.setattr(batch, "Runner", lambda *given: (done.append(given), session.Runner(*given))[1])
    found, _ = run.grade(place / "interrupted", students, place / "out-interrupted")
    assert [result.points for result in found] == [8] * 4 and len(done) == 2


def test_an_open_answer_is_read_wherever_it_stands(place, work):
    written = cases.written()
    submitted = {name: cases.Submitted(cases.answers(after=cells)) for name, (cells, _) in written.items()}
    found = graded(place, work, submitted, "written")
    for name, (_, text) in written.items():
        got = found[name].open.get("9.4")
        if text is not None and len(text) > 8000:
            assert len(got) == 8000 and "the answer has 9,999 characters" in got and got.startswith(text[:7000])
        else:
            assert got == text, (name, got)
        assert found[name].code_points == 8, name


def test_what_stands_in_for_the_check_takes_what_the_check_takes():
    assert inspect.signature(checked.Checks().check).parameters.keys() == inspect.signature(check).parameters.keys()
    assert [p.default for p in inspect.signature(checked.Checks().check).parameters.values()] == [
        p.default for p in inspect.signature(check).parameters.values()
    ]


def test_marks_are_read_whatever_program_saves_them_and_none_gets_lost(place, work, tmp_path):
    students, store = [roster.Student(name) for name in "abc"], results.Store(tmp_path)
    with pytest.raises(ValueError, match="grade first"):
        review.merge(work, students, store, SECRET, tmp_path)
    for student in students:
        store.save(results.Result(student.id, "graded", open={"9.4": f"because {student.id}"}))

    def merged() -> list[dict[str, float]]:
        found = review.merge(work, students, store, SECRET, tmp_path)
        review.show(work, found, SECRET, tmp_path)
        return [result.open_points for result in found]

    assert merged() == [{}, {}, {}]
    sheet = tmp_path / "review" / "marks.csv"
    rows = sheets.read(sheet)[1:]
    assert len(rows) == 3 and all(row[1].startswith("answer ") for row in rows)
    first = review.label(SECRET, "9.4", store.load("a"))
    sheet.write_bytes(f"question;answer;points;out of\r\n02. Jun;{first};2,5;3\r\n;;;\r\n".encode("utf-16"))
    assert merged() == [{"9.4": 2.5}, {}, {}] and len(sheets.read(sheet)) == 4
    sheet.write_text(f"points,answer\n7,{first}\n")
    with pytest.raises(ValueError, match="between 0 and 3, got 7"):
        merged()
    sheet.write_text("question,answer\n")
    with pytest.raises(ValueError, match="none named points"):
        merged()
    sheet.write_text(f"answer,points\n{first},\nanswer of nobody,3\n")
    assert merged() == [{}, {}, {}] and "answer of nobody,3" in sheet.read_text()


def test_a_variant_leaves_out_what_leads_to_nothing_and_renames_no_word(work, tmp_path):
    given = {
        "task-9-1": "## Double\n\nTo double is to add; `double(3)` is 6.",
        "answer-9-1": "def double(x):\n    raise NotImplementedError",
        "check-9-1": 'exercises.check("9.1", double)',
        "use-9-1": "Let the library use it.",
        "use": "exercises.use(double=double)\nseen = 1",
        "needs-it": "print(seen)",
        "task-9-2": "## Total",
        "example": 'exercises.example("9.2")',
        "stays": "other = [double(n) for n in range(3)]",
    }
    text = ("task-9-1", "use-9-1", "task-9-2")
    cells = [cases.text(source) if name in text else cases.code(source) for name, source in given.items()]
    cells = [cell | {"id": name} for cell, name in zip(cells, given, strict=True)]
    (tmp_path / "toy.ipynb").write_bytes(cases.notebook(*cells))
    variant.write(work, SECRET, tmp_path / "toy.ipynb", tmp_path)
    made = json.loads((tmp_path / "handout" / "toy.ipynb").read_text())["cells"]
    name = json.loads((tmp_path / "variant.json").read_text())["names"]["9.1"]
    assert [cell["id"] for cell in made] == ["task-9-1", "answer-9-1", "check-9-1", "task-9-2", "stays"]
    assert made[0]["source"].startswith(f"## Double\n\nTo double is to add; `{name}(3)` is 6.")
    assert made[1]["source"].startswith(f"def {name}(x)") and f"{name}(n)" in made[-1]["source"]


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_grading as here
work = here.assignment.load("09", Path({place!r}) / "book")
students = [here.roster.Student(f"s{{n:03}}") for n in range(4)]
run = here.batch.Batch(work, here.sandbox.bubblewrap(), here.SECRET, here.LIMITS, 1, torch=False, quiet=True)
run.grade(Path({place!r}) / "killed", students, Path({place!r}) / "out-killed")
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_leaves_no_process_and_goes_on(number, place, work):
    shutil.rmtree(place / "killed", ignore_errors=True)
    shutil.rmtree(place / "out-killed", ignore_errors=True)
    name = f"marked_{number:d}_{os.getpid()}"
    wait = f"import os, time\nos.execvp('sleep', ['{name}', '1.5'])"
    contents = [cases.answers(), cases.answers(f"import os\nif os.fork() == 0:\n    {wait.splitlines()[1]}", wait)]
    submitted = {str(n): cases.Submitted(contents[n % 2]) for n in range(4)}
    students = handed_in(place, submitted, "killed")
    script = KILLED.format(tests=str(Path(__file__).parent), place=str(place))
    child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 60
    while not running(name) and time.monotonic() < until:
        time.sleep(0.02)
    assert running(name)
    child.send_signal(number)
    child.wait(30)
    time.sleep(0.5)
    assert not running(name)
    found, _ = batch.Batch(work, sandbox.bubblewrap(), SECRET, LIMITS, torch=False, quiet=True).grade(
        place / "killed", students, place / "out-killed"
    )
    assert [result.points for result in found] == [8] * 4
    assert all(path.suffix == ".json" for path in (place / "out-killed" / "results").iterdir())


def running(name: str) -> bool:
    """Tell whether a process of that name runs."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if name.encode() in Path("/proc", entry, "cmdline").read_bytes().split(b"\0")[:1]:
                    return True
            except OSError:
                continue
    return False


def test_late_is_marked_and_costs_what_was_said(place, work):
    deadline = datetime(2001, 1, 1, tzinfo=timezone.utc)
    late = graded(place, work, {"late": cases.Submitted(cases.answers())}, "late", deadline=deadline, late_factor=0.5)
    assert late["late"].late and late["late"].points == 4.0
