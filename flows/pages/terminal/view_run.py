"""What `walltime run` and `rerun` show at their ends, and what `walltime init` and `doctor` found."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.pages.answers.scaling import over_axis
from flows.pages.formats import between, number
from flows.pages.terminal.blocks import Block, Column, Exact, Grid, notes, text
from flows.services.doctor import Diagnosis
from flows.services.initialising import Machine
from flows.services.published.published_folder import template_sentences
from pipeline.axes import axis_of
from pipeline.publish import Manifest

PATTERN_ROWS = 5
"""Number of patterns in the summary; the table has all."""

COUNTS = (text("", 0), Column("", 1), text("", 2, limit=4_000))
SET_ASIDE = (text("reason", 0), Column("jobs", 1), Column("processor-hours", 2))
PATTERNS = (text("group", "label"), text("what to do", "words", limit=2_000))
SAMPLE = (
    Column("procs"),
    Column("jobs", lambda row: row["n_jobs"] or None),
    Column("observed s", "observed_s"),
    Column("predicted s", "runtime_s"),
    Column("80% of runs", lambda row: between(row["runtime_s_lo80"], row["runtime_s_hi80"])),
    Column("speedup"),
    Column("efficiency"),
    Column("reliability"),
)


def view_summary(summary: Mapping[str, Any]) -> Iterator[Block]:
    """The run in a few tables, a sample of its predictions, and commands to try next."""
    yield Grid(f"Run {summary['run_id']} of site {summary['site']}", COUNTS, _counts(summary), has_header=False)
    if summary["templates"]:
        yield template_sentences(summary["templates"])
    if summary["set_aside"]:
        rows = [(reason, one["jobs"], one["processor_hours"]) for reason, one in summary["set_aside"].items()]
        yield Grid("Set aside, by the first reason that holds", SET_ASIDE, rows)
    yield _fits(summary["fits"])
    if patterns := summary["patterns"]:
        more = f", the surest {PATTERN_ROWS} of {len(patterns)}" if len(patterns) > PATTERN_ROWS else ""
        yield Grid(f"Patterns that no smooth law describes{more}", PATTERNS, patterns[:PATTERN_ROWS])
    if sample := summary["sample"]:
        title = f"Sample: {sample['label']} (law {sample['law']}, {number(sample['n_points'])} sizes observed)"
        yield Grid(title, over_axis(axis_of(sample["axis"]), SAMPLE), sample["predictions"])
    yield from notes(summary["notes"])
    yield from _next(summary)


def view_nothing_new(summary: Mapping[str, Any]) -> Iterator[Block]:
    """The published tables are those that this run would have made; since when they are there."""
    made = f"{datetime.fromtimestamp(summary['created_s'], UTC):%Y-%m-%d %H:%MZ}"
    yield Exact(
        f"Nothing new since {made}: logs, settings and code are those of run {summary['run_id']}. Its tables in "
        f"{summary['folder']} stay."
    )
    yield from notes(summary["notes"])


def view_rerun(manifest: Manifest, summary: Mapping[str, Any]) -> Iterator[Block]:
    """What a rerun made, and what to do with it."""
    yield (
        f"Version {named_version(manifest)} holds {summary['jobs']:,} jobs, {summary['groups']:,} groups and "
        f"{summary['predictions']:,} predictions, {summary['predictions_ok']:,} of them reliable."
    )
    yield (
        f"It is not published. `walltime versions compare` scores it beside another version, and "
        f"`walltime versions promote {manifest.name}` publishes it."
    )


def named_version(manifest: Manifest) -> str:
    """A version by its folder, with its name if it has one."""
    return f"{manifest.folder} ({manifest.name})" if manifest.name else manifest.folder


def _counts(summary: Mapping[str, Any]) -> list[tuple[str, object, str]]:
    set_aside, kept = summary["set_aside_total"], summary["kept"]
    hours = set_aside["processor_hours"]
    others = ", ".join(f"{number(rows)} {reason}" for reason, rows in summary["no_jobs"].items())
    return [
        ("lines read", summary["lines_read"], f"of {', '.join(summary['logs'])}{others and f'; no jobs: {others}'}"),
        ("unreadable", summary["unreadable"], "see table unreadable"),
        ("jobs", summary["jobs"], f"{number(kept['processor_hours'] + hours)} processor-hours"),
        ("set aside", set_aside["jobs"], f"{number(hours)} processor-hours, by reason below"),
        ("groups", summary["groups"], "of similar jobs"),
        ("series", summary["series_3_sizes"], "groups that ran at three or more counts of processors, GPUs or nodes"),
        ("predictions", summary["predictions"], "a runtime with intervals per group and count"),
        *_reliability(summary),
        ("coverage", *_coverage(summary)),
        ("estimates", summary["estimates"], "rows of runtimes to look up, for the scheduler"),
        ("seconds", summary["seconds"], "wall-clock time"),
        ("peak MiB", summary["peak_mib"], "memory of this process"),
    ]


def _reliability(summary: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """How many predictions are ok and for how many jobs; how many are kept; how many have each other word."""
    counts, n_kept = summary["reliability"], summary["kept"]["jobs"]
    share = counts["ok"] / summary["predictions"] if summary["predictions"] else 0.0
    jobs_share = summary["predictions_ok_jobs"] / n_kept if n_kept else 0.0
    yield (
        "ok", counts["ok"],
        f"predictions that are kept and narrow: {share:.1%} of all; {jobs_share:.1%} of kept jobs have their group and "
        "count",
    )  # fmt: skip
    kept = counts["ok"] + counts["wide"]
    yield "kept", kept, "predictions, ok or wide, whose 80% interval contained its share of later runs"
    others = {word: n for word, n in counts.items() if word not in ("ok", "wide")}
    words = ", ".join(f"{number(n)} {word}" for word, n in others.items())
    yield "doubtful", sum(others.values()), f"predictions: {words}"


def _coverage(summary: Mapping[str, Any]) -> tuple[str, str]:
    """The shares of later runs inside the intervals, and what they mean or why there are none."""
    shares = [summary[f"predictions_{name}"] for name in ("in_80_later", "in_95_later")]
    if None in shares:
        return "", "no ended job to try predictions on"
    means = "share of later runs inside the 80% and 95% intervals, each as of the week before"
    return " / ".join(f"{share:.0%}" for share in shares), means


def _fits(fits: Mapping[str, Mapping[str, int]]) -> Grid:
    statuses = sorted({status for counts in fits.values() for status in counts}, key=lambda s: (s != "ok", s))
    rows = [
        {"law": law, **dict.fromkeys(statuses, 0), **counts, "all": sum(counts.values())}
        for law, counts in fits.items()
    ]
    columns = (text("law"), *map(Column, statuses), Column("all"))
    return Grid("Groups by chosen law and fit status", columns, rows)


def _next(summary: Mapping[str, Any]) -> Iterator[Block]:
    walltime, folder = (shlex.quote(path) for path in (_command(), summary["output_dir"]))
    steps = {
        f"show --from {folder}": "the published tables",
        f"show predictions --from {folder}": "the rows of a table",
        "show predictions --columns": "what its columns mean",
    }
    examples = Path(__file__).absolute().parents[3] / "configs"
    if Path(summary["config"]).absolute().parent == examples:
        steps["init --log LOG --out my-site.toml"] = "a config for your own log"
    width = max(map(len, steps))
    yield Exact(f"The tables are in {summary['folder']}; {summary['manifest']} always names the current ones.")
    yield "Next:"
    yield from (Exact(f"  {walltime} {arguments:<{width}}  {what}") for arguments, what in steps.items())


def _command() -> str:
    """The command that calls Walltime from the current folder."""
    beside = Path(sys.executable).with_name("walltime")
    if shutil.which("walltime") or not beside.exists():
        return "walltime"
    here = Path.cwd()
    return str(beside.relative_to(here) if beside.is_relative_to(here) else beside)


_SENTENCES = {
    None: "Nothing was found",
    0: "Nothing needs to be done",
    1: "There is a warning",
    2: "Something is broken",
}
CHECKS = (text("check"), text("mode"), text("outcome", "state"), text("reason", limit=1_000))


def view_diagnosis(found: Diagnosis) -> Iterator[Block]:
    """Each finding with what to do, then one line on the whole."""
    for one in found.findings:
        yield Exact(f"{one.level.name.lower():<8} {one.check}: {one.where}")
        yield Exact(f"         found {one.found}")
        yield Exact(f"         do: {one.do}")
    named = "the config" if found.root is None else found.root
    yield Exact(f"{_SENTENCES[found.worst]}: {len(found.checked)} checks of {named}.")


def diagnosis_facts(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis in plain values for JSON."""
    findings = [
        {"check": one.check, "level": one.level.name.lower(), "where": one.where, "found": one.found, "do": one.do}
        for one in found.findings
    ]
    worst = None if found.worst is None else found.worst.name.lower()
    return {"output_dir": found.root, "worst": worst, "checked": found.checked, "findings": findings}


def view_checks(found: Mapping[str, Any]) -> Iterator[Block]:
    """Each check with its mode and outcome, and below them every finding."""
    compared = f"compared with {found['compared_with']}" if found["compared_with"] else "not compared"
    title = f"Checks of version {found['folder']} of site {found['site']}, {compared}"
    yield Grid(title, CHECKS, found["checks"])
    for check in found["checks"]:
        for one in check["findings"]:
            yield f"{check['check']}: {one['where']}: found {one['found']}, expected {one['expected']}."


def view_config(machine: Machine, path: Path) -> Iterator[Block]:
    """What was found, the config that was written, and what to do next."""
    yield from (f"Found: {line}" for line in machine.seen)
    config = shlex.quote(str(path))
    yield Exact(f"Wrote {config} for the site {machine.name} ({machine.timezone})")
    yield Exact(f"Next: walltime run {config}")


def view_units(units: Sequence[Path]) -> Iterator[Block]:
    """The units of systemd that were written, and how to install them."""
    paths, names = " ".join(shlex.quote(str(path)) for path in units), [shlex.quote(path.name) for path in units]
    (serve,) = (name for name in names if "-serve." in name)
    (timer,) = (name for name in names if ".timer" in name)
    (guard,) = (name for name in names if "-guard." in name)
    yield Exact(f"Wrote {paths}")
    yield Exact(f"Install: cp {paths} /etc/systemd/system/ && systemctl daemon-reload")
    yield Exact(f"         systemctl enable --now walltime-prefect.service {serve}")
    yield Exact(f"Without a Prefect server, only the timer: systemctl enable --now {timer}")
    yield Exact(f"With export.mode = limit, on the machine of slurmctld: systemctl enable --now {guard}")
