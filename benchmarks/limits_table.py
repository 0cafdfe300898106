"""Recommended limits beside other rules, as the table of benchmarks/limits.md: one log after another.

python -m benchmarks.limits_table LOG ...

The figures are those of `walltime limits LOG --score`: as-of limits, scored on each log's later half.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.backtest_table import line, short
from flows.services.limits import limit_log, score

PROMISE = 0.97
RULE, STRETCHED = "MetaCentrum's rule", "the rule, stretched"
HEADER = ("log", "jobs", "rule", "beyond", "removed", "removed / rule's", "lost", "worst user")


def rows_of(found: Mapping[str, Any]) -> list[str]:
    """One line per rule: shares in per cent."""
    basis = found["rules"][RULE]["removed_share"]
    return [
        line([
            short(found["log"]), f"{one['n_jobs']:,}", name, _percent(one["share_beyond"]),
            _percent(one["removed_share"]), f"{one['removed_share'] / basis:.2f}" if basis else "",
            _percent(one["lost_share"]), f"{_percent(one['worst_share'])} of {one['n_submitters']}",
        ])
        for name, one in found["rules"].items()
    ]  # fmt: skip


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def ratio(found: Mapping[str, Any], rule: str) -> float:
    """Over-requested processor-hours removed by the limits over those removed by a rule."""
    rules = found["rules"]
    return float(rules["limits"]["removed_share"] / rules[rule]["removed_share"])


def main() -> None:
    """Print the table of the logs named on the command line, and the median ratio."""
    if len(sys.argv) < 2:
        sys.exit("Give one log or more.")
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n", flush=True)
    ratios: dict[str, list[float]] = {RULE: [], STRETCHED: []}
    for path in sys.argv[1:]:
        found = score(limit_log(Path(path)), PROMISE)
        for rule, own in ratios.items():
            own.append(ratio(found, rule))
        print("\n".join(rows_of(found)), flush=True)
    for rule, own in ratios.items():
        print(f"\nRemoved by the limits over {rule}: median {median(own):.2f}, least {min(own):.2f}.")


if __name__ == "__main__":
    main()
