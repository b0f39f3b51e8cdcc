"""A Chromium without a window, alone on this computer: for the tests' pages, the pictures and the PDF."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    *("--disable-dev-shm-usage", "--enable-logging=stderr"),
    "--disable-features=AutofillServerCommunication,OptimizationHints",  # it would ask about forms and hosts
)
NO_HOST = "--host-resolver-rules=MAP * ~NOTFOUND"


def program() -> str | None:
    """Return the path of the first Chromium found here, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)
