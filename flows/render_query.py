"""What `walltime query` prints."""

from collections.abc import Mapping
from typing import Any

from flows.render import console, grid, instant, number, say


def print_answer(found: Mapping[str, Any], requested_s: float | None) -> None:
    """The estimate, its quantiles, and why: which template, how many jobs, how old, which fit."""
    out = console()
    out.print(_median(found["runtime_s"], is_any=found["template"] == "all"))
    quantiles = [(q, found[f"runtime_s_q{q}"]) for q in (10, 50, 80, 90, 95, 99)]
    rows = [(f"{q}%", number(value), say(span(value))) for q, value in quantiles if value is not None]
    out.print(grid("", ("jobs done by then", "s", ""), rows))
    for sentence in reasons(found, requested_s):
        out.print(say(sentence, 500))


def _median(runtime_s: float | None, *, is_any: bool) -> str:
    """A median is unknown where half of the jobs or more were stopped at their limits."""
    if runtime_s is None:
        return (
            "So many jobs like this one were stopped before they were done that their median is unknown: ask for more."
        )
    if is_any:
        return f"No job like this one is known; [bold]{span(runtime_s)}[/bold] is the median of what all jobs took."
    return f"[bold]{span(runtime_s)}[/bold] is the median of what jobs like this one took."


def reasons(found: Mapping[str, Any], requested_s: float | None) -> list[str]:
    """Why, in sentences."""
    said = [
        f"Why: template {found['template']}, {found['n_jobs']:,} jobs{_censored(found['n_censored'])}{_age(found)}."
    ]
    if found["passed"]:
        said.append(f"No answer for these very values, so passed over: {', '.join(found['passed'])}.")
    if fit := found["fit"]:
        said.append(_fit(fit, is_used=found["source"] == "predictions"))
    high = next((q for q in (95, 90) if found[f"runtime_s_q{q}"] is not None), None)
    if requested_s and high:
        share = found[f"runtime_s_q{high}"] / requested_s
        said.append(f"Of the {span(requested_s)} asked for, {high}% of such jobs need no more than {share:.0%}.")
    return said


def _censored(n_censored: int | None) -> str:
    return f" ({n_censored:,} of them stopped before they were done)" if n_censored else ""


def _age(found: Mapping[str, Any]) -> str:
    if found["age_s"] is None:
        return ""
    return f", the newest ended {span(found['age_s'])} before {instant(found['as_of_s'])}, where the log ends"


def _fit(fit: Mapping[str, Any], *, is_used: bool) -> str:
    told = f"scalability fit of {fit['template']} ({fit['method']}, {fit['n_jobs']:,} jobs at {fit['n_sizes']} sizes)"
    if is_used:
        return (
            f"No template that tells processors has a row for this job, so the {told} answers; its reliability is ok."
        )
    return f"The {told} says {span(fit['runtime_s'])} on this many processors; not used: {fit['reliability']}."


def span(seconds: float | None) -> str:
    """A time as a person says it: 42 s, 5 min, 3.2 h, 2.1 d."""
    if seconds is None:
        return "unknown"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.0f} s"
