"""A page from blocks: every kind is shown, and no text of a log becomes a tag, an attribute or an address."""

import pytest

from flows.pages.blocks import (
    Block,
    Column,
    Detail,
    Exact,
    Facts,
    Figure,
    Figures,
    Grid,
    Heading,
    Lead,
    Links,
    Verbatim,
    any_value,
    text,
)
from flows.pages.charts import Axis, Bars, Chart, Dots, Key, Line, Panel
from flows.pages.page import page_of

HOSTILE = "<script>a\x1b[31m\u202e\"'</script>"
GRID = Grid(HOSTILE, (text(HOSTILE, 0), Column("n", 1)), [(HOSTILE, 1)], below=lambda _: HOSTILE, colours=["best"])

MARKS = (
    Line([1, 2], [1, 2], title=HOSTILE),
    Bars(0, 1, 0, [1, 2]),
    Dots([1], [2], titles=[HOSTILE]),
    Dots([1], [2], titles=[HOSTILE], is_cross=True),
)
PANEL = Panel(MARKS, Axis(HOSTILE, names={1: HOSTILE}), Axis(HOSTILE))
DRAWN = Chart(HOSTILE, [PANEL], HOSTILE, [Key(HOSTILE, "kept")], HOSTILE)

BLOCKS: tuple[Block, ...] = (
    HOSTILE,
    Exact(HOSTILE),
    Lead(HOSTILE, HOSTILE),
    Heading(HOSTILE),
    Facts(HOSTILE, {HOSTILE: HOSTILE}),
    GRID,
    DRAWN,
    Verbatim(HOSTILE),
    Links(HOSTILE, {HOSTILE: "a"}),
    Figures([Figure(HOSTILE, HOSTILE, HOSTILE, DRAWN)]),
    Detail([HOSTILE], HOSTILE),
    Detail([GRID]),
)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_hostile_text_is_text_in_a_block_of_any_kind(block: Block) -> None:
    page = page_of("kind", HOSTILE, [block], [HOSTILE], HOSTILE)
    body = page.partition("</header>")[2].partition("<footer>")[0]
    assert "<script" not in page and "&lt;script&gt;a" in body
    assert isinstance(block, Verbatim) or ("\x1b" not in page and "\u202e" not in page and "\\x1b[31m" in body)


def test_a_table_says_how_many_rows_it_leaves_out_and_marks_its_first_rows() -> None:
    rows = [{"n": n, "name": f"row {n}", "link": "a.html" if n == 0 else None, "none": None} for n in range(5)]
    columns = (text("name", link="link"), Column("n", is_detail=True), Column("none"))
    page = page_of("k", "t", [Grid("", columns, rows, n_bold=1, n_all=9, most=3, source="walltime show rows --csv")])
    assert page.count("<tr") == 1 + 3 and page.count('<tr class="total ') == 1 and "none</th>" not in page
    assert '<a href="a.html">row 0</a>' in page and "row 1</td>" in page
    assert "6 more: <code>walltime show rows --csv</code> has all." in page


def test_what_stands_between_backticks_is_code_and_a_chart_without_a_drawing_is_left_out() -> None:
    page = page_of("k", "t", ["Use `walltime show` here.", Chart("a", (), "said below it")])
    assert "Use <code>walltime show</code> here." in page and "said below it" not in page
    assert "<script" in page_of("k", "t", [], has_script=True)


def test_large_numbers_of_any_column_have_no_exponent() -> None:
    shown = [any_value(value) for value in (13_344_300.0, 2_097_152.0, 0.25, 1234.5678, None, [1, 2])]
    assert shown == ["13344300", "2097152", "0.25", "1234.57", "", "2 values"]
