"""The hook for OpenPBS finds the limits that a replay of the log finds in the file, and costs nobody a job."""

import ast
import io
import math
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.application_names import application_of
from pipeline.errors import InputError
from pipeline.estimate.estimates import make_estimates
from pipeline.estimate.history import History, history
from pipeline.estimate.stage import learn_state
from pipeline.export.lookup_file import lookup_file
from pipeline.export.lookup_reader import Lookup
from pipeline.export.scheduler_files import (
    CONFIG_FILE,
    HOOK_FILE,
    LOOKUP_FILE,
    PublishedTables,
    known_applications,
    openpbs_files,
)
from pipeline.settings import QUANTILES, ExportSettings, SiteSettings, Whose
from tests.rows import jobs_of
from tests.unit.export.openpbs_server import (
    MODIFYJOB,
    NOW_S,
    QUEUEJOB,
    RUNJOB,
    Job,
    Resources,
    Server,
    installed,
    submit,
)  # fmt: skip
from tests.unit.export.slurm_plugin import found_in, job_at, of_user, table_of

NAMES = (
    "relax_12.sh", "solver-n16", "prep", "Übung 7", "a|b\tc", "77", "x\ny", "prod", "%41", "__import__('os')",
    "$(reboot)", '"; qmgr -c "delete queue workq', "\x1b[31m",
)  # fmt: skip
OWN_RULE = {"prod": "the production"}
LIMITING = ExportSettings(mode="limit")


def a_limited_job() -> Job:
    """A job of a kind that has a limit for the user u1."""
    return submit(4800, Job_Name="prep", select="4:ncpus=1")


def made_jobs(n_jobs: int = 6000) -> pa.Table:
    """Jobs whose runtimes go with user and name; the queue of one in three is not the default one."""
    random = np.random.default_rng(4)
    user, name = random.integers(0, 6, n_jobs), random.integers(0, len(NAMES), n_jobs)
    submit_s = NOW_S - 40 * 86_400 + np.sort(random.integers(0, 39 * 86_400, n_jobs))
    requested_s = 600.0 * 2 ** random.integers(0, 4, n_jobs)
    runtime_s = np.ceil(requested_s / (2 + user) * (1 + name % 3) / 3 * random.lognormal(0, 0.3, n_jobs)) + 1
    names = [NAMES[one] for one in name]
    return jobs_of([
        {
            "user": f"u{user[i]}", "job_name": names[i], "queue": ("workq", "workq", "long")[i % 3],
            "application": OWN_RULE.get(names[i], application_of(names[i])), "submit_s": int(submit_s[i]),
            "start_s": int(submit_s[i]) + 60, "end_s": int(submit_s[i]) + 60 + int(runtime_s[i]),
            "runtime_s": float(runtime_s[i]), "procs": int(2 ** (i % 4)), "requested_s": float(requested_s[i]),
        }
        for i in range(n_jobs)
    ])  # fmt: skip


@pytest.fixture(scope="module")
def jobs() -> pa.Table:
    return made_jobs()


@pytest.fixture(scope="module")
def log(jobs: pa.Table) -> History:
    return history(jobs)


@pytest.fixture(scope="module")
def published(jobs: pa.Table) -> PublishedTables:
    state, _ = learn_state(jobs, SiteSettings(name="here"))
    rows, _ = make_estimates(state, jobs, "run7")
    return PublishedTables(rows, jobs)


@pytest.fixture
def server(published: PublishedTables, tmp_path: Path) -> Server:
    return installed(openpbs_files(published, LIMITING), tmp_path)


def test_every_soft_walltime_is_the_quantile_of_the_file(
    server: Server, published: PublishedTables, log: History
) -> None:
    random = np.random.default_rng(1)
    asked = log.take(np.sort(random.choice(len(log), 150, replace=False)))
    # A third of the submits have a request or a size that the table has never seen.
    asked.requested_s[random.random(len(asked)) < 0.2] = 777.0
    asked.procs[random.random(len(asked)) < 0.2] = 24.0
    file = Lookup(io.BytesIO(lookup_file(published.estimates, known_applications(published.jobs))))
    job_names, n_set = made_jobs().column("job_name").to_pylist(), 0
    for i in range(len(asked)):
        facts = job_at(asked, i)
        job = submit(
            int(asked.requested_s[i]),
            select=f"{int(asked.procs[i])}:ncpus=1:mem=1gb",
            Job_Name=job_names[asked.row[i]],
            queue="" if facts["queue"] == "workq" else types.SimpleNamespace(name=facts["queue"]),
        )
        server.call(QUEUEJOB, job, user=facts["who"])
        row = found_in(file, facts)
        soft_s = math.ceil(row.quantiles_s[QUANTILES.index(LIMITING.quantile)]) if row is not None else 0
        assert job.soft_s == (soft_s if 0 < soft_s < asked.requested_s[i] else None)
        n_set += job.soft_s is not None
    assert n_set > 30 and all(line.startswith("walltime: soft_walltime ") for line in server.log)


def test_a_user_without_jobs_is_planned_by_the_jobs_of_everybody(server: Server) -> None:
    assert 0 < server.call(QUEUEJOB, submit(4800, ncpus=1), user="stranger").soft_s < 4800


def test_in_a_dry_run_nothing_is_set_and_the_log_says_what_would_be(published: PublishedTables, tmp_path: Path) -> None:
    server = installed(openpbs_files(published, ExportSettings(mode="dry_run")), tmp_path)
    for event in (QUEUEJOB, RUNJOB):
        assert server.call(event, a_limited_job()).soft_s is None
    assert len(server.log) == 2
    assert all(line.startswith("walltime: nothing is set (mode dry_run), else soft_walltime ") for line in server.log)


def test_an_old_look_up_sets_nothing_and_says_so(server: Server) -> None:
    server.now_s = NOW_S + 9 * 86_400
    assert server.call(QUEUEJOB, a_limited_job()).soft_s is None
    (line,) = server.log
    assert "days ago" in line


def test_gpus_are_part_of_the_kind(published: PublishedTables, tmp_path: Path) -> None:
    table = table_of(of_user("u1", 600.0, template="who+gpus", gpus=4))
    server = installed(openpbs_files(replace(published, estimates=table), LIMITING), tmp_path)
    typed = table_of(of_user("u1", 600.0, template="who+gpus+gpu_type", gpus=4, gpu_type="a100"))
    jobs = jobs_of([{"queue": "q", "gpus": 4, "gpu_type": "a100"}])
    tables = replace(published, estimates=typed, jobs=jobs)
    other = installed(openpbs_files(tables, LIMITING), tmp_path / "t")
    assert [other.call(QUEUEJOB, submit(3600, ngpus=4, queue=queue)).soft_s for queue in ("q", "r")] == [600, None]
    asks = [{"select": "2:ncpus=4:ngpus=2"}, {"ncpus": 8, "ngpus": 4}, {"select": "2:ncpus=4"}, {"select": "2:ngpus=4"}]
    assert [server.call(QUEUEJOB, submit(3600, **asked)).soft_s for asked in asks] == [600, 600, None, None]


@pytest.mark.parametrize(
    "job",
    [
        submit(None), submit(0), submit(3600, max_walltime=7200),
        submit(Job_Name="prep", Account_Name="phys"), submit(project="phys"), submit(queue="long"),
        submit(queue=types.SimpleNamespace(name="long")),
    ],
)  # fmt: skip
def test_such_a_job_is_left_alone(published: PublishedTables, tmp_path: Path, job: Job) -> None:
    settings = ExportSettings(mode="limit", opt_out=Whose(accounts=("phys",), partitions=("long",), users=("u2",)))
    server = installed(openpbs_files(published, settings), tmp_path)
    assert server.call(QUEUEJOB, job).soft_s is None
    assert server.call(RUNJOB, job).soft_s is None
    assert server.call(QUEUEJOB, submit(), user="u2").soft_s is None
    job = a_limited_job()
    job.project = "_pbs_project_default"
    assert server.call(QUEUEJOB, job).soft_s is not None


@pytest.mark.parametrize("own", [{"Variable_List": {"WALLTIME": "off"}}, {"interactive": 1}])
def test_a_user_opts_out_alone_and_interactive_jobs_are_left(server: Server, own: dict) -> None:
    assert server.call(QUEUEJOB, submit(**own)).soft_s is None
    assert server.call(RUNJOB, submit(**own)).soft_s is None
    assert server.call(QUEUEJOB, submit(Variable_List={"WALLTIME": "on", "HOME": "/"})).soft_s is not None


def test_the_default_queue_is_asked_for_once_a_minute_and_settings_are_read_where_they_changed(server: Server) -> None:
    """Asking the server takes half a millisecond of each submit, and pbs_server keeps modules between hooks."""
    for _ in range(3):
        assert server.call(QUEUEJOB, submit()).soft_s is not None
    assert server.n_asked == 1
    server.now_s += 61
    server.call(QUEUEJOB, submit())
    assert server.n_asked == 2
    server.config["opt_out"]["user"] = ["u1"]
    assert server.call(QUEUEJOB, submit()).soft_s is None


def test_a_soft_walltime_given_at_submit_stays(server: Server) -> None:
    assert server.call(QUEUEJOB, submit(soft_walltime=5)).soft_s == 5


@pytest.mark.parametrize(
    ("walltime", "soft", "wanted"),
    [(10, 20, 10), (20, 20, None), (30, 20, None), (10, None, None), (None, 20, None), (0, 20, None)],
)
def test_a_lowered_walltime_takes_the_soft_one_with_it(
    server: Server, walltime: int | None, soft: int | None, wanted: int | None
) -> None:
    change, before = Job(Resources(walltime=walltime)), Job(Resources(walltime=100, soft_walltime=soft))
    assert server.call(MODIFYJOB, change, before).soft_s == wanted


def test_in_a_dry_run_a_lowered_walltime_is_refused_as_without_the_hook(
    published: PublishedTables, tmp_path: Path
) -> None:
    server = installed(openpbs_files(published, ExportSettings(mode="dry_run")), tmp_path)
    before = Job(Resources(walltime=100, soft_walltime=50))
    assert server.call(MODIFYJOB, Job(Resources(walltime=30)), before).soft_s is None


def test_a_manager_s_own_soft_walltime_is_not_changed(server: Server) -> None:
    before = Job(Resources(walltime=100, soft_walltime=50))
    assert server.call(MODIFYJOB, Job(Resources(walltime=30, soft_walltime=25)), before).soft_s == 25


@pytest.mark.parametrize(
    ("waited_s", "known_later_s", "soft", "is_renewed"),
    [(7200, 10, 5, True), (3599, 10, 5, False), (7200, 0, 5, False), (1, 0, None, True)],
)
def test_a_start_renews_what_waited_while_runtimes_became_known(
    server: Server, published: PublishedTables, waited_s: int, known_later_s: int, soft: int | None, is_renewed: bool
) -> None:
    queued_s = max(published.estimates.column("newest_end_s").to_pylist()) - known_later_s
    server.now_s = queued_s + waited_s
    job = a_limited_job()
    job.qtime, job.Resource_List["soft_walltime"] = queued_s, soft
    assert (server.call(RUNJOB, job).soft_s != soft) == is_renewed


@pytest.mark.parametrize(
    "asked",
    [
        {"select": "2:ncpus=4+1:ncpus=2"}, {"select": "2:ncpus=5:mem=1gb:host=n1"}, {"nodes": "2:ppn=5"},
        {"nodes": "n1:ppn=4+n2:ppn=6#excl"}, {"ncpus": 10}, {"select": "10"}, {"select": "5:mem=2gb+5"},
    ],
)  # fmt: skip
def test_ten_processors_are_asked_for_in_many_ways(published: PublishedTables, tmp_path: Path, asked: dict) -> None:
    table = table_of(of_user("u1", 123.0, template="who+procs", procs=10))
    server = installed(openpbs_files(replace(published, estimates=table), LIMITING), tmp_path)
    assert server.call(QUEUEJOB, submit(3600, **asked)).soft_s == 123
    assert server.call(QUEUEJOB, submit(3600, ncpus=9)).soft_s is None


@pytest.mark.parametrize("damage", [b"", b"another file\n", b"#walltime-lookup 3 stamp=1\n", None])
def test_a_damaged_look_up_leaves_the_job_and_logs_one_line(server: Server, damage: bytes | None) -> None:
    path = server.private / LOOKUP_FILE
    if damage is None:
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.write_bytes(damage)
    assert server.call(QUEUEJOB, a_limited_job()).soft_s is None
    (line,) = server.log
    assert line.startswith("walltime: a job is left as it is: ") and "\n" not in line and line.isascii()


def test_an_alarm_or_a_missing_look_up_leaves_the_job(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    (server.private / LOOKUP_FILE).unlink()
    assert server.call(QUEUEJOB, submit()).soft_s is None

    def alarm(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("json.load", alarm)
    assert server.call(QUEUEJOB, submit()).soft_s is None
    assert [line.partition(": a job")[0] for line in server.log] == ["walltime"] * 2


@pytest.mark.parametrize("name", ["\udcff", "x\n" * 500, "%s%n{}", *NAMES])
def test_a_hostile_name_neither_fails_nor_reaches_the_log(
    published: PublishedTables, tmp_path: Path, name: str
) -> None:
    rows = table_of(of_user(name.encode("utf-8", "backslashreplace").decode(), 600.0), of_user("u1", 600.0))
    server = installed(openpbs_files(replace(published, estimates=rows), LIMITING), tmp_path)
    server.call(QUEUEJOB, submit(Job_Name=name, Account_Name=name, queue=name), user=name)
    job = server.call(QUEUEJOB, submit(Job_Name=name, Account_Name=name, queue=name), user="u1")
    assert job.soft_s == 600
    assert all(line.startswith("walltime: soft_walltime ") and line.isascii() for line in server.log)


def test_what_is_exported_holds_names_in_the_look_up_alone(published: PublishedTables) -> None:
    files = openpbs_files(published, ExportSettings(mode="limit", opt_out=Whose(users=('eve"\n; import os',))))
    others = openpbs_files(published, LIMITING)
    assert {name for name in files if files[name] != others[name]} == {CONFIG_FILE}
    assert all(content.isascii() for content in files.values())
    assert b"relax" not in b"".join(content for name, content in files.items() if name != LOOKUP_FILE)


def test_rules_of_the_site_leave_unlisted_names_unknown(published: PublishedTables, tmp_path: Path) -> None:
    rows = table_of(*(of_user("u1", 600.0, template="who+what", what=one) for one in ("the production", "prep")))
    for own, wanted in ((True, [600, None]), (False, [600, 600])):
        tables = replace(published, estimates=rows, has_own_name_rules=own)
        server = installed(openpbs_files(tables, LIMITING), tmp_path / str(own))
        assert [server.call(QUEUEJOB, submit(1200, Job_Name=name)).soft_s for name in ("prod", "prep")] == wanted


def test_the_hook_is_python_3_6(published: PublishedTables) -> None:
    # pbs_server has the Python of its system; a hook that does not compile makes it refuse every job.
    code = ast.parse(openpbs_files(published, LIMITING)[HOOK_FILE], feature_version=(3, 6))
    functions = [node for node in ast.walk(code) if isinstance(node, ast.FunctionDef)]
    evaluated = [one.annotation for node in functions for one in node.args.args] + [node.returns for node in functions]
    assert not any(isinstance(one, ast.Subscript | ast.BinOp) for one in evaluated)
    assert not [node for node in ast.walk(code) if isinstance(node, ast.ImportFrom) and node.module == "__future__"]


def test_hashed_names_are_refused(published: PublishedTables) -> None:
    with pytest.raises(InputError, match="hashed names"):
        openpbs_files(replace(published, has_hashed_names=True), LIMITING)
