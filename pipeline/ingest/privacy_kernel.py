"""BLAKE2b of many texts in one compiled pass (RFC 7693): a dump has hundreds of thousands of folders.

Only what privacy.py asks of it: an 8-byte digest, maybe a key, a column's name as the personal string.
"""

from functools import partial

import numpy as np
import numpy.typing as npt

from pipeline.ingest.compiled import kernel

Word = np.uint64
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
BLOCK = 128
_IV = np.array(
    [0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
     0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179], np.uint64
)  # fmt: skip
_SIGMA = np.array(
    [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
     [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4], [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
     [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13], [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
     [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11], [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
     [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5], [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
     [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3]],
    np.uint64,
)  # fmt: skip


def first_state(digest_size: int, key_size: int, person: bytes) -> Words:
    """The state a hash begins with: the parameter block of RFC 7693, section 2.5, into the initial vector."""
    state = _IV.copy()
    state[0] ^= np.uint64(0x01010000 | key_size << 8 | digest_size)
    state[6:] ^= np.frombuffer(person.ljust(16, b"\0"), "<u8")
    return state


@kernel
def hex_digests(data: Bytes, ends: npt.NDArray[np.int32], first: Words, key: Bytes, out: Bytes) -> None:
    """16 hex digits for each text that ends where `ends` says, the first entry being where the first text starts.

    key: the key's block, or nothing.
    """
    state, block = np.empty(8, np.uint64), np.empty(BLOCK, np.uint8)
    words = block.view(np.uint64)
    for row in range(ends.size - 1):
        state[:] = first
        at, stop, n_bytes = ends[row], ends[row + 1], 0
        if key.size:
            block[:] = key
            n_bytes = BLOCK
            if at < stop:
                _compress(state, words, n_bytes, False)
        while at < stop:
            size = min(BLOCK, stop - at)
            for k in range(size):
                block[k] = data[at + k]
            block[size:] = 0
            at += size
            n_bytes += size
            if at < stop:
                _compress(state, words, n_bytes, False)
        if n_bytes == 0:
            block[:] = 0
        _compress(state, words, n_bytes, True)
        for k in range(16):
            digit = (state[0] >> np.uint64((k ^ 1) * 4)) & np.uint64(15)
            out[16 * row + k] = digit + (48 if digit < 10 else 87)


@kernel
def _compress(h: Words, m: Words, n_bytes: int, is_last: bool) -> None:
    """Section 3.2: twelve rounds over sixteen words, which stay in registers."""
    v0, v1, v2, v3, v4, v5, v6, v7 = h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
    v8, v9, v10, v11, v12, v13, v14, v15 = _IV[0], _IV[1], _IV[2], _IV[3], _IV[4], _IV[5], _IV[6], _IV[7]
    v12 ^= np.uint64(n_bytes)
    if is_last:
        v14 = ~v14
    for r in range(12):
        s = _SIGMA[r]
        v0, v4, v8, v12 = _mix(v0, v4, v8, v12, m[s[0]], m[s[1]])
        v1, v5, v9, v13 = _mix(v1, v5, v9, v13, m[s[2]], m[s[3]])
        v2, v6, v10, v14 = _mix(v2, v6, v10, v14, m[s[4]], m[s[5]])
        v3, v7, v11, v15 = _mix(v3, v7, v11, v15, m[s[6]], m[s[7]])
        v0, v5, v10, v15 = _mix(v0, v5, v10, v15, m[s[8]], m[s[9]])
        v1, v6, v11, v12 = _mix(v1, v6, v11, v12, m[s[10]], m[s[11]])
        v2, v7, v8, v13 = _mix(v2, v7, v8, v13, m[s[12]], m[s[13]])
        v3, v4, v9, v14 = _mix(v3, v4, v9, v14, m[s[14]], m[s[15]])
    h[0] ^= v0 ^ v8
    h[1] ^= v1 ^ v9
    h[2] ^= v2 ^ v10
    h[3] ^= v3 ^ v11
    h[4] ^= v4 ^ v12
    h[5] ^= v5 ^ v13
    h[6] ^= v6 ^ v14
    h[7] ^= v7 ^ v15


@partial(kernel, inline="always")
def _mix(a: Word, b: Word, c: Word, d: Word, x: Word, y: Word) -> tuple[Word, Word, Word, Word]:
    """Section 3.1: the mixing function G."""
    a = a + b + x
    d = d ^ a
    d = (d >> np.uint64(32)) | (d << np.uint64(32))
    c = c + d
    b = b ^ c
    b = (b >> np.uint64(24)) | (b << np.uint64(40))
    a = a + b + y
    d = d ^ a
    d = (d >> np.uint64(16)) | (d << np.uint64(48))
    c = c + d
    b = b ^ c
    b = (b >> np.uint64(63)) | (b << np.uint64(1))
    return a, b, c, d
