"""The page of a site and the index of its applications: numbers of the first screen, and the tables behind them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup

from flows.pages.formats import number, percent, signed, span_if_known
from flows.pages.html import drawing
from flows.pages.html.page import page_of
from flows.pages.terminal.blocks import (
    JOBS,
    PROC_HOURS,
    WEEK,
    Block,
    Chart,
    Column,
    Figure,
    Figures,
    Grid,
    Heading,
    Lead,
    Links,
    text,
)
from flows.pages.terminal.view_scheduler import LIMIT_WEEKS
from pipeline.errors import printable

Rows = Sequence[Mapping[str, Any]]

PROMISED = 0.8
BARS = 6
HOURS, MOST_JOBS = 24, 40
"""Of the picture of the queue."""


def _minute(made: str | None) -> str:
    """A time to the minute, as in 2026-11-24 15:12."""
    return (made or "")[:16]


def _known(value: Any) -> str:
    return str(value or "unknown")


KEPT, GROUPS = Column("kept", "n_kept"), Column("groups", "n_groups")
QUEUE, WHO = (
    text("queue", form=_known),
    text("user or account", lambda row: row["user"] or row.get("account"), form=_known),
)
IN_80 = Column("in 80%", "coverage_80", percent)
APPLICATIONS = (
    text("application", lambda row: row["name"] or "jobs of no known application", link="link"),
    *(PROC_HOURS, JOBS, KEPT, GROUPS),
    Column("reliable", "reliable_share", percent),
    Column("best count", "best_procs"),
    text("advice", lambda row: row["advice"] or "no kept job to learn from", limit=500),
)
USERS = (WHO, QUEUE, PROC_HOURS, JOBS, KEPT)
QUEUES = (
    *(QUEUE, PROC_HOURS, JOBS),
    Column("median wait", "wait_s", span_if_known),
    Column("90% waited less than", "wait_s_q90", span_if_known),
)
WORST = (
    text("job", "job_id"),
    text("ended", "day"),
    *(WHO, text("application", form=_known), Column("processors", "procs")),
    Column("estimated", "runtime_s_q50", span_if_known),
    Column("took", "runtime_s", span_if_known),
    Column("requested", "requested_s", span_if_known),
    text("why", limit=300),
)
WASTE = (
    text("by", "kind"),
    text("name", lambda row: row["name"] or ("" if row["kind"] == "all" else "unknown")),
    *(
        Column(heading, name)
        for heading, name in {
            "jobs": "n_jobs", "processor-hours": "proc_hours", "unused": "unused_proc_hours", "with CPU time": "n_cpu",
            "GPU-hours": "gpu_hours", "unused GPU-hours": "unused_gpu_hours",
            "GPU-hours of GPU jobs on one processor": "one_proc_gpu_hours",
            "GiB-hours": "gib_hours", "unused GiB-hours": "unused_gib_hours", "reserved": "reserved_hours",
            "kWh": "energy_kwh", "unused kWh at most": "unused_kwh", "kg CO2e": "carbon_kg",
            "unused kg CO2e at most": "unused_carbon_kg",
        }.items()
    ),
    text("ask for instead", "ask", form="; ".join, limit=500),
)  # fmt: skip
CLEANING = (text("jobs", "name"), text("meaning", limit=500), Column("jobs", "jobs"), PROC_HOURS)
WEEKS = (
    *(WEEK, JOBS, Column("without an estimate", "n_unanswered"), IN_80),
    Column("under q80", "coverage_q80", percent),
    Column("under q95", "coverage_q95", percent),
    Column("mean error over mean runtime", "mae_over_mean"),
)
PROMISE = (WEEK, JOBS, IN_80, Column("at least", "lo95", percent), Column("at most", "hi95", percent))


def _change(name: str, night: Mapping[str, Any]) -> Any:
    return night["changes"][name]


def _changed(value: float | None) -> str:
    return signed(value, 0) if value else ""


FIGURES = {"jobs": "jobs", "set_aside": "set aside", "groups": "groups", "predictions": "predictions",
           "reliable": "reliable", "estimates": "estimates"}  # fmt: skip
CHANGES = ("jobs", "set_aside", "groups", "reliable")
NIGHTS = (
    text("made (UTC)", "made", form=_minute),
    text("newest job (UTC)", "newest_job", form=_minute),
    *(Column(heading, name) for name, heading in FIGURES.items()),
    *(Column(f"change of {FIGURES[name]}", partial(_change, name), _changed) for name in CHANGES),
    Column("in 80% later", "in_80_later", percent),
    text("template", lambda row: f"{row['template'] or ''}{' (new)' if row['new_template'] else ''}"),
)
STEPS = (text("step"), Column("seconds"), Column("rows"))
TEMPLATES = (
    text("template"),
    Column("error on later jobs", "error_later"),
    Column("covered", "share_covered"),
    *(GROUPS, Column("series", "n_scaling_groups"), Column("score")),
    text("chosen", lambda row: row["why"] if row["is_chosen"] else "", limit=500),
)
"""Candidates for grouping, best first."""


def index_page(facts: Mapping[str, Any]) -> str:
    """The page that links an application's page each."""
    return page_of(
        "Walltime: how applications scale", facts["site"], _index_blocks(facts), [facts["doubt"] or ""], has_script=True
    )


def _index_blocks(facts: Mapping[str, Any]) -> Iterator[Block]:
    if facts["others"]:
        yield Links("Other pages", facts["others"])
    yield from _applications(facts)
    if facts["templates"]:
        yield Heading("How jobs are grouped")
        yield (
            "Templates compared; jobs that share a template's values form a group. The score is the error on later "
            "jobs, a little lower for the share of work in series."
        )
        yield Grid("", TEMPLATES, facts["templates"])


def _applications(facts: Mapping[str, Any]) -> Iterator[Block]:
    yield Heading("Applications", "groups")
    yield (
        "Most processor-hours first. Reliable: the share of an application's kept jobs whose group has a prediction "
        "with reliability ok at their processors (its 80% interval contained its share of later runs and spans at most "
        "2.5 times). Advice is that of `walltime scaling advise` for its largest group."
    )
    rows = facts["applications"]
    yield Grid("", APPLICATIONS, rows, n_all=len(rows) + facts["n_hidden"], id="applications")


def site_page(facts: Mapping[str, Any]) -> str:
    """The page of a site; the same facts give the same bytes."""
    footer = f"Tables by Walltime {facts['code']}, run {facts['run_id']}; `walltime report --json` has the content."
    blocks = (*_first_screen(facts), *_tables(facts))
    return page_of("Walltime: site", facts["site"], blocks, _state(facts), footer, has_script=True)


def _state(facts: Mapping[str, Any]) -> Iterator[Block]:
    """The last run, and what needs to be looked at."""
    last = facts["last_run"]
    ran = (
        f"Last run: {last['state']} ({last['reason']}), {_minute(last['ended'] or last['began'])} UTC. " if last else ""
    )
    yield f"{ran}Version `{facts['version']}`."
    yield Links("Other pages", {"how applications scale": "index.html"})
    for one in facts["blocked"]:
        yield Lead(f"A version made {one['made']} is blocked by a check: run {one['run_id']}, in `blocked/`.")
    if ended := sum(week["n_ended"] for week in facts["limits"]["weeks"]):
        yield Lead(
            f"{number(ended)} jobs were ended at a limit below their requests. See whether `walltime guard` runs."
        )
    yield facts["doubt"] or ""


def _first_screen(facts: Mapping[str, Any]) -> Iterator[Block]:
    week = facts["promise"][-1] if facts["promise"] else None
    of_all = next((row for row in facts["waste"] or () if row["kind"] == "all"), None)
    weeks, changes = facts["limits"]["weeks"], facts["nights"][0]["changes"]
    planned, raised = (sum(row[name] for row in weeks) for name in ("n_planned", "n_raised"))
    yield Figures((
        Figure(
            _minute(facts["newest_job"]) or "unknown", "Newest job",
            f"UTC. Tables made {_minute(facts['made'])}.{' Jobs by day of submit:' if facts['days'] else ''}",
            partial(_days, facts["days"]), "nights",
        ),
        Figure(
            percent(week["coverage_80"]) if week else "–", "Coverage of the 80% interval",
            f"of {number(week['n_jobs'])} jobs, week from {week['week']} ({percent(week['lo95'])} to "
            f"{percent(week['hi95'])})." if week else "No week has enough jobs of this version's state to tell.",
            partial(_promise, facts["promise"]), "weeks",
        ),
        Figure(
            number(of_all["unused_proc_hours"]) or "–" if of_all else "–", "Unused processor-hours",
            _unused(of_all) if of_all else "This version has no table of waste.",
            partial(_waste, facts["waste"]), "unused",
        ),
        Figure(
            number(planned), "Jobs planned shorter",
            f"The limits of {number(raised)} had to be raised." if planned
            else f"No job was planned with a shorter limit: export.mode is {facts['mode']}.",
            partial(_limits, weeks[::-1]), "limits",
        ),
        Figure(
            f"{changes['jobs']:+,}" if changes["jobs"] is not None else "–", "Jobs since last night",
            f"set aside {changes['set_aside'] or 0:+,}, groups {changes['groups'] or 0:+,}, reliable predictions "
            f"{changes['reliable'] or 0:+,}." if changes["jobs"] is not None else "This is the first version on disk.",
            partial(_nights, facts["nights"][::-1]), "nights",
        ),
    ))  # fmt: skip


def _unused(row: Mapping[str, Any]) -> str:
    """What the unused processor-hours are of, and what else was not used."""
    others = {"GPU-hours": row["unused_gpu_hours"], "GiB-hours": row["unused_gib_hours"]}
    parts = [f"of {number(row['proc_hours'])} allocated"]
    parts += ["the log has no CPU time"] if row["unused_proc_hours"] is None else []
    parts += [f"{name} {number(value)}" for name, value in others.items() if value is not None]
    return "; ".join(parts) + "."


def _tables(facts: Mapping[str, Any]) -> Iterator[Block]:
    if facts["user_queues"]:
        yield Heading("Users and queues", "groups")
        yield (
            "The log knows no application. Most processor-hours first; `walltime query --user NAME` answers for one "
            "of them."
        )
        yield Grid("", USERS, facts["user_queues"], id="users", source="walltime show jobs --csv")
    else:
        yield from _applications(facts)
    yield Heading("Queues and waits", "queues")
    yield "Jobs submitted in the last 28 days of the log. The wait is from submit to start."
    yield Grid("", QUEUES, facts["queues"])
    waiting = newest_answers(facts["starts"])
    yield Chart(partial(queue_picture, waiting), "Expected starts of waiting jobs, as `walltime when` answers them.")
    yield Heading("Worst estimates of the last seven days", "worst")
    if facts["worst"]:
        yield (
            "Largest difference between the estimate at the submit and the runtime. `walltime show errors` has all, by "
            "day and by job."
        )
        yield Grid("", WORST, facts["worst"])
    else:
        yield "No estimate of this version can be compared with a runtime."
    yield Heading("Allocated but idle", "unused")
    yield from facts["silent_requests"]
    if facts["waste"]:
        yield (
            "Unused processor-hours and GPU-hours are allocated ones less CPU time: logs do not measure GPUs. "
            "Reserved: requested time after the end, which no job used. Each figure rests on the jobs that have its "
            "values. `walltime show waste` is this table."
        )
        yield Grid("", WASTE, facts["waste"], id="waste", source="walltime show waste --csv")
    else:
        yield "This version has no table of what jobs held and did not use."
    yield Heading("Cleaning", "cleaning")
    yield '`walltime show jobs --where "flag is not null"` lists the jobs set aside.'
    yield Grid("", CLEANING, facts["cleaning"])
    yield Heading("Estimates by week", "weeks")
    yield (
        'What a query at each job\'s submit would have said, by week of submit. The share varies between "at least" '
        'and "at most" by chance (95%).'
    )
    yield Grid("", PROMISE, facts["promise"])
    if facts["coverage"]:
        yield ("Kept jobs by the week of their submit, each looked up in the newest published table older than it.")
        yield Grid("", WEEKS, facts["coverage"])
    yield Heading("Jobs planned with shorter limits", "limits")
    if facts["limits"]["weeks"]:
        yield (
            "By week of their ends. A limit is raised before the job reaches it. `walltime limits --status` is this "
            "table."
        )
        yield Grid("", LIMIT_WEEKS, facts["limits"]["weeks"])
    else:
        yield "No job has ended that Walltime planned with a shorter limit."
    yield Heading("Nights", "nights")
    yield (
        "Published versions, newest first, with the change since the version before. `walltime versions list` names "
        f"them. {facts['grouping'] or ''}"
    )
    yield Grid("", NIGHTS, facts["nights"])
    if facts["last_run"] and facts["last_run"]["steps"]:
        yield Heading("Steps of the last run")
        yield Grid("", STEPS, facts["last_run"]["steps"])


def _days(days: Rows) -> Markup | str:
    """Jobs by day of submit: a day without jobs is a gap in the log, or a quiet machine."""
    if not days:
        return ""
    first = np.datetime64(days[0]["day"])
    places = [int((np.datetime64(row["day"]) - first).astype(int)) for row in days]
    figure, axes = drawing.card()
    axes.bar(places, [row["n_jobs"] for row in days], color=drawing.COLOURS["kept"], width=0.8)
    drawing.named_ticks(axes.xaxis, {places[place]: days[place]["day"][5:] for place in (0, len(days) // 2, -1)})
    return drawing.to_svg(figure, f"Jobs submitted by day, {days[0]['day']} to {days[-1]['day']}.")


def _promise(weeks: Rows) -> Markup | str:
    """The share of jobs in their 80% interval by week, with its band, against the promise."""
    if not weeks:
        return ""
    figure, axes = drawing.card()
    places = list(range(len(weeks)))
    low, high = ([row[end] for row in weeks] for end in ("lo95", "hi95"))
    if len(weeks) > 1:
        axes.fill_between(places, low, high, facecolor=drawing.COLOURS["kept"], alpha=0.25)
    drawing.curve(axes, places, [row["coverage_80"] for row in weeks], colour="kept", markersize=3)
    drawing.rule(axes.axhline, PROMISED, linestyle=(0, (5, 3)))
    drawing.per_cent(axes.yaxis)
    axes.set_ylim(min(0.4, *low), 1.0)
    _weeks_below(axes, weeks)
    return drawing.to_svg(
        figure, "Share of jobs in the 80% interval by week, with its 95% band; the promise is the dashed line."
    )


def _limits(weeks: Rows) -> Markup | str:
    if not weeks:
        return ""
    figure, axes = drawing.card()
    places = list(range(len(weeks)))
    axes.bar(places, [row["n_planned"] for row in weeks], color=drawing.COLOURS["kept"], width=0.8)
    axes.bar(places, [row["n_raised"] for row in weeks], color=drawing.COLOURS["flurry"], width=0.8)
    _weeks_below(axes, weeks)
    return drawing.to_svg(
        figure, "Jobs planned with a shorter limit, by week; red: those whose limit had to be raised."
    )


def _weeks_below(axes: Any, weeks: Rows) -> None:
    ends = dict.fromkeys((0, len(weeks) // 2, len(weeks) - 1))
    drawing.named_ticks(axes.xaxis, {place: weeks[place]["week"][2:] for place in ends})
    axes.get_xticklabels()[-1].set_horizontalalignment("right")


def _waste(rows: Rows | None) -> Markup | str:
    """Unused processor-hours of those that waste most; where the log names no application, those of accounts."""
    known = [row for row in rows or () if row["name"] and row["unused_proc_hours"]]
    kind = next((kind for kind in ("application", "account", "user") if any(r["kind"] == kind for r in known)), "")
    most = sorted((row for row in known if row["kind"] == kind), key=lambda row: -row["unused_proc_hours"])[:BARS]
    if not most:
        return ""
    figure, axes = drawing.card(left=0.32)
    axes.barh(
        range(len(most)), [row["unused_proc_hours"] for row in most], color=drawing.COLOURS["suspect"], height=0.7
    )
    names = [printable(f"{kind} {row['name']}", 18) for row in most]
    drawing.named_rows(axes, names)
    axes.grid(visible=False)
    drawing.whole_ticks(axes.xaxis, 3)
    axes.xaxis.set_major_formatter(drawing.short)
    return drawing.to_svg(figure, f"Unused processor-hours of {', '.join(names)}.")


def _nights(nights: Rows) -> Markup | str:
    known = [night for night in nights if night["reliable"] is not None]
    if len(known) < 2:
        return ""
    figure, axes = drawing.card()
    drawing.curve(axes, range(len(known)), [night["reliable"] for night in known], colour="kept", markersize=3)
    axes.set_ylim(0, None)
    drawing.named_ticks(axes.xaxis, {place: _minute(known[place]["made"])[5:10] for place in (0, len(known) - 1)})
    return drawing.to_svg(figure, "Reliable predictions by night.")


def newest_answers(starts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
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


def queue_picture(rows: Sequence[Mapping[str, Any]]) -> Markup | str:
    """SVG of the first MOST_JOBS of `newest_answers`, a line a job; empty where no job waits."""
    shown = rows[:MOST_JOBS]
    if not shown:
        return ""
    figure, axes = drawing.panel(0.7 + 0.18 * len(shown), left=0.2)
    for place, row in enumerate(shown):
        for low, high, height in (("q10", "q95", 0.25), ("q10", "q80", 0.6)):
            axes.barh(
                place, row[high] - row[low], left=row[low], height=height, color=drawing.COLOURS["best"], alpha=0.4
            )
        axes.plot(row["q50"], place, "o", markersize=4, color=drawing.COLOURS["ink"])
    names = [printable(f"{row['job_id']} {row['queue'] or ''}".strip(), 30) for row in shown]
    drawing.named_rows(axes, names)
    axes.set_xlim(0, HOURS)
    axes.set_xlabel("hours from now: a dot is the median, bars end at the 80 and 95% quantiles")
    return drawing.to_svg(figure, f"Expected starts of {len(shown)} waiting jobs in the next {HOURS} hours.")
