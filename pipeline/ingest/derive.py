"""Derives the columns that come from a job's text, before a row can reach the disk.

application: what a site's rule says, else the job's name by application_names.py; problem_size: what a site's rule
says; inputs: what a rule of inputs reads; submit_tokens: the submit line's words, where asked for; work_dir_hash.
Then, where the site anonymises, user, group, account, job name and folder are keyed hashes. An application's name comes
from what the user typed, so it is hashed too, unless a rule of the site gave it; submit_tokens are left out.

Rules of a site are patterns of RE2, whose time is linear in the text, whatever users type. They see the first
MAX_RULE_CHARACTERS characters, each distinct text of a table once.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.application_names import application_of
from pipeline.arrays import one_piece, replaced, texts
from pipeline.errors import ConfigError, printable
from pipeline.ingest.privacy import hasher_of
from pipeline.ingest.reader import RAW, categories
from pipeline.settings import IngestSettings, InputRule, SiteSettings, TextRule, whole_text_pattern
from pipeline.tables import COLUMNS

MAX_INPUT_CHARACTERS = 4_096
MAX_VALUE = 64
"""Characters of a value; a longer one is unknown, because it is no parameter that repeats."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?")


def inputs_column(table: pa.Table, rules: Sequence[InputRule], *, only_numbers: bool = False) -> pa.Array | None:
    """The column `inputs` of JOBS: JSON objects of texts by name, null where no rule matches; None without such a text.

    With `only_numbers`, as where a site anonymises, other values are left out.
    """
    found: pa.Array | None = None
    for rule in rules:
        if rule.text in table.column_names:
            words, places = _distinct(table, rule.text, MAX_INPUT_CHARACTERS)
            matches = pc.extract_regex(words, whole_text_pattern(rule.find)).to_pylist()
            own = texts([_json(match, only_numbers) for match in matches]).take(places)
            found = own if found is None else pc.coalesce(found, own)
    return found


def inputs_of(said: Mapping[str, str], rules: Sequence[InputRule], *, only_numbers: bool = False) -> str | None:
    """What the rules read from one job's texts, given by column of the log; rules of texts not given are not asked."""
    found = inputs_column(pa.table({name: [text] for name, text in said.items()}), rules, only_numbers=only_numbers)
    return None if found is None else found[0].as_py()


def _json(match: dict[str, str] | None, only_numbers: bool) -> str | None:
    """The known values as JSON with sorted names; None where there is none."""
    if match is None:
        return None
    known = {name: value for name, value in match.items() if value and len(value) <= MAX_VALUE}
    if only_numbers:
        known = {name: value for name, value in known.items() if _NUMBER.fullmatch(value)}
    return json.dumps(known, sort_keys=True, ensure_ascii=False, separators=(",", ":")) if known else None


PERSONAL = ("user", "user_group", "account", "job_name")
_TEXTS = {"job_name", "comment", "submit_line"}
_LONGEST_LINE = 4_096
_LONGEST_TOKENS = 1_024
MAX_RULE_CHARACTERS = 256
_KNOWN_TEXTS = 1 << 16
_GROUP = re.compile(r"\\(?:g<([0-8])>|([0-8]))|\\\\")


Rules = Sequence[tuple[str, str, str]]
"""A site's rules for one column: text, pattern of the whole text and value; the first that matches wins."""


def by_rules(table: pa.Table, rules: Rules) -> pa.Array | None:
    """The rules' values as categories, null where none matches; None where the table has none of their texts."""
    found = []
    for name, pattern, gives in rules:
        if name in table.column_names:
            words, places = _distinct(table, name, MAX_RULE_CHARACTERS)
            values = pc.replace_substring_regex(words, pattern, gives)
            is_found = pc.and_(pc.match_substring_regex(words, pattern), pc.not_equal(values, ""))
            found.append(pc.if_else(is_found, values, None).take(places).dictionary_encode())
    return first_known(found)


class ColumnDeriver:
    """Finishes tables; what it learns of one distinct text serves all later tables."""

    def __init__(self, site: SiteSettings, settings: IngestSettings) -> None:
        """ConfigError where a rule, or the site's key file, cannot be used."""
        self.site, self.settings, self.hasher = site, settings, hasher_of(site)
        self._applications = rules_of(settings.application_rules, "ingest.application_rules")
        self._sizes = rules_of(settings.problem_size_rules, "ingest.problem_size_rules")
        self._application_of, self._tokens_of = map(lru_cache(_KNOWN_TEXTS), (application_of, tokens_of))

    def table(self, table: pa.Table) -> pa.Table:
        """The finished table; one without a job's text (steps) stays as it is."""
        made, names = {}, _known(table, "job_name")
        told = [_known(table, "application"), categories(names, self._application_of) if names is not None else None]
        if self.site.anonymise:
            told = [self.hasher.column("application", column) if column is not None else None for column in told]
            for name in PERSONAL:
                column = _known(table, name)
                made[name] = self.hasher.column(name, column) if column is not None else None
        made["application"] = first_known([by_rules(table, self._applications), *told])
        made["problem_size"] = by_rules(table, self._sizes)
        made["inputs"] = inputs_column(table, self.settings.input_rules, only_numbers=self.site.anonymise)
        folder, line = _known(table, "work_dir"), _known(table, "submit_line")
        if folder is not None:
            made["work_dir_hash"] = self.hasher.column("work_dir", folder)
        if line is not None and self.settings.keep_submit_line and not self.site.anonymise:
            made["submit_tokens"] = categories(line, self._tokens_of)
        for name, column in made.items():
            table = table if column is None else _put(table, name, column)
        return table.drop_columns([raw.name for raw in RAW if raw.name in table.column_names])

    def unreadable(self, table: pa.Table) -> pa.Table:
        """UNREADABLE, its raw text replaced by length and hash where the site anonymises."""
        if not self.site.anonymise or not table.num_rows:
            return table
        shown = [
            None if raw is None else f"({len(raw)} characters, {self.hasher.of('raw', raw)})"
            for raw in table.column("raw").to_pylist()
        ]
        return replaced(table, "raw", texts(shown))


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
    made = ["application", "problem_size", "inputs"] if names & _TEXTS else []
    made += ["submit_tokens"] if "submit_line" in names else []
    made += ["work_dir_hash"] if "work_dir" in names else []
    kept = [field for field in schema if field.name not in raw]
    return pa.schema([*kept, *(COLUMNS[name].field() for name in made if name not in names)])


def _distinct(table: pa.Table, name: str, longest: int) -> tuple[pa.Array, pa.Array]:
    """The texts of a column, each once and cut to so many characters, and for each row the place of its own."""
    encoded = one_piece(table.column(name).cast(pa.string())).dictionary_encode()
    return pc.utf8_slice_codeunits(encoded.dictionary, 0, longest), encoded.indices


def _known(table: pa.Table, name: str) -> pa.Array | None:
    """The column in one piece, where it is there and has a value."""
    if name not in table.column_names or table.column(name).null_count == table.num_rows:
        return None
    return one_piece(table.column(name))


def _put(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """The table with this column, in its place if it has one, in its declared type."""
    place = table.schema.get_field_index(name)
    field = table.schema.field(place) if place >= 0 else COLUMNS[name].field()
    cast = values if values.type == field.type else values.cast(field.type)
    return table.set_column(place, field, cast) if place >= 0 else table.append_column(field, cast)


def rules_of(rules: Sequence[TextRule], where: str) -> Rules:
    """Rules ready to use; ConfigError where `gives` names a group that `find` lacks."""
    return [(rule.text, *_rewriting(rule, f"{where}[{i}]")) for i, rule in enumerate(rules)]


def first_known(columns: Sequence[pa.Array | None]) -> pa.Array | None:
    """Of each row, the first value that is not null, as categories; None where there is no column."""
    known = [column for column in columns if column is not None]
    if len(known) < 2:
        return known[0] if known else None
    return pc.coalesce(*(column.cast(pa.string()) for column in known)).dictionary_encode()


def _rewriting(rule: TextRule, where: str) -> tuple[str, str]:
    """The pattern of a whole text, whose first group is what `find` matches, and the value in RE2's words."""
    pattern = rf"(?s:\A.*?)({rule.find})(?s:.*\z)"
    if rule.gives is None:
        return pattern, r"\2" if _is_value(pattern, r"\2") else r"\1"
    # RE2 counts the group of the whole match as the first.
    gives = _GROUP.sub(lambda found: rf"\{int(found[1] or found[2]) + 1}" if found.lastindex else found[0], rule.gives)
    if not _is_value(pattern, gives):
        found = f"gives = '{printable(rule.gives)}'"
        raise ConfigError(where, found, r"text with groups that `find` has, as \1 to \8", "correct it")
    return pattern, gives


def _is_value(pattern: str, gives: str) -> bool:
    """Whether RE2 can write this value of a match."""
    try:
        pc.replace_substring_regex(pa.array([""]), pattern, gives)
    except pa.ArrowInvalid:
        return False
    return True
