"""Reads Slurm's words for resources and exit codes: TRES and GRES strings, `code:signal`."""

import re

NO_COUNT = -1.0
"""Stands where a TRES string counts what is no number."""


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


NODES, CPUS = (re.compile(rf"(?:^|,){name}=([^,]*)") for name in ("node", "cpu"))


def counted(pattern: re.Pattern[str], text: str) -> float | None:
    """What a TRES string counts; None where it does not tell, or tells a rounded number; NO_COUNT for what is none."""
    found = pattern.search(text)
    if found is None or found[1].endswith("K"):
        return None
    return int(found[1]) if re.fullmatch("[0-9]{1,9}", found[1]) else NO_COUNT


_RESOURCES = {"procs": "1|cpu", "nodes": "4|node", "gpus": "1001|gres/gpu"}
"""slurmdb.h, enum tres_types_t; from 1001 on come a site's own resources, of which GPUs nearly always are the first."""


def resource(target: str, text: str) -> float | None:
    """Processors, nodes or GPUs of a TRES string with names, or with slurmdbd's ids; None where it does not tell."""
    names = _RESOURCES[target.removeprefix("requested_")]
    found = re.search(rf"(?:^|,)(?:{names})=([0-9]{{1,15}})(?=,|$)", text)
    return int(found[1]) if found else (0 if target == "gpus" and "=" in text else None)
