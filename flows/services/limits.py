"""What `walltime limits` does, of times or memory: a log in; figures, texts for users and tables out; nothing is sent.

Names come from logs and are escaped.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from flows.services.files.table_files import write_rows
from flows.services.logs import flagged_jobs, jobs_of_table, settings_and_logs
from flows.services.published.published_folder import read_columns
from flows.services.quantities import clock, instant, memory_text
from pipeline.errors import InputError, printable
from pipeline.estimate.history import History, memory_history
from pipeline.evaluate.backtest import past_of
from pipeline.limits.status import READ, early_kinds, planned_weeks
from pipeline.publish import Manifest
from pipeline.schema import Axis, counted
from pipeline.settings import RunSettings
from pipeline.storage import write_text
from pipeline.tables import JOBS


def limit_log(given: Path, *, of_memory: bool = False) -> tuple[str, History]:
    """The name of a config's logs, a log or a table of jobs, and its jobs in order of submit.

    InputError where none of them has a request and a runtime, or where `of_memory` none has the memory that it used.
    """
    if given.suffix == ".parquet":
        name, settings, jobs = given.name, RunSettings(), jobs_of_table(given)
    else:
        name, settings, paths = settings_and_logs(given)
        jobs, _ = flagged_jobs(paths, settings)
    past = memory_history(jobs, settings.site.timezone) if of_memory else past_of(jobs, settings)
    wanted = "the memory it used" if of_memory else "a runtime and a requested time"
    if not (past.has_run & (of_memory | (past.requested_s > 0))).any():
        do = "for sacct, ask for MaxRSS and NTasks (or TRESUsageInTot) with the steps" if of_memory else ""
        raise InputError(printable(str(given)), f"{jobs.num_rows:,} jobs, none with {wanted}", f"one with {wanted}", do)
    return name, past


def limit_facts(manifest: Manifest) -> dict[str, Any]:
    """The weeks of a version's JOBS (`planned_weeks`), and the kinds that are left alone (`early_kinds`)."""
    if JOBS.name not in manifest.tables:
        return {"weeks": [], "left_alone": []}
    jobs = read_columns(manifest.path(JOBS.name), JOBS, READ)
    return {"weeks": planned_weeks(jobs), "left_alone": early_kinds(jobs)}


def write_advice(folder: Path, found: Mapping[str, Any]) -> dict[str, Path]:
    """Write users.csv (or accounts.csv), and where something can be recommended requests.csv or memory.csv and a text
    per user with advice; their paths.
    """
    name = "memory" if "promise" in found else "requests"
    paths = {"people": folder / f"{found['by']}s.csv", name: folder / f"{name}.csv", "mail": folder / "mail"}
    write_rows(paths["people"], [_rounded(row) for row in found["rows"]])
    told = [row for row in found["rows"] if row["kinds"]]
    if not told:
        return {"people": paths["people"]}
    write_rows(paths[name], [{"name": row["name"]} | one for row in told for one in row["kinds"]])
    for n, row in enumerate(told, 1):
        # The number makes a file's name unique; of the person's the part stands in it that any file system takes.
        file = f"{n:04}-{re.sub(r'[^A-Za-z0-9_-]+', '_', row['name'])[:40]}.txt"
        write_text(paths["mail"] / file, letter(name, row, found))
    return paths


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a user or an account, with six digits."""
    return {key: float(f"{one:.6g}") if isinstance(one, float) else one for key, one in row.items() if key != "kinds"}


def letter(kind: str, row: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The text for one user or account: what was not used, and what to request for its usual kinds of jobs."""
    facts: dict[str, Any] = {**found, **row, "name": printable(row["name"]), "log": printable(found["log"])}
    facts |= {name: str(instant(int(found[name])))[:10] for name in ("from_s", "until_s")}
    if kind == "memory":
        heading: tuple[str, ...] = ("application", "processors", "jobs", "you ask", "ask for", "whole job")
        facts["used"] = memory_gib(row["used_gib"])
        facts["requested"] = (
            "no memory" if row["requested_gib"] is None else f"{memory_gib(row['requested_gib'])} a job"
        )
    else:
        heading = ("application", "processors", "jobs", "you request", "request")
        facts["unused"] = row["unused_hours"] / row["requested_hours"] if row["requested_hours"] else 0.0
        facts |= {"n_told_all": found["n_told"], "n_longer_all": found["n_longer"]}
    text = files("flows.services").joinpath("templates", f"{kind}.letter.txt").read_text("utf-8")
    usual: list[tuple[str, ...]] = [heading, *map(_usual, row["kinds"])]
    widths = [max(map(len, cells)) for cells in zip(*usual, strict=True)]
    lines = ("   ".join([first.ljust(widths[0]), *(map(str.rjust, others, widths[1:]))]) for first, *others in usual)
    return text.format(**facts, usual="\n".join(lines))


def _usual(one: Mapping[str, Any]) -> tuple[str, ...]:
    """A row of a letter: a usual kind of jobs, what it requests, and what to request."""
    gpus = f", {counted(one['gpus'], Axis.GPUS)}" if one["gpus"] else ""
    kind = printable(one["application"] or "any")[:24], f"{one['procs']:,.0f}{gpus}", f"{one['n_jobs']:,}"
    if "recommended_s" in one:
        return *kind, clock(one["requested_s"]), clock(one["recommended_s"])
    asked, ask = one["requested_mem_kib"], one["recommended_mem_kib"]
    return *kind, memory_text(asked) if asked else "", memory_text(ask), memory_text(ask * one["procs"])


def memory_gib(gib: float | None) -> str:
    """An amount given in GiB, with a fitting unit."""
    return memory_text(None if gib is None else gib * 1024.0**2)
