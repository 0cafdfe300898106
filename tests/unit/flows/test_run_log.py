"""The log of a run as JSON lines: the same keys in every event, and no name where the site anonymises."""

import io
import json
from pathlib import Path

import pytest

from flows.services.progress import StageEvent
from flows.services.run_record import LastRun, RunLog, ending_of
from pipeline.errors import ConfigError, InputError, WalltimeError
from pipeline.publish.store import RunInProgressError
from pipeline.report import Report, Tally

REPORT = Report("clean", "job", Tally(10), Tally(7), {"flurry": Tally(3)}, {}, ("user ada sent a flurry",))


def log(**changed: object) -> RunLog:
    return RunLog(io.StringIO(), is_json=True, clock=lambda: 1_790_824_200.5, **changed)  # type: ignore[arg-type]


def lines(of: RunLog) -> list[dict[str, object]]:
    return [json.loads(line) for line in of.stream.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_every_event_is_one_line_with_the_same_keys(tmp_path: Path) -> None:
    own = log(run=LastRun("a\nb\u2028", ""))
    with own.running(tmp_path):
        own.begin(tmp_path, "r1")
        own.stage(StageEvent("clean", "started"))
        own.stage(StageEvent("clean", "done", 1.25, REPORT))
        own.stage(StageEvent("publish", "reused", 0.5))
        own.warn("a\x1b[31m sentence")
    own.ended(2.0, None)
    found = lines(own)
    assert len({tuple(line) for line in found}) == 1 and len(found) == 6
    assert [(line["event"], line["step"], line["seconds"], line["rows"]) for line in found] == [
        ("run_started", None, None, None), ("step_started", "clean", None, None), ("step_ended", "clean", 1.25, 10),
        ("step_ended", "publish", 0.5, None), ("warning", None, None, None), ("run_ended", None, 2.0, None),
    ]  # fmt: skip
    assert {line["run_id"] for line in found} == {"r1"} and found[0]["time"] == "2026-10-01T03:10:00.500Z"
    assert found[2]["kept"] == 7 and found[3]["state"] == "reused" and found[5]["exit_code"] == 0
    # Notes of reports name users.
    assert "ada" not in own.stream.getvalue()  # type: ignore[attr-defined]


def test_a_text_log_says_only_warnings_and_a_quiet_one_no_progress(tmp_path: Path) -> None:
    own = RunLog(io.StringIO())
    with own.running(tmp_path):
        own.begin(tmp_path, "r1")
        own.warn("look here.")
    own.ended(1.0, InputError("a", "b", "c"))
    assert own.stream.getvalue() == "walltime: look here.\n"  # type: ignore[attr-defined]
    quiet = log(is_quiet=True)
    with quiet.running(tmp_path):
        quiet.begin(tmp_path, "r1")
        quiet.ended(1.0, None)
    assert lines(quiet) == []
    quiet.ended(1.0, InputError("a", "b", "c"))
    assert [line["message"] for line in lines(quiet)] == ["a: found b, expected c."]


@pytest.mark.parametrize("hides", [True, False])
def test_the_user_of_another_run_is_named_only_where_names_are_plain(hides: bool) -> None:
    own, error = log(is_anonymous=hides), RunInProgressError("out", "a run of ada on n1", "one run at a time")
    own.ended(None, error)
    assert ("ada" in own.stream.getvalue()) is not hides  # type: ignore[attr-defined]
    assert lines(own)[-1]["reason"] == "busy" and lines(own)[-1]["exit_code"] == 75


def test_a_fault_is_named_by_its_kind_alone_because_its_text_may_quote_a_log() -> None:
    own = log()
    own.ended(1.0, ValueError("invalid literal: 'ada'"))
    (line,) = lines(own)
    assert (line["message"], line["reason"], line["exit_code"]) == ("ValueError", "fault", 1)


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (None, ("succeeded", "done", 0)), (ConfigError("a", "b", "c"), ("failed", "config", 2)),
        (InputError("a", "b", "c"), ("failed", "input", 2)), (WalltimeError("a"), ("failed", "input", 2)),
        (OSError(28, "full"), ("failed", "system", 2)), (KeyError("a"), ("failed", "fault", 1)),
        (KeyboardInterrupt(), ("stopped", "signal", None)), (SystemExit(143), ("stopped", "signal", None)),
    ],
)  # fmt: skip
def test_every_end_has_a_state_a_reason_and_a_code(error: BaseException | None, ending: tuple[object, ...]) -> None:
    assert ending_of(error) == ending
