"""The browser that tests open pages in."""

import pytest

from tools import chromium

CHROMIUM = chromium.program()
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
FLAGS = [*chromium.FLAGS, "--dump-dom"]
NO_HOST = chromium.NO_HOST
