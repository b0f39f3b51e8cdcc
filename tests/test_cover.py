"""The picture on the first page shows what the shipped translator gives."""

import re

from tools import ROOT, cover


def test_the_picture_is_what_the_translator_gives():
    assert cover.main([]) == 0
    rows = re.findall(r"<text[^>]*end.*", (ROOT / cover.PICTURE).read_text(encoding="utf-8"))
    sums = [sum(map(float, re.findall(r'fill-opacity="([\d.]+)"', row))) for row in rows]
    assert len(rows) == 13 and all(abs(total - 1) < 0.06 for total in sums)  # each weight is rounded


def test_another_picture_is_noticed(tmp_path, capsys):
    path = tmp_path / cover.PICTURE
    path.parent.mkdir()
    assert cover.main([], tmp_path) == 1
    path.write_text(cover.picture().replace('"1.00"', '"0.90"', 1), encoding="utf-8")
    assert cover.main([], tmp_path) == 1 and "--write" in capsys.readouterr().err
    assert cover.main(["--write"], tmp_path) == 0 and cover.main([], tmp_path) == 0
