"""The built book: complete, readable offline, and without a link or button that leads nowhere.

`make test` builds the book first and names its folder in TRANSFORMER_LIB_BOOK; else it is built here.
"""

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from browser import Browser, needs_chromium

from tools import ROOT, repository, serve
from tools.pages import names as toc_files

pytestmark = pytest.mark.slow

BYTES_A_PAGE = 1_500_000
OUR_SCRIPT_BYTES = 150_000
BYTES_OF_THE_SITE = 40_000_000
LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
HERE = Path(__file__).parent
STRICT = ("-W", "-n", "--keep-going")  # warnings are errors
COLAB = "https://colab.research.google.com"


class Page(HTMLParser):
    """The tags of one page, as (name, attributes)."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))

    def loads(self) -> list[str]:
        """Return the addresses that a browser fetches by itself when it shows the page."""
        found = [a[LOADS[tag]] for tag, a in self.tags if tag in LOADS and a.get(LOADS[tag])]
        return found + [
            a["href"] for tag, a in self.tags if tag == "link" and a.get("rel") not in ("canonical", "author")
        ]

    def links(self) -> list[str]:
        return [a["href"] for tag, a in self.tags if tag == "a" and a.get("href")]

    def ids(self) -> set[str]:
        return {a["id"] for _, a in self.tags if a.get("id")} | {
            a["name"] for t, a in self.tags if t == "a" and a.get("name")
        }


def build(output: Path, *options: str) -> Path:
    """Build the book into this folder; return the folder of its pages."""
    program = str(Path(sys.executable).with_name("jupyter-book"))
    command = [program, "build", str(ROOT), "--all", "--path-output", str(output), *options]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return output / "_build" / "html"


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> Path:
    given = os.environ.get("TRANSFORMER_LIB_BOOK")
    return (ROOT / given).resolve() if given else build(tmp_path_factory.mktemp("book"), *STRICT)


@pytest.fixture(scope="module")
def pages(html) -> dict[str, Page]:
    found = {str(path.relative_to(html)): Page(path) for path in html.rglob("*.html") if "_static" not in path.parts}
    assert "book/start.html" in found and "index.html" in found
    return found


def one_of_each() -> list[str]:
    """Return the first page, the first chapter and the first exercises."""
    folders = [name.split("/")[0] for name in toc_files()]
    return [toc_files()[folders.index(folder)] for folder in ("book", "notebooks", "exercises")]


def test_every_chapter_is_in_the_table_of_contents_and_every_entry_has_its_page(pages):
    found = [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("exercises/*/*.ipynb")]
    assert {path.relative_to(ROOT).with_suffix("").as_posix() for path in found} <= set(toc_files())
    assert {f"{name}.html" for name in toc_files()} <= set(pages)


def test_every_module_of_the_library_is_on_the_api_page(pages):
    files = [*(ROOT / "transformer_lib").glob("[a-z]*.py"), *(ROOT / "transformer_lib").glob("*/__init__.py")]
    names = {path.parent.name if path.name == "__init__.py" else path.stem for path in files}
    assert {"attention", "masks", "model"} <= names
    assert {f"module-transformer_lib.{name}" for name in names} <= pages["book/api.html"].ids()


def test_no_page_loads_anything_from_another_host(pages):
    outside = {(name, url) for name, page in pages.items() for url in page.loads() if urlsplit(url).netloc}
    assert outside == set()


def test_no_stylesheet_loads_anything_from_another_host(html):
    outside = {
        (path.name, url)
        for path in html.rglob("*.css")
        for url in re.findall(
            r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", path.read_text(encoding="utf-8")
        )
    }
    assert outside == set()


def test_mathjax_comes_from_the_book_itself(pages, html):
    scripts = [url for url in pages["book/start.html"].loads() if "mathjax" in url.lower()]
    assert len(scripts) == 1
    assert (html / "book" / urlsplit(scripts[0]).path).resolve().is_relative_to(html / "_static")


def test_every_local_link_and_file_exists(pages, html):
    broken = []
    ids = {name: page.ids() for name, page in pages.items()}
    for name, page in pages.items():
        for url in {*page.loads(), *page.links()}:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or url == "#":
                continue
            target = (html / name).parent / unquote(parts.path) if parts.path else html / name
            known = ids.get(os.path.relpath(target, html))
            if not target.exists() or (parts.fragment and known is not None and unquote(parts.fragment) not in known):
                broken.append((name, url))
    assert broken == []


def test_every_image_says_in_words_what_it_shows(pages):
    images = [(name, a) for name, page in pages.items() for tag, a in page.tags if tag == "img"]
    silent = [(name, a.get("src")) for name, a in images if not _says_something(a.get("alt"))]
    assert silent == []


def _says_something(alt: str | None) -> bool:
    return bool(alt and alt.strip()) and not re.search(r"\.(png|svg|jpe?g)$|_images/", alt)


def test_every_page_names_its_language(pages):
    languages = {name: [a.get("lang") for tag, a in page.tags if tag == "html"] for name, page in pages.items()}
    languages.pop("index.html")  # a redirection without text
    assert {tuple(found) for found in languages.values()} == {("en",)}


def colab_links(pages: dict[str, Page]) -> dict[str, list[str]]:
    return {name: [url for url in page.links() if url.startswith(COLAB)] for name, page in pages.items()}


def test_launch_buttons_lead_to_files_of_this_tree_or_are_not_there(pages):
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
    check_launch_buttons(pages, settings["url"], settings["branch"])
    check_page_links(pages, settings["url"], settings["branch"])


def test_an_address_puts_a_button_that_leads_to_its_notebook_on_every_kind_of_page(tmp_path):
    text, url = (ROOT / "_config.yml").read_text(encoding="utf-8"), "https://github.com/someone/a-course"
    settings = yaml.safe_load(repository.config_text(text, url, "trunk"))
    ours = settings["sphinx"]["local_extensions"]
    settings["sphinx"]["local_extensions"] = {name: str(ROOT / path) for name, path in ours.items()}
    some = one_of_each()
    toc = {"format": "jb-book", "root": some[0], "chapters": [{"file": name} for name in some[1:]]}
    config, contents = tmp_path / "_config.yml", tmp_path / "_toc.yml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    contents.write_text(yaml.safe_dump(toc), encoding="utf-8")
    html = build(tmp_path, "--config", str(config), "--toc", str(contents))
    pages = {f"{name}.html": Page(html / f"{name}.html") for name in some}
    check_launch_buttons(pages, url, "trunk")
    check_page_links(pages, url, "trunk")


def check_launch_buttons(pages: dict[str, Page], url: str, branch: str) -> None:
    start = f"{COLAB}/github/{urlsplit(url).path.strip('/')}/blob/{branch}/"
    for name, links in colab_links(pages).items():
        notebook = Path(name).with_suffix(".ipynb")
        wanted = {start + notebook.as_posix()} if url and (ROOT / notebook).exists() else set()
        assert set(links) == wanted, name


def check_page_links(pages: dict[str, Page], url: str, branch: str) -> None:
    """Check that each page leads to its own file to edit and to a report of an error, or with no address to neither."""
    for name, page in pages.items():
        links = [link for link in page.links() if re.search(r"/edit/|/issues/new\?", link)]
        if not url:
            assert links == [], name
            continue
        source = next(f for f in (Path(name).with_suffix(kind) for kind in (".md", ".ipynb")) if (ROOT / f).exists())
        edit, report = sorted(links)
        assert edit == f"{url}/edit/{branch}/{source.as_posix()}" and report.startswith(f"{url}/issues/new?"), name


@pytest.fixture(scope="module")
def address(html):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(html)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        opened.call("Network.setCacheDisabled", cacheDisabled=True)
        yield opened


@pytest.fixture(scope="module")
def visit(browser, address):
    """Return what is found when a page is shown as on a telephone; each page is visited once."""
    return functools.cache(lambda page: look(browser, f"{address}/{page}.html"))


LOOK = """({
  width: document.documentElement.scrollWidth,
  room: document.documentElement.clientWidth,
  formulas: document.querySelectorAll("mjx-container").length,
  spoken: document.querySelectorAll("mjx-container mjx-assistive-mml").length,
  errors: document.querySelectorAll("[data-mjx-error], merror").length,
  signs: [...document.querySelectorAll("mjx-container svg text")].map((text) => text.textContent),
  headings: document.querySelectorAll("article h1").length,
  unreachable: [...document.querySelectorAll("article *")].filter((one) => one.checkVisibility()
    && one.scrollWidth > one.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(one).overflowX)
    && (one.tabIndex < 0 || one.tagName !== "PRE" && !/^(Figure|table|formula) .*sideways$/.test(one.ariaLabel)))
    .map((one) => one.outerHTML.slice(0, 150)),
  waited_for: performance.getEntriesByType("resource").filter((one) => one.renderBlockingStatus === "blocking")
    .map((one) => new URL(one.name).pathname),
})"""
AXE = (HERE / "vendor" / "axe.min.js").read_text(encoding="utf-8")
AUDIT = """axe.run({ include: [["html"]], exclude: [["mjx-container"]] },
  { resultTypes: ["violations"], preload: false, ...OPTIONS }).then((result) => result.violations
  .filter((found) => ["serious", "critical"].includes(found.impact))
  .map((found) => [found.id, found.nodes.slice(0, 5).map((node) => node.html.slice(0, 200))]))"""


def look(browser: Browser, address: str) -> dict:
    """Show a page; return what was loaded, what failed, and what was found in it."""
    browser.screen(360)
    browser.open(address)
    browser.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    found = browser.run(LOOK)
    parts = [(event["method"], event["params"]) for event in browser.events]
    asked = {one["requestId"]: one["request"]["url"] for name, one in parts if name == "Network.requestWillBeSent"}
    answers = [one["response"] for name, one in parts if name == "Network.responseReceived"]
    found["missing"] = [one["url"] for one in answers if one["status"] >= 400 and "favicon" not in one["url"]]
    found["hosts"] = {urlsplit(url).netloc for url in asked.values() if not url.startswith("data:")}
    found["thrown"] = [one["exceptionDetails"] for name, one in parts if name == "Runtime.exceptionThrown"]
    loaded = [one for name, one in parts if name == "Network.loadingFinished"]
    found["bytes"] = {asked[one["requestId"]]: one["encodedDataLength"] for one in loaded if one["requestId"] in asked}
    return found


def audit(browser: Browser, mode: str, **options) -> list:
    """Return what axe calls serious or critical on the page that is shown, in light or in dark mode."""
    set_mode = f"document.documentElement.dataset.theme = document.documentElement.dataset.mode = {mode!r}"
    browser.run(f"{set_mode}; new Promise((done) => setTimeout(done, 300))")
    return browser.run(AUDIT.replace("OPTIONS", json.dumps(options)))


@needs_chromium
@pytest.mark.parametrize("page", toc_files())
def test_a_page_is_whole_on_a_telephone_without_a_network(page, visit, address, html):
    found = visit(page)
    assert found["hosts"] == {urlsplit(address).netloc}
    assert found["missing"] == found["thrown"] == []
    assert found["spoken"] == found["formulas"] >= formulas(html / f"{page}.html") and found["errors"] == 0
    assert found["signs"] == []  # that MathJax as we ship it has no shape for: tools/mathjax/README.md
    assert found["room"] <= 360 and found["width"] <= found["room"]
    assert found["unreachable"] == []  # by the keyboard, though it scrolls sideways


def formulas(page: Path) -> int:
    return len(re.findall(r'class="math[ "]', page.read_text(encoding="utf-8")))


@needs_chromium
@pytest.mark.parametrize("page", [*toc_files(), "search", "genindex"])
def test_a_page_is_light_and_is_shown_before_any_script_runs(page, visit):
    found = visit(page)
    assert sum(found["bytes"].values()) < BYTES_A_PAGE
    assert sum(size for url, size in found["bytes"].items() if "/_static/js/" in url) < OUR_SCRIPT_BYTES
    assert [path for path in found["waited_for"] if not path.endswith(".css")] == []


def test_no_page_waits_for_a_script(pages):
    waiting = {
        (name, a["src"])
        for name, page in pages.items()
        for tag, a in page.tags
        if tag == "script" and a.get("src") and not {"defer", "async"} & set(a)
    }
    assert waiting == set()


def test_the_whole_site_is_small(html):
    assert sum(path.stat().st_size for path in html.rglob("*") if path.is_file()) < BYTES_OF_THE_SITE


@needs_chromium
@pytest.mark.parametrize("page", toc_files())
def test_a_page_can_be_read_by_all(page, browser, address):
    browser.screen(360)
    browser.open(f"{address}/{page}.html")
    assert browser.run('document.querySelectorAll("article h1").length') == 1
    browser.run(AXE)
    contrast = page in one_of_each() or os.environ.get("TRANSFORMER_LIB_THOROUGH") == "1"  # it takes long
    assert audit(browser, "light", rules={"color-contrast": {"enabled": contrast}}) == []
    assert not contrast or audit(browser, "dark", runOnly=["color-contrast"]) == []


@needs_chromium
@pytest.mark.parametrize("page", one_of_each())
def test_what_a_finger_presses_is_44_pixels_high(page, browser, address):
    browser.screen(360)
    browser.open(f"{address}/{page}.html")
    figures = ".moving :is(select, label, fieldset button)"
    knobs = f".bd-header-article .btn, article summary, {figures}, .ledger-controls :is(select, input)"
    small = f"""[...document.querySelectorAll({knobs!r})].filter((one) => one.getClientRects().length
        && one.getBoundingClientRect().height < 44).map((one) => one.outerHTML.slice(0, 150))"""
    assert browser.run("matchMedia('(pointer: coarse)').matches") and browser.run(small) == []


@needs_chromium
@pytest.mark.parametrize("page", toc_files())
def test_nothing_is_cut_off_on_paper(page, browser, address):
    browser.screen(680)  # A4 between its margins, at 96 pixels an inch
    browser.open(f"{address}/{page}.html")
    browser.call("Emulation.setEmulatedMedia", media="print")
    cut = browser.run("""[...document.querySelectorAll("article :is(table, img, pre, svg, mjx-container, .moving)")]
        .filter((one) => one.getClientRects().length && !one.closest("mjx-assistive-mml")
        && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
        .map((one) => one.outerHTML.slice(0, 150))""")
    browser.call("Emulation.setEmulatedMedia", media="")
    assert cut == []


@needs_chromium
def test_the_book_works_from_a_folder_without_a_server(html, browser):
    page = html / "book" / "notation.html"
    found = look(browser, page.as_uri())
    assert found["hosts"] == {""} and found["thrown"] == []
    assert found["spoken"] == found["formulas"] >= formulas(page) > 10 and found["errors"] == 0


STOPS = """
const still = document.createElement("style");
still.textContent = "*, *::before, *::after { transition: none !important; scroll-behavior: auto !important }";
document.head.append(still);
window.stops = [];
const shown = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest("dialog:not([open])");
const ways = "a[href], button, input, select, summary, [tabindex='0']";
window.expected = () => [...document.querySelectorAll(ways)].filter(
  (one) => one.tabIndex >= 0 && !one.disabled && shown(one) && one.getClientRects().length);
window.stop = () => {
  const one = document.activeElement, ring = [one, ...one.querySelectorAll("*")].some((part) => {
    const style = getComputedStyle(part);
    const round = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    return (round || style.boxShadow !== "none") && style.opacity > 0;
  });
  const labels = [...one.labels ?? []].map((label) => label.textContent);
  const said = [one.ariaLabel, one.textContent, one.title, one.placeholder, ...labels];
  const name = said.find((text) => text?.trim()) ?? one.querySelector("img")?.alt;
  const past = one === document.body || one === window.stops[0]?.one;
  if (!past) { window.stops.push({ one, ring, name }); }
  return past;
};
null"""


@needs_chromium
@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("page", one_of_each())
def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(page, width, browser, address):
    browser.screen(width)
    browser.open(f"{address}/{page}.html")
    browser.run(STOPS)
    for _ in range(400):
        browser.press("Tab")
        if browser.run("stop()"):  # past the last one
            break
    outer = "(one) => one.outerHTML.slice(0, 150)"
    assert browser.run("stops[0].one.textContent.trim()") == "Skip to main content"
    reached = "new Set(stops.map((stop) => stop.one))"
    assert browser.run(f"expected().filter((one) => !{reached}.has(one)).map({outer})") == []
    assert browser.run(f"stops.filter((stop) => !stop.ring).map((stop) => stop.one).map({outer})") == []
    assert browser.run(f"stops.filter((stop) => !stop.name).map((stop) => stop.one).map({outer})") == []
    follows = "stops[i].one.compareDocumentPosition(stop.one) & Node.DOCUMENT_POSITION_FOLLOWING"
    assert browser.run(f"stops.slice(1).filter((stop, i) => !({follows})).map((stop) => stop.one).map({outer})") == []


@needs_chromium
def test_the_skip_link_fold_outs_and_sliders_obey_the_keyboard(browser, address):
    browser.screen(1280)
    browser.open(f"{address}/{one_of_each()[1]}.html")
    browser.press("Tab")
    browser.press("Enter")
    browser.press("Tab")
    assert browser.run("document.querySelector('main').contains(document.activeElement)")
    browser.run("document.querySelector('details.predict summary').focus()")
    browser.press("Enter")
    assert browser.run("document.querySelector('details.predict').open")
    shows = "document.querySelector('.moving').innerHTML"
    before = browser.run(f"document.querySelectorAll('.moving input[type=range]')[1].focus(); {shows}")
    says = "document.querySelector('.moving .m-says[aria-live=polite]').textContent"
    said = browser.run(says)
    browser.press("ArrowRight")
    assert browser.run(shows) != before and browser.run(says) != said
    assert re.search(r"\w+ \d", browser.run("document.activeElement.getAttribute('aria-valuetext')"))


@needs_chromium
@pytest.mark.parametrize("served", [True, False], ids=["served", "from a folder"])
def test_the_search_finds_a_word_that_is_typed(served, browser, address, html):
    browser.screen(1280)
    browser.open(f"{address}/search.html" if served else (html / "search.html").as_uri())
    browser.run("document.querySelector('main input[type=search]').focus()")
    browser.type("softmax")
    browser.press("Enter")
    browser.wait("/ found /.test(document.querySelector('#search-results')?.textContent)")
    links = browser.run("[...document.querySelectorAll('#search-results li a')].map((link) => link.href)")
    assert any("notebooks/02_attention.html" in link for link in links) and len(links) > 5


def test_serving_without_a_built_book_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "HTML", tmp_path)
    with pytest.raises(FileNotFoundError, match="make book"):
        serve.open_server()


def test_a_served_book_is_reachable_from_this_computer_only_and_takes_the_next_port(html, monkeypatch):
    monkeypatch.setattr(serve, "HTML", html)
    with serve.open_server() as first, serve.open_server() as second:
        assert first.server_address[0] == second.server_address[0] == "127.0.0.1"
        assert first.server_address[1] != second.server_address[1]


def test_the_search_index_knows_the_pages(html):
    index = (html / "searchindex.js").read_text(encoding="utf-8")
    documents = json.loads(re.search(r'"?docnames"?:\s*(\[.*?\])', index).group(1))
    assert set(toc_files()) <= set(documents)
