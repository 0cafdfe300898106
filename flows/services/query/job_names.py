"""Rewrites the names in a query as ingest stores them: applications without numbers and suffixes, persons hashed."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.application_names import application_of
from pipeline.arrays import Value
from pipeline.errors import InputError
from pipeline.estimate.state import State

SYNONYMS = {"queue": "partition", "partition": "queue"}

Job = Mapping[str, Value]


def as_ingested(state: State, settings: Mapping[str, Any], key_file: Path | None) -> Callable[[Job], dict[str, Value]]:
    """A function from a job's values to those that JOBS would hold; `settings` are those of the run.

    A name that the State knows is not changed. InputError where names are hashed and the key is missing.
    """
    filled = set(state.site["columns"].split())
    hashed = _hasher(state, settings, key_file) if state.site["names"] else None
    by_rule = _rules(settings.get("ingest", {}).get("application_rules", ()))

    @cache
    def application(text: str, is_job_name: bool) -> str | None:
        known = state.names["what"]
        if not is_job_name and text in known:
            return text
        made = (application_of(text), *(() if is_job_name else (text,)))
        found = [by_rule(text), *(one and (hashed("application", one) if hashed else one) for one in made)]
        names = [name for name in found if name]
        return next((name for name in names if is_job_name or name in known), names[0] if names else None)

    @cache
    def person(column: str, text: str) -> str:
        return text if hashed is None or _is_known(state, column, text) else hashed(column, text)

    def found(job: Job) -> dict[str, Value]:
        done = dict(job)
        given, name = job.get("application"), job.get("job_name")
        if given is not None or name is not None:
            done["application"] = application(str(given if given is not None else name), given is None)
        for column in ("user", "user_group", "account", "job_name"):
            if job.get(column) is not None:
                done[column] = person(column, str(job[column]))
        return done | {
            own: job[other]
            for own, other in SYNONYMS.items()
            if own in filled and other not in filled and job.get(own) is None and job.get(other) is not None
        }

    return found


def _is_known(state: State, column: str, text: str) -> bool:
    if column == "user_group" and text in state.names["user_group"]:
        return True
    attribute = "what" if column == "job_name" else "who"
    return (text if column == "user" else f"{column} {text}") in state.names[attribute]


def _hasher(state: State, settings: Mapping[str, Any], key_file: Path | None) -> Callable[[str, str], str]:
    """A function that hashes a text of a column; the key is read at first use. InputError without the tables' key."""

    @cache
    def hasher() -> Any:
        # These imports take 0.1 s, and are needed for hashed names only.
        from pipeline.ingest.privacy import ANONYMISED, hasher_of  # noqa: PLC0415
        from pipeline.settings import SiteSettings  # noqa: PLC0415

        path = key_file or settings.get("site", {}).get("key_file")
        if path is None:
            found = "a name, but the tables hold hashed names"
            raise InputError("the query", found, "their key", "give --key-file")
        own = hasher_of(SiteSettings(anonymise=True, key_file=str(path)))
        if own.mark[ANONYMISED] != state.site["names"]:
            raise InputError("--key-file", "another key", "the one with which the tables' names are hashed")
        return own

    return lambda column, text: str(hasher().of(column, text))


def _rules(plain: Sequence[Mapping[str, Any]]) -> Callable[[str], str | None]:
    """A function from a job's name to its application by the site's own rules; the first match wins."""
    if not plain:
        return lambda _: None
    from pipeline.ingest.derive import rules_of  # noqa: PLC0415  (the same)
    from pipeline.settings import TextRule  # noqa: PLC0415

    rules = rules_of([TextRule.model_validate(rule) for rule in plain], "ingest.application_rules")
    own = [rule.of for name, rule in rules.tried if name == "job_name"]
    return lambda text: next((value for of in own if (value := of(text))), None)
