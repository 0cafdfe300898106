"""The screens on the archive's logs, against what its curators removed by hand."""

from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.curated_removals import figures
from pipeline.clean import clean
from pipeline.clean.flurries import BURST_RULES
from pipeline.ingest import ingest
from pipeline.schema import Flag
from pipeline.settings import CleanSettings, IngestSettings, SiteSettings

LOGS = Path(__file__).parents[4] / "shared" / "data" / "swf"
CURATED = (
    "CTC-SP2-1996-3.1-cln", "HPC2N-2002-2.2-cln", "LLNL-Atlas-2006-2.1-cln", "OSC-Clust-2000-3.1-cln",
    "SDSC-BLUE-2000-4.2-cln", "SDSC-Par-1996-3.1-cln", "SDSC-SP2-1998-4.2-cln", "Sandia-Ross-2001-1.1-cln",
)  # fmt: skip
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not LOGS.is_dir(), reason="ARCHIVE NOT SCREENED: no folder shared/data beside the checkout"),
]


@cache
def read(name: str) -> pa.Table:
    return ingest([LOGS / f"{name}.swf.gz"], SiteSettings(), IngestSettings())[0]


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("name", sorted(name for name in asdict(BURST_RULES) if name.startswith("probe_")))
def test_nasas_probes_are_found_with_any_threshold_halved_or_raised(name: str, factor: float) -> None:
    limit = getattr(BURST_RULES, name)
    rules = replace(BURST_RULES, **{name: type(limit)(limit * factor)})
    raw, curated = read("NASA-iPSC-1993-3"), read("NASA-iPSC-1993-3.1-cln")
    left = np.isin(raw.column("job_id").to_pylist(), curated.column("job_id").to_pylist())
    flagged, bursts, *_ = clean(raw, CleanSettings(), rules=rules)
    probes = {row["burst_id"] for row in bursts.to_pylist() if row["screen"] == Flag.PROBE and row["tier"] == "remove"}
    marked = np.isin(np.array(flagged.column("burst_id").to_pylist(), object).astype(str), sorted(probes))
    assert (marked & ~left).sum() >= 0.99 * (~left).sum()
    assert (marked & ~left).sum() >= 0.97 * marked.sum()


def test_what_the_curators_removed_is_found_and_little_else_is_set_aside() -> None:
    rows = [figures(LOGS / f"{name}.swf.gz", BURST_RULES) for name in CURATED]
    removals = [one for row in rows for one in row["removals"]]
    right, wrong = sum(row["true_removed"] for row in rows), sum(row["false_removed"] for row in rows)
    assert len(removals) == 22
    assert sum(one["found"] >= 0.5 for one in removals) >= 20
    assert right >= 0.9 * (right + wrong)
    assert sum(row["cleaned_removed"] < 0.02 for row in rows) >= len(rows) - 1
