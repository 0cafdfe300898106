"""Memory that is recommended, beside the request and the largest of the last five, as in benchmarks/memory.md.

python -m benchmarks.memory_table LOG ...

The figures are those of `walltime limits LOG --memory --score` at promises of 95, 97 and 99%: the later third of each
log's jobs with a known memory, each answered as of its submit. A log whose memory has few values records what was set
aside for jobs, not what they used: their number is printed beside.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.backtest_table import line, short
from flows.services.limits import memory_log, score_memory

PROMISES = (0.95, 0.97, 0.99)
HEADER = ("log", "values", "rule", "jobs", "too little", "given and not used, of used", "worst user")


def row_of(log: str, n_values: int, rule: str, one: Mapping[str, Any]) -> str:
    """One line per log and rule: shares in per cent."""
    worst = "" if one["worst_share"] is None else f"{100 * one['worst_share']:.1f} of {one['n_submitters']}"
    shares = [f"{100 * one['share_under']:.2f}", f"{100 * one['over_allocation']:.0f}"] if one["n_jobs"] else ["", ""]
    return line([short(log), f"{n_values:,}", rule, f"{one['n_jobs']:,}", *shares, worst])


def main() -> None:
    """Print the table of the logs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="+")
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n", flush=True)
    for path in parser.parse_args().logs:
        log = memory_log(path)
        n_values = len(np.unique(log.past.runtime_s[log.past.has_run]))
        scores = {promise: score_memory(log, promise)["rules"] for promise in PROMISES}
        rows = {f"recommended, {promise:.0%}": rules["recommended"] for promise, rules in scores.items()}
        rows |= {name: one for name, one in scores[PROMISES[0]].items() if name != "recommended"}
        for rule, one in rows.items():
            print(row_of(log.name, n_values, rule, one), flush=True)


if __name__ == "__main__":
    main()
