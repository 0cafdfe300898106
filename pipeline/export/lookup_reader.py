"""Reads the look-up file, with Python 3.6 and its standard library: the hook for OpenPBS is exported with this text.

What the guard sets is thus what the plug-in would set.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, BinaryIO
from urllib.parse import quote, unquote

FORMAT = "#walltime-lookup 4"
PRIME = 2**31 - 1
OFFSET_DIGITS = 12
ENTRY_BYTES = OFFSET_DIGITS + 1
"""Of a directory entry: an offset with leading zeros, and a line end."""

CHECK = " check="
NAME_KIND, QUEUE_KIND, MEMORY_KIND, EARLY_KIND, MEDIAN_KIND = "nqmst"
"""How keys of names of jobs, of queues' GPUs, of memory, of kinds that end early and of queues' medians begin; those of
estimates begin with their rank."""

ALL = "all"
UNTOLD_GPU = "gpu"
"""The type of a submit's GPUs that it does not tell, where its queue has several."""


N_QUANTILES = 6


class Estimate:
    """A row of estimates: the runtime's quantiles .1, .5, .8, .9, .95 and .99, s, and the ended jobs behind them."""

    # The hook defines all this at each submit: a NamedTuple takes 0.13 ms.
    def __init__(self, quantiles_s: "tuple[float, ...]", n_jobs: int) -> None:
        self.quantiles_s, self.n_jobs = quantiles_s, n_jobs


class Lookup:
    """An open look-up file: two reads find a key. `job` in its methods has None where a value is unknown."""

    def __init__(self, file: BinaryIO) -> None:
        """ValueError or KeyError where the file is no look-up of this format, was cut or is damaged."""
        first = file.readline().decode("ascii", "replace").rstrip("\n")
        if not first.startswith(FORMAT + " "):
            raise ValueError("no look-up file of this format: export it again")
        first, _, check = first.rpartition(CHECK)
        self.file, self.facts = file, dict(word.partition("=")[::2] for word in first[len(FORMAT) :].split())
        heading = [file.readline().decode("ascii", "replace") for _ in range(3)]
        if check != f"{self.hash_of(f'{first}{chr(10)}{str().join(heading)}'):010d}":
            raise ValueError("the first lines have another checksum: export it again")
        if file.seek(0, 2) != int(self.facts["bytes"]):
            raise ValueError("the file has other bytes than its first line says: export it again")
        # The template of each rank, in order of look-up.
        self.chain = dict(one.split(":", 1) for one in heading[0].split()[1:])

    @property
    def newest_end_s(self) -> int:
        """End of the latest job that the file knows, s since 1970."""
        return int(self.facts["newest_end_s"])

    def hash_of(self, key: str) -> int:
        """The hash of a key in this file."""
        return hash_of(key, int(self.facts["multiplier"]))

    def values_of(
        self, job: "Mapping[str, Any]", application_of: "Callable[[str], str | None] | None"
    ) -> "dict[str, Any]":
        """What keys are made of, from a job's values; `application_of` knows the built-in rules, None: others hold.

        What a job runs is the application of its name, else its name, else its queue.
        """
        name, queue, program = job.get("job_name"), job.get("queue"), None
        if name is None:
            program = None if queue is None else "queue " + queue
        else:
            program = self.application(name)
            if program is None and application_of is not None:
                program = application_of(name) or "job_name " + name
        gpu_type = (job.get("gpu_type") or self.gpu_type(queue)) if job.get("gpus") else ""
        return {
            "who": job.get("user"), "what": program, "queue": queue, "requested_s": job.get("requested_s"),
            "procs": job.get("procs"), "gpus": job.get("gpus") or 0, "gpu_type": gpu_type,
        }  # fmt: skip

    def estimate(self, job: "Mapping[str, Any]") -> "Estimate | None":
        """The first row of estimates that is present; None where none is."""
        lines = (row_of(self.line_of, rank, one, job) for rank, one in self.chain.items())
        found = next((line for line in lines if line is not None), None)
        return None if found is None else estimate_of(found, float(job["requested_s"] or 0))

    def application(self, job_name: str) -> "str | None":
        """The application of a job's name where the file has it."""
        return self._text_of(NAME_KIND, job_name)

    def gpu_type(self, queue: "str | None") -> str:
        """The type of GPUs of a submit that names none: that of its queue, if it has one alone."""
        return (None if queue is None else self._text_of(QUEUE_KIND, queue)) or UNTOLD_GPU

    def _text_of(self, kind: str, name: str) -> "str | None":
        line = self.line_of(key_of(kind, (name,)))
        return None if line is None else unquote(line, errors="surrogateescape")

    def line_of(self, key: str) -> "str | None":
        """The text behind a key; None where the key is absent; ValueError where its row is damaged."""
        bucket = self.hash_of(key) % int(self.facts["buckets"])
        self.file.seek(int(self.facts["directory"]) + ENTRY_BYTES * bucket)
        start, end = map(int, self.file.read(2 * ENTRY_BYTES).split())
        self.file.seek(start)
        lines = self.file.read(end - start).decode("ascii", "replace").splitlines()
        found = next((line for line in lines if line.startswith(f"{key}\t")), None)
        if found is None:
            return None
        text, _, check = found.rpartition("\t")
        if check != str(self.hash_of(text)):
            raise ValueError("a row has another checksum: export it again")
        return text[len(key) + 1 :]


def key_columns(template: str) -> "tuple[str, ...]":
    """The columns of a template's key, in the order of the key."""
    return () if template == ALL else tuple(template.split("+"))


def row_of(line_of: "Callable[[str], str | None]", kind: str, template: str, job: "Mapping[str, Any]") -> "str | None":
    """The text behind the key of a job; None where the key is absent, or a value of it is unknown."""
    values = [job[name] for name in key_columns(template)]
    return None if None in values else line_of(key_of(kind, values))


def estimate_of(line: str, request_s: float) -> Estimate:
    """An estimate from its row; quantiles that follow the request are multiplied by it, the first two are below it."""
    n_jobs, *numbers = map(float, line.split("\t"))
    found = [one * request_s for one in numbers[N_QUANTILES:]] if request_s > 0 else []
    found = found or numbers[:N_QUANTILES]
    cut = [min(one, request_s) if request_s > 0 else one for one in found[:2]]
    return Estimate((*cut, *found[2:]), int(n_jobs))


@cache
def quoted(text: str) -> str:
    """The text in ASCII: every byte of its UTF-8 form but letters, digits and `_.-~@+` is written as %XX."""
    return quote(text, safe="@+~", errors="surrogateescape")


def key_of(kind: str, values: "Any") -> str:
    """A key: its kind and its values, texts quoted, numbers as C's %.17g prints them, joined by `|`."""
    return "|".join([kind, *(quoted(one) if isinstance(one, str) else f"{one:.17g}" for one in values)])


def hash_of(key: str, multiplier: int) -> int:
    """The hash of a key, in [0, PRIME)."""
    found = 0
    for byte in key.encode("ascii", "replace"):
        found = (found * multiplier + byte) % PRIME
    return found
