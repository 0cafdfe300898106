"""Suggestions for mistyped names."""

import pytest

from pipeline.errors import did_you_mean


@pytest.mark.parametrize(
    ("name", "hint"),
    [("requets", "did you mean request?"), ("zzz", "remove it"), ("user\x1b[31", "did you mean user\\x1b[31m?")],
)
def test_the_most_similar_name_is_suggested_and_escaped(name: str, hint: str) -> None:
    assert did_you_mean(name, ("request", "requested_s", "user\x1b[31m"), "remove it") == hint
