"""Metrics of a folder of published tables (age, rows, jobs set aside, coverage, the last run) as OpenMetrics text.

Prometheus and node_exporter's textfile collector read it. Every metric is a gauge: node_exporter reads the older text
format, which has no state sets and other counters. prometheus_client writes the text.
"""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

from prometheus_client import Metric
from prometheus_client.openmetrics.exposition import generate_latest

from flows.services.published.published_folder import read_columns
from flows.services.run_record import LastRun, Reason, RunState, read_last_run
from flows.services.when import start_errors
from pipeline.errors import InputError, printable
from pipeline.limits.status import READ, planned_weeks
from pipeline.publish import Manifest
from pipeline.publish.checks import LEVELS
from pipeline.publish.manifest import read_manifest
from pipeline.publish.versions import blocked_versions, stored_versions
from pipeline.tables import JOBS

_LABEL_CHARS = 200
Labels = Mapping[str, str]
Values = Iterable[tuple[Labels, float | None]] | float | None


def metrics_text(metrics: Iterable[Metric]) -> str:
    """Those metrics that have a value as OpenMetrics text, in the given order."""
    known = [one for one in metrics if one.samples]
    return str(generate_latest(SimpleNamespace(collect=lambda: known)), "utf-8")  # type: ignore[no-untyped-call]


def gauge(site: Labels, name: str, text: str, values: Values, unit: str = "") -> Metric:
    """A metric of the site: of one value, or of several with labels of their own; None is unknown, and is left out."""
    found = Metric(f"walltime_{name}", text, "gauge", unit)
    for own, value in values if isinstance(values, Iterable) else [({}, values)]:
        if value is not None:
            labels = {label: printable(str(one), _LABEL_CHARS) for label, one in {**site, **own}.items()}
            found.add_sample(found.name, labels, value)
    return found


def folder_metrics(folder: Path, now_s: float, last: LastRun | None = None) -> str:
    """The metrics of a folder at `now_s` (UTC epoch seconds); `last` is the run that ends now, if one does.

    What is not known is left out, so that a folder without published tables still has those of its last run.
    InputError where nothing is known: neither published tables nor a run. Their units and meanings are in metrics.tsv.
    """
    last, manifest = last or read_last_run(folder), None
    with nullcontext() if last is None else suppress(InputError):
        manifest = read_manifest(folder)
    blocked = blocked_versions(folder)
    found: dict[str, Values] = {
        "blocked_versions": len(blocked), "versions": len(stored_versions(folder)),
        "blocked_newest_timestamp": max((created_s for created_s, _ in blocked), default=None),
    }  # fmt: skip
    if manifest is not None:
        entries = [({"table": name}, entry) for name, entry in sorted(manifest.tables.items())]
        found |= {
            "published": [({"version": manifest.folder, "run_id": manifest.run_id, "code": manifest.code}, 1)],
            "tables_created_timestamp": manifest.created_s,
            "tables_age": int(now_s) - manifest.created_s,
            "newest_job_timestamp": manifest.data_newest_end_s,
            "table_rows": [(own, entry.rows) for own, entry in entries],
            "table_size": [(own, entry.bytes) for own, entry in entries],
            **_of_jobs(manifest),
        }
        # None where no round of the guard has answered a job that has started since.
        errors = start_errors(folder)
        shares = {"q10": 0.1, "q50": 0.5, "q80": 0.8, "q95": 0.95} if errors else {}
        found |= {
            "starts_coverage": [({"figure": one}, errors[one]) for one in shares],
            "starts_coverage_nominal": [({"figure": one}, share) for one, share in shares.items()],
            "starts_median_error": errors.get("median_error_s"),
            "starts_scored": errors.get("n_started"),
        }
    if last is not None:
        steps = [({"step": name}, step) for name, step in last.steps.items()]
        found |= {
            "last_run_state": [({"state": state}, int(state == last.state)) for state in get_args(RunState)],
            "last_run_exit_reason": [({"reason": one}, int(one == last.reason)) for one in get_args(Reason)],
            "last_run_exit_code": last.exit_code,
            "last_run_began_timestamp": last.began_s,
            "last_run_ended_timestamp": last.ended_s,
            "last_run_duration": None if last.ended_s is None else max(0.0, last.ended_s - last.began_s),
            "step_duration": [(own, step.seconds) for own, step in steps],
            "step_rows": [(own, step.rows) for own, step in steps],
            "step_reused": [(own, int(step.is_reused)) for own, step in steps],
        }
    site = {"site": printable(manifest.site if manifest else last.site if last else "")}
    declared = Path(__file__).with_name("metrics.tsv").read_text(encoding="utf-8").splitlines()[1:]
    named = (line.split("\t") for line in declared)
    return metrics_text(gauge(site, name, text, found.get(name), unit) for name, unit, text in named)


def _of_jobs(manifest: Manifest) -> dict[str, Values]:
    """What cleaning kept and set aside, what intervals and quantiles held beside what they promise, and what shorter
    limits have done, as far as the version has the reports and jobs.
    """
    found: dict[str, Values] = {}
    if (clean := manifest.report("clean")) is not None:
        tallies: list[tuple[Labels, Mapping[str, Any]]] = [({"kept": "true", "reason": ""}, clean["kept"])]
        tallies += [({"kept": "false", "reason": reason}, one) for reason, one in clean["set_aside"].items()]
        lines = (manifest.report("ingest") or {"set_aside": {}})["set_aside"].items()
        found |= {
            "jobs": [(own, one["rows"]) for own, one in tallies],
            "jobs_processor": [(own, one["proc_s"]) for own, one in tallies],
            "lines_set_aside": [({"reason": reason}, one["rows"]) for reason, one in lines],
        }
    known = [
        ({"of": "predictions" if stage == "predict" else "estimates", "figure": name}, share, level)
        for stage, levels in LEVELS.items() for name, level in levels
        if (share := (manifest.report(stage) or {}).get("facts", {}).get(name)) is not None
    ]  # fmt: skip
    found["coverage"] = [(own, share) for own, share, _ in known]
    found["coverage_nominal"] = [(own, level) for own, _, level in known]
    if JOBS.name in manifest.tables:
        weeks = planned_weeks(read_columns(manifest.path(JOBS.name), JOBS, READ))
        columns = {"planned_jobs": "n_planned", "raised_jobs": "n_raised", "jobs_ended_by_limit": "n_ended"}
        found |= {metric: sum(row[column] for row in weeks) for metric, column in columns.items()}
    return found
