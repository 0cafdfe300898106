"""What every reader's tables still lack, made from a job's text before a row can reach the disk.

application: what a site's rule says, else the job's name by applications.py; problem_size: what a site's rule says;
submit_tokens: the submit line's words, where asked for; work_dir_hash. Then, where the site anonymises, user, group,
account, job name and folder are keyed hashes. An application's name comes from what the user typed, so it is hashed
too, unless a rule of the site gave it; submit_tokens are left out.
"""

import shlex
from dataclasses import dataclass, field

import pyarrow as pa

from pipeline.core.applications import application_of
from pipeline.core.columns import COLUMNS
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.ingest.privacy import Hasher, hasher_of
from pipeline.ingest.reader import RAW
from pipeline.ingest.text_rules import PerText, Rules, first_known, in_one_piece, rules_of

PERSONAL = ("user", "user_group", "account", "job_name", "application")
_TEXTS = {"job_name", "comment", "submit_line"}
_LONGEST_LINE = 4_096
_LONGEST_TOKENS = 1_024


@dataclass(slots=True)
class Finisher:
    """Finishes tables; what it learns of one distinct text serves all later tables."""

    site: SiteSettings
    settings: IngestSettings
    hasher: Hasher = field(init=False)
    _applications: Rules = field(init=False)
    _sizes: Rules = field(init=False)
    _names: PerText = field(init=False)
    _tokens: PerText = field(init=False)

    def __post_init__(self) -> None:
        self.hasher = hasher_of(self.site)
        self._applications = rules_of(self.settings.application_rules, "ingest.application_rules")
        self._sizes = rules_of(self.settings.problem_size_rules, "ingest.problem_size_rules")
        self._names = PerText(application_of)
        self._tokens = PerText(tokens_of)

    def table(self, table: pa.Table) -> pa.Table:
        """The finished table; one without a job's text (steps) stays as it is."""
        by_rule = self._applications.column(table)
        sizes = self._sizes.column(table)
        given, names = _known(table, "application"), _known(table, "job_name")
        named = self._names.column(names) if names is not None else None
        done = table
        if self.site.anonymise:
            named = self._hashed("application", named)
            given = self._hashed("application", given)
            done = self._without_persons(done)
        found = [column for column in (by_rule, given, named) if column is not None]
        if found:
            done = _put(done, "application", first_known(found))
        if sizes is not None:
            done = _put(done, "problem_size", sizes)
        return self._without_raw(done)

    def unreadable(self, table: pa.Table) -> pa.Table:
        """UNREADABLE, its raw text replaced by length and hash where the site anonymises."""
        if not self.site.anonymise or not table.num_rows:
            return table
        shown = [
            None if raw is None else f"({len(raw)} characters, {self.hasher.of('raw', raw)})"
            for raw in table.column("raw").to_pylist()
        ]
        place = table.column_names.index("raw")
        return table.set_column(place, table.schema.field("raw"), pa.array(shown, pa.string()))

    def _hashed(self, name: str, values: pa.Array | None) -> pa.Array | None:
        return None if values is None else self.hasher.column(name, values)

    def _without_persons(self, table: pa.Table) -> pa.Table:
        for name in PERSONAL:
            hashed = self._hashed(name, _known(table, name))
            if hashed is not None:
                table = _put(table, name, hashed)
        return table

    def _without_raw(self, table: pa.Table) -> pa.Table:
        folder, line = _known(table, "work_dir"), _known(table, "submit_line")
        if folder is not None:
            table = _put(table, "work_dir_hash", self.hasher.column("work_dir", folder))
        if line is not None and self.settings.keep_submit_line and not self.site.anonymise:
            table = _put(table, "submit_tokens", self._tokens.column(line))
        return table.drop_columns([raw.name for raw in RAW if raw.name in table.column_names])


def tokens_of(line: str) -> str | None:
    """A submit line's words as a shell would split them, quotes gone, joined by blanks; both ends have a bound."""
    cut = line[:_LONGEST_LINE]
    try:
        words = shlex.split(cut)
    except ValueError:
        words = cut.split()
    return " ".join(words)[:_LONGEST_TOKENS] or None


def finished_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of finished tables of this schema: RAW columns gone, and what is made from text there."""
    raw, names = {field.name for field in RAW}, set(schema.names)
    made = ["application", "problem_size"] if names & _TEXTS else []
    made += ["submit_tokens"] if "submit_line" in names else []
    made += ["work_dir_hash"] if "work_dir" in names else []
    kept = [field for field in schema if field.name not in raw]
    return pa.schema([*kept, *(COLUMNS[name].field() for name in made if name not in names)])


def _known(table: pa.Table, name: str) -> pa.Array | None:
    """The column in one piece, where it is there and has a value."""
    if name not in table.column_names or table.column(name).null_count == table.num_rows:
        return None
    return in_one_piece(table.column(name))


def _put(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """The table with this column, in its place if it has one, in its declared type."""
    place = table.schema.get_field_index(name)
    field = table.schema.field(place) if place >= 0 else COLUMNS[name].field()
    cast = values if values.type == field.type else values.cast(field.type)
    return table.set_column(place, field, cast) if place >= 0 else table.append_column(field, cast)
