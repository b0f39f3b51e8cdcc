"""The index of terms: up to date, and each term is found where the chapters use it."""

from pathlib import Path

from tools import cells, pages, terms

NOTATION = (
    "| Term | Symbol | 中文 | Shape |\n|---|---|---|---|\n| memory | | 编码器输出 | $m$ |\n| query | $Q$ | 查询 | |\n"
)
PROSE = "More words: beam search 束搜索, greedy\ndecoding 贪心解码. Without its sign it's the distance 距离.\n"


def test_the_page_is_up_to_date():
    assert terms.main([]) == 0


def test_terms_come_from_the_table_and_from_the_prose_in_order():
    found = terms.terms(NOTATION + PROSE)
    assert [term.english for term in found] == ["beam search", "distance", "greedy decoding", "memory", "query"]
    assert [(term.zh, term.symbol) for term in found[3:]] == [("编码器输出", ""), ("查询", "$Q$")]


def test_a_term_is_found_as_a_word_of_its_own_in_chapters_first():
    notebooks = {
        Path("notebooks/02_a.ipynb"): "Two queries. No, one query.",
        Path("notebooks/03_b.ipynb"): "Inquery and querying are other words.",
        Path("notebooks/clinic_1_c.ipynb"): "A query, a\nbeam search.",
    }
    assert [cells.chapter(path) for path in terms.uses("query", notebooks)] == [2]
    assert [pages.label(path) for path in terms.uses("beam search", notebooks)] == ["clinic 1"]
    assert "[clinic 1](../notebooks/clinic_1_c.ipynb)" in terms.page(PROSE, notebooks)


def test_a_stale_page_is_found(tmp_path):
    cells.write_text(tmp_path / terms.DATA, NOTATION)
    cells.write_text(tmp_path / "_toc.yml", "root: book/start\nparts: []\n")
    assert terms.main([], tmp_path) == 1
    assert terms.main(["--write"], tmp_path) == 0
    made = (tmp_path / terms.PAGE).read_text(encoding="utf-8")
    assert "| query | 查询 | [notation](notation.md) | $Q$ |" in made
