"""Reports: what adds up passes, what does not is an error."""

import json

import pytest

from pipeline.errors import ConservationError, printable
from pipeline.report import Report, Tally


def test_what_adds_up_passes_and_survives_json() -> None:
    report = Report("clean", "job", Tally(3, 30.0), Tally(1, 10.0), {"x": Tally(2, 20.0)}, {"a": 1}, ("n",)).check()
    assert Report.from_dict(json.loads(json.dumps(report.as_dict()))) == report


@pytest.mark.parametrize("kept", [Tally(2, 10.0), Tally(1, 11.0), Tally(0, 10.0)])
def test_what_does_not_add_up_is_an_error(kept: Tally) -> None:
    with pytest.raises(ConservationError, match="stage clean"):
        Report("clean", "job", Tally(3, 30.0), kept, {"x": Tally(2, 20.0)}).check()


@pytest.mark.parametrize("hostile", ["\x1b[2J", "a\nb", "\u202eevil", "\ud800", "\x00"])
def test_text_is_shown_without_control_characters(hostile: str) -> None:
    shown = printable(hostile)
    assert shown.isprintable() and "\\" in shown


def test_long_text_is_cut() -> None:
    assert printable("x" * 500, 10) == "x" * 10 + "…"
