"""What `walltime learn`, `ask` and `suggest` print."""

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
