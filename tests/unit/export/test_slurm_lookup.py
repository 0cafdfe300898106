"""The look-up of Slurm's plug-in: it answers as method `table` does, is read anew, and may be damaged."""

import re
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.estimate.estimates import estimates_table, table_rows
from pipeline.export.lookup_file import lookup_file
from pipeline.export.lua import lua
from pipeline.export.scheduler_files import PublishedTables, plugin, slurm_files
from pipeline.settings import ExportSettings, Whose
from tests.rows import jobs_of
from tests.table_lookup import look_up, published_rows
from tests.unit.estimate.table_log import made_log, state_at
from tests.unit.export.lua_runner import run_lua, submitted, with_locals
from tests.unit.export.slurm_plugin import NO_VAL, PARTS, each_lua, job_at, needs_lua, of_user, one, table_of


@needs_lua
@each_lua
def test_it_answers_as_method_table_does(interpreter: str, tmp_path: Path) -> None:
    log = made_log()
    published = estimates_table(table_rows(state_at(log), log), "here", "run7")
    (tmp_path / "walltime.lookup").write_bytes(lookup_file(published, {}))
    asked = log.take(np.sort(np.random.default_rng(5).choice(len(log), 300, replace=False)))
    asked.procs[::3] = 77.0
    asked.requested_s[::5] = 123.0
    script = with_locals(plugin(ExportSettings(), False, str(tmp_path / "walltime.lookup")), ("find", "with_lookup"))
    script += f"for _, job in ipairs({lua([job_at(asked, place) for place in range(len(asked))])}) do\n"
    script += "local found = with_lookup(function(file, facts) return find(file, facts, job) end)\n"
    script += "for n = 1, 6 do io.write(('%.17g '):format(found.quantiles[n])) end print('') end"
    found = np.array([line.split() for line in run_lua(interpreter, script, tmp_path)], np.float64)
    columns = published_rows(published)
    assert np.allclose(found, look_up(columns, asked), rtol=1e-6, atol=0)


@needs_lua
@each_lua
def test_a_new_look_up_is_read_when_its_stamp_changes(interpreter: str, installed, tmp_path: Path) -> None:
    installed(of_user("ada", 7200.0))
    (tmp_path / "walltime.lookup").rename(tmp_path / "new")
    text = installed(of_user("ada", 3600.0), mode="limit")
    job = {"user_name": "ada", "name": "x", "partition": "batch", "time_limit": 600, "min_cpus": 1, "script": "x"}
    rename = (
        f"if number == 3 then os.rename({lua(str(tmp_path / 'new'))}, {lua(str(tmp_path / 'walltime.lookup'))}) end"
    )
    found, logged = submitted(interpreter, text, [job] * 4, PARTS, tmp_path, before=rename)
    assert [row["time_limit"] for row in found] == ["60", "60", "120", "120"]
    assert [line.split(",")[0] for line in logged if line.startswith("info")] == [
        "info: walltime: look-up of run r"
    ] * 2


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-2]),
    "another format": lambda path: path.write_bytes(path.read_bytes().replace(b"lookup 4 ", b"lookup 2 ")),
    "no directory": lambda path: path.write_bytes(re.sub(rb"(?m)^\d{12}$", b"x" * 12, path.read_bytes())),
    "no number": lambda path: path.write_bytes(path.read_bytes().replace(b"buckets=", b"bockets=")),
    "newest job": lambda path: path.write_bytes(re.sub(rb"newest_end_s=4", b"newest_end_s=9", path.read_bytes())),
    "templates": lambda path: path.write_bytes(path.read_bytes().replace(b"#chain 6:who", b"#chain 6:wha")),
    "digits of a row": lambda path: path.write_bytes(path.read_bytes().replace(b"\t700\t", b"\t100\t")),
    "a sparse half": lambda path: path.write_bytes(path.read_bytes()[:300] + bytes(len(path.read_bytes()) - 300)),
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


@needs_lua
@each_lua
@pytest.mark.parametrize("damage", DAMAGES)
def test_without_a_good_look_up_jobs_pass_unchanged(interpreter: str, damage: str, installed, tmp_path: Path) -> None:
    text = installed(of_user("ada", 700.0), mode="limit")
    DAMAGES[damage](tmp_path / "walltime.lookup")
    job = {"user_name": "ada", "name": "x", "partition": "batch", "time_limit": 600, "min_cpus": 1, "script": "x"}
    found, logged = submitted(interpreter, text, [job] * 3, PARTS, tmp_path)
    assert {tuple(row.values()) for row in found} == {("600", "nil", "nil")}
    # One line, not one a job.
    assert len([line for line in logged if line.startswith("error: walltime: ")]) == 1


@needs_lua
@each_lua
def test_a_job_of_unknown_fields_passes(interpreter: str, installed, tmp_path: Path) -> None:
    row = {"template": "all", "chain_rank": 8, "runtime_s": 100.0}
    text = installed(row, mode="limit")
    empty = {"user_name": None, "name": None, "partition": None, "min_cpus": NO_VAL, "num_tasks": NO_VAL}
    found = one(interpreter, text, tmp_path, parts={}, **empty)
    assert found["time_limit"] == "30" and "median_s=100" in found["admin_comment"]


def test_hashed_names_are_refused() -> None:
    rows = table_of(of_user("ada", 1.0))
    tables = PublishedTables(rows, has_hashed_names=True)
    with pytest.raises(InputError, match="hashed names"):
        slurm_files(tables, ExportSettings())


def test_both_files_are_ascii_and_the_same_again() -> None:
    jobs = jobs_of([{"job_name": "ü", "application": "ü"}])
    tables = PublishedTables(table_of(of_user("übung", 1.0)), jobs)
    files = slurm_files(tables, ExportSettings(opt_out=Whose(users=("größe",))))
    assert set(files) == {"walltime.lookup", "job_submit.lua", "INSTALL.txt"}
    assert all(text.isascii() for text in files.values())
    assert files == slurm_files(tables, ExportSettings(opt_out=Whose(users=("größe",))))
    assert b"--@" not in files["job_submit.lua"]


@needs_lua
@each_lua
def test_a_look_up_that_grows_or_shrinks_in_place_is_not_used(interpreter: str, installed, tmp_path: Path) -> None:
    """Its first line stays the same, so that what was read of it before would still be believed."""
    text = installed(of_user("ada", 700.0), mode="limit")
    job = {"user_name": "ada", "name": "x", "partition": "batch", "time_limit": 600, "min_cpus": 1, "script": "x"}
    path = lua(str(tmp_path / "walltime.lookup"))
    grow = f"if number == 2 then local f = io.open({path}, 'ab'); f:write('more'); f:close() end"
    found, logged = submitted(interpreter, text, [job] * 3, PARTS, tmp_path, before=grow)
    assert [row["time_limit"] for row in found] == ["30", "600", "600"]
    assert len([line for line in logged if "cut, or is still being copied" in line]) == 1
