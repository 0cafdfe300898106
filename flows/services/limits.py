"""What `walltime limits` does, of times or memory: a log in; figures, texts for users and tables out; nothing is sent.

Names come from logs and are escaped.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.services.files.os_errors import config_settings, naming_path
from flows.services.logs.cleaning import flagged_jobs, jobs_of_table
from flows.services.progress import running_stage
from flows.services.published.published_folder import published_folder, read_columns
from flows.services.quantities import clock, instant, memory_text, share
from flows.services.run.prepare import settings_and_logs
from pipeline.axes import Axis, counted
from pipeline.errors import InputError, printable
from pipeline.estimate.history import History, memory_history
from pipeline.evaluate.backtest import past_of
from pipeline.evaluate.request_advice import recommended_memory, recommended_requests
from pipeline.export.scheduler_files import csv_text
from pipeline.limits.status import READ, early_kinds, planned_weeks
from pipeline.publish import Manifest, reading
from pipeline.settings import RunSettings
from pipeline.storage import write_text
from pipeline.tables import JOBS

PEOPLE = (
    "name", "n_jobs", "requested_hours", "used_hours", "unused_hours", "n_told", "n_longer",
)  # fmt: skip
REQUESTS = ("name", "application", "requested_s", "procs", "gpus", "n_jobs", "recommended_s")
MEMORY_PEOPLE = ("name", "n_jobs", "requested_gib", "used_gib", "recommended_gib", "n_under", "share_within")
MEMORY_KINDS = ("name", "application", "requested_mem_kib", "procs", "gpus", "n_jobs", "recommended_mem_kib")
LEAST_PROMISE, MOST_PROMISE = 0.5, 0.999


def promise_of(text: str) -> float:
    """The promised share of jobs within their limits, from a text as 97% or .97; InputError for any other."""
    return share(text, "--promise", LEAST_PROMISE, MOST_PROMISE)


def limit_log(given: Path) -> tuple[str, History]:
    """The name of a config's logs, a log or a table of jobs, and its jobs in order of submit.

    InputError where none of them has a request and a runtime.
    """
    name, settings, jobs = _named_jobs(given)
    past = past_of(jobs, settings)
    if not (past.has_run & (past.requested_s > 0)).any():
        found = f"{jobs.num_rows:,} jobs, none with a runtime and a requested time"
        raise InputError(printable(str(given)), found, "some with both")
    return name, past


def _named_jobs(given: Path) -> tuple[str, RunSettings, pa.Table]:
    """Name, settings and flagged jobs of the logs in a config, of one log, or of a table of jobs."""
    if given.suffix == ".parquet":
        return given.name, RunSettings(), jobs_of_table(given)
    name, settings, paths = settings_and_logs(given)
    jobs, _ = flagged_jobs(paths, settings)
    return name, settings, jobs


def advise(given: Path, by: str) -> dict[str, Any]:
    """Per user or account its unused hours and what to request, and how the advice did on the log's later half."""
    name, past = limit_log(given)
    with running_stage("recommend requests"):
        return {"log": name} | recommended_requests(past, by)


def limit_status(given: Path) -> dict[str, Any]:
    """What shorter limits have done by week, or would have in a dry run; InputError where nothing is published.

    `mode` is that of the published run, from which look-ups are exported; `config_mode` that of a config, if given.
    """
    config_mode = config_settings(given).export.mode if given.suffix == ".toml" else None
    with reading(published_folder(given)) as manifest:
        mode = manifest.settings.get("export", {}).get("mode", "dry_run")
        facts = {"folder": str(manifest.root), "run_id": manifest.run_id, "mode": mode, "config_mode": config_mode}
        return facts | limit_facts(manifest)


def limit_facts(manifest: Manifest) -> dict[str, Any]:
    """The weeks of a version's JOBS (`planned_weeks`), and the kinds that are left alone (`early_kinds`)."""
    if JOBS.name not in manifest.tables:
        return {"weeks": [], "left_alone": []}
    jobs = read_columns(manifest.path(JOBS.name), JOBS, READ)
    return {"weeks": planned_weeks(jobs), "left_alone": early_kinds(jobs)}


def check_folder(folder: Path | None) -> None:
    """InputError, before any work, where the advice cannot be written."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"--out {printable(str(folder))}", "a file", "the path of a folder")


def write_advice(folder: Path, found: Mapping[str, Any]) -> dict[str, Path]:
    """Write users.csv (or accounts.csv), requests.csv or memory.csv, and a text per user with advice; their paths."""
    name, people_columns, columns, text_of = MEMORY_FILES if "promise" in found else REQUEST_FILES
    paths = {"people": folder / f"{found['by']}s.csv", name: folder / f"{name}.csv"}
    # Where nothing can be said there is no letter.
    told = [row for row in found["rows"] if row["kinds"]]
    kinds = ({"name": row["name"]} | one for row in told for one in row["kinds"])
    # The number makes a file's name unique; of the person's the part stands in it that any file system takes.
    letters = {
        folder / "mail" / f"{n:04}-{re.sub(r'[^A-Za-z0-9_-]+', '_', row['name'])[:40]}.txt": text_of(row, found)
        for n, row in enumerate(told, 1)
    }
    tables = {paths["people"]: as_csv(people_columns, found["rows"]), paths[name]: as_csv(columns, kinds)}
    for path, text in (tables | letters).items():
        with naming_path(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
    return paths | {"mail": folder / "mail"}


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header, numbers with six digits, texts harmless to terminals and spreadsheets."""

    def cell(value: object) -> object:
        return printable(value) if isinstance(value, str) else f"{value:.6g}" if isinstance(value, float) else value

    return csv_text(columns, ([cell(row[name]) for name in columns] for row in rows), "\n")


def _opened(row: Mapping[str, Any], found: Mapping[str, Any], which: str) -> list[str]:
    """The first lines of a letter."""
    days = [str(instant(int(found[name])))[:10] for name in ("from_s", "until_s")]
    jobs = f"Between {days[0]} and {days[1]}, {row['n_jobs']:,} of your jobs {which} ({printable(found['log'])})."
    return [f"Hello {printable(row['name'])},", "", jobs]


def letter(row: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The text for one user or account: what was not used, and what to request for its usual kinds of jobs."""
    part = row["unused_hours"] / row["requested_hours"] if row["requested_hours"] else 0.0
    sizes = _sizes(row["kinds"])
    return "\n".join([
        *_opened(row, found, "with a requested time ended"),
        f"They requested {row['requested_hours']:,.0f} processor-hours and did not use {row['unused_hours']:,.0f} of "
        f"these ({part:.0%}).",
        "Jobs that request less time can start earlier, because the scheduler finds a gap for them.", "",
        "What to request for your usual jobs:", "",
        f"{'application':<24} {sizes[0]} {'jobs':>8} {'you request':>14} {'request':>14}",
        *(
            f"{printable(one['application'] or 'any')[:24]:<24} {size} {one['n_jobs']:>8,} "
            f"{clock(one['requested_s']):>14} {clock(one['recommended_s']):>14}"
            for one, size in zip(row["kinds"], sizes[1:], strict=True)
        ),
        "",
        f"About {found['chance']:.0%} of your earlier jobs of the same kind ran longer than the recommended time.",
        f"Of {found['n_told']:,} jobs of all users that would have had such advice, {found['n_longer']:,} ran longer.",
        "A job is stopped at the time it requests: request more if you know better.",
        "",
    ])  # fmt: skip


def _sizes(kinds: Sequence[Mapping[str, Any]]) -> list[str]:
    """The heading and the cells of a letter's column of processors, with the GPUs beside them where a job held some."""
    gpus = (f", {counted(one['gpus'], Axis.GPUS)}" if one["gpus"] else "" for one in kinds)
    cells = ["processors", *(f"{one['procs']:,.0f}{held}" for one, held in zip(kinds, gpus, strict=True))]
    width = max(map(len, cells))
    return [f"{cell:>{width}}" for cell in cells]


def memory_log(given: Path) -> tuple[str, History]:
    """The same, where some job's used memory is known; else InputError."""
    name, settings, jobs = _named_jobs(given)
    past = memory_history(jobs, settings.site.timezone)
    if not past.has_run.any():
        found = f"{jobs.num_rows} jobs, none with the memory it used"
        do = "for sacct, ask for MaxRSS and NTasks (or TRESUsageInTot) with the steps"
        raise InputError(printable(str(given)), found, "a log that records used memory", do)
    return name, past


def advise_memory(given: Path, by: str, promise: float) -> dict[str, Any]:
    """The figures of the log's later third, and per user or account its memory and what to ask for."""
    name, past = memory_log(given)
    with running_stage("recommend memory"):
        return {"log": name} | recommended_memory(past, by, promise)


def memory_letter(row: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The text for one user or account: what its jobs asked for and used, and what to ask for."""
    sizes = _sizes(row["kinds"])
    asked = "no memory" if row["requested_gib"] is None else f"{memory_gib(row['requested_gib'])} a job"
    return "\n".join([
        *_opened(row, found, "with known memory use ended"),
        f"On average they asked for {asked} and used {memory_gib(row['used_gib'])}.",
        "Jobs that ask for less memory can start earlier, because they fit beside others.", "",
        "What to ask for, per processor and for the whole job:", "",
        f"{'application':<24} {sizes[0]} {'jobs':>8} {'you ask':>12} {'ask for':>12} {'whole job':>12}",
        *map(_kind, row["kinds"], sizes[1:]), "",
        f"Amounts are recommended so that {found['promise']:.1%} of all jobs stay within them. What was recommended",
        f"before each of your jobs would have been too small for {row['n_under']:,} of them. A job that needs more",
        "memory than it asked for is stopped: ask for more if you know better.",
        "",
    ])  # fmt: skip


def _kind(one: Mapping[str, Any], size: str) -> str:
    asked = "" if one["requested_mem_kib"] is None else memory_text(one["requested_mem_kib"])
    ask, name = one["recommended_mem_kib"], printable(one["application"] or "any")[:24]
    whole = memory_text(ask * one["procs"])
    return f"{name:<24} {size} {one['n_jobs']:>8,} {asked:>12} {memory_text(ask):>12} {whole:>12}"


def memory_gib(gib: float | None) -> str:
    """An amount given in GiB, with a fitting unit."""
    return memory_text(None if gib is None else gib * 1024.0**2)


REQUEST_FILES = ("requests", PEOPLE, REQUESTS, letter)
MEMORY_FILES = ("memory", MEMORY_PEOPLE, MEMORY_KINDS, memory_letter)
"""The file of kinds, the columns of people and of kinds, and the letter."""
