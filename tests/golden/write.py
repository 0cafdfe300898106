"""Golden tables of the small sample, as CSV a person can read.

python -m tests.golden.write    write them again; then read the diff
"""

import csv
import io
from pathlib import Path

import pyarrow as pa

GOLDEN = {
    "jobs": ("job_id", "restart", "user", "application", "submit_s", "start_s", "end_s", "procs", "runtime_s",
             "requested_procs", "requested_s", "state", "source_line", "flag",
             "is_lower_bound"),
    "unreadable": ("source_line", "byte_offset", "reason", "raw"),
    "observations": ("procs", "n_jobs", "n_censored", "runtime_s_median", "runtime_s_q10", "runtime_s_q90", "log_sd",
                     "odd", "deviation", "expected_s", "fit_weight"),
    "patterns": ("pattern", "step", "status", "log_odds", "factor", "from_procs", "n_points", "words"),
    "fits": ("law", "t1_s", "avg_parallelism", "sigma", "serial_fraction", "n_points", "status", "is_chosen"),
    "predictions": ("procs", "runtime_s", "runtime_s_lo80", "runtime_s_hi80", "reliability", "method"),
    "estimates": ("template", "who", "what", "procs", "runtime_s_q50", "runtime_s_q95", "ratio_q50", "n_jobs"),
}  # fmt: skip


def golden_text(table: pa.Table, name: str) -> str:
    """The chosen columns as CSV; floats to six significant digits, because the last bits differ between machines."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(GOLDEN[name])
    for row in table.select(list(GOLDEN[name])).to_pylist():
        writer.writerow(f"{value:.6g}" if isinstance(value, float) else value for value in row.values())
    return sink.getvalue()


def main() -> None:
    """Write every golden table beside this file."""
    from pipeline.run import start_run
    from pipeline.settings import RunSettings, SiteSettings
    from tools.plain_run import run_plain

    here = Path(__file__).parent
    log = here.parents[1] / "data_samples" / "traps.swf"
    for _, tables, _ in run_plain(start_run(RunSettings(site=SiteSettings(name="traps")), [log])):
        for name in tables.keys() & GOLDEN.keys():
            (here / f"traps.{name}.csv").write_text(golden_text(tables[name], name))


if __name__ == "__main__":
    main()
