"""`walltime query`: an answer for any job, from which template and why, quickly; one sentence where there is none."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.durations import seconds
from flows.render_query import reasons, span
from pipeline.core.errors import InputError
from pipeline.core.store import find_row
from pipeline.core.tables import GROUPS, PREDICTIONS
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]


@pytest.fixture
def published(tmp_path: Path, walltime: Walltime) -> Path:
    """Tables of a log with scalability series."""
    config = tmp_path / "site.toml"
    config.write_text(f"logs = ['{SAMPLES / 'riverbend.swf.gz'}']\noutput_dir = '{tmp_path / 'out'}'\n")
    assert walltime("run", config, "--plain", "--quiet").code == 0
    return tmp_path / "out"


def rows(published: Path, table: str) -> list[dict[str, object]]:
    manifest = json.loads((published / "manifest.json").read_text())
    return pq.read_table(published / manifest["tables"][table]["path"]).to_pylist()


def asked(walltime: Walltime, published: Path, *arguments: object) -> dict[str, object]:
    shown = walltime("query", "--from", published, *arguments, "--json")
    assert shown.code == 0, shown.err
    return json.loads(shown.out)


def test_every_published_estimate_is_what_a_job_of_its_values_gets(published: Path, walltime: Walltime) -> None:
    """A few of each template, and any job at all."""
    options = {
        "user": "--user", "application": "--application", "requested_mem_kib": "--memory", "procs": "--procs",
    }  # fmt: skip
    by_rank = {row["chain_rank"]: row for row in rows(published, "estimates")}
    for row in by_rank.values():
        given = [part for name, option in options.items() if row[name] is not None for part in (option, row[name])]
        found = asked(walltime, published, *given)
        assert (found["template"], found["runtime_s"]) == (row["template"], row["runtime_s_q50"])
        assert found["n_jobs"] == row["n_jobs"] and found["age_s"] >= 0 and found["seconds"] < 1
    assert asked(walltime, published, "--user", "nobody")["template"] == "all"


def test_a_size_nobody_ran_is_answered_by_the_group_s_fit(published: Path, walltime: Walltime) -> None:
    groups = {row["group_id"]: row for row in rows(published, "groups")}
    ran = {(row["group_id"], row["procs"]) for row in rows(published, "observations")}
    fit = next(
        row for row in rows(published, "predictions")
        if row["reliability"] == "ok" and (row["group_id"], row["procs"]) not in ran and row["method"] != "constant"
    )  # fmt: skip
    group = groups[fit["group_id"]]
    memory = ["--memory", group["requested_mem_kib"]] if group["requested_mem_kib"] is not None else []
    given = ["--user", group["user"], "--application", group["application"], *memory, "--procs", fit["procs"]]
    found = asked(walltime, published, *given)
    assert (found["source"], found["runtime_s"]) == ("predictions", fit["runtime_s"])
    assert found["fit"]["method"] == fit["method"] and found["runtime_s_q95"] is None
    shown = walltime("query", "--from", published, *given, "--requested", "4h").out
    assert "scalability fit" in shown and "reliability is ok" in shown and "4.0 h asked for" in shown


def test_what_is_not_told_of_a_group_stays_open_where_only_one_is_left(published: Path, walltime: Walltime) -> None:
    groups = rows(published, "groups")
    fits = {
        (row["group_id"], row["procs"]): row for row in rows(published, "predictions") if row["reliability"] == "ok"
    }
    alike: dict[tuple[object, object], list[dict[str, object]]] = {}
    for group in groups:
        alike.setdefault((group["user"], group["application"]), []).append(group)
    sized = dict(iter(fits))
    alone = next(own[0] for own in alike.values() if len(own) == 1 and own[0]["group_id"] in sized)
    several = next(own for own in alike.values() if len(own) > 1 and own[0]["group_id"] in sized)
    procs = sized[alone["group_id"]]
    given = ("--user", alone["user"], "--application", alone["application"], "--procs", procs, "--requested", "4h")
    found = asked(walltime, published, *given)
    assert (found["source"], found["runtime_s"]) == ("predictions", fits[alone["group_id"], procs]["runtime_s"])
    given = ("--user", several[0]["user"], "--application", several[0]["application"], "--procs", procs)
    assert asked(walltime, published, *given)["source"] == "estimates"


def test_what_is_said_names_template_jobs_and_age(published: Path, walltime: Walltime) -> None:
    shown = walltime("query", "--from", published, "--user", "\x1b[31mnobody", "--requested", "4h").out
    assert "template all" in shown and "jobs, the newest ended" in shown and "passed over" in shown
    assert "\x1b[31m" not in shown


def test_what_cannot_be_answered_is_one_sentence(published: Path, tmp_path: Path, walltime: Walltime) -> None:
    manifest = json.loads((published / "manifest.json").read_text())
    refused = [
        (("--from", tmp_path / "none"), "manifest.json: found no such file"),
        (("--from", published, "--requested", "240"), "found no time with its unit"),
        (("--from", published, "--requested", "\x1b[31m"), "found no time with its unit"),
        (("--from", published, "--site", "elsewhere"), "found no job of elsewhere"),
        (("--from", published, "--procs", "0"), "Invalid value"),
    ]
    (tmp_path / "older").mkdir()
    without = manifest | {"tables": {name: one for name, one in manifest["tables"].items() if name != "estimates"}}
    (published / "manifest.json").write_text(json.dumps(without))
    shown = walltime("query", "--from", published, "--user", "1")
    assert shown.code == 2 and "no table estimates" in shown.err and shown.err.count("\n") == 1
    (published / "manifest.json").write_text(json.dumps(manifest))
    for arguments, sentence in refused:
        shown = walltime("query", *arguments)
        assert shown.code == 2 and sentence in shown.err and "Traceback" not in shown.err, shown
    assert "\x1b" not in walltime("query", "--from", published, "--requested", "\x1b[31m").err


def test_a_table_of_an_older_version_is_refused(published: Path, walltime: Walltime) -> None:
    path = published / "manifest.json"
    manifest = json.loads(path.read_text())
    entry = manifest["tables"]["estimates"]
    file = published / entry["path"]
    pq.write_table(pq.read_table(file).drop_columns(["runtime_s_q99"]), file)
    entry["bytes"] = file.stat().st_size
    path.write_text(json.dumps(manifest))
    shown = walltime("query", "--from", published)
    assert shown.code == 2 and "no column runtime_s_q99" in shown.err


def test_a_row_is_found_in_every_row_group(published: Path, tmp_path: Path) -> None:
    table = pq.read_table(next(published.rglob("predictions.parquet")))
    path = tmp_path / "small_groups.parquet"
    pq.write_table(table, path, row_group_size=7)
    for row in table.to_pylist()[::50]:
        wanted = {name: row[name] for name in ("group_id", "procs")}
        assert find_row(path, PREDICTIONS, wanted, ["runtime_s"]) == {"runtime_s": row["runtime_s"]}
    assert find_row(path, PREDICTIONS, {"group_id": "zz", "procs": 1}, ["runtime_s"]) is None
    with pytest.raises(InputError, match="no column"):
        find_row(path, GROUPS, {}, ["n_jobs"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4h", 14_400), ("1h30m", 5_400), ("90s", 90), ("2d", 172_800), ("1-04:00:00", 100_800), ("04:00:00", 14_400),
     ("0.5h", 1_800), (" 4H ", 14_400)],
)  # fmt: skip
def test_times_with_units(text: str, expected: float) -> None:
    assert seconds(text, "--requested") == expected


@pytest.mark.parametrize("text", ["", "4", "04:00", "h", "-4h", "4h-", "0s", "nan", "1e3s", "4 h", "9" * 400 + "d"])
def test_times_that_could_mean_two_things_or_nothing(text: str) -> None:
    with pytest.raises(InputError, match="no time with its unit"):
        seconds(text, "--requested")


def test_spans_and_reasons_read_well() -> None:
    assert [span(s) for s in (42, 300, 9_000, 200_000, None)] == ["42 s", "5.0 min", "2.5 h", "2.3 d", "unknown"]
    found = {
        "template": "user", "n_jobs": 9, "n_censored": 2, "age_s": 7_200, "as_of_s": 0, "passed": [], "fit": None,
        "source": "estimates", "runtime_s_q95": 3_600.0, "runtime_s_q90": None,
    }  # fmt: skip
    assert reasons(found, 14_400.0) == [
        "Why: template user, 9 jobs (2 of them stopped before they were done), the newest ended 2.0 h before "
        "1970-01-01 00:00:00+00:00, where the log ends.",
        "Of the 4.0 h asked for, 95% of such jobs need no more than 25%.",
    ]


def test_a_median_nobody_lived_to_see_is_said_to_be_unknown(published: Path, walltime: Walltime) -> None:
    path = published / "manifest.json"
    manifest = json.loads(path.read_text())
    entry = manifest["tables"]["estimates"]
    file = published / entry["path"]
    table = pq.read_table(file)
    for name in ("runtime_s_q50", "runtime_s_q80", "runtime_s_q90", "runtime_s_q95", "runtime_s_q99"):
        nothing = pa.nulls(table.num_rows, pa.float64())
        table = table.set_column(table.column_names.index(name), table.schema.field(name), nothing)
    pq.write_table(table, file)
    entry["bytes"] = file.stat().st_size
    path.write_text(json.dumps(manifest))
    assert asked(walltime, published, "--user", "1")["runtime_s"] is None
    shown = walltime("query", "--from", published, "--user", "1")
    assert shown.code == 0 and "their median is unknown" in shown.out
