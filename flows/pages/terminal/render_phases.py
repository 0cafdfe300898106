"""What the commands on phases print."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.pages.terminal.render import console, grid, number, pairs, say

Row = Mapping[str, Any]


def print_phases(facts: Row, rows: Sequence[Row], notes: Sequence[str]) -> None:
    """Print the phases with their weights and shares, largest first."""
    header = ("phase", "occurrences", "ticks", "events", "time, s", "share", "measured")
    cells = [
        [number(row["phase_id"]), number(row["n_occurrences"]), number(row["ticks"]), _mean_count(row["events"]),
         number(row["time_s"]), _percent(row["share"]), "yes" if row["is_relevant"] else ""]
        for row in sorted(rows, key=lambda row: -row["share"])
    ]  # fmt: skip
    title = f"Phases of {say(facts['trace_id'])}: {_status(facts['status'])}"
    console().print(grid(title, header, cells, texts=0))
    counted = {"unmatched": "unmatched messages", "open_receives": "receives that no call completes"}
    for name, what in counted.items():
        if name in facts:
            console().print(f"{number(facts[name])} {what}")
    console().print(f"{_percent(facts['coverage'])} of the time is in phases to measure")
    kept = {name.rpartition("_")[2]: fact for name, fact in facts.items() if name.startswith("accuracy_with_")}
    if kept:
        accuracies = ", ".join(map(_percent, kept.values()))
        console().print(f"Accuracy with the {', '.join(kept)} heaviest phases alone: {accuracies}")
    _say_all(notes)


def print_plan(facts: Row, rows: Sequence[Row], notes: Sequence[str]) -> None:
    """Print the plan: from which call to which, per rank."""
    header = ("phase", "occurrence", "rank", "from_event", "to_event", "use")
    cells = [
        [number(row["phase_id"]), number(row["occurrence"]), number(row["rank"]),
         "start" if row["from_event"] is None else str(row["from_event"]),
         "start" if row["to_event"] is None else str(row["to_event"]), "warm-up" if row["is_warmup"] else "timed"]
        for row in rows
    ]  # fmt: skip
    console().print(grid(f"Plan for {say(facts['trace_id'])}: {_status(facts['status'])}", header, cells, texts=0))
    console().print(
        f"{number(facts['timed'])} occurrences timed after {number(facts['warmups'])} of warm-up: "
        f"{_percent(facts['set_share'])} of the run"
    )
    if facts["standard_error"] is not None:
        console().print(f"Standard error of the reference run's own time: {_percent(facts['standard_error'])}")
    _say_all(notes)


def print_times(facts: Row, rows: Sequence[Row], notes: Sequence[str]) -> None:
    """Print how the timed occurrences of each phase compare with the reference."""
    sums: dict[int, list[float]] = {}
    for row in rows:
        if not row["is_warmup"] and not row["is_control"]:
            one = sums.setdefault(row["phase_id"], [0, 0.0, 0.0])
            one[0], one[1], one[2] = one[0] + 1, one[1] + row["time_s"], one[2] + (row["reference_s"] or 0.0)
    cells = [
        [number(phase), number(int(n)), number(time_s), number(here_s), number(time_s / here_s if here_s else None)]
        for phase, (n, time_s, here_s) in sorted(sums.items())
    ]
    title = f"Times on {say(facts['platform'])} of {say(facts['trace_id'])}"
    console().print(grid(title, ("phase", "timed", "time, s", "reference, s", "ratio"), cells, texts=0))
    console().print(f"Time spent measuring: {number(facts['set_s'])} s, with {number(facts['warmups'])} warm-ups")
    _say_all(notes)


def print_prediction(facts: Row, notes: Sequence[str]) -> None:
    """Print the runtime beside its status, intervals, cost and controls."""
    cells = [
        ["runtime, s", number(facts["runtime_s"])],
        ["80% interval, s", _interval(facts, "80")],
        ["95% interval, s", _interval(facts, "95")],
        ["time covered by measured phases", _percent(facts["coverage"])],
        ["time spent measuring (SET), s", number(facts["set_s"])],
        ["SET by runtime", _percent(facts["set_share"])],
        ["control without phases, s", number(facts["control_s"])],
        ["control: one factor, s", number(facts["control_factor_s"])],
        ["true runtime, s", number(facts["measured_s"])],
        ["error", _percent(facts["error"])],
    ]
    title = f"{say(facts['trace_id'])} on {say(facts['platform'])}: {_status(facts['status'])}"
    console().print(pairs(title, {name: value for name, value in cells if value}))
    _say_all(notes)


def print_platform_answer(found: Row) -> None:
    """Print the predictions that `walltime query --platform` found."""
    for row in found["predictions"]:
        print_prediction(row, ())


def _mean_count(value: float) -> str:
    """A mean of counts: whole where every occurrence has the same."""
    return number(int(value) if value.is_integer() else value)


def _status(status: str) -> str:
    return "not repetitive, run it whole" if status == "not_repetitive" else "repetitive"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.3g}%"


def _interval(facts: Row, share: str) -> str:
    low, high = facts[f"runtime_s_lo{share}"], facts[f"runtime_s_hi{share}"]
    return "" if low is None else f"{number(low)} to {number(high)}"


def _say_all(notes: Sequence[str]) -> None:
    for note in notes:
        console().print(say(note, 1000), soft_wrap=True)
