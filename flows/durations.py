"""Times as a person writes them on a command line; one that could mean two things is refused."""

import re

from pipeline.core.errors import InputError
from pipeline.core.text import printable

_UNIT_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)")


def seconds(text: str, option: str) -> float:
    """Seconds of 4h, 1h30m, 2d, 90s or 1-04:00:00; InputError otherwise: a bare number has no unit."""
    said = text.strip().lower()
    found = 0.0
    if clock := _CLOCK.fullmatch(said):
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        found = days * 86_400.0 + hours * 3_600 + minutes * 60 + rest
    elif re.fullmatch(rf"(?:{_PARTS.pattern})+", said):
        found = sum(float(number) * _UNIT_S[unit] for number, unit in _PARTS.findall(said))
    if not 0 < found < float("inf"):
        raise InputError(f"{option} {printable(text)}", "no time with its unit", "one as in 4h, 1h30m or 04:00:00")
    return found
