"""A long run of random mutations through every reader: no exception but InputError, no lost line, no hang.

    python -m tests.fuzz.mutate [--lines 200000] [--seed 1] [--formats swf sacct pbs sacct_json]

Seeds are logs of the project's own making, and the real ones beside the checkout where they are. Every mutated file is
read by its own reader; the Report's check and the counts of jobs and unreadable records must hold.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.bench_pbs import made_log as made_pbs
from benchmarks.bench_sacct import made_dump
from benchmarks.bench_swf import made_log as made_swf
from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.ingest.sources import unpacked
from pipeline.settings import IngestSettings, SiteSettings

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
LINES_A_FILE = 60
SLOWEST_S = 30.0
REAL = {
    "swf": ("swf/NASA-iPSC-1993-3.swf.gz", "swf/MetaCentrum-wagap-2013.swf.gz"),
    "sacct": ("sacct/real-slurm-22.05.8/sacct-steps-parsable2.txt.gz", "sacct/real-slurm-22.05.8/sacct-P-ALL.txt.gz"),
    "pbs": ("pbs/real-openpbs-23.06.06/20261121.gz", "pbs/torque-20130819.gz"),
    "sacct_json": ("sacct/real-slurm-22.05.8-cgroup/sacct.json.gz",),
}
STRAY = (b"|", b"\n", b"\r\n", b"\0", b"-1", b"\xff\xfe", b'"', b";", b"=", b"\t", b"9" * 25, b"Unknown", b"{", b"}")

ZONES = (b"", b"Z", b"+01:00", b" CET", b"-0800")
CLOCK = re.compile(rb"\d\d:\d\d:\d\d")


def seeds(name: str, folder: Path) -> list[list[bytes]]:
    """Logs of one format, in lines."""
    made = folder / f"{name}.log"
    makers = {
        "swf": lambda: made_swf(made, 2_000),
        "sacct": lambda: made_dump(made, 2_000),
        "pbs": lambda: made_pbs(made, 2_000),
    }
    paths = [makers[name]()] if name in makers else []
    paths += [SHARED / path for path in REAL[name] if (SHARED / path).exists()]
    texts = [unpacked(path).read() for path in paths]
    return [text.splitlines(keepends=True) for text in texts]


def stretch(lines: list[bytes], rng: np.random.Generator, *, is_document: bool) -> bytes:
    """A part of a log with its first lines; a document's begins where the document does."""
    if is_document:
        return b"".join(lines[: int(rng.integers(len(lines) // 4, len(lines)))])
    start = int(rng.integers(0, max(len(lines) - LINES_A_FILE, 1)))
    return b"".join(lines[:2] + lines[start : start + LINES_A_FILE])


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


def read(name: str, data: bytes, path: Path) -> str:
    """Read one mutated log; what became of it. AssertionError where the account does not hold."""
    path.write_bytes(data)
    began = time.monotonic()
    try:
        jobs, unreadable, report = ingest([path], SiteSettings(name="fuzz"), IngestSettings(format=name))
    except InputError:
        return "refused"
    report.check()
    assert report.kept.rows == jobs.num_rows
    assert unreadable.num_rows <= report.seen.rows
    assert time.monotonic() - began < SLOWEST_S, "a small log took long"
    return "read"


def compile_kernels(name: str, log: list[bytes], path: Path) -> None:
    """Read a whole log once: a reader whose kernels are not compiled yet is slow for minutes, and only then."""
    path.write_bytes(b"".join(log))
    ingest([path], SiteSettings(name="fuzz"), IngestSettings(format=name))


def fuzzed(name: str, n_lines: int, seed: int, folder: Path) -> Iterator[str]:
    """What became of each mutated log, until n_lines lines were mutated."""
    logs, rng, done = seeds(name, folder), np.random.default_rng(seed), 0
    for log in logs:
        compile_kernels(name, log, folder / "whole.log")
    while logs and done < n_lines:
        log = logs[int(rng.integers(0, len(logs)))]
        data = encoded(mutated(stretch(log, rng, is_document=name == "sacct_json"), rng), rng)
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
    parser.add_argument("--formats", nargs="+", default=list(REAL), choices=list(REAL))
    asked = parser.parse_args()
    for name in asked.formats:
        with tempfile.TemporaryDirectory() as folder:
            outcomes = list(fuzzed(name, asked.lines, asked.seed, Path(folder)))
        counts = {word: outcomes.count(word) for word in sorted(set(outcomes))}
        sys.stdout.write(f"{name}: {asked.lines:,} mutated lines, logs {counts or 'none at hand'}\n")


if __name__ == "__main__":
    main()
