"""Edges and faults on the archive's logs: what curators kept is left alone, but for a few jobs."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.records import clock_jump, duplicate, log_edge, over_limit
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings

LOGS = Path(__file__).parents[4] / "shared" / "data" / "swf"
SIZES = {
    "CTC-SP2-1996-3.1-cln": 338, "DOST-ASTI-COARE-Saliksik-2020-cln": 1728, "HPC2N-2002-2.2-cln": 240,
    "KTH-SP2-1996-2.1-cln": 100, "LLNL-Atlas-2006-2.1-cln": 9216, "LPC-EGEE-2004-1.2-cln": 140,
    "NASA-iPSC-1993-3.1-cln": 128, "OSC-Clust-2000-3.1-cln": 178, "SDSC-BLUE-2000-4.2-cln": 1152,
    "SDSC-DS-2004-2.1-cln": 1664, "SDSC-Par-1996-3.1-cln": 400, "SDSC-SP2-1998-4.2-cln": 128,
    "Sandia-Ross-2001-1.1-cln": 1524,
}  # fmt: skip
"""MaxProcs of each log's header."""

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not LOGS.is_dir(), reason="ARCHIVE NOT SCREENED: no folder shared/data beside the checkout"),
]


def arrays_of(name: str, max_procs: int | None) -> JobArrays:
    return JobArrays(
        ingest([LOGS / f"{name}.swf.gz"], SiteSettings(), IngestSettings())[0], SiteSettings(max_procs=max_procs)
    )


@pytest.mark.parametrize("name", SIZES)
def test_a_curated_log_is_left_alone(name: str) -> None:
    arrays = arrays_of(name, SIZES[name])
    for screen in (log_edge, over_limit):
        assert screen(arrays).mean() < 0.001, screen.__name__
    assert not clock_jump(arrays).any()
    assert not duplicate(arrays).any()


def test_thetas_log_begins_with_the_long_tail_of_earlier_jobs() -> None:
    arrays = arrays_of("ALCF-Theta-2022-2023", 4392)
    edge = log_edge(arrays)
    assert edge.sum() == 137
    assert np.all(arrays.submit_s[edge] < arrays.submit_s[~edge].min())
