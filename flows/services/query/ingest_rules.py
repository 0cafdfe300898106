"""Applies ingest's hashing of names and the site's application rules to a query."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.errors import InputError
from pipeline.ingest.derive import rules_of
from pipeline.ingest.privacy import ANONYMISED, Hasher, hasher_of
from pipeline.settings import SiteSettings, TextRule


def hasher_for(key_file: str | None, mark: str) -> Hasher:
    """The hasher of tables with this mark; InputError without their key."""
    if key_file is None:
        raise InputError("the query", "a name, but the tables hold hashed names", "their key", "give --key-file")
    found = hasher_of(SiteSettings(anonymise=True, key_file=key_file))
    if found.mark[ANONYMISED] != mark:
        raise InputError("--key-file", "another key", "the one with which the tables' names are hashed")
    return found


def application_by_rules(plain: Sequence[Mapping[str, Any]]) -> Callable[[str], str | None]:
    """A function from a job's name to its application by the site's own rules; the first match wins."""
    rules = rules_of([TextRule.model_validate(rule) for rule in plain], "ingest.application_rules")
    own = [rule.of for name, rule in rules.tried if name == "job_name"]
    return lambda text: next((value for of in own if (value := of(text))), None)
