"""Job names in Slurm's plug-in: they become applications as in ingest, and nothing of a user is run."""

import random
import re
from pathlib import Path

import pytest

from pipeline.application_names import application_of
from pipeline.export.lua import lua, pattern_tree, rule_trees
from pipeline.export.scheduler_files import plugin
from pipeline.settings import ExportSettings
from tests.unit.core.test_applications import CASES
from tests.unit.export.lua_runner import run_lua, submitted, with_locals
from tests.unit.export.slurm_plugin import PARTS, each_lua, needs_lua, of_user, one

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


@needs_lua
@each_lua
def test_names_become_applications_as_ingest_makes_them(interpreter: str, tmp_path: Path) -> None:
    names = [name for _, name, _ in CASES if name.isascii()] + made_names(1500)
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
def test_hostile_names_inject_nothing(interpreter: str, installed, tmp_path: Path) -> None:
    rows = [of_user(name, 100.0 + place) for place, name in enumerate(HOSTILE)]
    text = installed(
        *rows,
        names={name: name for name in HOSTILE},
        mode="limit",
        opt_out={"users": ["ada", *(f"{name}x" for name in HOSTILE)]},
    )
    jobs = [
        {
            "user_name": user,
            "name": name,
            "partition": name,
            "account": name,
            "time_limit": 600,
            "min_cpus": 1,
            "script": "x",
        }
        for user in HOSTILE
        for name in HOSTILE
    ]
    found, logged = submitted(interpreter, text, jobs, PARTS, tmp_path)
    assert not [line for line in logged if line.startswith("error")]
    assert {row["time_limit"] for row in found} == {"30"}
    assert all(re.fullmatch(r"walltime mode=limit [ -~]{60,120}", row["admin_comment"]) for row in found)
    assert not (tmp_path / "pwned").exists() and not Path("pwned").exists()


@needs_lua
@each_lua
def test_the_name_decides_where_the_site_says_so(interpreter: str, installed, tmp_path: Path) -> None:
    def row(what: str, limit_s: float) -> dict[str, object]:
        return of_user("ada", limit_s, template="who+what", chain_rank=0, what=what)

    rows = [
        of_user("ada", 3600.0),
        row("relax", 7200.0),
        row("job_name 42", 10_800.0),
        row("übung", 14_400.0),
        row("listed", 18_000.0),
    ]
    names = {"Übung": "übung", "x_1": "listed"}

    def limits(own: bool) -> list[str]:
        text = installed(*rows, names=names, own=own, mode="limit")
        jobs = [{"name": name} for name in ("relax_77.sh", "42", "Übung", "x_1", "größe", None)]
        return [one(interpreter, text, tmp_path, time_limit=600, **job)["time_limit"] for job in jobs]

    assert limits(False) == ["120", "180", "240", "300", "60", "60"]
    # Rules of the site cannot run in Lua: a name that the file does not list has no application.
    assert limits(True) == ["60", "60", "240", "300", "60", "60"]


@pytest.mark.parametrize("pattern", ["a*", "(a)\\1b", "a(?<!bc)", "\\ba", "a{2}?"])
def test_a_pattern_that_the_matcher_does_not_know_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        pattern_tree(pattern)


def test_a_replacement_with_groups_is_an_error() -> None:
    with pytest.raises(ValueError, match="groups"):
        rule_trees([("(a)", "\\1")])
