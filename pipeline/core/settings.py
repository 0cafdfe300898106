"""All settings with unit, default and meaning, read from TOML. An unknown key is an error that lists the valid keys."""

import re
import tomllib
from collections.abc import Iterator
from math import log
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from pipeline.core.adept_settings import AdeptSettings
from pipeline.core.apply_settings import ApplySettings
from pipeline.core.check_settings import CheckSettings
from pipeline.core.clean_settings import CleanSettings
from pipeline.core.errors import ConfigError
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.core.execution_settings import ExecutionSettings
from pipeline.core.export_settings import ExportSettings
from pipeline.core.format_names import AUTO, known_format
from pipeline.core.group_settings import GroupSettings
from pipeline.core.input_settings import InputRule, LogInputSettings
from pipeline.core.law_names import known_law
from pipeline.core.screen_settings import AcrossSettings, AnomalySettings, ClassSettings, PatternSettings
from pipeline.core.section import Section
from pipeline.core.source_settings import SourceSettings
from pipeline.core.text import did_you_mean, printable


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("not an IANA time zone such as Europe/Stockholm") from None
    return name


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


LawName = Annotated[str, AfterValidator(known_law)]


class SiteSettings(Section):
    """Facts about one cluster."""

    name: str = Field("site", min_length=1, description="The cluster's name, as it stands in every table.")
    timezone: Annotated[str, AfterValidator(_known_zone)] = Field(
        "UTC", description="IANA zone of times a log writes without one, as in Europe/Stockholm."
    )
    anonymise: bool = Field(False, description="Replace user, account, group, job name and folder by keyed hashes.")
    key_file: str | None = Field(
        None,
        description="File with the key of those hashes, relative to the current folder; only its owner may read it.",
    )
    max_procs: int | None = Field(
        None,
        gt=0,
        description="Processors of the machine; without it loads are unknown and predictions end at the largest size.",
    )
    procs_per_node: int | None = Field(
        None,
        gt=0,
        description="Processors of a node; with it suggested runs fill whole nodes, and advice states nodes.",
    )
    price_per_proc_hour: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="Price of a processor-hour, in any currency; for costs in advice."
    )


class TextRule(Section):
    """A rule of the site: where `find` matches the text, the value is its first group or `gives`."""

    text: Literal["job_name", "comment", "submit_line"] = Field("job_name", description="The text that is searched.")
    find: Annotated[str, AfterValidator(_compiles)] = Field(description="A regular expression, found anywhere in it.")
    gives: str | None = Field(None, description="The value, with \\1 for groups of `find`; default: its group 1.")


class IngestSettings(Section):
    """How logs are read."""

    format: Annotated[str, AfterValidator(known_format)] = Field(
        AUTO, description="The log's format; auto: by content."
    )
    sacct_fields: tuple[str, ...] = Field((), description="Fields of a sacct dump without a header, in order.")
    sacct_delimiter: str | None = Field(None, min_length=1, description="Delimiter of a sacct dump; default: found.")
    sacct_day_first: bool = Field(False, description="Whether 03/04/2026 is the third of April.")
    sacct_command: str = Field(
        "sacct", min_length=1, description="The sacct program that --live runs: a name or a path."
    )
    sacct_days: int = Field(7, ge=1, description="Days back from now that --live reads, where --since is not given.")
    sacct_timeout_s: float = Field(900.0, gt=0, description="Longest wait for the next output of a running sacct.")
    keep_submit_line: bool = Field(False, description="Keep the words of the submit line (sacct).")
    application_rules: tuple[TextRule, ...] = Field(
        (), description="Rules for application names; the first match wins, and built-in rules apply last."
    )
    problem_size_rules: tuple[TextRule, ...] = Field(
        (), description="Rules that derive the problem size from a job's text; the first match wins."
    )
    input_rules: tuple[InputRule, ...] = Field((), description="Rules that read inputs; set them as `inputs.rules`.")
    swf_status: Literal["auto", "standard", "exit_code"] = Field(
        "auto", description="SWF field 11; auto: decided for each file by the shares of its values."
    )
    swf_fields: dict[str, int] = Field(
        default_factory=dict, description="SWF dialects: which field (1-18) holds a value, as in {requested_s = 6}."
    )
    last_line: Literal["set_aside", "take"] = Field(
        "set_aside",
        description="A last line without a line end may be cut, or still being written; take: the log is finished.",
    )
    strict: bool = Field(False, description="Stop at the first line that cannot be read, instead of setting it aside.")


class FitSettings(Section):
    """Which laws are fitted, and how one is chosen."""

    laws: tuple[LawName, ...] = Field(
        ("constant", "amdahl", "downey_low", "downey_high"),
        min_length=1,
        description="The laws that are fitted to each group, by the names on the page of laws.",
    )
    method: Literal["exact", "adept"] = Field(
        "exact", description="How Downey's laws are fitted; adept: the search of the thesis, which ignores `loss`."
    )
    adept: AdeptSettings = AdeptSettings()
    loss: Literal["log", "relative"] = Field(
        "log", description="Errors whose squares are summed: log errors, or relative errors as in ADEPT's WSSRE."
    )
    noise_floor: float = Field(
        0.05, gt=0, lt=1, description="Lower bound of a size's error, however many jobs it has (log s)."
    )
    choice_margin: float = Field(
        0.1, ge=0, description="A simpler law is chosen if its leave-one-out error is larger by at most this share."
    )

    @property
    def search(self) -> AdeptSettings | None:
        """ADEPT's settings if `method` is "adept", else None."""
        return self.adept if self.method == "adept" else None


class PredictSettings(Section):
    """On which processor counts runtimes are predicted, and what makes a prediction doubtful."""

    reach: float = Field(
        4.0,
        ge=1,
        description="Predict up to this many times the largest observed size, and down to the smallest over it.",
    )
    default_log_sd: float = Field(
        0.4, gt=0, description="Error assumed for a group whose jobs do not determine it (log s)."
    )
    measured_log_sd: float = Field(0.02, gt=0, description="Lower bound of the spread of a single run (log s).")
    run_log_sd: float = Field(
        0.06,
        gt=0,
        description="Spread of repeats where too few groups of the log have repeats (log s; 0.06 is 6%).",
    )
    drift_log_sd: float = Field(
        0.07,
        gt=0,
        description="Deviation of runtimes from any law per doubling, where the log does not determine it (log s).",
    )
    wide_log_sd: float = Field(
        0.7, gt=0, description="Largest spread of repeats; a wider group has no common runtime (log s)."
    )
    high_log_error: float = Field(
        0.25, gt=0, description="Leave-one-out error above which a fit counts as doubtful (log s)."
    )
    horizon_days: float = Field(
        1.0,
        gt=0,
        description="How many days ahead predictions are used; intervals hold for jobs submitted by then.",
    )
    past_windows: int = Field(
        120, ge=0, description="Number of latest windows of that length in which predictions are evaluated on the log."
    )
    calibrate_jobs: int = Field(
        1_000_000,
        ge=1,
        description="Least number of newest jobs in which the past windows lie; at most half as many more are used.",
    )

    @property
    def jump_mass(self) -> float:
        """Weight of the log's residuals per weight of a cell's own runs, for changes that no past run shows."""
        return float(min(max(0.1 * log(self.horizon_days) / log(7.0), 0.0), 0.3))


class BacktestSettings(Section):
    """How estimates are evaluated on a log: each is made at a job's submit from jobs that had ended by then."""

    methods: tuple[str, ...] = Field((), description="Methods to evaluate; empty: all.")
    train_share: float = Field(
        1 / 3, gt=0, lt=1, description="First share of the jobs, by submit, that is learnt from and not scored."
    )
    fortnight_min_jobs: int = Field(
        100, ge=1, description="Least number of jobs of the fortnight reported as the worst covered."
    )
    leak_times: int = Field(6, ge=1, description="Number of times at which --check-leaks hides later events.")


class PublishSettings(Section):
    """Which versions of the tables stay on disk. The published one and those on hold always do."""

    keep_versions: int = Field(
        7, ge=2, description="This many of the newest versions stay whatever their age, the published one included."
    )
    all_days: float = Field(7.0, ge=0, description="Days that every published version stays.")
    daily_days: float = Field(7.0, ge=0, description="Further days that the newest version of each day (UTC) stays.")
    weekly_weeks: float = Field(520.0, ge=0, description="Further weeks that the newest version of each week stays.")
    named_days: float = Field(28.0, ge=0, description="Days that a rerun stays which was never published.")
    grace_s: float = Field(
        3600.0,
        ge=0,
        description="Time that a version stays after the next is published, for readers of other programs (s).",
    )


class RunSettings(Section):
    """All settings of a run, which turns the logs of one site into one folder of tables."""

    logs: tuple[str, ...] = Field((), description="Paths or globs of the logs, relative to the config's folder.")
    output_dir: str = Field("out", description="Where tables are published, relative to the current folder.")
    source: SourceSettings = SourceSettings()
    site: SiteSettings = SiteSettings()
    ingest: IngestSettings = IngestSettings()
    clean: CleanSettings = CleanSettings()
    group: GroupSettings = GroupSettings()
    anomaly: AnomalySettings = AnomalySettings()
    pattern: PatternSettings = PatternSettings()
    classes: ClassSettings = ClassSettings()
    across: AcrossSettings = AcrossSettings()
    fit: FitSettings = FitSettings()
    predict: PredictSettings = PredictSettings()
    forecast: ForecastSettings = ForecastSettings()
    backtest: BacktestSettings = BacktestSettings()
    publish: PublishSettings = PublishSettings()
    export: ExportSettings = ExportSettings()
    apply: ApplySettings = ApplySettings()
    checks: CheckSettings = CheckSettings()
    run: ExecutionSettings = ExecutionSettings()
    inputs: LogInputSettings = LogInputSettings()

    @model_validator(mode="after")
    def _ingest_reads_inputs(self) -> Self:
        # Comments and submit lines are known to ingest alone, so that its settings need these rules.
        if self.inputs.rules and not self.ingest.input_rules:
            ingest = self.ingest.model_copy(update={"input_rules": self.inputs.rules})
            object.__setattr__(self, "ingest", ingest)
        return self


def load_settings(path: Path) -> RunSettings:
    """The settings of a TOML file; ConfigError names file, key, what was found and what is valid."""
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(str(path), "no such file", "a TOML config", "give the path of one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"a file that cannot be read ({error})", "a TOML config in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), f"a TOML error ({error})", "valid TOML") from None
    return parse_settings(plain, str(path))


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
