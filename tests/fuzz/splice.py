"""Lines that ran together, lost a part or got a field twice: what becomes of each, and which pass for data.

    python -m tests.fuzz.splice [--lines 200000] [--seed 1] [--formats swf sacct pbs]

Every fourth line of a log is spliced with the one after it. A spliced line is set aside, or gives a job whose values
are all those of one of the two lines. What is neither has passed for data, and is counted: two records of one form, cut
at the same field, are one record of that form, which nothing in the line tells apart.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

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


def jobs_of(name: str, lines: list[Line], path: Path) -> dict[int, dict[str, Any]]:
    """The jobs of a log by line."""
    path.write_bytes(b"".join(lines))
    jobs, *_ = ingest([path], SiteSettings(name="fuzz"), IngestSettings.model_validate({"format": name}))
    return {job.pop("source_line"): job for job in jobs.drop_columns(["restart"]).to_pylist()}


def fates(name: str, how: str, log: list[Line], rng: np.random.Generator, path: Path) -> Counter[str]:
    """What became of the spliced lines of one log."""
    head, lines = records(name, log)
    lines = lines[: len(lines) // STRIDE * STRIDE]
    whole, text = jobs_of(name, head + lines, path), list(lines)
    for place in range(0, len(lines), STRIDE):
        first, second = (line.rstrip(b"\r\n") for line in lines[place : place + 2])
        text[place : place + 2] = [SPLICES[how](first, second, MARKS[name], rng) + b"\n", b""]
    try:
        found = jobs_of(name, head + text, path)
    except InputError:
        return Counter({"log refused": len(lines) // STRIDE})
    counts: Counter[str] = Counter()
    for n_gone, place in enumerate(range(0, len(lines), STRIDE)):
        own = place + 1 + len(head)
        job = found.get(own - n_gone)
        either = [whole.get(own), whole.get(own + 1)]
        counts["set aside" if job is None else "one of the two" if job in either else "passed for data"] += 1
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
            logs, rng = seeds(name, Path(folder)), np.random.default_rng(asked.seed)
            for how in SPLICES:
                counts: Counter[str] = Counter()
                while counts.total() * len(SPLICES) < asked.lines:
                    counts += fates(name, how, logs[int(rng.integers(0, len(logs)))], rng, Path(folder) / "spliced.log")
                sys.stdout.write(f"{name}, {how}: {counts.total():,} lines, {dict(sorted(counts.items()))}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
