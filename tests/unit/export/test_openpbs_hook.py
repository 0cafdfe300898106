"""The hook for OpenPBS answers as the method `table` does, and costs nobody a job."""

import ast
import math
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.application_names import application_of
from pipeline.errors import InputError
from pipeline.estimate.history import History, history
from pipeline.estimate.nightly.table import estimates, look_up, table_rows
from pipeline.export import scheduler_files
from pipeline.export.published_tables import PublishedTables, known_applications
from pipeline.export.scheduler_files import CONFIG_FILE, HOOK_FILE, LOOKUP_FILE, openpbs_files
from pipeline.settings import ExportSettings, OptOut
from tests.rows import jobs_of
from tests.unit.estimate.table_log import SETTINGS, state_at
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

NAMES = (
    "relax_12.sh", "solver-n16", "prep", "Übung 7", "a|b\tc", "77", "x\ny", "prod", "%41", "__import__('os')",
    "$(reboot)", '"; qmgr -c "delete queue workq', "\x1b[31m",
)  # fmt: skip
OWN_RULE = {"prod": "the production"}


def made_jobs(n_jobs: int = 1500) -> pa.Table:
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
def published(jobs: pa.Table, log: History) -> PublishedTables:
    rows = estimates(table_rows(state_at(log), SETTINGS), "here", "run7")
    return PublishedTables(rows, known_applications(jobs), has_hashed_names=False, has_own_name_rules=False)


@pytest.fixture
def server(published: PublishedTables, tmp_path: Path) -> Server:
    return installed(openpbs_files(published, ExportSettings()), tmp_path)


def test_every_soft_walltime_is_the_median_of_method_table(
    server: Server, published: PublishedTables, log: History
) -> None:
    random = np.random.default_rng(1)
    asked = log.take(np.sort(random.choice(len(log), 150, replace=False)))
    # A third of the submits have a request or a size that the table has never seen.
    asked.requested_s[random.random(len(asked)) < 0.2] = 777.0
    asked.procs[random.random(len(asked)) < 0.2] = 24.0
    rows = published.estimates
    wanted = look_up({name: rows.column(name).to_numpy(zero_copy_only=False) for name in rows.column_names}, asked)
    job_names = made_jobs().column("job_name").to_pylist()
    for i in range(len(asked)):
        queue = asked.names["queue"][asked.codes["queue"][i]]
        job = submit(
            int(asked.requested_s[i]),
            select=f"{int(asked.procs[i])}:ncpus=1:mem=1gb",
            Job_Name=job_names[asked.row[i]],
            queue="" if queue == "workq" else types.SimpleNamespace(name=queue),
        )
        server.call(QUEUEJOB, job, user=asked.names["who"][asked.codes["who"][i]])
        # The look-up has seven digits.
        assert job.soft_s is not None
        assert math.ceil(wanted[i, 1] - 1e-3) <= job.soft_s <= math.ceil(wanted[i, 1] + 1e-3)
        assert 1 <= job.soft_s <= asked.requested_s[i]
    assert all(line.startswith("walltime: soft_walltime ") for line in server.log)


def test_a_margin_and_a_high_quantile_stay_below_the_walltime(
    published: PublishedTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_files, "SOFT_QUANTILE", 0.99)
    monkeypatch.setattr(scheduler_files, "SOFT_MARGIN_S", 1e6)
    server = installed(openpbs_files(published, ExportSettings()), tmp_path)
    assert server.config["quantile"] == "q99"
    assert server.call(QUEUEJOB, submit(3600)).soft_s == 3600


@pytest.mark.parametrize(
    "job",
    [
        submit(None), submit(0), submit(3600, max_walltime=7200),
        submit(Job_Name="prep", Account_Name="phys"), submit(project="phys"), submit(queue="long"),
        submit(queue=types.SimpleNamespace(name="long")),
    ],
)  # fmt: skip
def test_such_a_job_is_left_alone(published: PublishedTables, tmp_path: Path, job: Job) -> None:
    settings = ExportSettings(opt_out=OptOut(accounts=("phys",), partitions=("long",), users=("u2",)))
    server = installed(openpbs_files(published, settings), tmp_path)
    assert server.call(QUEUEJOB, job).soft_s is None
    assert server.call(RUNJOB, job).soft_s is None
    assert server.call(QUEUEJOB, submit(), user="u2").soft_s is None
    assert server.call(QUEUEJOB, submit(project="_pbs_project_default")).soft_s is not None


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
    job = server.call(RUNJOB, submit(3600, soft_walltime=soft, qtime=queued_s))
    assert (job.soft_s != soft) == is_renewed


@pytest.mark.parametrize(
    "asked",
    [
        {"select": "2:ncpus=4+1:ncpus=2"}, {"select": "2:ncpus=5:mem=1gb:host=n1"}, {"nodes": "2:ppn=5"},
        {"nodes": "n1:ppn=4+n2:ppn=6#excl"}, {"ncpus": 10}, {"select": "10"}, {"select": "5:mem=2gb+5"},
    ],
)  # fmt: skip
def test_ten_processors_are_asked_for_in_many_ways(published: PublishedTables, tmp_path: Path, asked: dict) -> None:
    rows = published.estimates.slice(0, 1).to_pylist()
    rows[0] |= {"template": "procs", "chain_rank": 0, "procs": 10.0, "runtime_s_q50": 123.0, "ratio_q50": None}
    rows[0] |= {name: None for name in published.estimates.column_names if name.startswith("ratio")}
    table = pa.Table.from_pylist(rows, published.estimates.schema)
    server = installed(openpbs_files(PublishedTables(table, {}, False, False), ExportSettings()), tmp_path)
    assert server.call(QUEUEJOB, submit(3600, **asked)).soft_s == 123
    assert server.call(QUEUEJOB, submit(3600, ncpus=9)).soft_s is None


@pytest.mark.parametrize("damage", [b"", b"another file\n", b"#walltime-lookup 1 stamp=1\n", None])
def test_a_damaged_look_up_leaves_the_job_and_logs_one_line(server: Server, damage: bytes | None) -> None:
    path = server.private / LOOKUP_FILE
    if damage is None:
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.write_bytes(damage)
    assert server.call(QUEUEJOB, submit()).soft_s is None
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
def test_a_hostile_name_neither_fails_nor_reaches_the_log(server: Server, name: str) -> None:
    job = server.call(QUEUEJOB, submit(Job_Name=name, Account_Name=name, queue=name), user=name)
    assert job.soft_s is not None
    (line,) = server.log
    assert line.startswith("walltime: soft_walltime ") and line.isascii() and "\n" not in line


def test_what_is_exported_holds_names_in_the_look_up_alone(published: PublishedTables) -> None:
    files = openpbs_files(published, ExportSettings(opt_out=OptOut(users=('eve"\n; import os',))))
    others = openpbs_files(published, ExportSettings())
    assert {name for name in files if files[name] != others[name]} == {CONFIG_FILE}
    assert all(content.isascii() for content in files.values())
    assert b"relax" not in b"".join(content for name, content in files.items() if name != LOOKUP_FILE)


def test_rules_of_the_site_leave_unlisted_names_unknown(published: PublishedTables, tmp_path: Path) -> None:
    tables = PublishedTables(published.estimates, published.applications, False, has_own_name_rules=True)
    server = installed(openpbs_files(tables, ExportSettings()), tmp_path)
    for name in ("prod", "prep"):
        server.call(QUEUEJOB, submit(1200, Job_Name=name))
    assert ["what" in line for line in server.log] == [True, False]


def test_the_hook_is_python_3_6(published: PublishedTables) -> None:
    # pbs_server has the Python of its system; a hook that does not compile makes it refuse every job.
    code = ast.parse(openpbs_files(published, ExportSettings())[HOOK_FILE], feature_version=(3, 6))
    functions = [node for node in ast.walk(code) if isinstance(node, ast.FunctionDef)]
    evaluated = [one.annotation for node in functions for one in node.args.args] + [node.returns for node in functions]
    assert not any(isinstance(one, ast.Subscript | ast.BinOp) for one in evaluated)
    assert not [node for node in ast.walk(code) if isinstance(node, ast.ImportFrom) and node.module == "__future__"]


def test_hashed_names_are_refused(published: PublishedTables) -> None:
    with pytest.raises(InputError, match="hashed names"):
        openpbs_files(PublishedTables(published.estimates, {}, True, False), ExportSettings())
