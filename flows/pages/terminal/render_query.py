"""What `walltime query` prints."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.pages.terminal.render import console, grid, number, plain_number, say
from flows.services.quantities import instant

PERCENT = (10, 50, 80, 90, 95, 99)


def print_answer(found: Mapping[str, Any]) -> None:
    """The estimate, its quantiles, what they rest on, and how far to trust them."""
    out = console()
    out.print(f"[bold]{span(found['runtime_s'])}[/bold] is how long such a job is expected to run (its median).")
    rows = [
        (f"{q}%", number(found[f"runtime_s_q{q}"]), say(span(found[f"runtime_s_q{q}"])), _share(found[f"held_q{q}"]))
        for q in PERCENT
    ]
    out.print(grid("", ("jobs done by then", "s", "", "kept so far"), rows))
    for sentence in reasons(found):
        out.print(say(sentence, 500))


def print_rows(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], account: str) -> None:
    """A batch's answers as a table, which file they answer, and how far to trust them."""
    out = console()
    names = list(rows[0]) if rows else []
    texts = sum(not name.startswith(("runtime_s", "n_", "is_known")) for name in names)
    cells = [[plain_number(row[name]) for name in names] for row in rows]
    out.print(grid("", names, cells, texts=texts))
    out.print(say(f"{account}. {trust(facts)}", 2000))


def reasons(found: Mapping[str, Any]) -> list[str]:
    """What the answer rests on and how far to trust it, in sentences."""
    said = [_basis(found), *_unusual(found), trust(found), _age(found)]
    if found["is_usual_procs"]:
        said.insert(0, f"--procs is not given: the answer is for {found['procs']:,}, as jobs like it had.")
    requested_s = found["job"].get("requested_s")
    if requested_s:
        share = found["runtime_s_q95"] / requested_s
        said.append(f"Of the {span(requested_s)} asked for, 95% of such jobs need no more than {share:.0%}.")
    if found["fit"]:
        said.append(_fit(found["fit"]))
    return [*said, *found["notes"]]


def trust(facts: Mapping[str, Any]) -> str:
    """How good the method was on this log, in a sentence."""
    return (
        f"On this log the method {facts['method']} has a mean absolute error of {facts['mae_over_mean']:.0%} of the "
        f"mean runtime, and its q95 held {facts['held_q95']:.1%}, of the last {facts['n_scored']:,} jobs that ended."
    )


def _basis(found: Mapping[str, Any]) -> str:
    everybody = f"{_jobs(found['n_everybody'])} of all submitters with the same application and time asked for"
    column = next((name for name in ("user", "account", "user_group") if found["job"].get(name)), None)
    who = f"{column} {found['job'][column]}" if column else ""
    if not column:
        return f"No submitter is given: the answer rests on jobs of everybody, among them {everybody}."
    if not found["is_known"]:
        return f"The log does not know {who}: the answer rests on jobs of everybody, among them {everybody}."
    of_program = f", {found['n_program']:,} of them of this application" if found["n_program"] else ""
    return (
        f"It rests on {_jobs(found['n_submitter'])} of {who} that ended{of_program}, {found['n_kind']:,} of any "
        f"application with the same time and processors asked for, and on {everybody}."
    )


def _unusual(found: Mapping[str, Any]) -> list[str]:
    """A warning where the submitter has never asked for anything near this time; else nothing."""
    if not found["is_unusual_request"]:
        return []
    least, most = span(found["least_requested_s"]), span(found["most_requested_s"])
    asked = least if least == most else f"{least} to {most}"
    # On first thirds 80% intervals of such longer requests held 54 to 74%, of shorter ones 77 to 83%.
    doubt = (
        "the answer supposes that it runs longer, and its quantiles promise too much"
        if (found["job"]["requested_s"] > found["most_requested_s"])
        else "the answer supposes that it runs no longer"
    )
    return [
        f"This request is unusual: none of the submitter's {_jobs(found['n_remembered'])} compared with asked for half "
        f"to twice as much. They asked for {asked} and took {span(found['usual_runtime_s'])} in the median; {doubt}."
    ]


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def _age(found: Mapping[str, Any]) -> str:
    ends = f"What is known ends at {instant(found['as_of_s'])}"
    return (
        f"{ends}, {span(found['age_s'])} before the submit." if found["age_s"] else f"{ends}, as of which it answers."
    )


def _fit(fit: Mapping[str, Any]) -> str:
    told = f"{fit['template']} ({fit['method']}, {fit['n_jobs']:,} jobs at {fit['n_sizes']} sizes)"
    doubt = "" if fit["reliability"] == "ok" else f", doubtful: {fit['reliability']}"
    return f"Beside it, the scalability fit of {told} says {span(fit['runtime_s'])} on this many processors{doubt}."


def _share(share: float) -> str:
    return f"{share:.1%}"


def span(seconds: float | None) -> str:
    """A time as a person says it: 42 s, 5 min, 3.2 h, 2.1 d."""
    if seconds is None:
        return "unknown"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.0f} s"
