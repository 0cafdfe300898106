"""The elements of a JSON document's "jobs" array, one at a time, from bytes cut anywhere; a broken one harms no other.

Elements are told apart by how they begin: `}, {"account":`, with the first key of the document's first element. That
cannot stand inside a valid JSON string, where quotes are escaped, and no list inside a job of `sacct --json` holds
objects with the job's first key. So a document never has to be in memory as a whole, and what follows an element that
is no JSON is still read.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from pipeline.ingest.reader import RepeatedKeyError, unique_keys

MAX_ELEMENT_BYTES = 1 << 26
"""A longer element is no accounting record; only its start is kept."""

NOT_JSON, CUT_OFF, TOO_LONG, REPEATED = "not_json", "cut_off", "too_long", "repeated_key"
"""Why an element has no value."""

ARRAY = re.compile(rb'"jobs"\s*:\s*\[')
_FIRST_KEY = re.compile(rb'"jobs"\s*:\s*\[\s*\{\s*("(?:[^"\\]|\\.)*"\s*):')
_BETWEEN = re.compile(r"[\s,]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')
_OVERLAP_BYTES = 1 << 16
_RAW_BYTES = 2000
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=unique_keys)


@dataclass(frozen=True, slots=True)
class Element:
    """One element: its value, or the reason it has none; its first line (from 1) and byte (from 0); its first bytes."""

    value: object
    reason: str | None
    line: int
    offset: int
    raw: bytes


@dataclass(slots=True)
class Progress:
    """What has been met so far: bytes, an array of jobs, and whether a document ends before its array does."""

    n_bytes: int = 0
    has_array: bool = False
    is_cut: bool = False


def elements(blocks: Iterator[bytes], progress: Progress) -> Iterator[Element]:
    """Every element of the "jobs" arrays of the document (or documents, one after the other) that the blocks make."""
    window = _Window(progress)
    for block in blocks:
        yield from window.take(block)
    yield from window.end()


class _Window:
    """The bytes not yet handed out, which start with an element where `is_inside`; where they stand in the document."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._data, self._line, self._offset = b"", 1, 0
        self._begins: re.Pattern[bytes] | None = None
        self._is_inside = False

    def take(self, block: bytes) -> Iterator[Element]:
        self._progress.n_bytes += len(block)
        self._data += block
        starts = self._starts()
        if starts:
            yield from self._between(starts)
        elif self._is_inside and len(self._data) > MAX_ELEMENT_BYTES:
            yield Element(None, TOO_LONG, self._line, self._offset, self._data[:_RAW_BYTES])
            self._is_inside = False
        if not self._is_inside:
            n_bytes = max(0, len(self._data) - _OVERLAP_BYTES)
            self._line += self._data.count(b"\n", 0, n_bytes)
            self._offset += n_bytes
            self._data = self._data[n_bytes:]

    def end(self) -> Iterator[Element]:
        if self._is_inside:
            yield from _parsed(self._data, self._line, self._offset, self._progress, is_last=True)
        elif self._progress.has_array and b"]" not in self._data:
            self._progress.is_cut = True

    def _between(self, starts: list[int]) -> Iterator[Element]:
        """The elements from each start to the next; what follows the last is kept."""
        gone = 0
        for start, stop in pairwise([0, *starts] if self._is_inside else starts):
            self._line += self._data.count(b"\n", gone, start)
            yield from _parsed(self._data[start:stop], self._line, self._offset + start, self._progress, is_last=False)
            gone = start
        self._line += self._data.count(b"\n", gone, starts[-1])
        self._offset += starts[-1]
        self._data, self._is_inside = self._data[starts[-1] :], True

    def _starts(self) -> list[int]:
        """Where elements start behind the one the window starts with."""
        self._progress.has_array = self._progress.has_array or ARRAY.search(self._data) is not None
        if self._begins is None and (first := _FIRST_KEY.search(self._data)):
            key = re.escape(first[1])
            self._begins = re.compile(rb'(?:\}\s*,\s*|"jobs"\s*:\s*\[\s*)(?=\{\s*' + key + b")")
        return [match.end() for match in self._begins.finditer(self._data)] if self._begins else []


def _parsed(data: bytes, line: int, offset: int, progress: Progress, *, is_last: bool) -> Iterator[Element]:
    """The element that the bytes start with, and any that stand behind it without the comma they need."""
    text = data.decode("utf-8", "surrogateescape")
    place, counted, n_bytes = 0, 0, 0
    while place < len(text):
        passed = text[counted:place]
        line, n_bytes, counted = line + passed.count("\n"), n_bytes + len(encoded(passed)), place
        raw = data[n_bytes : n_bytes + _RAW_BYTES]
        try:
            value, stop = _DECODER.raw_decode(text, place)
        except RepeatedKeyError:
            yield Element(None, REPEATED, line, offset + n_bytes, raw)
            return
        except (ValueError, RecursionError):
            is_cut = is_last and _depth(text[place:]) >= 0
            progress.is_cut = progress.is_cut or is_cut
            yield Element(None, CUT_OFF if is_cut else NOT_JSON, line, offset + n_bytes, raw)
            return
        yield Element(value, None, line, offset + n_bytes, raw)
        between = _BETWEEN.match(text, stop)
        place = between.end() if between else stop
        if text.startswith("]", place):
            return
    progress.is_cut = progress.is_cut or is_last


def encoded(text: str) -> bytes:
    """UTF-8; bytes of the document that were none come back as they were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def _depth(text: str) -> int:
    """How many brackets more a text opens than it closes, those in strings left out."""
    bare = _STRING.sub("", text)
    return sum(map(bare.count, "{[")) - sum(map(bare.count, "}]"))
