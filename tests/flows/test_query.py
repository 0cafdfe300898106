"""`walltime query`: what the published State says of a job, one or many; one sentence where it says nothing."""

import csv
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from flows.pages.blocks import span
from flows.services.job_answers import answers, scaled
from flows.services.published.published_folder import read_columns
from flows.services.quantities import kibibytes, seconds
from flows.services.run.running import run_and_publish
from pipeline.errors import InputError
from pipeline.estimate.answer import LIMIT
from pipeline.estimate.history import history
from pipeline.estimate.stage import learn_state
from pipeline.estimate.state import estimate, loaded_state
from pipeline.ingest import ingest
from pipeline.ingest.privacy import ANONYMISED, hasher_of
from pipeline.limits.soft import SoftRules, planned_limits
from pipeline.publish import load_manifest
from pipeline.settings import RunSettings, SiteSettings
from pipeline.tables import STATE
from tests.flows.support import SAMPLES, Outcome, live_state_of, put_out
from tests.rows import jobs_of
from tests.unit.estimate.states import busy_log, questions

Walltime = Callable[..., Outcome]
SACCT = """JobID|JobName|User|Account|Partition|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|ReqCPUS|State
"""


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The State of a small busy log."""
    table, _ = learn_state(busy_log(), SiteSettings(name="here", timezone="Europe/Stockholm"))
    return put_out(table, tmp_path, RunSettings())


def sacct_log(folder: Path) -> Path:
    """A Slurm log of one user whose script has a number in its name."""
    lines = [
        f"{n}|solver_n{n % 8}.sh|ada|phys|long|2026-01-{1 + n // 24:02}T{n % 24:02}:00:00|2026-01-{1 + n // 24:02}"
        f"T{n % 24:02}:01:00|2026-01-{1 + n // 24:02}T{n % 24:02}:31:00|1800|60|4|4|COMPLETED"
        for n in range(60)
    ]
    path = folder / "sacct.txt"
    path.write_text(SACCT + "\n".join(lines) + "\n")
    return path


def asked(walltime: Walltime, published: Path, *arguments: object) -> dict[str, object]:
    shown = walltime("query", "--from", published, *arguments, "--json")
    assert shown.code == 0, shown.err
    return json.loads(shown.out)


def quantiles(found: dict[str, object]) -> list[float]:
    return [found[f"runtime_s_q{q}"] for q in (10, 50, 80, 90, 95, 99)]


def test_an_answer_is_the_estimator_s_to_the_bit(published: Path, walltime: Walltime) -> None:
    """What is scored is what a query answers."""
    state = loaded_state(read_columns(load_manifest(published).path("state"), STATE), "here")
    past = history(busy_log(), "Europe/Stockholm")
    rows = busy_log().to_pylist()
    for place in range(0, len(past), 150):
        row = rows[past.row[place]]
        options = {"user": "--user", "user_group": "--user-group", "application": "--application", "queue": "--queue"}
        given = [part for name, option in options.items() if row[name] for part in (option, row[name])]
        given += ["--requested", f"{row['requested_s']:.0f}s"] if row["requested_s"] else []
        found = asked(walltime, published, *given, "--procs", row["procs"])
        # On the site's clock it is an hour later than in Greenwich.
        now = replace(questions(past, state, np.array([place])), local_s=np.array([int(state.as_of_s) + 3_600]))
        assert quantiles(found) == estimate(state, now)[0, :6].tolist()
        assert found["runtime_s"] <= (row["requested_s"] or float("inf")) and found["seconds"] < 5


def test_the_answer_names_method_score_promise_and_what_it_rests_on(published: Path, walltime: Walltime) -> None:
    found = asked(walltime, published, "--user", "u1", "--application", "a1", "--requested", "4h", "--procs", "4")
    assert found["method"] == "walltime" and 0 < found["mae_over_mean"] < 2 and found["n_scored"] > 1_000
    assert 0.9 < found["held_q95"] <= 1 and found["is_known"] and found["age_s"] == 0
    ended = busy_log().filter(pc.equal(busy_log()["user"].cast("string"), "u1")).column("runtime_s").drop_null()
    assert 0 < found["n_kind"] <= found["n_submitter"] <= len(ended)
    shown = walltime("query", "--from", published, "--user", "u1", "--requested", "4h", "--at", "2033-01-01").out
    for sentence in (
        "The estimate uses",
        "mean absolute error",
        "stayed within its q95",
        "before the submit",
        "--procs is not given",
    ):
        assert sentence in shown, shown
    nobody = walltime("query", "--from", published, "--user", "\x1b[31mnobody", "--procs", "4").out
    assert "The log has no jobs of user" in nobody and "\x1b[31m" not in nobody


def test_an_answer_says_what_the_log_does_not_know_and_what_it_compared(published: Path, walltime: Walltime) -> None:
    given = ("query", "--from", published, "--user", "u1")
    named = walltime(
        *given, "--application", "nosuch", "--partition", "no\x1bsuch", "--procs", "4", "--memory", "4G"
    ).out
    assert "The log has no application nosuch, partition no" in named and "\x1b" not in named
    assert "memory is 1,024 MiB per processor" in named and "requested time" not in named
    known = walltime(*given, "--application", "a1", "--requested", "4h").out
    assert "The log has no" not in known and "MiB" not in known and "and requested time" in known
    assert "as the newest similar job had" in known
    nobody = walltime("query", "--from", published, "--user", "nobody").out
    assert "--procs is not given" in nobody and "among them" not in nobody


def test_a_script_s_name_finds_the_application_that_ingest_made_of_it(tmp_path: Path, walltime: Walltime) -> None:
    site = SiteSettings(name="slurm")
    jobs, _, _ = ingest([sacct_log(tmp_path)], site, RunSettings().ingest)
    assert jobs.column("application").unique().to_pylist() == ["solver"]
    published = put_out(learn_state(jobs, site)[0], tmp_path, RunSettings())
    given = ("--user", "ada", "--account", "phys", "--procs", 4, "--requested", "1h")
    plain = asked(walltime, published, *given, "--application", "solver", "--queue", "long")
    assert plain["n_submitter"] == plain["n_kind"] == 60
    script = asked(walltime, published, *given, "--application", "solver_n16.sh", "--partition", "long")
    assert quantiles(script) == quantiles(plain)
    # A memory that none of these jobs asked for makes another group, whose highest quantile is wider.
    named = ("--job-name", "/home/ada/solver-np=3.sh", "--queue", "long", "--qos", "high", "--memory", "4G")
    assert quantiles(asked(walltime, published, *given, *named)) == pytest.approx(quantiles(plain), rel=0.02)
    assert asked(walltime, published, *given, "--application", "other.sh")["n_kind"] == 0


def test_hashed_names_are_found_under_their_key_only(tmp_path: Path, walltime: Walltime) -> None:
    keys = [tmp_path / "key", tmp_path / "other"]
    for place, path in enumerate(keys):
        path.write_text("a long enough key " + "x" * (20 + place))
        path.chmod(0o600)
    site = SiteSettings(name="slurm", anonymise=True, key_file=str(keys[0]))
    jobs, _, _ = ingest([sacct_log(tmp_path)], site, RunSettings().ingest)
    table, _ = learn_state(jobs, site, hasher_of(site).mark[ANONYMISED])
    published = put_out(table, tmp_path, RunSettings())
    given = ("--user", "ada", "--application", "solver_n7.sh", "--procs", 4)
    found = asked(walltime, published, *given, "--key-file", keys[0])
    assert found["is_known"] and found["n_kind"] == 60
    hashed = jobs.column("user")[0].as_py(), jobs.column("application")[0].as_py()
    assert "ada" not in hashed
    as_they_stand = ("--user", hashed[0], "--application", hashed[1], "--procs", 4)
    assert quantiles(asked(walltime, published, *as_they_stand)) == quantiles(found)
    for more, sentence in (((), "give --key-file"), (("--key-file", keys[1]), "found another key")):
        shown = walltime("query", "--from", published, *given, *more)
        assert shown.code == 2 and sentence in shown.err, shown


def test_a_batch_answers_as_single_questions_do(published: Path, tmp_path: Path, walltime: Walltime) -> None:
    batch = tmp_path / "jobs.csv"
    batch.write_text("user,application,procs,requested\nu1,a1,4,4h\n,a2,,\nnobody,,16,1-00:00:00\n")
    lines = walltime("query", "--from", published, "--batch", batch, "--json").out.splitlines()
    singles = [
        asked(walltime, published, *given)
        for given in (
            ("--user", "u1", "--application", "a1", "--procs", 4, "--requested", "4h"), ("--application", "a2"),
            ("--user", "nobody", "--procs", 16, "--requested", "24h"),
        )
    ]  # fmt: skip
    assert [quantiles(json.loads(line)) for line in lines] == [quantiles(one) for one in singles]
    for suffix in ("csv", "parquet"):
        out = tmp_path / f"answers.{suffix}"
        assert walltime("query", "--from", published, "--batch", batch, "--out", out).code == 0
    with (tmp_path / "answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["runtime_s_q95"]) for row in rows] == [one["runtime_s_q95"] for one in singles]
    assert pq.read_table(tmp_path / "answers.parquet").column("user").to_pylist() == ["u1", None, "nobody"]
    shown = walltime("query", "--from", published, "--batch", batch).out
    assert "nobody" in shown and "stayed within its q95" in shown


@pytest.mark.parametrize(
    ("header", "name", "ids"),
    [("job_id,user", "job_id", ["7_1", "x", None]), ("user,ID", "ID", ["u1", "u2", "u3"]),
     ("JobID,id", "id", ["u1", "u2", "u3"]), ("account,user", "row", [1, 2, 3])],
)  # fmt: skip
def test_a_batch_names_each_answer_s_job(
    published: Path, tmp_path: Path, walltime: Walltime, header: str, name: str, ids: list[object]
) -> None:
    batch, out = tmp_path / "jobs.csv", tmp_path / "answers.parquet"
    batch.write_text(f"{header}\n7_1,u1\n\nx,u2\n ,u3\n")
    lines = walltime("query", "--from", published, "--batch", batch, "--json").out.splitlines()
    assert [json.loads(line)[name] for line in lines] == ids
    shown = walltime("query", "--from", published, "--batch", batch, "--out", out)
    assert shown.out == f"Wrote the answers to 3 jobs of {batch} to {out}\n"
    assert pq.read_table(out).column(name).to_pylist() == ids
    quiet = walltime("query", "--from", published, "--batch", batch, "--out", out, "--json")
    assert quiet.out.splitlines() == lines and not quiet.err


def test_an_answer_to_a_batch_is_no_formula_of_a_spreadsheet(
    published: Path, tmp_path: Path, walltime: Walltime
) -> None:
    batch, out = tmp_path / "jobs.csv", tmp_path / "answers.csv"
    batch.write_text("job_id,user\n=1+1,@u1\n")
    assert walltime("query", "--from", published, "--batch", batch, "--out", out).code == 0
    with out.open() as file:
        (row,) = csv.DictReader(file)
    assert (row["job_id"], row["user"]) == ("'=1+1", "'@u1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("user,colour\nu1,red\n", "found columns colour, expected columns of user"),
        ("user,procs\nu1\n", "line 2: found 1 values, expected 2"),
        ("user,procs\nu1,many\n", "line 2: found --procs many: no whole number above 0"),
        ("user,requested\nu1,240\n", "line 2: found --requested 240: no time with a unit"),
        ("requested,requested_s\n1h,3600\n", "two columns with the same meaning"),
        ("", "an empty file"),
        ("user,requested_s\nu1,nan\n", "no number above 0"),
    ],
)
def test_a_batch_that_cannot_be_read_is_one_sentence(
    published: Path, tmp_path: Path, walltime: Walltime, text: str, sentence: str
) -> None:
    batch = tmp_path / "jobs.csv"
    batch.write_text(text)
    shown = walltime("query", "--from", published, "--batch", batch)
    assert shown.code == 2 and sentence in shown.err and shown.err.count("\n") == 1, shown


def test_what_cannot_be_answered_is_one_sentence(published: Path, tmp_path: Path, walltime: Walltime) -> None:
    nothing, _ = learn_state(jobs_of([{"runtime_s": None, "state": "PENDING"}]), SiteSettings())
    batch = tmp_path / "jobs.csv"
    batch.write_text("user\nu1\n")
    refused = [
        (("--from", tmp_path / "none"), "manifest.json: found no such file"),
        (("--from", published, "--requested", "240"), "found no time with a unit"),
        (("--from", published, "--requested", "\x1b[31m"), "found no time with a unit"),
        (("--from", published, "--memory", "4"), "found no size with a unit"),
        (("--from", published, "--memory", "4G", "--mem-per-cpu", "1G"), "one of the two"),
        (("--from", published, "--procs", "0"), "Invalid value"),
        (("--from", published, "--at", "1970-01-02"), "or later, where the known log ends"),
        (("--from", published, "--at", "soon"), "expected a date as in"),
        (("--from", published, "--out", tmp_path / "a.csv"), "found no --batch beside it"),
        (("--from", published, "--batch", batch, "--user", "u1"), "--user beside it"),
        (("--from", published, "--batch", batch, "--out", tmp_path / "a.txt"), "no table's name"),
        (("--from", put_out(nothing, tmp_path / "empty", RunSettings())), "has learnt from no job"),
    ]
    for arguments, sentence in refused:
        shown = walltime("query", *arguments)
        assert shown.code == 2 and sentence in shown.err and "Traceback" not in shown.err, shown
        assert "\x1b" not in shown.err
    manifest = json.loads((published / "manifest.json").read_text())
    (published / "manifest.json").write_text(json.dumps(manifest | {"tables": {}}))
    assert "no table state" in walltime("query", "--from", published, "--user", "1").err


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published tables of the sample."""
    folder = tmp_path_factory.mktemp("sample")
    config = folder / "site.toml"
    config.write_text(f"logs = ['{SAMPLES / 'riverbend.swf.gz'}']\noutput_dir = '{folder / 'out'}'\n")
    run_and_publish(str(config))
    return folder / "out"


def rows_of(published: Path, name: str) -> list[dict[str, object]]:
    return pq.read_table(load_manifest(published).path(name)).to_pylist()


def test_a_kind_of_runs_is_answered_by_its_published_prediction(sample: Path, walltime: Walltime) -> None:
    """Neither user nor request: the row of the largest group with the given values; between its counts the curve."""
    largest = max(rows_of(sample, "groups"), key=lambda row: (row["n_sizes"] > 3, row["n_jobs"]))
    own = [row for row in rows_of(sample, "predictions") if row["group_id"] == largest["group_id"]]
    kind = {"application": largest["application"], "requested_mem_kib": largest["requested_mem_kib"]}
    found = answers(live_state_of(sample), [kind | {"procs": row["procs"]} for row in own])
    assert {one["answered_by"] for one in found} == {"predictions"} and len(found) > 5
    for one, row in zip(found, own, strict=True):
        said = [one[f"runtime_s_q{q}"] for q in (10, 50, 90)]
        assert said == pytest.approx([row[f"runtime_s{end}"] for end in ("_lo80", "", "_hi80")])
        assert one["advice"] == row["advice"]
        assert quantiles(one) == sorted(quantiles(one))
    ran = sorted(row["procs"] for row in own if row["method"] == "runs")
    low, high = next((one, other) for one, other in itertools.pairwise(ran) if other - one > 1)
    (between,) = answers(live_state_of(sample), [kind | {"procs": low + 1}])
    ends = [row["runtime_s"] for row in own if row["procs"] in (low, high)]
    assert min(ends) <= between["runtime_s"] <= max(ends)
    shown = walltime("query", "--from", sample, "--application", kind["application"], "--procs", ran[0]).out
    assert "this is the published prediction of the group" in shown and "past jobs below" not in shown
    of_user = ("--application", kind["application"], "--procs", ran[0], "--user", largest["user"])
    assert asked(walltime, sample, *of_user)["answered_by"] == "predictions"
    assert "No request is given" in walltime("query", "--from", sample, *of_user).out
    for more in (("--requested", "10h"), ("--application", "nosuch")):
        given = ("--application", kind["application"], "--procs", ran[0], *more)
        assert asked(walltime, sample, *given)["answered_by"] == "walltime"


def test_a_user_s_job_without_a_request_is_the_estimator_s_where_no_job_has_one(sample: Path) -> None:
    loaded = live_state_of(sample)
    values = loaded.state.jobs.values.copy()
    values[:, LIMIT] = 0
    without = replace(loaded, state=replace(loaded.state, jobs=loaded.state.jobs._replace(values=values)))
    row = max(rows_of(sample, "groups"), key=lambda row: row["n_jobs"])
    job = {name: row[name] for name in ("user", "application", "requested_mem_kib")}
    assert [answers(one, [job])[0]["answered_by"] for one in (loaded, without)] == ["predictions", "walltime"]


def test_an_account_with_a_single_group_is_answered_as_advise_answers_it(tmp_path: Path, walltime: Walltime) -> None:
    """No job names its user, and groups are told apart by account and queue: `--account` alone names the one group."""
    lines = []
    for n in range(240):
        account, queue = (("lone", "short"), ("lone", "short"), ("both", "short"), ("both", "long"))[n % 4]
        procs = (1, 2, 4)[n % 3]
        # The newest jobs, which the estimator follows, are shorter than the group's law says.
        runtime_s = (1600 if n < 200 else 400) // procs
        submit, end = (datetime.fromtimestamp(1_767_225_600 + 3600 * n + s, UTC) for s in (0, 60 + runtime_s))
        times = "|".join(f"{one:%Y-%m-%dT%H:%M:%S}" for one in (submit, submit + timedelta(minutes=1), end))
        lines.append(f"{n}|run_{n}||{account}|{queue}|{times}|{runtime_s}|20|{procs}|{procs}|COMPLETED")
    log = tmp_path / "sacct.txt"
    log.write_text(SACCT + "\n".join(lines) + "\n")
    config = tmp_path / "site.toml"
    config.write_text(f"logs = ['{log}']\noutput_dir = '{tmp_path}/out'\n[group]\ntemplate = ['account', 'queue']\n")
    assert walltime("run", config, "--plain", "--quiet").code == 0
    out = tmp_path / "out"
    advised = walltime("scaling", "advise", "--from", out, "--account", "lone", "--json")
    assert advised.code == 0, advised.err
    (group,) = json.loads(advised.out)["groups"]
    for choice in group["choices"]:
        found = asked(walltime, out, "--account", "lone", "--procs", choice["procs"])
        assert (found["answered_by"], found["runtime_s"]) == ("predictions", pytest.approx(choice["runtime_s"]))
    assert asked(walltime, out, "--account", "both", "--procs", "2")["answered_by"] == "walltime"
    assert asked(walltime, out, "--procs", "2")["answered_by"] == "walltime"


def test_a_query_waits_for_no_library_that_it_does_not_need(sample: Path) -> None:
    """numba takes half a second, more than the answer; a few jobs are answered by the same kernels as Python."""
    script = f"""
import atexit, sys
from flows.cli import main
names = ("numba", "scipy.linalg", "pandas", "duckdb", "prefect", "matplotlib")
atexit.register(lambda: print("loaded:", *(name for name in names if name in sys.modules)))
sys.argv[1:] = ["query", "--from", {str(sample)!r}, "--user", "17", "--procs", "4", "--requested", "4h"]
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_a_count_that_the_kind_never_ran_is_the_nearest_one_s_answer_times_the_curve_s_ratio(
    sample: Path, walltime: Walltime
) -> None:
    groups = sorted(rows_of(sample, "groups"), key=lambda row: -row["n_jobs"])
    predictions = rows_of(sample, "predictions")
    n_scaled = 0
    for group in groups[:8]:
        median_s = {row["procs"]: row["runtime_s"] for row in predictions if row["group_id"] == group["group_id"]}
        ran = [row["procs"] for row in predictions if row["group_id"] == group["group_id"] and row["method"] == "runs"]
        job = {name: group[name] for name in ("user", "application", "requested_mem_kib")} | {"requested_s": 360_000.0}
        for procs in set(median_s) - set(ran):
            (found,) = answers(live_state_of(sample), [job | {"procs": procs}])
            if found["n_kind"]:
                continue
            (there,) = answers(live_state_of(sample), [job | {"procs": found["scaled_from"]}])
            ratio = median_s[procs] / median_s[found["scaled_from"]]
            assert quantiles(found) == pytest.approx([ratio * one for one in quantiles(there)], rel=1e-6)
            n_scaled += 1
    assert n_scaled > 5
    given = ("--user", group["user"], "--application", group["application"], "--procs", procs, "--requested", "100h")
    assert "never ran on this count" in " ".join(walltime("query", "--from", sample, *given).out.split())


def test_scaled_quantiles_keep_to_the_request_as_those_of_a_count_that_ran() -> None:
    quantiles_s = np.array([100.0, 200.0, 400.0, 600.0, 900.0, 2_000.0])
    assert scaled(quantiles_s, 0.5, 1_000.0).tolist() == [50, 100, 200, 300, 450, 1_000]
    assert scaled(quantiles_s, 10.0, 1_000.0).tolist() == [1_000, 1_000, 1_300, 1_300, 1_300, 2_000]
    assert scaled(quantiles_s, 10.0, np.nan).tolist() == (10 * quantiles_s).tolist()


def test_a_submit_in_the_next_days_is_answered_at_the_age_of_a_day(published: Path, walltime: Walltime) -> None:
    state = live_state_of(published).state
    given = ("--user", "u1", "--application", "a1", "--procs", 4, "--requested", "4h")
    later = asked(walltime, published, *given, "--at", "later")
    assert later["age_s"] == 43_200 and quantiles(later) != quantiles(asked(walltime, published, *given))
    instant = datetime.fromtimestamp(state.as_of_s + 43_200, UTC).isoformat()
    assert quantiles(asked(walltime, published, *given, "--at", instant)) == quantiles(later)
    shown = walltime("query", "--from", published, *given, "--at", "later").out
    assert "some time in the days before the submit" in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4h", 14_400), ("1h30m", 5_400), ("90s", 90), ("2d", 172_800), ("1-04:00:00", 100_800), ("04:00:00", 14_400),
     ("0.5h", 1_800), (" 4H ", 14_400)],
)  # fmt: skip
def test_times_with_units(text: str, expected: float) -> None:
    assert seconds(text, "--requested") == expected


@pytest.mark.parametrize("text", ["", "4", "04:00", "h", "-4h", "4h-", "0s", "nan", "1e3s", "4 h", "9" * 400 + "d"])
def test_times_that_could_mean_two_things_or_nothing(text: str) -> None:
    with pytest.raises(InputError, match="no time with a unit"):
        seconds(text, "--requested")


@pytest.mark.parametrize(("text", "expected"), [("4G", 4 * 1024**2), ("512m", 512 * 1024), ("1.5TiB", 1.5 * 1024**3)])
def test_sizes_with_units(text: str, expected: float) -> None:
    assert kibibytes(text, "--memory") == expected
    with pytest.raises(InputError, match="no size with a unit"):
        kibibytes(text[:-1].rstrip("GmiTB"), "--memory")


def test_spans_read_well() -> None:
    assert [span(s) for s in (42, 300, 9_000, 200_000, None)] == ["42 s", "5.0 min", "2.5 h", "2.3 d", "unknown"]


def test_a_request_unlike_the_submitter_s_others_is_said_to_be(tmp_path: Path, walltime: Walltime) -> None:
    """A user of half-minute jobs who asks for an hour: the answer may follow the request, but it says so."""
    rows = [
        {
            "user": "ada" if n % 2 else "bob", "submit_s": 3_600 * n, "start_s": 3_600 * n, "procs": 4,
            "end_s": 3_600 * n + (28 if n % 2 else 7_200), "runtime_s": 28.0 if n % 2 else 7_200.0,
            "requested_s": 120.0 if n % 2 else 14_400.0,
        }
        for n in range(200)
    ]  # fmt: skip
    published = put_out(learn_state(jobs_of(rows), SiteSettings(name="here"))[0], tmp_path, RunSettings())
    given = ("--user", "ada", "--procs", 4, "--requested")
    found = asked(walltime, published, *given, "1h")
    assert found["is_unusual_request"] and found["n_remembered"] == 96
    assert (found["least_requested_s"], found["most_requested_s"], found["usual_runtime_s"]) == (120, 120, 28)
    shown = " ".join(walltime("query", "--from", published, *given, "1h").out.split())
    assert "This request is unusual: none of the user's 96 jobs compared requested half to twice" in shown
    assert "They requested 2.0 min and took 28 s in the median; the estimate assumes a longer runtime" in shown
    for usual in ("2m", "4m", "1m"):
        assert not asked(walltime, published, *given, usual)["is_unusual_request"]
        assert "unusual" not in walltime("query", "--from", published, *given, usual).out
    assert asked(walltime, published, *given, "59s")["is_unusual_request"]
    for unknown in (("--user", "ada", "--procs", 4), ("--user", "nobody", "--requested", "1h"), ("--requested", "1h")):
        assert not asked(walltime, published, *unknown)["is_unusual_request"]
    assert asked(walltime, published, "--user", "nobody", "--requested", "1h")["usual_runtime_s"] is None


def test_a_request_that_most_such_jobs_would_reach_is_said_to_be(published: Path, walltime: Walltime) -> None:
    given = ("query", "--from", published, "--user", "u1", "--requested")
    assert "would reach the requested 2 s and be stopped" in walltime(*given, "2s").out
    assert "be stopped" not in walltime(*given, "90d").out


def test_an_answer_says_the_limit_that_the_job_would_be_planned_with_or_why_none(
    tmp_path: Path, walltime: Walltime
) -> None:
    site = SiteSettings(name="slurm")
    jobs, _, _ = ingest([sacct_log(tmp_path)], site, RunSettings().ingest)
    state, _ = learn_state(jobs, site)

    def published(name: str, export: dict[str, object]) -> Path:
        return put_out(state, tmp_path / name, RunSettings.model_validate({"export": export}))

    on, dry = published("on", {"mode": "limit"}), published("dry", {})
    out = published("opted", {"mode": "limit", "opt_out": {"users": ["ada"]}})
    job = ("--user", "ada", "--application", "solver", "--partition", "long", "--procs", 4, "--requested", "10h")
    found = asked(walltime, on, *job)
    limit, rules = found["limit"], SoftRules()
    quantile_s = np.array([found[f"runtime_s_q{100 * rules.quantile:.0f}"]])
    (planned_s,) = planned_limits(quantile_s, np.array([36_000.0]), rules)
    assert limit["limit_s"] == limit["planned_s"] == planned_s < 36_000 and limit["why_none"] is None

    def shown(folder: Path, given: tuple[object, ...]) -> str:
        return " ".join(walltime("query", "--from", folder, *given).out.split())

    assert f"Planned with {span(planned_s)}, raised while the job runs up to its 10.0 h." in shown(on, job)
    reasons = {"dry_run": (dry, job), "opted_out": (out, job), "no_request": (on, job[:-2])}
    for why, (folder, given) in reasons.items():
        limit = asked(walltime, folder, *given)["limit"]
        assert limit["limit_s"] is None and limit["why_none"] == why
        assert "Planned with its request: " in shown(folder, given)
