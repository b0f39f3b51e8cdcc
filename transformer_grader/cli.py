"""The command line: `transformer-grader grade`, and what goes with it."""

import argparse
import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import torch

from transformer_grader import (
    assignment,
    batch,
    probe,
    recalled,
    reports,
    results,
    review,
    roster,
    sandbox,
    sheets,
    tables,
    variant,
)
from transformer_grader.limits import MEGABYTE, UNSANDBOXED, Limits
from transformer_grader.options import grading, named, secret_of
from transformer_grader.sandbox import Box, NoSandbox
from transformer_lib.exercises.declared import Case, Probe


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line asks for; return the exit status."""
    options = parser().parse_args(arguments)
    torch.set_num_threads(1)
    try:
        return options.run(options)
    except (ValueError, OSError, NoSandbox) as error:
        print(sheets.shown(str(error)), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted. What was graded is kept; the same command goes on from there.", file=sys.stderr)
        if any(not one.daemon for one in threading.enumerate()[1:]):
            os._exit(130)  # sandboxes that still run die with this process
        return 130


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    outer = argparse.ArgumentParser(prog="transformer-grader", description=__doc__)
    commands = outer.add_subparsers(required=True, metavar="COMMAND")
    grade = commands.add_parser("grade", help="grade a folder of submissions")
    grading(grade)
    grade.set_defaults(run=run_grade)
    regrade = commands.add_parser("regrade", help="grade anew, and report whose marks changed and why")
    grading(regrade)
    regrade.set_defaults(run=run_regrade)
    review = commands.add_parser("review", help="show open answers, and merge the points that a person gave")
    named(review)
    review.set_defaults(run=run_review)
    make = commands.add_parser("variant", help="make a private variant of a chapter's exercises")
    named(make, roster_too=False)
    make.set_defaults(run=run_variant)
    check = commands.add_parser("check", help="try the sandbox, and say which hidden inputs are few")
    named(check, roster_too=False)
    check.set_defaults(run=run_check)
    return outer


def prepared(options: argparse.Namespace) -> tuple[batch.Batch, list[roster.Student], Path]:
    """Return what a run needs; NoSandbox where students' code can't be contained."""
    work, out = loaded(options), place(options)
    students = roster.read(options.roster)
    secret, where = secret_of(options.secret)
    limits = replace(
        Limits(),
        cell_seconds=options.cell_seconds,
        call_seconds=options.call_seconds,
        total_seconds=options.total_seconds,
        memory=options.memory * MEGABYTE,
    )
    sandbox.compile_all()
    kept_out = [where, out, options.submissions, options.roster, options.book / "solutions"]
    box = Box(UNSANDBOXED) if options.unsafe_local else probe.trusted(sandbox.bubblewrap(), limits, kept_out)
    run = batch.Batch(work, box, secret, limits, options.workers, options.deadline, options.late, options.fresh)
    return run, students, out


def loaded(options: argparse.Namespace) -> assignment.Assignment:
    """Return the assignment, or its private variant."""
    work = assignment.load(options.chapter, options.book)
    return variant.applied(work, json.loads(options.variant.read_text(encoding="utf-8"))) if options.variant else work


def place(options: argparse.Namespace) -> Path:
    """Return the folder of a run's results."""
    return options.out or options.book / "runs" / "grading" / options.chapter


def run_grade(options: argparse.Namespace) -> int:
    """Grade, and write the tables and pages."""
    run, students, out = prepared(options)
    found, orphans = run.grade(options.submissions, students, out)
    reports.write(run.work, students, found, out)
    for line in orphans:
        print(f"not on the roster: {sheets.shown(line)}", file=sys.stderr)
    counts = {status: sum(r.status == status for r in found) for status in dict.fromkeys(r.status for r in found)}
    print(f"{len(found)} students: {', '.join(f'{n} {status}' for status, n in counts.items())}. Results: {out}")
    if waiting := sum(len(set(r.open) - set(r.open_points)) for r in found):
        print(f"{waiting} open answers wait for a person, and count 0 until then: transformer-grader review.")
    return 0


def run_regrade(options: argparse.Namespace) -> int:
    """Grade anew; report what changed and why."""
    run, students, out = prepared(options)
    store = results.Store(out)
    before = {student.id: store.load(student.id) for student in students}
    run.fresh = True
    found, _ = run.grade(options.submissions, students, out)
    reports.write(run.work, students, found, out)
    lines = reports.changes(before, found)
    results.write(out / "changes.csv", tables.table(("id", "before", "after", "what", "why"), lines))
    for line in lines:
        print(": ".join(tables.cell(part) for part in line))
    print(f"{len(lines)} of {len(found)} changed. Written: {out / 'changes.csv'}")
    return 0


def run_review(options: argparse.Namespace) -> int:
    """Merge what a person has written so far, and show what there is to mark."""
    work, out = loaded(options), place(options)
    students, (secret, _) = roster.read(options.roster), secret_of(options.secret)
    found = review.merge(work, students, results.Store(out), secret, out)
    sheet = review.show(work, found, secret, out)
    for row in review.strange(sheet, review.answers(work, found, secret)):
        told = f"{row['answer']} has points, and nobody gave it: was it handed in anew? Its points don't count."
        print(sheets.shown(told), file=sys.stderr)
    reports.write(work, students, found, out)
    marked = sum(len(result.open_points) for result in found)
    total = sum(len(result.open) for result in found)
    print(f"{marked} of {total} open answers are marked. Write points into {sheet}, beside its pages, and run again.")
    return 0


def run_variant(options: argparse.Namespace) -> int:
    """Make a private variant."""
    work, out = assignment.load(options.chapter, options.book), options.out or Path("variant")
    notebook = next((options.book / "exercises").glob(f"{options.chapter}_*/*.ipynb"))
    for line in variant.write(work, secret_of(options.secret)[0], notebook, out):
        print(line)
    print(f"Hand out {out / 'handout'}; grade with --variant {out / 'variant.json'}, and keep that to yourself.")
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Try the sandbox; name exercises whose hidden inputs are few, or too like the public ones."""
    probe.trusted(sandbox.bubblewrap(), Limits(), [options.book / "solutions"])
    print("The sandbox holds.")
    work = assignment.load(options.chapter, options.book)
    for one in work.probes:
        if (count := kinds(one, 10)) < 10:
            print(f"{one.id}: {count} different sets of inputs in 40 seeds; a submission could carry a table of them.")
        if found := {name for student in "abc" for name in assignment.recallable(work, one, b"kinds", student)}:
            told = "a table of the public answers, and else this mistake, could earn all points"
            print(f"{one.id}: {told}: {', '.join(sorted(found))}.")
    return 0


def kinds(probe: Probe, enough: int) -> int:
    """Return how many different sets of inputs forty seeds give; no more than enough."""
    found: list[list[Case]] = []
    for seed in range(1, 41):
        cases = list(probe.cases(assignment.number(b"kinds", str(seed))))
        if all(recalled.unlike(cases, other) for other in found):
            found.append(cases)
        if len(found) == enough:
            break
    return len(found)
