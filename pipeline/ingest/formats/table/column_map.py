"""Which column of a table holds what: declared by the settings, told by a public set, or guessed from names.

The names, words for units and states, and public sets are data: names.toml.
"""

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.errors import InputError, did_you_mean, printable
from pipeline.settings import IngestSettings, LogColumn

INSTANTS = ("submit_s", "eligible_s", "start_s", "end_s")
DURATIONS = ("runtime_s", "requested_s", "suspended_s", "wait_s", "cpu_s")
COUNTS = ("procs", "nodes", "gpus", "requested_procs", "requested_nodes")
EXIT_CODES = ("exit_code", "derived_exit_code")
MEMORY = ("requested_mem_kib", "used_mem_kib", "max_rss_kib")
CATEGORIES = (
    "user", "user_group", "account", "application", "queue", "partition", "qos", "problem_size", "gpu_type", "array_id",
    "state",
)  # fmt: skip
TEXTS = ("job_id", "job_name", "preceding_job_id", "comment", "submit_line", "work_dir")
TARGETS = (*INSTANTS, *DURATIONS, *COUNTS, *EXIT_CODES, *MEMORY, "energy_j", *CATEGORIES, *TEXTS)
"""What a column of a table may hold: columns of JOBS, texts that rules read, and `wait_s`, from submit to start (s)."""

TRES, WAIT, SLURM = "tres", "wait", "slurm"
"""How slurmdbd stores counts (lists of resources), exit codes (statuses of wait(2)) and states (numbers)."""

GUESSED, DECLARED = "guessed", "declared"


@cache
def known_names() -> Mapping[str, Any]:
    """What names.toml holds."""
    return tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


def units_of(target: str) -> Mapping[str, float]:
    """The units of values in the column for this target, each as a factor to JOBS's own; none for texts."""
    groups = {"time": (*INSTANTS, *DURATIONS), "memory": MEMORY, "count": COUNTS, "exit_code": EXIT_CODES}
    group = next((group for group, targets in groups.items() if target in targets), target)
    return dict(known_names()["factors"].get(group, {}))


TIME_UNITS = units_of(INSTANTS[0])


@cache
def public_sets() -> Mapping[str, tuple[frozenset[str], Mapping[str, LogColumn]]]:
    """By name the columns that tell a public set, which no other table has together, and what its columns hold."""
    return {
        one["name"]: (
            frozenset(one["told_by"].split()),
            {
                target: LogColumn.model_validate({"column": said} if isinstance(said, str) else said)
                for target, said in one["columns"].items()
            },
        )
        for one in known_names()["public_sets"]
    }


def public_set(names: Collection[str]) -> str | None:
    """The name of the set that these column names tell; None where they are of none."""
    return next((name for name, (told_by, _) in public_sets().items() if told_by <= set(names)), None)


@dataclass(frozen=True, slots=True)
class MappedColumns:
    """Per target the table's column, and how it is known: "declared", a public set's name, or "guessed"."""

    columns: Mapping[str, LogColumn]
    known_by: Mapping[str, str]

    @property
    def used(self) -> list[str]:
        """The columns of the table that are read."""
        named = [name for one in self.columns.values() for name in (one.column, one.times) if name is not None]
        return list(dict.fromkeys(named))

    @property
    def lacks(self) -> tuple[str, ...]:
        """What it takes to tell when jobs ran, or for how long, and is not there."""
        told = set(self.columns)
        when = () if told & {"submit_s", "start_s", "end_s"} else ("submit_s, start_s or end_s",)
        how_long = "runtime_s" in told or {"start_s", "end_s"} <= told
        return (*when, *(() if how_long else ("runtime_s or both start_s and end_s",)))

    @property
    def is_log(self) -> bool:
        """Whether they tell when jobs ran and for how long, and anything else that only a job has."""
        return not self.lacks and bool({"job_id", "submit_s", "requested_s", *COUNTS} & set(self.columns))


def mapped_columns(names: Sequence[str], settings: IngestSettings, where: str) -> MappedColumns:
    """The map for a table with these columns; InputError where a declared column is not there, or one that is needed.

    What the settings declare comes first, then the map of a public set, and without such a set guesses from names.
    """
    declared = {target: _declared(target, said, names, where) for target, said in settings.columns.items()}
    found = guessed(names, declared)
    if error := lacking(found, names, where):
        raise error
    return found


def lacking(found: MappedColumns, names: Sequence[str], where: str) -> InputError | None:
    """The error that names what is missing where a map does not tell when jobs ran, or for how long."""
    listed = ", ".join(printable(name, 40) for name in names[:12]) or "none"
    expected = f"columns for {', and for '.join(found.lacks)}"
    do = 'with --format table, name them in the config, as in [ingest.columns] submit_s = "time of submit"'
    return InputError(where, f"the columns {listed}", expected, do) if found.lacks else None


def guessed(names: Sequence[str], declared: Mapping[str, LogColumn] | None = None) -> MappedColumns:
    """The map that names tell, with what is declared."""
    columns, known_by = dict(declared or {}), dict.fromkeys(declared or {}, DECLARED)
    public = public_set(names)
    taken = {column.column for column in columns.values()}
    found = public_sets()[public][1].items() if public else _by_name(names)
    for target, column in found:
        if target not in columns and column.column in names and (public or column.column not in taken):
            columns[target], known_by[target] = column, public or GUESSED
            taken |= set() if public else {column.column}
    return MappedColumns(columns, known_by)


def _by_name(names: Sequence[str]) -> list[tuple[str, LogColumn]]:
    """Per target the column whose name is the surest."""
    plain = {name: _words(name) for name in names}
    found: list[tuple[str, LogColumn]] = []
    for target, known in known_names()["names"].items():
        ranks = {word: rank for rank, word in enumerate(known.split())}
        fits = [(ranks[word], name, unit) for name in names for word, unit in plain[name] if word in ranks]
        if fits:
            _, name, unit = min(fits, key=lambda fit: fit[0])
            found.append((target, LogColumn(column=name, unit=unit if unit in units_of(target) else None)))
    return found


def _words(name: str) -> list[tuple[str, str | None]]:
    """A column's name in small letters joined by underscores; also without the unit it ends with, and that unit."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    word = re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")
    stem, _, last = word.rpartition("_")
    unit = next((unit for unit, words in known_names()["units"].items() if last in words.split()), None)
    plain: list[tuple[str, str | None]] = [(word, None), (word.replace("_", ""), None)]
    return [*plain, (stem, unit)] if stem and unit else plain


def _declared(target: str, said: LogColumn | str | int, names: Sequence[str], where: str) -> LogColumn:
    """The column that the settings name; InputError where the target, the column or the unit is not known."""
    setting = f"ingest.columns.{printable(target)}"
    if target not in TARGETS:
        do = did_you_mean(target, TARGETS, otherwise="correct or remove it")
        raise InputError(setting, "an unknown name", f"one of {', '.join(TARGETS)}", do)
    if isinstance(said, int):
        if not 1 <= said <= len(names):
            raise InputError(setting, f"column {said}", f"a number from 1 to {len(names)}, the columns of {where}")
        return LogColumn(column=names[said - 1])
    column = LogColumn(column=said) if isinstance(said, str) else said
    for name in (column.column, column.times):
        if name is not None and name not in names:
            listed = ", ".join(printable(one, 40) for one in names[:12])
            do = did_you_mean(name, names, otherwise="correct the name")
            raise InputError(setting, f"{printable(repr(name))}, no column of {where}", f"one of {listed}", do)
    units = units_of(target)
    if column.unit is not None and column.unit not in units:
        expected = f"one of {', '.join(units)}" if units else "no unit"
        raise InputError(f"{setting}.unit", printable(repr(column.unit)), expected)
    return column
