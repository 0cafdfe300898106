"""Advice on measured and published series: the counts that their code can run on, and which of them to request."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.axes import Axis, axis_of, counted
from pipeline.scaling.choices import Choice, CostSettings, Energy, choices, cost_of, sentence
from pipeline.scaling.fitted_series import predicted_at
from pipeline.scaling.next_run import Favoured, runnable

REACH = 2
"""Recommended counts are at most this many times the largest observed one."""

_COUNTS = 64
"""Number of counts compared between the ends of a series."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The recommended counts: one row per choice in plain values, and the same in sentences."""

    choices: list[dict[str, Any]]
    sentences: list[str]


def with_answers(
    series: Sequence[dict[str, Any]], tables: Mapping[str, pa.Table], max_procs: int | None, cost: CostSettings
) -> list[dict[str, Any]]:
    """The series with recommendations: `answer` (sentences), `choices`, `energy`, and predictions with costs."""
    counts = {one["series"]: _counts(one, max_procs, cost.over(axis_of_series(one))) for one in series}
    every = sorted({int(n) for found in counts.values() for n in found})
    rows = predicted_at(tables, every, max_procs)
    return [
        _answered(one, _answer(one, rows.get(one["series"], []), counts[one["series"]], own), own)
        for one, own in ((one, cost.over(axis_of_series(one))) for one in series)
    ]


def axis_of_series(one: Mapping[str, Any]) -> Axis:
    """What the counts of a series are of, from its observations."""
    return axis_of(next((row["axis"] for row in one["observations"]), None))


def with_published_answer(one: Mapping[str, Any], cost: CostSettings) -> dict[str, Any]:
    """A published series with recommendations, from its predictions at counts that the code can run on."""
    cost = cost.over(axis_of_series(one))
    sizes = np.array([row["procs"] for row in one["observations"] if row["runtime_s_median"]], np.float64)
    counts = np.array([row["procs"] for row in one["predictions"]], np.float64)
    if not len(sizes):
        return _answered(one, Answer([], []), cost)
    near = counts[(counts >= sizes.min()) & (counts <= REACH * sizes.max())]
    candidates = np.union1d(sizes, _runnable_counts(near, sizes, cost.procs_per_node, Favoured.of(one["patterns"])))
    return _answered(one, _answer(one, one["predictions"], candidates, cost), cost)


def _answered(one: Mapping[str, Any], answer: Answer, cost: CostSettings) -> dict[str, Any]:
    return dict(one) | {
        "axis": axis_of_series(one).value,
        "answer": answer.sentences,
        "choices": answer.choices,
        "energy": _energy_rows(_energy(one)),
        "predictions": [priced(row, cost) for row in one["predictions"]],
    }


def priced(row: Mapping[str, Any], cost: CostSettings) -> dict[str, Any]:
    """The prediction with nodes, proc_hours and price added; null where unknown."""
    found = cost_of(np.array([row["procs"]], np.float64), np.array([row["runtime_s"]], np.float64), cost)
    names = {"proc_hours": found.proc_hours, "price": found.price}
    known = {name: float(values[0]) if np.isfinite(values[0]) else None for name, values in names.items()}
    return dict(row) | known | {"nodes": int(found.nodes[0]) if np.isfinite(found.nodes[0]) else None}


def _energy(one: Mapping[str, Any]) -> Energy | None:
    """Measured energy by count, from the observations of the series."""
    names = ("procs", "energy_j_median", "energy_delay_js_median")
    return Energy.of(*(_column(one["observations"], name) for name in names))


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> Floats:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], np.float64)


def _energy_rows(found: Energy | None) -> list[dict[str, Any]]:
    if found is None:
        return []
    least_energy, least_delay = found.least()
    return [
        {
            "procs": int(procs),
            "energy_j": float(energy_j),
            "energy_delay_js": float(delay_js),
            "least": [name for name, at in (("energy", least_energy), ("energy-delay", least_delay)) if at == procs],
        }
        for procs, energy_j, delay_js in zip(found.procs, found.energy_j, found.energy_delay_js, strict=True)
    ]


def _counts(one: Mapping[str, Any], max_procs: int | None, cost: CostSettings) -> Floats:
    """The observed counts, and the counts up to twice the largest that code and machine can run."""
    max_procs = max_procs if axis_of_series(one) is Axis.PROCS else None
    favoured = Favoured.of(one["patterns"])
    sizes = np.array([row["procs"] for row in one["observations"] if row["runtime_s_median"]], np.float64)
    if len(sizes) < 2:
        return sizes
    top = max(min(sizes[-1] * REACH, max_procs or np.inf), sizes[-1])
    powers = 2.0 ** np.arange(np.ceil(np.log2(sizes[0])), np.floor(np.log2(top)) + 1)
    squares = np.arange(np.ceil(np.sqrt(sizes[0])), min(np.floor(np.sqrt(top)), 1000) + 1) ** 2
    between = np.geomspace(sizes[0], top, _COUNTS).round()
    node = favoured.node(cost.procs_per_node) or 1
    found = np.unique(np.concatenate([between, powers, squares, np.maximum(between // node, 1) * node]))
    inside = found[(found >= sizes[0]) & (found <= top)]
    return np.union1d(sizes, _runnable_counts(inside, sizes, cost.procs_per_node, favoured))


def _runnable_counts(counts: Floats, sizes: Floats, procs_per_node: int | None, favoured: Favoured) -> Floats:
    """The counts that the code can run on, checked within a node and above one separately.

    Square counts above one node need not be whole nodes.
    """
    is_within = counts <= (procs_per_node or np.inf)
    return np.concatenate([runnable(counts[part], sizes, procs_per_node, favoured) for part in (is_within, ~is_within)])


def _answer(one: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], counts: Floats, cost: CostSettings) -> Answer:
    """The recommended ones of `counts`, from the predictions `rows` at them, with measured energy."""
    own = [row for row in rows if row["procs"] in set(counts)]
    measured, reliability = _energy(one), {row["procs"]: row["reliability"] for row in own}
    joules = dict(zip(measured.procs, measured.energy_j, strict=True)) if measured else {}
    energy_j = np.array([joules.get(row["procs"], np.nan) for row in own], np.float64)
    names = ("procs", "runtime_s", "runtime_s_lo80", "runtime_s_hi80")
    procs, runtime_s, low_s, high_s = (_column(own, name) for name in names)
    found = choices(procs, runtime_s, low_s, high_s, cost, energy_j)
    plain = [_plain(choice) | {"reliability": reliability[choice.procs]} for choice in found]
    axis = axis_of_series(one)
    frugal = measured.sentence(axis) if measured else ""
    chosen = {choice.procs for choice in found}
    doubts = dict.fromkeys(
        f"{counted(row['procs'], axis)}: {row['advice']}"
        for row in own
        if row["procs"] in chosen and row["reliability"] != "ok" and row["advice"]
    )
    return Answer(plain, [*_sentences(found, counts, reliability, axis), *doubts, *([frugal] if frugal else [])])


def _plain(choice: Choice) -> dict[str, Any]:
    """The choice in plain values, with null for unknown."""
    known = {name: None if value != value else value for name, value in asdict(choice).items()}  # noqa: PLR0124
    names = {"low_s": "runtime_s_lo80", "high_s": "runtime_s_hi80"}
    whole = None if known["nodes"] is None else int(known["nodes"])
    return {names.get(name, name): value for name, value in known.items()} | {"nodes": whole}


def _sentences(found: Sequence[Choice], counts: Floats, reliability: Mapping[int, str], axis: Axis) -> list[str]:
    lines = [sentence(choice, axis, reliability[choice.procs]) for choice in found]
    if len(counts) == 1:
        return [*lines, "One size says nothing about others: run on another count before you request more."]
    least, most = (f"{int(procs):,}" for procs in (counts[0], counts[-1]))
    against = f"; efficiency is that against {least}" if any(np.isfinite(one.efficiency) for one in found) else ""
    compared = f"Counts from {least} to {most} were compared{against}."
    return [*lines, *([compared] if found else [])]
