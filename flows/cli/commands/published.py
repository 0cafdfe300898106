"""Commands on published tables: `walltime show`, `walltime report`, and the versions that are on disk."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from flows.cli import options as shared
from flows.cli.options import argument, check_mode, complete_table, option
from flows.pages import blocks
from flows.pages.blocks import Answer, Block
from flows.services.quantities import as_of_seconds, iso_time
from pipeline.errors import InputError

ROWS_SHOWN = 20

VERSION = argument("VERSION", "A version: its name, its run id, or the start of its folder's name.")


def show(  # noqa: PLR0911  (a return for each thing that can be shown)
    ctx: typer.Context,
    table: str | None = argument(
        "[TABLE]", "The table to show, or `job`; default: the list of tables.", None, autocompletion=complete_table
    ),
    job: str | None = argument("[ID]", "With `job`: the id of a job, whose records and estimate are shown.", None),
    given: Path | None = option(
        "--from DIR", f"{shared.FOLDER_MEANT} Or a table that walltime ingest wrote (.parquet)."
    ),
    where: str | None = option("--where SQL", 'A condition on the columns, as in "procs > 64".'),
    select: str | None = option("--select A,B", "Only these columns; default: all."),
    limit: int | None = option("--limit", f"Number of rows; default: {ROWS_SHOWN}, with --csv and --out all.", min=1),
    as_of: str | None = shared.AS_OF,
    columns: bool = option("--columns", "Instead: columns with type, unit and meaning, of one or all tables.", False),
    csv: bool = option("--csv", "Print the rows as CSV on stdout.", False),
    out: Path | None = option("--out FILE", "Write the rows to a file: .csv, .parquet, .json or .xlsx."),
    users: bool = option("--users", "With table waste: also show the rows of users, most unused first.", False),
    json: bool = shared.JSON,
) -> Answer | None:
    """Show what a run has published: its manifest, or the rows of a table.

    Times are printed as UTC, as in 2026-01-31T08:00:00Z; with --csv, --out and --json they are seconds since 1970, in
    a workbook (.xlsx) dates.
    The table `unreadable` has the number of unreadable records for each reason, then the records.
    Table errors compares the estimate at submit with the runtime, for the jobs that ended last: the largest errors
    first, each with what may explain it.

    \b
    Examples:
      walltime show
      walltime show job 4711
      walltime show predictions --columns
      walltime show jobs --from my-site-tables --where "procs > 64" --select job_id,runtime_s --limit 5
      walltime show unreadable --from jobs.parquet --where "reason = 'no_line_end'"
      walltime show waste --csv
      walltime show errors --where "day >= '2026-11-16'" --select job_id,user,runtime_s_q50,runtime_s,why
      walltime show jobs --where "user = '3' and procs > 16" --out jobs.xlsx
    """
    from flows.pages.activity import end_activity_line
    from flows.services.files.table_files import SELECTION, check_suffix, csv_to, write_selection
    from flows.services.published import browse
    from flows.services.published.published_folder import published_folder
    from pipeline.publish import read_version

    if (table == "job") != (job is not None):
        raise InputError("show", f"{table or 'no table'} and {job or 'no id'}", "job and an id, as in show job 4711")
    if job is not None:
        manifest = read_version(published_folder(given), as_of_seconds(as_of))
        records = browse.story_of_job(manifest, job)
        return Answer(records, (block for record in records for block in view_story(record)))
    check_mode(ctx, "--columns", is_on=columns, own=(), shared=("--from",))
    if columns:
        described = browse.described_tables(table)
        return Answer(described, view_columns(described))
    rowwise = {"--where": where, "--select": select, "--csv": csv or None, "--out": out}
    asked = [name for name, value in rowwise.items() if value is not None]
    if table is None and given is not None and given.suffix == ".parquet":
        raise InputError("show", "no table beside --from FILE.parquet", "jobs or unreadable")
    if users and table != "waste":
        raise InputError("--users", "another table than waste", "walltime show waste --users")
    if table is None and asked:
        raise InputError(asked[0], "no table beside it", f"a table to look in, as in jobs {asked[0]} ...")
    if sum((json, csv, out is not None)) > 1:
        raise InputError("the command line", "several of --json, --csv and --out", "one of them")
    if table is None:
        manifest = read_version(published_folder(given), as_of_seconds(as_of))
        facts = browse.manifest_facts(manifest)
        return Answer(facts, view_manifest(facts))
    if out is not None:
        check_suffix(out, suffixes=tuple(SELECTION))
    rows = {"where": where, "select": select}
    with browse.shown_table(given, as_of_seconds(as_of), table, users=users) as shown:
        if shown is None:
            return Answer({"table": table, "rows": 0, "shown": []}, ["Every record could be read."])
        if not csv and out is None:
            facts = browse.table_rows(shown, **rows, limit=limit or ROWS_SHOWN)
            return Answer(facts, view_rows(facts, shown.instants))
        with browse.selected_rows(shown, **rows, limit=limit) as found:
            if out is not None:
                return Answer(None, blocks.wrote({shown.name: write_selection(out, found)}))
            end_activity_line()
            csv_to(sys.stdout, found)
    return None


def view_story(job: Mapping[str, Any]) -> Iterator[Block]:
    """One record of a job in sentences: what became of it, what was estimated at its submit, and why that was off."""
    from pipeline.schema import Axis, counted

    whose = ", ".join(f"{name} {job[name]}" for name in ("user", "account", "application", "queue") if job[name])
    size = counted(job["procs"], Axis.PROCS) if job["procs"] else "an unknown number of processors"
    yield f"Job {job['job_id']} ({whose or 'nothing is known of its user'}), on {size}."
    waited = f", started {iso_time(job['start_s'])} after {blocks.span(job['wait_s'])}" if job["start_s"] else ""
    ended = f", ended {iso_time(job['end_s'])}" if job["end_s"] else ", has not ended"
    yield f"Submitted {iso_time(job['submit_s'])}{waited}{ended}." if job["submit_s"] else "Its submit is unknown."
    request = f" of {blocks.span(job['requested_s'])} requested" if job["requested_s"] else ""
    code = f", exit code {job['exit_code']}" if job["exit_code"] else ""
    ran = blocks.span(job["runtime_s"]) or "for an unknown time"
    yield f"Ran {ran}{request}; final state {job['state'] or 'unknown'}{code}."
    if job["runtime_s_q50"] is None:
        aside = f" Cleaning set it aside: {job['flag']}." if job["flag"] else ""
        yield f"No estimate at its submit is known: it is not among the ended jobs that were compared.{aside}"
        return
    low, middle, high, most = (blocks.span(job[f"runtime_s_q{level}"]) for level in (10, 50, 90, 95))
    yield f"Estimate at its submit: {middle} (80% interval: {low} to {high}; 95% of such jobs need at most {most})."
    if job["runtime_quantile"] is None:
        side = "above" if job["runtime_s"] > job["runtime_s_q50"] else "below"
        yield f"The runtime is {side} all of the estimate's quantiles."
    else:
        yield f"{job['runtime_quantile']:.0%} of such jobs were expected to run no longer than it did."
    if job["why"]:
        yield f"The estimate was doubtful: {job['why']}."


def report(
    published: Path = shared.FROM,
    out: Path | None = option("--out PAGES", "The folder for site.html and the pages; needed without --user."),
    user: str | None = shared.USER,
    procs_per_node: int | None = shared.NODE,
    rate: float | None = shared.RATE,
    as_of: str | None = shared.AS_OF,
    users: bool = option("--users", "Also show what the jobs of each user were allocated and did not use.", False),
    carbon: str | None = option(
        "--carbon G|FILE.csv", "Carbon intensity of the site's power, g CO2e per kWh; or a CSV by hour."
    ),
) -> Answer:
    """Draw a page per application: its runs, predicted curves with intervals, recommended counts and next runs.

    Also site.html, on the whole site, which links them: how new the tables are, use and waits by day, failures,
    applications with advice, queues, the worst estimates, waste, cleaning, accuracy by week, limits and nights.

    --user prints the usual jobs of one user instead, with their runtimes and the time to request.

    \b
    Examples:
      walltime report --from my-site-tables --out pages
      walltime report --out pages --carbon 320
      walltime report --user 3 --json
    """
    from flows.pages.site import write_pages
    from flows.services.published.advice import cost_of_run, user_jobs
    from flows.services.site_facts import site_facts
    from pipeline.publish import read_version
    from pipeline.schema import plural

    if user is not None:
        manifest = read_version(published, as_of_seconds(as_of))
        usual = user_jobs(manifest, user)
        title = f"Jobs of {usual['user']} at {usual['site']}, most processor-hours first"
        shown = blocks.Grid(title, blocks.columns("your_jobs"), usual["kinds"])
        note = "95% of the next such jobs should end within the time to ask for."
        return Answer(usual, [shown, f"{note} `walltime query` answers for any other job."])
    if out is None:
        raise InputError("report", "no --out", "a folder for the pages, or --user NAME")
    manifest = read_version(published, as_of_seconds(as_of))
    facts = site_facts(published, manifest, carbon, users=users)
    site, *pages = write_pages(manifest, facts, out, cost_of_run(manifest, procs_per_node, rate))
    said = [f"Wrote {len(pages)} {plural('page', len(pages))} of applications", blocks.Exact(f"Wrote {site}")]
    return Answer({"pages": pages, "site_page": site, **facts}, said)


def list_versions(published: Path = shared.FROM) -> Answer:
    """List the versions of the tables on disk, the published one first, then those published before it.

    \b
    Examples:
      walltime versions list
      walltime versions list --from my-site-tables --json
    """
    from flows.services.published.browse import version_rows

    rows = version_rows(published)
    return Answer(
        {"versions": rows}, [blocks.Grid("Versions on disk", blocks.columns("versions", **VERSION_VALUES), rows)]
    )


def promote(version: str = VERSION, published: Path = shared.FROM) -> Answer:
    """Publish a version that is on disk, as a rerun or an earlier night; its tables are checked first.

    \b
    Examples:
      walltime versions promote try-7
      walltime versions promote 2026-11-22T0310Z-0a1b2c3d --from my-site-tables
    """
    from pipeline.publish.versions import promote as publish_version

    return _now_published(publish_version(published, version, int(time.time())))


def rollback(published: Path = shared.FROM) -> Answer:
    """Publish the previous version again, and withdraw the current one; a second rollback goes one further back.

    The restored version is pinned. The withdrawn one stays on disk for some days, --as-of skips it, and only `promote`
    publishes it again. A run with other logs, settings or code publishes a new version.

    \b
    Examples:
      walltime versions rollback
      walltime versions rollback --from my-site-tables
    """
    from pipeline.publish.versions import rollback as publish_previous

    restored = publish_previous(published, int(time.time()))
    withdrawn = restored.previous[0].folder
    return _now_published(
        restored,
        f"It is pinned; version {withdrawn} is withdrawn.",
        "If logs, settings or code have changed, the next run publishes a new version. If not, it publishes nothing "
        f"until `walltime versions promote {withdrawn}`.",
    )


def _now_published(manifest: Any, *more: str) -> Answer:
    from flows.cli.commands.run import named_version
    from flows.services.run.running import mirror_failure

    facts = {"published": manifest.folder, "name": manifest.name}
    failure = mirror_failure(manifest.root, manifest.settings.get("publish", {}).get("mirror"))
    warned = [f"But {failure}"] if failure else []
    return Answer(facts, [f"Version {named_version(manifest)} is published now.", *more, *warned])


def pin(version: str = VERSION, published: Path = shared.FROM) -> Answer:
    """Keep a version on disk whatever its age, until `unpin`.

    \b
    Examples:
      walltime versions pin try-7
      walltime versions pin 2026-11-22T0310Z-0a1b2c3d --from my-site-tables
    """
    return _kept(published, version, "pinned", int(time.time()), "is pinned and stays on disk.")


def unpin(version: str = VERSION, published: Path = shared.FROM) -> Answer:
    """Unpin a version; the settings under [publish] then decide how long it stays.

    \b
    Examples:
      walltime versions unpin try-7
      walltime versions unpin 2026-11-22T0310Z-0a1b2c3d --from my-site-tables
    """
    return _kept(published, version, "unpinned", None, "is no longer pinned.")


def _kept(published: Path, version: str, done: str, pinned_s: int | None, said: str) -> Answer:
    from pipeline.publish.versions import pin as keep

    found = keep(published, version, pinned_s)
    return Answer({done: found.folder, "name": found.name}, [f"Version {found.folder} {said}"])


def compare(
    first: str | None = argument("[A]", "A version, as in `walltime versions list`; default: the one before B.", None),
    second: str | None = argument("[B]", "The version to compare it with; default: the published one.", None),
    published: Path = shared.FROM,
    replay: bool = option("--replay", "Also replay the later jobs with the estimates of each, under EASY-SJBF.", False),
    max_procs: int | None = shared.MAX_PROCS,
    seed: int = shared.SEED,
) -> Answer:
    """Compare the groups and fits of two versions, and score both on the same jobs, which came after both.

    The later jobs are those of the version on disk whose log ends last, so their number grows every night. --replay
    adds the slowdown that these jobs would have had with the estimates of each version. The last lines say whether the
    predictions and the estimates of B are better, worse, or no different, with an interval by bootstrap over users and
    days, and which of them cannot be compared.

    \b
    Examples:
      walltime versions compare
      walltime versions compare try-7 try-8
      walltime versions compare try-7 try-8 --from my-site-tables --json
    """
    from flows.services.comparing import compare_versions
    from pipeline.schedule.workload import Shakes

    if max_procs is not None and not replay:
        raise InputError("--max-procs", "no --replay beside it", "both", "the processors are those of the replay")
    found = compare_versions(published, first, second, Shakes() if replay else None, max_procs, seed)
    return Answer(found, view_comparison(found))


_LOGS_SHOWN = 2


def _logs(names: Sequence[str] | None) -> str:
    shown = ", ".join((names or ())[:_LOGS_SHOWN])
    return f"{shown} and {len(names) - _LOGS_SHOWN:,} more" if names and len(names) > _LOGS_SHOWN else shown


def _state(version: Mapping[str, Any]) -> str:
    states = {
        "published": version["is_published"],
        "withdrawn": version["is_withdrawn"],
        "never published": not version["was_published"],
        "pinned": version["is_pinned"],
    }
    return ", ".join(word for word, holds in states.items() if holds) or "earlier"


VERSION_VALUES = {
    "logs": lambda version: _logs(version["logs"]),
    "state": _state,
    "mib": lambda version: f"{version['bytes'] / 2**20:,.1f}",
}


def view_manifest(facts: Mapping[str, Any]) -> Iterator[Block]:
    """The facts of the run and its tables."""
    named = {name: facts[name] for name in ("run_id", "version", "site", "created", "newest_end", "code")}
    previous = ", ".join(entry["folder"] for entry in facts["previous"]) or "none"
    logs = ", ".join(log["name"] for log in facts["logs"])
    yield blocks.Facts("Published", named | {"logs": logs, "previous versions": previous})
    yield blocks.Grid(
        "",
        blocks.columns("tables"),
        [{"name": name, "kib": table["bytes"] // 1024, **table} for name, table in facts["tables"].items()],
    )
    longest = max(map(len, facts["tables"]), default=0)
    yield from (blocks.Exact(f"{name:<{longest}} {table['path']}") for name, table in facts["tables"].items())


def view_rows(found: Mapping[str, Any], times: frozenset[str]) -> Iterator[Block]:
    """Rows of a table; the columns of `times` hold seconds since 1970 and are shown as UTC."""
    if found.get("reasons"):
        yield blocks.Grid("", (blocks.text("reason", 0), blocks.Column("records", 1)), found["reasons"].items())
    shown = [
        {name: iso_time(value) if name in times and value is not None else value for name, value in row.items()}
        for row in found["shown"]
    ]
    yield blocks.Listing(f"{found['table']}: {len(shown):,} of {found['matching']:,} rows", shown)


def view_columns(tables: Mapping[str, Mapping[str, Any]]) -> Iterator[Block]:
    """The columns of some tables with type, unit and meaning; * marks columns of the key."""
    shown = blocks.columns("columns", column=lambda column: ("* " if column["is_key"] else "  ") + column["name"])
    for name, table in tables.items():
        yield blocks.Grid(f"{name}: {table['meaning']}", shown, table["columns"])
    yield "Times are numbers in the files; `walltime show` prints them as UTC."


def view_comparison(found: Mapping[str, Any]) -> Iterator[Block]:
    """Groups and fits of two versions beside one another, then their errors on later jobs."""
    names = [one["name"] or one["version"] for one in found["versions"]]
    fits, groups = found["fits"], found["groups"]
    rows = [(key, *(one[key] for one in found["versions"])) for key in ("made", "newest_job", "template", "jobs")]
    rows += [("groups", *groups["each"])]
    laws = sorted({law for one in fits["each"] for law in one})
    rows += [(f"fits: {law}", *(sum(one.get(law, {}).values()) for one in fits["each"])) for law in laws]
    yield blocks.side_by_side("", names, rows)
    yield (
        f"{groups['in_both']:,} groups are in both; {fits['other_law']:,} of {fits['in_both']:,} with a law in both "
        "have another one."
    )
    where = f"submitted after {found['after']}, of version {found['jobs_from']}"
    if not found["later_jobs"]:
        yield f"No version on disk has later jobs, {where}: compare again after the next run."
        return
    yield from _later_jobs(names, found, where)
    if found["replay"] and found["replay"]["jobs"]:
        yield from _replayed(names, found["replay"])
    yield from (_verdict(names, what, found[what]["change"]) for what in ("predictions", "estimates"))


def _later_jobs(names: Sequence[str], found: Mapping[str, Any], where: str) -> Iterator[Block]:
    predictions, estimates = found["predictions"], found["estimates"]
    rows = [("later jobs with a prediction", *(one["answered"] for one in predictions["each"]))]
    rows += _figures(predictions["each"], ("median_error", "in_80", "in_95", "width_80", "ok_share"), "predictions")
    rows += _figures(estimates["each"], ("mae_over_mean", "coverage_80", "coverage_q95"), "estimates")
    yield blocks.side_by_side(f"{found['later_jobs']:,} later jobs, {where}", names, rows)
    yield (
        f"Predictions are scored on the {predictions['in_both']:,} jobs that both versions predict, estimates on "
        f"{estimates['jobs']:,}."
    )


def _verdict(names: Sequence[str], what: str, found: Mapping[str, Any] | None) -> str:
    """Whether the second version's predictions or estimates are better, with the uncertainty."""
    if found is None:
        return f"Verdict on {what}: they cannot be compared, because no later job has one of both versions."
    word = found["verdict"]
    if word is None:
        return f"Verdict on {what}: {found['user_days']:,} user-days with later jobs are too few to tell."
    is_none = word == "no difference"
    said = (
        f"{word} between {names[0]} and {names[1]}" if is_none else f"those of {names[1]} are {word} than {names[0]}'s"
    )
    return (
        f"Verdict on {what}: {said}. The mean absolute "
        f"error changes by {found['change']:+.1%} (95% interval {found['lo95']:+.1%} to {found['hi95']:+.1%}; "
        f"bootstrap over {found['user_days']:,} user-days, {found['resamples']:,} samples, seed {found['seed']})."
    )


def _figures(each: Sequence[Mapping[str, Any]], wanted: Sequence[str], of: str) -> list[tuple[Any, ...]]:
    known = [name for name in wanted if any(name in one for one in each)]
    return [(f"{of}: {name}", *(one.get(name) for one in each)) for name in known]


def _replayed(names: Sequence[str], found: Mapping[str, Any]) -> Iterator[Block]:
    """The slowdowns of both versions beside that of EASY with requests."""
    wanted = ("slowdown_mean", "wait_mean_s", "slowdown_change", "slowdown_change_q25", "slowdown_change_q75")
    rows = [(name, *(one.get(name) for one in (found["today"], *found["each"]))) for name in wanted]
    title = f"{found['jobs']:,} later jobs replayed on {found['capacity']:,} processors ({found['capacity_from']})"
    yield blocks.side_by_side(title, ("easy, request", *names), rows)
    yield (
        f"Versions are replayed under {found['policy']}; medians of {found['shakes']} replays with shaken arrivals, "
        "changes from EASY with requests, with their quartiles."
    )
    if not found["has_waits"]:
        yield "This log has no waits: its submit times are really start times."
