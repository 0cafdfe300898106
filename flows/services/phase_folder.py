"""What the commands on phases do, in one folder: a trace in, phases, a plan, times and a prediction out."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.services.files.os_errors import naming_path
from pipeline.errors import InputError, printable
from pipeline.phase_tables import (
    MPI_CALLS,
    PHASE_PLAN,
    PHASE_POINTS,
    PHASE_TABLES,
    PHASE_TIMES,
    PHASES,
    PLATFORM_PREDICTIONS,
)
from pipeline.phases import input_named, input_of
from pipeline.phases.occurrences import make_plan, status_of
from pipeline.phases.phase_input import LITERAL, ExpansionRules, PhaseRules
from pipeline.phases.platform_prediction import predict_runtime
from pipeline.phases.platform_times import planned_times, read_measured_times
from pipeline.schema import TableKind
from pipeline.storage import read_metadata, read_table, write_table, write_text

KINDS = {kind.name: kind for kind in PHASE_TABLES}
DESCRIPTION, FILE = "phase_run.json", f"{PLATFORM_PREDICTIONS.name}.parquet"
_TRUE_RUNTIME = "measured_s"


@dataclass(frozen=True, slots=True)
class PhaseFolder:
    """A folder that `walltime phases find` wrote: the kind of its input, the trace's name, processors, and rules."""

    path: Path
    input_name: str
    trace_id: str
    procs: int
    application: str | None
    rules: PhaseRules

    def read(self, kind: TableKind) -> pa.Table:
        """A table of the folder; InputError where there is none."""
        return read_table(self.path / f"{kind.name}.parquet", kind)

    def kept(self) -> dict[str, pa.Table]:
        """The tables that belong to the kind of input alone: the calls of a trace."""
        has_calls = (self.path / f"{MPI_CALLS.name}.parquet").exists()
        return {MPI_CALLS.name: self.read(MPI_CALLS)} if has_calls else {}

    def plan(self) -> pa.Table:
        """The plan; InputError where none was made."""
        if not (self.path / f"{PHASE_PLAN.name}.parquet").exists():
            raise InputError(printable(str(self.path)), "no plan", "one", f"run walltime phases plan {self.path} first")
        return self.read(PHASE_PLAN)

    def write_times(self, times: pa.Table, platform: str, measured_s: float | None) -> Path:
        """Write the times of a platform, with its true runtime where it is known."""
        facts = {} if measured_s is None else {_TRUE_RUNTIME: repr(measured_s)}
        return self.write(times, PHASE_TIMES, self._times_path(platform), facts)

    def times(self, platform: str) -> tuple[pa.Table, float | None]:
        """The times of a platform, and its true runtime (s) or None; InputError where it was not timed."""
        path = self._times_path(platform)
        if not path.exists():
            do = f"run walltime phases time {self.path} TRACE --platform {platform} first"
            where = f"--platform {printable(platform, 60)}"
            raise InputError(where, "no times", "times of this platform", printable(do))
        known = read_metadata(path).get(_TRUE_RUNTIME)
        return read_table(path, PHASE_TIMES), float(known) if known else None

    def write(
        self, table: pa.Table, kind: TableKind, path: Path | None = None, facts: dict[str, str] | None = None
    ) -> Path:
        """Write a table of the folder, whole or not at all; returns its path."""
        path = path or self.path / f"{kind.name}.parquet"
        with naming_path(path):
            return write_table(path, table, kind, facts)

    def _times_path(self, platform: str) -> Path:
        return self.path / f"{PHASE_TIMES.name}.{check_platform(platform)}.parquet"


def describe(folder: PhaseFolder) -> Path:
    """Write what the folder's tables were made from."""
    facts = {
        "input": folder.input_name, "trace_id": folder.trace_id, "procs": folder.procs,
        "application": folder.application, "settings": asdict(folder.rules),
    }  # fmt: skip
    with naming_path(folder.path):
        return write_text(folder.path / DESCRIPTION, json.dumps(facts, indent=1) + "\n")


def open_folder(path: Path) -> PhaseFolder:
    """The folder that `walltime phases find` wrote; InputError where it is none."""
    expected, do = "a folder that walltime phases find wrote", "run walltime phases find TRACE --out DIR first"
    try:
        facts: dict[str, Any] = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        rules = PhaseRules.from_dict(facts["settings"])
        named = (str(facts["input"]), str(facts["trace_id"]), int(facts["procs"]), facts["application"])
    except OSError:
        raise InputError(printable(str(path)), f"no {DESCRIPTION}", expected, do) from None
    except (ValueError, KeyError, TypeError):
        raise InputError(printable(str(path / DESCRIPTION)), "a damaged file", expected, do) from None
    return PhaseFolder(path, *named, rules)


def check_platform(platform: str) -> str:
    """The platform's name; InputError for one that cannot be part of a file's name."""
    if not platform or not all(char.isalnum() or char in "-_." for char in platform) or platform.startswith("."):
        expected = "letters, digits, dots, hyphens and underscores"
        raise InputError(f"--platform {printable(platform, 60) or 'empty'}", "an unusable name", expected)
    return platform


def put_prediction(folder: Path, row: pa.Table) -> Path:
    """Add a prediction to a folder, in place of an older one of the same run and platform; sorted by both."""
    path = folder / FILE
    if path.exists():
        before = read_table(path, PLATFORM_PREDICTIONS)
        rows = {(one["trace_id"], one["platform"]): one for one in (*before.to_pylist(), *row.to_pylist())}
        row = pa.Table.from_pylist([rows[key] for key in sorted(rows)], PLATFORM_PREDICTIONS.schema())
    with naming_path(path):
        return write_table(path, PLATFORM_PREDICTIONS.check(row), PLATFORM_PREDICTIONS)


def platform_answer(
    folder: Path, platform: str, application: str | None = None, procs: int | None = None
) -> dict[str, Any]:
    """The predictions for a platform, of an application and processors where they are given, in plain values.

    InputError where the folder has none.
    """
    path = folder / FILE
    if not path.exists():
        do = "run walltime phases predict, with --publish for a folder of a run"
        raise InputError(printable(str(folder)), "no predictions for other platforms", f"a file {FILE}", do)
    rows = read_table(path, PLATFORM_PREDICTIONS).to_pylist()
    wanted = {"platform": platform, "application": application, "procs": procs}
    found = [row for row in rows if all(value is None or row[name] == value for name, value in wanted.items())]
    if not found:
        asked = ", ".join(f"{name} {printable(str(value), 60)}" for name, value in wanted.items() if value is not None)
        known = sorted({printable(row["platform"], 60) for row in rows})
        raise InputError(printable(str(path)), f"no prediction for {asked}", f"one of the platforms {', '.join(known)}")
    return {"platform": platform, "predictions": found}


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
