"""Reads what Slurm writes as one text: resources (TRES, GRES), `code:signal`, and our comment about a limit."""

import re

_CODE_AND_SIGNAL = re.compile(r"([0-9]{1,10})(?::([0-9]{0,9}))?")


def exit_code(text: str) -> float | None:
    """`code:signal` as one number: the code, or 128 + signal where a signal ended it; a bare number is a code."""
    found = _CODE_AND_SIGNAL.fullmatch(text)
    if found is None:
        return None
    signal = int(found[2] or 0)
    return 128 + signal if signal else int(found[1])


_GPU = re.compile(r"(gres[/:])?gpu(?:([=:])([^(]*).*)?", re.DOTALL)
_GPU_TYPE = re.compile(r"(?:[A-Za-z][\w.-]*)?")
_LAST_NUMBER = re.compile(r"(?:.*[=:])?([0-9]{1,9})", re.DOTALL)


_OTHERS = re.compile(r"$|[A-Za-z(]|[0-9]+[:=]")
"""How a list of other resources begins, or none at all: `cpu=4,mem=1G`, `(null)`, `7696487:2`."""


def gpus_of(text: str) -> float | None:
    """GPUs of a TRES or GRES string: gres/gpu=4, or gpu:2, gpu:a100:2, gres/gpu:v100=2 summed where no total is.

    A bare number is the count. None where a count is no number of up to nine digits, and for what is no list.
    """
    if "gpu" not in text:
        if re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", text):
            return float(text)
        return 0 if _OTHERS.match(text) else None
    total, parts = None, 0
    for found in map(_GPU.fullmatch, text.split(",")):
        if found is None:
            continue
        number, is_tres = _LAST_NUMBER.fullmatch(found[3] or ""), found[1] == "gres/"
        if number is None and (is_tres or not _GPU_TYPE.fullmatch(found[3] or "")):
            return None
        if is_tres and found[2] == "=":
            total = int(number[1]) if number else 0
        else:
            parts += int(number[1]) if number else 1
    return parts if total is None else total


_TYPE = re.compile(r"(?:gres[/:])?gpu:([A-Za-z][\w.-]*)")


def gpu_type(text: str) -> str:
    """The types of GPUs that a TRES or GRES string names, in order and joined by +; empty where it names none."""
    return "+".join(sorted({found[1] for found in map(_TYPE.match, text.split(",")) if found}))


_RESOURCES = {"procs": "1|cpu", "nodes": "4|node", "gpus": "1001|gres/gpu"}
"""slurmdb.h, enum tres_types_t; from 1001 on come a site's own resources, of which GPUs nearly always are the first."""


def resource(target: str, text: str, odd: float | None = None) -> float | None:
    """Processors, nodes or GPUs of a TRES string with names, or with slurmdbd's ids; None where it does not tell, or
    tells a rounded number. odd: what a count is that is no number."""
    found = re.search(rf"(?:^|,)(?:{_RESOURCES[target.removeprefix('requested_')]})=([^,]*)", text)
    if found is None:
        return 0 if target == "gpus" and "=" in text else None
    if re.fullmatch("[0-9]{1,15}", found[1]):
        return int(found[1])
    return None if found[1].endswith("K") else odd


# ---------------- our comment about a limit
# The comment that a limit of ours leaves in Slurm's AdminComment: written, found and read here alone.
#
# Slurm's accounting keeps the limit that a job had in the end. Estimates are looked up by the limit that users type, so
# without the comment they would be learnt under limits that nobody types. Only administrators can write AdminComment.

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
