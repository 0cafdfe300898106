"""The look-up file answers as the method `table` does, and nothing a user writes can change its meaning."""

import io

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.estimate.estimates import estimates_table, table_rows
from pipeline.estimate.history import History
from pipeline.export.lookup_file import LEAST_MULTIPLIER, MULTIPLIERS, hashes_of, key_of, lookup_file, quoted
from pipeline.export.lookup_reader import MEMORY_KIND, Lookup, hash_of, row_of
from pipeline.export.scheduler_files import known_applications, known_gpu_types
from pipeline.tables import ESTIMATES
from tests.rows import jobs_of
from tests.table_lookup import look_up, published_rows
from tests.unit.estimate.table_log import made_log, state_at
from tests.unit.export.slurm_plugin import found_in, job_at, memory_of, of_user, table_of

HOSTILE = ("a|b", "x\ty", "new\nline", 'q"u', "per%cent", "übung", "", " ", "n|x", "\x00", "a\r\nb\tc|d", "100%25")


@pytest.fixture(scope="module")
def log() -> History:
    return made_log()


@pytest.fixture(scope="module")
def published(log: History) -> pa.Table:
    return estimates_table(table_rows(state_at(log), log), "he re", "run7")


@pytest.fixture(scope="module")
def lookup(published: pa.Table) -> Lookup:
    return Lookup(io.BytesIO(lookup_file(published, {})))


def test_every_answer_is_that_of_method_table(log: History, published: pa.Table, lookup: Lookup) -> None:
    random = np.random.default_rng(3)
    asked = log.take(np.sort(random.choice(len(log), 400, replace=False)))
    # Half of the submits have a value that the table has never seen.
    for name in ("requested_s", "procs"):
        getattr(asked, name)[random.random(len(asked)) < 0.3] = 77.0
    columns = published_rows(published)
    wanted = look_up(columns, asked)
    for place in range(len(asked)):
        found = found_in(lookup, job_at(asked, place))
        assert found is not None
        assert np.allclose(found.quantiles_s, wanted[place], rtol=1e-6, atol=0)


def test_the_stamp_says_what_the_file_is(published: pa.Table, lookup: Lookup) -> None:
    facts = [lookup.facts[name] for name in ("run", "site", "rows")]
    assert facts == ["run7", "he%20re", str(published.num_rows)]
    assert lookup.newest_end_s == max(published.column("newest_end_s").to_pylist())
    assert next(iter(lookup.chain.values())) == "who+what+queue+requested_s+procs+gpus+gpu_type"
    assert list(lookup.chain.values())[-1] == "all"


def test_the_same_tables_give_the_same_bytes_in_any_order_of_rows(published: pa.Table) -> None:
    order = np.random.default_rng(1).permutation(published.num_rows)
    assert lookup_file(published, {}) == lookup_file(published.take(order), {})


def test_a_changed_value_changes_the_stamp(published: pa.Table, lookup: Lookup) -> None:
    place = published.column_names.index("n_jobs")
    more = pa.array([n + 1 for n in published.column("n_jobs").to_pylist()], published.column("n_jobs").type)
    other = Lookup(io.BytesIO(lookup_file(published.set_column(place, "n_jobs", more), {})))
    assert other.facts["stamp"] != lookup.facts["stamp"]


def test_hostile_names_stay_inside_their_field(published: pa.Table) -> None:
    n = len(HOSTILE)
    rows = published.slice(0, n).to_pylist()
    for row, name in zip(rows, HOSTILE, strict=True):
        row |= {"template": "who", "chain_rank": 6, "who": name, "n_jobs": 5 + len(name)}
    table = pa.Table.from_pylist(rows, published.schema)
    file = lookup_file(table, {name: f"app {name}" for name in HOSTILE})
    found = Lookup(io.BytesIO(file))
    assert file.isascii() and file.count(b"\n") == 4 + int(found.facts["buckets"]) + 1 + 2 * n
    for name in HOSTILE:
        answer = found_in(found, {"who": name, "requested_s": 0.0})
        assert answer is not None and answer.n_jobs == 5 + len(name)
        assert found.application(name) == f"app {name}"
    assert found.application("relax_12.sh") is None
    assert found_in(found, {"who": "nobody", "requested_s": 0.0}) is None


@pytest.mark.parametrize("multiplier", [LEAST_MULTIPLIER, LEAST_MULTIPLIER + MULTIPLIERS - 1])
def test_all_hashes_at_once_are_those_of_one_key_each(multiplier: int) -> None:
    keys = ["", "a", "8|", *(key_of("0", (name, 3600.0, 0.1)) for name in HOSTILE), "x" * 500]
    assert hashes_of(keys, multiplier).tolist() == [hash_of(key, multiplier) for key in keys]


def test_numbers_and_texts_have_one_form() -> None:
    assert key_of("2", ("ada", 3600.0, 64)) == "2|ada|3600|64"
    assert quoted("a b/ü~-_.@+") == "a%20b%2F%C3%BC~-_.@+"


def test_buckets_are_short(published: pa.Table, lookup: Lookup) -> None:
    file = lookup.file
    file.seek(int(lookup.facts["directory"]))
    offsets = np.array([int(line) for line in file.read(13 * (int(lookup.facts["buckets"]) + 1)).split()])
    assert offsets[-1] == int(lookup.facts["bytes"])
    assert np.diff(offsets).max() < 30 * (offsets[-1] - offsets[0]) / published.num_rows


def test_a_file_that_was_cut_is_refused(published: pa.Table) -> None:
    file = lookup_file(published, {})
    with pytest.raises(ValueError, match="bytes"):
        Lookup(io.BytesIO(file[:-1]))
    with pytest.raises(ValueError, match="format"):
        Lookup(io.BytesIO(b"another file\n"))
    with pytest.raises(KeyError, match="multiplier"):
        Lookup(io.BytesIO(b"#walltime-lookup 4 stamp=1\n"))


def test_two_runs_in_one_table_are_refused(published: pa.Table) -> None:
    place = published.column_names.index("run_id")
    runs = pa.array([f"run{n % 2}" for n in range(published.num_rows)], published.schema.field("run_id").type)
    with pytest.raises(InputError, match="2 values of run_id"):
        lookup_file(published.set_column(place, "run_id", runs), {})


def test_only_names_that_the_rules_miss_are_listed() -> None:
    rows = [
        {"job_name": "relax_12.sh", "application": "relax"},
        {"job_name": "Übung", "application": "übung"},
        {"job_name": "prod", "application": "solver"},
        {"job_name": "two", "application": "b"},
        {"job_name": "two", "application": "a"},
        {"job_name": "two", "application": "a"},
        {"job_name": None, "application": "x"},
        {"job_name": "y", "application": None},
    ]
    assert known_applications(jobs_of(rows)) == {"prod": "solver", "two": "a", "Übung": "übung"}


def damaged(file: bytes, old: bytes, new: bytes) -> io.BytesIO:
    assert old in file and len(old) == len(new)
    return io.BytesIO(file.replace(old, new))


def test_damaged_rows_and_first_lines_are_refused() -> None:
    file = lookup_file(table_of(of_user("ada", 700.0)), {})
    job = {"who": "ada", "requested_s": 3600.0}
    found = Lookup(io.BytesIO(file)).estimate(job)
    assert found is not None and (found.quantiles_s, found.n_jobs) == ((700.0,) * 6, 7)
    assert Lookup(io.BytesIO(file)).estimate(job | {"who": "bob"}) is None
    with pytest.raises(ValueError, match="checksum"):
        Lookup(damaged(file, b"\t700\t", b"\t100\t")).estimate(job)
    for old, new in ((b"newest_end_s=4", b"newest_end_s=9"), (b"names=0", b"names=2"), (b"6:who", b"6:wha")):
        with pytest.raises(ValueError, match="checksum"):
            Lookup(damaged(file, old, new))


def test_memory_is_never_less_than_was_used_and_rests_on_jobs_of_the_user() -> None:
    rows = memory_of(
        {}, {"what": "big", "largest_mem_kib": 1.5 * 2**20 + 1}, {"what": "few", "n_jobs": 4}, {"what": None},
        {"what": "halves", "requested_mem_kib": 1000.4}, {"what": "halves", "requested_mem_kib": 999.6},
    )  # fmt: skip
    file = Lookup(io.BytesIO(lookup_file(ESTIMATES.empty(), {}, rows)))
    job = {"who": "ada", "what": "relax", "requested_mem_kib": 2**22, "procs": 4}

    def found(**more: object) -> tuple[int, int] | None:
        line = row_of(file.line_of, f"{MEMORY_KIND}1", "who+what+requested_mem_kib+procs", job | more)
        return line and tuple(map(int, line.split("\t")))

    asked = {what: found(what=what) for what in ("relax", "big", "few", "other", None)}
    assert asked == {"relax": (2**20, 12), "big": (1537 * 1024, 12)} | dict.fromkeys(("few", "other", None))
    assert found(what="halves", requested_mem_kib=1000) == (2**20, 24)
    assert found(requested_mem_kib=None) is None


def test_gpus_of_several_types_have_rows_of_their_own() -> None:
    template = "who+procs+gpus+gpu_type"
    rows = [
        {"template": template, "chain_rank": 5, "who": "ada", "procs": 8, "gpus": gpus, "gpu_type": kind}
        | {"runtime_s": runtime_s}
        for gpus, kind, runtime_s in ((2, "a100", 100.0), (2, "v100", 300.0), (0, None, 900.0))
    ]
    file = Lookup(io.BytesIO(lookup_file(table_of(*rows), {}, gpu_types={"volta": "v100"})))
    job = {"who": "ada", "procs": 8, "gpus": 2}
    found = [found_in(file, job | {"gpu_type": kind}) for kind in ("a100", file.gpu_type("volta"), file.gpu_type("x"))]
    assert [one and one.quantiles_s[1] for one in found] == [100.0, 300.0, None]
    assert found_in(file, job | {"gpus": 0, "gpu_type": ""}).quantiles_s[1] == 900.0
    asked = [("a", 1, "a100"), ("a", 2, "a100"), ("b", 1, "a100"), ("b", 1, "v100"), ("c", 0, None), ("d", 1, None)]
    jobs = jobs_of([{"queue": queue, "gpus": gpus, "gpu_type": kind} for queue, gpus, kind in asked])
    assert known_gpu_types(jobs) == {"a": "a100"}
