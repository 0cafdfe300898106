"""What `walltime run` shows at its end: a summary, or that nothing is new."""

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.pages.terminal.render import console, grid, number, say
from flows.services.published.published_folder import template_sentences

PATTERN_ROWS = 5
"""Number of patterns in the summary; the table has all."""


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print the run in a few tables, a sample of its predictions, and commands to try next."""
    out = console()
    out.print(_counts(summary))
    if summary["templates"]:
        out.print(say(template_sentences(summary["templates"]), 500), soft_wrap=True)
    if summary["set_aside"]:
        out.print(_set_aside(summary))
    out.print(_fits(summary))
    if summary["patterns"]:
        out.print(_patterns(summary["patterns"]))
    if summary["sample"]:
        out.print(_sample(summary["sample"]))
    for note in summary["notes"]:
        out.print(f"Note: {say(note, 500)}")
    out.print(_next(summary), soft_wrap=True)


def print_nothing_new(summary: Mapping[str, Any]) -> None:
    """Say that the published tables are those that this run would have made, and since when they are there."""
    made = f"{datetime.fromtimestamp(summary['created_s'], UTC):%Y-%m-%d %H:%MZ}"
    out = console()
    out.print(
        f"Nothing new since {made}: logs, settings and code are those of run {summary['run_id']}. Its tables in "
        f"{say(summary['folder'], 1000)} stay.",
        soft_wrap=True,
    )
    for note in summary["notes"]:
        out.print(f"Note: {say(note, 500)}")


def _counts(summary: Mapping[str, Any]) -> Any:
    set_aside, kept = summary["set_aside_total"], summary["kept"]
    hours = set_aside["processor_hours"]
    others = ", ".join(f"{number(rows)} {say(reason)}" for reason, rows in summary["no_jobs"].items())
    logs = ", ".join(say(name) for name in summary["logs"])
    rows = [
        ("lines read", summary["lines_read"], f"of {logs}" + (f"; no jobs: {others}" if others else "")),
        ("unreadable", summary["unreadable"], "see table unreadable"),
        ("jobs", summary["jobs"], f"{number(kept['processor_hours'] + hours)} processor-hours"),
        ("set aside", set_aside["jobs"], f"{number(hours)} processor-hours, by reason below"),
        ("groups", summary["groups"], "of similar jobs"),
        ("series", summary["series_3_sizes"], "groups that ran on three or more processor counts"),
        ("predictions", summary["predictions"], "a runtime with intervals per group and processor count"),
        ("reliable", summary["predictions_ok"], _reliable_counts(summary)),
        ("held later", _shares(summary), _held(summary)),
        ("estimates", summary["estimates"], "rows of runtimes to look up, for the scheduler"),
        ("seconds", summary["seconds"], "wall-clock time"),
        ("peak MiB", summary["peak_mib"], "memory of this process"),
    ]
    cells = [(name, number(value), note) for name, value, note in rows]
    table = grid(f"Run {say(summary['run_id'])} of site {say(summary['site'])}", ("", "", ""), cells)
    table.columns[2].justify = "left"
    table.columns[2].overflow = "fold"
    table.show_header = False
    return table


def _reliable_counts(summary: Mapping[str, Any]) -> str:
    """The shares of ok predictions, and of kept jobs in their groups at their counts."""
    n_all, jobs, kept = summary["predictions"], summary["predictions_ok_jobs"], summary["kept"]["jobs"]
    share, jobs_share = (
        part / whole if whole else 0.0 for part, whole in ((summary["predictions_ok"], n_all), (jobs, kept))
    )
    described = f"predictions with reliability ok: {share:.1%} of all"
    return f"{described}; {jobs_share:.1%} of kept jobs have their group and count"


def _shares(summary: Mapping[str, Any]) -> str:
    shares = [summary[f"predictions_{name}"] for name in ("in_80_later", "in_95_later")]
    return "" if None in shares else " / ".join(f"{share:.0%}" for share in shares)


def _held(summary: Mapping[str, Any]) -> str:
    """What the shares of later jobs inside the intervals mean, or why there are none."""
    shares = [summary[f"predictions_{name}"] for name in ("in_80_later", "in_95_later")]
    if None in shares:
        return "fewer than 4 past windows with jobs to try predictions on"
    return "share of later jobs inside 80% and 95% intervals, in the newer half of the past windows"


def _set_aside(summary: Mapping[str, Any]) -> Any:
    rows = [
        (say(reason), number(one["jobs"]), number(one["processor_hours"]))
        for reason, one in summary["set_aside"].items()
    ]
    return grid("Set aside, by the first reason that holds", ("reason", "jobs", "processor-hours"), rows)


def _fits(summary: Mapping[str, Any]) -> Any:
    statuses = sorted(
        {status for counts in summary["fits"].values() for status in counts}, key=lambda s: (s != "ok", s)
    )
    rows = [
        (say(law), *(number(counts.get(s, 0)) for s in statuses), number(sum(counts.values())))
        for law, counts in summary["fits"].items()
    ]
    return grid("Groups by the law that answers for them and its status", ("law", *statuses, "all"), rows)


def _patterns(found: Sequence[Mapping[str, Any]]) -> Any:
    rows = [(say(one["label"]), say(one["words"])) for one in found[:PATTERN_ROWS]]
    title = "Patterns that no smooth law describes" + (
        f", the surest {len(rows)} of {len(found)}" if found[len(rows) :] else ""
    )
    table = grid(title, ("group", "what to do"), rows)
    table.columns[1].justify, table.columns[1].overflow = "left", "fold"
    return table


def _sample(sample: Mapping[str, Any]) -> Any:
    rows = [
        (
            number(row["procs"]),
            number(row["n_jobs"]) if row["n_jobs"] else "",
            number(row["observed_s"]),
            number(row["runtime_s"]),
            f"{number(row['runtime_s_lo80'])} to {number(row['runtime_s_hi80'])}",
            number(row["speedup"]),
            number(row["efficiency"]),
            say(row["reliability"]),
        )
        for row in sample["predictions"]
    ]
    title = f"Sample: {say(sample['label'])} (law {say(sample['law'])}, {number(sample['n_points'])} sizes observed)"
    header = ("procs", "jobs", "observed s", "predicted s", "80% of runs", "speedup", "efficiency", "reliability")
    return grid(title, header, rows, texts=0)


def _next(summary: Mapping[str, Any]) -> str:
    version, manifest = (say(summary[name], 1000) for name in ("folder", "manifest"))
    walltime, folder = (shlex.quote(path) for path in (_command(), summary["output_dir"]))
    steps = [
        (f"show {folder}", "the published tables"),
        (f"show {folder} predictions", "the rows of a table"),
        ("columns predictions", "what its columns mean"),
    ]
    if _is_example(Path(summary["config"])):
        steps.append(("init --log LOG --out my-site.toml", "a config for your own log"))
    width = max(len(arguments) for arguments, _ in steps)
    lines = [f"  {say(f'{walltime} {arguments:<{width}}', 2000)}  {what}" for arguments, what in steps]
    return "\n".join([f"The tables are in {version}; {manifest} always names the current ones.", "Next:", *lines])


def _is_example(config: Path) -> bool:
    """Whether a config is one of Walltime's examples."""
    return config.absolute().parent == Path(__file__).absolute().parents[3] / "configs"


def _command() -> str:
    """The command that calls Walltime from the current folder."""
    beside = Path(sys.executable).with_name("walltime")
    if shutil.which("walltime") or not beside.exists():
        return "walltime"
    here = Path.cwd()
    return str(beside.relative_to(here) if beside.is_relative_to(here) else beside)
