"""A State's answers: each question by itself, and the same bits whether kernels are compiled or not."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import history
from pipeline.estimate.walltime import estimate, learn
from pipeline.ingest import ingest
from pipeline.kernels import interpreted
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.estimate.states import SETTINGS, busy_log, learnt, questions, same_bits

SWF = Path(__file__).parents[4] / "shared" / "data" / "swf"


def test_each_question_is_answered_by_itself() -> None:
    """Also where several are from users, or of programs, that the State does not know."""
    state, past = learnt(), history(busy_log(seed=5, n_users=200))
    assert len(set(past.names["user"]) - set(state.names["who"])) > 20
    asked = questions(past, state, np.arange(0, len(past), 5))
    together = estimate(state, asked, SETTINGS)
    alone = np.concatenate([estimate(state, asked.take(np.array([job])), SETTINGS) for job in range(len(asked))])
    assert same_bits(together, alone)


def test_a_question_changes_nothing() -> None:
    state, past = learnt(), history(busy_log(seed=5))
    asked = questions(past, state, np.arange(100))
    assert same_bits(estimate(state, asked, SETTINGS), estimate(state, asked, SETTINGS))


def test_interpreted_kernels_give_the_bits_of_compiled_ones() -> None:
    state, past = learnt(), history(busy_log(seed=5, n_users=30))
    asked = questions(past, state, np.arange(len(past)))
    with interpreted():
        found = estimate(state, asked, SETTINGS)
    assert same_bits(found, estimate(state, asked, SETTINGS))


@pytest.mark.shared
@pytest.mark.skipif(not SWF.is_dir(), reason="REAL LOGS NOT READ: no folder shared/data beside the checkout")
@pytest.mark.parametrize("name", ["KTH-SP2-1996-2.1-cln", "CTC-SP2-1996-3.1-cln"])
def test_interpreted_kernels_give_the_bits_of_compiled_ones_on_real_logs(name: str) -> None:
    past = history(ingest([SWF / f"{name}.swf.gz"], SiteSettings(), IngestSettings())[0])
    state = learn(past, settings := EstimateRules(), float(past.submit_s[len(past) // 2]))
    asked = questions(past, state, np.random.default_rng(0).choice(len(past), 2_000, replace=False))
    with interpreted():
        found = estimate(state, asked, settings)
    assert same_bits(found, estimate(state, asked, settings))
