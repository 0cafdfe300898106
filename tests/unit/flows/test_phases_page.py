"""The page of a run's phases: hostile names are spelt out, the same tables give the same bytes, it stands alone."""

import pyarrow as pa

from flows.pages.phases import phases_page
from pipeline.phases.phase_input import PhaseRules
from pipeline.phases.phases import find_phases
from tools.simulation.mpi_steps import HERE, simulated_run

HOSTILE = "<script>alert(1)</script>\x1b[31m"


def found(n_steps: int) -> tuple[pa.Table, pa.Table]:
    phases, points, _ = find_phases(simulated_run(n_steps, 3, HERE, 1)[0], HOSTILE, PhaseRules())
    return phases, points


def page_for(tables: tuple[pa.Table, pa.Table], status: str) -> str:
    rows = tables[0].to_pylist()
    return phases_page(
        {"trace_id": rows[0]["trace_id"], "status": status, "coverage": 0.9, "phases": rows, "notes": ()}, *tables
    )


def test_the_page_stands_alone_and_is_the_same_each_time() -> None:
    tables = found(120)
    page = page_for(tables, "ok")
    assert page == page_for(tables, "ok")
    assert page.count("<svg") == 3
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    assert "<script" not in page and "\x1b" not in page and "&lt;script&gt;" in page


def test_a_run_of_few_steps_says_to_run_it_whole() -> None:
    assert "not repetitive, run it whole" in page_for(found(2), "not_repetitive")
