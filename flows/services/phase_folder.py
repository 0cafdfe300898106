"""The four steps from a trace to a prediction; each reads and writes the tables of one run's folder."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from flows.services.files.os_errors import naming_path
from pipeline import phase_tables as tables
from pipeline.errors import InputError, printable
from pipeline.phases import INPUTS, input_of
from pipeline.phases.occurrences import make_plan, status_of
from pipeline.phases.phase_input import PhaseRules
from pipeline.phases.platforms import planned_times, predict_runtime, read_measured_times
from pipeline.report import parsed_json, read_dataclass
from pipeline.schema import TableKind
from pipeline.storage import read_metadata, read_table, write_table, write_text

DESCRIPTION = "phase_run.json"
_TRUE_RUNTIME = "measured_s"
_SUFFIXES = (".gz", ".csv", ".otf2", ".bb", ".xz", ".parquet")


@dataclass(frozen=True, slots=True)
class PhaseRun:
    """What the tables of a folder were made from: the kind of input, the trace's name, processors, and rules."""

    input: Literal["mpi", "bbv"]
    trace_id: str
    procs: int
    application: str | None
    settings: PhaseRules


def phase_run(folder: Path) -> PhaseRun:
    """The run of a folder that `walltime phases find` wrote; InputError where it is none."""
    expected, do = "a folder that walltime phases find wrote", "run walltime phases find TRACE --out DIR first"
    try:
        return read_dataclass(PhaseRun, parsed_json((folder / DESCRIPTION).read_text(encoding="utf-8")))
    except OSError:
        raise InputError(printable(str(folder)), f"no {DESCRIPTION}", expected, do) from None
    except (ValueError, TypeError):
        raise InputError(printable(str(folder / DESCRIPTION)), "a damaged file", expected, do) from None


def phase_table(folder: Path, kind: TableKind) -> pa.Table:
    """A table of the folder; InputError where there is none."""
    return read_table(_path(folder, kind), kind)


def _path(folder: Path, kind: TableKind, suffix: str = "") -> Path:
    return folder / f"{kind.name}{suffix}.parquet"


def _write(path: Path, table: pa.Table, kind: TableKind, facts: dict[str, str] | None = None) -> None:
    with naming_path(path):
        write_table(path, table, kind, facts)


def find(path: Path, out: Path, *, application: str | None, times: Path | None = None) -> dict[str, Any]:
    """Find the phases of a run, and write them to `out`; a plan and times from before are removed there.

    `times` is a CSV of measured times of the intervals of basic-block vectors.
    """
    kind, trace_id, rules = input_of(path), name_of(path), PhaseRules()
    found = kind.extract(path, trace_id, rules, times)
    _clear(out)
    made = ((found.calls, tables.MPI_CALLS), (found.points, tables.PHASE_POINTS), (found.phases, tables.PHASES))
    for table, of in made:
        if table is not None:
            _write(_path(out, of), table, of)
    with naming_path(out):
        run = PhaseRun(kind.name, trace_id, found.procs, application, rules)
        write_text(out / DESCRIPTION, json.dumps(asdict(run), indent=1) + "\n")
    rows = found.phases.to_pylist()
    shares = [row["share"] for row in rows if row["is_relevant"]]
    return {
        **{name: fact for report in found.reports for name, fact in report.facts.items()},
        "input": kind.name, "trace_id": trace_id, "coverage": min(sum(shares), 1.0), "relevant": len(shares),
        "status": status_of(found.phases, rules.plan), "folder": str(out), "phases": rows,
        "notes": tuple(note for report in found.reports for note in report.notes),
    }  # fmt: skip


def plan(folder: Path, budget: float | None, samples: int | None, warmup: int | None) -> dict[str, Any]:
    """Plan what to time for a budget (share of the run), or `samples` occurrences of each phase."""
    run = phase_run(folder)
    # So small a budget leaves the least number of samples.
    asked: dict[str, Any] = {"warmup": warmup, "least_samples": samples, "budget": budget if samples is None else 1e-12}
    rules = replace(run.settings.plan, **{name: value for name, value in asked.items() if value is not None})
    table, report = make_plan(phase_table(folder, tables.PHASES), phase_table(folder, tables.PHASE_POINTS), rules)
    _write(_path(folder, tables.PHASE_PLAN), table, tables.PHASE_PLAN)
    notes = report.notes if samples is None else ()
    return {**report.facts, "trace_id": run.trace_id, "plan": table.to_pylist(), "notes": notes}


def time_platform(folder: Path, source: Path, platform: str) -> dict[str, Any]:
    """The times of the planned occurrences on a platform: from a second trace, or from a CSV of measured times."""
    run, times_path = phase_run(folder), _times_path(folder, platform)
    if not source.exists():
        raise InputError(printable(str(source)), "no such file", "a trace, or a CSV of times", "check the path")
    points = phase_table(folder, tables.PHASE_POINTS)
    if not _path(folder, tables.PHASE_PLAN).exists():
        raise InputError(printable(str(folder)), "no plan", "one", f"run walltime phases plan {folder} first")
    planned = phase_table(folder, tables.PHASE_PLAN)
    measured, runtime_s = read_measured_times(source, points, run.trace_id, platform), None
    if measured is None:
        calls = phase_table(folder, tables.MPI_CALLS) if _path(folder, tables.MPI_CALLS).exists() else None
        times_s, runtime_s = INPUTS[run.input].times_of(points, calls, source)
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
        "trace_id": run.trace_id, "platform": platform, "timed": sum(not row["is_warmup"] for row in used),
        "warmups": sum(row["is_warmup"] for row in used), "set_s": sum(row["time_s"] for row in used),
        "measured_s": runtime_s, "missing": n_missing, "times": rows, "notes": notes if n_missing else (),
    }  # fmt: skip


def _times_path(folder: Path, platform: str) -> Path:
    """The file of a platform's times; InputError for a name that cannot be part of a file's name."""
    if not platform or not all(char.isalnum() or char in "-_." for char in platform) or platform.startswith("."):
        expected = "letters, digits, dots, hyphens and underscores"
        raise InputError(f"--platform {printable(platform, 60) or 'empty'}", "an unusable name", expected)
    return _path(folder, tables.PHASE_TIMES, f".{platform}")


def predict(folder: Path, platform: str, publish: Path | None) -> dict[str, Any]:
    """The runtime on a platform that was timed; kept in the folder, and in `publish` where that is given."""
    run, path = phase_run(folder), _times_path(folder, platform)
    if not path.exists():
        do = printable(f"run walltime phases time {folder} TRACE --platform {platform} first")
        raise InputError(f"--platform {printable(platform, 60)}", "no times", "times of this platform", do)
    true_s = read_metadata(path).get(_TRUE_RUNTIME)
    table, report = predict_runtime(
        phase_table(folder, tables.PHASES), read_table(path, tables.PHASE_TIMES), run.settings, procs=run.procs,
        measured_s=float(true_s) if true_s else None, application=run.application,
    )  # fmt: skip
    # An older prediction of the same run and platform goes.
    for where in filter(None, (folder, publish)):
        path, rows = _path(where, tables.PLATFORM_PREDICTIONS), table.to_pylist()
        if path.exists():
            rows = [*read_table(path, tables.PLATFORM_PREDICTIONS).to_pylist(), *rows]
        newest = {(row["trace_id"], row["platform"]): row for row in rows}
        kept = pa.Table.from_pylist([newest[key] for key in sorted(newest)], tables.PLATFORM_PREDICTIONS.schema())
        _write(path, kept, tables.PLATFORM_PREDICTIONS)
    return {**table.to_pylist()[0], "notes": report.notes}


def platform_answer(
    folder: Path, platform: str, application: str | None = None, procs: int | None = None
) -> dict[str, Any]:
    """The predictions for a platform, of an application and processors where they are given, in plain values.

    InputError where the folder has none.
    """
    path = _path(folder, tables.PLATFORM_PREDICTIONS)
    if not path.exists():
        do = "run walltime phases predict, with --publish for a folder of a run"
        raise InputError(printable(str(folder)), "no predictions for other platforms", f"a file {path.name}", do)
    rows = read_table(path, tables.PLATFORM_PREDICTIONS).to_pylist()
    wanted = {"platform": platform, "application": application, "procs": procs}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    found = [row for row in rows if wanted.items() <= row.items()]
    if not found:
        asked = ", ".join(f"{name} {printable(str(value), 60)}" for name, value in wanted.items())
        known = sorted({printable(row["platform"], 60) for row in rows})
        raise InputError(printable(str(path)), f"no prediction for {asked}", f"one of the platforms {', '.join(known)}")
    return {"platform": platform, "predictions": found}


def name_of(path: Path) -> str:
    """The trace's name: its file's, without suffixes of formats; an archive's folder for `traces.otf2`."""
    name = path.resolve().parent.name if path.name == "traces.otf2" else path.name
    while name.endswith(_SUFFIXES):
        name = name.rpartition(".")[0]
    return printable(name or "trace", 200)


def _clear(out: Path) -> None:
    """Remove what belongs to another run's phases, its description first: without one a folder counts as empty."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {printable(str(out))}", "a file", "a folder, new or of walltime phases find")
    (out / DESCRIPTION).unlink(missing_ok=True)
    for kind in tables.PHASE_TABLES:
        for old in out.glob(f"{kind.name}*.parquet"):
            old.unlink()
