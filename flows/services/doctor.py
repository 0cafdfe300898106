"""Runs all checks over a store, named by its folder or by the config that publishes to it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from flows.services.files.config import config_settings
from flows.services.store_checks import CHECKS, DEEP_CHECKS, Check, Finding, Level, Store, of_error
from pipeline.errors import InputError, printable
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
    InputError where the target does not exist.
    """
    if not target.exists():
        where = printable(str(target), 1000)
        raise InputError(where, "no such file or folder", "a folder of published tables, or a config", "check the path")
    settings = None
    if not target.is_dir():
        try:
            settings = config_settings(target)
        except InputError as error:
            return Diagnosis(None, ("config",), (of_error("config", Level.ERROR, error),))
    root = target if settings is None else Path(settings.output_dir)
    config = None if settings is None else target
    store = Store(root, now_s, None, None, config, settings, max_age_s, environment)
    checks = {**CHECKS, **(DEEP_CHECKS if is_deep else {})}
    return Diagnosis(root, tuple(checks) if settings is None else ("config", *checks), _findings(store, checks))


def _findings(store: Store, checks: Mapping[str, Check]) -> tuple[Finding, ...]:
    """What the checks find in the store as it stands; a store that a run replaces meanwhile is checked again."""
    findings: tuple[Finding, ...] = ()
    for _ in range(_TRIES):
        before = _bytes(store.root / MANIFEST)
        manifest, error = _manifest(store.root)
        seen = replace(store, manifest=manifest, manifest_error=error)
        findings = tuple(finding for check in checks.values() for finding in check(seen))
        if _bytes(store.root / MANIFEST) == before:
            break
    return findings


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
