"""The traces of NAS kernels and SMG2000: all messages match, few phases cover them, and machines agree on them."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pipeline.phases import phases as mpi
from pipeline.phases.occurrences import NOT_REPETITIVE, OK, make_plan, status_of
from pipeline.phases.phase_input import Extracted, PhaseRules, PlanRules
from pipeline.phases.platforms import planned_times, predict_runtime

TRACES = Path(__file__).parents[4] / "shared" / "data" / "traces"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not TRACES.is_dir(), reason="TRACES NOT TESTED: no folder shared/data beside the checkout"),
]
NAMES = sorted(path.name.removesuffix(".csv.gz") for path in TRACES.glob("*.csv.gz"))
PAIRS = [(a, b) for a in NAMES for b in NAMES if a != b and a.rpartition(".")[0] == b.rpartition(".")[0]]
SETTINGS = PhaseRules()


@cache
def extracted(name: str) -> Extracted:
    return mpi.extract(TRACES / f"{name}.csv.gz", name, SETTINGS)


def predicted(here: str, there: str, samples: int) -> dict[str, object]:
    found = extracted(here)
    times_s, runtime_s = mpi.times_of(found.points, found.calls, TRACES / f"{there}.csv.gz")
    plan, _ = make_plan(found.phases, found.points, PlanRules(budget=1e-12, least_samples=samples))
    times = planned_times(found.points, plan, times_s, there)
    row: dict[str, object] = predict_runtime(found.phases, times, SETTINGS, procs=found.procs, measured_s=runtime_s)[
        0
    ].to_pylist()[0]
    return row


@pytest.mark.parametrize("name", NAMES)
def test_every_message_matches_and_few_phases_cover_the_run(name: str) -> None:
    found = extracted(name)
    facts = found.reports[-1].facts
    assert (facts["unmatched"], facts["open_receives"]) == (0, 0)
    spans_s = found.points.column("t_end_s").to_numpy() - found.points.column("t_start_s").to_numpy()
    assert spans_s.sum() / found.procs == pytest.approx(facts["runtime_s"], rel=1e-9)
    assert found.phases.num_rows <= 25
    is_relevant = found.phases.column("is_relevant").to_numpy(zero_copy_only=False)
    assert found.phases.column("share").to_numpy()[is_relevant].sum() >= 0.95
    expected = NOT_REPETITIVE if name.startswith(("mg", "is")) else OK
    assert status_of(found.phases, SETTINGS.plan) == expected


@pytest.mark.parametrize(("here", "there"), [pair for pair in PAIRS if pair[0] < pair[1]])
def test_both_platforms_give_the_same_phases(here: str, there: str) -> None:
    one, other = extracted(here), extracted(there)
    columns = ["phase_id", "level", "ticks", "events", "n_occurrences", "repetitive"]
    assert one.phases.select(columns).equals(other.phases.select(columns))
    places = ["phase_id", "occurrence", "position", "rank", "from_event", "to_event"]
    assert one.points.select(places).equals(other.points.select(places))


@pytest.mark.parametrize(("samples", "most"), [(10, 0.05), (30, 0.03)])
def test_the_mean_error_across_platforms_is_small(samples: int, most: float) -> None:
    rows = [predicted(*pair, samples) for pair in PAIRS if not pair[0].startswith("mg")]
    assert len(rows) == 6
    assert np.mean([abs(float(str(row["error"]))) for row in rows]) <= most


def test_an_archive_written_from_a_trace_gives_the_same_phases(tmp_path: Path) -> None:
    pytest.importorskip("otf2", reason="OTF2 NOT TESTED: the extra walltime[otf2] is not installed")
    from tests.unit.phases.otf2_archive import write_archive

    calls = extracted("is.S.8.ib").calls
    again = mpi.extract(write_archive(calls, tmp_path / "run"), "is.S.8.ib", SETTINGS)
    assert again.phases.equals(extracted("is.S.8.ib").phases)
    assert again.points.equals(extracted("is.S.8.ib").points)
