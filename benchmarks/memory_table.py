"""Memory that is recommended, beside the request and the largest of the last five, as in benchmarks/memory.md.

python -m benchmarks.memory_table LOG ...

The later third of each log's jobs with a known memory, each answered as of its submit, as `walltime limits LOG`
does with --memory, at promises of 95, 97 and 99%. A log whose memory has few values records what was set
aside for jobs, not what they used: their number is printed beside.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.backtest_table import line, short
from flows.services.limits import limit_log
from pipeline.estimate.baselines import MAX, OWN, latest
from pipeline.estimate.history import History
from pipeline.estimate.state import walltime
from pipeline.evaluate.request_advice import given_kib, later_third, memory_figures, recommended_as_of

PROMISES = (0.95, 0.97, 0.99)
HEADROOM = 1.2
"""What a careful user asks for: the largest of the last five such jobs, and a fifth more."""
HEADER = ("log", "values", "rule", "jobs", "too little", "given and not used, of used", "worst user")


def row_of(log: str, n_values: int, rule: str, one: Mapping[str, Any]) -> str:
    """One line per log and rule: shares in per cent."""
    worst = "" if one["worst_share"] is None else f"{100 * one['worst_share']:.1f} of {one['n_submitters']}"
    shares = [f"{100 * one['share_under']:.2f}", f"{100 * one['over_allocation']:.0f}"] if one["n_jobs"] else ["", ""]
    return line([short(log), f"{n_values:,}", rule, f"{one['n_jobs']:,}", *shares, worst])


def figures_of_rules(past: History) -> dict[str, dict[str, Any]]:
    """The figures of what is recommended and of other rules on the log's later third, by name of the rule."""
    first, quantiles_kib = later_third(past), walltime(past)
    rules = {
        f"recommended, {promise:.0%}": given_kib(past, recommended_as_of(past, quantiles_kib, promise))
        for promise in PROMISES
    }
    rules["request"] = past.requested_s
    rules["last five + 20%"] = given_kib(past, HEADROOM * latest(past, past.runtime_s, OWN, 5, MAX)[:, 1])
    return {name: memory_figures(past, amount_kib, first) for name, amount_kib in rules.items()}


def main() -> None:
    """Print the table of the logs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="+")
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n", flush=True)
    for path in parser.parse_args().logs:
        name, past = limit_log(path, of_memory=True)
        n_values = len(np.unique(past.runtime_s[past.has_run]))
        for rule, one in figures_of_rules(past).items():
            print(row_of(name, n_values, rule, one), flush=True)


if __name__ == "__main__":
    main()
