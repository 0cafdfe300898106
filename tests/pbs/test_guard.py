"""`walltime guard` on a real OpenPBS: it changes no job, and reads what the accounting has new."""

from dataclasses import replace
from pathlib import Path

from flows.services.when import read_starts
from tests.flows.support import live_state_of
from tests.pbs.cluster import Cluster, wait_for
from tests.pbs.mix import BLOCKER, MD, Ran, soft_s_of, walltime


def test_a_round_reads_the_accounting_and_notes_when_jobs_are_expected_to_start(
    cluster: Cluster, site: Path, with_hook: list[Ran]
) -> None:
    # The mixes have run since `walltime run`; jobs of other tests left records that a line end cuts in two.
    before = len(live_state_of(site / "tables").state.record.runtime_s)
    ids = [replace(BLOCKER, runs_s=300).submit(cluster, 700 + n) for n in range(3)]
    held = MD.submit(cluster, 700, "-W", f"depend=after:{ids[2]}")
    try:
        soft_s = {job_id: soft_s_of(cluster, job_id) for job_id in [*ids, held]}
        wait_for("starts", 60, lambda: len(cluster.call("qselect", "-s", "R").split()) == 2)
        assert walltime(cluster, site, "guard", "site.toml", "--once") == ""
        assert len(live_state_of(site / "tables").state.record.runtime_s) >= before + len(with_hook)
        assert read_starts(site / "tables").column("job_id").to_pylist() == [ids[2]]
        assert {job_id: soft_s_of(cluster, job_id) for job_id in soft_s} == soft_s
    finally:
        cluster.tried("qdel", "-W", "force", *ids, held)
