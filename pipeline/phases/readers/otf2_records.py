"""Gathers the MPI calls of one location from the records of OTF2."""

from array import array
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pipeline.phases.readers.call_columns import NO_TAG, UNKNOWN
from pipeline.phases.readers.functions import POLLING

_NO_RANK = 2**32 - 1
Callback = Callable[..., None]
Columns = dict[str, npt.NDArray[np.int64]]


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
        for name in self.NUMBERS:
            setattr(self, name, array("q"))

    op: Any
    event: Any
    first: Any
    second: Any
    tag: Any
    size: Any
    communicator: Any
    completed_by: Any
    t_start: Any
    t_end: Any

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
