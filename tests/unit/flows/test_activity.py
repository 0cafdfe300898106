"""The line about a long command, and colours: what stands in it, when it comes, and that it goes away."""

import io
import sys

import pytest

from flows.pages import activity as module
from flows.pages.activity import showing_activity, showing_stages
from flows.pages.terminal import console
from flows.services.progress import running_stage
from pipeline.report import Report, Tally, count_done


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 120 columns, whatever stands in the environment of the tests."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")


def test_a_long_command_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    monkeypatch.setattr(module, "REFRESH_S", 0.01)
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with showing_activity("ingest") as activity, running_stage("read"):
        count_done("lines", 30)
        while "30 lines" not in shown.getvalue():
            assert activity._thread.is_alive()
        console()  # an answer follows
        assert shown.getvalue().endswith("\r\x1b[K")
        written = shown.getvalue()
    assert "walltime ingest: 0 s; read; 30 lines" in written and shown.getvalue() == written


@pytest.mark.parametrize("is_terminal", [True, False])
def test_stages_stand_in_the_line_of_a_terminal_and_are_lines_of_a_log(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    monkeypatch.setattr(module, "REFRESH_S", 0.01)
    shown = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with showing_activity("run", has_line=False) as activity, showing_stages(2):
        with running_stage("fit") as stage:
            stage.report = Report("fit", "group", Tally(2), Tally(2))
        with running_stage("predict"):
            while is_terminal and "; 1 of 2 done; predict" not in shown.getvalue():
                assert activity._thread.is_alive()
    if not is_terminal:
        assert [line.split()[0] for line in shown.getvalue().splitlines()] == ["fit", "predict"]
        assert "2 groups seen" in shown.getvalue()


def test_a_short_command_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with showing_activity("ingest"):
        count_done("lines", 30)
    assert shown.getvalue() == ""


@pytest.mark.parametrize(
    ("variables", "has_colour"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)]
)
def test_no_color_leaves_out_colours(
    variables: dict[str, str], has_colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    console().print("[red]a word[/red]")
    assert ("\x1b[31m" in shown.getvalue()) is has_colour
