"""Scores of published predictions on later jobs, rolling through a log: a line per log, horizon and kind of row.

.venv/bin/python benchmarks/later_table.py LOG ...   logs, or flagged JOBS as .parquet; --from, --to: shares of the jobs
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.services.logs import flagged_jobs, jobs_of_table, resolve
from pipeline.arrays import DAY_S, Floats, floats
from pipeline.evaluate.later_scores import answered, figures, keys_of
from pipeline.group import assign_groups, choose_template, with_chosen
from pipeline.large_tables import rows_of
from pipeline.settings import GroupSettings, RunSettings
from tools.plain_run import tables_of

N_NIGHTS = 12
HORIZONS = (1.0, 7.0)

COLUMNS = ("log", "days", "rows", "jobs", "in 80%", "in 95%", "width 80%", "error", "ok")
CONFIG = Path(__file__).parents[1] / "configs" / "swf.toml"


def jobs_of(log: Path) -> tuple[RunSettings, pa.Table]:
    """A log's settings and flagged JOBS."""
    if log.suffix == ".parquet":
        return RunSettings(), jobs_of_table(log)
    settings, paths = resolve(CONFIG, [str(log)])
    return settings, flagged_jobs(paths, settings)[0]


def later_scores(
    jobs: pa.Table,
    settings: RunSettings,
    shares: tuple[float, float] = (2 / 3, 0.98),
    horizons: Sequence[float] = HORIZONS,
    n_nights: int = N_NIGHTS,
) -> dict[float, pa.Table]:
    """Per horizon (days), the jobs submitted within it after each night, with the predictions of that night.

    `jobs` are flagged JOBS. The nights are evenly spaced between two shares of the jobs by submit. What ends after a
    night is not known at it; the template of a night is the previous one of the next. A row per job that a published
    row answers, as `answered` makes it, with `is_seen`, whether its group had run on its count by the night, and
    `age_days`, its submit after the night.
    """
    submit_s = floats(jobs, "submit_s")
    parts, previous = list[pa.Table](), ""
    first_s, last_s = np.quantile(submit_s[np.isfinite(submit_s)], shares)
    for night_s in np.linspace(first_s, last_s, n_nights):
        table, group = published(jobs, settings, float(night_s), previous)
        previous = "+".join(group.columns)
        parts.append(_scored(table, assign_groups(jobs, group)[0], float(night_s), max(horizons)))
    every = pa.concat_tables(parts)
    found = {days: every.filter(pc.less_equal(every["age_days"], days)) for days in horizons}
    return {days: one for days, one in found.items() if one.num_rows}


def published(
    jobs: pa.Table, settings: RunSettings, night_s: float, previous: str = ""
) -> tuple[pa.Table, GroupSettings]:
    """PREDICTIONS as a run at a time publishes them, and how it groups; `jobs` are flagged JOBS of any time."""
    known = jobs.filter(pa.array(_ends(jobs) <= night_s))
    templates, _ = choose_template(known, settings.group, previous)
    given = {"jobs_flagged": known, "templates": templates}
    table = rows_of(tables_of(settings, given, "predictions")["predictions"])
    return table, with_chosen(settings.group, templates)


def _scored(table: pa.Table, grouped: pa.Table, night_s: float, days: float) -> pa.Table:
    """The later jobs of a night that a row answers."""
    age_days = (floats(grouped, "submit_s") - night_s) / DAY_S
    is_later = (age_days > 0) & (age_days <= days) & (floats(grouped, "runtime_s") > 0)
    is_known = pc.is_valid(grouped.column("group_id")).to_numpy() & (_ends(grouped) <= night_s)
    ran, later = set(keys_of(grouped.filter(pa.array(is_known)))), grouped.filter(pa.array(is_later))
    found = answered(table, later).append_column("age_days", pa.array(age_days[is_later]))
    found = found.append_column("is_seen", pa.array([key in ran for key in keys_of(later)], pa.bool_()))
    return found.filter(found["is_ok"].is_valid())


def _ends(jobs: pa.Table) -> Floats:
    end_s = floats(jobs, "end_s")
    return np.where(np.isnan(end_s), floats(jobs, "submit_s") + floats(jobs, "runtime_s"), end_s)


def lines(name: str, days: float, scored: pa.Table) -> list[tuple[str, ...]]:
    """The table's lines of one log and horizon."""
    parts = {
        "all": scored, "ran before": scored.filter(scored["is_seen"]),
        "not run before": scored.filter(pc.invert(scored["is_seen"])), "ok": scored.filter(scored["is_ok"]),
    }  # fmt: skip
    found = []
    for kind, part in parts.items():
        one = figures(part)
        if one["jobs"]:
            shares = [f"{one[key]:.1%}" for key in ("in_80", "in_95")]
            errors = [f"{one[key]:.1%}" for key in ("median_error", "ok_share")]
            found.append((name, f"{days:g}", kind, f"{one['jobs']:,}", *shares, f"{one['width_80']:.1f}", *errors))
    return found


def main() -> None:
    """Score every log and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--from", dest="first", type=float, default=2 / 3)
    parser.add_argument("--to", dest="last", type=float, default=0.98)
    parser.add_argument("--days", type=float, nargs="+", default=[1.0, 7.0])
    parser.add_argument("--nights", type=int, default=N_NIGHTS)
    given = parser.parse_args()
    for cells in (COLUMNS, ("---",) * len(COLUMNS)):
        print("| " + " | ".join(cells) + " |")
    for log in given.logs:
        settings, jobs = jobs_of(log)
        scores = later_scores(jobs, settings, (given.first, given.last), given.days, given.nights)
        for days, scored in scores.items():
            for cells in lines(log.name.split(".")[0], days, scored):
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
