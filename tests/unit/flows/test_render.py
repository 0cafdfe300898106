"""What reaches a terminal: numbers a person reads, text that can neither colour nor steer it."""

import io
import json
import math

import pytest
from rich.console import Console

from flows.pages.terminal.json_out import print_json
from flows.pages.terminal.render import grid, number, pairs, report_table, say
from pipeline.report import Report, Tally

HOSTILE = "[bold red]x[/bold red] \x1b[31m\x07 \u202e [link=file:///etc]a[/link]"


def printed(what: object) -> str:
    sink = io.StringIO()
    Console(file=sink, force_terminal=True, width=200, highlight=False).print(what)
    return sink.getvalue()


def test_hostile_text_is_spelt_out() -> None:
    for what in (say(HOSTILE), grid("t", ("a",), [(say(HOSTILE),)]), pairs("", {HOSTILE: HOSTILE})):
        text = printed(what)
        assert "\x1b[31m" not in text and "\x07" not in text and "\u202e" not in text
        assert "[bold red]x[/bold red]" in text and "\\x1b[31m" in text


def printed_at(what: object, width: int) -> str:
    sink = io.StringIO()
    Console(file=sink, width=width, highlight=False).print(what)
    return sink.getvalue()


def test_a_title_longer_than_the_terminal_is_wrapped_not_cut() -> None:
    title = " ".join(f"word{n}" for n in range(40))
    shown = printed_at(grid(title, ("a",), [("b",)]), 60)
    assert all(word in shown for word in title.split()) and max(map(len, shown.splitlines())) <= 60


def test_numbers_stay_whole_where_the_terminal_has_room_for_them_and_are_never_cut() -> None:
    header = ("a name of its own", *(f"a long name of number {n}" for n in range(6)))
    row = ("text that is rather long", *("1,234,567" for _ in range(6)))
    shown = printed_at(grid("", header, [row]), 90)
    assert shown.count("1,234,567") == 6 and max(map(len, shown.splitlines())) <= 90
    names, cells = 6, 6 * len("1234567")
    for width in range(30, 100):
        narrow = printed_at(grid("", header, [row]), width)
        assert "…" not in narrow and sum(sign.isdigit() for sign in narrow) == names + cells, width


def test_hostile_reasons_in_a_report() -> None:
    report = Report("clean", "job", Tally(1), Tally(0), {HOSTILE: Tally(1)})
    assert "[bold red]x" in printed(report_table(report))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (1_234_567, "1,234,567"), (0.0, "0"), (0.12345, "0.1235"), (12.345, "12.35"), (987_654.3, "987,654"),
     (math.inf, "inf"), (math.nan, ""), (-3.5, "-3.500"), (True, "True"), ("[b]", "\\[b]")],
)  # fmt: skip
def test_numbers_for_a_person(value: object, text: str) -> None:
    assert number(value) == text


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": math.nan, "b": (1, math.inf), "c": None})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1, None], "c": None}


def test_patterns_of_a_run_are_shown_as_advice_and_never_as_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from flows.pages.terminal.render import console
    from flows.pages.terminal.render_run import _patterns

    words = "Beyond 16 processors it runs longer, not shorter: ask for no more."
    found = [{"label": f"user u\x1b[31m{row}", "words": words} for row in range(7)]
    console().print(_patterns(found))
    shown = capsys.readouterr().out
    assert "the surest 5 of 7" in shown
    assert "ask for no more" in " ".join(shown.split())
    assert "\x1b[31m" not in shown
