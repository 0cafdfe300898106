"""Replaces what names a person by keyed hashes.

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

import pyarrow as pa

from pipeline.arrays import texts
from pipeline.errors import ConfigError, InputError, printable
from pipeline.settings import RunSettings, SiteRule, SiteSettings, Whose
from pipeline.storage import read_metadata

HASH_BYTES = 8
ANONYMISED = "anonymised_under"
"""The metadata of a table whose names are hashes: a hash under their key, which tells one key from another."""
MIN_KEY_BYTES = 16
_MAX_KEY_BYTES = 1 << 20
NAMING = ("user", "account", "application")
"""Columns by which a site's rules name persons, accounts and what they run."""
_HASH = re.compile(rf"[0-9a-f]{{{2 * HASH_BYTES}}}")
_QUOTED = re.compile(r"'.*'", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Hasher:
    """Hashes under a key; without one, plain digests."""

    key: bytes = b""

    def of(self, column: str, text: str) -> str:
        """16 hex digits for a text of this column."""
        raw, whose = text.encode("utf-8", "surrogatepass"), column.encode()[:16]
        return hashlib.blake2b(raw, digest_size=HASH_BYTES, key=self.key, person=whose).hexdigest()

    @property
    def mark(self) -> dict[str, str]:
        """What a table says of its names, so that none is updated under another key; nothing where names are plain."""
        return {ANONYMISED: self.of("key", "")} if self.key else {}

    def column(self, column: str, array: pa.Array) -> pa.DictionaryArray:
        """The hashes of a column of texts, as categories; each distinct text is hashed once; null stays null."""
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        hashes = texts([self.of(column, word) for word in encoded.dictionary.to_pylist()])
        return pa.DictionaryArray.from_arrays(encoded.indices, hashes)


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


def with_hashed_names(settings: RunSettings) -> RunSettings:
    """The settings with the hashes of the persons, accounts and applications that they name, where the site anonymises.

    So rules match the hashed jobs, and nothing that a run keeps has a name, not even the reason of a rule. What is a
    hash already stays, as does an application that a rule of the site names, which is in the tables as it is.
    """
    hasher, export = hasher_of(settings.site), settings.export
    if not settings.site.anonymise:
        return settings
    given = {rule.gives for rule in settings.ingest.application_rules}

    def hashed(column: str, name: str) -> str:
        is_kept = name in ("", "*") or _HASH.fullmatch(name) or (column == "application" and name in given)
        return name if is_kept else hasher.of(column, name)

    def of_rule(rule: SiteRule) -> SiteRule:
        names = {column: name for column in NAMING if (name := getattr(rule, column))}
        hashes = {column: hashed(column, name) for column, name in names.items()}
        reason = rule.reason
        for column, name in names.items():
            reason = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", hashes[column], reason)
        return rule.model_copy(update=hashes | {"reason": reason})

    rules = {name: tuple(map(of_rule, getattr(settings.clean, name))) for name in ("keep", "drop")}
    opted = {"users": "user", "accounts": "account"}

    def of(whose: Whose) -> Whose:
        names = {name: tuple(hashed(column, one) for one in getattr(whose, name)) for name, column in opted.items()}
        return whose.model_copy(update=names)

    # A name may be a user's, an account's or a partition's. Hashed tables are refused by the exports, so none stays.
    hidden = [hashed(column, name) for name in export.opt_in for column in opted.values()]
    update = {"opt_out": of(export.opt_out), "opt_in": tuple(dict.fromkeys(hidden))}
    return settings.model_copy(
        update={"clean": settings.clean.model_copy(update=rules), "export": export.model_copy(update=update)}
    )


def check_same_names(earlier: Path, hasher: Hasher) -> None:
    """InputError where a table to bring up to date writes persons' names otherwise than they would be added."""
    said, would = read_metadata(earlier, "a jobs table").get(ANONYMISED), hasher.mark.get(ANONYMISED)
    if said != would:
        plain = "names as the logs have them"
        found = ("names hashed under another key" if would else "names hashed under a key") if said else plain
        expected = "names hashed under the key given" if would else f"{plain}, as no key is given"
        do = "give the key it was made with (--key-file)" if said else "write to another --out, and delete this one"
        raise InputError(printable(str(earlier)), found, expected, do)


def unquoted(sentence: str) -> str:
    """A sentence without what it quotes of a log."""
    return _QUOTED.sub("'(not shown: anonymise)'", sentence)


def discreet(error: InputError) -> InputError:
    """The same error without what it quotes of a log."""
    return type(error)(error.where, unquoted(error.found), unquoted(error.expected), unquoted(error.do))
