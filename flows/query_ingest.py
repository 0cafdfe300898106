"""What a question needs of ingest where names are hashed, or a site has rules of its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.core.errors import InputError
from pipeline.core.settings import SiteSettings, TextRule
from pipeline.ingest.assemble.derived_columns import rules_of
from pipeline.ingest.privacy import ANONYMISED, Hasher, hasher_of


def hasher_under(key_file: str | None, mark: str) -> Hasher:
    """What hashes names as in tables with this mark; InputError without their key."""
    if key_file is None:
        raise InputError("the question", "a name, where the tables hold hashed ones", "their key", "give --key-file")
    found = hasher_of(SiteSettings(anonymise=True, key_file=key_file))
    if found.mark[ANONYMISED] != mark:
        raise InputError("--key-file", "another key", "the one that the tables' names are hashed under")
    return found


def by_rules(plain: Sequence[Mapping[str, Any]]) -> Callable[[str], str | None]:
    """What the site's own rules make of a job's name: the first that matches wins."""
    rules = rules_of([TextRule.model_validate(rule) for rule in plain], "ingest.application_rules")
    own = [rule.of for name, rule in rules.tried if name == "job_name"]
    return lambda text: next((value for of in own if (value := of(text))), None)
