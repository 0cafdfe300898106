"""Names of applications: each rule by its own examples, whole names, a site's rules first, problem sizes."""

import re
import time

import pyarrow as pa
import pytest

from pipeline.application_names import MAX_CHARACTERS, RULES, application_of
from pipeline.errors import ConfigError
from pipeline.ingest.derive import ColumnDeriver, by_rules, finished_schema, rules_of, tokens_of
from pipeline.ingest.reader import EXTRAS, jobs_table
from pipeline.settings import IngestSettings, SiteSettings, TextRule

EXAMPLES: dict[str, list[tuple[str, str]]] = {
    "folder": [("/home/ada/runs/relax", "relax"), ("./a.out", "a.out"), ("~ada/x/y.sh", "y.sh"), ("plain", "plain")],
    "suffix": [("relax.sh", "relax"), ("a.out", "a"), ("train.py", "train"), ("v1.5", "v1.5")],
    "uuid": [("nf-123e4567-e89b-12d3-a456-426614174000", "nf- ")],
    "date": [("post-2024-05-01", "post- "), ("post_20240501t1230", "post_ "), ("p.20240501_123059.x", "p. .x")],
    "array": [("sweep[0-99%4]", "sweep "), ("sweep(12)", "sweep "), ("f(x)", "f(x)")],
    "hash": [
        ("build-3f2a9c1d", "build- "),
        ("deface", "deface"),
        ("e_0a1b2c3d4e_x", "e_ _x"),
        ("12345678", "12345678"),
    ],
    "part": [("step12of50", "step "), ("proof3", "proof3"), ("4of4", " ")],
    "padded": [
        ("001relax", " relax"),
        ("mol017opt", "mol opt"),
        ("namd2b", "namd2b"),
        ("h2o", "h2o"),
        ("x10y", "x10y"),
    ],
    "counted": [("fem_n8", "fem_ "), ("fem-np=16", "fem- "), ("run_12", "run_12"), ("cfd.seed_7.b", "cfd. .b")],
    "measured": [("fem_64cores", "fem_ "), ("md-10ns", "md- "), ("sort_32gb", "sort_ "), ("lu_3d2", "lu_3d2")],
    "grid": [("heat_128x128x64", "heat_ "), ("4x4-heat", " -heat"), ("max2x", "max2x")],
    "number": [("namd2", "namd "), ("lammps 0.17", "lammps  . "), ("h2o", "h2o"), ("cg.b.16", "cg.b. "), ("42", " ")],
    "separator": [
        ("a  b__c", "a-b-c"),
        ("x.-+y", "x-y"),
        ("größe_m", "größe-m"),
        ("naïve", "naïve"),
        ("a|b\nc", "a-b-c"),
    ],
}
"""By rule some names, each with the result of this rule alone."""
CASES = [(rule, name, made) for rule, own in EXAMPLES.items() for name, made in own]


@pytest.mark.parametrize(("rule", "name", "made"), CASES, ids=[f"{rule}-{name}" for rule, name, _ in CASES])
def test_each_rule_does_what_its_examples_say(rule: str, name: str, made: str) -> None:
    find, gives = RULES[rule]
    assert re.sub(find, gives, name) == made


def test_every_rule_has_an_example_it_changes_and_one_it_leaves() -> None:
    assert list(EXAMPLES) == list(RULES)
    for rule, own in EXAMPLES.items():
        changed = [name for name, made in own if name != made]
        assert changed, rule
        assert rule in {"uuid", "date", "number", "separator"} or len(changed) < len(own), rule


@pytest.mark.parametrize(
    ("job_name", "application"),
    [
        ("relax_0017.sh", "relax"),
        ("Relax-2024-05-01", "relax"),
        ("RELAX", "relax"),
        ("/home/ada/runs/relax_n64.sbatch", "relax"),
        ("cfd_solver", "cfd-solver"),
        ("cfd.solver.n128.seed7", "cfd-solver"),
        ("gromacs2023 npt 10ns", "gromacs-npt"),
        ("nf-ALIGN_(12)", "nf-align"),
        ("wave3d", "wave3d"),
        ("h2o_md", "h2o-md"),
        ("build-3f2a9c1d", "build"),
        ("run12", "run"),
        ("step12of50", "step"),
        ("000017_relax.sh", "relax"),
        ("conf0012a", "conf-a"),
        ("lammps2", "lammps"),
        ("Größe_7", "grösse"),
        ("a|b\nc", "a-b-c"),
        ("1234", None),
        ("", None),
        ("___", None),
    ],
)
def test_whole_names(job_name: str, application: str | None) -> None:
    assert application_of(job_name) == application


def test_a_made_name_stays_what_it_is() -> None:
    for _, name, _ in CASES:
        made = application_of(name)
        assert made is None or application_of(made) == made, name


@pytest.mark.parametrize(
    "hostile",
    [
        "a" * 10**6,
        "1_" * 10**5,
        "-n1" * 10**5,
        "/" * 10**6,
        "0a" * 10**5,
        "[" * 10**6,
        "00" * 10**5 + "x",
        "1of" * 10**5,
    ],
)
def test_hostile_names_cost_little(hostile: str) -> None:
    began = time.process_time()
    application_of(hostile)
    assert time.process_time() - began < 0.2


def finished(settings: IngestSettings, **values: list[str | None]) -> pa.Table:
    n = len(next(iter(values.values())))
    typed = {}
    for name, words in values.items():
        schema_type = jobs_table(0).schema.field(name).type if name in jobs_table(0).schema.names else pa.string()
        typed[name] = pa.array(words, pa.string()).cast(schema_type)
    return ColumnDeriver(SiteSettings(), settings).table(jobs_table(n, **typed))


def test_a_site_s_rules_come_first_and_the_log_s_own_application_stays() -> None:
    rule = TextRule(text="job_name", find=r"^(vasp)_", gives=r"code \1")
    done = finished(
        IngestSettings(application_rules=(rule,)),
        job_name=["vasp_relax_3", "lmp_1", None, "x_2"],
        application=[None, None, None, "17"],
    )
    assert done["application"].to_pylist() == ["code vasp", "lmp", None, "17"]


def test_problem_sizes_come_from_any_text_and_the_first_rule_that_matches() -> None:
    rules = (
        TextRule(find=r"-s(\d+)"),
        TextRule(text="submit_line", find=r"--grid (\d+)"),
        TextRule(text="comment", find="^big$"),
    )
    done = finished(
        IngestSettings(problem_size_rules=rules),
        job_name=["a-s64", "b", "c-s8", "d"],
        submit_line=["x --grid 5", "x --grid 7", None, None],
        comment=[None, None, None, "big"],
    )
    assert done["problem_size"].to_pylist() == ["64", "7", "8", "big"]
    assert not set(done.column_names) & set(EXTRAS.names[1:])


def test_rules_see_a_bounded_text_and_a_wrong_group_is_a_config_error() -> None:
    rule = TextRule(find=r"(z)$")
    (column,) = (by_rules(pa.table({"job_name": ["y" * MAX_CHARACTERS + "z", "z"]}), rules_of([rule], "r")),)
    assert column.to_pylist() == [None, "z"]
    with pytest.raises(ConfigError, match=r"r\[0\]"):
        rules_of([TextRule(find="a", gives=r"\2")], "r")


def test_a_rule_takes_linear_time_whatever_users_type() -> None:
    names = ["x" * 34 + str(n) for n in range(30)]
    rule = TextRule(find="(x+x+)+y")
    assert by_rules(pa.table({"job_name": [*names, "xxy"]}), rules_of([rule], "r")).to_pylist() == [None] * 30 + ["xx"]


@pytest.mark.parametrize("find", [r"(a)\1", r"a(?=b)", "(", "a" * 501])
def test_a_pattern_without_linear_time_is_refused_in_a_sentence(find: str) -> None:
    with pytest.raises(ValueError, match=r"RE2|at most 500"):
        TextRule(find=find)


@pytest.mark.parametrize(
    ("find", "gives", "value"),
    [
        (r"n(\d+)_(\w)", r"\2 by \1", "b by 16"), (r"n(\d+)", r"\g<0>!", "n16!"), (r"n\d+", None, "n16"),
        (r"n(\d+)", None, "16"), (r"(?i)N(\d+)$|n(\d+)_", r"<\2>", "<16>"), (r"q(\d*)", "\\\\", None),
        ("heat", "\\\\", "\\"),
    ],
)  # fmt: skip
def test_what_a_rule_gives(find: str, gives: str | None, value: str | None) -> None:
    rule = TextRule(find=find, gives=gives)
    assert by_rules(pa.table({"job_name": ["heat_n16_b"]}), rules_of([rule], "r")).to_pylist() == [value]


def test_submit_lines_are_kept_as_words_only_where_asked_for() -> None:
    line = """sbatch --comment="a b" 'x y'.sh"""
    assert finished(IngestSettings(), submit_line=[line])["submit_tokens"].to_pylist() == [None]
    assert finished(IngestSettings(keep_submit_line=True), submit_line=[line])["submit_tokens"].to_pylist() == [
        "sbatch --comment=a b x y.sh"
    ]
    assert tokens_of("an 'open quote") == "an 'open quote"
    assert len(tokens_of("w " * 10**5) or "") <= 1_024


def test_the_schema_of_finished_tables_is_known_before_any() -> None:
    done = finished(IngestSettings(), job_name=["a_1"], work_dir=["/x"], comment=[None], submit_line=["y"])
    assert set(done.column_names) <= set(finished_schema(pa.schema([*jobs_table(0).schema, *EXTRAS])).names)
    parts = finished_schema(pa.schema([("job_id", pa.string()), ("job_name", pa.string()), ("work_dir", pa.string())]))
    assert parts.names == ["job_id", "job_name", "application", "problem_size", "inputs", "work_dir_hash"]
