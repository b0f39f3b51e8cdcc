"""Exercises are cut from solutions, byte for byte the same each time, and their stubs don't stop the notebook."""

import pytest
import sample_book
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools import cells, exercises

STUBBED = '''def tripled(x):
    """Return three times x."""
    raise NotImplementedError("not attempted yet")'''


@pytest.fixture
def book(tmp_path):
    sample_book.make(tmp_path)
    return tmp_path


def cut(*sources):
    return exercises.cut(new_notebook(cells=[new_code_cell(source) for source in sources])).cells


def test_the_books_exercises_are_what_their_solutions_give():
    assert exercises.problems() == []


def test_a_book_in_order_has_no_problem(book):
    assert exercises.main([], book) == 0


def test_answers_become_stubs_and_all_else_stays(book):
    exercise = cells.read(book / "exercises" / "02_sample" / "sample.ipynb").cells
    solution = cells.read(book / "solutions" / "02_sample" / "sample.ipynb").cells
    assert [cell.source for cell in exercise[:3]] == [cell.source for cell in solution[:3]]
    assert exercise[3].source == STUBBED
    assert exercise[5].source == "Why?\n\n*Your answer here.*"
    assert [cell.id for cell in exercise] == [cell.id for cell in solution]
    assert exercise[3].metadata == solution[3].metadata  # nbgrader's own among them


def test_outputs_and_counts_are_cleared(book):
    path = book / "solutions" / "02_sample" / "sample.ipynb"
    sample_book.change(path, 4, outputs=[sample_book.figure()])
    exercises.write(book)
    exercise = cells.read(book / "exercises" / "02_sample" / "sample.ipynb")
    code = [cell for cell in exercise.cells if cell.cell_type == "code"]
    assert [(cell.execution_count, cell.outputs) for cell in code] == [(None, [])] * 3


def test_a_second_run_writes_the_same_bytes(book):
    path = book / "exercises" / "02_sample" / "sample.ipynb"
    before = path.read_bytes()
    path.unlink()
    assert exercises.write(book) == ["exercises/02_sample/sample.ipynb: written"]
    assert path.read_bytes() == before
    assert exercises.write(book) == []


def test_a_stale_exercise_is_found_and_repaired(book, capsys):
    path = book / "solutions" / "02_sample" / "sample.ipynb"
    sample_book.change(path, 2, source="Write `tripled` without a loop.")
    assert exercises.main([], book) == 1
    assert "exercises/02_sample/sample.ipynb: stale" in (printed := capsys.readouterr().err)
    assert "make exercises" in printed
    assert exercises.main(["--write"], book) == 0


def test_missing_and_orphaned_exercises_are_found(book):
    path = book / "exercises" / "02_sample" / "sample.ipynb"
    path.rename(path.with_name("other.ipynb"))
    assert exercises.problems(book) == ["exercises/02_sample/sample.ipynb: missing"]
    exercises.write(book)
    assert exercises.problems(book) == ["exercises/02_sample/other.ipynb: no such notebook in solutions/; delete it"]


def test_a_notebook_that_somebody_has_run_is_left_alone(book):
    path = book / "exercises" / "02_sample" / "sample.ipynb"
    sample_book.change(path, 3, source="def tripled(x):\n    return x + x + x", execution_count=2)
    before = path.read_bytes()
    assert "left alone" in exercises.write(book)[0]
    assert path.read_bytes() == before
    assert "stale" in exercises.problems(book)[0]


def test_the_stub_keeps_the_indentation_inside_a_method():
    answer = "        ### BEGIN SOLUTION\n        return x\n        ### END SOLUTION"
    source = f"class A:\n    def b(self):\n        x = 1\n{answer}"
    assert cut(source)[0].source.splitlines()[-2:] == [
        "        x = 1",
        '        raise NotImplementedError("not attempted yet")',
    ]


def test_the_stub_runs_and_says_that_nothing_was_attempted():
    space = {}
    exec(cut(sample_book.ANSWER)[0].source, space)
    with pytest.raises(NotImplementedError, match="not attempted yet"):
        space["tripled"](1)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f():\n    ### BEGIN SOLUTION\n    return 1", "each BEGIN SOLUTION must have its END"),
        ("def f():\n    return 1\n    ### END SOLUTION", "each BEGIN SOLUTION must have its END"),
        ("### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION\n### END SOLUTION", "BEGIN BEGIN END END"),
        ("### BEGIN HIDDEN TESTS\nassert 1\n### END HIDDEN TESTS", "isn't supported"),
        ("### BEGIN SOLUTION\nx = 1\n### END SOLUTION", "inside a function"),
        ("def f():\n### BEGIN SOLUTION\n    return 1\n### END SOLUTION", "must be Python"),
    ],
)
def test_marks_that_would_leak_or_stop_the_notebook_are_refused(source, message):
    with pytest.raises(ValueError, match=message):
        cut(source)


def test_no_answer_survives_in_the_exercise():
    markdown = new_markdown_cell("### BEGIN SOLUTION\nthe secret\n### END SOLUTION")
    code = new_code_cell("def f():\n    ### BEGIN SOLUTION\n    return 'the secret'\n    ### END SOLUTION")
    assert "secret" not in cells.written(exercises.cut(new_notebook(cells=[markdown, code])))
