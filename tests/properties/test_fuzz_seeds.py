"""A small part of `make fuzz` under one seed: no traceback, no value unsaid or invented, and the fates of splices."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.cut import cuts
from tests.fuzz.logs import FORMATS, logs
from tests.fuzz.mutate import fuzzed
from tests.fuzz.splice import PASSED, SPLICES, Pairs

pytestmark = pytest.mark.slow


SEED = 29
MOST = {"lost": 0.05, "joined": 0.02, "doubled": 0.002, "shifted": 0.01}
"""Largest share of splices that pass for data: what is left are digits lost or run together in a number."""


@pytest.mark.parametrize("name", FORMATS)
def test_mutated_and_cut_logs_give_no_traceback_and_no_invented_value(tmp_path: Path, name: str) -> None:
    counts = sum(fuzzed(name, 900, SEED, tmp_path), Counter[str]())
    assert counts["log read"] > 5 and counts["job"] > 50
    assert len(list(cuts(name, 40, SEED, tmp_path))) == 40


@pytest.mark.parametrize("name", ["swf", "sacct", "pbs", "sacct_json"])
def test_spliced_records_do_not_pass_for_data(tmp_path: Path, name: str) -> None:
    path, rng = tmp_path / "spliced.log", np.random.default_rng(SEED)
    pairs = Pairs.of(name, logs(name, tmp_path)[0], path)
    for how in SPLICES:
        counts = Counter(fate for fate, _ in pairs.spliced(name, how, rng, path))
        assert counts[PASSED] <= MOST[how] * counts.total(), (how, counts)
