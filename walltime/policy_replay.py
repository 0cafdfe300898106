"""Replays of a log under other scheduling policies and estimates."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.services.replaying import ReplayTask, chosen_cases, subject_of_jobs
from pipeline.errors import InputError
from pipeline.schedule.what_if import what_if
from pipeline.schedule.workload import Shakes
from pipeline.tables import REPLAY
from walltime.frames import frame_of, plain
from walltime.jobs_frame import Site, flagged, log_of, settings_for


def replay(
    log: Any,
    procs: int | None = None,
    *,
    policies: Sequence[str] = ("easy-sjbf",),
    estimates: Sequence[str] = ("request", "last2", "walltime", "perfect"),
    days: float | None = None,
    shakes: int = 20,
    seed: int = 1,
    site: Site = None,
    config: str | Path | None = None,
) -> Any:
    """What other policies and estimates would have done to the waits of a log's jobs.

    Parameters
    ----------
    log : DataFrame
        Jobs as `read` or `clean` gives them. Needed: `submit_s`, `start_s`, `end_s` (s since 1970), `procs` and
        `runtime_s` (s). Without flags the log is cleaned first.
    procs : int, optional
        Processors of the machine; by default `max_procs` of the site.
    policies : sequence of str
        Of "fcfs", "easy", "easy-sjbf" and "conservative"; each is compared with EASY with requests.
    estimates : sequence of str
        What is planned with: of "request", "last2", "cesnet", "table", "walltime", "control" and "perfect".
    days : float, optional
        Score the jobs of this many last days; by default all.
    shakes : int
        Replays with shaken arrivals; 0: one replay of the log as it is.
    seed : int
        Seed of the shakes; the same seed gives the same figures.
    site : str or mapping, optional
        The site's name, or values of the section `[site]` of a config, such as `max_procs`.
    config : str or Path, optional
        TOML file with all settings; without it the defaults hold.

    Returns
    -------
    DataFrame
        REPLAY: rows per policy, estimates, part of the jobs and statistic; waits in s.

    Raises
    ------
    WalltimeError
        If the size of the machine is unknown, a name is unknown, a column is missing, or there is no job to score.

    Examples
    --------
    >>> import walltime as wt
    >>> log = wt.read("data_samples/traps.swf", site="oxbow")
    >>> figures = wt.replay(log, procs=128, estimates=["request", "perfect"], shakes=0)
    >>> sorted(set(figures["estimates"]))
    ['perfect', 'request']
    """
    settings = settings_for(config, site)
    given = log_of(log, "replay", settings)
    capacity = procs if procs is not None else settings.site.max_procs
    if capacity is None or capacity < 1:
        found = "no size of the machine" if capacity is None else f"procs = {capacity}"
        raise InputError("replay", found, "processors", 'give procs=, or site={"max_procs": ...}')
    task = ReplayTask(
        settings.site.name,
        (),
        settings,
        chosen_cases(_joined(policies), _joined(estimates), None, None),
        Shakes(shakes, seed),
        capacity=capacity,
        days=days,
    )
    subject, _ = subject_of_jobs(task, flagged(given, settings))
    table = what_if(subject, task.cases, task.shakes)
    if not table.num_rows:
        raise InputError("replay", "no job to score", "jobs after the first 1%, submitted in the days asked for")
    return frame_of(plain(table, REPLAY), given.kind)


def _joined(names: Sequence[str]) -> str:
    return names if isinstance(names, str) else ",".join(names)
