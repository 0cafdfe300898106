"""What jobs held and did not use, from a log to the terminal, CSV and the page of the site."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.support import Outcome

Walltime = Callable[..., Outcome]
NAMES = "JobID|JobName|User|Account|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS|NNodes|State|ExitCode"
MORE = "|TotalCPU|ReqTRES|AllocTRES|ConsumedEnergyRaw"
HOSTILE = "<script>x"


def line(n: int) -> str:
    """An hour on 8 processors with 2 GPUs and 1 kWh, of which one processor is busy; the first half at 5 o'clock."""
    hour = 5 + n % 2
    at, tres = f"2026-03-{2 + n // 2:02}T{hour:02}", "billing=8,cpu=8,gres/gpu=2,node=1"
    name, user = (HOSTILE, "ada") if n < 20 else ("md", "bob")
    times = f"{at}:00:00|{at}:00:00|2026-03-{2 + n // 2:02}T{hour + 1:02}:00:00|3600|240"
    return f"{n + 1}|{name}|{user}|chem|{times}|8|8|1|COMPLETED|0:0|01:00:00|{tres}|{tres}|3600000"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("waste")
    (made / "dump.txt").write_text("\n".join([NAMES + MORE, *map(line, range(40)), ""]))
    (made / "site.toml").write_text(f"logs = ['{made}/dump.txt']\noutput_dir = '{made}/out'\n[site]\nname = 'here'\n")
    return made


@pytest.fixture
def published(folder: Path, walltime: Walltime) -> Path:
    if not (folder / "out").exists():
        shown = walltime("run", folder / "site.toml", "--plain", "--quiet")
        assert shown.code == 0, shown.err
    return folder / "out"


def rows_of(shown: Outcome) -> dict[tuple[str, str], dict[str, str]]:
    assert shown.code == 0, shown.err
    return {(row["kind"], row["name"]): row for row in csv.DictReader(io.StringIO(shown.out))}


def test_users_are_shown_only_where_asked_for(published: Path, walltime: Walltime) -> None:
    rows = rows_of(walltime("show", "waste", "--from", published, "--csv"))
    assert {kind for kind, _ in rows} == {"all", "application", "account"}
    assert float(rows["account", "chem"]["unused_proc_hours"]) == 40 * 7
    assert float(rows["account", "chem"]["unused_gpu_hours"]) == 40
    tricked = walltime("show", "waste", "--from", published, "--csv", "--where", "kind = 'user' OR true")
    assert rows_of(tricked) == rows
    assert {name for kind, name in rows_of(walltime("show", "waste", "--from", published, "--csv", "--users"))
            if kind == "user"} == {"ada", "bob"}  # fmt: skip
    refused = walltime("show", "jobs", "--from", published, "--users")
    assert refused.code == 2 and "walltime show waste --users" in refused.err


def test_the_page_has_waste_carbon_and_what_to_ask_for(published: Path, walltime: Walltime) -> None:
    pages = published.parent / "pages"
    shown = walltime("report", "--from", published, "--out", pages, "--carbon", "250", "--json")
    assert shown.code == 0, shown.err
    every = json.loads(shown.out)["waste"][0]
    assert (every["carbon_kg"], every["unused_carbon_kg"], every["n_carbon"]) == (10, pytest.approx(8.75), 40)
    page = (pages / "site.html").read_text()
    assert "1 processor, not 8" in page and HOSTILE not in page and ">ada<" not in page
    assert walltime("report", "--from", published, "--out", pages, "--users").code == 0
    assert ">ada<" in (pages / "site.html").read_text()


def test_carbon_by_hour_counts_the_jobs_whose_hours_are_in_the_file(published: Path, walltime: Walltime) -> None:
    hours = published.parent / "hours.csv"
    hours.write_text("time,g_per_kwh\n2026-03-02T04:30,100\n2026-03-02T05:30,300\n2026-03-02T06:30Z,700\n")
    shown = walltime("report", "--from", published, "--out", published.parent / "p2", "--carbon", hours, "--json")
    every = json.loads(shown.out)["waste"][0]
    assert (every["n_carbon"], every["carbon_kg"]) == (2, pytest.approx(0.2 + 0.5))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("when,g\n", "time,g_per_kwh"), ("time,g_per_kwh\n2026-01-01T00:00,-4\n", "hours.csv, line 2"),
        ("time,g_per_kwh\n2026-01-01T00:00\n", "hours.csv, line 2"), ("time,g_per_kwh\nsoon,4\n", "'soon'"),
        ("", "an empty file"),
    ],
)  # fmt: skip
def test_a_bad_file_of_intensities_is_refused(text: str, said: str, published: Path, walltime: Walltime) -> None:
    hours = published.parent / "hours.csv"
    hours.write_text(text)
    shown = walltime("report", "--from", published, "--out", published.parent / "p3", "--carbon", hours)
    assert shown.code == 2 and said in shown.err
