"""Reads an OTF2 archive (`traces.otf2` and its folder), as Score-P writes it, through the official package `otf2`.

Each location is read by itself, large archives with one process a location: the package calls Python for every record.
"""

import ctypes
import os
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pipeline.arrays import Ints
from pipeline.errors import InputError, printable
from pipeline.phases.mpi_calls import NO_TAG, POLLING, UNKNOWN, CallColumns, calls_table
from pipeline.report import Report

_NO_RANK = 2**32 - 1
Callback = Callable[..., None]
Columns = dict[str, Ints]


class RankRecords:
    """The calls of a rank as columns, one value each, in the units of the archive; grows while records are read."""

    NUMBERS: ClassVar[tuple[str, ...]] = (
        "op", "event", "first", "second", "tag", "size", "communicator", "completed_by", "t_start", "t_end",
    )  # fmt: skip

    def __init__(self, regions: dict[int, str]) -> None:
        self._regions = frozenset(regions)
        self._polling = frozenset(region for region, name in regions.items() if name in POLLING)
        self._is_useful = False
        self._requests: dict[int, int] = {}
        self._depth = 0
        self.open_region: int | None = None
        self.op, self.event, self.first, self.second, self.tag = (array("q") for _ in range(5))
        self.size, self.communicator, self.completed_by, self.t_start, self.t_end = (array("q") for _ in range(5))

    def columns(self) -> Columns:
        """The columns as numpy arrays, which pass between processes."""
        return {name: np.array(getattr(self, name), np.int64) for name in self.NUMBERS}

    def callbacks(self) -> dict[str, Callback]:
        """Per kind of record what takes it."""
        return {
            "Enter": self._enter, "Leave": self._leave, "MpiSend": self._send, "MpiIsend": self._send,
            "MpiRecv": self._receive, "MpiIrecvRequest": self._post, "MpiIrecv": self._complete,
            "MpiCollectiveEnd": self._collective, "MpiIsendComplete": self._sent,
        }  # fmt: skip

    def _enter(self, _location: int, time: int, _data: Any, _attributes: Any, region: int) -> None:
        if region not in self._regions:
            return
        self._depth += 1
        if self._depth > 1:  # a call within a call belongs to the outer one
            return
        self.open_region = region
        self._is_useful = region not in self._polling
        self.op.append(region)
        self.event.append(len(self.event))
        self.t_start.append(time)
        self.t_end.append(time)
        for column in (self.first, self.second, self.size, self.communicator, self.completed_by):
            column.append(UNKNOWN)
        self.tag.append(NO_TAG)

    def _leave(self, _location: int, time: int, _data: Any, _attributes: Any, region: int) -> None:
        if region not in self._regions or not self._depth:
            return
        self._depth -= 1
        if not self._depth:
            self.t_end[-1] = time
            self.open_region = None
            if not self._is_useful:
                for name in self.NUMBERS:
                    getattr(self, name).pop()

    def _send(
        self, _location: int, _time: int, _data: Any, _attributes: Any, receiver: int, comm: int, tag: int, size: int,
        *_request: int,
    ) -> None:  # fmt: skip
        if self.first:
            # With a receive in the same call, the destination is the second rank.
            if self.first[-1] != UNKNOWN:
                self.second[-1] = receiver
            else:
                self.first[-1] = receiver
            self._message(-1, comm, tag, size)

    def _receive(
        self, _location: int, _time: int, _data: Any, _attributes: Any, sender: int, comm: int, tag: int, size: int
    ) -> None:
        if self.first:
            if self.first[-1] != UNKNOWN:
                self.second[-1] = self.first[-1]
            self.first[-1] = sender
            self._message(-1, comm, tag, size)

    def _post(self, _location: int, _time: int, _data: Any, _attributes: Any, request: int) -> None:
        if self.first:
            self._requests[request] = len(self.first) - 1

    def _complete(
        self, _location: int, _time: int, _data: Any, _attributes: Any, sender: int, comm: int, tag: int, size: int,
        request: int,
    ) -> None:  # fmt: skip
        row = self._requests.pop(request, None)
        if row is not None:
            self.first[row] = sender
            self.completed_by[row] = len(self.first) - 1
            self._message(row, comm, tag, size)
            self._is_useful = True

    def _sent(self, _location: int, _time: int, _data: Any, _attributes: Any, _request: int) -> None:
        self._is_useful = True

    def _collective(
        self, _location: int, _time: int, _data: Any, _attributes: Any, _op: int, comm: int, root: int, sent: int,
        received: int,
    ) -> None:  # fmt: skip
        if self.first:
            self.first[-1] = UNKNOWN if root == _NO_RANK else root
            self.size[-1] = sent or received
            self.communicator[-1] = comm

    def _message(self, row: int, comm: int, tag: int, size: int) -> None:
        self.communicator[row], self.tag[row], self.size[row] = comm, tag, size


FEW_EVENTS = 400_000
"""Starting processes takes longer than reading this many records."""


# User data, file, line, function, code, format, and the arguments of the format, which are not read.
_ErrorCallback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p,
    ctypes.c_void_p,
)  # fmt: skip
# The library keeps a pointer to it.
_KEEP_CODE = _ErrorCallback(lambda *given: given[4])


@dataclass(frozen=True, slots=True)
class _Archive:
    """What the definitions say: the locations of the ranks, clock, MPI regions, and the ranks of each communicator."""

    locations: tuple[int, ...]
    n_events: int
    ticks_per_s: int
    offset: int
    regions: dict[int, str]
    members: dict[int, tuple[int, ...]]


def is_archive(path: Path) -> bool:
    """Whether the path is named as the anchor file of an archive, or is a folder with `traces.otf2`."""
    anchor = _anchor(path)
    return anchor.suffix == ".otf2" and anchor.is_file()


def _anchor(path: Path) -> Path:
    return path / "traces.otf2" if path.is_dir() else path


def read_otf2_trace(path: Path) -> tuple[pa.Table, Report]:
    """MPI_CALLS of an archive, in s; InputError with rank and event where it is damaged or a call has no end."""
    path, where = _anchor(path), printable(path.name, 200)
    try:
        # The package prints the errors of its own callbacks.
        with redirect_stderr(StringIO()):
            archive = _definitions(path)
    except ImportError:
        raise InputError(
            where, "an OTF2 archive", "the package otf2 to read it", "pip install walltime[otf2]"
        ) from None
    except Exception as error:  # the package raises its own errors and plain ones
        raise _damaged(where, error) from None
    if not archive.locations:
        raise InputError(where, "no MPI process", "an archive with the definitions of MPI communicators")
    records = _all_ranks(path, archive)
    return calls_table(*_columns(where, records, archive))


def _silence() -> None:
    """Keep the C library from printing a trail of messages beside the one sentence of an InputError."""
    from _otf2.Config import conf  # noqa: PLC0415

    register = conf.lib.OTF2_Error_RegisterCallback
    register.argtypes, register.restype = [_ErrorCallback, ctypes.c_void_p], ctypes.c_void_p
    register(_KEEP_CODE, None)


def _definitions(path: Path) -> _Archive:
    import otf2  # noqa: PLC0415  (an extra)

    _silence()
    with otf2.reader.open(str(path)) as trace:
        known = trace.definitions
        mpi = otf2.enums.Paradigm.MPI
        is_world = otf2.enums.GroupType.COMM_LOCATIONS
        world = next((one for one in known.groups if one.paradigm == mpi and one.group_type == is_world), None)
        locations = [one._ref for one in world.members] if world else []
        rank_of = {location: rank for rank, location in enumerate(locations)}
        members = {
            comm._ref: tuple(rank_of[one._ref] for one in comm.group.members)
            for comm in known.comms
            if isinstance(comm, otf2.definitions.Comm) and hasattr(comm, "group") and comm.group.paradigm == mpi
        }
        clock = known.clock_properties
        return _Archive(
            tuple(locations),
            sum(one.number_of_events for one in known.locations),
            int(clock.timer_resolution),
            int(clock.global_offset or 0),
            {one._ref: str(one.name) for one in known.regions if str(one.name).startswith("MPI_")},
            members,
        )


def _all_ranks(path: Path, archive: _Archive) -> list[Columns]:
    jobs = [(path, archive, rank) for rank in range(len(archive.locations))]
    n_processes = min(os.cpu_count() or 1, len(jobs))
    if archive.n_events <= FEW_EVENTS or n_processes == 1:
        return [_one_rank(job) for job in jobs]
    # A forked process would inherit locks of threads that it does not have.
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(_one_rank, jobs))


def _one_rank(job: tuple[Path, _Archive, int]) -> Columns:
    path, archive, rank = job
    where = printable(path.name, 200)
    found = RankRecords(archive.regions)
    try:
        with redirect_stderr(StringIO()):
            _read_location(path, archive.locations[rank], found)
    except Exception as error:  # the package raises its own errors and plain ones
        raise _damaged(f"{where}, rank {rank}, event {len(found.op)}", error) from None
    if found.open_region is not None:
        op = archive.regions[found.open_region]
        raise InputError(f"{where}, rank {rank}, event {len(found.op) - 1}", f"{op} without an end", "a complete trace")
    return found.columns()


def _read_location(path: Path, location: int, found: RankRecords) -> None:
    """Pass every record of a location to `found`; clock offsets are applied by the package."""
    import _otf2  # noqa: PLC0415  (the package's own layer: its iterator makes an object per record)
    import otf2  # noqa: PLC0415

    _silence()
    with otf2.reader.open(str(path)) as trace:
        (chosen,) = (one for one in trace.definitions.locations if one._ref == location)
        handle = trace._get_global_evt_reader_handle((chosen,))
        callbacks = _otf2.GlobalEvtReaderCallbacks_New()
        for name, call in found.callbacks().items():
            getattr(_otf2, f"GlobalEvtReaderCallbacks_Set{name}Callback")(callbacks, call)
        _otf2.GlobalEvtReader_SetCallbacks(handle, callbacks, None)
        _otf2.GlobalEvtReaderCallbacks_Delete(callbacks)
        expected, n_read = chosen.number_of_events, 0
        while n := _otf2.GlobalEvtReader_ReadEvents(handle, 1 << 20):
            n_read += n
        if n_read < expected:
            raise EOFError(f"{n_read} of {expected} records")


def _columns(where: str, records: Sequence[Columns], archive: _Archive) -> tuple[CallColumns, Any]:
    lengths = [len(one["op"]) for one in records]
    rank = np.repeat(np.arange(len(records)), lengths)
    columns = {name: np.concatenate([one[name] for one in records]) for name in RankRecords.NUMBERS}
    ops, op = np.unique(columns["op"], return_inverse=True)
    comms = sorted(archive.members)
    all_ranks = tuple(range(len(archive.locations)))
    # The communicator of all ranks has no name, as in a trace without a column of communicators.
    names = [None if archive.members[one] == all_ranks else f"comm {one}" for one in comms]
    words = tuple(name for name in names if name)
    code_of = {one: words.index(name) if name else -1 for one, name in zip(comms, names, strict=True)} | {-1: -1}
    communicator = np.array([code_of.get(one, -1) for one in columns["communicator"].tolist()], np.int64)
    first, second = (_world(columns[name], columns["communicator"], archive) for name in ("first", "second"))
    seconds = [(columns[name] - archive.offset) / archive.ticks_per_s for name in ("t_start", "t_end")]
    calls = CallColumns(
        where, rank, columns["event"], op.astype(np.int64), tuple(archive.regions[int(one)] for one in ops),
        first, second, columns["tag"], columns["size"], communicator, words, *seconds,
    )  # fmt: skip
    return calls, columns["completed_by"]


def _world(ranks: Any, communicator: Any, archive: _Archive) -> Any:
    """Ranks of communicators as ranks of the run."""
    found = ranks.copy()
    for comm, members in archive.members.items():
        mine = (communicator == comm) & (ranks >= 0) & (ranks < len(members))
        found[mine] = np.array(members)[ranks[mine]]
    return found


def _damaged(where: str, error: Exception) -> InputError:
    return InputError(where, f"a damaged archive ({printable(str(error), 120)})", "a complete one", "record it again")

