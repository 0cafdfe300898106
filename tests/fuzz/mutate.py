"""A long run of random mutations through every reader: no exception but InputError, no lost line, no value unsaid.

    python -m tests.fuzz.mutate [--lines 200000] [--seed 1] [--formats NAME ...]

Every mutated file is read by its own reader. The Report's check and the counts of jobs and unreadable records must
hold, and the second reader of judge.py must find each value in the record that it comes from.
"""

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from tests.fuzz.judge import unsaid_by
from tests.fuzz.logs import FORMATS, Log, logs

LINES_A_FILE = 60
SLOWEST_S = 30.0
STRAY = (b"|", b"\n", b"\r\n", b"\0", b"-1", b"\xff\xfe", b'"', b";", b"=", b"\t", b"9" * 25, b"Unknown", b"{", b"}")
ZONES = (b"", b"Z", b"+01:00", b" CET", b"-0800")
CLOCK = re.compile(rb"\d\d:\d\d:\d\d")
SITE = SiteSettings(name="fuzz")


def stretch(log: Log, rng: np.random.Generator, n_lines: int = LINES_A_FILE) -> bytes:
    """A part of a log with its head."""
    start = int(rng.integers(0, max(len(log.lines) - n_lines, 1)))
    return b"".join([*log.head, *log.lines[start : start + n_lines]])


def mutated(part: bytes, rng: np.random.Generator) -> bytes:
    """A part of a log with bytes changed, cut, doubled and strewn in."""
    data = bytearray(part)
    for _ in range(int(rng.integers(1, 30))):
        place = int(rng.integers(0, max(len(data), 1)))
        match int(rng.integers(0, 5)):
            case 0:
                data[place : place + 1] = bytes([int(rng.integers(0, 256))])
            case 1:
                del data[place : place + int(rng.integers(1, 40))]
            case 2:
                data[place:place] = data[place : place + int(rng.integers(1, 200))]
            case 3:
                data[place:place] = STRAY[int(rng.integers(0, len(STRAY)))]
            case _:
                other = int(rng.integers(0, max(len(data), 1)))
                data[place : place + 9], data[other : other + 9] = data[other : other + 9], data[place : place + 9]
    return bytes(data)


def zoned(part: bytes, rng: np.random.Generator) -> bytes:
    """A part of a log in which some times got a zone, each its own."""
    return CLOCK.sub(lambda found: found[0] + ZONES[int(rng.integers(0, len(ZONES)))], part)


def encoded(part: bytes, rng: np.random.Generator) -> bytes:
    """A part of a log in another encoding, or with a byte order mark; most parts stay as they are."""
    match int(rng.integers(0, 12)):
        case 0:
            return part.decode("latin-1").encode("utf-16")
        case 1:
            return b"\xef\xbb\xbf" + part
        case 2:
            return part.replace(b"a", b"\xe4")
        case 3:
            return zoned(part, rng)
        case _:
            return part


def read(name: str, data: bytes, path: Path) -> Counter[str]:
    """Read one mutated log: the fates of its lines. AssertionError where the account does not hold."""
    path.write_bytes(data)
    began = time.monotonic()
    try:
        jobs, unreadable, report = ingest(
            [path], SITE, IngestSettings.model_validate({"format": name, "max_damaged": 1.0})
        )
    except InputError:
        return Counter({"log refused": 1})
    report.check()
    assert report.kept.rows == jobs.num_rows
    assert unreadable.num_rows <= report.seen.rows
    assert time.monotonic() - began < SLOWEST_S, "a small log took long"
    found = jobs.to_pylist()
    places = [*(job["source_line"] for job in found), *unreadable["source_line"].to_pylist()]
    wrong = unsaid_by(name, data.removeprefix(b"\xef\xbb\xbf"), found, places)
    assert not wrong, wrong[:5]
    return Counter({"log read": 1, "job": jobs.num_rows}) + Counter(unreadable["reason"].to_pylist())


def compile_kernels(name: str, log: Log, path: Path) -> None:
    """Read a log once: a reader whose kernels are not compiled yet is slow for minutes, and only then."""
    path.write_bytes(b"".join([*log.head, *log.lines[:100]]))
    ingest([path], SITE, IngestSettings.model_validate({"format": name, "max_damaged": 1.0}))


def fuzzed(name: str, n_lines: int, seed: int, folder: Path) -> Iterator[Counter[str]]:
    """The fates of the lines of each mutated log, until n_lines lines were mutated."""
    whole, rng, done = logs(name, folder), np.random.default_rng(seed), 0
    compile_kernels(name, whole[0], folder / "whole.log")
    while done < n_lines:
        data = encoded(mutated(stretch(whole[int(rng.integers(0, len(whole)))], rng), rng), rng)
        done += data.count(b"\n")
        try:
            yield read(name, data, folder / "mutated.log")
        except Exception:
            kept = Path(f"fuzz-{name}-{seed}-{done}.log")
            kept.write_bytes(data)
            sys.stderr.write(f"{name}: the log that failed is kept as {kept}\n")
            raise


def main() -> None:
    """Fuzz the formats asked for and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200_000, help="mutated lines per reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS)
    asked = parser.parse_args()
    for name in asked.formats:
        with tempfile.TemporaryDirectory() as folder:
            counts = sum(fuzzed(name, asked.lines, asked.seed, Path(folder)), Counter[str]())
        fates = ", ".join(f"{fate} {n:,}" for fate, n in counts.most_common())
        sys.stdout.write(f"{name}: {asked.lines:,} mutated lines, every value said by its record: {fates}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
