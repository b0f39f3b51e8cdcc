"""A folder of submissions: each graded by itself, on as many workers as there are cores, always one row a student."""

import os
import queue
import sys
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import torch
from tqdm import tqdm

from transformer_grader import assignment, marking, results, submissions
from transformer_grader.assignment import Assignment
from transformer_grader.limits import Limits
from transformer_grader.results import Result, Store
from transformer_grader.roster import Student
from transformer_grader.sandbox import Box, NoSandbox
from transformer_grader.session import Runner
from transformer_grader.submissions import Submission
from transformer_grader.task import Task, Transcript


@dataclass
class Batch:
    """How a folder is graded.

    Args:
        late_factor: what the points of a late submission are multiplied by.
        fresh: whether results of earlier runs are left aside.
        torch: whether sandboxes import it; without it, as some tests are, answers take and return plain numbers.
    """

    work: Assignment
    box: Box
    secret: bytes
    limits: Limits = field(default_factory=Limits)
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    deadline: datetime | None = None
    late_factor: float = 1.0
    fresh: bool = False
    torch: bool = True
    quiet: bool = False

    def grade(self, folder: Path, students: list[Student], out: Path) -> tuple[list[Result], list[str]]:
        """Return one result for each student, in the roster's order, and the files that are nobody's."""
        files, orphans = submissions.found(folder, students)
        store, slots = Store(out), queue.SimpleQueue()
        for slot in range(self.workers):
            slots.put(slot)
        torch.set_num_threads(1)

        def one(student: Student) -> Result | None:
            slot = slots.get()
            try:
                return self.result(student, files[student.id], store, slot)
            finally:
                slots.put(slot)

        with ThreadPoolExecutor(self.workers) as pool:
            try:
                waiting = [pool.submit(one, student) for student in students]
                for _ in self._watched(as_completed(waiting), len(students)):
                    pass
            except BaseException:  # an interrupt: what is running is finished and kept
                if not self.quiet:
                    print("\nStopping when what runs is done; interrupt again to leave it.", file=sys.stderr)
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            return [done.result() for done in waiting], orphans

    def _watched(self, done: Iterable[Future], total: int) -> Iterable[Future]:
        return tqdm(done, total=total, unit="submission", disable=self.quiet, file=sys.stderr, smoothing=0.1)

    def result(self, student: Student, files: list[Path], store: Store, slot: int) -> Result:
        """Return a student's result, from the store where nothing has changed."""
        submission = Submission()
        try:
            submission = submissions.chosen(files, self.work.stem, self.deadline)
            result = Result(student.id, "missing", "; ".join(submission.notes))
            if submission.path is not None:
                result = self._of_file(student, submission, store, slot)
        except Exception as error:  # of the grader's own: nobody else's mark may suffer from it
            result = Result(student.id, "needs-review", f"the grader failed: {type(error).__name__}: {error}"[:300])
        old = store.load(student.id)
        result.late, result.factor = submission.late, self.late_factor if submission.late else 1.0
        same = {number for number in result.open if old and old.open.get(number) == result.open[number]}
        result.open_points = (
            {number: points for number, points in old.open_points.items() if number in same} if old else {}
        )
        result.isolation = result.isolation or self.box.kind
        store.save(result)
        return result

    def _of_file(self, student: Student, submission: Submission, store: Store, slot: int) -> Result:
        try:
            data = submissions.content(submission.path, self.limits.notebook_bytes)
        except ValueError as error:
            return Result(student.id, "unreadable", str(error))
        why = self.why(data)
        old = store.load(student.id)
        if old is not None and not self.fresh and old.why == why and old.status != "needs-review":
            return old
        exercises = [assignment.hidden(self.work, p, self.secret, student.id) for p in self.work.probes]
        order = assignment.number(self.secret, self.work.chapter, "order", student.id)
        task = assignment.plan(exercises, self.work, order)
        task.torch = self.torch
        result = self._judged(student, exercises, self._run(task, data, slot))
        result.why = why
        if submission.notes:
            result.reason = "; ".join([*submission.notes, result.reason] if result.reason else submission.notes)
        if submission.unclear and result.status == "graded":
            result.status = "needs-review"
        return result

    def why(self, data: bytes) -> dict[str, str]:
        """Return the parts that a result depends on."""
        return {
            "submission": results.digest(data),
            "probes": self.work.version,
            "secret": results.digest(b"which secret" + self.secret),
            "limits": results.digest(self.limits.text().encode()),
            "isolation": self.box.kind,
        }

    def _run(self, task: Task, data: bytes, slot: int) -> Transcript:
        try:
            return Runner(self.box, slot, self.limits, task, data).run()
        except NoSandbox:  # once more: a machine may have been too busy to start it in time
            return Runner(self.box, slot, self.limits, task, data).run()

    def _judged(self, student: Student, exercises: list, transcript: Transcript) -> Result:
        """Return the result of what a submission's sandbox has answered."""
        pairs = zip(self.work.probes, exercises, strict=True)
        marks = [marking.mark(probe, exercise, transcript) for probe, exercise in pairs]
        status, reason = transcript.trouble or ("graded", "")
        if status == "graded" and transcript.lost:
            status = "timeout" if "timeout" in transcript.lost.values() else "crashed"
            reason = ", ".join(f"{number}: {what}" for number, what in transcript.lost.items())
        elif status == "graded" and (killed := set(transcript.cells.values()) & {"timeout", "crashed"}):
            status, reason = max(killed), "a cell was stopped; what stands in it may count for nothing"
        known = {question.id for question in self.work.questions}
        answers = {number: text for number, text in transcript.open.items() if number in known}
        cells = {str(number): told for number, told in sorted(transcript.cells.items())[:20]}
        return Result(student.id, status, reason, marks, cells=cells, open=answers)
