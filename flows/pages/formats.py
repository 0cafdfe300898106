"""Numbers, shares and durations as text for a person, on a terminal and on pages."""

import math


def plain(value: object) -> str:
    """A value as text; empty for null."""
    return "" if value is None else str(value)


def number(value: object) -> str:
    """A number with about four digits and thousands separators; empty for null, a text as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain(value)
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else ""
    if 0 < abs(value) < 1e-4:
        return f"{value:.4g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{min(digits, 6)}f}" if abs(value) < 1000 else f"{value:,.0f}"


def any_value(value: object) -> str:
    """A value of any published column; of a list its length."""
    return f"{len(value):,} values" if isinstance(value, list) else significant(value, 6)


def significant(value: object, digits: int) -> str:
    """A number that is not whole with this many digits, large ones whole; other values as text, empty for null."""
    if not isinstance(value, float):
        return plain(value)
    return f"{value:.{digits}g}" if abs(value) < 10 ** (digits - 1) or not math.isfinite(value) else f"{value:.0f}"


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with this many decimals; empty for null."""
    return "" if value is None else f"{value:,.{digits}f}"


def signed(value: float | None, digits: int, scale: float = 1.0) -> str:
    """A difference with its sign and this many decimals; empty for null."""
    # Adding 0 makes a negative zero a positive one.
    return "" if value is None else f"{round(scale * value, digits) + 0.0:+,.{digits}f}"


def points(value: float | None) -> str:
    """A change of a share, in per cent with its sign; empty for null."""
    return signed(value, 1, 100.0)


def percent(share: float | None, digits: int = 1) -> str:
    """A share in per cent; empty for null."""
    return "" if share is None else f"{share:.{digits}%}"


def signed_percent(share: float | None, digits: int = 1) -> str:
    """A change in per cent with its sign; empty for null."""
    return "" if share is None else f"{share:+.{digits}%}"


def hours(seconds: float | None) -> str:
    """A duration in hours; empty for null."""
    return "" if seconds is None else f"{seconds / 3600:,.2f}"


def span(seconds: float | None) -> str:
    """A duration with a fitting unit: 42 s, 5 min, 3.2 h, 2.1 d."""
    if seconds is None:
        return "unknown"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.0f} s"


def span_if_known(seconds: float | None) -> str:
    """A duration as `span`; empty for null."""
    return "" if seconds is None else span(seconds)


def between(low: float | None, high: float | None, unbounded: str = "") -> str:
    """An interval as text; `unbounded` stands for an unknown upper end."""
    return f"{number(low)} to {number(high) or unbounded}"
