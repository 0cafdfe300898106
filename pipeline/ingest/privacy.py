"""Keyed hashes in the place of what names a person.

A hash is 16 hex digits of BLAKE2b under the site's key, another for the same text in another column; the same text,
key and column give the same hash on every day, so that groups and estimates stay what they are. Who has the key can
test guesses; who has not cannot.
"""

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from pipeline.core.errors import ConfigError, InputError
from pipeline.core.settings import SiteSettings
from pipeline.core.text import printable

HASH_BYTES = 8
MIN_KEY_BYTES = 16
_MAX_KEY_BYTES = 1 << 20
_QUOTED = re.compile(r"'.*'", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Hasher:
    """Hashes under a key; without one, plain digests."""

    key: bytes = b""

    def of(self, column: str, text: str) -> str:
        """16 hex digits for a text of this column."""
        raw = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(raw, digest_size=HASH_BYTES, key=self.key, person=column.encode()[:16]).hexdigest()


def hasher_of(site: SiteSettings) -> Hasher:
    """The site's hasher; ConfigError where it anonymises and the key file will not do.

    The key is the whole file without white space around it, at least 16 bytes; its path is relative to the current
    folder. Only the owner may be able to read it (chmod 600).
    """
    if not site.anonymise:
        return Hasher()
    if site.key_file is None:
        raise ConfigError("site.key_file", "none beside anonymise = true", "the path of a file that holds a key")
    key = _key(Path(site.key_file).expanduser(), f"site.key_file {printable(site.key_file)}")
    return Hasher(hashlib.blake2b(key, digest_size=64).digest())


def _key(path: Path, where: str) -> bytes:
    do = "make one: (umask 077; head -c 32 /dev/urandom | base64 > FILE)"
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(_MAX_KEY_BYTES).strip()
    except OSError as error:
        raise ConfigError(where, f"a file that cannot be read ({error.strerror})", "a key file", do) from None
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise ConfigError(where, f"mode {mode & 0o777:o}", "a file only its owner can read", "chmod 600 it")
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(where, f"a key of {len(key)} bytes", f"at least {MIN_KEY_BYTES}", do)
    return key


def unquoted(sentence: str) -> str:
    """A sentence without what it quotes of a log."""
    return _QUOTED.sub("'(not shown: anonymise)'", sentence)


def discreet(error: InputError) -> InputError:
    """The same error without what it quotes of a log."""
    return type(error)(error.where, unquoted(error.found), unquoted(error.expected), unquoted(error.do))
