"""The comment that a limit of ours leaves in Slurm's AdminComment: written, found and read here alone.

Slurm's accounting keeps the limit that a job had in the end. Estimates are looked up by the limit that users type, so
without the comment they would be learnt under limits that nobody types. Only administrators can write AdminComment.
"""

import re

OPT_OUT_WORD = "walltime:off"
"""In a job's comment: the user wants no limit of ours. Any spelling counts, as in the plug-in (`has_opted_out`)."""
_OPT_OUT = re.compile(r"walltime\s*[:=_-]?\s*off(?![a-z0-9])", re.IGNORECASE)

OURS = re.compile(
    r"(?:^\"?|(?<=; ))walltime mode=(?P<mode>[a-z_]+) (?P<facts>[^;]*)\b"
    r"limit_min=(?P<limit>\w+) asked_min=(?P<asked>\d{1,9}|none)(?!\w)[^;]*"
)
"""The first in an AdminComment counts."""
_BY = re.compile(r"(stamp|run)=(\S+)")


def has_opted_out(comment: str) -> bool:
    """Whether the user's comment says that no limit of ours is wanted."""
    return _OPT_OUT.search(comment) is not None


def may_be_set(comment: str) -> bool:
    """Whether the plug-in has seen the job, and nothing, as in its script, for which it is to be left alone."""
    found = OURS.search(comment)
    return found is not None and found["limit"] != "keep"


def without_ours(comment: str) -> str:
    """An AdminComment without what we have written."""
    return OURS.sub("", comment).strip("; ")


def limit_comment(mode: str, facts: str, limit_min: int | None, asked_min: int | None) -> str:
    """The comment: who wrote it, how, from what (words without `;`), the limit now and the limit asked for (min)."""
    return f"walltime mode={mode} {facts} limit_min={limit_min or 'same'} asked_min={asked_min or 'none'}"


def asked_s_of(comment: str) -> float | None:
    """The limit (s) that the user asked for, by an AdminComment; None where it does not say so."""
    found = OURS.search(comment)
    return 60.0 * int(found["asked"]) if found and found["asked"] != "none" else None


def set_s_of(comment: str) -> float | None:
    """The first limit (s) that Walltime set, by an AdminComment; None where it set none, as under dry_run."""
    found = OURS.search(comment)
    return noted_s_of(comment) if found and found["mode"] == "limit" else None


def noted_s_of(comment: str) -> float | None:
    """The first limit (s) that Walltime set, or noted in a dry run, by an AdminComment; None without one."""
    found = OURS.search(comment)
    is_known = found and found["limit"].isdecimal() and len(found["limit"]) < 10
    return 60.0 * int(found["limit"]) if found and is_known else None


def noted_by_of(comment: str) -> str:
    """What set or noted it, as in `plug-in 0a1b`, `guard` or `dry_run 0a1b`; empty where nothing did."""
    found = OURS.search(comment)
    source = _BY.search(found["facts"]) if found and noted_s_of(comment) is not None else None
    if found is None or source is None:
        return ""
    if source[1] == "run":
        return "guard"
    return f"{'plug-in' if found['mode'] == 'limit' else 'dry_run'} {source[2][:40]}"
