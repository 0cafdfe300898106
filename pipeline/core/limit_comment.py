"""The comment that tells of a lowered time limit, so that the accounting still tells what the user asked for.

Slurm's accounting keeps the limit that a job had in the end. Estimates are looked up by the limit that users type, so
without this comment they would be learnt under limits that nobody types. Only administrators can write AdminComment.
"""

import re

_ASKED = re.compile(r"(?:^|; )walltime mode=[a-z_]+ [^;]*\basked_min=(\d{1,9})(?!\d)")


def limit_comment(mode: str, facts: str, limit_min: int | None, asked_min: int | None) -> str:
    """The comment: who wrote it, how, from what (words without `;`), the limit now and the limit asked for (min)."""
    return f"walltime mode={mode} {facts} limit_min={limit_min or 'same'} asked_min={asked_min or 'none'}"


def asked_s_of(comment: str) -> float | None:
    """The limit (s) asked for, of the first such comment in an AdminComment; None where there is none."""
    found = _ASKED.search(comment)
    return 60.0 * int(found[1]) if found else None
