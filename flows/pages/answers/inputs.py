"""What the commands on inputs answer: a model of runs over their inputs, its predictions, and the runs to make."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.pages.formats import significant
from flows.pages.terminal.blocks import Block, Column, Exact, Facts, Grid, text

Row = Mapping[str, Any]

_FOLDS = {"batch": "whole batches held out", "time": "blocks of time held out", "random": "random runs held out"}


def _inputs(row: Row) -> str:
    values = {name: "unknown" if value is None else significant(value, 12) for name, value in row["inputs"].items()}
    return " ".join(f"{name}={value}" for name, value in values.items())


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
    mean, median, spread = (
        significant(error[f"{name}_pct"], 2 if name == "fold_sd" else 3) for name in ("mean", "median", "fold_sd")
    )
    return (
        f"Mean error {mean}% (median {median}%, folds differ by {spread}) with {how}; 80% intervals held "
        f"{error['share_in_80']:.1%} of the runs, 95% intervals {error['share_in_95']:.1%}."
    )


def view_answers(rows: Sequence[Row]) -> Iterator[Block]:
    """A line for each point, then the reasons of those that are not ok."""
    yield Grid("Predicted runtimes", ANSWERS, rows, below=_reason)


def _reason(row: Row) -> str:
    return f"{row['status']}, {row['reason']}." if row["reason"] else ""


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
                f"out the model's error was {significant(found['error_pct'], 3)}%."
            )
