"""Stored notebooks keep the house's rules, and a run stores nothing that the next run would change."""

import pytest
import sample_book
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import cells, notebooks, outputs

LONG = "\n".join(f"x{i} = {i}" for i in range(13))
PROGRESS = new_output(
    "display_data",
    data={"text/plain": "  0%|          | 0/10 [00:00<?, ?it/s]", outputs.WIDGET: {"model_id": "41b336"}},
)


@pytest.fixture
def book(tmp_path):
    sample_book.make(tmp_path)
    return tmp_path


def found(book, names=("02_sample.ipynb",)):
    return notebooks.problems(notebooks.chosen(list(names), book), book)


def test_the_books_notebooks_keep_the_rules():
    assert notebooks.problems(notebooks.chosen([])) == []


def test_a_book_in_order_has_no_problem(book):
    assert notebooks.main([], book) == 0


@pytest.mark.parametrize(
    ("number", "fault", "message"),
    [
        (5, {"execution_count": None}, "cell 5: the execution count must be 3, got None"),
        (5, {"outputs": [new_output("error", ename="A", evalue="b")]}, "must carry the tag raises-exception, got A: b"),
        (5, {"metadata": {"tags": ["raises-exception"]}}, "must raise, got no error"),
        (5, {"metadata": {"tags": ["nbval-skip"]}}, "must be run by the tests, got the tag nbval-skip"),
        (5, {"source": LONG}, "1 to 12 lines of code, got 13"),
        (5, {"source": "# nothing"}, "1 to 12 lines of code, got 0"),
        (5, {"source": "def f(:"}, "must be Python"),
        (3, {"source": f"# transformer_lib/attention.py\n{LONG}\n{LONG}"}, "1 to 25 lines of code, got 26"),
        (5, {"outputs": [new_output("stream", name="stderr", text="careful")]}, "stderr"),
        (5, {"outputs": [new_output("stream", text="<A at 0x7fd3c0a81f10>")]}, "got 0x7fd3c0a81f10"),
        (5, {"outputs": [PROGRESS]}, "a progress bar must stay out"),
        (5, {"outputs": [PROGRESS]}, "a widget's state isn't stored"),
        (6, {"outputs": [sample_book.figure(alt="")]}, "alternative text"),
        (6, {"outputs": [sample_book.figure(alt="  ")]}, "alternative text"),
        (6, {"outputs": [sample_book.figure(size=90_000)]}, "at most 81,920 bytes, got 90,"),
        (7, {"source": "So the line rises."}, "must begin with a caption"),
        (7, {"source": "**Figure 1.**"}, "must begin with a caption"),
        (7, {"source": sample_book.CAPTION.replace("1.", "2.", 1)}, "'**Figure 1.** What to conclude"),
        (1, {"source": "import torch"}, "the first code cell must be the install cell"),
        (4, {"cell_type": "code", "source": "1 + 1", "outputs": [], "execution_count": 3}, "got a third"),
    ],
)
def test_each_planted_fault_is_found(book, number, fault, message):
    sample_book.change(book / "notebooks" / "02_sample.ipynb", number, **fault)
    assert message in "\n".join(found(book))


def test_a_path_of_this_machine_is_found(book):
    text = new_output("stream", text=f"{book}/notebooks")
    sample_book.change(book / "notebooks" / "02_sample.ipynb", 5, outputs=[text])
    assert "a path of this machine" in found(book)[0]


def test_a_long_docstring_and_comments_are_no_code():
    source = '# why\n\ndef f():\n    """One.\n\n    Two.\n    """\n    # three\n    return """a\nb"""\n'
    assert cells.code_lines(source) == 3
    assert cells.code_lines("%matplotlib inline\nx = [\n    1,\n]") == 4


def test_an_ignored_cell_must_be_rare_and_asserted(book):
    path = book / "notebooks" / "02_sample.ipynb"
    ignored = {"tags": ["nbval-ignore-output"]}
    sample_book.change(path, 5, metadata=ignored)
    assert found(book) == []  # one of five, and the next cell asserts
    sample_book.change(path, 6, metadata=ignored)
    sample_book.change(path, 9, source="halved(2.0)")
    problems = "\n".join(found(book))
    assert "at most one code cell in five may carry nbval-ignore-output, got 2 of 5" in problems
    assert "cell 6: a cell with the tag nbval-ignore-output must be followed" in problems


def test_a_heavy_notebook_is_found(book):
    path = book / "notebooks" / "02_sample.ipynb"
    sample_book.change(path, 2, source="word " * 150_000)
    assert "at most 716,800 bytes" in "\n".join(found(book))


def test_another_editors_form_is_found_and_rewritten(book):
    path = book / "notebooks" / "02_sample.ipynb"
    before = path.read_text()
    path.write_text(before.replace('"metadata": {}', '"metadata": {"colab": {"base_uri": "x"}}', 1))
    assert found(book) == ["notebooks/02_sample.ipynb: not in the stored form (make notebooks writes it)"]
    cells.write(cells.read(path), path)
    assert path.read_text() == before


@pytest.mark.filterwarnings("ignore::nbformat.validator.DuplicateCellId")
def test_ids_last_unless_random_or_double():
    def ids(*given):
        made = [new_markdown_cell(f"text {i}", id=name) for i, name in enumerate(given)]
        return [cell.id for cell in cells.normalise(new_notebook(cells=made)).cells]

    assert ids("scale-variance", "install") == ["scale-variance", "install"]
    assert ids("deadbeef", "0b1f6d2e-1111-4222-8333-944444444444") == ids("00000000", "12345678")
    assert len(set(ids("same", "same", "same"))) == 3
    assert ids(*ids("deadbeef", "x")) == ids("deadbeef", "x")


def test_only_what_lasts_is_stored():
    bar = new_output("stream", name="stderr", text="100%|####| 10/10 [00:00<00:00, 9.1it/s]\n")
    streams = [new_output("stream", text="a\n"), new_output("stream", text="b\n")]
    error = new_output("error", ename="ValueError", evalue="no", traceback=["/home/somebody/x.py line 3"])
    cell = new_code_cell("x", outputs=[bar, PROGRESS, *streams, error, sample_book.figure()], execution_count=7)
    cell.outputs[-1].metadata["image/png"]["needs_background"] = "light"
    stored = outputs.normalise(new_notebook(cells=[cell])).cells[0]
    assert stored.execution_count == 1
    assert [output.output_type for output in stored.outputs] == ["stream", "error", "display_data"]
    assert stored.outputs[0].text == "a\nb\n"
    assert stored.outputs[1].traceback == ["ValueError: no"]
    assert stored.outputs[2].metadata == {"image/png": {"alt": "A rising line"}}


def test_an_unknown_name_is_refused(book, capsys):
    assert notebooks.main(["03_missing"], book) == 1
    assert "got '03_missing'" in capsys.readouterr().err


def small(book, *sources):
    path = book / "notebooks" / "09_small.ipynb"
    cells.write(new_notebook(cells=[new_code_cell(source) for source in sources]), path)
    return path


@pytest.mark.slow
def test_a_run_stores_the_outputs_and_the_next_run_changes_nothing(book, capsys):
    path = small(
        book, "import pathlib\npathlib.Path.cwd().name", "print('one')\n2", "import os\nos.environ['OMP_NUM_THREADS']"
    )
    notebooks.main(["--write", "09_small"], book)
    stored = cells.read(path)
    assert [cell.outputs[-1].data["text/plain"] for cell in stored.cells] == ["'notebooks'", "2", "'1'"]
    assert [cell.execution_count for cell in stored.cells] == [1, 2, 3]
    assert len(stored.cells) == 3  # the probe for memory is gone
    assert "MiB, outputs changed" in capsys.readouterr().out
    before = path.read_bytes()
    notebooks.main(["--write", "09_small"], book)
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_failing_notebook_is_left_as_it_was(book, capsys):
    path = small(book, "1", "raise RuntimeError('halfway')")
    before = path.read_bytes()
    assert notebooks.main(["--write", "09_small"], book) == 1
    assert path.read_bytes() == before
    assert "RuntimeError: halfway" in capsys.readouterr().err


@pytest.mark.slow
def test_time_writes_nothing(book, capsys):
    path = small(book, "x = bytearray(300 * 2**20)")
    before = path.read_bytes()
    assert notebooks.main(["--time", "09_small"], book) == 0
    assert path.read_bytes() == before
    mebibytes = int(capsys.readouterr().out.split(", ")[1].split()[0].replace(",", ""))
    assert 300 < mebibytes < 1000
