"""What `walltime clean` answers: the jobs set aside and why, the bursts, and how that changes the log; as page too."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.pages import blocks as show
from flows.pages.blocks import Block, Detail, Grid, Heading, columns, number
from flows.pages.charts import Axis, Bars, Chart, Key, Mark, Panel, named_steps, stairs
from flows.services.logs import Cleaned
from pipeline.arrays import DAY_S, EARLIEST_S, LATEST_S, Bools, Floats, Ints, category_codes, floats, job_procs
from pipeline.schema import Flag

BURSTS_SHOWN, BURSTS_ON_PAGE = 10, 2000
MAX_DAYS_DRAWN = 800

Rows = Sequence[Mapping[str, Any]]

MEANINGS = {str(flag): flag.meaning for flag in Flag}
EFFECT = columns("effect", meaning=lambda row: MEANINGS.get(row["selection"], ""))
OUTCOMES = {
    "kept": "kept",
    "kept, in a suspect burst": "suspect",
    "set aside: flurry": "flurry",
    "set aside: probe": "probe",
    "set aside: timer": "cron",
    "set aside: by the site's rule": "site",
    "set aside: not usable, or for another reason": "other",
}
"""What becomes of jobs, with the colour of each."""
BY_FLAG = {"flurry": 2, "probe": 3, "cron": 4, "site_drop": 5}
"""The index in OUTCOMES of jobs with a flag; other flags have the last one."""
BURST_FACTS = {
    "smallest_burst_jobs": "smallest burst that this log can show (jobs at once)",
    "bursts_removed": "bursts strong enough to set aside",
    "bursts_suspect": "bursts only suspected",
}
BURSTS = (
    "A burst is many jobs of one user that outnumber those of all other users, that only probe whether the machine "
    "responds, or that a timer submits. Strong bursts are set aside. The others are suspects: they are listed here and "
    "kept."
)
DURATIONS = {
    0.001: "1 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 6 * 3600: "6 h",
    DAY_S: "1 d", 7 * DAY_S: "7 d", 60 * DAY_S: "60 d", 730 * DAY_S: "2 years", 36525 * DAY_S: "100 years",
}  # fmt: skip


def clean_blocks(
    cleaned: Cleaned, written: Mapping[str, Path] | None = None, *, is_whole: bool = False, most: int = BURSTS_SHOWN
) -> Iterator[Block]:
    """The report by flag, the effect, and the bursts with a sentence each; a page also has charts and rules to copy."""
    report, bursts, zone = cleaned.report, cleaned.burst_rows(), ZoneInfo(cleaned.settings.site.timezone)
    yield Detail(_jobs_by_day(cleaned, bursts, zone))
    yield show.report_grid(report)
    yield show.Facts("", {BURST_FACTS.get(name, name): value for name, value in report.facts.items()})
    yield ""
    effect = cleaned.effect.to_pylist()
    yield Heading("Before and after, and what each flag set aside")
    yield Grid("", EFFECT, effect)
    yield Detail(_before_and_after(cleaned))
    shown = bursts if is_whole else bursts[:most]
    if shown:
        yield Heading("Bursts")
        yield Detail([BURSTS])
        burst_columns = columns("bursts", **{"from": lambda burst: _local_time(burst["first_submit_s"], zone)})
        yield Grid("", burst_columns, shown, below=lambda burst: str(burst["why"]), most=BURSTS_ON_PAGE)
    else:
        smallest = report.facts.get("smallest_burst_jobs")
        unseen = f" A burst of fewer than {number(smallest)} jobs could not have been detected." if smallest else ""
        yield Detail([Heading("Bursts"), f"None was found.{unseen}"])
    if len(shown) < len(bursts):
        yield f"{number(len(bursts) - len(shown))} more: --all lists them, and so does the table of bursts."
    yield Detail(_rules(bursts))
    yield ""
    yield from show.notes(report.notes)
    yield from show.wrote(written or {})


def cleaning_page(cleaned: Cleaned) -> str:
    """The page; the same log and settings give the same bytes."""
    from flows.pages.page import page_of  # noqa: PLC0415  (a terminal needs no templates)

    footer = "Nothing was deleted: a job set aside is still in the table, with its `flag` and `burst_id`."
    zone, span_s = ZoneInfo(cleaned.settings.site.timezone), _submits(cleaned)[1]
    ends = " to ".join(_local_time(one, zone) for one in span_s) if span_s else "no submit times"
    intro = [f"{number(cleaned.report.seen.rows)} jobs, {ends} ({zone.key})"]
    blocks = clean_blocks(cleaned, most=BURSTS_ON_PAGE)
    return page_of("What cleaning did", cleaned.title, blocks, intro, footer)


def _local_time(instant_s: float | None, zone: ZoneInfo) -> str:
    if instant_s is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(int(instant_s), zone):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return str(instant_s)


def _submits(cleaned: Cleaned) -> tuple[Floats, tuple[float, float] | None]:
    """(jobs,) submit times (s since 1970), NaN where there is none to draw, and the first and the last; None: none."""
    submit_s = floats(cleaned.jobs, "submit_s")
    is_time = (submit_s >= EARLIEST_S) & (submit_s < LATEST_S) & _is_plausible(cleaned.jobs)
    submit_s = np.where(is_time, submit_s, np.nan)
    known = submit_s[~np.isnan(submit_s)]
    return submit_s, (float(known.min()), float(known.max())) if len(known) else None


def _is_plausible(jobs: pa.Table) -> Bools:
    """Which jobs have no time far outside the log, and are drawn."""
    flags = jobs.column("flag").cast(pa.string())
    is_far: Bools = pc.fill_null(pc.equal(flags, str(Flag.IMPOSSIBLE_TIMES)), False).to_numpy()
    return ~is_far


def _jobs_by_day(cleaned: Cleaned, bursts: Rows, zone: ZoneInfo) -> Iterator[Block]:
    """Jobs submitted per so many days, the outcomes one above the other."""
    yield Heading("Jobs per day")
    submit_s, span_s = _submits(cleaned)
    if span_s is None:
        yield "No job has a submit time."
        return
    local = datetime.fromtimestamp(int(span_s[0]), zone)
    midnight_s = span_s[0] - (local.hour * 3600 + local.minute * 60 + local.second)
    n_days = int(np.ceil((span_s[1] - midnight_s + 1) / DAY_S / MAX_DAYS_DRAWN))
    edges_s = np.arange(midnight_s, span_s[1] + n_days * DAY_S, n_days * DAY_S)
    outcomes, floor = _outcomes(cleaned.jobs, bursts), np.zeros(len(edges_s) - 1)
    left = np.arange(len(floor)) - 0.5
    marks, legend = [], []
    for index, (outcome, colour) in enumerate(OUTCOMES.items()):
        n_jobs = np.histogram(submit_s[(outcomes == index) & ~np.isnan(submit_s)], edges_s)[0]
        if n_jobs.any():
            legend.append(Key(f"{outcome}: {n_jobs.sum():,}", colour))
            marks.append(Bars(left, left + 1, floor, floor + n_jobs, colour))
            floor = floor + n_jobs
    alt = f"Jobs submitted over time, by what became of them: {', '.join(key.text for key in legend)}."
    caption = f"Jobs submitted per {'day' if n_days == 1 else f'{n_days} days'}, by what became of them."
    x_axis = named_steps([_local_time(one, zone)[:10] for one in edges_s[:-1]], f"time ({zone.key})", most=9)
    y_axis = Axis("jobs submitted", is_whole=True, ends=(0, None))
    yield Chart(alt, [Panel(marks, x_axis, y_axis)], caption, legend, height=200)


def _outcomes(jobs: pa.Table, bursts: Rows) -> Ints:
    """The outcome of each job, as an index in OUTCOMES."""
    suspects = {burst["burst_id"] for burst in bursts if burst["tier"] == "suspect"}
    flag_codes, flag_names = category_codes(jobs, "flag")
    burst_codes, burst_names = category_codes(jobs, "burst_id")
    by_flag = np.array([*(BY_FLAG.get(flag, len(OUTCOMES) - 1) for flag in flag_names), 0])
    is_suspect = np.array([*(name in suspects for name in burst_names), False])
    outcomes = by_flag[flag_codes]
    outcomes[(outcomes == 0) & is_suspect[burst_codes]] = 1
    return outcomes


def _before_and_after(cleaned: Cleaned) -> Iterator[Block]:
    """What the effect counts, and histograms of all jobs and of those kept, by runtime and by processors."""
    has_load = cleaned.effect.column("load").null_count < len(cleaned.effect)
    lacks = "" if has_load else "; it is unknown here, because the config does not set `site.max_procs`"
    yield (
        "A job is counted under the first reason that applies. Load is work over the capacity of the machine in the "
        f"log's days{lacks}."
    )
    kept, panels, known = cleaned.jobs.column("flag").is_null().to_numpy(), [], []
    for axis, ratio, values in (
        (Axis("runtime", base=10, names=DURATIONS), 10 ** (1 / 8), floats(cleaned.jobs, "runtime_s")),
        (Axis("processors", base=2, most=8, is_whole=True), 2.0, job_procs(cleaned.jobs)),
    ):
        bins = [np.rint(np.log(values[chosen]) / np.log(ratio)) for chosen in (values > 0, (values > 0) & kept)]
        if not len(bins[0]):
            continue
        edges = np.arange(bins[0].min(), bins[0].max() + 2) - 0.5
        n_all, n_kept = (np.histogram(one, edges)[0] for one in bins)
        where = ratio**edges
        marks: list[Mark] = [Bars(where[:-1], where[1:], np.zeros(len(n_kept)), n_kept)]
        marks.append(stairs(where, n_all, width=0.9))
        panels.append(Panel(marks, axis, Axis("jobs", is_whole=True, ends=(0, None))))
        known.append(f"{axis.label} of {n_all.sum():,} and {n_kept.sum():,}")
    yield Heading("Runtimes and sizes, before and after")
    yield Chart(
        f"Histograms of all jobs and of those kept: {', '.join(known)}.", panels,
        "Jobs by runtime and by processors, both on logarithmic axes.",
        [Key("all jobs", "ink", "stroke"), Key("kept", "kept")], height=190,
    )  # fmt: skip


def _rules(bursts: Rows) -> Iterator[Block]:
    """TOML to paste and edit: it keeps the first burst set aside, and drops the first suspect."""
    ids = {burst["tier"]: burst["burst_id"] for burst in reversed(bursts)}
    rules = (("keep", "remove", "work after all: why"), ("drop", "suspect", "no work: why"))
    yield Heading("Rules to keep or drop jobs")
    yield (
        "You know your users better than a screen does. Add rules with reasons to the config and clean again: they "
        "override every screen, and the report lists their reasons. The id of a burst stays the same as the log grows; "
        "in place of `burst` a rule may name a `user`, an `account` or an `application`."
    )
    yield show.Verbatim(
        "\n".join(
            f'[[clean.{word}]]\nburst = "{ids.get(tier, "flurry-0123abcd")}"\nreason = "{reason}"\n'
            for word, tier, reason in rules
        )
    )
