"""What cleaning changed in a log, as one page of HTML without network access; every text from the log is escaped."""

import unicodedata
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from flows.pages.html.clean_plots import LANES, colour_of_burst, plots, submits
from flows.pages.html.drawing import render_template
from flows.services.logs.cleaning import Cleaned
from pipeline.errors import printable
from pipeline.report import total
from pipeline.schema import Flag
from pipeline.settings import CleanSettings

BURSTS_LISTED = 2000
_SHOWN_FACTS = ("jobs", "smallest_burst_jobs", "bursts_removed", "bursts_suspect")
"""Facts of the report that the page shows in other places than the table of facts."""


def cleaning_page(cleaned: Cleaned) -> str:
    """The page; the same log and settings give the same bytes."""
    settings, report, bursts = cleaned.settings, cleaned.report, cleaned.burst_rows()
    facts = {
        name.replace("_", " "): fact for name, fact in report.facts.items()
        if name not in _SHOWN_FACTS and not name.startswith("site_")
    }  # fmt: skip
    return render_template(
        "clean.html", text_of=_value, colour_of_burst=colour_of_burst,
        local=partial(_local_time, zone=ZoneInfo(settings.site.timezone)), title=cleaned.title,
        timezone=settings.site.timezone, span=submits(cleaned)[1], report=report,
        set_aside=total(report.set_aside.values()),
        n_aside=sum(burst["outcome"] in ("set aside", "dropped by rule") for burst in bursts),
        n_suspect=sum(burst["tier"] == "suspect" for burst in bursts), bursts=bursts[:BURSTS_LISTED],
        bursts_hidden=max(0, len(bursts) - BURSTS_LISTED), lanes_hidden=max(0, len(bursts) - LANES),
        effect=cleaned.effect.to_pylist(), meanings={str(flag): flag.meaning for flag in Flag},
        plots=plots(cleaned, bursts), facts=facts, rules=list(_rules(cleaned)),
        sections=list(_sections(settings.clean)), snippet=snippet(bursts),
    )  # fmt: skip


def _local_time(instant_s: float | None, zone: ZoneInfo) -> str:
    if instant_s is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(int(instant_s), zone):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return str(instant_s)


def _rules(cleaned: Cleaned) -> Iterator[dict[str, Any]]:
    """The site's own rules, and the number of jobs that each matches."""
    clean = cleaned.settings.clean
    for word, rules in (("keep", clean.keep), ("drop", clean.drop)):
        for rule in rules:
            named = rule.model_dump(exclude={"reason"}, exclude_none=True)
            n_jobs = cleaned.report.facts.get(f"site_{word}: {printable(rule.reason)}")
            which = ", ".join(f"{key} {value}" for key, value in named.items())
            yield {"word": word, "which": which, "reason": rule.reason, "n_jobs": n_jobs}


def _sections(settings: CleanSettings) -> Iterator[dict[str, Any]]:
    """Each section of the settings with its meaning, and for each setting its value, meaning and default."""
    own = {name: getattr(settings, name) for name in type(settings).model_fields}
    within = {f"clean.{name}": value for name, value in own.items() if isinstance(value, BaseModel)}
    for name, section in {"clean": settings, **within}.items():
        rows = [
            (key, getattr(section, key), field.description or "", field.get_default(call_default_factory=True))
            for key, field in type(section).model_fields.items()
            if not isinstance(getattr(section, key), BaseModel) and key not in ("keep", "drop")
        ]
        yield {"name": name, "meaning": (type(section).__doc__ or "").strip(), "rows": rows}


def _value(value: object) -> str:
    """The value of a setting as text."""
    if isinstance(value, dict):
        value = [f"{name} = {_value(one)}" for name, one in value.items()]
    if isinstance(value, tuple | list):
        return ", ".join(str(one) for one in value) or "none"
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def snippet(bursts: list[dict[str, Any]]) -> str:
    """TOML to paste and edit: it keeps the first burst set aside and drops the first suspect."""
    nobody: dict[str, Any] = {"user": None, "burst_id": "flurry-0123abcd"}
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
