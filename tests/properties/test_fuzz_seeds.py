"""A small part of `make fuzz` under one seed: no traceback, no value invented, and splices whose fate is certain."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.cut import cuts
from tests.fuzz.mutate import fuzzed, seeds
from tests.fuzz.splice import Log, fates

SEED = 29


@pytest.mark.parametrize("name", ["swf", "sacct", "pbs"])
def test_mutated_and_cut_logs_give_no_traceback_and_no_invented_value(tmp_path: Path, name: str) -> None:
    outcomes = Counter(fuzzed(name, 1_200, SEED, tmp_path))
    assert outcomes["read"] > 5 and set(outcomes) <= {"read", "refused"}
    assert len(list(cuts(name, 60, SEED, tmp_path))) == 60


@pytest.mark.parametrize(
    ("name", "how"), [("swf", "doubled"), ("swf", "shifted"), ("pbs", "joined"), ("pbs", "doubled")]
)
def test_a_field_too_many_and_a_key_twice_never_pass_for_data(tmp_path: Path, name: str, how: str) -> None:
    log = seeds(name, tmp_path)[0]
    counts = fates(
        name, how, Log.of(name, log, tmp_path / "spliced.log"), np.random.default_rng(SEED), tmp_path / "spliced.log"
    )
    assert counts["passed for data"] == 0 and counts["set aside"] > 0


@pytest.mark.parametrize(("name", "most"), [("swf", 0.04), ("sacct", 0.04)])
def test_records_that_ran_together_are_nearly_all_set_aside(tmp_path: Path, name: str, most: float) -> None:
    """What passes was cut within its first field, which gives the next record another id of the same form."""
    log = seeds(name, tmp_path)[0]
    counts = fates(
        name,
        "joined",
        Log.of(name, log, tmp_path / "spliced.log"),
        np.random.default_rng(SEED),
        tmp_path / "spliced.log",
    )
    assert counts["passed for data"] <= most * counts.total()
