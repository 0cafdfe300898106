"""Reads an OTF2 archive (`traces.otf2` and its folder), as Score-P writes it, through the official package `otf2`.

Each location is read by itself, large archives with one process a location: the package calls Python for every record.
"""

import ctypes
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Ints, arrow, texts
from pipeline.errors import InputError, printable
from pipeline.phases.calls import NO_TAG, POLLING, UNKNOWN, calls_table, known
from pipeline.report import Report

_NO_RANK = 2**32 - 1
Callback = Callable[..., None]
NAMES = ("op", "event", "first", "second", "tag", "size", "communicator", "completed_by", "t_start", "t_end")
OP, EVENT, FIRST, SECOND, TAG, SIZE, COMMUNICATOR, COMPLETED_BY, T_START, T_END = range(len(NAMES))
LAST = -len(NAMES)


class RankRecords:
    """The calls of a rank, ten numbers each (NAMES), in the units of the archive; grows while records are read.

    A record comes as location, time, two values that are not used, and the values of its kind.
    """

    def __init__(self, regions: dict[int, str]) -> None:
        self._regions = frozenset(regions)
        self._polling = frozenset(region for region, name in regions.items() if name in POLLING)
        self._is_useful, self._depth = False, 0
        self._requests: dict[int, int] = {}
        self.open_region: int | None = None
        self._values = array("q")

    def __len__(self) -> int:
        return len(self._values) // len(NAMES)

    def columns(self) -> dict[str, Ints]:
        """The columns as numpy arrays, which pass between processes."""
        return dict(zip(NAMES, np.array(self._values, np.int64).reshape(-1, len(NAMES)).T, strict=True))

    def callbacks(self) -> dict[str, Callback]:
        """Per kind of record what takes it."""
        return {
            "Enter": self._enter, "Leave": self._leave, "MpiSend": self._send, "MpiIsend": self._send,
            "MpiRecv": self._receive, "MpiIrecvRequest": self._post, "MpiIrecv": self._complete,
            "MpiCollectiveEnd": self._collective, "MpiIsendComplete": self._sent,
        }  # fmt: skip

    def _enter(self, *record: Any) -> None:
        time, region = record[1], record[4]
        if region not in self._regions:
            return
        self._depth += 1
        if self._depth > 1:  # a call within a call belongs to the outer one
            return
        self.open_region, self._is_useful = region, region not in self._polling
        call = (region, len(self), UNKNOWN, UNKNOWN, NO_TAG, UNKNOWN, UNKNOWN, UNKNOWN, time, time)
        self._values.extend(call)

    def _leave(self, *record: Any) -> None:
        if record[4] not in self._regions or not self._depth:
            return
        self._depth -= 1
        if not self._depth:
            self._values[LAST + T_END] = record[1]
            self.open_region = None
            if not self._is_useful:
                del self._values[LAST:]

    def _send(self, *record: Any) -> None:
        if self._values:
            # With a receive in the same call, the destination is the second rank.
            place = SECOND if self._values[LAST + FIRST] != UNKNOWN else FIRST
            self._values[LAST + place] = record[4]
            self._message(LAST, *record[5:8])

    def _receive(self, *record: Any) -> None:
        if self._values:
            if self._values[LAST + FIRST] != UNKNOWN:
                self._values[LAST + SECOND] = self._values[LAST + FIRST]
            self._values[LAST + FIRST] = record[4]
            self._message(LAST, *record[5:8])

    def _post(self, *record: Any) -> None:
        if self._values:
            self._requests[record[4]] = len(self._values) + LAST

    def _complete(self, *record: Any) -> None:
        begin = self._requests.pop(record[8], None)
        if begin is not None:
            self._values[begin + FIRST] = record[4]
            self._values[begin + COMPLETED_BY] = len(self) - 1
            self._message(begin, *record[5:8])
            self._is_useful = True

    def _sent(self, *_record: Any) -> None:
        self._is_useful = True

    def _collective(self, *record: Any) -> None:
        comm, root, sent, received = record[5:9]
        if self._values:
            self._values[LAST + FIRST] = UNKNOWN if root == _NO_RANK else root
            self._values[LAST + SIZE] = sent or received
            self._values[LAST + COMMUNICATOR] = comm

    def _message(self, begin: int, comm: int, tag: int, size: int) -> None:
        self._values[begin + COMMUNICATOR], self._values[begin + TAG], self._values[begin + SIZE] = comm, tag, size


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
        archive = _definitions(path)
    except ImportError:
        raise InputError(
            where, "an OTF2 archive", "the package otf2 to read it", "pip install walltime[otf2]"
        ) from None
    except Exception as error:  # the package raises its own errors and plain ones
        raise _damaged(where, error) from None
    if not archive.locations:
        raise InputError(where, "no MPI process", "an archive with the definitions of MPI communicators")
    return calls_table(where, _calls(_all_ranks(path, archive), archive))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The package's reader of an archive. Its C library prints a trail of messages beside the one sentence of an
    InputError, and the package the errors of its own callbacks: neither is shown.
    """
    import otf2  # noqa: PLC0415  (an extra)
    from _otf2.Config import conf  # noqa: PLC0415

    register = conf.lib.OTF2_Error_RegisterCallback
    register.argtypes, register.restype = [_ErrorCallback, ctypes.c_void_p], ctypes.c_void_p
    register(_KEEP_CODE, None)
    with redirect_stderr(StringIO()), otf2.reader.open(str(path)) as trace:
        yield trace


def _definitions(path: Path) -> _Archive:
    with _opened(path) as trace:
        import otf2  # noqa: PLC0415

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


def _all_ranks(path: Path, archive: _Archive) -> list[dict[str, Ints]]:
    jobs = [(path, archive, rank) for rank in range(len(archive.locations))]
    n_processes = min(os.cpu_count() or 1, len(jobs))
    if archive.n_events <= FEW_EVENTS or n_processes == 1:
        return [_one_rank(job) for job in jobs]
    # A forked process would inherit locks of threads that it does not have.
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(_one_rank, jobs))


def _one_rank(job: tuple[Path, _Archive, int]) -> dict[str, Ints]:
    path, archive, rank = job
    where = printable(path.name, 200)
    found = RankRecords(archive.regions)
    events = path.with_suffix("") / f"{archive.locations[rank]}.evt"
    if events.is_file() and not events.stat().st_size:
        # The package's own code, which is not Python, can end the process on such a file.
        raise _damaged(f"{where}, rank {rank}, event 0", EOFError("an empty file of events"))
    try:
        _read_location(path, archive.locations[rank], found)
    except Exception as error:  # the package raises its own errors and plain ones
        raise _damaged(f"{where}, rank {rank}, event {len(found)}", error) from None
    if found.open_region is not None:
        op = archive.regions[found.open_region]
        raise InputError(f"{where}, rank {rank}, event {len(found) - 1}", f"{op} without an end", "a complete trace")
    return found.columns()


def _read_location(path: Path, location: int, found: RankRecords) -> None:
    """Pass every record of a location to `found`; clock offsets are applied by the package."""
    import _otf2  # noqa: PLC0415  (the package's own layer: its iterator makes an object per record)

    with _opened(path) as trace:
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


def _calls(records: Sequence[Mapping[str, Ints]], archive: _Archive) -> pa.Table:
    """The calls of all ranks as `calls_table` takes them, in s, with ranks of the run in place of a communicator's."""
    values = {name: np.concatenate([one[name] for one in records]) for name in NAMES}
    ops, op = np.unique(values["op"], return_inverse=True)
    words, communicator = [archive.regions[int(one)] for one in ops], np.full(len(op), -1)
    names: list[str] = []
    for comm, members in sorted(archive.members.items()):
        is_own = values["communicator"] == comm
        # The communicator of all ranks has no name, as in a trace without a column of communicators.
        if members != tuple(range(len(archive.locations))):
            communicator[is_own] = len(names)
            names.append(f"comm {comm}")
        for ranks in (values["first"], values["second"]):
            mine = is_own & (ranks >= 0) & (ranks < len(members))
            ranks[mine] = np.array(members)[ranks[mine]]
    times_s = {f"{name}_s": (values[name] - archive.offset) / archive.ticks_per_s for name in ("t_start", "t_end")}
    return pa.table({
        "rank": np.repeat(np.arange(len(records)), [len(one["op"]) for one in records]), "event": values["event"],
        "op": _words(op, words), "communicator": _words(communicator, names), "bytes": known(values["size"]),
        "tag": known(values["tag"], NO_TAG),
        **{name: known(values[name]) for name in ("first", "second", "completed_by")}, **times_s,
    })  # fmt: skip


def _words(codes: Ints, words: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(arrow(codes.astype(np.int32), codes < 0), texts(words))


def _damaged(where: str, error: Exception) -> InputError:
    return InputError(where, f"a damaged archive ({printable(str(error), 120)})", "a complete one", "record it again")
