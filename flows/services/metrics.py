"""Metrics of a folder of published tables (age, rows, jobs set aside, coverage, the last run) as OpenMetrics text.

Prometheus and node_exporter's textfile collector read it. Every metric is a gauge: node_exporter reads the older text
format, which has no state sets and other counters. Sources: OpenMetrics 1.0 (unit and name, order of the lines,
escapes, # EOF); Prometheus text format 0.0.4.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.services.published.published_folder import read_columns
from flows.services.run.run_record import LastRun, Reason, RunState, read_last_run
from flows.services.starts_table import start_errors
from pipeline.errors import InputError, printable
from pipeline.limits.status import READ, planned_weeks
from pipeline.publish import Manifest
from pipeline.publish.checks import LEVELS, blocked_versions
from pipeline.publish.manifest import read_manifest
from pipeline.publish.versions import stored_versions
from pipeline.tables import JOBS

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_LABEL_CHARS = 200
Labels = Mapping[str, str]


def metrics_text(metrics: Iterable[Sequence[str]]) -> str:
    """The lines of some metrics as OpenMetrics text, in the given order."""
    return "\n".join([*(line for lines in metrics for line in lines), "# EOF", ""])


def gauge(
    site: Labels, name: str, text: str, values: Iterable[tuple[Labels, float | None]] | float | None, unit: str = ""
) -> list[str]:
    """The lines of a metric of the site: of one value, or of several with labels of their own. Its unit ends its name.

    None is unknown, and is not written; a metric without a known value has no lines.
    """
    full = f"walltime_{name}_{unit}" if unit else f"walltime_{name}"
    several = values if isinstance(values, Iterable) else [({}, values)]
    lines = [f"{full}{_labels({**site, **own})} {_number(value)}" for own, value in several if value is not None]
    units = [f"# UNIT {full} {unit}"] if unit else []
    return [f"# TYPE {full} gauge", *units, f"# HELP {full} {_escaped(text)}", *lines] if lines else []


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(printable(str(value), _LABEL_CHARS))}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _number(value: float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(value)


def folder_metrics(folder: Path, now_s: float, last: LastRun | None = None) -> str:
    """The metrics of a folder at `now_s` (UTC epoch seconds); `last` is the run that ends now, if one does.

    What is not known is left out, so that a folder without published tables still has those of its last run.
    InputError where nothing is known: neither published tables nor a run. No table is read.
    """
    last = last or read_last_run(folder)
    try:
        manifest: Manifest | None = read_manifest(folder)
    except InputError:
        if last is None:
            raise
        manifest = None
    site = {"site": printable(manifest.site if manifest else last.site if last else "")}
    found: list[list[str]] = []
    if manifest is not None:
        found += [*_of_tables(manifest, site, now_s), *_of_cleaning(manifest, site), *_of_coverage(manifest, site)]
        found += [*_of_limits(manifest, site), *_of_starts(folder, site)]
    if last is not None:
        found += _of_run(last, site)
    return metrics_text([*found, *_of_store(folder, site)])


def _of_tables(manifest: Manifest, site: Labels, now_s: float) -> Iterator[list[str]]:
    code = {"version": manifest.folder, "run_id": manifest.run_id, "code": manifest.code}
    yield gauge(site, "published", "1 for the published version, with its run and the code that made it.", [(code, 1)])
    made = "When the published tables were made, UTC epoch."
    yield gauge(site, "tables_created_timestamp", made, manifest.created_s, "seconds")
    age = "Age of the published tables when this text was written; an alert should use when they were made."
    yield gauge(site, "tables_age", age, int(now_s) - manifest.created_s, "seconds")
    newest = "Latest end of a job that the tables know, UTC epoch."
    yield gauge(site, "newest_job_timestamp", newest, manifest.data_newest_end_s, "seconds")
    entries = [({"table": name}, entry) for name, entry in sorted(manifest.tables.items())]
    yield gauge(site, "table_rows", "Rows of a published table.", [(own, entry.rows) for own, entry in entries])
    sizes = [(own, entry.bytes) for own, entry in entries]
    yield gauge(site, "table_size", "Bytes of a published table's file.", sizes, "bytes")


def _of_cleaning(manifest: Manifest, site: Labels) -> Iterator[list[str]]:
    """Jobs and processor-seconds that cleaning kept and set aside; none for a version without its report."""
    report = manifest.report("clean")
    if report is None:
        return
    tallies: list[tuple[Labels, Mapping[str, Any]]] = [({"kept": "true", "reason": ""}, report["kept"])]
    tallies += [({"kept": "false", "reason": reason}, one) for reason, one in report["set_aside"].items()]
    text = "Jobs kept (no reason), and set aside by the first reason that holds."
    yield gauge(site, "jobs", text, [(own, one["rows"]) for own, one in tallies])
    work = [(own, one["proc_s"]) for own, one in tallies]
    yield gauge(site, "jobs_processor", "Processor-seconds of the same jobs.", work, "seconds")
    lines = (manifest.report("ingest") or {"set_aside": {}})["set_aside"].items()
    read = [({"reason": reason}, one["rows"]) for reason, one in lines]
    yield gauge(site, "lines_set_aside", "Lines of the logs that gave no job, by reason.", read)


def _of_coverage(manifest: Manifest, site: Labels) -> Iterator[list[str]]:
    """Shares of later jobs that intervals and quantiles held, each beside the share that it promises."""
    held: list[tuple[Labels, float | None]] = []
    promised: list[tuple[Labels, float | None]] = []
    for stage, levels in LEVELS.items():
        facts = (manifest.report(stage) or {}).get("facts", {})
        for name, level in levels:
            own = {"of": "predictions" if stage == "predict" else "estimates", "figure": name}
            held.append((own, facts.get(name)))
            promised.append((own, level if facts.get(name) is not None else None))
    text = "Share of later jobs that an interval or a quantile held."
    yield gauge(site, "coverage", text, held, "ratio")
    yield gauge(site, "coverage_nominal", "Share that the same figure promises.", promised, "ratio")


def _of_limits(manifest: Manifest, site: Labels) -> Iterator[list[str]]:
    """What shorter limits have done; none for a version without a table of jobs."""
    if JOBS.name not in manifest.tables:
        return
    weeks = planned_weeks(read_columns(manifest.path(JOBS.name), JOBS, READ))

    def total(name: str) -> int:
        return sum(row[name] for row in weeks)

    yield gauge(site, "planned_jobs", "Jobs that ended and were planned with a shorter limit.", total("n_planned"))
    yield gauge(site, "raised_jobs", "Of these the jobs whose limit had to be raised.", total("n_raised"))
    text = "Of these the jobs that Slurm ended before their request."
    yield gauge(site, "jobs_ended_by_limit", text, total("n_ended"))


def _of_starts(folder: Path, site: Labels) -> Iterator[list[str]]:
    """How well expected starts held; none where no round of the guard has answered a job that has started since."""
    errors = start_errors(folder)
    shares = {"q10": 0.1, "q50": 0.5, "q80": 0.8, "q95": 0.95} if errors else {}
    text = "Share of the jobs that started by this quantile of their first answer, of those of the last seven days."
    yield gauge(site, "starts_coverage", text, [({"figure": one}, errors[one]) for one in shares], "ratio")
    nominal = [({"figure": one}, share) for one, share in shares.items()]
    yield gauge(site, "starts_coverage_nominal", "Share that the same figure promises.", nominal, "ratio")
    text = "Median absolute error of the expected start (median) of these jobs."
    yield gauge(site, "starts_median_error", text, errors.get("median_error_s"), "seconds")
    yield gauge(site, "starts_scored", "Jobs that these figures are of.", errors.get("n_started"))


def _of_run(last: LastRun, site: Labels) -> Iterator[list[str]]:
    states = [({"state": str(state)}, int(state == last.state)) for state in RunState]
    yield gauge(site, "last_run_state", "1 for the state of the last run, 0 for the others.", states)
    reasons = [({"reason": str(one)}, int(one == last.reason)) for one in Reason]
    yield gauge(site, "last_run_exit_reason", "1 for why the last run ended, 0 for the others.", reasons)
    code = "Exit code of the last run; absent while it runs, and where a signal ended it."
    yield gauge(site, "last_run_exit_code", code, last.exit_code)
    yield gauge(site, "last_run_began_timestamp", "Begin of the last run, UTC epoch.", last.began_s, "seconds")
    yield gauge(site, "last_run_ended_timestamp", "End of the last run, UTC epoch.", last.ended_s, "seconds")
    took = None if last.ended_s is None else max(0.0, last.ended_s - last.began_s)
    yield gauge(site, "last_run_duration", "Wall-clock time of the last run.", took, "seconds")
    steps = [({"step": name}, step) for name, step in last.steps.items()]
    text = "Wall-clock time of a step of the last run."
    yield gauge(site, "step_duration", text, [(own, step.seconds) for own, step in steps], "seconds")
    yield gauge(site, "step_rows", "Rows that a step of the last run saw.", [(own, step.rows) for own, step in steps])
    reused = [(own, int(step.is_reused)) for own, step in steps]
    yield gauge(site, "step_reused", "1 where the step's result of an earlier run was used.", reused)


def _of_store(folder: Path, site: Labels) -> Iterator[list[str]]:
    blocked = blocked_versions(folder)
    yield gauge(site, "blocked_versions", "Versions on disk that a check blocked.", len(blocked))
    newest = max((created_s for created_s, _ in blocked), default=None)
    text = "When the newest blocked version was made, UTC epoch."
    yield gauge(site, "blocked_newest_timestamp", text, newest, "seconds")
    yield gauge(site, "versions", "Versions of the tables on disk.", len(stored_versions(folder)))
