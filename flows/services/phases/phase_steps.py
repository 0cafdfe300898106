"""The four steps from a trace to a prediction; each reads and writes the tables of one folder."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flows.services.phases.phase_folder import (
    DESCRIPTION,
    KINDS,
    PhaseFolder,
    check_platform,
    describe,
    open_folder,
    put_prediction,
)
from pipeline.errors import InputError, printable
from pipeline.phase_tables import PHASE_PLAN, PHASE_POINTS, PHASES
from pipeline.phases import input_named, input_of
from pipeline.phases.occurrences import make_plan, status_of
from pipeline.phases.phase_input import LITERAL, ExpansionRules, PhaseRules
from pipeline.phases.platform_prediction import predict_runtime
from pipeline.phases.platform_times import planned_times, read_measured_times

_SUFFIXES = (".gz", ".csv", ".otf2", ".bb", ".xz", ".parquet")


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step's figures in plain values, its rows, and what to say."""

    facts: dict[str, Any]
    rows: list[dict[str, Any]]
    notes: tuple[str, ...]


def find(path: Path, out: Path, *, literal: bool, application: str | None, times: Path | None = None) -> StepResult:
    """Find the phases of a run, and write them to `out`; a plan and times from before are removed there.

    `times` is a CSV of measured times of the intervals of basic-block vectors.
    """
    kind, trace_id = input_of(path), name_of(path)
    rules = LITERAL if literal else PhaseRules(expansion=ExpansionRules(form=kind.expansion))
    found = kind.extract(path, trace_id, rules, times)
    folder = PhaseFolder(out, kind.name, trace_id, found.procs, application, rules)
    _clear(out)
    for name, table in found.kept.items():
        folder.write(table, KINDS[name])
    folder.write(found.points, PHASE_POINTS)
    folder.write(found.phases, PHASES)
    describe(folder)
    facts = {name: fact for report in found.reports for name, fact in report.facts.items()}
    notes = tuple(note for report in found.reports for note in report.notes)
    relevant = [row for row in found.phases.to_pylist() if row["is_relevant"]]
    status = status_of(found.phases, rules.plan)
    coverage = min(sum(row["share"] for row in relevant), 1.0)
    facts |= {"input": kind.name, "trace_id": trace_id, "coverage": coverage, "relevant": len(relevant)}
    return StepResult(facts | {"status": status, "folder": str(out)}, found.phases.to_pylist(), notes)


def plan(path: Path, budget: float | None, samples: int | None, warmup: int | None) -> StepResult:
    """Plan what to time for a budget (share of the run), or `samples` occurrences of each phase."""
    folder = open_folder(path)
    changed: dict[str, Any] = {} if warmup is None else {"warmup": warmup}
    if budget is not None:
        changed["budget"] = budget
    if samples is not None:
        # So small a budget leaves the least number of samples.
        changed |= {"least_samples": samples, "budget": 1e-12}
    rules = replace(folder.rules.plan, **changed)
    table, report = make_plan(folder.read(PHASES), folder.read(PHASE_POINTS), rules)
    folder.write(table, PHASE_PLAN)
    notes = report.notes if samples is None else ()
    return StepResult(dict(report.facts) | {"trace_id": folder.trace_id}, table.to_pylist(), notes)


def time_platform(path: Path, source: Path, platform: str) -> StepResult:
    """The times of the planned occurrences on a platform: from a second trace, or from a CSV of measured times."""
    folder = open_folder(path)
    check_platform(platform)
    if not source.exists():
        raise InputError(printable(str(source)), "no such file", "a trace, or a CSV of times", "check the path")
    points, planned = folder.read(PHASE_POINTS), folder.plan()
    measured = read_measured_times(source, points, folder.trace_id, platform)
    runtime_s = None
    if measured is None:
        kind = input_named(folder.input_name)
        target = kind.times_of(points, folder.kept(), source)
        measured, runtime_s = planned_times(points, planned, target.times_s, platform), target.runtime_s
    folder.write_times(measured, platform, runtime_s)
    rows = measured.to_pylist()
    used = [row for row in rows if not row["is_control"]]
    facts: dict[str, Any] = {
        "trace_id": folder.trace_id, "platform": platform, "timed": sum(not row["is_warmup"] for row in used),
        "warmups": sum(row["is_warmup"] for row in used), "set_s": sum(row["time_s"] for row in used),
        "measured_s": runtime_s,
    }  # fmt: skip
    wanted = {(row["phase_id"], row["occurrence"], row["is_warmup"]) for row in planned.to_pylist()}
    facts["missing"] = len(wanted - {(row["phase_id"], row["occurrence"], row["is_warmup"]) for row in used})
    notes = (f"{facts['missing']} planned occurrences have no time; those that have one count.",)
    return StepResult(facts, rows, notes if facts["missing"] else ())


def predict(path: Path, platform: str, publish: Path | None) -> StepResult:
    """The runtime on a platform that was timed; kept in the folder, and in `publish` where that is given."""
    folder = open_folder(path)
    times, measured_s = folder.times(platform)
    table, report = predict_runtime(
        folder.read(PHASES), times, folder.rules, procs=folder.procs, measured_s=measured_s,
        application=folder.application,
    )  # fmt: skip
    for where in (path, *([publish] if publish else [])):
        put_prediction(where, table)
    (row,) = table.to_pylist()
    return StepResult(row, [row], report.notes)


def name_of(path: Path) -> str:
    """The trace's name: its file's, without suffixes of formats; an archive's folder for `traces.otf2`."""
    name = path.name
    if name == "traces.otf2":
        name = path.resolve().parent.name
    while name.endswith(_SUFFIXES):
        name = name.rpartition(".")[0]
    return printable(name or "trace", 200)


def _clear(out: Path) -> None:
    """Remove what belongs to another run's phases, its description first: without one a folder counts as empty."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {printable(str(out))}", "a file", "a folder, new or of walltime phases find")
    (out / DESCRIPTION).unlink(missing_ok=True)
    for name in KINDS:
        for old in out.glob(f"{name}*.parquet"):
            old.unlink()
