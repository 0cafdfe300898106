"""The pages of a published run: the whole site, and one for each application."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.pages import blocks as show
from flows.pages import charts
from flows.pages.blocks import Block, Column, Figure, Lead, columns, minute, number, percent
from flows.pages.page import page_of
from flows.pages.scaling import series_page
from flows.services.files.os_errors import naming_path
from flows.services.files.table_files import write_page
from flows.services.published.published_folder import compared_templates
from flows.services.site_facts import LISTED
from pipeline.errors import printable
from pipeline.publish import Manifest
from pipeline.report import count_done
from pipeline.scaling.advice import CostSettings, answered
from pipeline.scaling.fitted_series import series_as_dicts
from pipeline.scaling.problem_sizes import weak_of
from pipeline.storage import read_table
from pipeline.tables import FITS, GROUPS, OBSERVATIONS, PATTERNS, PREDICTIONS, SCALABILITY

Row = Mapping[str, Any]
Rows = Sequence[Row]

SERIES_A_PAGE, MIN_SIZES = 25, 2
SITE_PAGE = "site.html"
UNNAMED = "jobs of no known application"
PROMISED = 0.8
HOURS, MOST_JOBS = 24, 40
"""Of the picture of the queue."""

OTHER_PAGES = {
    "clean.html": "what cleaning did",
    "backtest.html": "errors of the estimates",
    "replay.html": "what other estimates would have gained",
}
"""Files of other commands that the site's page links where they stand in its folder."""


CHANGES = ("jobs", "set_aside", "groups", "reliable")


APPLICATIONS = columns(
    "applications",
    name=lambda row: row["name"] or UNNAMED,
    advice=lambda row: row["advice"] or "no job was kept",
)
BY_USER = {"user": lambda row: row["user"] or row.get("account")}
WASTE = columns(
    "waste",
    name=lambda row: row["name"] or ("" if row["kind"] == "all" else "unknown"),
    ask=lambda row: "; ".join(row["ask"]),
)
TEMPLATES = columns("templates", chosen=lambda row: row["why"] if row["is_chosen"] else "")
NIGHTS = columns(
    "nights",
    template=lambda row: f"{row['template'] or ''}{' (new)' if row['new_template'] else ''}",
    **{f"change_{name}": lambda night, name=name: night["changes"][name] for name in CHANGES},
)


def write_pages(manifest: Manifest, facts: Row, folder: Path, cost: CostSettings) -> list[Path]:
    """Write a page per application with a group of two sizes or a weak-scaling series, and the site's.

    Returns the paths of site.html, which shows the `site_facts`, and of the pages. A page lists groups that gain from
    processors first, then those with most jobs, and says how many it omits.
    """
    table_kinds = (OBSERVATIONS, PATTERNS, FITS, PREDICTIONS, SCALABILITY)
    tables = {kind.name: read_table(manifest.path(kind.name), kind) for kind in table_kinds}
    with naming_path(folder):
        folder.mkdir(parents=True, exist_ok=True)
    pages: dict[str, Path] = {}
    every = _by_application(manifest, set(tables[SCALABILITY.name].column("group_id").to_pylist()))
    asked = {row["name"] or UNNAMED: row for row in facts["applications"]}
    for name in sorted(every):
        drawn = [group for group in every[name] if group["n_sizes"] >= MIN_SIZES]
        weak = _weak(every[name], tables[OBSERVATIONS.name])
        if drawn or weak:
            series = _shown(drawn, tables, cost)
            title = f"Application {name}" if name.isdecimal() else name
            page = series_page(title, series, len(drawn), weak=weak, doubt=facts["doubt"], asked=asked.get(name))
            pages[name] = write_page(folder / page_name(name), page)
            count_done("pages")
    listed = facts["applications"][:LISTED]
    paths = [pages.get(row["name"] or UNNAMED) for row in listed]
    shown = dict(facts) | {
        "applications": [{**row, "link": path and quote(path.name)} for row, path in zip(listed, paths, strict=True)],
        "n_hidden": len(facts["applications"]) - len(listed),
        "others": {of: file for file, of in OTHER_PAGES.items() if (folder / file).is_file()},
        "templates": compared_templates(manifest),
    }  # fmt: skip
    return [write_page(folder / SITE_PAGE, site_page(shown)), *pages.values()]


def _by_application(manifest: Manifest, gaining: set[str]) -> dict[str, list[dict[str, Any]]]:
    """The groups by application: those that gain from processors first, then in falling order of jobs."""
    groups = read_table(manifest.path(GROUPS.name), GROUPS).to_pylist()
    found: dict[str, list[dict[str, Any]]] = {}
    for group in sorted(groups, key=lambda row: (row["group_id"] not in gaining, -row["n_jobs"], row["group_id"])):
        found.setdefault(group["application"] or UNNAMED, []).append(group)
    return found


def page_name(application: str) -> str:
    """The file name of an application: its letters and digits, and a digest, as other signs may differ."""
    plain = re.sub(r"[^a-z0-9]+", "-", application.lower()).strip("-")[:40]
    digest = hashlib.sha256(application.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain or 'application'}-{digest}.html"


def _shown(groups: Rows, tables: Mapping[str, pa.Table], cost: CostSettings) -> list[dict[str, Any]]:
    labels = {group["group_id"]: group["label"] for group in groups[:SERIES_A_PAGE]}
    chosen = {name: table.filter(_is_in(table, list(labels))) for name, table in tables.items()}
    series = {one["series"]: one for one in series_as_dicts(chosen)}
    return [
        answered(series[group], series[group]["predictions"], cost) | {"series": printable(label, 300)}
        for group, label in labels.items()
        if group in series
    ]


def _weak(groups: Rows, observations: pa.Table) -> list[dict[str, Any]]:
    """Weak-scaling series of an application: its groups that differ only in problem size."""
    named = {
        group["group_id"]: (
            group["label"].replace(f"problem_size={group['problem_size']}", "").strip(), group["problem_size"]
        )
        for group in groups if group["problem_size"] is not None
    }  # fmt: skip
    return weak_of(named, observations.filter(_is_in(observations, list(named))).to_pylist())


def _is_in(table: pa.Table, names: list[str]) -> pa.ChunkedArray:
    return pc.is_in(table.column("group_id").cast(pa.string()), pa.array(names, pa.string()))


def site_page(facts: Row) -> str:
    """The page of a site; the same facts give the same bytes."""
    again = "`walltime report --out DIR --json` prints the same figures."
    footer = f"Tables by Walltime {facts['code']}, run {facts['run_id']}; {again}"
    blocks = (_first_screen(facts), *_tables(facts))
    return page_of("Walltime: site", facts["site"], blocks, _state(facts), footer, has_script=True)


def _state(facts: Row) -> Iterator[Block]:
    """The last run, and what needs to be looked at."""
    last = facts["last_run"]
    ran = (
        f"Last run: {last['state']} ({last['reason']}), {minute(last['ended'] or last['began'])} UTC. " if last else ""
    )
    yield f"{ran}Version `{facts['version']}`."
    if facts["others"]:
        yield show.Links("Other pages", facts["others"])
    for one in facts["blocked"]:
        yield Lead(f"A version made {one['made']} is blocked by a check: run {one['run_id']}, in `blocked/`.")
    if ended := sum(week["n_ended"] for week in facts["limits"]["weeks"]):
        yield Lead(
            f"{number(ended)} jobs were ended at a limit below their requests. See whether `walltime guard` runs."
        )
    yield facts["doubt"] or ""


def _section(
    title: str, anchor: str, shown: Sequence[Column], rows: Rows, *sentences: str, **how: Any
) -> Iterator[Block]:
    """A heading, sentences, and a table if it has rows."""
    yield show.Heading(title, anchor)
    yield from sentences
    if rows:
        yield show.Grid("", shown, rows, **how)


def _tables(facts: Row) -> Iterator[Block]:
    yield from _section(
        "Use and waits by day", "days", columns("by_day"), facts["days"][::-1],
        "The last 28 days (UTC) before the newest submitted job, newest day first. For the utilisation, set "
        "`site.max_procs` in the config.",
    )  # fmt: skip
    yield from _section(
        "Failures of the last seven days", "failures", columns("failures"), facts["failures"],
        "Jobs that ended in the seven days before the newest submitted job, or later. The table shows the five "
        "applications, accounts and queues that lost the most processor-hours, and users with `--users`."
        if facts["failures"] else "In its last seven days the log has no job that failed, was cancelled or reached its "
        "time limit.",
    )  # fmt: skip
    if facts["user_queues"]:
        yield from _section(
            "Users and queues", "users", columns("users", **BY_USER), facts["user_queues"],
            "The log has no application names. Rows are sorted by processor-hours. `walltime query` estimates a job of "
            "a row with `--user`, `--account` or `--queue`.",
            source="walltime show jobs --csv",
        )  # fmt: skip
    applications = facts["applications"]
    yield from _section(
        "Applications", "groups", APPLICATIONS, applications,
        "Rows are sorted by processor-hours. Reliable: the share of the kept jobs whose processor count has a "
        "prediction with reliability ok. Such a prediction has an 80% interval that contained about 80% of later runs, "
        "and its upper end is at most 2.5 times its lower end. The advice is that of `walltime scaling advise` for the "
        "largest group.",
        n_all=len(applications) + facts["n_hidden"], id="applications",
    )  # fmt: skip
    yield from _section(
        "Queues and waits", "queues", columns("queues"), facts["queues"],
        "Jobs submitted in the 28 days before the newest submitted job. The wait is the time from submit to start.",
    )  # fmt: skip
    yield queue_picture(newest_answers(facts["starts"]))
    yield from _section(
        "Worst estimates of the last seven days", "worst", columns("worst", **BY_USER), facts["worst"],
        "The jobs submitted in the last seven days whose runtime differed most from the estimate at their submit. "
        "`walltime show errors` lists all jobs."
        if facts["worst"] else "No estimate of this version can be compared with a runtime.",
    )  # fmt: skip
    yield from _section(
        "Allocated but idle", "unused", WASTE, facts["waste"], *facts["silent_requests"],
        "Unused processor-hours are the allocated ones minus the CPU time. Unused GPU-hours are computed in the same "
        "way, because logs do not measure the use of GPUs. Requested, not used: processor-hours between the end of a "
        "job and its time limit. Each number is computed only from jobs that have the values it needs. `walltime show "
        "waste` prints this table."
        if facts["waste"] else "This version has no table of waste.",
        id="waste", source="walltime show waste --csv",
    )  # fmt: skip
    yield from _section(
        "Cleaning", "cleaning", columns("cleaning"), facts["cleaning"],
        '`walltime show jobs --where "flag is not null"` lists the jobs set aside.',
    )  # fmt: skip
    yield from _section(
        "Estimates by week", "weeks", columns("promise"), facts["promise"],
        "The share of jobs whose runtime was inside the 80% interval of the estimate at their submit, by week of "
        'submit. The 95% confidence interval of the share is from "at least" to "at most".',
    )  # fmt: skip
    yield from _section(
        "Jobs with shorter limits", "limits", columns("limit_weeks"), facts["limits"]["weeks"],
        "By the week in which the jobs ended. A limit is raised before the job reaches it. `walltime limits --status` "
        "prints this table."
        if facts["limits"]["weeks"] else "No job with a shorter limit of Walltime has ended yet.",
    )  # fmt: skip
    yield from _section(
        "How jobs are grouped", "templates", TEMPLATES, facts["templates"],
        "The templates that were compared. A template is a list of columns of jobs, such as account+queue. Jobs with "
        "the same values in these columns form a group. The score is the error on later jobs minus a bonus for "
        f"processor-hours in scalability series; the lowest score is the best. {facts['grouping'] or ''}",
    )  # fmt: skip
    yield from _section(
        "Nights", "nights", NIGHTS, facts["nights"],
        "The published versions, newest first, with the change since the version before. `walltime versions list` "
        "lists them.",
    )  # fmt: skip


def _first_screen(facts: Row) -> show.Figures:
    week = facts["promise"][-1] if facts["promise"] else None
    of_all = next((row for row in facts["waste"] or () if row["kind"] == "all"), None)
    weeks, changes = facts["limits"]["weeks"], facts["nights"][0]["changes"]
    planned, raised = (sum(row[name] for row in weeks) for name in ("n_planned", "n_raised"))
    return show.Figures((
        Figure(
            minute(facts["newest_job"]) or "unknown", "Newest job",
            f"Its end, UTC. The tables were made {minute(facts['made'])}."
            f"{' Jobs by day of submit:' if facts['days'] else ''}",
            _days(facts["days"]), "days",
        ),
        Figure(
            percent(week["coverage_80"]) if week else "–", "Runtimes inside the 80% interval",
            f"of {number(week['n_jobs'])} jobs in the week from {week['week']} (95% confidence: "
            f"{percent(week['lo95'])} to {percent(week['hi95'])})." if week else "No week has enough jobs.",
            _promise(facts["promise"]), "weeks",
        ),
        Figure(
            *(_unused(of_all) if of_all else ("–", "Unused processor-hours", "This version has no table of waste.")),
            link="unused",
        ),
        Figure(
            number(planned), "Jobs with a shorter limit",
            f"The limits of {number(raised)} had to be raised." if planned
            else f"No job was given a shorter time limit, because export.mode is {facts['mode']}.",
            link="limits",
        ),
        Figure(
            f"{changes['jobs']:+,}" if changes["jobs"] is not None else "–", "Jobs since last night",
            f"set aside {changes['set_aside'] or 0:+,}, groups {changes['groups'] or 0:+,}, reliable predictions "
            f"{changes['reliable'] or 0:+,}." if changes["jobs"] is not None else "This is the first version on disk.",
            _nights(facts["nights"][::-1]), "nights",
        ),
    ))  # fmt: skip


def _unused(row: Row) -> tuple[str, str, str]:
    """The unused processor-hours, or where the log has no CPU time those requested and not used, and other waste."""
    others = {"GPU-hours": row["unused_gpu_hours"], "GiB-hours": row["unused_gib_hours"]}
    parts = [f"of {number(row['proc_hours'])} allocated"]
    parts += [f"unused {name} {number(value)}" for name, value in others.items() if value is not None]
    if row["unused_proc_hours"] is not None:
        return number(row["unused_proc_hours"]), "Unused processor-hours", "; ".join(parts) + "."
    beside = "; ".join(["The log has no CPU time", *parts[1:]]) + "."
    return number(row["reserved_hours"]) or "–", "Processor-hours requested and not used", beside


def _card(alt: str, names: Sequence[str], marks: Sequence[charts.Mark], y: charts.Axis) -> charts.Chart:
    """A small chart of things in order of time; without panels where there are none."""
    panels = [charts.Panel(marks, charts.named_steps(names, most=3), y)] if names else ()
    return charts.Chart(alt, panels, height=110, left=34, width=charts.CARD_WIDTH)


def _days(days: Rows) -> charts.Chart:
    """Jobs by day of submit: a day without jobs is a gap in the log, or a quiet machine."""
    ends = f", {days[0]['day']} to {days[-1]['day']}" if days else ""
    marks = [charts.bars(range(len(days)), [row["n_jobs"] for row in days])]
    return _card(f"Jobs submitted by day{ends}.", [row["day"][5:] for row in days], marks, charts.Axis(most=4))


def _promise(weeks: Rows) -> charts.Chart:
    """The share of jobs in their 80% interval by week, with its band, against the promise."""
    index, shares, low, high = range(len(weeks)), *([row[n] for row in weeks] for n in ("coverage_80", "lo95", "hi95"))
    marks: list[charts.Mark] = [
        charts.Band(index, low, high), charts.Line(index, shares, "kept", 1.5), charts.Dots(index, shares, "kept"),
        charts.rule(y=PROMISED, dash="5 3"),
    ]  # fmt: skip
    alt = "Share of jobs in the 80% interval by week, with its 95% band; the dashed line is 80%."
    y = charts.Axis("", charts.percent_label, (min(0.4, *low, 1), 1.0), most=4)
    return _card(alt, [row["week"][2:] for row in weeks], marks, y)


def _nights(nights: Rows) -> charts.Chart:
    known = [night for night in nights if night["reliable"] is not None]
    reliable, index = [night["reliable"] for night in known], range(len(known))
    marks: list[charts.Mark] = [charts.Line(index, reliable, "kept", 1.5), charts.Dots(index, reliable, "kept")]
    names = [minute(night["made"])[5:10] for night in known] if len(known) > 1 else []
    return _card("Reliable predictions by night.", names, marks, charts.Axis(ends=(0, None), most=4))


def newest_answers(starts: Rows) -> list[dict[str, Any]]:
    """The newest answer of each waiting job of STARTS that may start within HOURS of it, the earliest first.

    Hours from the answer: `q10`, `q50`, `q80` and `q95`, those after HOURS too; and `job_id` and `queue`.
    """
    made_s = max((row["made_s"] for row in starts), default=0)
    rows = [row for row in starts if row["is_newest"] and row["made_s"] == made_s]
    found = [
        {"job_id": row["job_id"], "queue": row["queue"]}
        | {f"q{q}": max(row[f"start_s_q{q}"] - made_s, 0) / 3600 for q in (10, 50, 80, 95)}
        for row in rows
    ]
    return sorted((row for row in found if row["q10"] < HOURS), key=lambda row: (row["q50"], row["job_id"]))


def queue_picture(rows: Rows) -> charts.Chart:
    """The first MOST_JOBS of `newest_answers`, a line a job; without panels where no job waits."""
    shown, marks = rows[:MOST_JOBS], []
    lanes = np.arange(len(shown))
    q10, q50, q80, q95 = (np.array([row[name] for row in shown]) for name in ("q10", "q50", "q80", "q95"))
    for high, half in ((q95, 0.12), (q80, 0.3)):
        marks.append(charts.Bars(q10, np.minimum(high, HOURS), lanes - half, lanes + half, "best", 0.4))
    names = [f"{row['job_id']} {row['queue'] or ''}".strip() for row in shown]
    x = charts.Axis(
        "hours from now: a dot is the median, bars end at the 80 and 95% quantiles", ends=(0, HOURS), most=12
    )
    return charts.Chart(
        f"Expected starts of {len(shown)} waiting jobs in the next {HOURS} hours.",
        [charts.Panel([*marks, charts.Dots(q50, lanes)], x, charts.named_rows(names))] if shown else (),
        "Expected starts of waiting jobs, as `walltime when` answers them.",
        height=50 + 14 * len(shown),
        left=150,
    )
