"""What a site sets, with type, bounds and default; configs/all.toml says what each means.

All else is a constant. Each fault of a file is one sentence: an unknown key lists the valid ones, a removed one says
where it went.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    Strict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from pipeline.errors import ConfigError, did_you_mean, printable
from pipeline.schema import Flag
from pipeline.tables import TEMPLATE_COLUMNS


class Section(BaseModel):
    """A settings table: frozen; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Count: TypeAlias = Annotated[int, Strict()]
Switch: TypeAlias = Annotated[bool, Strict()]
"""Neither is read from the other, or from a text."""


def one_of(known: Callable[[], Iterable[object]]) -> AfterValidator:
    """A check that a value is known, of what is asked at the check; ValueError lists what is known."""

    def checked(value: object) -> object:
        names = list(known())
        if value not in names:
            raise ValueError(f"one of {', '.join(map(str, names))}")
        return value

    return AfterValidator(checked)


def _law_names() -> Iterable[str]:
    from pipeline.laws import LAWS  # noqa: PLC0415  (numpy, which only a config that names laws waits for)

    return LAWS


KEYS = {"logs": (), "sacct": ("since", "cluster"), "folder": ("folder", "pattern"), "jobs": ("path",)}
"""Per kind of source the keys that belong to it; a folder and a table need their first one."""

# A name is an argument of sacct, which splits it at commas and reads a leading dash as an option.
ClusterName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]


class SourceSettings(Section):
    """Where the jobs of a run come from: the config's logs, this machine's sacct, a folder of logs, or a table."""

    kind: Literal["logs", "sacct", "folder", "jobs"] = "logs"
    since: str | None = Field(None, min_length=1)
    cluster: ClusterName | None = None
    folder: str | None = Field(None, min_length=1)
    pattern: str = Field("*", min_length=1)
    path: str | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        keys, fields = KEYS[self.kind], type(self).model_fields
        others = {name for name, value in self if value != fields[name].default} - {"kind", *keys}
        if others:
            known = ", ".join(keys) or "no other key"
            raise ValueError(f"{', '.join(sorted(others))} does not go with kind {self.kind}, which takes {known}")
        if self.kind in ("folder", "jobs") and getattr(self, keys[0]) is None:
            raise ValueError(f"kind {self.kind} needs {keys[0]}")
        return self


def _instant(value: object) -> object:
    # Of pydantic itself 20260301 would be the seconds since 1970.
    return datetime.fromisoformat(value) if isinstance(value, str) else value


Instant = Annotated[datetime, BeforeValidator(_instant)]
Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class SiteRule(Section):
    """Jobs that the site names: those that match all given values."""

    reason: Reason = Field(description="The reason; it is printed in the report.")
    burst: str | None = Field(None, description="A burst's id, as the table of bursts has it.")
    user: str | None = Field(None, description="Who submitted them.")
    account: str | None = Field(None, description="The account charged.")
    application: str | None = Field(None, description="What they ran.")
    queue: str | None = Field(None, description="The queue they waited in.")
    since: Instant | None = Field(None, description="Submitted at or after this time, in the site's zone.")
    until: Instant | None = Field(None, description="Submitted before this time, in the site's zone.")

    @model_validator(mode="after")
    def _names_something(self) -> "SiteRule":
        if not self.model_dump(exclude={"reason"}, exclude_none=True):
            raise ValueError("matches every job: give burst, user, account, application, queue, since or until")
        return self


class MaximumSettings(Section):
    """Jobs that ran longer than the queue or the machine allows."""

    queue_runtime_s: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="Longest runtime that each queue allows (s), by name; *: that of the machine."
    )


class CleanSettings(Section):
    """Which flags set jobs aside, and what the site knows of its machine and its users."""

    flags_off: tuple[Flag | Literal["silent_request"], ...] = Field(
        (), description="Flags not to set. silent_request: every requested time counts, whatever the log says of it."
    )
    keep: tuple[SiteRule, ...] = Field((), description="Jobs that no screen may set aside.")
    drop: tuple[SiteRule, ...] = Field((), description="Jobs to set aside in any case.")
    maximum: MaximumSettings = MaximumSettings()

    @property
    def counts_every_request(self) -> bool:
        """Whether requests that seem to say nothing of the runtime count, too."""
        return "silent_request" in self.flags_off


AUTO = ("auto",)
"""The value of `template` for a choice by the log."""

DEFAULT_TEMPLATE = ("user", "application", "requested_memory")
"""The template of a log that is too short for a comparison."""


def _listed(given: object) -> object:
    return (given,) if isinstance(given, str) else given


def _known_template(names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in TEMPLATE_COLUMNS]
    if unknown and names != AUTO:
        raise ValueError(f"{', '.join(unknown)} (valid are {', '.join(TEMPLATE_COLUMNS)}, or auto alone)")
    return names


Template = Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_known_template)]


AxisChoice = Literal["auto", "procs", "nodes", "gpus"]


class GroupSettings(Section):
    """What makes jobs similar, and what their runs are counted in."""

    template: Template = Field(AUTO, min_length=1)

    axis: AxisChoice = "auto"

    @property
    def columns(self) -> tuple[str, ...]:
        """The listed columns, or those of the default template if the log chooses."""
        return DEFAULT_TEMPLATE if self.template == AUTO else self.template


InputTypeName = Literal["number", "log_number", "category", "boolean"]


def whole_text_pattern(find: str) -> str:
    """The pattern as RE2 must match it: from the first to the last character of a text."""
    return rf"\A(?:{find})\z"


def _searched_pattern(find: str) -> str:
    """A pattern that RE2 accepts: it has no back-references and no look-around, so that its time is linear."""
    import pyarrow.compute as pc  # noqa: PLC0415  (slow to import, and few configs have a pattern)

    try:
        pc.match_substring_regex(pa.array([""]), find)
    except pa.ArrowInvalid as error:
        raise ValueError(f"not a pattern of RE2, which has no look-around and no back-references: {error}") from None
    return find


def _named_pattern(find: str) -> str:
    """A pattern of RE2 with named groups."""
    import pyarrow.compute as pc  # noqa: PLC0415  (see above)

    try:
        groups = pc.extract_regex(pa.array([], pa.string()), whole_text_pattern(_searched_pattern(find))).type
    except pa.ArrowInvalid as error:
        raise ValueError(f"not a pattern of RE2 whose groups are (?P<name>...) or (?:...): {error}") from None
    if not groups.num_fields:
        raise ValueError("found no named group, expected one for each input, as in (?P<n>[0-9]+)")
    return find


# RE2 also refuses repetitions of more than 1,000.
PatternText = Annotated[str, StringConstraints(max_length=500)]


INPUT_TEXTS = ("job_name", "comment", "submit_line")
"""A job's texts that rules may read."""


class InputRule(Section):
    """A rule that reads inputs from a job's text: each named group of `find` is an input.

    The whole text has to match. Patterns are RE2's, whose time is linear in the text, whatever users type.
    """

    text: Literal["job_name", "comment", "submit_line"] = Field("job_name", description="The text that has to match.")
    find: Annotated[PatternText, AfterValidator(_named_pattern)] = Field(
        description="An RE2 pattern whose named groups are inputs, as in heat_n(?P<n>[0-9]+)."
    )
    types: dict[str, InputTypeName] = Field(
        default_factory=dict, description="Types of its inputs by name; others are log_number, and texts unknown."
    )


class LogInputSettings(Section):
    """Models of the runtime over inputs that job names, comments or submit lines of a log name."""

    rules: tuple[InputRule, ...] = ()

    @property
    def types(self) -> dict[str, InputTypeName]:
        """The types of inputs by name; where rules differ, the first one counts."""
        return {name: kind for rule in reversed(self.rules) for name, kind in rule.types.items()}


Mode = Literal["off", "warn", "block"]


class BlockingCheck(Section):
    """A check whose failure is a fault of the log or its export."""

    mode: Mode = "block"


class WarningCheck(Section):
    """A check that a change of a site's habits fails too."""

    mode: Mode = "warn"


class NewestJob(Section):
    """The age of the newest job; off by default, because logs of archives are old."""

    mode: Mode = "off"
    threshold: float = Field(2.0, gt=0, le=36_500)


class CheckSettings(Section):
    """What is checked before a version is published, and what a failure does."""

    fewer_rows: BlockingCheck = BlockingCheck()
    more_rows: WarningCheck = WarningCheck()
    null_shares: BlockingCheck = BlockingCheck()
    ranges: BlockingCheck = BlockingCheck()
    coverage: WarningCheck = WarningCheck()
    newest_job: NewestJob = NewestJob()


class Whose(Section):
    """Whose jobs are meant: of any of these users, accounts and partitions."""

    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


QUANTILES = (0.1, 0.5, 0.8, 0.9, 0.95, 0.99)
"""The quantiles of ESTIMATES."""


class ExportSettings(Section):
    """What a scheduler plans jobs with, and whose jobs are left alone."""

    mode: Literal["off", "dry_run", "limit"] = "dry_run"
    quantile: Annotated[float, one_of(lambda: QUANTILES)] = 0.1
    order: Switch = False
    max_age_days: float = Field(7.0, gt=0, allow_inf_nan=False)
    over_time_limit_min: float = Field(0.0, ge=0)
    opt_out: Whose = Whose()
    opt_in: tuple[str, ...] = ()

    @property
    def opted_in(self) -> Whose:
        """The names of opt_in, each of which may be that of a user, an account or a partition."""
        return Whose(users=self.opt_in, accounts=self.opt_in, partitions=self.opt_in)


class GuardSettings(Section):
    """The scheduler whose jobs are watched."""

    scheduler: Literal["slurm", "pbs"] = "slurm"


class ExecutionSettings(Section):
    """How a run is computed, and how it reports its progress and its end. No table depends on it."""

    log_format: Literal["text", "json"] = "text"
    metrics_file: str | None = Field(None, min_length=1)
    processes: Count = Field(1, ge=1, le=64)
    dask: str | None = Field(None, min_length=1)


def _site_name(name: str) -> str:
    """A name that can stand in a line and in the name of a file."""
    if set(name) & set("\0\r\n") or {".", ".."} & set(name.split("/")):
        raise ValueError("a name in one line that leads to no other folder")
    return name


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("not an IANA time zone such as Europe/Stockholm") from None
    return name


LOG_FORMATS = ("swf", "pbs", "lsf", "jobcomp", "sacct_json", "table", "sacct")
"""The names in FORMATS of pipeline/ingest, which a setting cannot ask: ingest stands above the settings."""


LawName = Annotated[str, one_of(_law_names)]


class SiteSettings(Section):
    """Facts about one cluster."""

    name: Annotated[str, AfterValidator(_site_name)] = Field("site", min_length=1)
    timezone: Annotated[str, AfterValidator(_known_zone)] = "UTC"
    anonymise: Switch = False
    key_file: str | None = None
    max_procs: Count | None = Field(None, gt=0)
    procs_per_node: Count | None = Field(None, gt=0)
    price_per_proc_hour: float | None = Field(None, ge=0)


class TextRule(Section):
    """A rule of the site: where `find` matches the text, the value is its first group or `gives`."""

    text: Literal["job_name", "comment", "submit_line"] = Field("job_name", description="The text that is searched.")
    find: Annotated[PatternText, AfterValidator(_searched_pattern)] = Field(
        description="An RE2 pattern, found anywhere in it."
    )
    gives: str | None = Field(None, description="The value, with \\1 for groups of `find`; default: its group 1.")


class LogColumn(Section):
    """A column of a table of jobs, and in which unit and zone its values are."""

    column: str = Field(min_length=1, description="The column's name in the table.")
    unit: str | None = Field(
        None,
        description="ns, us, ms, s, min, h, days; B, kB, MB, GB, KiB, MiB, GiB, TiB; J, kJ, MJ, Wh, kWh; %, milli; "
        "of slurmdbd: tres (counts), wait (exit codes), slurm (states).",
    )
    timezone: Annotated[str, AfterValidator(_known_zone)] | None = Field(
        None, description="IANA zone of times without one; default: site.timezone."
    )
    per: Literal["processor", "node", "job"] | None = Field(None, description="What memory is per; default: job.")
    times: str | None = Field(None, description="A column by which a count is multiplied, as tasks by processors.")


class IngestSettings(Section):
    """How logs are read."""

    format: Annotated[str, one_of(lambda: ("auto", *LOG_FORMATS))] = "auto"
    columns: dict[str, LogColumn | str | int] = Field(default_factory=dict)
    fields: tuple[str, ...] = ()
    delimiter: str | None = Field(None, min_length=1)
    day_first: Switch = False
    sacct_command: str = Field("sacct", min_length=1)
    keep_submit_line: Switch = False
    application_rules: tuple[TextRule, ...] = ()
    problem_size_rules: tuple[TextRule, ...] = ()
    swf_status: Literal["auto", "standard", "exit_code"] = "auto"
    last_line: Literal["set_aside", "take"] = "set_aside"
    max_damaged: float = Field(0.01, ge=0, le=1)
    _input_rules: tuple[InputRule, ...] = PrivateAttr(())

    @property
    def input_rules(self) -> tuple[InputRule, ...]:
        """The rules of `inputs.rules`: comments and submit lines, which they read, are known to ingest alone."""
        return self._input_rules


class ScalingSettings(Section):
    """Which laws of scaling are fitted, and on which counts they are asked."""

    laws: tuple[LawName, ...] = Field(("constant", "amdahl", "downey_low", "downey_high"), min_length=1)
    counts: tuple[Annotated[int, Field(gt=0)], ...] = ()


class PublishSettings(Section):
    """Which versions of the tables stay on disk. The published one and pinned ones always do."""

    keep_versions: Count = Field(7, ge=2)
    mirror: str | None = Field(None, min_length=1, pattern=r"^[^@]*$")
    """Where published versions are copied to; without credentials, which stand in the environment."""


class RunSettings(Section):
    """All settings of a run, which turns the logs of one site into one folder of tables."""

    logs: tuple[str, ...] = ()
    output_dir: str = "out"
    source: SourceSettings = SourceSettings()
    site: SiteSettings = SiteSettings()
    ingest: IngestSettings = IngestSettings()
    clean: CleanSettings = CleanSettings()
    group: GroupSettings = GroupSettings()
    scaling: ScalingSettings = ScalingSettings()
    publish: PublishSettings = PublishSettings()
    export: ExportSettings = ExportSettings()
    guard: GuardSettings = GuardSettings()
    checks: CheckSettings = CheckSettings()
    run: ExecutionSettings = ExecutionSettings()
    inputs: LogInputSettings = LogInputSettings()

    @model_validator(mode="after")
    def _ingest_reads_inputs(self) -> Self:
        ingest = self.ingest.model_copy()
        ingest._input_rules = self.inputs.rules
        object.__setattr__(self, "ingest", ingest)
        return self


REMOVED = Path(__file__).with_name("removed_settings.tsv")
"""Keys and sections of earlier releases, with where they went."""


def parse_settings(plain: dict[str, Any], where: str) -> RunSettings:
    """Settings from plain dictionaries; the first fault becomes a ConfigError."""
    try:
        return RunSettings.model_validate(plain)
    except ValidationError as error:
        raise _explained(error, where) from None


def _explained(error: ValidationError, where: str) -> ConfigError:
    fault = error.errors()[0]
    path = [str(part) for part in fault["loc"]]
    key = printable(".".join(path))
    if fault["type"] != "extra_forbidden":
        found = f"{key} = {printable(repr(fault['input']))}"
        problem = fault["msg"].removeprefix("Value error, ").replace("valid tuple", "list")
        return ConfigError(where, found, f"a valid value ({problem})")
    # The setting of an earlier release, or its section.
    went = dict(line.split("\t") for line in REMOVED.read_text(encoding="utf-8").splitlines())
    for name in (".".join(path[:length]) for length in range(len(path), 0, -1)):
        if name in went:
            return ConfigError(where, f"{key}, which is no setting any more", "a config without it", went[name])
    valid = sorted(_section_at(path[:-1]).model_fields)
    hint = did_you_mean(path[-1], valid, "remove it or correct it")
    return ConfigError(where, f"unknown key {key}", f"one of {', '.join(valid)}", hint)


def _section_at(path: list[str]) -> type[BaseModel]:
    """The settings class at a key; a number in the path is an index into a list of settings tables."""
    section: type[BaseModel] = RunSettings
    for name in path:
        section = section if name.isdigit() else next(_sections(section.model_fields[name].annotation))
    return section


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The settings classes in an annotation, nested ones included."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections(inner)
