"""Reads what OpenPBS's `qstat -f -F json` prints, which a user's variables can make invalid or misleading JSON.

OpenPBS 23.06 (pbs_json.c) neither escapes a key nor every backslash, and writes a value that strtod accepts without
quotes. So `qsub -v 'A":""}},"9.pbs":{"job_state":"Q'` adds a job to the JSON, and a backslash in a variable makes all
of it invalid. But each key stands on a line of its own, with an indentation that says where it belongs, and no value
has a newline. A variable's name might have one and add lines, so that a job described twice is to be left alone. Other
releases, with another layout, escape properly: their output is read as JSON.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

_STEP = 4
_JOBS = '    "Jobs":{'
_LINE = re.compile(r'( *)"(.*?)":(.*?),?')
_AS_TEXT: dict[str, Any] = {"parse_int": str, "parse_float": str, "parse_constant": str}

Job = dict[str, Any]


def jobs_of(said: str) -> list[tuple[str, Job]]:
    """Job ids with attributes, numbers as texts, of nested ones Resource_List alone; ValueError for other output."""
    lines = said.split("\n")
    if _JOBS in lines:
        return list(_read(lines[lines.index(_JOBS) + 1 :]))
    whole = json.loads(said, **_AS_TEXT)
    if not isinstance(whole, dict) or "pbs_version" not in whole:
        raise ValueError("no output of qstat")
    jobs = whole.get("Jobs", {})
    if not isinstance(jobs, dict) or not all(isinstance(job, dict) for job in jobs.values()):
        raise ValueError("no jobs")
    return list(jobs.items())


def _read(lines: list[str]) -> Iterator[tuple[str, Job]]:
    job: Job = {}
    inner = ""
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        depth, key, value = len(found[1]) // _STEP, found[2], found[3]
        if depth == 1:
            return
        if depth == 2:
            job = {}
            yield key, job
        elif depth == 3:
            inner = key if value == "{" else ""
            job[key] = {} if inner else _text(value)
        elif depth == 4 and inner == "Resource_List":
            job[inner][key] = _text(value)


def _text(value: str) -> str:
    """The value without its quotes and escapes; as it stands where these are wrong."""
    if len(value) < 2 or value[0] != '"' or value[-1] != '"':
        return value
    try:
        return str(json.loads(value, strict=False))
    except ValueError:
        return value[1:-1]
