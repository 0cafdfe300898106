"""Job-level estimates: what jobs like this one took, from the most to the least specific template."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Bools, Floats, floats, lower_bounds, proc_seconds
from pipeline.core.columns import CATEGORY, TEMPLATE_COLUMNS
from pipeline.core.report import Fact, Report, Tally
from pipeline.core.settings import EstimateSettings
from pipeline.core.survival import survival_order, survival_quantiles
from pipeline.core.tables import ESTIMATES

SHARES = {f"runtime_s_q{q}": q / 100 for q in (10, 50, 80, 90, 95, 99)}

_PROCS = "CASE WHEN requested_procs > 0 THEN requested_procs ELSE procs END"
"""At submit time the request is what is known; where a log has none, the allocation stands in."""


def estimate(jobs: pa.Table, settings: EstimateSettings, run_id: str) -> tuple[pa.Table, Report]:
    """ESTIMATES of unflagged jobs: a row per value of each template in the chain that has `min_jobs` jobs or more.

    A job is looked up along chain_rank, from 0; the template of no column stands at the chain's end, whatever the
    settings say, and answers for every job. Null matches null, but one value at least has to be known. A column the log
    never fills is left out of the templates. A runtime that is a lower bound counts as one (survival.py); a quantile
    beyond all that was seen to end is null.
    """
    is_kept = pc.is_null(jobs.column("flag"))
    kept, chain = jobs.filter(is_kept), _filled_chain(jobs, settings.chain)
    runtimes = _Runtimes.of(kept)
    with duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False}) as database:
        database.register("kept", kept.append_column("place", pa.array(runtimes.place)))
        database.execute(f"CREATE VIEW job AS SELECT * REPLACE ({_PROCS} AS procs) FROM kept")  # noqa: S608
        parts: list[pa.Table] = [
            runtimes.summed_up(
                database.sql(_query(rank, template), params=[settings.min_jobs if template else 1]).to_arrow_table()
            )
            for rank, template in enumerate(chain)
        ]
    table = _finished(pa.concat_tables(parts), run_id)
    facts = {f"estimates_{'+'.join(t) or 'all'}": part.num_rows for t, part in zip(chain, parts, strict=True)}
    return table, _report(jobs, is_kept.to_numpy(), {"estimates": table.num_rows} | facts)


@dataclass(frozen=True, slots=True)
class _Runtimes:
    """The jobs' runtimes in survival_order, which of them are bounds, and each job's place in that order."""

    runtime_s: Floats
    is_bound: Bools
    place: npt.NDArray[np.int32]

    @classmethod
    def of(cls, jobs: pa.Table) -> Self:
        runtime_s, is_bound = floats(jobs, "runtime_s"), lower_bounds(jobs)
        order = survival_order(runtime_s, is_bound)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        return cls(runtime_s[order], is_bound[order], place)

    def summed_up(self, rows: pa.Table) -> pa.Table:
        """The rows with quantiles and `n_censored` for their jobs' `places`, which ascend."""
        lists = rows.column("places").combine_chunks()
        counts = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
        places = lists.flatten().to_numpy()
        starts, is_bound = np.cumsum(counts) - counts, self.is_bound[places]
        found = survival_quantiles(self.runtime_s[places], is_bound, starts, counts, list(SHARES.values()))
        for name, values in zip(SHARES, found, strict=True):
            rows = rows.append_column(name, pa.array(values, mask=np.isnan(values)))
        n_censored = np.add.reduceat(is_bound, starts, dtype=np.int64) if len(starts) else counts
        return rows.append_column("n_censored", pa.array(n_censored)).drop(["places"])


def _filled_chain(jobs: pa.Table, chain: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The templates without columns the log never fills, each once: what is left unsaid makes no template finer."""
    empty = {name for name in TEMPLATE_COLUMNS if jobs.column(name).null_count == jobs.num_rows}
    if jobs.column("requested_procs").null_count < jobs.num_rows:
        empty -= {"procs"}
    filled = [tuple(name for name in template if name not in empty) for template in chain]
    return list(dict.fromkeys([template for template in filled if template] + [()]))


def _report(jobs: pa.Table, is_kept: Bools, facts: dict[str, Fact]) -> Report:
    proc_s = proc_seconds(jobs)

    def tally(chosen: Bools) -> Tally:
        return Tally(int(chosen.sum()), float(proc_s[chosen].sum()))

    set_aside = {} if is_kept.all() else {"flagged": tally(~is_kept)}
    whole = Tally(jobs.num_rows, float(proc_s.sum()))
    return Report("estimate", "job", whole, tally(is_kept), set_aside, facts).check()


def _query(rank: int, template: Sequence[str]) -> str:
    """One template's rows; column names come from TEMPLATE_COLUMNS, never from a log."""
    values = ", ".join(
        f"{name} AS {name}" if name in template else f"NULL::{_sql_type(name)} AS {name}" for name in TEMPLATE_COLUMNS
    )
    known = " OR ".join(f"{name} IS NOT NULL" for name in template) or "TRUE"
    keys = ", ".join(("site", *template))
    return f"""
        SELECT site, '{"+".join(template) or "all"}' AS template, {rank}::BIGINT AS chain_rank, {values},
               list_sort(list(place)) AS places, count(*) AS n_jobs,
               max(coalesce(end_s, submit_s + floor(runtime_s)::BIGINT)) AS newest_end_s
        FROM job WHERE ({known}) GROUP BY {keys} HAVING count(*) >= ? ORDER BY {keys}"""  # noqa: S608


def _sql_type(name: str) -> str:
    field_type = ESTIMATES.schema().field(name).type
    return "VARCHAR" if field_type == CATEGORY else ("BIGINT" if field_type == pa.int64() else "DOUBLE")


def _finished(rows: pa.Table, run_id: str) -> pa.Table:
    columns = {name: rows.column(name) for name in rows.column_names}
    return ESTIMATES.build(**columns, run_id=[run_id] * rows.num_rows)
