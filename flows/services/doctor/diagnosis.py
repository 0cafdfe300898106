"""Runs all checks over a store, named by its folder or by the config that publishes to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from flows.services.doctor.checks import CHECKS, DEEP_CHECKS
from flows.services.doctor.findings import Finding, Level, Store, of_error
from flows.services.files.config import config_settings
from pipeline.core.errors import InputError
from pipeline.core.settings import RunSettings
from pipeline.core.text import printable
from pipeline.publish.manifest import MANIFEST, Manifest, read_manifest

_TRIES = 3
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings of all checks, in the order of the checks; `checked` names the checks that were made."""

    root: Path | None
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Level | None:
        """The highest level among the findings; None where there are none."""
        return max((finding.level for finding in self.findings), default=None)


def diagnose(
    target: Path, now_s: int, max_age_s: int, environment: Mapping[str, str] = _NOTHING, *, is_deep: bool = False
) -> Diagnosis:
    """Check the store of `target`, a folder of published tables or a config; nothing is changed.

    `environment`: that of programs which a check calls. `is_deep`: also read every table of every version.
    InputError where the target does not exist. A store that a run replaces meanwhile is checked again.
    """
    if not target.exists():
        where = printable(str(target), 1000)
        raise InputError(where, "no such file or folder", "a folder of published tables, or a config", "check the path")
    if target.is_dir():
        return _checked(_Asked(target, None, None, now_s, max_age_s, environment, is_deep))
    try:
        settings = config_settings(target)
    except InputError as error:
        return Diagnosis(None, ("config",), (of_error("config", Level.ERROR, error),))
    root = Path(settings.output_dir)
    return _checked(_Asked(root, target, settings, now_s, max_age_s, environment, is_deep))


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which store is checked, and how."""

    root: Path
    config: Path | None
    settings: RunSettings | None
    now_s: int
    max_age_s: int
    environment: Mapping[str, str]
    is_deep: bool


def _checked(asked: _Asked) -> Diagnosis:
    findings: tuple[Finding, ...] = ()
    checks = {**CHECKS, **(DEEP_CHECKS if asked.is_deep else {})}
    for _ in range(_TRIES):
        before = _bytes(asked.root / MANIFEST)
        manifest, error = _manifest(asked.root)
        store = Store(
            asked.root, asked.now_s, manifest, error, asked.config, asked.settings, asked.max_age_s, asked.environment
        )
        findings = tuple(finding for check in checks.values() for finding in check(store))
        if _bytes(asked.root / MANIFEST) == before:
            break
    checked = tuple(checks) if asked.config is None else ("config", *checks)
    return Diagnosis(asked.root, checked, findings)


def _manifest(root: Path) -> tuple[Manifest | None, InputError | None]:
    try:
        return read_manifest(root), None
    except InputError as error:
        return None, error


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
