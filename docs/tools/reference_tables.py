"""The pages on columns, flags, laws, methods and library functions, from their registries."""

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from docs.tools.markdown_table import page
from flows.services.published.browse import described_tables
from pipeline.evaluate.methods import ESTIMATORS
from pipeline.laws import AVERAGED, LAWS, Law, Parameter
from pipeline.run import PUBLISHED
from pipeline.schedule.engine import Policy
from pipeline.schedule.what_if import Estimates
from pipeline.schema import Flag

FUNCTIONS = (
    "walltime.jobs.read",
    "walltime.jobs.clean",
    "walltime.models.observe",
    "walltime.models.fit",
    "walltime.models.predict",
    "walltime.jobs.JobEstimator",
    "walltime.models.ScalingModel",
    "walltime.jobs.estimate",
    "walltime.jobs.when",
    "walltime.jobs.backtest",
    "walltime.jobs.replay",
    "walltime.models.learn",
    "walltime.models.ask",
    "walltime.models.suggest",
    "pipeline.ingest.ingest",
    "pipeline.clean.clean",
    "pipeline.group.assign_groups",
    "pipeline.group.choose_template",
    "pipeline.group.observe",
    "pipeline.scaling.fit.fit",
    "pipeline.scaling.screens.screen",
    "pipeline.scaling.screens.find_patterns",
    "pipeline.scaling.group_runs.predict",
    "pipeline.scaling.advice.scalability",
    "pipeline.estimate.stage.learn_state",
    "pipeline.estimate.state.estimate",
    "pipeline.evaluate.backtest",
    "pipeline.evaluate.evaluate_scaling",
    "pipeline.publish.load_manifest",
    "pipeline.storage.read_table",
)
"""Functions of the library that the site of the documents shows."""


def columns() -> str:
    """Every table with its columns; a column that several tables have alike is explained once, before them."""
    intro = (
        "The tables that a run publishes. `walltime show TABLE --columns` prints the columns of these and all others "
        "in their order, with types. Units are in parentheses unless the name ends with them; `s UTC` are seconds "
        "since 1970-01-01 UTC. Null is unknown."
    )
    tables = {name: one for name, one in described_tables(None).items() if name in PUBLISHED}
    uses = Counter(_column(one) for described in tables.values() for one in described["columns"])
    shared = [row for row, count in uses.items() if count > 1]
    parts = [part for name, one in tables.items() for part in _table(name, one, set(shared))]
    return page("Columns", intro, "## Columns of several tables", _listed(sorted(shared)), *parts)


def _column(one: dict[str, Any]) -> tuple[str, str, str]:
    return one["name"], one["unit"] or "", one["meaning"]


def _table(name: str, described: dict[str, Any], shared: set[tuple[str, str, str]]) -> list[str]:
    """A table's heading, meaning, the columns that only it has, and the names of the others."""
    columns = described["columns"]
    own = [_column(one) for one in columns if _column(one) not in shared]
    also = ", ".join(one["name"] for one in columns if _column(one) in shared)
    keys = ", ".join(f"`{one['name']}`" for one in columns if one["is_key"])
    return [f"## {name}", described["meaning"], *([f"Key: {keys}."] if keys else []),
            *([_listed(own)] if own else []), *([f"Also {also}."] if also else [])]  # fmt: skip


def _listed(rows: Iterable[tuple[str, str, str]]) -> str:
    """A line for each column: its name, its unit, its meaning; columns that differ in a number are one line."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, unit, told in rows:
        number = re.search(r"\d+", name)
        same = number is not None and f"{number[0]}%" in told
        line = told.replace(f"{number[0]}%", "N%") if number and same else told
        known = (name.replace(number[0], "N", 1) if number and same else name, unit, line)
        alike.setdefault(known, []).append(number[0] if number else "")
    return "\n".join(_line(*known, numbers) for known, numbers in alike.items())


def _line(name: str, unit: str, told: str, numbers: list[str]) -> str:
    shown = "" if name.endswith(f"_{unit}") else unit.replace("s since 1970-01-01 UTC", "s UTC")
    if len(numbers) == 1:
        name, told = name.replace("N", numbers[0]), told.replace("N%", f"{numbers[0]}%")
    else:
        shown = "; ".join(filter(None, (shown, f"N: {', '.join(numbers)}")))
    return f"- `{name}`{f' ({shown})' if shown else ''}: {told}"


def flags() -> str:
    """Every flag with its meaning, in order of precedence."""
    intro = (
        "A flag says why a job is set aside. Where several apply, a job gets the first of this list. "
        "[Cleaning](../explanations/cleaning.md) explains the rules; `clean.flags_off` turns a flag off."
    )
    return page("Flags", intro, "\n".join(f"- `{one.value}`: {one.meaning}" for one in Flag))


def laws() -> str:
    """The table of laws."""
    intro = (
        "A law is one declaration in `pipeline/laws.py`. `laws` under `[scaling]` may name any law of this "
        "table that is fitted: exactly, or with a search of one parameter. "
        "[Laws and fits](../explanations/laws-and-fits.md) has the formulas of Downey's pieces."
    )
    return page("Laws", intro, laws_table())


def methods() -> str:
    """Every estimator, and the policies and estimates of a replay."""
    intro = "These methods estimate a job at its submit. `walltime backtest --methods A,B` scores some of them."
    listed = "\n".join(f"- `{name}`: {_meaning(one)}" for name, one in ESTIMATORS.items())
    policies = ", ".join(f"`{one.name.lower().replace('_', '-')}`" for one in Policy)
    estimates = ", ".join(f"`{one}`" for one in Estimates)
    replay = f"`walltime replay --policy` takes {policies}; `--estimates` takes {estimates}, and `soft`."
    source = "[Estimators](../explanations/estimators.md) and [replay](../explanations/replay.md) explain them."
    return page("Methods", intro, listed, "## Replays", replay, source)


def _meaning(function: Callable[..., Any]) -> str:
    """The first paragraph of the docstring."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def functions() -> str:
    """The page on which mkdocstrings shows the functions of the library."""
    intro = (
        "`make docs` fills this page from the functions' docstrings. In Python `help(wt.fit)` prints the same of one "
        "function. The first fourteen are those of `import walltime as wt`, on data frames of pandas, polars or Arrow. "
        "The others take tables and settings, and most return a table and a Report."
    )
    return page("Library", intro, *[f"::: {name}" for name in FUNCTIONS])


_LAWS_HEAD = """| law | T(n) | parameters beside T(1) | fit | prior weight in the average | source |
| --- | --- | --- | --- | --- | --- |"""

_SYMBOLS = {
    "avg_parallelism": "A",
    "serial_fraction": "f",
    "overhead_s": "c (s)",
    "linear_overhead_s": "c2 (s)",
    "exponent": "b",
    "growing_share": "c",
    "power": "p",
}


def laws_table() -> str:
    """A Markdown table of every law, a row each: as its file declares it."""
    return "\n".join([_LAWS_HEAD, *[_law_row(law) for law in {**LAWS, **AVERAGED}.values()]])


def _law_row(law: Law) -> str:
    bounds = ", ".join(_bounds(one) for one in law.parameters) or "none"
    is_searched = any(form.shape is not None for form in law.forms)
    fitted = "no" if law.fitted == "no" else "search" if is_searched else "exact"
    weight = f"{law.prior_weight:g}" if law.prior_weight else ""
    return f"| {law.name} | {law.equation} | {bounds} | {fitted} | {weight} | {law.source} |"


def _bounds(one: Parameter) -> str:
    symbol = _SYMBOLS.get(one.name, one.name)
    return f"{symbol} >= {one.low:g}" if math.isinf(one.high) else f"{symbol} in [{one.low:g}, {one.high:g}]"
