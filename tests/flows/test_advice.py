"""What a published run answers to "how many processors, and what does it cost": command, page, summary and query.

One small Slurm log with energy, published once: ada's solver ran on five counts, bob's tool on one, and all within a
few days, so that nothing has a track record.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.cli.commands.run import view_summary
from flows.pages.scaling import series_page
from flows.pages.site import _weak
from flows.pages.terminal import print_blocks
from flows.services.published.published_folder import template_sentences, unreliability_note
from flows.services.run.running import run_and_publish
from flows.services.site_facts import summarize_version
from pipeline.publish import load_manifest
from pipeline.storage import read_table
from pipeline.tables import JOBS, OBSERVATIONS
from tests.flows.support import Outcome
from tests.rows import observations_of

Walltime = Callable[..., Outcome]
HEADER = "JobID|JobName|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|ReqCPUS|State|ConsumedEnergyRaw\n"
UNSET = 2**64 - 2
ENERGY_J = {1: 1000, 2: 900, 4: 800, 8: 1200, 16: UNSET}


def lines(every_second: int = 1) -> list[str]:
    """Six runs a count of ada's, 1000 (0.1 + 0.9/n) s, every second one so many times shorter; ten of bob's of 60 s on
    two processors without energy."""
    found = [
        _line(
            100 * procs + run, "solver.sh", "ada", procs, _solver_s(procs, every_second if run % 2 else 1) + run, joules
        )
        for run in range(6)
        for procs, joules in ENERGY_J.items()
    ]
    return [*found, *(_line(5000 + run, "tool.sh", "bob", 2, 60 + run, 0) for run in range(10))]


def _solver_s(procs: int, shorter: int) -> int:
    return round(1000 * (0.1 + 0.9 / procs) / shorter)


def _line(job: int, name: str, user: str, procs: int, runtime_s: int, joules: int) -> str:
    day, hour = 1 + job % 5, job % 20
    start, end = f"2026-01-0{day}T{hour:02}:00:00", f"2026-01-0{day}T{hour:02}:{runtime_s // 60:02}:{runtime_s % 60:02}"
    return f"{job}|{name}|{user}|{start}|{start}|{end}|{runtime_s}|600|{procs}|{procs}|COMPLETED|{joules}\n"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("advice"), lines())


@pytest.fixture(scope="module")
def unreliable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same log with runs that no count explains."""
    return run_of(tmp_path_factory.mktemp("unreliable"), lines(every_second=8))


def run_of(folder: Path, jobs: list[str]) -> Path:
    (folder / "dump.txt").write_text(HEADER + "".join(jobs))
    settings = "procs_per_node = 4\nprice_per_proc_hour = 0.5\n"
    config = f"logs = ['{folder / 'dump.txt'}']\noutput_dir = '{folder / 'out'}'\n[site]\nname = 'here'\n{settings}"
    (folder / "site.toml").write_text(config)
    run_and_publish(str(folder / "site.toml"))
    return folder / "out"


def test_energy_goes_from_the_log_to_jobs_and_observations(published: Path) -> None:
    manifest = load_manifest(published)
    jobs = read_table(manifest.path("jobs"), JOBS).to_pylist()
    assert {row["energy_j"] for row in jobs if row["user"] == "ada"} == {1000, 900, 800, 1200, None}
    assert {row["energy_j"] for row in jobs if row["user"] == "bob"} == {None}
    rows = read_table(manifest.path("observations"), OBSERVATIONS).to_pylist()
    by_procs = {row["procs"]: row for row in rows if row["n_energy"]}
    assert {procs: row["energy_j_median"] for procs, row in by_procs.items()} == {1: 1000, 2: 900, 4: 800, 8: 1200}
    assert by_procs[8]["energy_delay_js_median"] == pytest.approx(1200 * (213 + 2.5))


def test_the_answer_says_counts_times_nodes_hours_cost_efficiency_and_energy(
    published: Path, walltime: Walltime
) -> None:
    """By hand: 8 processors take 215.5 s, 2 nodes of 4, 0.477 processor-hours at 0.5 each."""
    shown = walltime(
        "scaling", "advise", "--from", published, "--application", "solver.sh", "--user", "ada", "--rate", "0.5"
    )
    assert shown.code == 0, shown.err
    found = json.loads(walltime("scaling", "advise", "--from", published, "--user", "ada", "--json").out)
    (group,) = found["groups"]
    by_why = {why: one for one in group["choices"] for why in one["why"].replace(" and ", ", ").split(", ")}
    best = by_why["the best trade-off"]
    assert best["procs"] == 8 and best["nodes"] == 2
    assert best["runtime_s"] == pytest.approx(215.5, rel=0.03)
    assert best["runtime_s_lo80"] < best["runtime_s"] < best["runtime_s_hi80"]
    assert best["proc_hours"] == pytest.approx(8 * best["runtime_s"] / 3600)
    assert best["price"] == pytest.approx(0.5 * best["proc_hours"])
    assert best["efficiency"] == pytest.approx(1000 / (8 * 215.5), rel=0.05)
    assert best["energy_j"] == 1200
    assert {row["procs"]: row["least"] for row in group["energy"]}[4] == ["energy"]
    assert "(2 nodes)" in shown.out and ", cost " in shown.out and "1,200 J measured" in shown.out
    assert "4 processors took least energy, 800 J a run, and 8 least energy times runtime" in shown.out
    assert all(line in shown.out for line in group["answer"])


def test_options_come_before_the_settings_of_the_run(published: Path, walltime: Walltime) -> None:
    asked = (
        "scaling",
        "advise",
        "--from",
        published,
        "--user",
        "ada",
        "--rate",
        "2",
        "--procs-per-node",
        "16",
        "--json",
    )
    found = json.loads(walltime(*asked).out)
    (group,) = found["groups"]
    assert (found["rate"], found["procs_per_node"]) == (2.0, 16)
    assert {one["nodes"] for one in group["choices"]} <= {1, 2}
    assert all(one["price"] == pytest.approx(2 * one["proc_hours"]) for one in group["choices"])


def test_one_size_is_no_recommendation(published: Path, walltime: Walltime) -> None:
    shown = walltime("scaling", "advise", "--from", published, "--user", "bob").out
    assert "Only count that ran (low confidence" in shown and "2 processors" in shown
    assert "One processor count has no information on others" in shown
    assert "J measured" not in shown and "efficiency" not in shown


def test_every_group_is_answered_where_nothing_is_asked_and_one_by_its_id(published: Path, walltime: Walltime) -> None:
    found = json.loads(walltime("scaling", "advise", "--from", published, "--json").out)
    assert [group["n_jobs"] for group in found["groups"]] == [30, 10]
    one = json.loads(
        walltime("scaling", "advise", "--from", published, "--group", found["groups"][1]["group_id"], "--json").out
    )
    assert one["groups"] == found["groups"][1:]


@pytest.mark.parametrize(
    ("given", "said"),
    [(("--user", "adam"), "an existing value, such as ada"), (("--queue", "long"), "leave it out"),
     (("--user", "bob", "--application", "solver"), "no group with application solver and user bob together"),
     (("--rate", "-1"), "--rate")],
)  # fmt: skip
def test_what_is_not_there_is_said_in_one_sentence(
    published: Path, walltime: Walltime, given: tuple[str, ...], said: str
) -> None:
    refused = walltime("scaling", "advise", "--from", published, *given)
    assert refused.code == 2 and said in refused.err and refused.err.count("\n") == 1


def test_nothing_reliable_is_said_everywhere(unreliable: Path, tmp_path: Path, walltime: Walltime) -> None:
    sentence = unreliability_note(load_manifest(unreliable))
    assert sentence.startswith("No prediction is ok (") and " few" in sentence
    assert "group.template" in sentence and "problem_size_rules" in sentence
    assert walltime("report", "--from", unreliable, "--out", tmp_path).code == 0
    pages = [path.read_text() for path in tmp_path.iterdir()]
    assert len(pages) == 2 and all("No prediction is ok (" in page for page in pages)
    assert sentence in summarize_version(load_manifest(unreliable))["notes"]
    asked = ("--from", unreliable, "--user", "ada", "--application", "solver.sh")
    assert sentence in walltime("scaling", "advise", *asked).out
    assert sentence in walltime("query", *asked, "--procs", "4").out
    assert sentence in json.loads(walltime("query", *asked, "--procs", "4", "--json").out)["notes"]


def test_pages_tell_costs_energy_and_templates(published: Path, tmp_path: Path, walltime: Walltime) -> None:
    assert walltime("report", "--from", published, "--out", tmp_path, "--rate", "3").code == 0
    (page,) = (path.read_text() for path in tmp_path.iterdir() if path.name != "site.html")
    index = (tmp_path / "site.html").read_text()
    assert "Energy of the runs" in page and "took least energy" in page and ", cost " in page
    assert "How jobs are grouped" in index and "error on later jobs" in index
    assert all(row["template"] in index for row in summarize_version(load_manifest(published))["templates"])


def test_a_weak_scaling_series_of_a_log_stands_on_the_page(published: Path) -> None:
    """Problem sizes 100 n on n processors, each a group of its own; another user's groups are another series."""
    sizes = {f"a{n}": (f"user=ada problem_size={100 * n}", n, 100.0 * n / (n - 0.1 * (n - 1))) for n in (1, 2, 4, 8)}
    sizes |= {f"b{n}": (f"user=bob problem_size={100 * n}", n, 50.0) for n in (1, 2)}
    observations = observations_of({group: {n: runtime_s} for group, (_, n, runtime_s) in sizes.items()})
    groups = [
        {"group_id": group, "label": label, "problem_size": label.rpartition("=")[2]}
        for group, (label, _, _) in sizes.items()
    ]
    (found,) = _weak([*groups, {"group_id": "c", "label": "user=eve", "problem_size": None}], observations)
    assert found["application"] == "user=ada" and found["serial_fraction"] == pytest.approx(0.1)
    page = series_page("solver", [], weak=[found])
    assert "user=ada: weak scaling" in page and "Gustafson" in page


def test_the_summary_says_which_template_why_and_which_came_second(
    published: Path, capfd: pytest.CaptureFixture[str], walltime: Walltime
) -> None:
    summary = summarize_version(load_manifest(published))
    facts = {"seconds": 1.0, "peak_mib": 1.0, "output_dir": "out", "folder": "x", "config": "x", "manifest": "x"}
    print_blocks(view_summary(summary | facts))
    shown, rows = capfd.readouterr().out, summary["templates"]
    chosen = next(row["template"] for row in rows if row["is_chosen"])
    why = "there are fewer than 200 later jobs to compare templates on, so the default is used"
    words = f"Jobs are grouped by {chosen}: {why}."
    assert template_sentences(rows) == words and words in shown and shown.count("grouped by") == 1
    assert chosen in walltime("show", "--from", published, "templates").out
    best = sorted(rows, key=lambda row: not row["is_chosen"])
    compared = [row | {"error_later": place / 10, "score": 0.1} for place, row in enumerate(best)]
    assert f" The runner-up is {best[1]['template']} (error on later jobs 0.1 log s, " in template_sentences(compared)
    assert template_sentences([]) == ""
