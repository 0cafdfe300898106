"""Makes a long log from the statistics of a short one: any number of jobs, as a dump of sacct or as SWF.

python benchmarks/make_jobs.py LOG --jobs N --out FILE [--skip JOBS] [--seed 7] [--format sacct|swf]

The log is repeated in lanes and in cycles. A lane is a set of users of its own, so that the users grow with the jobs; a
cycle is the log again, later in time. There are about as many lanes as cycles. Every lane begins at its own place of
the log, drawn from the seed. A job keeps its user, account, application, queue, size, request and state. Its wait and
its runtime are those of another job of the same user, application, size and request.

Jobs are written in order of submit, a week at a time, so that memory does not grow with N. The first jobs of a longer
log are those of a shorter one with the same `--lanes`; `--skip` leaves them out, as an increment to a log.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings

_WEEK_S = 7 * 86_400
_FIRST_S = 1_000_000_000
_SAME = ("user", "application", "procs", "requested_s")
_STATES = {"completed": 1, "failed": 0, "cancelled": 5, "timeout": 0, "out_of_memory": 0, "node_fail": 0}


@dataclass(frozen=True, slots=True)
class Base:
    """A short log: its jobs in order of submit, the first of them at 0 s, and its length in s."""

    columns: dict[str, np.ndarray]
    span_s: int

    def __len__(self) -> int:
        return len(self.columns["submit_s"])


def read_base(log: Path) -> Base:
    """The jobs of a log with submit, start, end and processors; texts become codes from 1 on, 0: unknown."""
    jobs = ingest([log], SiteSettings(), IngestSettings())[0]
    times = {name: jobs.column(name).to_numpy() for name in ("submit_s", "start_s", "end_s", "procs")}
    usable = np.logical_and.reduce([~np.isnan(values.astype(float)) for values in times.values()])
    usable &= (times["end_s"] >= times["start_s"]) & (times["start_s"] >= times["submit_s"]) & (times["procs"] > 0)
    rows = np.flatnonzero(usable)[np.argsort(times["submit_s"][usable], kind="stable")]
    found = {name: values[rows].astype(np.int64) for name, values in times.items()}
    columns = {
        "submit_s": found["submit_s"] - found["submit_s"][0], "wait_s": found["start_s"] - found["submit_s"],
        "runtime_s": found["end_s"] - found["start_s"], "procs": found["procs"],
    }  # fmt: skip
    for name in ("user", "account", "application", "queue", "state"):
        columns[name] = _codes(jobs.column(name).take(rows))
    words = jobs.column("state").cast(pa.string()).take(rows).to_pylist()
    columns["swf_status"] = np.array([_STATES.get(str(word), -1) for word in words])
    for name in ("requested_s", "requested_mem_kib"):
        values = jobs.column(name).take(rows).to_numpy().astype(float)
        columns[name] = np.where(np.isnan(values), -1, values).astype(np.int64)
    return Base(columns, int(columns["submit_s"][-1]) + 1)


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    found = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return np.asarray(pc.fill_null(pc.add(found.indices, 1), 0), np.int64)


def made_jobs(base: Base, n_jobs: int, seed: int, lanes: int | None = None) -> Iterator[dict[str, np.ndarray]]:
    """The jobs, a week at a time, in order of submit; as many as wanted, the same ones for the same seed and lanes."""
    lanes = lanes or max(1, math.isqrt(math.ceil(n_jobs / len(base))))
    rng = np.random.default_rng(seed)
    offsets = rng.integers(0, base.span_s, lanes) if lanes > 1 else np.zeros(1, np.int64)
    partners = _partners(base)
    n_made, week = 0, 0
    while n_made < n_jobs:
        own = np.random.default_rng((seed, week))
        found = _week(base, partners, offsets, week, own)
        order = np.argsort(found["submit_s"], kind="stable")[: n_jobs - n_made]
        yield {name: values[order] for name, values in found.items()} | {"number": n_made + 1 + np.arange(len(order))}
        n_made, week = n_made + len(order), week + 1


def _week(base: Base, partners: tuple[np.ndarray, ...], offsets: np.ndarray, week: int, rng: np.random.Generator):
    """All lanes' jobs of a week."""
    parts = []
    for lane, offset in enumerate(offsets):
        begin, cycle = (week * _WEEK_S + int(offset)) % base.span_s, (week * _WEEK_S + int(offset)) // base.span_s
        left = _WEEK_S
        while left > 0:
            end = min(base.span_s, begin + left)
            first, last = np.searchsorted(base.columns["submit_s"], [begin, end])
            rows = np.arange(first, last)
            part = {name: values[rows] for name, values in base.columns.items()}
            other = _drawn(partners, rows, rng)
            part |= {name: base.columns[name][other] for name in ("wait_s", "runtime_s", "state", "swf_status")}
            part["submit_s"] = part["submit_s"] + cycle * base.span_s - int(offset) + _FIRST_S
            part["lane"] = np.full(len(rows), lane)
            parts.append(part)
            left, begin, cycle = left - (end - begin), 0, cycle + 1
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _partners(base: Base) -> tuple[np.ndarray, ...]:
    """The jobs ordered by user, application, size and request; per job where its likes begin, and their number."""
    rows = np.stack([base.columns[name] for name in _SAME], axis=1)
    code = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    counts = np.bincount(code)
    return np.argsort(code, kind="stable"), (np.cumsum(counts) - counts)[code], counts[code]


def _drawn(partners: tuple[np.ndarray, ...], rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    order, begin, count = partners
    return order[begin[rows] + (rng.random(len(rows)) * count[rows]).astype(np.int64)]


def sacct_columns(jobs: dict[str, np.ndarray]) -> pa.Table:
    """The columns of a dump; users, accounts and job names are numbered names."""
    start = jobs["submit_s"] + jobs["wait_s"]
    kind = np.select([jobs["swf_status"] == 0, jobs["swf_status"] == 5], [1, 2], 0)
    states = np.array(["COMPLETED", "FAILED", "CANCELLED"])[kind]
    size = pa.array(jobs["procs"])
    named = {
        "JobID": pa.array(jobs["number"]), "User": _named("u", jobs["user"], jobs["lane"]),
        "Account": _named("acc", jobs["account"], jobs["lane"]),
        "JobName": _named("app", jobs["application"], jobs["lane"]), "Partition": _named("part", jobs["queue"], None),
        "Submit": _instants(jobs["submit_s"]), "Start": _instants(start), "End": _instants(start + jobs["runtime_s"]),
        "NCPUS": size, "ReqCPUS": size,
        "TimelimitRaw": _unless_unknown(-(-jobs["requested_s"] // 60), jobs["requested_s"] >= 0, ""),
        "ReqMem": _unless_unknown(jobs["requested_mem_kib"], jobs["requested_mem_kib"] >= 0, "K"),
        "State": pa.array(states), "ExitCode": pa.array(np.where(states == "FAILED", "1:0", "0:0")),
    }  # fmt: skip
    return pa.table(named)


def swf_columns(jobs: dict[str, np.ndarray]) -> pa.Table:
    """The 18 fields of SWF."""
    unknown = np.full(len(jobs["number"]), -1)
    user, account, application = (_numbered(jobs[name], jobs["lane"]) for name in ("user", "account", "application"))
    fields = (
        jobs["number"], jobs["submit_s"] - _FIRST_S, jobs["wait_s"], jobs["runtime_s"], jobs["procs"], unknown, unknown,
        jobs["procs"], jobs["requested_s"], jobs["requested_mem_kib"], jobs["swf_status"], user, account, application,
        np.where(jobs["queue"] > 0, jobs["queue"], -1), unknown, unknown, unknown,
    )  # fmt: skip
    return pa.table({str(place): values for place, values in enumerate(fields)})


def _numbered(codes: np.ndarray, lane: np.ndarray) -> np.ndarray:
    return np.where(codes > 0, codes + lane * 100_000, -1)


def _named(prefix: str, codes: np.ndarray, lane: np.ndarray | None) -> pa.Array:
    numbers = codes if lane is None else _numbered(codes, lane)
    return _unless_unknown(numbers, codes > 0, "", prefix)


def _unless_unknown(values: np.ndarray, is_known: np.ndarray, unit: str, prefix: str = "") -> pa.Array:
    texts = pc.binary_join_element_wise(prefix, pa.array(values).cast(pa.string()), unit, "")
    return pc.if_else(pa.array(is_known), texts, "")


def _instants(seconds: np.ndarray) -> pa.Array:
    return pc.utf8_replace_slice(pa.array(seconds).cast(pa.timestamp("s")).cast(pa.string()), 10, 11, "T")


_FORMATS: dict[str, tuple[Callable[[dict[str, np.ndarray]], pa.Table], str, str]] = {
    "sacct": (sacct_columns, "|", "{names}\n"),
    "swf": (swf_columns, " ", f"; Version: 2.2\n; UnixStartTime: {_FIRST_S}\n; Note: made by make_jobs.py\n"),
}  # fmt: skip


def write_log(
    base: Base, out: Path, n_jobs: int, form: str, seed: int = 7, lanes: int | None = None, skip: int = 0
) -> int:
    """Write the log, without its first `skip` jobs; returns the number of jobs written."""
    table_of, delimiter, head = _FORMATS[form]
    n_written = 0
    with out.open("wb") as sink:
        for week in made_jobs(base, n_jobs, seed, lanes):
            kept = week["number"] > skip
            table = table_of({name: values[kept] for name, values in week.items()})
            if not sink.tell():
                sink.write(head.format(names=delimiter.join(table.column_names)).encode())
            _write(table, sink, delimiter)
            n_written += table.num_rows
    return n_written


def _write(table: pa.Table, sink: BinaryIO, delimiter: str) -> None:
    options = pacsv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
    pacsv.write_csv(table, sink, options)


def main() -> None:
    """Make one log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="the log whose statistics are used")
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--format", choices=_FORMATS, default="sacct")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--lanes", type=int, help="sets of users; by default as many as cycles")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first jobs")
    asked = parser.parse_args()
    base = read_base(asked.log)
    n = write_log(base, asked.out, asked.jobs, asked.format, asked.seed, asked.lanes, asked.skip)
    print(f"{asked.out}: {n:,} jobs made from {len(base):,} of {asked.log.name}")


if __name__ == "__main__":
    main()
