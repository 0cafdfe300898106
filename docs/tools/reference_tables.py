"""The pages on columns, flags, laws, methods and library functions, from their registries."""

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from docs.tools.markdown_table import page, table
from flows.services.published.browse import described_tables
from pipeline.evaluate.methods import AT_MIDNIGHT, ESTIMATORS
from pipeline.laws import AVERAGED, LAWS, Law, Parameter
from pipeline.run import PUBLISHED
from pipeline.schedule.engine import Policy
from pipeline.schedule.what_if import Estimates
from pipeline.schema import Flag

FUNCTIONS = (
    "walltime.log_jobs.read",
    "walltime.log_jobs.clean",
    "walltime.scaling_model.observe",
    "walltime.scaling_model.fit",
    "walltime.scaling_model.predict",
    "walltime.job_estimates.JobEstimator",
    "walltime.scaling_model.ScalingModel",
    "walltime.job_estimates.estimate",
    "walltime.job_estimates.when",
    "walltime.job_estimates.backtest",
    "walltime.job_estimates.replay",
    "walltime.input_models.learn",
    "walltime.input_models.ask",
    "walltime.input_models.suggest",
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
        "in their order. Null is unknown. Columns of several tables come first."
    )
    tables = {name: one for name, one in described_tables(None).items() if name in PUBLISHED}
    uses = Counter(_column(one) for described in tables.values() for one in described["columns"])
    shared = [row for row, count in uses.items() if count > 1]
    parts = [part for name, one in tables.items() for part in _table(name, one, set(shared))]
    return page("Columns", intro, "## Columns of several tables", _listed(sorted(shared)), *parts)


def _column(one: dict[str, Any]) -> tuple[str, str, str, str]:
    return one["name"], one["type"], one["unit"] or "", one["meaning"]


def _table(name: str, described: dict[str, Any], shared: set[tuple[str, str, str, str]]) -> list[str]:
    """A table's heading, meaning, the columns that only it has, and the names of the others."""
    columns = described["columns"]
    own = [_column(one) for one in columns if _column(one) not in shared]
    also = ", ".join(one["name"] for one in columns if _column(one) in shared)
    keys = ", ".join(f"`{one['name']}`" for one in columns if one["is_key"])
    return [f"## {name}", described["meaning"], *([f"Key: {keys}."] if keys else []),
            *([_listed(own)] if own else []), *([f"Also {also}."] if also else [])]  # fmt: skip


def _listed(rows: Iterable[tuple[str, str, str, str]]) -> str:
    """A line for each column: its name, its type with its unit, its meaning."""
    return "\n".join(f"- `{name}` ({', '.join(filter(None, (kind, unit)))}): {told}" for name, kind, unit, told in rows)


def flags() -> str:
    """Every flag with its meaning, in order of precedence."""
    intro = (
        "A flag says why a job is set aside. Where several apply, a job gets the first of this table. "
        "[Cleaning](../explanations/cleaning.md) explains the rules; `clean.flags_off` turns a flag off."
    )
    return page("Flags", intro, table(("flag", "meaning"), [(f"`{one.value}`", one.meaning) for one in Flag]))


def laws() -> str:
    """The table of laws."""
    intro = (
        "A law is one declaration in `pipeline/laws.py`. `laws` under `[scaling]` may name any law of this "
        "table that is fitted. "
        "[Laws and fits](../explanations/laws-and-fits.md) has the formulas of Downey's pieces."
    )
    return page("Laws", intro, laws_table())


def methods() -> str:
    """Every estimator, and the policies and estimates of a replay."""
    intro = "These methods estimate a job at its submit. `walltime backtest --methods A,B` scores some of them."
    rows = [(f"`{name}`", _meaning(one), "yes" if name in AT_MIDNIGHT else "no") for name, one in ESTIMATORS.items()]
    later = "The last column says whether a method can answer with what an earlier midnight knew (`--staleness`)."
    policies = ", ".join(f"`{one.name.lower().replace('_', '-')}`" for one in Policy)
    estimates = ", ".join(f"`{one}`" for one in Estimates)
    replay = f"`walltime replay --policy` takes {policies}; `--estimates` takes {estimates}, and `soft`."
    source = "[Estimators](../explanations/estimators.md) and [replay](../explanations/replay.md) explain them."
    head = ("method", "estimate", "at an earlier midnight")
    return page("Methods", intro, table(head, rows), later, "## Replays", replay, source)


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


_LAWS_HEAD = """| law | T(n) | parameters beside T(1) | fitted | prior weight in the average | source |
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
    fitted = "no" if law.fitted == "no" else "by a search of its one shape" if is_searched else "exactly"
    weight = f"{law.prior_weight:g}" if law.prior_weight else "not in it"
    return f"| {law.name} | {law.equation} | {bounds} | {fitted} | {weight} | {law.source} |"


def _bounds(one: Parameter) -> str:
    symbol = _SYMBOLS.get(one.name, one.name)
    return f"{symbol} >= {one.low:g}" if math.isinf(one.high) else f"{symbol} in [{one.low:g}, {one.high:g}]"
