"""What a person asks of a few series: how many processors to ask for, what that costs, how weak scaling goes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flows.render import number
from flows.series import predicted_at
from pipeline.core.arrays import Floats
from pipeline.core.tables import GROUPS, OBSERVATIONS
from pipeline.predict.cost import CostSettings, cost_of
from pipeline.predict.energy import Energy
from pipeline.predict.runnable import Favoured, runnable
from pipeline.predict.text_advice import choices, sentence
from pipeline.predict.weak_scaling import WeakScaling, weak_scaling

REACH = 2
"""An answer names counts up to this many times the largest that ran: further off nothing was seen."""

_COUNTS = 64
"""Counts between the ends of a series that are looked at."""


def with_answers(
    series: Sequence[dict[str, Any]], tables: Mapping[str, pa.Table], max_procs: int | None, cost: CostSettings
) -> list[dict[str, Any]]:
    """The series with `answer`, sentences on what to ask for, and nodes, processor-hours and price of predictions."""
    counts = {one["series"]: _counts(one, max_procs, cost) for one in series}
    every = sorted({int(n) for found in counts.values() for n in found})
    rows = predicted_at(tables, every, max_procs)
    return [
        one
        | {
            "answer": _answer(rows.get(one["series"], []), counts[one["series"]], cost),
            "predictions": [priced(row, cost) for row in one["predictions"]],
        }
        for one in series
    ]


def published_answer(one: Mapping[str, Any], cost: CostSettings) -> list[str]:
    """The answer of a series from its published predictions, on those of their counts that the code can run on."""
    sizes = np.array([row["procs"] for row in one["observations"] if row["runtime_s_median"]], np.float64)
    counts = np.array([row["procs"] for row in one["predictions"]], np.float64)
    if not len(sizes):
        return []
    near = counts[(counts >= sizes.min()) & (counts <= REACH * sizes.max())]
    can_run = runnable(near, sizes, cost.procs_per_node, Favoured.of(one["patterns"]))
    return _answer(one["predictions"], np.union1d(sizes, can_run), cost)


def priced(row: Mapping[str, Any], cost: CostSettings) -> dict[str, Any]:
    """A prediction with nodes, proc_hours and price; null where unknown."""
    found = cost_of(np.array([row["procs"]], np.float64), np.array([row["runtime_s"]], np.float64), cost)
    names = {"proc_hours": found.proc_hours, "price": found.price}
    known = {name: float(values[0]) if np.isfinite(values[0]) else None for name, values in names.items()}
    return dict(row) | known | {"nodes": int(found.nodes[0]) if np.isfinite(found.nodes[0]) else None}


def with_energy(series: Sequence[dict[str, Any]], energy: Mapping[str, Energy]) -> list[dict[str, Any]]:
    """The series with `energy`: per count measured energy (J) and energy-delay (J s); empty where it is unknown."""
    return [one | {"energy": _energy_rows(energy.get(one["series"]))} for one in series]


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
    """The counts that ran, and those the code can run on between them and up to twice the largest, on the machine."""
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
    return np.union1d(sizes, runnable(inside, sizes, cost.procs_per_node, favoured))


def _answer(rows: Sequence[Mapping[str, Any]], counts: Floats, cost: CostSettings) -> list[str]:
    own = [row for row in rows if row["procs"] in set(counts)]
    names = ("procs", "runtime_s", "runtime_s_lo80", "runtime_s_hi80")
    found = choices(*(np.array([row[name] for row in own], np.float64) for name in names), cost)
    lines = [sentence(choice) for choice in found]
    if len(counts) == 1:
        return [*lines, "One size tells nothing of others: run on another count before you ask for more."]
    lines += [f"Counts from {number(int(counts[0]))} to {number(int(counts[-1]))} were compared."] if found else []
    doubtful = {row["procs"]: row["reliability"] for row in own if row["reliability"] != "ok"}
    unsure = [f"{number(choice.procs)} ({doubtful[choice.procs]})" for choice in found if choice.procs in doubtful]
    return [*lines, *([f"Doubtful: {', '.join(unsure)}."] if unsure else [])]


def weak_series(tables: Mapping[str, pa.Table], at: Sequence[int]) -> list[dict[str, Any]]:
    """Per application whose problem_size grows as its processors: its weak scaling, and runtimes `at` counts."""
    if GROUPS.name not in tables:
        return []
    named = {row["group_id"]: row for row in tables[GROUPS.name].to_pylist()}
    by_application: dict[str, list[tuple[float, float, float]]] = {}
    for row in tables[OBSERVATIONS.name].to_pylist():
        group = named[row["group_id"]]
        point = _as_number(group["problem_size"]), row["procs"], row["runtime_s_median"]
        by_application.setdefault(group["application"], []).append(point)
    found = {name: weak_scaling(*np.array(points, np.float64).T) for name, points in by_application.items()}
    return [_weak_as_dict(name, one, at) for name, one in sorted(found.items()) if one is not None]


def _as_number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return np.nan


def _weak_as_dict(name: str, found: WeakScaling, at: Sequence[int]) -> dict[str, Any]:
    columns = (found.procs, found.runtime_s, found.efficiency, found.scaled_speedup)
    keys = ("procs", "runtime_s", "efficiency", "scaled_speedup")
    procs = np.array([n for n in at if n >= found.procs[0]], np.float64)
    beyond = zip(procs, found.runtime_at(procs), strict=True)
    return {
        "application": name,
        "serial_fraction": found.serial_fraction,
        "worst_miss": found.worst_miss,
        "points": [
            dict(zip(keys, map(float, row), strict=True)) | {"procs": int(row[0])} for row in zip(*columns, strict=True)
        ],
        "predictions": [{"procs": int(n), "runtime_s": float(value)} for n, value in beyond],
    }
