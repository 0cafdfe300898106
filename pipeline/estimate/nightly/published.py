"""The look-up table as a method of the registry, and as the part of a published State that ESTIMATES is made from."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from pipeline.core.arrays import Array, Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.core.report import Report, Tally
from pipeline.estimate.history import History
from pipeline.estimate.nightly.rows import estimates
from pipeline.estimate.nightly.table import TableState, learn_table, table_rows, update_table
from pipeline.estimate.nightly.table import table as as_of_pass
from pipeline.estimate.state_table import arrays_in, settings_of, texts

PREFIX = "table."
DAY_S = 86_400.0


def table(history: History, settings: ForecastSettings) -> Floats:
    """(jobs, 6) quantiles, s, that a job finds in the table of the last midnight (or of an earlier, stale one)."""
    return as_of_pass(history, settings.table)


def table_arrays(
    history: History, settings: ForecastSettings, as_of_s: float, earlier: TableState | None = None
) -> dict[str, Array]:
    """The table's part of a State at a time, as arrays by name, from a log or going on from an earlier State."""
    return arrays_of_table(table_after(history, settings, as_of_s, earlier))


def table_after(
    history: History, settings: ForecastSettings, as_of_s: float, earlier: TableState | None = None
) -> TableState:
    """The table's state at a time, from a log or going on from an earlier one."""
    known = replace(history.known_by(as_of_s), stale_s=DAY_S * settings.table.served_days)
    return learn_table(known, settings.table) if earlier is None else update_table(earlier, known, settings.table)


def arrays_of_table(state: TableState) -> dict[str, Array]:
    """The table's part of a State, as arrays by name."""
    arrays = {f"{PREFIX}{name}": values for name, values in state.to_arrays().items()}
    return {name: texts(values) if values.dtype.kind in "UO" else values for name, values in arrays.items()}


def table_state(arrays: Mapping[str, Array]) -> TableState:
    """The table's part of a State's arrays."""
    own = {name.removeprefix(PREFIX): values for name, values in arrays.items() if name.startswith(PREFIX)}
    return TableState.from_arrays(own)


def make_estimates(state: pa.Table, run_id: str) -> tuple[pa.Table, Report]:
    """ESTIMATES of a published State, as of its time; the Report counts rows.

    Parameters
    ----------
    state : pa.Table
        STATE of a site.
    run_id : str
        Id of the run, written to every row.

    Returns
    -------
    table : pa.Table
        ESTIMATES: a row per key that is present, runtimes in s, ratios to the request.
    report : Report
        Number of rows, by template.

    Raises
    ------
    InputError
        If this version cannot read the STATE's settings.

    Examples
    --------
    >>> table, report = make_estimates(tables["state"], "r1")
    >>> table.num_rows == tables["estimates"].num_rows, set(table.column("run_id").to_pylist())
    (True, {'r1'})
    """
    arrays = arrays_in(state)
    settings = settings_of(arrays)
    facts = dict(zip(arrays["site.facts"].tolist(), arrays["site.values"].tolist(), strict=True))
    served_s = DAY_S * settings.table.served_days
    rows = table_rows(table_state(arrays), float(arrays["as_of_s"][0]), settings.table, served_s)
    found = estimates(rows, facts["name"], run_id)
    whole = Tally(found.num_rows)
    counts = {f"rows of {name}": int((rows["template"] == name).sum()) for name in dict.fromkeys(rows["template"])}
    return found, Report("estimate", "row", whole, whole, {}, counts)
