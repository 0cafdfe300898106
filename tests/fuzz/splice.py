"""Lines that ran together, lost a part or got a field twice: what becomes of each, and which pass for data.

    python -m tests.fuzz.splice [--lines 200000] [--seed 1] [--formats swf sacct pbs]

Every fourth line of a log is spliced with the one after it. A spliced line is set aside, or gives a job whose values
are all those of one of the two lines, or unknown. What is neither has passed for data, and is counted: two records of
one form, cut at the same field, are one record of that form, which nothing in the line tells apart.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from tests.fuzz.mutate import seeds

FORMATS = ("swf", "sacct", "pbs")
MARKS = {"swf": b" ", "sacct": b"|", "pbs": b" "}
STRIDE = 4
Line = bytes
Splice = Callable[[Line, Line, bytes, np.random.Generator], Line]


def _cut(line: Line, rng: np.random.Generator) -> int:
    return int(rng.integers(1, max(len(line) - 1, 2)))


def _joined(first: Line, second: Line, _mark: bytes, rng: np.random.Generator) -> Line:
    return first[: _cut(first, rng)] + second


def _lost(first: Line, second: Line, _mark: bytes, rng: np.random.Generator) -> Line:
    return first[: _cut(first, rng)] + second[_cut(second, rng) :]


def _doubled(first: Line, _second: Line, mark: bytes, rng: np.random.Generator) -> Line:
    fields = first.split(mark)
    place = int(rng.integers(0, len(fields)))
    return mark.join([*fields[:place], fields[place], *fields[place:]])


def _shifted(first: Line, second: Line, mark: bytes, rng: np.random.Generator) -> Line:
    fields, others = first.split(mark), second.split(mark)
    place = int(rng.integers(0, len(fields)))
    return mark.join([*fields[:place], others[int(rng.integers(0, len(others)))], *fields[place:]])


SPLICES: Mapping[str, Splice] = {"joined": _joined, "lost": _lost, "doubled": _doubled, "shifted": _shifted}


def records(name: str, log: list[Line]) -> tuple[list[Line], list[Line]]:
    """The header of a log, and its lines that are a whole job each, of distinct jobs."""
    if name == "swf":
        return [], [line for line in log if not line.startswith(b";") and len(line.split()) == len(log[-1].split())]
    if name == "pbs":
        return [], [line for line in log if line[19:22] == b";E;"]
    names = log[0].strip().split(b"|")
    place, whole = names.index(b"JobID"), [line for line in log[1:] if line.count(b"|") == len(names) - 1]
    return log[:1], [line for line in whole if line.split(b"|")[place].isdigit()]


def jobs_of(name: str, lines: list[Line], path: Path, asked: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The jobs of some lines of a log by line."""
    path.write_bytes(b"".join(lines))
    jobs, *_ = ingest([path], SiteSettings(name="fuzz"), IngestSettings.model_validate({"format": name}))
    chosen = jobs.filter(pc.is_in(jobs["source_line"], pa.array(asked, pa.int64()))).drop_columns(["restart"])
    return {job.pop("source_line"): job for job in chosen.to_pylist()}


def is_of(job: dict[str, Any], whole: dict[str, Any] | None) -> bool:
    """Whether each value of a job that is known is that of a whole line's job."""
    return whole is not None and all(value is None or value == whole[name] for name, value in job.items())


@dataclass(frozen=True, slots=True)
class Log:
    """The header and the lines of a log, and the jobs of the pairs of lines that are spliced."""

    head: list[Line]
    lines: list[Line]
    whole: Mapping[int, dict[str, Any]]

    @classmethod
    def of(cls, name: str, log: list[Line], path: Path) -> "Log":
        """A log as it is before it is damaged."""
        head, lines = records(name, log)
        lines = lines[: len(lines) // STRIDE * STRIDE]
        pairs = [place + step + len(head) for place in range(0, len(lines), STRIDE) for step in (1, 2)]
        return cls(head, lines, jobs_of(name, head + lines, path, pairs))


def fates(name: str, how: str, log: Log, rng: np.random.Generator, path: Path) -> Counter[str]:
    """What became of the spliced lines of one log."""
    head, lines = log.head, log.lines
    text, places = list(lines), range(0, len(lines), STRIDE)
    for place in places:
        first, second = (line.rstrip(b"\r\n") for line in lines[place : place + 2])
        text[place : place + 2] = [SPLICES[how](first, second, MARKS[name], rng) + b"\n", b""]
    asked = [place + 1 + len(head) - n_gone for n_gone, place in enumerate(places)]
    try:
        found = jobs_of(name, head + text, path, asked)
    except InputError:
        return Counter({"log refused": len(places)})
    counts: Counter[str] = Counter()
    for at, place in zip(asked, places, strict=True):
        job, own = found.get(at), place + 1 + len(head)
        is_one = job is not None and any(is_of(job, log.whole.get(line)) for line in (own, own + 1))
        counts["set aside" if job is None else "one of the two" if is_one else "passed for data"] += 1
    return counts


def main() -> None:
    """Splice logs of the formats asked for, and print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200_000, help="spliced lines per reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS)
    asked = parser.parse_args()
    for name in asked.formats:
        with tempfile.TemporaryDirectory() as folder:
            path, rng = Path(folder) / "spliced.log", np.random.default_rng(asked.seed)
            logs = [Log.of(name, log, path) for log in seeds(name, Path(folder))]
            for how in SPLICES:
                counts: Counter[str] = Counter()
                while counts.total() * len(SPLICES) < asked.lines:
                    counts += fates(name, how, logs[int(rng.integers(0, len(logs)))], rng, path)
                sys.stdout.write(f"{name}, {how}: {counts.total():,} lines, {dict(sorted(counts.items()))}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
