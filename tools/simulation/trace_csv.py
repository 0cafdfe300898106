"""Writes calls as the CSV of a trace."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.phases import calls as functions

HEADER = "rank,seq,op,peer,tag,count,bytes,t_start,t_end"


def csv_lines(calls: pa.Table, *, communicators: bool = False) -> list[str]:
    """The lines of MPI_CALLS, the header first; a wait names the request that it completes if it completes one."""
    rows = calls.to_pylist()
    completed: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        if row["completed_by"] is not None:
            completed.setdefault((row["rank"], row["completed_by"]), []).append(row)
    lines = [HEADER + (",communicator" if communicators else "")]
    for row in rows:
        peer, tag = _peer(row), row["tag"]
        done = completed.get((row["rank"], row["event"]), [])
        if row["op"] in functions.COMPLETES_ONE and done:
            peer, tag = f"{done[0]['source']}>{row['rank']}", done[0]["tag"]
        values = [row["rank"], row["event"], row["op"], peer, tag, None, row["bytes"], row["t_start_s"], row["t_end_s"]]
        values += [row["communicator"]] if communicators else []
        lines.append(",".join("" if value is None else str(value) for value in values))
    return lines


def write_csv(path: Path, lines: list[str]) -> Path:
    """A trace of these lines, packed where the name ends in .gz."""
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def _peer(row: dict[str, Any]) -> Any:
    if row["source"] is not None and row["destination"] is not None:
        return f"{row['source']}>{row['destination']}"
    return next((row[name] for name in ("source", "destination", "root") if row[name] is not None), None)
