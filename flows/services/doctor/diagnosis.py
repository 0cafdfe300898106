"""Runs all checks over a store, named by its folder or by the config that publishes to it."""

from dataclasses import dataclass
from pathlib import Path

from flows.services.doctor.checks import CHECKS
from flows.services.doctor.findings import Finding, Level, Store, of_error
from flows.services.files.config import config_settings
from pipeline.core.errors import InputError
from pipeline.core.settings import RunSettings
from pipeline.core.text import printable
from pipeline.publish.manifest import MANIFEST, Manifest, read_manifest

_TRIES = 3


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


def diagnose(target: Path, now_s: int, max_age_s: int) -> Diagnosis:
    """Check the store of `target`, a folder of published tables or a config; nothing is changed.

    InputError where the target does not exist. A store that a run replaces meanwhile is checked again.
    """
    if not target.exists():
        where = printable(str(target), 1000)
        raise InputError(where, "no such file or folder", "a folder of published tables, or a config", "check the path")
    if target.is_dir():
        return _checked(target, None, None, now_s, max_age_s)
    try:
        settings = config_settings(target)
    except InputError as error:
        return Diagnosis(None, ("config",), (of_error("config", Level.ERROR, error),))
    return _checked(Path(settings.output_dir), target, settings, now_s, max_age_s)


def _checked(root: Path, config: Path | None, settings: RunSettings | None, now_s: int, max_age_s: int) -> Diagnosis:
    findings: tuple[Finding, ...] = ()
    for _ in range(_TRIES):
        before = _bytes(root / MANIFEST)
        manifest, error = _manifest(root)
        store = Store(root, now_s, manifest, error, config, settings, max_age_s)
        findings = tuple(finding for check in CHECKS.values() for finding in check(store))
        if _bytes(root / MANIFEST) == before:
            break
    checked = tuple(CHECKS) if config is None else ("config", *CHECKS)
    return Diagnosis(root, checked, findings)


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
