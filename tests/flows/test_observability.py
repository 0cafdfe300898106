"""What a run says about itself: JSON lines, its record, metrics and the site's page, from a log with hostile names."""

import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from flows.pages.site import page_name
from flows.services.run_record import RunLog, logging_to
from tests.flows.support import Outcome

Walltime = Callable[..., Outcome]
HOSTILE = ("<script>alert(1)</script>", "a\" onmouseover='x'&amp;<b>", "{{ 7*7 }}", "../../etc", "solver")
USERS = ("adelheid", "bobbejaan", "yvonne")
FIELDS = "JobID|User|Account|JobName|State|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|ReqCPUS|Partition"


def record(number: int) -> str:
    """A job of a quarter of an hour to three hours; four jobs a day from 1 January 2026."""
    day, hour = divmod(number, 4)
    month, date = 1 + day // 28, 1 + day % 28
    minutes, procs = 15 * (1 + number % 5), 2 ** (number % 4)
    at = f"2026-{month:02}-{date:02}T{hour:02}"
    cells = (
        number, USERS[number % 3], "phys", HOSTILE[number % 5], "COMPLETED", f"{at}:00:00", f"{at}:01:00",
        f"2026-{month:02}-{date:02}T{hour + (minutes + 1) // 60:02}:{(minutes + 1) % 60:02}:00",
        f"{minutes // 60:02}:{minutes % 60:02}:00", "04:00:00", procs, procs, "long",
    )  # fmt: skip
    return "|".join(map(str, cells))


def config_of(folder: Path, n_jobs: int, more: str = "") -> Path:
    """A config over the first jobs of the log, whose site has a hostile name and 8 processors."""
    (folder / "dump.txt").write_text("\n".join([FIELDS, *(record(number) for number in range(n_jobs))]) + "\n")
    path = folder / "site.toml"
    rules = "application_rules = [{ text = 'job_name', find = '(.+)' }]"
    path.write_text(
        f"logs = ['dump.txt']\noutput_dir = '{folder / 'out'}'\n[site]\nname = 'ox<b>bow'\nmax_procs = 8\n{more}\n"
        f"[ingest]\n{rules}\n[run]\nlog_format = 'json'\nmetrics_file = '{folder / 'walltime.prom'}'\n"
    )
    return path


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two published nights, the second with three more weeks of jobs; each with its log and manifest."""
    from flows.services.run.running import run_and_publish

    folder = tmp_path_factory.mktemp("nights")
    for n_jobs in (160, 250):
        with (folder / f"{n_jobs}.log").open("w") as stream, logging_to(RunLog(stream, is_json=True)):
            made = run_and_publish(str(config_of(folder, n_jobs)))
        shutil.copy(made.root / "manifest.json", folder / f"{n_jobs}.json")
    return folder


def test_a_run_is_a_line_of_json_an_event(nights: Path) -> None:
    found = events((nights / "250.log").read_text())
    run_id = json.loads((nights / "250.json").read_text())["run_id"]
    assert [found[place]["event"] for place in (0, 1, -1)] == ["run_started", "step_started", "run_ended"]
    assert {line["run_id"] for line in found} == {run_id} and {line["site"] for line in found} == {"ox<b>bow"}
    steps = {line["step"]: line for line in found if line["event"] == "step_ended"}
    assert steps["ingest"]["rows"] == 251 and steps["clean"]["rows"] == 250 and steps["publish"]["seconds"] >= 0
    record = json.loads((nights / "out" / "last_run.json").read_text())
    assert (record["state"], record["exit_code"], record["run_id"]) == ("succeeded", 0, run_id)
    assert set(record["steps"]) == set(steps) and record["ended_s"] >= record["began_s"]


def test_a_failure_is_one_line_of_json_and_the_metrics_say_so(tmp_path: Path, walltime: Walltime) -> None:
    config = config_of(tmp_path, 5)
    (tmp_path / "dump.txt").unlink()
    done = walltime("run", config, "--plain", "--json")
    (line,) = events(done.err)
    assert (done.code, done.out, line["exit_code"], line["reason"]) == (2, "", 2, "input")
    assert "dump.txt: found no such file" in line["message"] and not (tmp_path / "out").exists()
    states = {one.name: one.samples for one in openmetrics((tmp_path / "walltime.prom").read_text())}
    assert {s.labels["state"] for s in states["walltime_last_run_state"] if s.value} == {"failed"}
    assert walltime("run", config, "--plain", "--log-format", "text").err.startswith("walltime: ")
    (line,) = events(walltime("run", tmp_path / "none.toml", "--log-format", "json").err)
    assert line["reason"] == "input" and line["exit_code"] == 2
    mixed = walltime("run", config, "--verbose")
    assert mixed.code == 2 and mixed.err.startswith("walltime: --verbose: found also --log-format json")


def test_a_metrics_file_that_cannot_be_written_is_a_warning(tmp_path: Path, walltime: Walltime) -> None:
    config = config_of(tmp_path, 5)
    config.write_text(config.read_text().replace("walltime.prom", "dump.txt/walltime.prom"))
    config.write_text(config.read_text().replace("logs = ['dump.txt']", "logs = ['none.txt']"))
    found = events(walltime("run", config, "--plain", "--quiet").err)
    assert [line["event"] for line in found] == ["warning", "run_ended"]
    assert "the metrics were not written" in found[0]["message"]


def test_no_name_is_in_the_log_where_the_site_anonymises(tmp_path: Path, walltime: Walltime) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef0123456789abcdef")
    key.chmod(0o600)
    config = config_of(tmp_path, 40, f"anonymise = true\nkey_file = '{key}'")
    done = walltime("run", config, "--plain")
    assert done.code == 0 and len(events(done.err)) > 30
    with (tmp_path / "dump.txt").open("a") as file:
        file.write("41|mallory|x\n")
    config.write_text(config.read_text().replace("[ingest]", "[ingest]\nmax_damaged = 0"))
    failed = walltime("run", config, "--plain")
    assert failed.code == 2 and events(failed.err)[-1]["reason"] == "input"
    for name in (*USERS, "mallory", "phys", "alert", "onmouseover"):
        assert name not in done.err + failed.err


def test_metrics_are_read_by_a_strict_parser_and_written_in_one_step(nights: Path, walltime: Walltime) -> None:
    shown = walltime("doctor", "--metrics", "-", "--from", nights / "out")
    found = {one.name: one for one in openmetrics(shown.out)}
    assert {"walltime_table_rows", "walltime_jobs", "walltime_step_duration_seconds"} <= set(found)
    assert {s.labels["site"] for one in found.values() for s in one.samples} == {"ox<b>bow"}
    rows = {s.labels["table"]: s.value for s in found["walltime_table_rows"].samples}
    jobs = sum(s.value for s in found["walltime_jobs"].samples)
    assert rows["jobs"] == jobs == 250
    file = nights / "collector" / "walltime.prom"
    assert walltime("doctor", "--metrics", file, "--from", nights / "out").code == 0
    assert [path.name for path in file.parent.iterdir()] == ["walltime.prom"] and file.stat().st_mode & 0o044
    assert {one.name for one in openmetrics((nights / "walltime.prom").read_text())} == set(found)
    assert walltime("doctor", "--metrics", "-", "--from", nights / "none").code == 2


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_of_a_site_shows_hostile_names_as_text(nights: Path, tmp_path: Path, walltime: Walltime) -> None:
    # No series of these jobs is drawn; a page that stands there is linked.
    for name in HOSTILE:
        (tmp_path / page_name(name)).touch()
    facts = json.loads(walltime("report", "--from", nights / "out", "--out", tmp_path, "--json").out)
    text = (tmp_path / "site.html").read_text()
    page = Page(text)
    assert {one["name"] for one in facts["applications"]} == set(HOSTILE)
    for name in (*HOSTILE, "ox<b>bow"):
        assert name in page.text, name
    # One script, ours; nothing of a name became a tag or an attribute, and nothing is loaded.
    assert [attrs for tag, attrs in page.tags if tag == "script"] == [{}]
    # {{7*7}} is not computed. The times above the table may hold any digits.
    assert "49" not in page.text.split("Applications")[1].split("Cleaning")[0]
    assert not {tag for tag, _ in page.tags} & {"b", "img", "link", "iframe", "object"}
    assert not {name for _, attrs in page.tags for name in attrs if name.startswith("on") or name == "src"}
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a" and not str(attrs["href"]).startswith("#")]
    assert len(links) == len(HOSTILE) and all((tmp_path / str(link)).is_file() for link in links)
    # The names of the SVG format, and clips inside of a plot, are no addresses that a browser asks for.
    assert not re.search(r"https?://(?!www\.w3\.org/)|@import|url\((?!#)", text)


def test_the_page_counts_what_the_tables_hold(nights: Path, tmp_path: Path, walltime: Walltime) -> None:
    facts = json.loads(walltime("report", "--from", nights / "out", "--out", tmp_path, "--json").out)
    applications = facts["applications"]
    assert sum(one["n_jobs"] for one in applications) == 250
    hours = [one["proc_hours"] for one in applications]
    assert hours == sorted(hours, reverse=True)
    assert sum(hours) == pytest.approx(sum(2 ** (n % 4) * 15 * (1 + n % 5) / 60 for n in range(250)))
    assert all(one["advice"] for one in applications)
    kept, *aside, whole = facts["cleaning"]
    assert kept["jobs"] + sum(one["jobs"] for one in aside) == whole["jobs"] == 250
    newer, older = facts["nights"]
    assert newer["changes"]["jobs"] == 90 and older["changes"]["jobs"] is None
    assert facts["last_run"]["state"] == "succeeded" and facts["newest_job"].startswith("2026-03")
    dated = walltime("report", "--from", nights / "out", "--out", tmp_path / "x", "--as-of", "2100-01", "--json")
    assert json.loads(dated.out)["version"] == facts["version"]
    first = (tmp_path / "site.html").read_bytes()
    assert walltime("report", "--from", nights / "out", "--out", tmp_path).code == 0
    assert (tmp_path / "site.html").read_bytes() == first


def test_versions_are_compared_by_replay(nights: Path, tmp_path: Path, walltime: Walltime) -> None:
    out = tmp_path / "out"
    shutil.copytree(nights / "out", out)
    older, newer = (json.loads((nights / f"{n}.json").read_text())["run_id"] for n in (160, 250))
    found = json.loads(walltime("versions", "compare", "--from", out, older, older, "--replay", "--json").out)["replay"]
    assert 0 < found["jobs"] <= 90 and (found["capacity"], found["capacity_from"]) == (8, "site.max_procs")
    assert found["each"][0] == found["each"][1] and found["today"]["slowdown_mean"] >= 1
    own = found["each"][0]
    assert own["slowdown_change_q25"] <= own["slowdown_change"] <= own["slowdown_change_q75"]
    busy = json.loads(
        walltime("versions", "compare", "--from", out, older, older, "--replay", "--max-procs", 2, "--json").out
    )["replay"]
    assert busy["today"]["wait_mean_s"] > found["today"]["wait_mean_s"] and busy["capacity_from"] == "--max-procs"
    text = walltime("versions", "compare", "--from", out, older, older, "--replay")
    assert "easy, request" in text.out and "later jobs replayed on 8 processors" in text.out
    none = json.loads(walltime("versions", "compare", "--from", out, older, newer, "--replay", "--json").out)
    assert none["later_jobs"] == 0 and none["replay"]["jobs"] == 0
    plain = walltime("versions", "compare", "--from", out, older, newer, "--json").out
    assert json.loads(plain)["replay"] is None and walltime("versions", "compare", "--from", out, "--json").out == plain
    assert (
        "--max-procs: found no --replay"
        in walltime("versions", "compare", "--from", out, older, newer, "--max-procs", 4).err
    )


def test_what_needs_a_server_of_prefect_and_finds_none_is_a_warning_in_the_form_of_the_log(
    tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.prefect.server_address", lambda: None)
    config = config_of(tmp_path, 5)
    config.write_text(config.read_text().replace("[run]", "[run]\nprocesses = 2"))
    found = events(walltime("run", config, "--log-format", "json").err)
    warned = [line["message"] for line in found if line["event"] == "warning"]
    assert len(warned) == 1 and "take a Prefect server" in warned[0]
    text = walltime("rerun", config, "--name", "try-1").err
    assert text.count("walltime: run.processes and run.dask take a Prefect server") == 1


def test_init_answers_in_json(tmp_path: Path, walltime: Walltime) -> None:
    config_of(tmp_path, 5)
    config = tmp_path / "new.toml"
    asked = ("init", "--out", config, "--log", tmp_path / "dump.txt", "--systemd", tmp_path / "units", "--json")
    done = json.loads(walltime(*asked).out)
    assert done["config"] == str(config) and done["is_new"] and len(done["units"]) == 5 and "sacct" in done["seen"][0]


def test_what_is_served_is_a_line_of_json(tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.prefect import serving

    served = serving.Served("oxbow", "15 2 * * *", "UTC", "http://127.0.0.1:4200/api")
    monkeypatch.setattr(serving, "served_of", lambda *_: served)
    monkeypatch.setattr(serving, "serve_site", lambda *_: None)
    done = walltime("serve", config_of(tmp_path, 5), "--cron", "15 2 * * *", "--json")
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"site": "ox<b>bow", "name": "oxbow", "cron": "15 2 * * *", "timezone": "UTC", "api": served.api}
    ]


def test_a_fault_in_the_metrics_does_not_end_the_run(
    tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("rows")

    monkeypatch.setattr("flows.services.metrics.folder_metrics", broken)
    config = config_of(tmp_path, 5)
    (tmp_path / "dump.txt").unlink()
    found = events(walltime("run", config, "--plain").err)
    assert [line["event"] for line in found] == ["warning", "run_ended"] and "KeyError" in found[0]["message"]
    assert found[1]["exit_code"] == 2
