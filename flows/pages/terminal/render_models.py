"""What the commands on inputs and on phases print."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.pages.terminal.render import console, grid, number, pairs, say

_FOLDS = {"batch": "whole batches held out", "time": "blocks of time held out", "random": "random runs held out"}


def print_model(found: Mapping[str, Any]) -> None:
    """Print what was learnt, its error, and where it was written."""
    out, error = console(), found["error"]
    inputs = ", ".join(f"{one['name']} ({one['type']})" for one in found["inputs"])
    derived = ", ".join(one["formula"] for one in found["derived"])
    facts = {"method": found["method"], "runs": error["n_runs"], "inputs": say(inputs, 500)}
    facts |= {"derived inputs": say(derived, 500)} if derived else {}
    facts |= {f"set aside: {name}": n for name, n in found["set_aside"].items()}
    out.print(pairs(f"Model of {say(found['target'], 60)}", facts))
    out.print(error_sentence(error), soft_wrap=True)
    for path in found["files"]:
        out.print(f"Wrote {say(path, 1000)}", soft_wrap=True)


def error_sentence(error: Mapping[str, Any]) -> str:
    """What errors to expect of new runs, in one sentence."""
    how = _FOLDS[error["folds_by"]]
    return (
        f"Mean error {error['mean_pct']:.3g}% (median {error['median_pct']:.3g}%, folds differ by "
        f"{error['fold_sd_pct']:.2g}) with {how}; 80% intervals held {error['share_in_80']:.1%} of the runs, 95% "
        f"intervals {error['share_in_95']:.1%}."
    )


def print_answers(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a line for each point, then the reasons of those that are not ok."""
    header = ("inputs", "status", "median, s", "80% from", "to", "95% from", "to", "error, %")
    names = ("median_s", "low80_s", "high80_s", "low95_s", "high95_s", "error_pct")
    cells = [(_inputs(row), say(row["status"]), *(number(row[name]) for name in names)) for row in rows]
    out = console()
    out.print(grid("Predicted runtimes", header, cells, texts=2))
    for row in rows:
        if row["reason"]:
            out.print(f"{_inputs(row)}: {say(row['status'])}, {say(row['reason'], 500)}.", soft_wrap=True)


def print_suggestions(found: Mapping[str, Any]) -> None:
    """Print the runs to make, best first, with what they cost and what they bring."""
    out, unit, rows = console(), say(found["unit"]), found["runs"]
    if not found["n_candidates"]:
        out.print(
            "Every combination of the values that the inputs had has run, so that there is none to suggest. New values "
            "may be candidates: list them in a file for --candidates.",
            soft_wrap=True,
        )
        return
    if not rows:
        out.print(f"No candidate of {found['n_candidates']:,} can be answered and paid.")
        return
    header = ("inputs", "run", "median, s", f"cost, {unit}", "total", "error before, %", "after, %")
    names = ("order", "median_s", "cost", "total_cost", "error_before_pct", "error_after_pct")
    cells = [(_inputs(row), *(number(row[name]) for name in names)) for row in rows]
    out.print(grid(f"Next runs of {found['n_candidates']:,} candidates, best first", header, cells))
    if rows[0]["error_before_pct"] is not None:
        out.print(
            "The errors are those expected on average over all candidates, before and after each run. On runs held out "
            f"the model's error was {found['error_pct']:.3g}%.",
            soft_wrap=True,
        )


def _inputs(row: Mapping[str, Any]) -> str:
    return say(" ".join(f"{name}={_value(value)}" for name, value in row["inputs"].items()), 300)


def _value(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else "unknown" if value is None else str(value)


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
