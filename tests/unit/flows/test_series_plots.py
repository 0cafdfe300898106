"""The plot of a series where some figures are unknown."""

from flows.pages.answers.series_chart import draw_series
from flows.pages.html.drawing import styled
from tests.rows import observations_of


def test_a_series_without_efficiencies_is_drawn_without_them() -> None:
    observed = observations_of({"g": {32: 15_000.0, 64: 10_000.0}})
    ends = dict.fromkeys(("runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95"), 12_000.0)
    predictions = [{"procs": procs, "runtime_s": 12_000.0, "efficiency": None, **ends} for procs in (32, 64)]
    with styled():
        drawn = str(draw_series(observed.to_pylist(), predictions, None))
    assert "runtime, s" in drawn and ">efficiency<" not in drawn
