"""What the commands on inputs and on phases print."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.pages.formats import between, number, significant
from flows.pages.terminal.blocks import Block, Column, Exact, Facts, Grid, text

Row = Mapping[str, Any]

_FOLDS = {"batch": "whole batches held out", "time": "blocks of time held out", "random": "random runs held out"}


def _inputs(row: Row) -> str:
    values = {name: "unknown" if value is None else significant(value, 12) for name, value in row["inputs"].items()}
    return " ".join(f"{name}={value}" for name, value in values.items())


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.3g}%"


def _event(event: int | None) -> str:
    return "start" if event is None else str(event)


INPUTS = text("inputs", _inputs, limit=300)
ANSWERS = (
    INPUTS,
    text("status"),
    Column("median, s", "median_s"),
    Column("80% from", "low80_s"),
    Column("to", "high80_s"),
    Column("95% from", "low95_s"),
    Column("to", "high95_s"),
    Column("error, %", "error_pct"),
)
PHASES = (
    Column("phase", "phase_id"),
    Column("occurrences", "n_occurrences"),
    Column("ticks"),
    Column("events", lambda row: int(row["events"]) if row["events"].is_integer() else row["events"]),
    Column("time, s", "time_s"),
    Column("share", form=_percent),
    Column("measured", lambda row: "yes" if row["is_relevant"] else ""),
)
PLAN = (
    Column("phase", "phase_id"),
    Column("occurrence"),
    Column("rank"),
    Column("from_event", form=_event),
    Column("to_event", form=_event),
    Column("use", lambda row: "warm-up" if row["is_warmup"] else "timed"),
)
TIMES = (
    Column("phase", 0),
    Column("timed", 1),
    Column("time, s", 2),
    Column("reference, s", 3),
    Column("ratio", lambda row: row[2] / row[3] if row[3] else None),
)


def view_model(found: Row) -> Iterator[Block]:
    """What was learnt, its error, and where it was written."""
    derived = ", ".join(one["formula"] for one in found["derived"])
    inputs = ", ".join(f"{one['name']} ({one['type']})" for one in found["inputs"])
    facts = {"method": found["method"], "runs": found["error"]["n_runs"], "inputs": inputs}
    facts |= {"derived inputs": derived} if derived else {}
    yield Facts(
        f"Model of {found['target']}", facts | {f"set aside: {name}": n for name, n in found["set_aside"].items()}
    )
    yield error_sentence(found["error"])
    yield from found["notes"]
    yield from (Exact(f"Wrote {path}") for path in found["files"])


def error_sentence(error: Row) -> str:
    """What errors to expect of new runs, in one sentence."""
    how = _FOLDS[error["folds_by"]]
    return (
        f"Mean error {error['mean_pct']:.3g}% (median {error['median_pct']:.3g}%, folds differ by "
        f"{error['fold_sd_pct']:.2g}) with {how}; 80% intervals held {error['share_in_80']:.1%} of the runs, 95% "
        f"intervals {error['share_in_95']:.1%}."
    )


def view_answers(rows: Sequence[Row]) -> Iterator[Block]:
    """A line for each point, then the reasons of those that are not ok."""
    yield Grid("Predicted runtimes", ANSWERS, rows)
    yield from (f"{_inputs(row)}: {row['status']}, {row['reason']}." for row in rows if row["reason"])


def view_suggestions(found: Row) -> Iterator[Block]:
    """The runs to make, best first, with what they cost and what they bring."""
    rows = found["runs"]
    if not found["n_candidates"]:
        yield (
            "Every combination of the values that the inputs had has run, so that there is none to suggest. New values "
            "may be candidates: list them in a file for --candidates."
        )
    elif not rows:
        yield f"No candidate of {found['n_candidates']:,} can be answered and paid."
    else:
        columns = (
            INPUTS,
            Column("run", "order"),
            Column("median, s", "median_s"),
            Column(f"cost, {found['unit']}", "cost"),
            Column("total", "total_cost"),
            Column("error before, %", "error_before_pct"),
            Column("after, %", "error_after_pct"),
        )
        yield Grid(f"Next runs of {found['n_candidates']:,} candidates, best first", columns, rows)
        if rows[0]["error_before_pct"] is not None:
            yield (
                "The errors are those expected on average over all candidates, before and after each run. On runs held "
                f"out the model's error was {found['error_pct']:.3g}%."
            )


def view_phases(facts: Row, rows: Sequence[Row], notes: Sequence[str]) -> Iterator[Block]:
    """The phases with their weights and shares, largest first."""
    yield Grid(f"Phases of {facts['trace_id']}: {_status(facts)}", PHASES, sorted(rows, key=lambda row: -row["share"]))
    counted = {"unmatched": "unmatched messages", "open_receives": "receives that no call completes"}
    yield from (f"{number(facts[name])} {what}" for name, what in counted.items() if name in facts)
    yield f"{_percent(facts['coverage'])} of the time is in phases to measure"
    kept = {name.rpartition("_")[2]: fact for name, fact in facts.items() if name.startswith("accuracy_with_")}
    if kept:
        accuracies = ", ".join(map(_percent, kept.values()))
        yield f"Accuracy with the {', '.join(kept)} heaviest phases alone: {accuracies}"
    yield from notes


def view_plan(facts: Row, rows: Sequence[Row], notes: Sequence[str]) -> Iterator[Block]:
    """The plan: from which call to which, per rank."""
    yield Grid(f"Plan for {facts['trace_id']}: {_status(facts)}", PLAN, rows)
    yield (
        f"{number(facts['timed'])} occurrences timed after {number(facts['warmups'])} of warm-up: "
        f"{_percent(facts['set_share'])} of the run"
    )
    if facts["standard_error"] is not None:
        yield f"Standard error of the reference run's own time: {_percent(facts['standard_error'])}"
    yield from notes


def view_times(facts: Row, rows: Sequence[Row], notes: Sequence[str]) -> Iterator[Block]:
    """How the timed occurrences of each phase compare with the reference."""
    sums: dict[int, tuple[int, float, float]] = {}
    for row in rows:
        if not row["is_warmup"] and not row["is_control"]:
            n, time_s, here_s = sums.get(row["phase_id"], (0, 0.0, 0.0))
            sums[row["phase_id"]] = n + 1, time_s + row["time_s"], here_s + (row["reference_s"] or 0.0)
    cells = [(phase, *one) for phase, one in sorted(sums.items())]
    yield Grid(f"Times on {facts['platform']} of {facts['trace_id']}", TIMES, cells)
    yield f"Time spent measuring: {number(facts['set_s'])} s, with {number(facts['warmups'])} warm-ups"
    yield from notes


_SAMPLES = {"phases": "a sample of each phase", "even": "an evenly spaced sample of the whole run"}


def view_prediction(facts: Row, notes: Sequence[str] = ()) -> Iterator[Block]:
    """The runtime beside its status, intervals, cost and controls; what is unknown is left out."""
    shown = {
        "runtime, s": facts["runtime_s"],
        "from": _SAMPLES[facts["method"]],
        "80% interval, s": _interval(facts, "80"),
        "95% interval, s": _interval(facts, "95"),
        "time covered by measured phases": _percent(facts["coverage"]),
        "time spent measuring (SET), s": facts["set_s"],
        "SET by runtime": _percent(facts["set_share"]),
        "evenly spaced sample, s": facts["control_s"],
        "control: one factor, s": facts["control_factor_s"],
        "true runtime, s": facts["measured_s"],
        "error": _percent(facts["error"]),
    }
    title = f"{facts['trace_id']} on {facts['platform']}: {_status(facts)}"
    yield Facts(title, {name: value for name, value in shown.items() if number(value)})
    yield from notes


def _interval(facts: Row, share: str) -> str:
    low, high = facts[f"runtime_s_lo{share}"], facts[f"runtime_s_hi{share}"]
    return "" if low is None else between(low, high)


def _status(facts: Row) -> str:
    return "not repetitive, run it whole" if facts["status"] == "not_repetitive" else "repetitive"
