"""How often the look-up table's 95% quantile holds for jobs answered by a row of few jobs, one line a log and age.

python -m benchmarks.sparse_rows LOG ... [--staleness 0,1,7] [--fewer-than 5]

Tables are remade every midnight and read at the given ages, in days. The first third of each log is not scored.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from flows.services.logs.cleaning import flagged_jobs
from flows.services.run.prepare import resolve
from pipeline.estimate.estimate_rules import ESTIMATE_RULES
from pipeline.estimate.nightly.rows import DAY_S
from pipeline.estimate.nightly.table import answered_nightly
from pipeline.estimate.score import QUANTILES
from pipeline.evaluate.backtest import TRAIN_SHARE, past_of

CONFIG = Path(__file__).parents[1] / "configs" / "swf.toml"
Q95 = QUANTILES.index(0.95)


def lines(log: Path, ages_days: list[float], fewer_than: int) -> list[str]:
    """One line of Markdown per age: jobs that sparse rows answer, and the shares held there and on all rows."""
    settings, paths = resolve(CONFIG, [str(log)])
    jobs, _ = flagged_jobs(paths, settings)
    past = past_of(jobs, settings)
    ran = np.flatnonzero(past.has_run)
    scored = ran[int(len(ran) * TRAIN_SHARE) :]
    name, found = log.name.removesuffix(".gz").rpartition(".")[0], []
    for days in ages_days:
        quantiles_s, n_jobs = answered_nightly(replace(past, stale_s=DAY_S * days), ESTIMATE_RULES)
        rows = scored[~np.isnan(quantiles_s[scored, Q95])]
        holds = past.runtime_s[rows] <= quantiles_s[rows, Q95]
        is_sparse = n_jobs[rows] < fewer_than
        sparse, every = (f"{some.mean():.1%}" if len(some) else "" for some in (holds[is_sparse], holds))
        found.append(f"| {name} | {days:g} | {is_sparse.sum():,} | {sparse} | {every} |")
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path, nargs="+")
    parser.add_argument("--staleness", default="0,1,7")
    parser.add_argument("--fewer-than", type=int, default=5)
    chosen = parser.parse_args()
    print(f"| log | days | jobs on rows of fewer than {chosen.fewer_than} | q95 holds there | on all rows |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for log in chosen.logs:
        print("\n".join(lines(log, [float(age) for age in chosen.staleness.split(",")], chosen.fewer_than)), flush=True)


if __name__ == "__main__":
    main()
