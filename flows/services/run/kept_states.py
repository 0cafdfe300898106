"""The States of a site at earlier times, kept in the work folder so that the next night learns only what is new.

They are no tables of a version: a damaged or missing one costs time and changes no byte of what is published. Their
folder holds `index.json`, which names each file with its digest and is replaced in one step, after they are written.
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.estimate.checkpoints import Checkpoint
from pipeline.estimate.estimate_rules import ESTIMATE_RULES, rules_text
from pipeline.run import Run
from pipeline.storage import file_sha256, read_table, write_table, write_text
from pipeline.tables import STATE
from pipeline.version import code_version

FOLDER = "states"
_INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file of the folder."""

    file: str
    as_of_s: float
    digest: str
    sha256: str


@dataclass(frozen=True, slots=True)
class KeptStates:
    """The checkpoints of one site, settings and code; those of others in the same folder are passed over."""

    folder: Path
    key: str

    def earlier(self) -> list[Checkpoint]:
        """The checkpoints of earlier nights; a damaged one is found when it is read."""
        return [
            Checkpoint(one.as_of_s, one.digest, partial(_table_or_none, self.folder / one.file, one.sha256))
            for one in self._entries()
        ]

    def keep(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Keep these checkpoints, and remove all other files of the folder."""
        known = {(one.as_of_s, one.digest): one for one in self._entries()}
        entries = [known.get((one.as_of_s, one.digest)) or self._written(one) for one in checkpoints]
        plain = {"key": self.key, "states": [asdict(one) for one in entries]}
        write_text(self.folder / _INDEX, json.dumps(plain, indent=1) + "\n")
        names = {_INDEX, *(one.file for one in entries)}
        for path in self.folder.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)

    def _written(self, checkpoint: Checkpoint) -> _Entry:
        table = checkpoint.read()
        assert table is not None  # nosec B101 # for the type checker
        name = f"state-{checkpoint.as_of_s:.0f}-{checkpoint.digest[:16]}.parquet"
        path = write_table(self.folder / name, table, STATE, {"code": code_version()})
        return _Entry(name, checkpoint.as_of_s, checkpoint.digest, file_sha256(path))

    def _entries(self) -> list[_Entry]:
        with suppress(OSError, ValueError, KeyError, TypeError):
            plain = json.loads((self.folder / _INDEX).read_text(encoding="utf-8"))
            entries = [_Entry(str(e["file"]), float(e["as_of_s"]), str(e["digest"]), str(e["sha256"]))
                       for e in plain["states"]]  # fmt: skip
            if plain["key"] == self.key and all(Path(one.file).name == one.file for one in entries):
                return entries
        return []


def kept_states(work: Path, run: Run) -> KeptStates:
    """The checkpoints that fit a run's site, settings and code, in its work folder."""
    settings = run.settings
    parts = [settings.site.name, settings.site.timezone, run.names, rules_text(ESTIMATE_RULES)]
    key = hashlib.sha256(json.dumps([*parts, code_version()], sort_keys=True).encode()).hexdigest()[:24]
    return KeptStates(work / FOLDER, key)


def _table_or_none(path: Path, sha256: str) -> pa.Table | None:
    try:
        return read_table(path, STATE) if file_sha256(path) == sha256 else None
    except (OSError, InputError):
        return None
