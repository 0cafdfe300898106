"""What the guard reads beside its rounds: a fake accounting grows, and the State and the answers follow."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flows.services import logs
from flows.services.doctor import diagnose
from flows.services.guard import Watch, watching_alone
from flows.services.logs import run_settings
from flows.services.published.published_folder import live_pointer, live_state
from flows.services.run.running import run_and_publish
from pipeline.errors import InputError
from pipeline.publish import load_manifest
from pipeline.publish.store import kept_table
from tests.flows.fake_programs import Program, Sacct, Scontrol, job
from tests.flows.support import Outcome, live_state_of
from tests.flows.test_guard import slurm_job

Walltime = Callable[..., Outcome]
ROOT = Path(__file__).parents[2]
DAY_S = 86_400
JANUARY_S = 1_767_225_600
N_FIRST = 40


class Site:
    """A fake accounting and queue, and a folder to which a run over them has published."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.config = folder, folder / "out", folder / "site.toml"
        self.sacct = Sacct(folder, [job(n, day=1 + n // 20) for n in range(N_FIRST)])
        self.scontrol = Scontrol(folder)
        self.squeue = Program(folder, "squeue", f"sys.stdout.write(open({str(folder / 'squeue.said')!r}).read())")
        self.pending(slurm_job(7, time_limit=120, name="solver.sh"))
        self.config.write_text(
            f"output_dir = '{self.out}'\n[source]\nkind = 'sacct'\nsince = '2026-01-01'\n"
            f"[ingest]\nsacct_command = '{self.sacct.path}'\n[export]\nmode = 'limit'\nmax_age_days = 9999\n"
        )

    def pending(self, *jobs: dict[str, Any]) -> None:
        (self.folder / "squeue.said").write_text(json.dumps({"jobs": jobs}))

    def grow(self, n: int, **changes: str) -> None:
        """Jobs of the third day join the accounting."""
        known = [job(k, day=1 + k // 20) for k in range(N_FIRST)]
        self.sacct.knows([*known, *(job(N_FIRST + k, day=3, **changes) for k in range(n))])

    def watch(self) -> Watch:
        return Watch(run_settings(self.config), self.config, "slurm", dict(os.environ))


@pytest.fixture(scope="module", autouse=True)
def ten_days_of_overlap() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "OVERLAP_S", 864_000)
        yield


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the run has published to, which is the same for every test."""
    folder = tmp_path_factory.mktemp("watched")
    run_and_publish(str(Site(folder).config))
    return folder / "out"


@pytest.fixture
def site(tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    shutil.copytree(published, tmp_path / "out")
    return Site(tmp_path)


def n_known(site: Site) -> int:
    """The number of ended jobs that the State of the folder has learnt from."""
    return len(live_state_of(site.out).state.record.runtime_s)


def live_table(site: Site) -> Path:
    """The table that is the live State now."""
    path = kept_table(live_pointer(site.out))
    assert path is not None
    return path


def damage_beside(site: Site) -> list[str]:
    """The files beside the versions that the doctor finds damaged."""
    return [one["where"] for one in diagnose(site.out, JANUARY_S, DAY_S)["findings"] if one["check"] == "live"]


def test_new_jobs_enter_the_state_that_answers(site: Site, walltime: Walltime) -> None:
    before = json.loads(walltime("query", "--from", site.out, "--user", "ada", "--json").out)
    watch = site.watch()
    assert watch.run_round(JANUARY_S + 3 * DAY_S)["n_new"] == 0
    site.grow(9)
    assert watch.run_round(JANUARY_S + 4 * DAY_S) == {"n_new": 9, "n_open": 0}
    after = json.loads(walltime("query", "--from", site.out, "--user", "ada", "--json").out)
    assert after["n_submitter"] == before["n_submitter"] + 3 and after["as_of_s"] > before["as_of_s"]
    assert after["run_id"] == before["run_id"]
    assert watch.run_round(JANUARY_S + 4 * DAY_S)["n_new"] == 0


def test_the_answers_are_those_of_a_run_over_all_jobs(site: Site, walltime: Walltime) -> None:
    site.watch().run_round(JANUARY_S + 3 * DAY_S)
    site.grow(12)
    assert site.watch().run_round(JANUARY_S + 4 * DAY_S)["n_new"] == 12
    asked = ("query", "--user", "bob", "--job-name", "solver.sh", "--procs", "4", "--requested", "2h", "--json")
    live = json.loads(walltime(*asked, "--from", site.out).out)
    whole = site.folder / "whole"
    assert walltime("run", site.config, "--plain", "--quiet", "--out", whole).err == ""
    anew = json.loads(walltime(*asked, "--from", whole).out)
    same = [name for name in anew if name.startswith(("runtime_s", "n_")) or name == "as_of_s"]
    assert len(same) > 8 and {name: live[name] for name in same} == {name: anew[name] for name in same}


def test_a_running_job_is_learnt_from_once_it_has_ended(site: Site) -> None:
    watch, n = site.watch(), n_known(site)
    site.grow(1, state="RUNNING")
    assert watch.run_round(JANUARY_S + 3 * DAY_S)["n_new"] == 1
    assert n_known(site) == n
    site.grow(1)
    assert watch.run_round(JANUARY_S + 4 * DAY_S)["n_open"] == 1
    assert n_known(site) == n + 1


def test_a_new_watch_goes_on_and_a_new_version_is_taken_over(site: Site, walltime: Walltime) -> None:
    site.grow(5)
    assert site.watch().run_round(JANUARY_S + 4 * DAY_S)["n_new"] == 5
    watch = site.watch()
    assert watch.run_round(JANUARY_S + 4 * DAY_S)["n_new"] == 0
    site.grow(8)
    assert walltime("run", site.config, "--plain", "--quiet").err == ""
    manifest = load_manifest(site.out)
    assert live_state(manifest) is None and live_table(site).exists()
    assert watch.run_round(JANUARY_S + 5 * DAY_S)["n_new"] == 0
    site.grow(9)
    assert watch.run_round(JANUARY_S + 6 * DAY_S)["n_new"] == 1
    assert live_state(manifest) is not None


def test_a_damaged_live_state_is_passed_over(site: Site) -> None:
    site.grow(5)
    site.watch().run_round(JANUARY_S + 4 * DAY_S)
    n = n_known(site)
    live_table(site).write_bytes(b"PAR1 and no more")
    assert n_known(site) == n - 5
    assert site.watch().run_round(JANUARY_S + 4 * DAY_S)["n_new"] == 5


def test_a_changed_byte_of_the_live_state_is_never_read(site: Site) -> None:
    """Most bytes of a Parquet file change a value and leave the file whole."""
    site.grow(5)
    site.watch().run_round(JANUARY_S + 4 * DAY_S)
    path, n = live_table(site), n_known(site)
    sound = path.read_bytes()
    assert damage_beside(site) == []
    for place in range(4, len(sound), len(sound) // 12):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        assert n_known(site) == n - 5
    assert damage_beside(site) == [str(path)]
    path.write_bytes(sound)
    assert n_known(site) == n


def test_a_failure_is_a_sentence_and_the_next_round_reads_again(site: Site) -> None:
    watch, now_s = site.watch(), JANUARY_S + 4 * DAY_S
    site.grow(5)
    site.sacct.fails(True)
    for _ in range(2):
        with pytest.raises(InputError, match="slurmdbd is not there"):
            watch.run_round(now_s)
    site.sacct.fails(False)
    assert watch.run_round(now_s)["n_new"] == 5


def test_what_failed_after_the_reading_is_read_again(site: Site) -> None:
    watch = site.watch()
    site.grow(5)
    live_pointer(site.out).mkdir(parents=True)
    with pytest.raises(OSError):
        watch.run_round(JANUARY_S + 4 * DAY_S)
    live_pointer(site.out).rmdir()
    assert watch.run_round(JANUARY_S + 4 * DAY_S)["n_new"] == 5


def test_a_second_watch_is_refused(site: Site) -> None:
    with watching_alone(site.out), pytest.raises(InputError, match="another watch"), watching_alone(site.out):
        pass


def accounting_of(numbers: Iterable[int]) -> str:
    """PBS records of ended jobs, one an hour."""
    lines = []
    for n in numbers:
        start_s = JANUARY_S + n * 3600
        stamp = datetime.fromtimestamp(start_s + 1800, UTC).strftime("%m/%d/%Y %H:%M:%S")
        lines.append(
            f"{stamp};E;{n + 1}.pbs;user=ada group=staff jobname=solver queue=long ctime={start_s - 60} "
            f"qtime={start_s - 60} etime={start_s - 60} start={start_s} exec_host=n1/0*4 Resource_List.ncpus=4 "
            f"Resource_List.walltime=02:00:00 session=1 end={start_s + 1800} Exit_status=0 "
            f"resources_used.walltime=00:30:00\n"
        )
    return "".join(lines)


def test_a_folder_of_accounting_files_is_followed(
    tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    folder = tmp_path / "accounting"
    folder.mkdir()
    (folder / "20260101").write_text(accounting_of(range(30)))
    config = tmp_path / "site.toml"
    Program(tmp_path, "qstat", 'print(\'{"pbs_version": "23"}\')')
    config.write_text(
        f"output_dir = '{tmp_path / 'out'}'\n[source]\nkind = 'folder'\nfolder = 'accounting'\n"
        "[guard]\nscheduler = 'pbs'\n"
    )
    assert walltime("run", config, "--plain", "--quiet").err == ""
    watch = Watch(run_settings(config), config, "pbs", dict(os.environ))
    assert watch.run_round(JANUARY_S)["n_new"] == 0
    (folder / "20260102").write_text(accounting_of(range(30, 34)))
    assert watch.run_round(JANUARY_S)["n_new"] == 4
    with (folder / "20260102").open("a") as file:
        file.write(accounting_of(range(34, 36)))
    assert watch.run_round(JANUARY_S)["n_new"] == 2
    assert watch.run_round(JANUARY_S)["n_new"] == 0
