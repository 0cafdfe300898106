"""What `walltime backtest` and `replay` do: logs in; BACKTEST of every method, or REPLAY of every policy, out."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.services.logs import flagged_jobs
from flows.services.progress import running_stage
from flows.services.quantities import chosen_names, seconds, words
from pipeline.arrays import DAY_S, Floats, category_codes, floats
from pipeline.errors import InputError, WalltimeError, printable
from pipeline.estimate.history import History
from pipeline.estimate.score import N_QUANTILES
from pipeline.evaluate import backtest, check_no_look_ahead
from pipeline.evaluate.backtest import Way, past_of
from pipeline.evaluate.methods import ESTIMATORS, method_with_settings
from pipeline.limits.soft import rules_of
from pipeline.report import Report
from pipeline.schedule.engine import Policy
from pipeline.schedule.verdict import ReplayResult
from pipeline.schedule.what_if import (
    SOFT,
    WITH_METHOD,
    Case,
    Estimates,
    Subject,
    cases,
    log_utilisation,
    policy_name,
    what_if,
)  # fmt: skip
from pipeline.schedule.workload import Convention, Shakes, has_waits, workload_of_jobs
from pipeline.settings import RunSettings


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """The backtest of one log: its rows of BACKTEST, the report, and CPU seconds by method."""

    log: str
    table: pa.Table
    report: Report
    cpu_s: Mapping[str, float]
    errors: list[pa.Table]
    """BACKTEST_ERRORS of each way and method, where they are asked for."""

    def rows(self, part: str, way: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The rows of a part in plain values, of one way (default: the first)."""
        way = self.ways[0] if way is None else way
        return [row for row in self.table.to_pylist() if row["part"] == part and way.items() <= row.items()]

    @property
    def ways(self) -> list[dict[str, Any]]:
        """The ways of the backtest, as their columns, in order of appearance."""
        rows = self.table.select(["stale_days", "learnt_from"]).to_pylist()
        return list({tuple(row.values()): row for row in rows}.values())

    @property
    def ranked(self) -> list[Mapping[str, Any]]:
        """Each method over all jobs, least mean absolute error first."""
        return ranked(self.rows("all"))


def ways(staleness: Sequence[str], compare_cleaning: bool) -> tuple[Way, ...]:
    """The ways to estimate: with knowledge until the submit or until a midnight, with flagged jobs or also without."""
    ages_s = {"live": None, "0": 0.0}
    found = [Way(ages_s[text] if text in ages_s else seconds(text, "--staleness")) for text in staleness or ("live",)]
    if compare_cleaning:
        found += [replace(way, without_flagged=True) for way in found]
    return tuple(dict.fromkeys(found))


def ranked(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows in rising order of mean absolute error; unknown errors come last."""
    return sorted(rows, key=lambda row: float("inf") if row["mae_s"] is None else row["mae_s"])


def run_backtest(
    log: str,
    paths: Sequence[Path],
    settings: RunSettings,
    methods: Sequence[str],
    chosen: Sequence[Way],
    *,
    checks_leaks: bool = False,
    lists_errors: bool = False,
) -> BacktestResult:
    """Read and clean a log, and score every method as of each submit, once for each way to estimate."""
    name = printable(log, 40)
    estimators = {method: method_with_settings(method, settings) for method in methods}
    flagged, _ = flagged_jobs(paths, settings, log)
    past = past_of(flagged, settings)
    for method in methods if checks_leaks else ():
        with running_stage(f"{name}: does {method} look ahead"):
            try:
                check_no_look_ahead(estimators[method], past)
            except WalltimeError as error:
                raise type(error)(f"{method}: {error}") from None
    cpu_s: dict[str, float] = {}
    errors: list[pa.Table] = []

    def timed(method: str, past: History) -> Floats:
        with running_stage(f"{name}: {method}"):
            began = time.process_time()
            found = estimators[method](past)
            cpu_s.setdefault(method, time.process_time() - began)
        return found

    by_method = {method: partial(timed, method) for method in methods}
    kept = errors if lists_errors else None
    scored = [backtest(flagged, settings, by_method, log, way, errors=kept) for way in chosen]
    if not scored[0][0].num_rows:
        raise InputError(name, f"{flagged.num_rows} jobs, none to score", "jobs with times and a runtime")
    tables = pa.concat_tables([table for table, _ in scored])
    return BacktestResult(log, tables, scored[0][1].check(), cpu_s, errors)


def chosen_cases(policies: str, estimates: str) -> tuple[Case, ...]:
    """The cases of the command's options; `soft` is every soft case. InputError for an unknown name."""
    named = {policy_name(policy): policy for policy in Policy}
    chosen = [named[name] for name in chosen_names(words(policies) or [policies], named, "--policy")]
    known = [*map(str, Estimates), "soft"]
    names = chosen_names(words(estimates) or [estimates], known, "--estimates")
    return cases(chosen, [one for name in names for one in (SOFT if name == "soft" else [Estimates(name)])])


def run_replay(
    log: str, paths: Sequence[Path], settings: RunSettings, chosen: Sequence[Case], shakes: Shakes, **how: Any
) -> ReplayResult:
    """Read a log, estimate its jobs once as of each submit, and replay every case over every shake.

    `how` is what `subject_of` takes.
    """
    flagged, report = flagged_jobs(paths, settings, log)
    subject, capacity_from = subject_of(log, flagged, settings, chosen, header=report.facts.get("max_procs"), **how)
    unit = "nodes" if how.get("whole_nodes") else "processors"
    return ReplayResult(subject, replayed(subject, chosen, shakes), capacity_from, unit)


def replayed(subject: Subject, chosen: Sequence[Case], shakes: Shakes) -> pa.Table:
    """REPLAY of the cases; InputError where no job can be scored."""
    name = printable(subject.log, 40)
    with running_stage(f"{name}: replay"):
        table = what_if(subject, chosen, shakes)
    if not table.num_rows:
        raise InputError(name, "no job to score", "jobs after the first 1%, submitted in the days asked for")
    return table


def subject_of(
    log: str, flagged: pa.Table, settings: RunSettings, chosen: Sequence[Case], *, header: object = None,
    capacity: int | None = None, days: float | None = None, whole_nodes: bool = False,
) -> tuple[Subject, str]:  # fmt: skip
    """A log as it is replayed, with the estimates that its cases need, and where its capacity comes from.

    `flagged`: its JOBS. `header`: the size of the machine that the log states; `capacity` goes before it. The jobs
    submitted in the last `days` of the log are scored (None: all).
    """
    name, past, site = printable(log, 40), past_of(flagged, settings), settings.site
    capacity, capacity_from = machine_size(capacity, site.max_procs, header, printable(log, 200))
    if whole_nodes and site.procs_per_node is None:
        raise InputError("--whole-nodes", "no site.procs_per_node", "the processors of a node", "set it in the config")
    work = workload_of_jobs(
        flagged, capacity, procs_per_node=site.procs_per_node if whole_nodes else None, own_rows=past.row,
        counts_every_request=settings.clean.counts_every_request,
    )  # fmt: skip
    if not len(work):
        found = f"{flagged.num_rows} jobs, none to replay"
        raise InputError(name, found, "jobs with a submit, a runtime and processors")
    # As of each submit: the backtest's pass. The table is as old as it is served.
    estimates_s: Floats = np.full((flagged.num_rows, N_QUANTILES), np.nan)
    if any(case.estimates in WITH_METHOD for case in chosen):
        with running_stage(f"{name}: table"):
            estimates_s[past.row] = ESTIMATORS["table"](replace(past, stale_s=DAY_S))
    since_s = -np.inf if days is None else float(work.submit_s[-1]) - DAY_S * days
    used = log_utilisation(work, floats(flagged, "start_s"), floats(flagged, "runtime_s"), since_s)
    subject = Subject(
        log, work, estimates_s, category_codes(flagged, "user")[1], Convention.NATURAL, since_s, has_waits(flagged),
        used, rules_of(settings.export.quantile, settings.export.over_time_limit_min),
    )  # fmt: skip
    return subject, capacity_from


def machine_size(given: int | None, site: object, header: object, where: str) -> tuple[int, str]:
    """The machine's processors, and where the number comes from; InputError where it is unknown."""
    for known, name in ((given, "--max-procs"), (site, "site.max_procs"), (header, "the log's header")):
        if isinstance(known, int) and known > 0:
            return known, name
    do = "give --max-procs (in Python procs=), or set site.max_procs in the config"
    raise InputError(where, "no size of the machine", "the machine's processors", do)
