"""Replays of the archive's cleaned logs against the figures that pyss and predictsim give for them."""

from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.ingest import ingest
from pipeline.schedule.engine import EASY_PLUS_PLUS, Policy, ReplayOptions, replay
from pipeline.schedule.what_if import bounded_slowdown, scored
from pipeline.schedule.workload import Convention, workload_of_jobs
from pipeline.settings import IngestSettings, SiteSettings

LOGS = Path(__file__).parents[4] / "shared" / "data" / "swf"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(
        not LOGS.is_dir(), reason="PUBLISHED REPLAYS NOT TESTED: no folder shared/data beside the checkout"
    ),
]

FILES = {"KTH": "KTH-SP2-1996-2.1-cln", "CTC": "CTC-SP2-1996-3.1-cln", "SDSC-SP2": "SDSC-SP2-1998-4.2-cln"}
PROCS = {"KTH": 100, "CTC": 338, "SDSC-SP2": 128}
SJBF = ReplayOptions(policy=Policy.EASY_SJBF)
PUBLISHED = [
    # Name, options, whether estimates are perfect, mean bounded slowdown per log.
    ("EASY", ReplayOptions(), False, {"KTH": 93.09, "CTC": 48.23, "SDSC-SP2": 89.25}),
    ("EASY, perfect", ReplayOptions(), True, {"KTH": 72.15, "CTC": 37.43, "SDSC-SP2": 72.26}),
    ("SJBF", SJBF, False, {"KTH": 69.44, "CTC": 29.62}),
    ("SJBF, perfect", SJBF, True, {"KTH": 50.28, "CTC": 17.66}),
    ("EASY++", EASY_PLUS_PLUS, False, {"KTH": 64.18, "CTC": 78.43, "SDSC-SP2": 83.32}),
]
NATURAL = {"KTH": 92.92, "CTC": 49.61, "SDSC-SP2": 89.28}
"""EASY under the natural convention, of an independent prototype."""


@cache
def read(log: str) -> pa.Table:
    return ingest([LOGS / f"{FILES[log]}.swf.gz"], SiteSettings(), IngestSettings())[0]


IDS = [f"{name}-{log}" for name, _, _, slowdowns in PUBLISHED for log in slowdowns]
CASES = [(*case[:3], log, slowdown) for case in PUBLISHED for log, slowdown in case[3].items()]


@pytest.mark.parametrize("name, options, is_perfect, log, slowdown", CASES, ids=IDS)
def test_published_slowdowns(name: str, options: ReplayOptions, is_perfect: bool, log: str, slowdown: float) -> None:
    work = workload_of_jobs(read(log), PROCS[log], Convention.PYSS)
    done = replay(work, options, work.run_s if is_perfect else None)
    chosen = scored(work, done, Convention.PYSS)
    assert bounded_slowdown(work, done)[chosen].mean() == pytest.approx(slowdown, rel=1e-3)


@pytest.mark.parametrize("log", FILES)
def test_natural_convention(log: str) -> None:
    work = workload_of_jobs(read(log), PROCS[log], Convention.NATURAL)
    done = replay(work, ReplayOptions())
    slowdown = bounded_slowdown(work, done)[scored(work, done, Convention.NATURAL)].mean()
    assert slowdown == pytest.approx(NATURAL[log], rel=1e-3)
