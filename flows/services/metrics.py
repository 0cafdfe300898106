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
from flows.services.when import start_errors
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


def gauge(site: Labels, name: str, text: str, values: "Values", unit: str = "") -> list[str]:
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


Values = Iterable[tuple[Labels, float | None]] | float | None
Metric = tuple[str, str, Values] | tuple[str, str, Values, str]
"""Name, help and values of a gauge, and its unit where it has one."""


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
    found: list[Metric] = []
    if manifest is not None:
        found += [*_of_tables(manifest, now_s), *_of_cleaning(manifest), *_of_coverage(manifest)]
        found += [*_of_limits(manifest), *_of_starts(folder)]
    if last is not None:
        found += _of_run(last)
    return metrics_text(gauge(site, *one) for one in (*found, *_of_store(folder)))


def _of_tables(manifest: Manifest, now_s: float) -> Iterator[Metric]:
    code = {"version": manifest.folder, "run_id": manifest.run_id, "code": manifest.code}
    yield "published", "1 for the published version, with its run and the code that made it.", [(code, 1)]
    made_s = manifest.created_s
    yield "tables_created_timestamp", "When the published tables were made, UTC epoch.", made_s, "seconds"
    text = "Age of the published tables when this text was written; an alert should use when they were made."
    yield "tables_age", text, int(now_s) - made_s, "seconds"
    text = "Latest end of a job that the tables know, UTC epoch."
    yield "newest_job_timestamp", text, manifest.data_newest_end_s, "seconds"
    entries = [({"table": name}, entry) for name, entry in sorted(manifest.tables.items())]
    yield "table_rows", "Rows of a published table.", [(own, entry.rows) for own, entry in entries]
    yield "table_size", "Bytes of a published table's file.", [(own, entry.bytes) for own, entry in entries], "bytes"


def _of_cleaning(manifest: Manifest) -> Iterator[Metric]:
    """Jobs and processor-seconds that cleaning kept and set aside; none for a version without its report."""
    report = manifest.report("clean")
    if report is None:
        return
    tallies: list[tuple[Labels, Mapping[str, Any]]] = [({"kept": "true", "reason": ""}, report["kept"])]
    tallies += [({"kept": "false", "reason": reason}, one) for reason, one in report["set_aside"].items()]
    text = "Jobs kept (no reason), and set aside by the first reason that holds."
    yield "jobs", text, [(own, one["rows"]) for own, one in tallies]
    work = [(own, one["proc_s"]) for own, one in tallies]
    yield "jobs_processor", "Processor-seconds of the same jobs.", work, "seconds"
    lines = (manifest.report("ingest") or {"set_aside": {}})["set_aside"].items()
    read = [({"reason": reason}, one["rows"]) for reason, one in lines]
    yield "lines_set_aside", "Lines of the logs that gave no job, by reason.", read


def _of_coverage(manifest: Manifest) -> Iterator[Metric]:
    """Shares of later jobs that intervals and quantiles held, each beside the share that it promises."""
    held: list[tuple[Labels, float | None]] = []
    promised: list[tuple[Labels, float | None]] = []
    for stage, levels in LEVELS.items():
        facts = (manifest.report(stage) or {}).get("facts", {})
        for name, level in levels:
            own = {"of": "predictions" if stage == "predict" else "estimates", "figure": name}
            held.append((own, facts.get(name)))
            promised.append((own, level if facts.get(name) is not None else None))
    yield "coverage", "Share of later jobs that an interval or a quantile held.", held, "ratio"
    yield "coverage_nominal", "Share that the same figure promises.", promised, "ratio"


def _of_limits(manifest: Manifest) -> Iterator[Metric]:
    """What shorter limits have done; none for a version without a table of jobs."""
    if JOBS.name not in manifest.tables:
        return
    weeks = planned_weeks(read_columns(manifest.path(JOBS.name), JOBS, READ))
    for metric, column, text in (
        ("planned_jobs", "n_planned", "Jobs that ended and were planned with a shorter limit."),
        ("raised_jobs", "n_raised", "Of these the jobs whose limit had to be raised."),
        ("jobs_ended_by_limit", "n_ended", "Of these the jobs that Slurm ended before their request."),
    ):
        yield metric, text, sum(row[column] for row in weeks)


def _of_starts(folder: Path) -> Iterator[Metric]:
    """How well expected starts held; none where no round of the guard has answered a job that has started since."""
    errors = start_errors(folder)
    shares = {"q10": 0.1, "q50": 0.5, "q80": 0.8, "q95": 0.95} if errors else {}
    text = "Share of the jobs that started by this quantile of their first answer, of those of the last seven days."
    yield "starts_coverage", text, [({"figure": one}, errors[one]) for one in shares], "ratio"
    nominal = [({"figure": one}, share) for one, share in shares.items()]
    yield "starts_coverage_nominal", "Share that the same figure promises.", nominal, "ratio"
    text = "Median absolute error of the expected start (median) of these jobs."
    yield "starts_median_error", text, errors.get("median_error_s"), "seconds"
    yield "starts_scored", "Jobs that these figures are of.", errors.get("n_started")


def _of_run(last: LastRun) -> Iterator[Metric]:
    states = [({"state": str(state)}, int(state == last.state)) for state in RunState]
    yield "last_run_state", "1 for the state of the last run, 0 for the others.", states
    reasons = [({"reason": str(one)}, int(one == last.reason)) for one in Reason]
    yield "last_run_exit_reason", "1 for why the last run ended, 0 for the others.", reasons
    text = "Exit code of the last run; absent while it runs, and where a signal ended it."
    yield "last_run_exit_code", text, last.exit_code
    yield "last_run_began_timestamp", "Begin of the last run, UTC epoch.", last.began_s, "seconds"
    yield "last_run_ended_timestamp", "End of the last run, UTC epoch.", last.ended_s, "seconds"
    took_s = None if last.ended_s is None else max(0.0, last.ended_s - last.began_s)
    yield "last_run_duration", "Wall-clock time of the last run.", took_s, "seconds"
    steps = [({"step": name}, step) for name, step in last.steps.items()]
    text = "Wall-clock time of a step of the last run."
    yield "step_duration", text, [(own, step.seconds) for own, step in steps], "seconds"
    yield "step_rows", "Rows that a step of the last run saw.", [(own, step.rows) for own, step in steps]
    reused = [(own, int(step.is_reused)) for own, step in steps]
    yield "step_reused", "1 where the step's result of an earlier run was used.", reused


def _of_store(folder: Path) -> Iterator[Metric]:
    blocked = blocked_versions(folder)
    yield "blocked_versions", "Versions on disk that a check blocked.", len(blocked)
    newest_s = max((created_s for created_s, _ in blocked), default=None)
    yield "blocked_newest_timestamp", "When the newest blocked version was made, UTC epoch.", newest_s, "seconds"
    yield "versions", "Versions of the tables on disk.", len(stored_versions(folder))
