"""Lines that ran together, lost a part or got a field twice: what becomes of each, and which pass for data.

    python -m tests.fuzz.splice [--lines 200000] [--seed 1] [--formats swf sacct pbs sacct_json table]

Every fourth line of a log is spliced with the one after it. The fates of a spliced line, from the best on:

set aside      no job, with a reason
flagged        a job whose times contradict each other: cleaning sets it aside
one of two     a job all of whose values are those of one of the two lines, or unknown
of both lines  each field's value is that of one of the two lines, or unknown: two records of one form, cut at the same
               field, are one record of that form, and nothing in the line tells them apart
in a text      only free texts (a name, a folder, what is derived from them) hold what neither line says
no line says   anything else: it has passed for data
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.clean import RULES
from pipeline.clean.job_arrays import JobArrays
from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.schema import Flag
from pipeline.settings import IngestSettings
from tests.fuzz.logs import FORMATS, Log, logs
from tests.fuzz.mutate import SITE

STRIDE = 4
PASSED = "no line says"
TEXTS = ("job_name", "application", "problem_size", "work_dir_hash", "inputs", "submit_tokens")
"""Free texts, and what is made of them."""

OF_SEVERAL = ("requested_mem_kib", "requested_memory", "used_mem_kib", "cpu_s")
"""Made of several fields, of which each may be of another line: an amount of a job by its processors or nodes."""

SCREENS = (Flag.ELAPSED_DISAGREES, Flag.IMPOSSIBLE_TIMES)
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


def of_jobs(name: str, log: Log) -> Log:
    """The log with only those lines that are a whole job each, of distinct jobs."""
    lines = log.lines
    if name == "swf":
        lines = [line for line in lines if not line.startswith(b";") and len(line.split()) == len(lines[-1].split())]
    if name == "pbs":
        lines = [line for line in lines if line[19:22] == b";E;"]
    if name == "sacct":
        names = log.head[0].strip().split(b"|")
        place, whole = names.index(b"JobID"), [line for line in lines if line.count(b"|") == len(names) - 1]
        lines = [line for line in whole if line.split(b"|")[place].isdigit()]
    return Log(log.head, lines[: len(lines) // STRIDE * STRIDE], log.mark)


def jobs_of(name: str, lines: list[Line], path: Path, asked: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The jobs of some lines of a log by line; `flagged` where cleaning sets one aside."""
    path.write_bytes(b"".join(lines))
    jobs, *_ = ingest([path], SITE, IngestSettings.model_validate({"format": name, "max_damaged": 1.0}))
    arrays = JobArrays(jobs, SITE)
    flagged = pa.array(np.logical_or.reduce([RULES[flag](arrays) for flag in SCREENS]))
    jobs = jobs.append_column("flagged", flagged).drop_columns(["restart"])
    chosen = jobs.filter(pc.is_in(jobs["source_line"], pa.array(asked, pa.int64())))
    return {job.pop("source_line"): job for job in chosen.to_pylist()}


def fate(job: dict[str, Any] | None, *whole: dict[str, Any] | None) -> str:
    """What became of a spliced line, by the jobs of the two lines."""
    if job is None:
        return "set aside"
    if job["flagged"]:
        return "flagged"
    known = {name: value for name, value in job.items() if value is not None and name != "flagged"}
    both = [own for own in whole if own is not None]
    if any(all(value == own[name] for name, value in known.items()) for own in both):
        return "one of two"
    unsaid = {name for name, value in known.items() if all(value != own[name] for own in both)} - {*OF_SEVERAL}
    unsaid -= {"job_id"} if "@" in known["job_id"] else set()
    if not unsaid:
        return "of both lines"
    return "in a text" if unsaid <= {*TEXTS} else PASSED


@dataclass(frozen=True, slots=True)
class Pairs:
    """A log of jobs, and the jobs of the pairs of its lines that are spliced, by line."""

    log: Log
    whole: Mapping[int, dict[str, Any]]

    @classmethod
    def of(cls, name: str, log: Log, path: Path) -> "Pairs":
        """The pairs of a log as it is before it is damaged."""
        own = of_jobs(name, log)
        n_head = len(own.head)
        asked = [place + step + n_head for place in range(0, len(own.lines), STRIDE) for step in (1, 2)]
        return cls(own, jobs_of(name, own.head + own.lines, path, asked))

    def spliced(self, name: str, how: str, rng: np.random.Generator, path: Path) -> Iterator[tuple[str, Line]]:
        """The fate of each spliced line, and the line."""
        head, lines, n_head = self.log.head, self.log.lines, len(self.log.head)
        text, places = list(lines), range(0, len(lines), STRIDE)
        for place in places:
            first, second = (line.rstrip(b"\r\n") for line in lines[place : place + 2])
            text[place : place + 2] = [SPLICES[how](first, second, self.log.mark, rng) + b"\n", b""]
        asked = [place + 1 + n_head - n_gone for n_gone, place in enumerate(places)]
        try:
            found = jobs_of(name, head + text, path, asked)
        except InputError:
            found = {}
        for at, place in zip(asked, places, strict=True):
            first = place + 1 + n_head
            yield fate(found.get(at), self.whole.get(first), self.whole.get(first + 1)), text[place]


def main() -> None:
    """Splice logs of the formats asked for, and print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=200_000, help="spliced lines per reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS)
    asked = parser.parse_args()
    for name in asked.formats:
        with tempfile.TemporaryDirectory() as folder:
            path, rng = Path(folder) / "spliced.log", np.random.default_rng(asked.seed)
            pairs = [Pairs.of(name, log, path) for log in logs(name, Path(folder))]
            for how in SPLICES:
                counts: Counter[str] = Counter()
                for own in cycle(pairs):
                    counts.update(found for found, _ in own.spliced(name, how, rng, path))
                    if counts.total() * len(SPLICES) >= asked.lines:
                        break
                shares = ", ".join(f"{what} {n / counts.total():.2%}" for what, n in counts.most_common())
                sys.stdout.write(f"{name}, {how}: {counts.total():,} lines, {shares}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
