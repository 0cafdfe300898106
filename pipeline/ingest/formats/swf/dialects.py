"""The dialects of SWF with 21 fields, told by their header or by the shape of the three fields after the 18th.

MetaCentrum (the logs that the Alea simulator reads, such as wagap-2013): the machine of each processor in braces, the
queue's name, and the node specification that was asked for, as in `{12,12} q_1d 1:ppn=2:gpu=1`. Fields 6 and 7 are the
same in every job there, and field 10 is in bytes; they are left unknown.

AleaNG (Frontier, and the logs of its workload generator, whose header names the fields): GPUs of the job, the soft
walltime, and a descriptor of required properties, as in `8 3600 all:excl:2x4`, where 2x4 asks for two nodes. Field 6
repeats the runtime there, and is left unknown.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.core.buffers import arrow
from pipeline.core.column import CATEGORY
from pipeline.ingest.formats.swf.scanned import N_FIELDS

N_EXTENDED = 21
Extra = Sequence[bytes]
"""Fields 19 to 21 of a line."""

Values = Mapping[str, int | str | None]
_MACHINES = re.compile(rb"\{\d+(?:,\d+)*\}")
_WHOLE = re.compile(rb"\d{1,9}")
_NUMBER = re.compile(rb"-?\d{1,18}(?:\.\d*)?")
_NODES = re.compile(rb"(\d{1,6})x\d{1,6}")
_GPUS = re.compile(rb"n?gpus?=(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Dialect:
    """name: as notes call it. columns: of JOBS, made from the extra fields. left_out: standard fields that hold no
    such value. without_column: extra fields that JOBS has no column for. values: those of a line's extra fields; None
    where they are not of this dialect.
    """

    name: str
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    without_column: str
    values: Callable[[Extra], Values | None]


def _metacentrum(extra: Extra) -> Values | None:
    machines, queue, asked = extra
    if not _MACHINES.fullmatch(machines) or _NUMBER.fullmatch(queue):
        return None
    chunks = [chunk.split(b":") for chunk in asked.split(b"+")]
    counts = [int(chunk[0]) if _WHOLE.fullmatch(chunk[0]) else 1 for chunk in chunks]
    gpus = [sum(int(found[1]) for part in chunk if (found := _GPUS.fullmatch(part))) for chunk in chunks]
    n_gpus = sum(n * each for n, each in zip(counts, gpus, strict=True))
    return {
        "nodes": len(set(machines[1:-1].split(b","))),
        "queue": queue.decode("utf-8", "backslashreplace"),
        "requested_nodes": sum(counts),
        "gpus": n_gpus or None,
    }


def _aleang(extra: Extra) -> Values | None:
    gpus, soft_walltime, properties = extra
    if not (_WHOLE.fullmatch(gpus) or gpus == b"-1") or not _NUMBER.fullmatch(soft_walltime):
        return None
    nodes = [int(found[1]) for part in properties.split(b":") if (found := _NODES.fullmatch(part))]
    return {"gpus": int(gpus) if gpus != b"-1" else None, "requested_nodes": nodes[0] if len(nodes) == 1 else None}


METACENTRUM = Dialect(
    "MetaCentrum", ("nodes", "queue", "requested_nodes", "gpus"), ("cpu_s", "used_mem_kib", "requested_mem_kib"),
    "the properties in field 21", _metacentrum,
)  # fmt: skip
ALEANG = Dialect(
    "AleaNG", ("gpus", "requested_nodes"), ("cpu_s",), "the soft walltime in field 20, the properties in field 21",
    _aleang,
)  # fmt: skip
DIALECTS = (METACENTRUM, ALEANG)
_DECLARED = {19: "used_GPUs", 20: "soft_walltime", 21: "required_properties"}


def dialect_of(names: Mapping[int, str], extra: Extra | None) -> Dialect | None:
    """The dialect a header's field names (by number, from 1) or a first line's extra fields tell; None: neither."""
    if extra is None:
        return None
    if all(names.get(number) == name for number, name in _DECLARED.items()):
        return ALEANG
    is_text = _NUMBER.fullmatch(extra[2]) is None
    return next((dialect for dialect in DIALECTS if is_text and dialect.values(extra) is not None), None)


def extra_fields(data: bytes, lines: Collection[int]) -> list[Extra | None]:
    """Fields 19 to 21 of these lines of a block, counted from 0; None where a line has not 21 fields."""
    texts = data.split(b"\n")
    fields = (texts[line].split(None, N_EXTENDED) for line in lines)
    return [found[N_FIELDS:] if len(found) == N_EXTENDED else None for found in fields]


def dialect_columns(dialect: Dialect, extras: Sequence[Extra | None]) -> tuple[dict[str, pa.Array], int]:
    """Columns of JOBS made from the lines' extra fields, null where a line has none; how many lines had them."""
    values = [dialect.values(extra) if extra is not None else None for extra in extras]
    columns = {name: [value[name] if value else None for value in values] for name in dialect.columns}
    kinds = {name: CATEGORY if name == "queue" else pa.int64() for name in columns}
    made = {
        name: pa.array(column, pa.string()).dictionary_encode() if kinds[name] == CATEGORY else _whole(column)
        for name, column in columns.items()
    }
    return made, sum(value is not None for value in values)


def _whole(values: Sequence[int | str | None]) -> pa.Array:
    return arrow(np.array([value or 0 for value in values], np.int64), np.array([value is None for value in values]))
