"""What `walltime limits --memory` does: a log in, figures, and texts for users and tables for a site. Nothing is sent.

Names come from logs and are escaped.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.services.limits import LimitLog, as_csv, letters, named_jobs, sizes_of, write_texts
from flows.services.progress import running_stage
from flows.services.quantities import instant, memory_text
from pipeline.errors import InputError, printable
from pipeline.estimate.job_memory import memory_history
from pipeline.estimate.limit_harm import MANY_JOBS
from pipeline.evaluate.memory_advice import figures_of_memory_rules, recommended_memory

PEOPLE = ("name", "n_jobs", "requested_gib", "used_gib", "recommended_gib", "n_under", "share_within")
KINDS = ("name", "application", "requested_mem_kib", "procs", "gpus", "n_jobs", "recommended_mem_kib")


def memory_log(given: Path) -> LimitLog:
    """The jobs of a config's logs, a log or a table of jobs; InputError where no job's used memory is known."""
    name, settings, jobs = named_jobs(given)
    past = memory_history(jobs, settings.site.timezone)
    if not past.has_run.any():
        found = f"{jobs.num_rows} jobs, none with the memory it used"
        do = "for sacct, ask for MaxRSS and NTasks (or TRESUsageInTot) with the steps"
        raise InputError(printable(str(given)), found, "a log that records used memory", do)
    return LimitLog(name, past)


def advise_memory(log: LimitLog, by: str, promise: float) -> dict[str, Any]:
    """The figures of the log's later third, and per user or account its memory and what to ask for."""
    with running_stage("recommend memory"):
        return {"log": log.name} | recommended_memory(log.past, by, promise)


def score_memory(log: LimitLog, promise: float) -> dict[str, Any]:
    """The figures of what is recommended and of other rules on the log's later third."""
    with running_stage("recommend memory"):
        rules = figures_of_memory_rules(log.past, promise)
    return {"log": log.name, "promise": promise, "many_jobs": MANY_JOBS, "rules": rules}


def write_memory_advice(folder: Path, found: Mapping[str, Any]) -> dict[str, Path]:
    """Write users.csv (or accounts.csv), memory.csv and a text per user below `folder`; returns their paths."""
    people, kinds = folder / f"{found['by']}s.csv", folder / "memory.csv"
    listed = ({"name": row["name"]} | one for row in found["rows"] for one in row["kinds"])
    texts = {people: as_csv(PEOPLE, found["rows"]), kinds: as_csv(KINDS, listed)}
    write_texts(texts | letters(folder, found["rows"], lambda row: memory_letter(row, found)))
    return {"people": people, "memory": kinds, "mail": folder / "mail"}


def memory_letter(row: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The text for one user or account: what its jobs asked for and used, and what to ask for."""
    days = [str(instant(int(found[name])))[:10] for name in ("from_s", "until_s")]
    sizes = sizes_of(row["kinds"])
    asked = "no memory" if row["requested_gib"] is None else f"{memory_gib(row['requested_gib'])} a job"
    return "\n".join([
        f"Hello {printable(row['name'])},", "",
        f"From {days[0]} to {days[1]} {row['n_jobs']:,} jobs of yours ended whose memory is known "
        f"({printable(found['log'])}).",
        f"In the mean they asked for {asked} and used {memory_gib(row['used_gib'])}.",
        "Jobs that ask for less memory can start earlier, because they fit beside others.", "",
        "What to ask for, per processor and for the whole job:", "",
        f"{'application':<24} {sizes[0]} {'jobs':>8} {'you ask':>12} {'ask for':>12} {'whole job':>12}",
        *map(_kind, row["kinds"], sizes[1:]), "",
        f"Amounts are recommended so that {found['promise']:.1%} of all jobs stay under them. Those of the time would",
        f"have been too little for {row['n_under']:,} of your jobs. A job that needs more than it asked for is",
        "stopped: ask for more where you know better.",
        "",
    ])  # fmt: skip


def _kind(one: Mapping[str, Any], size: str) -> str:
    asked = "" if one["requested_mem_kib"] is None else memory_text(one["requested_mem_kib"])
    ask = (
        one["recommended_mem_kib"]
        if one["requested_mem_kib"] is None
        else min(one["recommended_mem_kib"], one["requested_mem_kib"])
    )
    name = printable(one["application"] or "any")[:24]
    whole = memory_text(ask * one["procs"])
    return f"{name:<24} {size} {one['n_jobs']:>8,} {asked:>12} {memory_text(ask):>12} {whole:>12}"


def memory_gib(gib: float | None) -> str:
    """An amount given in GiB, with a fitting unit."""
    return memory_text(None if gib is None else gib * 1024.0**2)
