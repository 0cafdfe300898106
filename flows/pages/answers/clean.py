"""What `walltime clean` answers: the jobs set aside and why, the bursts, and how that changes the log; as page too."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from flows.pages.answers import clean_charts
from flows.pages.formats import number, percent, span_if_known
from flows.pages.terminal.blocks import (
    JOBS,
    PROC_HOURS,
    Block,
    Chart,
    Column,
    Detail,
    Facts,
    Figure,
    Figures,
    Grid,
    Heading,
    Verbatim,
    notes,
    report_grid,
    text,
    wrote,
)
from flows.services.logs.cleaning import Cleaned
from pipeline.errors import printable
from pipeline.report import total
from pipeline.schema import Flag
from pipeline.settings import CleanSettings

BURSTS_SHOWN, BURSTS_ON_PAGE = 10, 2000

Rows = Sequence[Mapping[str, Any]]

MEANINGS = {str(flag): flag.meaning for flag in Flag}
EFFECT = (
    text("", "selection"),
    text("meaning", lambda row: MEANINGS.get(row["selection"], ""), limit=500, is_detail=True),
    JOBS,
    Column("users", "n_users"),
    PROC_HOURS,
    Column("mean runtime s", "runtime_s_mean"),
    Column("median", "runtime_s_median"),
    Column("mean procs", "procs_mean"),
    Column("median", "procs_median"),
    Column("jobs a day", "jobs_per_day_mean"),
    Column("median", "jobs_per_day_median"),
    Column("load"),
)

_BURST_FACTS = {
    "smallest_burst_jobs": "smallest burst that this log can show (jobs at once)",
    "bursts_removed": "bursts strong enough to set aside",
    "bursts_suspect": "bursts only suspected",
}


def _bursts(zone: ZoneInfo) -> tuple[Column, ...]:
    """The columns of bursts, with times on the site's clock."""
    whole = partial(percent, digits=0)
    return (
        text("burst", "burst_id"),
        text("", "outcome"),
        text("screen", is_detail=True),
        text("user", limit=40),
        text("from", "first_submit_s", form=partial(_local_time, zone=zone), is_detail=True),
        JOBS,
        Column("days", "span_days"),
        Column("share", "share_of_span", whole, told="of all jobs in that time"),
        Column("machine-weeks", "machine_weeks", told="the lead over all other users"),
        Column("same size", "alike_procs", whole),
        Column("same application", "alike_application", whole, is_detail=True),
        Column("runtime spread", "runtime_spread", told="the upper quartile of the runtimes over the lower one"),
        Column("median runtime", "runtime_s_median", span_if_known, is_detail=True),
        Column("processor-hours", "proc_hours", is_detail=True),
    )


def clean_blocks(
    cleaned: Cleaned, written: Mapping[str, Path] | None = None, *, is_whole: bool = False, most: int = BURSTS_SHOWN
) -> Iterator[Block]:
    """The report by flag, the effect, and the bursts with a sentence each; a page also has charts, rules, settings."""
    report, bursts, zone = cleaned.report, cleaned.burst_rows(), ZoneInfo(cleaned.settings.site.timezone)
    yield Detail(_jobs_by_day(cleaned, bursts))
    yield report_grid(report)
    yield Facts("", {_BURST_FACTS.get(name, name): value for name, value in report.facts.items()})
    yield ""
    effect = cleaned.effect.to_pylist()
    yield Heading("Before and after, and what each flag set aside")
    yield Grid("", EFFECT, effect)
    yield Detail(_before_and_after(cleaned, has_load=effect[0]["load"] is not None))
    shown = bursts if is_whole else bursts[:most]
    if shown:
        yield Heading("Bursts")
        yield Detail(_lanes(cleaned, bursts))
        colours = [clean_charts.colour_of_burst(burst) for burst in shown]
        yield Grid(
            "", _bursts(zone), shown, below=lambda burst: str(burst["why"]), colours=colours, most=BURSTS_ON_PAGE
        )
    else:
        yield Detail(_no_burst(report.facts.get("smallest_burst_jobs")))
    if len(shown) < len(bursts):
        yield f"{number(len(bursts) - len(shown))} more: --all lists them, and so does the table of bursts."
    yield Detail(_rules_and_settings(cleaned, bursts))
    yield ""
    yield from notes(report.notes)
    yield from wrote(written or {})


def cleaning_page(cleaned: Cleaned) -> str:
    """The page; the same log and settings give the same bytes."""
    from flows.pages.html.page import page_of  # noqa: PLC0415  (a terminal needs no templates)

    footer = "Nothing was deleted: a job set aside is still in the table, with its `flag` and `burst_id`."
    blocks = clean_blocks(cleaned, most=BURSTS_ON_PAGE)
    return page_of("What cleaning did", cleaned.title, blocks, _summary(cleaned), footer)


def _summary(cleaned: Cleaned) -> Iterator[Block]:
    """How much was set aside, in a few numbers."""
    report, bursts, zone = cleaned.report, cleaned.burst_rows(), ZoneInfo(cleaned.settings.site.timezone)
    span_s = clean_charts.submits(cleaned)[1]
    ends = " to ".join(_local_time(one, zone) for one in span_s) if span_s else "no submit times"
    yield f"{number(report.seen.rows)} jobs, {ends} ({zone.key})"
    aside = total(report.set_aside.values())
    n_aside = sum(burst["outcome"] in ("set aside", "dropped by rule") for burst in bursts)
    n_suspect = sum(burst["tier"] == "suspect" for burst in bursts)
    figures = [
        Figure(number(aside.rows), f"jobs set aside, {_part(aside.rows, report.seen.rows)} of all"),
        Figure(_part(aside.proc_s, report.seen.proc_s), "of the processor-hours went with them"),
        Figure(number(n_aside), f"burst{'' if n_aside == 1 else 's'} set aside"),
        Figure(number(n_suspect), f"suspect{'' if n_suspect == 1 else 's'}, listed and kept"),
    ]
    if (smallest := report.facts.get("smallest_burst_jobs")) is not None:
        figures.append(Figure(number(smallest), "jobs at once: the smallest burst that this log can show"))
    yield Figures(figures)


def _part(one: float, whole: float) -> str:
    share = one / whole if whole else 0.0
    return percent(share) if share >= 0.001 or not share else "under 0.1%"


def _jobs_by_day(cleaned: Cleaned, bursts: Rows) -> Iterator[Block]:
    yield Heading("Jobs per day")
    span_s, zone = clean_charts.submits(cleaned)[1], ZoneInfo(cleaned.settings.site.timezone)
    if span_s is None:
        yield "No job has a submit time."
        return
    n_days = clean_charts.days_a_bar(span_s, zone)[1]
    caption = f"Jobs submitted per {'day' if n_days == 1 else f'{n_days} days'}, by what became of them."
    draw = partial(clean_charts.draw_daily, cleaned, bursts, span_s, zone)
    yield Chart(draw, caption, clean_charts.outcomes_of(cleaned, bursts))


def _before_and_after(cleaned: Cleaned, *, has_load: bool) -> Iterator[Block]:
    lacks = "" if has_load else "; it is unknown here, because the config does not set `site.max_procs`"
    yield (
        "A job is counted under the first reason that applies. Load is work over the capacity of the machine in the "
        f"log's days{lacks}."
    )
    yield Heading("Runtimes and sizes, before and after")
    caption = "Jobs by runtime and by processors, both on logarithmic axes."
    yield Chart(partial(clean_charts.draw_spread, cleaned), caption, clean_charts.BEFORE_AND_AFTER)
    yield Heading("The machine")
    size = cleaned.settings.site.max_procs
    unknown = "" if size else " The machine's size is unknown: the config does not set `site.max_procs`."
    caption = f"Processors busy, as means over {clean_charts.INTERVALS} equal stretches of the log.{unknown}"
    legend = (*clean_charts.BEFORE_AND_AFTER, *clean_charts.machine_mark(size))
    yield Chart(partial(clean_charts.draw_busy, cleaned), caption, legend)


def _lanes(cleaned: Cleaned, bursts: Rows) -> Iterator[Block]:
    yield (
        "A burst is many jobs of one user that outnumber those of all other users, that only probe whether the machine "
        "responds, or that a timer submits. Strong bursts are set aside. The others are suspects: they are listed here "
        "and kept."
    )
    hidden = len(bursts) - clean_charts.LANES
    more = f" {number(hidden)} more are in the table only." if hidden > 0 else ""
    yield Chart(
        partial(clean_charts.draw_lanes, cleaned, bursts[: clean_charts.LANES]),
        "One lane per burst: its jobs over time, its user at the left, its number of jobs at the right; suspects are "
        f"ochre. Point at a lane to read the reason.{more}",
    )


def _no_burst(smallest: object) -> Iterator[Block]:
    yield Heading("Bursts")
    unseen = f" A burst of fewer than {number(smallest)} jobs could not have been detected." if smallest else ""
    yield f"None was found.{unseen}"


RULES = (text("in force", 0), text("which jobs", 1, limit=500), text("why", 2), Column("jobs", 3))
SETTINGS = (text("setting", 0), text("value", 1), text("default", 2), text("meaning", 3, limit=500))


def _rules_and_settings(cleaned: Cleaned, bursts: Rows) -> Iterator[Block]:
    yield Heading("Rules to keep or drop jobs")
    yield (
        "You know your users better than a screen does. Add rules with reasons to the config and clean again: they "
        "override every screen, and the report lists their reasons. The id of a burst does not change as the log grows."
    )
    yield Verbatim(snippet(bursts))
    rules = list(_rules(cleaned))
    yield Grid("", RULES, rules) if rules else "The config has no such rule."
    yield Heading("Settings used")
    for name, section in _sections(cleaned.settings.clean):
        rows = [
            (key, _value(value), _default(value, field), field.description or "")
            for key, field in type(section).model_fields.items()
            if not isinstance(value := getattr(section, key), BaseModel) and key not in ("keep", "drop")
        ]
        yield Grid(f"[{name}]: {(type(section).__doc__ or '').strip()}", SETTINGS, rows)


def _sections(settings: CleanSettings) -> Iterator[tuple[str, BaseModel]]:
    yield "clean", settings
    for name in type(settings).model_fields:
        if isinstance(section := getattr(settings, name), BaseModel):
            yield f"clean.{name}", section


def _default(value: object, field: FieldInfo) -> str:
    """The default of a setting where its value is another."""
    default = _value(field.get_default(call_default_factory=True))
    return "" if _value(value) == default else f"Default: {default}."


def _local_time(instant_s: float | None, zone: ZoneInfo) -> str:
    if instant_s is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(int(instant_s), zone):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return str(instant_s)


def _rules(cleaned: Cleaned) -> Iterator[tuple[object, ...]]:
    """The site's own rules, and the number of jobs that each matches."""
    clean = cleaned.settings.clean
    for word, rules in (("keep", clean.keep), ("drop", clean.drop)):
        for rule in rules:
            named = rule.model_dump(exclude={"reason"}, exclude_none=True)
            n_jobs = cleaned.report.facts.get(f"site_{word}: {printable(rule.reason)}")
            yield word, ", ".join(f"{key} {value}" for key, value in named.items()), rule.reason, n_jobs


def _value(value: object) -> str:
    """The value of a setting as text."""
    if isinstance(value, dict):
        value = [f"{name} = {_value(one)}" for name, one in value.items()]
    if isinstance(value, tuple | list):
        return ", ".join(str(one) for one in value) or "none"
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def snippet(bursts: Rows) -> str:
    """TOML to paste and edit: it keeps the first burst set aside and drops the first suspect."""
    nobody: Mapping[str, Any] = {"user": None, "burst_id": "flurry-0123abcd"}
    removed, suspect = (
        next((burst for burst in bursts if burst["tier"] == tier), nobody) for tier in ("remove", "suspect")
    )
    # A user who is not named above, because a drop overrides a keep.
    others = (burst["user"] for burst in bursts if burst["user"] not in (removed["user"], suspect["user"]))
    rules = (
        ("keep", "burst", removed["burst_id"], "work after all: why"),
        ("drop", "burst", suspect["burst_id"], "no work: why"),
        ("drop", "user", next(others, "somebody"), "tests of the machine, no work"),
    )
    return "\n".join(
        f"[[clean.{word}]]\n{key} = {toml_text(value)}\nreason = {toml_text(reason)}\n"
        for word, key, value, reason in rules
    )


def toml_text(text: str) -> str:
    """The text as a TOML string in which invisible characters are escaped."""
    return '"' + "".join(_toml_character(c) for c in text) + '"'


def _toml_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    is_plain = unicodedata.category(character)[0] != "C" and unicodedata.category(character) not in ("Zl", "Zp")
    return character if is_plain else f"\\U{ord(character):08x}"
