"""`walltime when --for pbs` on a real OpenPBS, beside the start that it estimates itself, with a node taken offline."""

import calendar
import json
import logging
import statistics
import time
from pathlib import Path

from tests.pbs.cluster import Cluster, wait_for
from tests.pbs.mix import BLOCKER, MD, walltime

LOG = logging.getLogger(__name__)


def expected_s(cluster: Cluster, site: Path) -> dict[str, float]:
    found = json.loads(walltime(cluster, site, "when", "--for", "pbs", "--from", "tables", "--json"))
    return {row["id"]: row["dispatch_time"] for row in found["jobs"] if row["status"] == "queued"}


def of_pbs_s(cluster: Cluster, jobs: set[str]) -> dict[str, float]:
    said = {job: cluster.job(job).get("estimated", {}).get("start_time") for job in jobs}
    return {job: _instant_s(str(said_at)) for job, said_at in said.items() if said_at}


def _instant_s(said: str) -> float:
    """Of seconds since 1970, or a date in UTC."""
    return float(said) if said.isdecimal() else calendar.timegm(time.strptime(said, "%a %b %d %H:%M:%S %Y"))


def errors_s(said: dict[str, float], true: dict[str, float]) -> list[float]:
    return [abs(said[job] - true[job]) for job in sorted(set(said) & set(true))]


def test_starts_are_near_also_after_a_node_went_offline(cluster: Cluster, site: Path) -> None:
    kinds = (BLOCKER, BLOCKER, MD, BLOCKER, MD, MD)
    ids = [kinds[nth % 6].submit(cluster, 500 + nth) for nth in range(20)]
    held = cluster.submit("alice", "held", "1:ncpus=1", 60, 1, "-h")
    wait_for("starts", 60, lambda: cluster.call("qselect", "-s", "R"))
    first = expected_s(cluster, site)
    own_first = of_pbs_s(cluster, set(first))
    assert held not in first
    wait_for("more starts", 120, lambda: len(cluster.call("qselect", "-s", "Q").split()) < len(first) * 2 // 3)
    # The node that the vnodes belong to would take all of them offline.
    cluster.call("qmgr", "-c", "set node n01 state = offline")
    second = expected_s(cluster, site)
    own_second = of_pbs_s(cluster, set(second))
    cluster.call("qdel", held)
    ended = cluster.wait(ids, 900)
    cluster.call("qmgr", "-c", "set node n01 state -= offline")
    true = {job: float(ended[job]["start"]) for job in ids}
    for when, said, own in (("before", first, own_first), ("after", second, own_second)):
        ours, theirs = errors_s(said, true), errors_s(own, true)
        LOG.info("%s: %d jobs, median error %.0f s; OpenPBS estimates %d, median error %.0f s", when, len(ours),
                 statistics.median(ours), len(theirs), statistics.median(theirs or [0]))  # fmt: skip
        assert len(ours) >= 4
        assert statistics.median(ours) < 30
