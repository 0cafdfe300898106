"""The plot of a series where some figures are unknown."""

from flows.pages.charts import draw
from flows.pages.scaling import series_chart
from tests.rows import observations_of


def test_a_series_without_efficiencies_is_drawn_without_them() -> None:
    observed = observations_of({"g": {32: 15_000.0, 64: 10_000.0}})
    ends = dict.fromkeys(("runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95"), 12_000.0)
    # Half the time on twice the processors is an efficiency of 1; a twelfth is none.
    predictions = [{"procs": procs, "runtime_s": runtime_s, **ends} for procs, runtime_s in ((32, 12e3), (64, 1e3))]
    one = {"observations": observed.to_pylist(), "predictions": predictions, "laws": [], "patterns": []}
    drawn = str(draw(series_chart(one)))
    assert "runtime, s" in drawn and ">efficiency<" not in drawn
