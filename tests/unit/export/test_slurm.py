"""Slurm's plug-in in Lua: it finds what method `table` answers, changes what it may, and runs nothing of a user."""

import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.core.applications import RULES, application_of
from pipeline.core.errors import InputError
from pipeline.core.export_settings import ExportSettings
from pipeline.core.limit_comment import asked_s_of
from pipeline.core.tables import ESTIMATES
from pipeline.estimate.history import History
from pipeline.estimate.nightly.rows import estimates, look_up
from pipeline.estimate.nightly.table import learn_table, table_rows
from pipeline.export.lookup_file import lookup_file
from pipeline.export.lua_patterns import pattern_tree, rule_trees
from pipeline.export.lua_text import lua
from pipeline.export.published_tables import PublishedTables
from pipeline.export.slurm import plugin, slurm_files
from tests.unit.estimate.table_log import SETTINGS, made_log
from tests.unit.export.lua_runner import INTERPRETERS, MISSING, run_lua, submitted, with_locals

needs_lua = pytest.mark.skipif(not INTERPRETERS, reason=MISSING)
each_lua = pytest.mark.parametrize("interpreter", INTERPRETERS or ("lua",))

HOSTILE = (
    '"]] os.execute("touch pwned") --',
    "]]",
    "\\",
    "\\n",
    "'..os.exit(3)..'",
    "%s%d%99999s",
    "%",
    "%1",
    "a|b\tc\nd",
    "^$()%.[]*+-?",
    "$(touch pwned)",
    "`touch pwned`",
    "x" * 5000,
    "_1" * 200,
    "n1_" * 120,
    "2024-" * 60,
    "übung",
    "\x01",
    "0",
    " ",
    "--@RULES@",
)
NO_VAL, INFINITE = 4294967294, 4294967295
PARTS = {
    "batch": {"default_time": 30, "max_time": 1440, "flag_default": 1},
    "long": {"default_time": NO_VAL, "max_time": 600},
}


def table_of(*rows: dict[str, object]) -> pa.Table:
    """ESTIMATES of rows with a constant runtime_s unless given."""
    plain = {"site": "here", "run_id": "r", "newest_end_s": 5, "n_jobs": 7, "n_effective": 7.0}
    full = []
    for row in rows:
        given = plain | row
        runtime_s = given.pop("runtime_s", 100.0)
        full.append({f"runtime_s_{q}": runtime_s for q in ("q10", "q50", "q80", "q90", "q95", "q99")} | given)
    names = {name for row in full for name in row}
    return ESTIMATES.build(**{name: [row.get(name) for row in full] for name in sorted(names)})


def of_user(who: str, runtime_s: float, **values: object) -> dict[str, object]:
    return {"template": "who", "chain_rank": 6, "who": who, "runtime_s": runtime_s} | values


@pytest.fixture
def installed(tmp_path: Path):
    """A function that writes a look-up of rows and gives the plug-in's text."""

    def install(*rows: dict[str, object], names: dict[str, str] | None = None, own: bool = False, **settings) -> str:
        (tmp_path / "walltime.lookup").write_bytes(lookup_file(table_of(*rows), names or {}))
        return plugin(ExportSettings(**settings), own, str(tmp_path / "walltime.lookup"))

    return install


def one(interpreter: str, text: str, folder: Path, parts=PARTS, **job) -> dict[str, str]:
    plain = {"user_name": "ada", "name": "relax_12.sh", "partition": "batch", "time_limit": 60, "min_cpus": 4}
    (found,), logged = submitted(interpreter, text, [plain | job], parts, folder)
    assert not [line for line in logged if line.startswith("error")], logged
    return found


@needs_lua
@each_lua
def test_it_answers_as_method_table_does(interpreter: str, tmp_path: Path) -> None:
    log = made_log()
    state = learn_table(log, SETTINGS)
    published = estimates(table_rows(state, state.known_s, SETTINGS), "here", "run7")
    (tmp_path / "walltime.lookup").write_bytes(lookup_file(published, {}))
    asked = log.take(np.sort(np.random.default_rng(5).choice(len(log), 300, replace=False)))
    asked.procs[::3] = 77.0
    asked.requested_s[::5] = 123.0
    script = with_locals(plugin(ExportSettings(), False, str(tmp_path / "walltime.lookup")), ("find", "with_lookup"))
    script += f"for _, job in ipairs({lua([job_at(asked, place) for place in range(len(asked))])}) do\n"
    script += "local found = with_lookup(function(file, facts) return find(file, facts, job) end)\n"
    script += "for n = 1, 6 do io.write(('%.17g '):format(found.quantiles[n])) end print('') end"
    found = np.array([line.split() for line in run_lua(interpreter, script, tmp_path)], np.float64)
    columns = {name: published.column(name).to_numpy(zero_copy_only=False) for name in published.column_names}
    assert np.allclose(found, look_up(columns, asked), rtol=1e-6, atol=0)


def job_at(log: History, place: int) -> dict[str, str | float | None]:
    texts = {name: [*log.names[name], None][log.codes[name][place]] for name in ("who", "what", "queue")}
    return texts | {"requested_s": float(np.nan_to_num(log.requested_s[place])), "procs": float(log.procs[place])}


@needs_lua
@each_lua
def test_names_become_applications_as_ingest_makes_them(interpreter: str, tmp_path: Path) -> None:
    names = [name for rule in RULES for name, _ in rule.examples if name.isascii()] + made_names(1500)
    script = with_locals(plugin(ExportSettings(), False), ("application_of",))
    script += f"for _, name in ipairs({lua(names)}) do print(shown(application_of(name))) end"
    found = run_lua(interpreter, script, tmp_path)
    assert found == [application_of(name) or "nil" for name in names]


def made_names(n_names: int) -> list[str]:
    """Names put together from what the rules look for, with a fixed seed."""
    source = random.Random(11)
    parts = (
        "relax",
        "a.out",
        "n",
        "np",
        "seed",
        "iter",
        "run",
        "cores",
        "gb",
        "ns",
        "x",
        "v",
        "3f2a9c1d",
        "0a1b2c",
        "12",
        "0017",
        "2024-05-01",
        "20240501t1230",
        "20240501_123059",
        "1.5",
        "128x128x64",
        "[0-99%4]",
        "(12)",
        "A",
        "SOLVER",
        "deadbeef1",
        "123e4567-e89b-12d3-a456-426614174000",
        ".sh",
        ".py",
        ".tar",
        "/",
        "./",
        "~",
        " ",
        "\t",
        "%",
        "=",
        ":",
        "\n",
        "\x1f",
    )
    glue = ("", "", "_", "-", ".", "__", " ")
    return [
        "".join(source.choice(parts) + source.choice(glue) for _ in range(source.randint(1, 7))) for _ in range(n_names)
    ]


@needs_lua
@each_lua
def test_by_default_it_only_comments(interpreter: str, installed, tmp_path: Path) -> None:
    found = one(interpreter, installed(of_user("ada", 100.0)), tmp_path)
    assert found["time_limit"] == "60" and found["site_factor"] == "nil"
    comment = r"walltime mode=dry_run stamp=[0-9a-f]{16} row=6 jobs=7 median_s=100 limit_min=12 asked_min=60"
    assert re.fullmatch(comment, found["admin_comment"])
    assert asked_s_of(found["admin_comment"]) == 3600.0


@needs_lua
@each_lua
def test_a_limit_is_lowered_to_quantile_and_margin_and_never_raised(
    interpreter: str, installed, tmp_path: Path
) -> None:
    row = of_user("ada", 100.0, runtime_s_q95=661.0, runtime_s_q99=3000.0)
    text = installed(row, mode="limit", quantile=0.95, margin_s=60.0)
    jobs = [
        {"time_limit": 60},
        {"time_limit": 13},
        {"time_limit": 14},
        {"time_limit": 12},
        {"time_limit": 1},
        {"time_limit": NO_VAL},
        {"time_limit": INFINITE},
        {"time_limit": 60, "time_min": 20},
        {"time_limit": NO_VAL, "partition": "long"},
        {"time_limit": NO_VAL, "partition": "other"},
        {"time_limit": NO_VAL, "partition": None},
    ]
    wanted = ["13", "13", "13", "12", "1", "13", f"{INFINITE}", "20", "13", f"{NO_VAL}", "13"]
    assert [one(interpreter, text, tmp_path, **job)["time_limit"] for job in jobs] == wanted


@needs_lua
def test_a_small_change_is_not_made(installed, tmp_path: Path) -> None:
    text = installed(of_user("ada", 100.0), mode="limit", margin_s=0.0, least_change_s=1200.0)
    assert [one(INTERPRETERS[0], text, tmp_path, time_limit=n)["time_limit"] for n in (21, 22)] == ["21", "2"]


@needs_lua
@each_lua
def test_who_has_opted_out_is_left_alone(interpreter: str, installed, tmp_path: Path) -> None:
    text = installed(
        of_user("ada", 100.0),
        of_user('e"vil', 100.0),
        mode="limit",
        opt_out_users=["bob", 'e"vil'],
        opt_out_accounts=["chem"],
        opt_out_partitions=["debug"],
    )
    left = [
        {"user_name": 'e"vil'},
        {"account": "chem"},
        {"default_account": "chem"},
        {"partition": "debug"},
        {"partition": "batch,debug"},
        {"partition": None, "parts": {"debug": {"flag_default": 1}}},
    ]
    for job in left:
        found = one(interpreter, text, tmp_path, **job)
        assert (found["time_limit"], found["admin_comment"]) == ("60", "nil"), job
    for job in ({}, {"account": "physics", "default_account": "chem"}):
        assert one(interpreter, text, tmp_path, **job)["time_limit"] == "12"


@needs_lua
@each_lua
def test_short_jobs_get_a_higher_site_factor(interpreter: str, installed, tmp_path: Path) -> None:
    factors = []
    for runtime_s in (1.0, 60.0, 3600.0, 86_400.0, 10 * 86_400.0):
        text = installed(of_user("ada", runtime_s), mode="priority", priority_per_halving=10.0)
        found = one(interpreter, text, tmp_path, time_limit=100_000)
        assert found["time_limit"] == "100000"
        factors.append(int(found["site_factor"]))
    assert factors == [105, 105, 46, 0, -33]


@needs_lua
@each_lua
def test_hostile_names_inject_nothing(interpreter: str, installed, tmp_path: Path) -> None:
    rows = [of_user(name, 100.0 + place) for place, name in enumerate(HOSTILE)]
    text = installed(
        *rows,
        names={name: name for name in HOSTILE},
        mode="limit",
        opt_out_users=["ada", *(f"{name}x" for name in HOSTILE)],
    )
    jobs = [
        {"user_name": user, "name": name, "partition": name, "account": name, "time_limit": 60, "min_cpus": 1}
        for user in HOSTILE
        for name in HOSTILE
    ]
    found, logged = submitted(interpreter, text, jobs, PARTS, tmp_path)
    assert not [line for line in logged if line.startswith("error")]
    assert {row["time_limit"] for row in found} == {"12"}
    assert all(re.fullmatch(r"walltime mode=limit [ -~]{60,120}", row["admin_comment"]) for row in found)
    assert not (tmp_path / "pwned").exists() and not Path("pwned").exists()


@needs_lua
@each_lua
def test_the_name_decides_where_the_site_says_so(interpreter: str, installed, tmp_path: Path) -> None:
    def row(what: str, runtime_s: float) -> dict[str, object]:
        key = {"who": "ada", "what": what, "requested_s": 3600.0}
        return {"template": "who+what+requested_s", "chain_rank": 3, "runtime_s": runtime_s} | key

    rows = [
        of_user("ada", 60.0),
        row("relax", 120.0),
        row("job_name 42", 180.0),
        row("übung", 240.0),
        row("listed", 300.0),
    ]
    names = {"Übung": "übung", "x_1": "listed"}

    def limits(own: bool) -> list[str]:
        text = installed(*rows, names=names, own=own, mode="limit", margin_s=0.0)
        jobs = [{"name": name} for name in ("relax_77.sh", "42", "Übung", "x_1", "größe", None)]
        return [one(interpreter, text, tmp_path, **job)["time_limit"] for job in jobs]

    assert limits(False) == ["2", "3", "4", "5", "1", "1"]
    # Rules of the site cannot run in Lua: a name that the file does not list has no application.
    assert limits(True) == ["1", "1", "4", "5", "1", "1"]


@needs_lua
@each_lua
def test_a_new_look_up_is_read_when_its_stamp_changes(interpreter: str, installed, tmp_path: Path) -> None:
    installed(of_user("ada", 600.0))
    (tmp_path / "walltime.lookup").rename(tmp_path / "new")
    text = installed(of_user("ada", 60.0), mode="limit", margin_s=0.0)
    job = {"user_name": "ada", "name": "x", "partition": "batch", "time_limit": 60, "min_cpus": 1}
    rename = (
        f"if number == 3 then os.rename({lua(str(tmp_path / 'new'))}, {lua(str(tmp_path / 'walltime.lookup'))}) end"
    )
    found, logged = submitted(interpreter, text, [job] * 4, PARTS, tmp_path, before=rename)
    assert [row["time_limit"] for row in found] == ["1", "1", "10", "10"]
    assert [line.split(",")[0] for line in logged if line.startswith("info")] == [
        "info: walltime: look-up of run r"
    ] * 2


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-2]),
    "another format": lambda path: path.write_bytes(path.read_bytes().replace(b"lookup 1 ", b"lookup 2 ")),
    "no directory": lambda path: path.write_bytes(re.sub(rb"(?m)^\d{12}$", b"x" * 12, path.read_bytes())),
    "no number": lambda path: path.write_bytes(path.read_bytes().replace(b"buckets=", b"bockets=")),
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


@needs_lua
@each_lua
@pytest.mark.parametrize("damage", DAMAGES)
def test_without_a_good_look_up_jobs_pass_unchanged(interpreter: str, damage: str, installed, tmp_path: Path) -> None:
    text = installed(of_user("ada", 100.0), mode="limit")
    DAMAGES[damage](tmp_path / "walltime.lookup")
    job = {"user_name": "ada", "name": "x", "partition": "batch", "time_limit": 60, "min_cpus": 1}
    found, logged = submitted(interpreter, text, [job] * 3, PARTS, tmp_path)
    assert {tuple(row.values()) for row in found} == {("60", "nil", "nil")}
    # One line, not one a job.
    assert len([line for line in logged if line.startswith("error: walltime: ")]) == 1


@needs_lua
@each_lua
def test_a_job_of_unknown_fields_passes(interpreter: str, installed, tmp_path: Path) -> None:
    text = installed({"template": "all", "chain_rank": 8, "runtime_s": 100.0}, mode="limit")
    empty = {"user_name": None, "name": None, "partition": None, "min_cpus": NO_VAL, "num_tasks": NO_VAL}
    assert one(interpreter, text, tmp_path, parts={}, **empty)["time_limit"] == "12"


@needs_lua
def test_another_comment_of_the_administrator_stays(installed, tmp_path: Path) -> None:
    found = one(INTERPRETERS[0], installed(of_user("ada", 100.0)), tmp_path, admin_comment="ticket 7")
    assert found["admin_comment"].startswith("ticket 7; walltime mode=dry_run ")


@needs_lua
def test_processors_are_those_that_the_accounting_tells(installed, tmp_path: Path) -> None:
    def row(procs: int) -> dict[str, object]:
        return {"template": "who+procs", "chain_rank": 5, "who": "ada", "procs": procs, "runtime_s": 60.0 * procs}

    text = installed(*(row(procs) for procs in (1, 2, 6, 8)), mode="limit", margin_s=0.0)
    jobs = [
        {"min_cpus": 8},
        {"min_cpus": NO_VAL, "num_tasks": 3, "cpus_per_task": 2},
        {"min_cpus": 1, "min_nodes": 2},
        {"min_cpus": NO_VAL},
        {"min_cpus": NO_VAL, "num_tasks": 2, "cpus_per_task": 65534},
    ]
    assert [one(INTERPRETERS[0], text, tmp_path, **job)["time_limit"] for job in jobs] == ["8", "6", "1", "1", "2"]


def test_hashed_names_are_refused() -> None:
    tables = PublishedTables(table_of(of_user("ada", 1.0)), {}, has_hashed_names=True, has_own_name_rules=False)
    with pytest.raises(InputError, match="hashed names"):
        slurm_files(tables, ExportSettings())


def test_both_files_are_ascii_and_the_same_again() -> None:
    tables = PublishedTables(
        table_of(of_user("übung", 1.0)), {"ü": "ü"}, has_hashed_names=False, has_own_name_rules=False
    )
    files = slurm_files(tables, ExportSettings(opt_out_users=("größe",)))
    assert set(files) == {"walltime.lookup", "job_submit.lua", "INSTALL.txt"}
    assert all(text.isascii() for text in files.values())
    assert files == slurm_files(tables, ExportSettings(opt_out_users=("größe",)))
    assert b"--@" not in files["job_submit.lua"]


@pytest.mark.parametrize("pattern", ["a*", "(a)\\1b", "a(?<!bc)", "\\ba", "a{2}?"])
def test_a_pattern_that_the_matcher_does_not_know_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        pattern_tree(pattern)


def test_a_replacement_with_groups_is_an_error() -> None:
    with pytest.raises(ValueError, match="groups"):
        rule_trees([("(a)", "\\1")])
