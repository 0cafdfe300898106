"""Every number of a block's records, read while the record's text is still in the processor's cache.

A pass over a block for each key would fetch every record from memory again, some thirty times: records are taken some
hundred at a time instead, their values found, and all their numbers read before the next.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.ingest import spans
from pipeline.ingest.formats.pbs import find_values as keys
from pipeline.ingest.formats.pbs.find_values import KEYS, PLACE, Words, find_values
from pipeline.ingest.formats.pbs.resources import Hashes, new_table, parse_chunks, parse_hosts, parse_sizes
from pipeline.ingest.spans.kernels import INVALID, NULL, Bytes, Codes, parse_durations, parse_integers
from pipeline.kernels import cached

ROWS_AT_ONCE = 128
"""Records of a few hundred bytes, their spans and their numbers together fit the second-level cache."""

_COUNTS = 3
_FLOATS = (*keys.DURATIONS, *keys.SIZES)
_PLACED = (*keys.HOSTS, *keys.CHUNKS, *keys.VNODES)


def _places(names: tuple[str, ...]) -> Ints:
    return np.array([PLACE[name] for name in names], np.int64)


_INTEGER_KEYS, _DURATION_KEYS, _SIZE_KEYS, _HOST_KEYS, _CHUNK_KEYS, _VNODE_KEYS = map(
    _places,
    (keys.INTEGERS, keys.DURATIONS, keys.SIZES, keys.HOSTS, keys.CHUNKS, keys.VNODES),
)


@dataclass(frozen=True, slots=True)
class Numbers:
    """spans: int64 (keys, 2, records), start and end of each value, equal where there is none.

    kinds: uint8 (keys, records), NULL, OK or INVALID of the keys that hold numbers; asked for by key below.
    """

    data: Bytes
    spans: Ints
    kinds: Bytes
    _integers: Ints
    _floats: Floats
    _counts: Ints

    def span(self, key: str) -> tuple[Ints, Ints]:
        """Start and end of a key's values."""
        low, high = self.spans[PLACE[key]]
        return low, high

    def integers(self, key: str) -> tuple[Ints, Bytes]:
        """Whole numbers; words for unknown are NULL."""
        return self._integers[keys.INTEGERS.index(key)], self._without_words(key)

    def durations_s(self, key: str) -> tuple[Floats, Bytes]:
        """Seconds; words for unknown and unlimited are NULL."""
        return self._floats[_FLOATS.index(key)], self._without_words(key)

    def sizes_kib(self, key: str) -> tuple[Floats, Bytes]:
        """KiB of sizes as 4gb, 512mb, 1024 (bytes), 2kw (words of 8 bytes)."""
        return self._floats[_FLOATS.index(key)], self.kinds[PLACE[key]]

    def hosts(self, key: str) -> tuple[Ints, Ints, Bytes]:
        """Processors and distinct hosts of exec_host values."""
        procs, nodes, _ = self._counts[_PLACED.index(key)]
        return procs, nodes, self.kinds[PLACE[key]]

    def chunks(self, key: str) -> tuple[Ints, Ints, Ints, Bytes]:
        """Processors, GPUs and chunks of select, nodes or exec_vnode values."""
        procs, gpus, n_chunks = self._counts[_PLACED.index(key)]
        return procs, gpus, n_chunks, self.kinds[PLACE[key]]

    def _without_words(self, key: str) -> Bytes:
        """The kinds, with NULL where an invalid value is a word that stands for none."""
        kinds: Bytes = self.kinds[PLACE[key]]
        strange = np.flatnonzero(kinds == INVALID)
        if len(strange):
            read = spans.duration_s if key in keys.DURATIONS else spans.integers
            low, high = self.span(key)
            kinds[strange[~read(self.data, low[strange], high[strange]).invalid]] = NULL
        return kinds


def numbers(data: Bytes, message: Ints, end: Ints, kind: Ints, n_kinds: int) -> Numbers:
    """The values of records whose `key=value` part lies from message to end; kinds below n_kinds have one."""
    n = len(message)
    # Pages of keys that no record has are never written, so they cost nothing.
    found = np.zeros((len(KEYS), 2, n), np.int64)
    kinds = np.zeros((len(KEYS), n), np.uint8)
    integers, floats = np.zeros((len(keys.INTEGERS), n), np.int64), np.full((len(_FLOATS), n), np.nan)
    counts = np.zeros((len(_PLACED), _COUNTS, n), np.int64)
    follower = np.full((n_kinds, len(KEYS) + 1), -1, np.int64)
    known = (
        keys.KEY_BYTES, keys.KEY_WORDS, keys.KEY_BOUNDS, keys.KEY_TABLE, keys.IS_FREE,
        keys.FIRST_WINS,
    )  # fmt: skip
    for_keys = (_INTEGER_KEYS, _DURATION_KEYS, _SIZE_KEYS, _HOST_KEYS, _CHUNK_KEYS, _VNODE_KEYS)
    _read(data, message, end, kind, known, for_keys, follower, found, kinds, integers, floats, counts)
    return Numbers(data, found, kinds, integers, floats, counts)


Known = tuple[Bytes, Words, Ints, Codes, Bools, Bools]
Keys = tuple[Ints, Ints, Ints, Ints, Ints, Ints]


@cached
def _read(
    data: Bytes,
    message: Ints,
    end: Ints,
    kind: Ints,
    known: Known,
    for_keys: Keys,
    follower: Ints,
    found: Ints,
    kinds: Bytes,
    integers: Ints,
    floats: Floats,
    counts: Ints,
) -> None:
    seen, words = new_table(0), data[: data.size & ~7].view(np.uint64)
    for low in range(0, message.size, ROWS_AT_ONCE):
        high = min(low + ROWS_AT_ONCE, message.size)
        few = found[:, :, low:high]
        find_values(data, words, message[low:high], end[low:high], kind[low:high], *known, follower, few)
        _plain(data, for_keys, few, kinds[:, low:high], integers[:, low:high], floats[:, low:high])
        seen = _placed(data, for_keys, few, low, seen, kinds[:, low:high], counts[:, :, low:high])


@cached
def _plain(data: Bytes, for_keys: Keys, few: Ints, kinds: Bytes, integers: Ints, floats: Floats) -> None:
    """Numbers, durations and sizes."""
    whole, durations, sizes, _, _, _ = for_keys
    for k in range(whole.size):
        key = whole[k]
        parse_integers(data, few[key, 0], few[key, 1], integers[k], kinds[key])
    for k in range(durations.size):
        key = durations[k]
        parse_durations(data, few[key, 0], few[key, 1], floats[k], kinds[key])
    for k in range(sizes.size):
        key = sizes[k]
        parse_sizes(data, few[key, 0], few[key, 1], floats[durations.size + k], kinds[key])


@cached
def _placed(
    data: Bytes, for_keys: Keys, few: Ints, first: int, seen: tuple[Hashes, Ints], kinds: Bytes, counts: Ints
) -> tuple[Hashes, Ints]:
    """Hosts, chunks and virtual nodes; the table of hosts, which grows with the longest value."""
    _, _, _, hosts, chunks, vnodes = for_keys
    n, place = few.shape[2], 0
    for k in range(hosts.size):
        key = hosts[k]
        longest = (few[key, 1] - few[key, 0]).max()
        if longest > seen[0].size:
            seen = new_table(longest)
        # A stamp no other value has: rows of this key follow those of the key before.
        parse_hosts(data, few[key, 0], few[key, 1], (2 * first) + k * n, seen[0], seen[1],
                    counts[place, 0], counts[place, 1], kinds[key])  # fmt: skip
        place += 1
    for k in range(chunks.size + vnodes.size):
        is_vnode = k >= chunks.size
        key = vnodes[k - chunks.size] if is_vnode else chunks[k]
        parse_chunks(data, few[key, 0], few[key, 1], is_vnode, counts[place, 0], counts[place, 1],
                     counts[place, 2], kinds[key])  # fmt: skip
        place += 1
    return seen
