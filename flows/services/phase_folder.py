"""The four steps from a trace to a prediction; each reads and writes the tables of one run's folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.services.files.os_errors import naming_path
from pipeline import tables
from pipeline.errors import InputError, printable
from pipeline.phases import INPUTS, input_of
from pipeline.phases.occurrences import make_plan, status_of
from pipeline.phases.phase_input import PhaseRules
from pipeline.phases.platforms import planned_times, predict_runtime, read_measured_times
from pipeline.schema import TableKind
from pipeline.storage import read_metadata, read_table, write_table

_TRUE_RUNTIME = "measured_s"
_SUFFIXES = (".gz", ".csv", ".otf2", ".bb", ".xz", ".parquet")
RULES = PhaseRules()


def phase_run(folder: Path) -> dict[str, str]:
    """What the tables of a folder were made from: `input`, `trace_id`, `procs` and, where it is known, `application`.

    The phases are written last, and say it. InputError where a folder has none.
    """
    path = _path(folder, tables.PHASES)
    if not path.exists():
        expected, do = "a folder that walltime phases find wrote", "run walltime phases find TRACE --out DIR first"
        raise InputError(printable(str(folder)), f"no {path.name}", expected, do)
    return read_metadata(path)


def phase_table(folder: Path, kind: TableKind) -> pa.Table:
    """A table of the folder; InputError where there is none."""
    return read_table(_path(folder, kind), kind)


def _path(folder: Path, kind: TableKind, suffix: str = "") -> Path:
    return folder / f"{kind.name}{suffix}.parquet"


def _write(path: Path, table: pa.Table, kind: TableKind, facts: Mapping[str, str] | None = None) -> None:
    with naming_path(path):
        write_table(path, table, kind, facts)


def find(path: Path, out: Path, *, application: str | None, times: Path | None = None) -> dict[str, Any]:
    """Find the phases of a run, and write them to `out`; a plan and times from before are removed there.

    `times` is a CSV of measured times of the intervals of basic-block vectors.
    """
    kind, trace_id = input_of(path), name_of(path)
    found = kind.extract(path, trace_id, RULES, times)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {printable(str(out))}", "a file", "a folder, new or of walltime phases find")
    # The phases go first and come last: a folder without them counts as empty.
    for of in (tables.PHASES, *tables.PHASE_TABLES):
        for old in out.glob(f"{of.name}*.parquet"):
            old.unlink()
    run = {"input": kind.name, "trace_id": trace_id, "procs": str(found.procs)}
    run |= {"application": application} if application else {}
    made = ((found.calls, tables.MPI_CALLS), (found.points, tables.PHASE_POINTS), (found.phases, tables.PHASES))
    for table, of in made:
        if table is not None:
            _write(_path(out, of), table, of, run)
    rows = found.phases.to_pylist()
    shares = [row["share"] for row in rows if row["is_relevant"]]
    return {
        **{name: fact for report in found.reports for name, fact in report.facts.items()},
        "input": kind.name, "trace_id": trace_id, "coverage": min(sum(shares), 1.0), "relevant": len(shares),
        "status": status_of(found.phases, RULES.plan), "folder": str(out), "phases": rows,
        "notes": tuple(note for report in found.reports for note in report.notes),
    }  # fmt: skip


def plan(folder: Path, budget: float | None, samples: int | None) -> dict[str, Any]:
    """Plan what to time for a budget (share of the run), or `samples` occurrences of each phase."""
    run = phase_run(folder)
    # So small a budget leaves the least number of samples.
    asked: dict[str, Any] = {"least_samples": samples, "budget": budget if samples is None else 1e-12}
    rules = replace(RULES.plan, **{name: value for name, value in asked.items() if value is not None})
    table, report = make_plan(phase_table(folder, tables.PHASES), phase_table(folder, tables.PHASE_POINTS), rules)
    _write(_path(folder, tables.PHASE_PLAN), table, tables.PHASE_PLAN)
    notes = report.notes if samples is None else ()
    return {**report.facts, "trace_id": run["trace_id"], "plan": table.to_pylist(), "notes": notes}


def time_platform(folder: Path, source: Path, platform: str) -> dict[str, Any]:
    """The times of the planned occurrences on a platform: from a second trace, or from a CSV of measured times."""
    run, times_path = phase_run(folder), _times_path(folder, platform)
    if not source.exists():
        raise InputError(printable(str(source)), "no such file", "a trace, or a CSV of times", "check the path")
    points = phase_table(folder, tables.PHASE_POINTS)
    if not _path(folder, tables.PHASE_PLAN).exists():
        raise InputError(printable(str(folder)), "no plan", "one", f"run walltime phases plan {folder} first")
    planned = phase_table(folder, tables.PHASE_PLAN)
    measured, runtime_s = read_measured_times(source, points, run["trace_id"], platform), None
    if measured is None:
        calls = phase_table(folder, tables.MPI_CALLS) if _path(folder, tables.MPI_CALLS).exists() else None
        times_s, runtime_s = INPUTS[run["input"]].times_of(points, calls, source)
        measured = planned_times(points, planned, times_s, platform)
    _write(times_path, measured, tables.PHASE_TIMES, {} if runtime_s is None else {_TRUE_RUNTIME: repr(runtime_s)})
    rows = measured.to_pylist()
    used = [row for row in rows if not row["is_control"]]
    wanted, there = (
        {(row["phase_id"], row["occurrence"], row["is_warmup"]) for row in some} for some in (planned.to_pylist(), used)
    )
    n_missing = len(wanted - there)
    notes = (f"{n_missing} planned occurrences have no time; those that have one count.",)
    return {
        "trace_id": run["trace_id"], "platform": platform, "timed": sum(not row["is_warmup"] for row in used),
        "warmups": sum(row["is_warmup"] for row in used), "set_s": sum(row["time_s"] for row in used),
        "measured_s": runtime_s, "missing": n_missing, "times": rows, "notes": notes if n_missing else (),
    }  # fmt: skip


def _times_path(folder: Path, platform: str) -> Path:
    """The file of a platform's times; InputError for a name that cannot be part of a file's name."""
    if not platform or not all(char.isalnum() or char in "-_." for char in platform) or platform.startswith("."):
        expected = "letters, digits, dots, hyphens and underscores"
        raise InputError(f"--platform {printable(platform, 60) or 'empty'}", "an unusable name", expected)
    return _path(folder, tables.PHASE_TIMES, f".{platform}")


def predict(folder: Path, platform: str) -> dict[str, Any]:
    """The runtime on a platform that was timed, which the folder keeps in place of an older one."""
    run, path = phase_run(folder), _times_path(folder, platform)
    if not path.exists():
        do = printable(f"run walltime phases time {folder} TRACE --platform {platform} first")
        raise InputError(f"--platform {printable(platform, 60)}", "no times", "times of this platform", do)
    true_s = read_metadata(path).get(_TRUE_RUNTIME)
    table, report = predict_runtime(
        phase_table(folder, tables.PHASES), read_table(path, tables.PHASE_TIMES), RULES, procs=int(run["procs"]),
        measured_s=float(true_s) if true_s else None, application=run.get("application"),
    )  # fmt: skip
    kind, (row,) = tables.PLATFORM_PREDICTIONS, table.to_pylist()
    kept = phase_table(folder, kind).to_pylist() if _path(folder, kind).exists() else []
    newest = {one["platform"]: one for one in (*kept, row)}
    rows = [newest[name] for name in sorted(newest)]
    _write(_path(folder, kind), pa.Table.from_pylist(rows, kind.schema()), kind)
    return {**row, "notes": report.notes}


def platform_answer(
    folder: Path, platform: str, application: str | None = None, procs: int | None = None
) -> dict[str, Any]:
    """The predictions for a platform, of an application and processors where they are given, in plain values.

    InputError where the folder has none.
    """
    path = _path(folder, tables.PLATFORM_PREDICTIONS)
    if not path.exists():
        do = "run walltime phases predict DIR, and give its DIR"
        raise InputError(printable(str(folder)), "no predictions for other platforms", f"a file {path.name}", do)
    rows = read_table(path, tables.PLATFORM_PREDICTIONS).to_pylist()
    asked = {"platform": platform, "application": application, "procs": procs}
    wanted = {name: value for name, value in asked.items() if value is not None}
    found = [row for row in rows if wanted.items() <= row.items()]
    if not found:
        words = printable(", ".join(f"{name} {value}" for name, value in wanted.items()))
        known = printable(", ".join(sorted(row["platform"] for row in rows)))
        raise InputError(printable(str(path)), f"no prediction for {words}", f"one of the platforms {known}")
    return {"platform": platform, "predictions": found}


def name_of(path: Path) -> str:
    """The trace's name: its file's, without suffixes of formats; an archive's folder for `traces.otf2`."""
    name = path.resolve().parent.name if path.name == "traces.otf2" else path.name
    while name.endswith(_SUFFIXES):
        name = name.rpartition(".")[0]
    return printable(name or "trace", 200)
