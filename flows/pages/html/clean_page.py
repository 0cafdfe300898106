"""What cleaning changed in a log, as one page of HTML without network access; every text from the log is escaped."""

import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from markupsafe import Markup
from pydantic import BaseModel

from flows.pages.html.clean_figures import Figures, figures_of
from flows.pages.html.clean_plots import BY_OUTCOME, colour_of, plots
from flows.pages.html.drawing import render_template
from flows.services.logs.cleaning import Cleaned
from pipeline.errors import printable
from pipeline.report import Fact, total
from pipeline.schema import Flag
from pipeline.settings import CleanSettings, SiteSettings

BURSTS_LISTED = 2000


def cleaning_page(cleaned: Cleaned) -> str:
    """The page; the same log and settings give the same bytes."""
    return render_template("clean.html", {"brief": brief, "share": _share}, **_page_values(cleaned))


def _page_values(cleaned: Cleaned) -> dict[str, Any]:
    figures, settings = figures_of(cleaned), cleaned.settings
    bursts = cleaned.burst_rows()
    drawn = plots(figures, settings.site.timezone)
    return {
        "title": cleaned.title,
        "timezone": settings.site.timezone,
        "span": _span(figures, settings.site),
        "report": cleaned.report,
        "set_aside": total(cleaned.report.set_aside.values()),
        "n_aside": sum(burst["outcome"] in ("set aside", "dropped by rule") for burst in bursts),
        "n_suspect": sum(burst["tier"] == "suspect" for burst in bursts),
        "bursts": [_burst(one, settings.site) for one in bursts[:BURSTS_LISTED]],
        "bursts_hidden": max(0, len(bursts) - BURSTS_LISTED),
        "effect": [_effect_row(row) for row in cleaned.effect.to_pylist()],
        "plots": {name: Markup(svg) for name, svg in drawn.items()},  # noqa: S704 # nosec B704 # drawn and escaped by clean_plots
        "outcomes": _outcomes(figures),
        "figures": figures,
        "facts": _other_facts(cleaned.report.facts),
        "rules": list(_rules(cleaned)),
        "thresholds": list(_thresholds(settings.clean)),
        "snippet": snippet(bursts),
    }


def brief(value: float | None) -> str:
    """A number with about three digits; empty for null."""
    if value is None or isinstance(value, str):
        return value or ""
    if abs(value) >= 1e15:
        return f"{value:.3g}"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 0.01:
        return f"{value:.1g}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _share(part: float, whole: float) -> str:
    share = part / whole if whole else 0.0
    return f"{share:.1%}" if share >= 0.001 or not share else "under 0.1%"


def _span(figures: Figures, site: SiteSettings) -> str:
    if figures.daily is None:
        return "no submit times"
    first, last = (_local_time(instant_s, site) for instant_s in figures.span_s)
    return f"{first} to {last}"


def _local_time(instant_s: float | None, site: SiteSettings) -> str:
    if instant_s is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(int(instant_s), ZoneInfo(site.timezone)):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return str(instant_s)


def _burst(burst: Mapping[str, Any], site: SiteSettings) -> dict[str, Any]:
    shown = dict(burst) | {"from": _local_time(burst["first_submit_s"], site), "lasts": _lasts(burst["span_days"])}
    return shown | {"colour": colour_of(burst)}


def _lasts(days: float | None) -> str:
    return "" if days is None else f"{days:,.1f} d" if days >= 1 else f"{days * 24:.1f} h"


def _outcomes(figures: Figures) -> list[dict[str, Any]]:
    """The legend of the plot by days: outcomes with colour and number of jobs."""
    counts = figures.daily.counts if figures.daily else {}
    return [{"name": name, "colour": BY_OUTCOME[name], "n": int(n.sum())} for name, n in counts.items() if n.any()]


def _effect_row(row: Mapping[str, Any]) -> dict[str, Any]:
    name = row["selection"]
    return dict(row) | {"meaning": Flag(name).meaning if name in set(Flag) else ""}


def _other_facts(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """The facts of the report that the page does not show elsewhere."""
    shown = ("jobs", "smallest_burst_jobs", "bursts_removed", "bursts_suspect")
    return {
        name.replace("_", " "): v for name, v in facts.items() if name not in shown and not name.startswith("site_")
    }


def _rules(cleaned: Cleaned) -> Iterator[dict[str, Any]]:
    """The site's own rules, and the number of jobs that each matches."""
    clean = cleaned.settings.clean
    for word, rules in (("keep", clean.keep), ("drop", clean.drop)):
        for rule in rules:
            named = rule.model_dump(exclude={"reason"}, exclude_none=True)
            which = ", ".join(f"{key} {value}" for key, value in named.items())
            n_jobs = cleaned.report.facts.get(f"site_{word}: {printable(rule.reason)}")
            yield {"word": word, "which": which, "reason": rule.reason, "n_jobs": n_jobs}


def _thresholds(settings: CleanSettings) -> Iterator[dict[str, Any]]:
    """Each section of the settings: values, meanings and defaults."""
    yield _section("clean", settings)
    for name in type(settings).model_fields:
        if isinstance(section := getattr(settings, name), BaseModel):
            yield _section(f"clean.{name}", section)


def _section(name: str, section: BaseModel) -> dict[str, Any]:
    rows = [
        {
            "name": key,
            "value": _value(getattr(section, key)),
            "meaning": field.description or "",
            "default": _value(field.get_default(call_default_factory=True)),
        }
        for key, field in type(section).model_fields.items()
        if not isinstance(getattr(section, key), BaseModel) and key not in ("keep", "drop")
    ]
    return {"name": name, "meaning": (type(section).__doc__ or "").strip(), "rows": rows}


def _value(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(str(one) for one in value) or "none"
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def snippet(bursts: list[dict[str, Any]]) -> str:
    """TOML to paste and edit: it keeps the first burst set aside and drops the first suspect."""
    tables, users = [], set()
    for tier, word, reason in (("remove", "keep", "work after all: why"), ("suspect", "drop", "no work: why")):
        burst = next((burst for burst in bursts if burst["tier"] == tier), None)
        burst_id = burst["burst_id"] if burst else "flurry-0123abcd"
        users |= {burst["user"]} if burst else set()
        tables.append(f"[[clean.{word}]]\nburst = {toml_text(burst_id)}\nreason = {toml_text(reason)}\n")
    # A user who is not named above, because a drop overrides a keep.
    user = next((burst["user"] for burst in bursts if burst["user"] not in users), "somebody")
    tables.append(f"[[clean.drop]]\nuser = {toml_text(user)}\nreason = {toml_text('tests of the machine, no work')}\n")
    return "\n".join(tables)


def toml_text(text: str) -> str:
    """The text as a TOML string in which invisible characters are escaped."""
    return '"' + "".join(_toml_character(c) for c in text) + '"'


def _toml_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    is_plain = unicodedata.category(character)[0] != "C" and unicodedata.category(character) not in ("Zl", "Zp")
    return character if is_plain else f"\\U{ord(character):08x}"
