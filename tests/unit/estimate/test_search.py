"""The search finds what was planted, sees nothing after its training period, and does not depend on its workers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import ConfigError
from pipeline.estimate.history import ATTRIBUTES, History
from pipeline.estimate.templates.search import Found, Moment, SearchSettings, crossed, genes_of, scaled_fitness, search
from pipeline.estimate.templates.smith import SMITH_DEFAULT, Errors, Sight, Template, smith, training
from pipeline.estimate.templates.templates_toml import read_templates, write_templates

SMALL = SearchSettings(population=8, generations=4, greedy_pool=20, max_templates=4)


def planted(n: int = 1500, seed: int = 0) -> History:
    """Runtimes that user and queue tell to 2%, and nothing else does."""
    rng = np.random.default_rng(seed)
    user, queue = rng.integers(0, 6, n), rng.integers(0, 4, n)
    level_s = rng.uniform(100, 20_000, (6, 4))
    runtime_s = np.round(level_s[user, queue] * np.exp(rng.normal(0, 0.02, n)))
    submit_s = np.sort(rng.integers(0, 90 * 86_400, n)).astype(float)
    unknown = {name: np.full(n, -1, np.int64) for name in (*ATTRIBUTES, "what")}
    codes = unknown | {"user": user, "who": user, "queue": queue}
    return History(
        row=np.arange(n), submit_s=submit_s, start_s=submit_s, end_s=submit_s + runtime_s, runtime_s=runtime_s,
        requested_s=np.full(n, 30_000.0), requested_mem_kib=np.full(n, np.nan), gpus=np.full(n, np.nan),
        procs=rng.integers(1, 33, n).astype(float),
        local_s=submit_s.astype(np.int64), is_lower_bound=np.zeros(n, bool),
        is_learnt=np.ones(n, bool), codes=codes,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["greedy", "both"])
def test_what_was_planted_is_found(method: str) -> None:
    h = planted()
    found = search(h, h.submit_s[1000], SMALL.model_copy(update={"method": method, "greedy_pool": 100}), seed=1)
    late = np.arange(len(h)) >= 1000
    error_s = np.nanmean(np.abs(smith(h, found.templates)[late, 1] - h.runtime_s[late]))
    assert error_s < 0.05 * h.runtime_s.mean()
    assert any({"user", "queue"} <= set(template.attributes) for template in found.templates)


@pytest.mark.parametrize("method", ["greedy", "genetic", "both"])
def test_the_number_of_workers_changes_nothing(method: str) -> None:
    h, how = planted(400), SMALL.model_copy(update={"method": method})
    assert search(h, h.submit_s[300], how, 7, 1) == search(h, h.submit_s[300], how, 7, 2)


def test_nothing_after_the_training_period_is_seen() -> None:
    h = planted(400)
    until_s = h.submit_s[250]
    is_late = h.end_s > until_s
    changed = replace(h, runtime_s=np.where(is_late, 1e7, h.runtime_s), is_lower_bound=is_late)
    assert search(h, until_s, SMALL, 3) == search(changed, until_s, SMALL, 3)
    trained = training(h, until_s)
    assert (trained.submit_s < until_s).all() and np.nanmax(trained.submit_s + trained.runtime_s) <= until_s


def test_the_error_is_that_of_the_estimator_and_of_the_request_where_it_is_silent() -> None:
    h = planted(300)
    whole_s = h.end_s.max() + 1
    estimates_s = smith(h, SMITH_DEFAULT)[:, 1]
    answered = np.where(np.isnan(estimates_s), h.requested_s, estimates_s)
    assert Errors(h, whole_s).mean_s(SMITH_DEFAULT) == pytest.approx(np.abs(answered - h.runtime_s).mean())


def test_progress_is_told_and_a_search_stops_when_told() -> None:
    told: list[Moment] = []
    h = planted(200)

    def tell(moment: Moment) -> bool:
        told.append(moment)
        return len(told) < 2

    found = search(h, h.submit_s[150], SMALL.model_copy(update={"method": "genetic"}), 1, 1, tell)
    assert [moment.done for moment in told] == [1, 2] and found.templates
    assert told[1].error_s <= told[0].error_s


def test_fitness_is_scaled_between_the_worst_and_the_best() -> None:
    assert scaled_fitness(np.array([10.0, 20, 30]), 4).tolist() == [4, 2.5, 1]
    assert scaled_fitness(np.array([5.0, 5]), 4).tolist() == [1, 1]


def test_children_have_their_parents_genes_and_no_others() -> None:
    rng = np.random.default_rng(0)
    one, other = np.zeros((2, 5), np.int64), np.ones((4, 5), np.int64)
    for _ in range(50):
        a, b = crossed(one, other, rng)
        assert len(a) + len(b) == 6 and (a == 0).sum() + (b == 0).sum() == 10


def test_genes_leave_out_what_the_log_never_tells() -> None:
    h = planted(100)
    genes = genes_of(Sight(h))
    assert genes.names == ("user", "queue", "hour", "weekday")
    assert genes_of(Sight(replace(h, requested_s=np.full(100, np.nan)))).sizes[1] == 1
    rows = genes.drawn(np.random.default_rng(1), 500)
    assert len({genes.template(row) for row in rows}) > 400
    assert (genes.neighbours(rows[0]) != rows[0]).sum(axis=1).tolist() == [1] * int((genes.sizes - 1).sum())


def test_mutation_moves_a_gene_to_another_of_its_values() -> None:
    rng = np.random.default_rng(1)
    genes = genes_of(Sight(planted(100)))
    rows = genes.drawn(rng, 200)
    moved = genes.mutated(rng, rows, 1.0)
    assert (moved != rows).all() and (moved < genes.sizes).all()
    assert np.array_equal(genes.mutated(rng, rows, 0.0), rows)


@pytest.mark.parametrize("log", ["kth.toml", "a\n[[template]]\nevil = 1", "\x1b]0;x\x07\u202e.swf"])
def test_a_file_reads_back_as_written_whatever_the_log_is_called(tmp_path: Path, log: str) -> None:
    varied = (
        *SMITH_DEFAULT, Template(max_age_days=0.5, procs_range="log2", procs_width=0.25),
        Template(statistic="median", max_count=7), Template(statistic="last", last_k=3, max_count=None),
    )  # fmt: skip
    path = write_templates(tmp_path / "t.toml", Found(varied, 1234.5, 10, 99.0, "both", 3), log)
    assert read_templates(path) == varied
    text = path.read_text()
    assert "1234.5 s" in text and "\x1b" not in text and "\u202e" not in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "template"), ("template = 3", "template"),
        ("[[template]]\nmaxcount = 3", "unknown key template.0.maxcount"),
        ('[[template]]\nattributes = ["\\u001b[2J"]', "a template may name"), ("[[template]", "TOML"),
        ('[[template]]\nstatistic = "median"', "max_count"), ("[[template]]\nmax_count = nan", "max_count"),
        ("[[template]]\nprocs_width = inf", "procs_width"), ("\x00", "TOML"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        read_templates(path)
    assert "\x1b" not in str(caught.value) and "\x00" not in str(caught.value)


def test_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_templates(tmp_path / "none.toml")
