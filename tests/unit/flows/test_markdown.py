"""Text from logs in Markdown: it breaks no table, forges no link, and steers no terminal."""

import pytest
from markdown_it import MarkdownIt

from flows.pages.markdown import escape, facts_markdown, report_markdown, table
from pipeline.report import Report, Tally

HOSTILE = "| [link](http://x) <script> & `code` **bold** \\| ![i](j) \x1b[31m\n# head \u202eevil"


def shown(markdown: str) -> str:
    return MarkdownIt("gfm-like", {"linkify": False}).render(markdown)


@pytest.mark.parametrize("character", ["\x1b", "\n", "\r", "\u202e", "\x00", "\u2028"])
def test_control_characters_are_spelt_out(character: str) -> None:
    assert character not in escape(f"a{character}b")


def test_hostile_text_is_shown_as_it_stands() -> None:
    html = shown(escape(HOSTILE))
    for tag in ("<script", "<a ", "<img", "<strong", "<code", "<h1", "<table"):
        assert tag not in html
    assert "[link](http://x)" in html


def test_hostile_text_stays_in_its_cell() -> None:
    html = shown(table(("reason", "jobs"), [(HOSTILE, 3), ("plain", 4)]))
    assert html.count("<tr>") == 3
    assert html.count("<td") == 4


def test_a_report_keeps_its_numbers_and_escapes_its_text() -> None:
    seen = Tally(1_234, 7_200.0)
    text = report_markdown(
        Report("clean", "job", seen, Tally(1_000, 3_600.0), {HOSTILE: Tally(234, 3_600.0)}, {"a": None}, (HOSTILE,))
    )
    html = shown(text)
    assert "1,234" in html and "2.0" in html and "unknown" in html
    assert "<script" not in html and "<a " not in html and html.count("<h1>") == 1


def test_long_text_is_cut() -> None:
    assert len(escape("a" * 10_000)) < 210
    assert "…" in facts_markdown("t", {"a": "b" * 10_000})
