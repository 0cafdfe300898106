"""What reaches a terminal: numbers a person reads, text that can neither colour nor steer it."""

import io
import json
import math
import re
from pathlib import Path

import pytest

from flows.pages import blocks
from flows.pages.blocks import (
    Block,
    Column,
    Detail,
    Exact,
    Facts,
    Grid,
    Heading,
    Lead,
    Listing,
    Verbatim,
    number,
    print_json,
    report_grid,
    text,
)
from flows.pages.charts import Chart
from flows.pages.terminal import print_blocks
from pipeline.report import Report, Tally

HOSTILE = "[bold red]x[/bold red] \x1b[31m\x07 \u202e [link=file:///etc]a[/link]"


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, *blocks: Block, columns: int = 200) -> str:
    """What a terminal of this width gets."""
    sink = Terminal()
    monkeypatch.setattr("sys.stdout", sink)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "50"}.items():
        monkeypatch.setenv(name, value)
    print_blocks(blocks)
    return sink.getvalue()


def test_hostile_text_is_spelt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: tuple[Block, ...] = (
        HOSTILE, Exact(HOSTILE), Lead(HOSTILE), Facts("", {HOSTILE: HOSTILE}), Listing("", [{"a": HOSTILE}]),
        Grid(HOSTILE, (text(HOSTILE, 0), Column("b", 0)), [(HOSTILE,)]),
        report_grid(Report("clean", "job", Tally(1), Tally(0), {HOSTILE: Tally(1)})),
    )  # fmt: skip
    for block in shown:
        written = printed(monkeypatch, block)
        assert "\x1b[31m" not in written and "\x07" not in written and "\u202e" not in written
        assert "[bold red]x[/bold red]" in written and "\\x1b[31m" in written


def test_a_line_to_copy_is_not_wrapped_and_a_sentence_is_at_words(monkeypatch: pytest.MonkeyPatch) -> None:
    line = " ".join(f"word{n}" for n in range(20))
    assert printed(monkeypatch, Exact(line), columns=60) == f"{line}\n"
    wrapped = printed(monkeypatch, line, columns=60)
    assert wrapped.split() == line.split() and max(map(len, wrapped.splitlines())) <= 60


def test_a_narrow_terminal_leaves_out_a_column_that_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid("", (text("a", 0), Column("b", 1, least_width=100)), [("x", 1)])
    assert "b" in printed(monkeypatch, grid, columns=100) and "b" not in printed(monkeypatch, grid, columns=99)


def test_rows_that_do_not_fit_are_listed_without_what_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"short": 1, "none": None, "long": "x" * 50}, {"short": 2, "none": None, "long": None}]
    assert "none" not in printed(monkeypatch, Listing("t", rows))
    narrow = printed(monkeypatch, Listing("t", rows), columns=40)
    assert narrow.count("short") == 2 and narrow.count("long") == 1 and "none" not in narrow


def test_a_title_longer_than_the_terminal_is_wrapped_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    title = " ".join(f"word{n}" for n in range(40))
    shown = plainly(printed(monkeypatch, Grid(title, (text("a", 0),), [("b",)]), columns=60))
    assert all(word in shown for word in title.split()) and max(map(len, shown.splitlines())) <= 60
    shown = printed(monkeypatch, Facts(title, {"a": 1}), columns=60)
    assert all(word in shown for word in title.split())


def plainly(text: str) -> str:
    """The text without the codes of bold type."""
    return re.sub(r"\x1b\[\d*m", "", text)


def test_numbers_stay_whole_where_the_terminal_has_room_for_them_and_are_never_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    header = ("a name of its own", *(f"a long name of number {n}" for n in range(6)))
    row = ("text that is rather long", *(1_234_567 for _ in range(6)))
    grid = Grid("", (text(header[0], 0), *(Column(name, place) for place, name in enumerate(header[1:], 1))), [row])
    shown = plainly(printed(monkeypatch, grid, columns=90))
    assert shown.count("1,234,567") == 6 and max(map(len, shown.splitlines())) <= 90
    names, cells = 6, 6 * len("1234567")
    for width in range(30, 100):
        narrow = plainly(printed(monkeypatch, grid, columns=width))
        assert "…" not in narrow and sum(sign.isdigit() for sign in narrow) == names + cells, width


def test_what_only_a_page_shows_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (text("name"), Column("seen"), Column("unseen", is_detail=True))
    grid = Grid("", columns, [{"name": "x", "seen": 1, "unseen": 2}], below=lambda row: f"a sentence on {row['name']}")
    shown = printed(monkeypatch, Heading("Title"), grid, Detail(["hidden"]), Chart("drawn", ()), Verbatim("copied"))
    assert "Title" in shown and "seen" in shown and "x: a sentence on x" in shown
    assert not [word for word in ("unseen", "hidden", "drawn", "copied") if word in shown]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, ""), (1_234_567, "1,234,567"), (0.0, "0"), (0.12345, "0.1235"), (12.345, "12.35"), (987_654.3, "987,654"),
     (math.inf, "inf"), (math.nan, ""), (-3.5, "-3.500"), (True, "True"), ("[b]", "[b]")],
)  # fmt: skip
def test_numbers_for_a_person(value: object, shown: str) -> None:
    assert number(value) == shown


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": math.nan, "b": (1, math.inf), "c": None})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1, None], "c": None}


def test_every_table_of_columns_tsv_is_shown_by_a_command_or_a_page() -> None:
    flows = Path(blocks.__file__).parents[1]
    source = "".join(path.read_text() for path in flows.rglob("*.py"))
    lines = (flows / "pages" / "columns.tsv").read_text().splitlines()[1:]
    tables = {line.split("\t")[0] for line in lines}
    assert [table for table in sorted(tables) if f'"{table}"' not in source] == []
    assert all(blocks.columns(table) for table in tables)
    assert len({tuple(line.split("\t")[:3]) for line in lines}) == len(lines)
