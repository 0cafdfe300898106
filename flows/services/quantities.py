"""Parses durations, sizes, counts, instants and tables of texts that a person gives; an ambiguous text is refused."""

import csv
import io
import math
import re
import sys
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from flows.services.files.os_errors import read_text
from pipeline.errors import InputError, did_you_mean, printable

_UNIT_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_UNIT_KIB = {"k": 1.0, "m": 1024.0, "g": 1024.0**2, "t": 1024.0**3}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kmgt])(?:i?b)?")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)")


def seconds(text: str, option: str) -> float:
    """Seconds of 4h, 1h30m, 2d, 90s or 1-04:00:00; InputError otherwise: a bare number has no unit."""
    plain = text.strip().lower()
    found = 0.0
    if clock := _CLOCK.fullmatch(plain):
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        found = days * 86_400.0 + hours * 3_600 + minutes * 60 + rest
    elif re.fullmatch(rf"(?:{_PARTS.pattern})+", plain):
        found = sum(float(number) * _UNIT_S[unit] for number, unit in _PARTS.findall(plain))
    if not 0 < found < float("inf"):
        raise InputError(f"{option} {printable(text)}", "no time with a unit", "a time as in 4h, 1h30m or 04:00:00")
    return found


def kibibytes(text: str, option: str) -> float:
    """Kibibytes of 512M, 4G or 1.5TiB; InputError otherwise: a bare number has no unit."""
    found = _SIZE.fullmatch(text.strip().lower())
    if not found or float(found[1]) == 0:
        raise InputError(f"{option} {printable(text)}", "no size with a unit", "a size as in 512M or 4G")
    return float(found[1]) * _UNIT_KIB[found[2]]


def number_of(text: str) -> float | None:
    """The number that a text is; None where it is none, also for what only Python reads as one, and infinity."""
    try:
        value = float(text) if text.isascii() and "_" not in text else math.inf
    except ValueError:
        return None
    return value if abs(value) < math.inf else None


def share(text: str, option: str, least: float = 0.0, most: float = 1.0) -> float:
    """The share of 5% or .05, above 0, at least `least` and at most `most`; InputError otherwise."""
    plain = text.strip()
    found = (number_of(plain.removesuffix("%")) or 0.0) / (100 if plain.endswith("%") else 1)
    if not found > 0 or not least <= found <= most:
        above = f"from {100 * least:g}%" if least else "above 0%"
        expected = f"a share {above} to {100 * most:g}%, as in 97% or .97"
        raise InputError(f"{option} {printable(text)}", "no such share", expected)
    return found


STANDARD_INPUT = Path("-")
DELIMITERS = (";", "\t", "|", ",")


def text_table(
    path: Path, expected: str, *, is_csv: bool = True, keeps_unknown: bool = False
) -> tuple[str, list[tuple[int, list[str]]]]:
    """What errors call a file, or standard input where it is `-`, and the line and cells of each row.

    A line without a value is no row; with `keeps_unknown` only a blank one is none. Without `is_csv` the first line
    tells what separates the cells, else blanks do. InputError for a file that is no text in UTF-8, no table, or empty.
    """
    where = "standard input" if path == STANDARD_INPUT else printable(str(path))
    text = sys.stdin.read() if path == STANDARD_INPUT else read_text(path, f"{expected}, in UTF-8")
    first = "," if is_csv else next((line for line in text.splitlines() if line.strip()), "")
    delimiter = next((one for one in DELIMITERS if one in first), None)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter or ",", skipinitialspace=not is_csv)
    try:
        rows = [(reader.line_num, row if delimiter else " ".join(row).split()) for row in reader]
    except csv.Error as error:
        raise InputError(f"{where}, line {reader.line_num}", f"text that is no table ({error})", expected) from None
    found = [(line, [cell.strip() for cell in row]) for line, row in rows]
    if not (found := [(line, row) for line, row in found if any(row) or (keeps_unknown and len(row) > 1)]):
        raise InputError(where, "an empty file", expected)
    return where, found


def check_lengths(where: str, names: Sequence[str], rows: Sequence[tuple[int, list[str]]]) -> None:
    """InputError for the first row with more or fewer cells than columns."""
    for line, row in rows:
        if len(row) != len(names):
            raise InputError(f"{where}, line {line}", f"{len(row)} values", f"{len(names)}, as line 1 has columns")


def words(text: str | None) -> list[str]:
    """The words of a text that are joined by commas, without blanks around them."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def check_known(where: str, found: str, name: str, known: Collection[str], expected: str = "one of ") -> None:
    """InputError, with the nearest known word, where a name is none of the known ones."""
    if name not in known:
        raise InputError(where, found, f"{expected}{printable(', '.join(known), 1000)}", did_you_mean(name, known))


def chosen_names(names: Sequence[str], known: Collection[str], option: str) -> tuple[str, ...]:
    """These names, each once, or all known ones where none is given; InputError for an unknown name."""
    for name in names:
        check_known(option, f"no {option.lstrip('-').removesuffix('s')} {printable(name)}", name, known)
    return tuple(dict.fromkeys(names or known))


def by_level(of: str, levels: Sequence[float], values: Sequence[float]) -> dict[str, float]:
    """Values by the names of their columns, as runtime_s_q50 at level .5."""
    return {f"{of}_q{round(100 * level)}": float(value) for level, value in zip(levels, values, strict=True)}


def processor_counts(text: str | None, option: str) -> list[int]:
    """Processor counts of a text as in 64,128, each once in rising order, none for None; InputError otherwise."""
    given = words(text)
    wrong = [word for word in given if not word.isascii() or not word.isdigit() or not 1 <= int(word[:20]) <= 2**40]
    if wrong or (text is not None and not given):
        found = printable(wrong[0]) if wrong else "nothing"
        raise InputError(option, found, "processor counts of 1 or more, joined by commas, as in 64,128")
    return sorted({int(word) for word in given})


LATER = "later"
"""The submit time of a job that comes at any time of the next seven days, as PREDICTIONS ask it."""


def instant_s(option: str, text: str, timezone: str) -> int:
    """UTC epoch seconds of an ISO date or instant, in the known `timezone` where it names none; InputError."""
    try:
        instant = datetime.fromisoformat(text)
        zoned = instant if instant.tzinfo else instant.replace(tzinfo=ZoneInfo(timezone))
        return int(zoned.astimezone(UTC).timestamp())
    except (ValueError, OverflowError):
        raise InputError(option, f"'{printable(text)}'", "a date as in 2026-01-31 or 2026-01-31T08:00") from None


_MONTH = re.compile(r"(\d{4})-(\d{2})")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def period_s(option: str, text: str, timezone: str) -> tuple[int, int]:
    """Begin and end (UTC epoch seconds) of a month, as in 2026-01, or a day; an instant is its own begin and end."""
    plain = text.strip()
    month, day = _MONTH.fullmatch(plain), _DAY.fullmatch(plain)
    first = instant_s(option, f"{plain}-01" if month else plain, timezone)
    if month:
        year, number = int(month[1]), int(month[2])
        after = f"{year + number // 12:04d}-{number % 12 + 1:02d}-01"
        return first, instant_s(option, after, timezone)
    if day:
        return first, instant_s(option, str(date.fromisoformat(plain) + timedelta(days=1)), timezone)
    return first, first


def as_of_seconds(text: str | None) -> int | None:
    """The time of an option --as-of, UTC epoch seconds: of a day or a month its last second; None for None."""
    if text is None:
        return None
    begin, end = period_s("--as-of", text, "UTC")
    return max(begin, end - 1)


def instant(seconds: int | None) -> str | None:
    """A UTC time as text; the number itself beyond the calendar's range."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def iso_time(seconds: int) -> str:
    """A UTC time as in 2024-01-08T00:00:59Z; the number itself beyond the calendar's range."""
    text = instant(seconds) or ""
    return text.replace(" ", "T").replace("+00:00", "Z")


def clock(seconds: float) -> str:
    """A duration as hours:minutes:seconds, rounded up to a second."""
    whole = math.ceil(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def memory_text(kib: float | None) -> str:
    """An amount of memory with a fitting unit: 640 MiB, 3.2 GiB."""
    if kib is None:
        return "unknown"
    for unit, size in (("TiB", 1024.0**3), ("GiB", 1024.0**2), ("MiB", 1024.0)):
        if abs(kib) >= size:
            return f"{kib / size:,.1f} {unit}".replace(".0 ", " ")
    return f"{kib:,.0f} KiB"
