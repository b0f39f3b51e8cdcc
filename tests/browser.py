"""The browser that tests open pages in: headless, alone, and not talking to its maker."""

import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    *("--disable-dev-shm-usage", "--enable-logging=stderr", "--dump-dom"),
    "--disable-features=AutofillServerCommunication,OptimizationHints",  # it would ask about forms and hosts
]
NO_HOST = "--host-resolver-rules=MAP * ~NOTFOUND"
