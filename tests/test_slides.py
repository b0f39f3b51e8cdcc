"""Slides: every tagged cell is on one, none overflows, nothing is fetched from another host."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sample_book
import yaml
from browser import CHROMIUM, FLAGS, NO_HOST, needs_chromium
from nbformat.v4 import new_code_cell, new_markdown_cell

from tools import ROOT, cells, slides

SCREEN = [NO_HOST, "--window-size=1280,720", "--virtual-time-budget=20000"]
# Visits each slide with all its fragments shown; a slide's own units are those of 1280 x 720.
MEASURE = """<script>
window.addEventListener("load", async () => {
  await MathJax.startup.promise;
  const report = [];
  for (const slide of Reveal.getSlides()) {
    const { h, v } = Reveal.getIndices(slide);
    Reveal.slide(h, v, 99);
    const scale = Reveal.getScale(), box = slide.getBoundingClientRect();
    let right = box.right, bottom = box.top;
    for (const part of slide.querySelectorAll("*")) {
      const edge = part.getBoundingClientRect();
      if (part.closest("aside") || edge.width * edge.height === 0) continue;
      right = Math.max(right, edge.right); bottom = Math.max(bottom, edge.bottom);
    }
    report.push({
      title: (slide.querySelector("h1, h2, h3") || slide).textContent.trim().slice(0, 40),
      width: Math.round((right - box.left) / scale), height: Math.round((bottom - box.top) / scale),
      formulas: slide.querySelectorAll("mjx-container").length,
      errors: slide.querySelectorAll("[data-mjx-error]").length,
      broken: [...slide.querySelectorAll("img")].filter(image => !image.naturalWidth).length,
      without_alt: slide.querySelectorAll("img:not([alt]), img[alt='']").length,
    });
  }
  const out = document.createElement("output");
  out.textContent = "MEASURED" + JSON.stringify(report) + "END";
  document.body.append(out);
});
</script></body>"""


def measure(deck: Path, folder: Path) -> list[dict]:
    """Return what a browser of 1280 x 720 pixels, reaching no host, measures on each slide."""
    page = deck.with_name(f"measured_{deck.name}")
    page.write_text(deck.read_text(encoding="utf-8").replace("</body>", MEASURE), encoding="utf-8")
    command = [CHROMIUM, *FLAGS, *SCREEN, f"--user-data-dir={folder}/profile", page.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    page.unlink()
    found = re.search(r"MEASURED(\[.*?\])END", dom, re.DOTALL)
    assert found, f"the deck didn't start:\n{dom[-2000:]}"
    return json.loads(found.group(1).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


def faults(report: list[dict]) -> list[str]:
    """Say which slide is too big for the screen, or shows a formula or a picture that failed."""
    found = [
        f"{slide['title']!r}: {slide['width']} x {slide['height']} units"
        for slide in report
        if slide["width"] > slides.WIDTH or slide["height"] > slides.HEIGHT
    ]
    wrong = ("errors", "broken", "without_alt")
    return found + [f"{slide['title']!r}: {slide[what]} {what}" for slide in report for what in wrong if slide[what]]


@pytest.fixture
def book(tmp_path):
    sample_book.make(tmp_path / "book")
    (tmp_path / "book" / "book" / "_static").mkdir(parents=True)
    (tmp_path / "book" / slides.VENDOR).symlink_to(ROOT / slides.VENDOR)
    return tmp_path / "book"


def append(book, *new):
    path = book / "notebooks" / "02_sample.ipynb"
    notebook = cells.read(path)
    notebook.cells.extend(new)
    cells.write(notebook, path)


def slide(source, kind="slide", make=new_markdown_cell, **fields):
    return make(source, metadata={"slideshow": {"slide_type": kind}}, **fields)


def test_the_books_slide_tags_are_in_order():
    assert slides.problems() == []


def test_a_deck_holds_the_tagged_cells_only(book, capsys):
    append(book, slide("unseen_name = 1", make=new_code_cell))
    sample_book.change(
        book / "notebooks" / "02_sample.ipynb",
        10,
        metadata={"slideshow": {"slide_type": "-"}, "tags": ["hide-input"]},
        outputs=[sample_book.figure()],
    )
    assert slides.main(["--write", "--into", str(book / "built")], book) == 0
    deck = (book / "built" / "slides" / "02.html").read_text()
    assert capsys.readouterr().out.split() == [str(book / "built" / "slides" / "02.html")]
    assert deck.count("<section") - deck.count("<section>\n<section") >= 2
    assert "Doubling" in deck and "What doubles?" not in deck and "find_spec" not in deck
    assert "unseen_name" not in deck.split("<body>")[1] and 'alt="A rising line"' in deck
    assert re.search(r'<aside class="notes">.*Say it slowly', deck, re.DOTALL)
    assert '<a class="to-chapter" href="../notebooks/02_sample.html"' in deck


def test_a_deck_names_no_other_host_and_what_it_loads_is_there(book):
    [deck] = slides.write(book / "built", book)
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?!data:)([^"]+)"', deck.read_text())
    assert len(loaded) >= 4
    assert all((deck.parent / address).is_file() for address in loaded)


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("../exercises/02_sample/sample.ipynb", "../exercises/02_sample/sample.html"),
        ("03_next.ipynb#cell-c1-01", "../notebooks/03_next.html#cell-c1-01"),
        ("../book/notation.md", "../book/notation.html"),
        ("#cell-c1-01", "../notebooks/02_sample.html#cell-c1-01"),
        ("https://example.org/a.ipynb", "https://example.org/a.ipynb"),
        ("/a.ipynb", "/a.ipynb"),
    ],
)
def test_a_link_leads_from_the_deck_to_the_books_page(book, address, wanted):
    append(book, slide(f"See [there]({address})."))
    [deck] = slides.write(book / "built", book)
    assert re.findall(r'href="([^"]*)"[^>]*>there<', deck.read_text()) == [wanted]


WORKS = """@misc{one2020, author = {One, Ann}, year = {2020}}
@misc{three2021, author = {L{\\"o}we, Bo and Two, Cy and Three, Di}, year = {2021}}"""


def test_what_only_the_book_understands_is_plain_on_a_slide(book):
    (book / "book" / "references.bib").write_text(WORKS)
    append(book, slide("(cell-here)=\n## Sources\n\nMeasured {cite}`one2020,three2021` and again {cite}`three2021`."))
    text = slides.write(book / "built", book)[0].read_text()
    assert "cell-here" not in text
    cited = re.findall(r'\[<a href="../book/bibliography.html">(.*?)</a>\]', text)
    assert cited == ["One, 2020; Löwe et al., 2021", "Löwe et al., 2021"]


@pytest.mark.parametrize("path", slides.chapters(), ids=lambda path: path.stem)
def test_no_slide_shows_the_book_s_own_marks(path):
    shown = re.sub(r"<(script|style|pre).*?</\1>", "", slides.deck(path, "vendor"), flags=re.DOTALL)
    assert re.findall(r"\{[a-z:]+\}\W{0,8}`|\{cite\}|\(cell-[^)]*\)=|:::", shown) == []


def test_a_second_deck_is_the_same(book):
    [deck] = slides.write(book / "built", book)
    before = deck.read_bytes()
    slides.write(book / "built", book)
    assert deck.read_bytes() == before


@pytest.mark.parametrize(
    ("number", "fault", "message"),
    [
        (8, {"metadata": {"slideshow": {"slide_type": "notes"}}}, "cell 8: notes must carry the tag remove-cell"),
        (0, {"metadata": {"slideshow": {"slide_type": "fragment"}}}, "cell 0: the deck must begin with a cell of type"),
        (5, {"metadata": {"slideshow": {"slide_type": "slides"}}}, "cell 5: slide_type must be one of slide, subslide"),
    ],
)
def test_each_planted_fault_is_found(book, number, fault, message, capsys):
    sample_book.change(book / "notebooks" / "02_sample.ipynb", number, **fault)
    assert slides.main([], book) == 1
    assert message in capsys.readouterr().err


def build_page(book: Path) -> tuple[Path, str]:
    """Build the sample with the book's own extensions; return the folder of pages and the chapter's page."""
    extensions = dict.fromkeys(("figure_alt", "decks"), str(ROOT / "book" / "_ext"))
    settings = {"title": "sample", "execute": {"execute_notebooks": "off"}, "only_build_toc_files": True}
    config = settings | {"sphinx": {"local_extensions": extensions}}
    (book / "_config.yml").write_text(yaml.safe_dump(config))
    (book / "_toc.yml").write_text("format: jb-book\nroot: README\nchapters: [{file: notebooks/02_sample}]\n")
    program = str(Path(sys.executable).with_name("jupyter-book"))
    run = subprocess.run([program, "build", str(book), "-W", "-q"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return book / "_build" / "html", (book / "_build" / "html" / "notebooks" / "02_sample.html").read_text()


@pytest.mark.slow
def test_the_built_page_links_its_deck_gives_figures_their_alt_and_hides_the_notes(book):
    html, page = build_page(book)
    assert 'href="../slides/02.html"' in page and (html / "slides" / "02.html").is_file()
    assert re.search(r'<img alt="A rising line" src="../_images/', page)
    assert "Say it slowly" not in page and "Say it slowly" in (html / "slides" / "02.html").read_text()


@pytest.mark.slow
def test_a_wrong_slide_tag_fails_the_build(book):
    sample_book.change(book / "notebooks" / "02_sample.ipynb", 5, metadata={"slideshow": {"slide_type": "slides"}})
    with pytest.raises(AssertionError, match="slide_type must be one of"):
        build_page(book)


@pytest.mark.slow
@needs_chromium
def test_the_measurement_sees_formulas_pictures_and_what_overflows(book, tmp_path):
    listing = "# transformer_lib/attention.py\n" + "\n".join(f"name_{i} = {i}  # {'why ' * 20}" for i in range(26))
    append(
        book,
        slide("## Formulas\n\n$QK^T$ and\n\n$$\\mathrm{softmax}\\left(\\frac{QK^T}{\\sqrt{d_k}}\\right)V$$"),
        slide(f"## A full listing\n\n```python\n{listing}\n```"),
        slide("## Too long\n\n" + "A line.\n\n" * 20),
        slide("more", "fragment"),
        slide("## Too wide\n\n<div style='width: 1500px'>wide</div>"),
        slide("## Broken\n\n$\\left( 1$ and ![](nowhere.png)"),
        slide("## Below", "subslide"),
    )
    [deck] = slides.write(book / "built", book)
    report = {slide["title"]: slide for slide in measure(deck, tmp_path)}
    assert report["Formulas"]["formulas"] == 2
    assert "Below" in report
    told = "\n".join(faults(list(report.values())))
    assert len(report) == 8
    assert [name for name in report if name in told] == ["Too long", "Too wide", "Broken"]
    assert (
        re.search(r"'Broken': \d errors", told) and "'Broken': 1 broken" in told and "'Broken': 1 without_alt" in told
    )


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("path", slides.chapters(), ids=lambda path: path.stem)
def test_no_slide_of_the_book_overflows(path, tmp_path):
    built = tmp_path / "html"
    shutil.copytree(
        ROOT / "book" / "_static" / "js", built / "_static" / "js"
    )  # else a moving figure is one line of text
    deck = next(deck for deck in slides.write(built) if deck.stem == f"{cells.chapter(path):02d}")
    report = measure(deck, tmp_path)
    assert faults(report) == []
    assert len(report) >= 5
