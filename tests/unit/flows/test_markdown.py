"""Text from logs in Markdown: it breaks no table, forges no link, and steers no terminal."""

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from flows.pages.markdown import changed_rows, escape, table, version_markdown
from pipeline.publish import Manifest
from pipeline.publish.manifest import TableEntry
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


def test_a_version_shows_its_accuracy_its_jobs_and_its_checks(tmp_path: Path) -> None:
    reports = (
        Report("learn", "job", Tally(9), Tally(9), {}, {"coverage_80": 0.8125}),
        Report("clean", "job", Tally(1_234, 7_200.0), Tally(1_000, 3_600.0), {HOSTILE: Tally(234, 3_600.0)}),
        Report("checks", "check", Tally(1), Tally(0), {"failed": Tally(1)}, {"age": "failed"}, (HOSTILE,)),
    )
    plain = tuple(report.as_dict() for report in reports)
    entry = TableEntry("versions/v/jobs.parquet", 7, 1, "", (), ())
    manifest = Manifest(
        run_id="r", folder="v", created_s=0, data_newest_end_s=None, site=HOSTILE, code="c", settings={}, logs=(),
        tables={"jobs": entry}, reports=plain, root=tmp_path,
    )  # fmt: skip
    html = shown(version_markdown(manifest, "https://example.org/site.html"))
    assert "81.2%" in html and "80%" in html and "1,234" in html and "2.0" in html and "failed" in html
    assert 'href="https://example.org/site.html"' in html and html.count("<a ") == 1 and "<script" not in html
    assert html.count("<a ") - shown(version_markdown(manifest, "javascript:(1) x")).count("<a ") == 1
    assert changed_rows(manifest, None) == [{"table": "jobs", "rows": 7, "before": None, "change": None}]
    assert changed_rows(manifest, manifest)[0]["change"] == 0


def test_long_text_is_cut() -> None:
    assert "…" in escape("b" * 10_000)
