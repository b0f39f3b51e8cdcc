"""The built book: complete, readable offline, and without a link or button that leads nowhere.

`make test` builds the book first and names its folder in TRANSFORMER_LIB_BOOK; else it is built here.
"""

import functools
import http.server
import json
import os
import queue
import re
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from browser import CHROMIUM, needs_chromium

from tools import ROOT, repository, serve
from tools.chromium import FLAGS, NO_HOST
from tools.pages import names as toc_files

pytestmark = pytest.mark.slow

ITS_OWN = re.compile(
    r"(update\.googleapis|clients\d\.google|accounts\.google)\.com"
)  # Chromium's, with or without a page
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


class Recorder(http.server.SimpleHTTPRequestHandler):
    """Serves the book, axe, and a page that shows another page as a telephone does; notes what wasn't found."""

    missing: list[str] = []
    found: queue.Queue[dict] = queue.Queue()
    OURS = {
        "/probe": ("text/html", HERE / "probe.html"),
        "/axe.js": ("text/javascript", HERE / "vendor" / "axe.min.js"),
    }

    def do_GET(self) -> None:
        if (path := urlsplit(self.path).path) not in self.OURS:
            return super().do_GET()
        kind, file = self.OURS[path]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        return self.wfile.write(file.read_bytes())

    def do_POST(self) -> None:
        self.found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def send_error(self, code, message=None, explain=None) -> None:
        self.missing.append(self.path)
        super().send_error(code, message, explain)

    def log_message(self, *_) -> None:
        pass


@pytest.fixture(scope="module")
def address(html):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Recorder, directory=str(html)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def options(folder: Path) -> list[str]:
    """Return how a browser is started that reaches no other host and writes down whom it asked for."""
    return [*FLAGS, f"{NO_HOST}, EXCLUDE 127.0.0.1", f"--user-data-dir={folder}/profile", f"--log-net-log={folder}/net"]


def hosts(folder: Path) -> set[str]:
    """Return the hosts that the browser asked for, without those that it asks for with or without a page."""
    urls = re.findall(r'"url":"(https?://[^"]+)"', (folder / "net").read_text(encoding="utf-8", errors="replace"))
    return {host for host in {urlsplit(found).netloc for found in urls} if not ITS_OWN.fullmatch(host)}


def lines(console: str) -> str:
    return "\n".join(line for line in console.splitlines() if "CONSOLE" in line)


def probe(address: str, page: str, folder: Path) -> tuple[dict, str]:
    """Show a page as a telephone does; return what the probe found in it, and the console."""
    errors = folder / "errors"
    contrast = "#contrast" if page in one_of_each() or os.environ.get("TRANSFORMER_LIB_THOROUGH") == "1" else ""
    with errors.open("w") as file:
        command = [CHROMIUM, *options(folder), "--remote-debugging-port=0", f"{address}/probe?/{page}.html{contrast}"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)
        try:
            return Recorder.found.get(timeout=150), lines(errors.read_text(encoding="utf-8", errors="replace"))
        finally:
            browser.terminate()
            browser.wait(timeout=30)


@needs_chromium
@pytest.mark.parametrize("page", toc_files())
def test_a_page_is_whole_on_a_telephone_without_a_network_and_readable_by_all(page, address, html, tmp_path):
    Recorder.missing.clear()
    found, console = probe(address, page, tmp_path)
    assert hosts(tmp_path) == {urlsplit(address).netloc}
    assert [path for path in Recorder.missing if "favicon" not in path] == []
    assert "Uncaught" not in console and "Failed to load" not in console, console
    assert found["formulas"] >= formulas(html / f"{page}.html") and found["errors"] == 0
    assert found["room"] <= 360 and found["width"] <= found["room"]
    assert found["headings"] == 1  # of the first rank
    assert found["light"] == [] and found["dark"] == []  # what axe calls serious or critical; of contrast on some pages


def formulas(page: Path) -> int:
    return len(re.findall(r'class="math[ "]', page.read_text(encoding="utf-8")))


@needs_chromium
def test_the_book_works_from_a_folder_without_a_server(html, tmp_path):
    page = html / "book" / "notation.html"
    command = [CHROMIUM, *options(tmp_path), "--virtual-time-budget=15000", "--dump-dom", page.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert hosts(tmp_path) == set() and "Uncaught" not in lines(run.stderr)
    assert run.stdout.count("<mjx-container") >= formulas(page) > 10
    assert "data-mjx-error" not in run.stdout and "<merror" not in run.stdout


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
