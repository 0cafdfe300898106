"""How many processors to request, and what they cost: from runtimes on runnable counts, in sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.axes import MOST_EFFICIENCY, Axis, axis_of, counted, plural
from pipeline.scaling.fitted_series import predicted_at
from pipeline.scaling.next_run import Favoured, runnable
from pipeline.scaling.scalability import NO_FASTER


@dataclass(frozen=True, slots=True)
class CostSettings:
    """`procs_per_node`: processors of a node (None: unknown). `rate`: price of a processor-hour (None: unknown)."""

    procs_per_node: int | None = None
    rate: float | None = None

    def over(self, axis: Axis) -> "CostSettings":
        """The settings for counts of an axis: of GPUs and nodes neither is known."""
        return self if axis is Axis.PROCS else CostSettings()


@dataclass(frozen=True, slots=True)
class Cost:
    """Per count: nodes (NaN: unknown), hours times processors (GPUs, nodes) charged, and their price (NaN: no rate)."""

    nodes: Floats
    proc_hours: Floats
    price: Floats


def cost_of(procs: Floats, runtime_s: Floats, settings: CostSettings) -> Cost:
    """The cost of runs on `procs` processors that take `runtime_s`; the last node is charged whole.

    Parameters
    ----------
    procs : Floats
        float64[n], processors.
    runtime_s : Floats
        float64[n], runtimes, s.
    settings : CostSettings
        Processors per node, and price of a processor-hour.

    Returns
    -------
    Cost
        Arrays of n values: nodes, processor-hours, price.

    Examples
    --------
    >>> cost = cost_of(np.array([6.0]), np.array([3600.0]), CostSettings(procs_per_node=4, rate=0.5))
    >>> float(cost.nodes[0]), float(cost.proc_hours[0]), float(cost.price[0])
    (2.0, 8.0, 4.0)
    """
    nodes = np.full(len(procs), np.nan)
    charged = np.asarray(procs, np.float64)
    if settings.procs_per_node:
        nodes = np.ceil(charged / settings.procs_per_node)
        charged = nodes * settings.procs_per_node
    proc_hours = charged * runtime_s / 3600
    return Cost(nodes, proc_hours, proc_hours * (np.nan if settings.rate is None else settings.rate))


@dataclass(frozen=True, slots=True)
class Choice:
    """A count to request: why, runtime (s) with 80% ends, efficiency, nodes, processor-hours, price, energy (J).

    NaN: unknown. Energy is the measured energy of runs on that count. Of a series over GPUs or nodes the count is of
    these, and hours are theirs.
    """

    why: str
    procs: int
    runtime_s: float
    low_s: float
    high_s: float
    efficiency: float
    nodes: float
    proc_hours: float
    price: float
    energy_j: float


EVERY_WAY = "the best in time and cost"
"""Why a count is chosen that is the best trade-off, the cheapest and the fastest."""


def choices(
    procs: Floats, runtime_s: Floats, low_s: Floats, high_s: Floats, settings: CostSettings,
    energy_j: Floats | None = None,
) -> list[Choice]:  # fmt: skip
    """The cheapest count, the one of best trade-off, and the fastest; a count of several roles is listed once.

    The trade-off is the least cost times runtime, which is the largest speed-up squared over processors (Ghosal,
    Serazzi & Tripathi 1991). The fastest is the smallest count within 1% of the least runtime. Efficiency is relative
    to the smallest count given, so counts are in rising order; of a single count it is unknown, and so it is for all
    where one would exceed MOST_EFFICIENCY.

    Parameters
    ----------
    procs : Floats
        float64[n], processors, ascending.
    runtime_s, low_s, high_s : Floats
        float64[n], median runtimes and ends of 80% intervals, s.
    settings : CostSettings
        Processors per node, and price of a processor-hour.
    energy_j : Floats, optional
        float64[n], measured energy, J; NaN: unknown.

    Returns
    -------
    list of Choice
        At most three counts, none twice.

    References
    ----------
    Ghosal, Serazzi & Tripathi (1991), The processor working set and its use in scheduling multiprocessor systems.

    Examples
    --------
    >>> procs, runtime_s = np.array([1.0, 2.0, 4.0]), np.array([100.0, 55.0, 40.0])
    >>> [(choice.why, choice.procs) for choice in choices(procs, runtime_s, runtime_s, runtime_s, CostSettings())]
    [('the best trade-off', 2), ('the cheapest', 1), ('the fastest', 4)]
    """
    if not len(procs):
        return []
    cost = cost_of(procs, runtime_s, settings)
    places = {
        "the best trade-off": int(np.argmin(cost.proc_hours * runtime_s)),
        "the cheapest": int(np.argmin(cost.proc_hours)),
        "the fastest": int(np.argmax(runtime_s <= NO_FASTER * runtime_s.min())),
    }
    if len(procs) == 1:
        places = {"the only count that ran": 0}
    whys: dict[int, list[str]] = {}
    for why, place in places.items():
        whys.setdefault(place, []).append(why)
    efficiency = procs[0] * runtime_s[0] / (procs * runtime_s) if len(procs) > 1 else np.full(1, np.nan)
    if np.nanmax(efficiency, initial=0.0) > MOST_EFFICIENCY:
        efficiency = np.full(len(procs), np.nan)
    energy_j = np.full(len(procs), np.nan) if energy_j is None else energy_j
    columns = (runtime_s, low_s, high_s, efficiency, cost.nodes, cost.proc_hours, cost.price, energy_j)
    return [
        Choice(EVERY_WAY if len(why) == len(places) > 1 else " and ".join(why), int(procs[place]),
               *(float(column[place]) for column in columns))
        for place, why in whys.items()
    ]  # fmt: skip


def sentence(choice: Choice, axis: Axis = Axis.PROCS, reliability: str = "ok") -> str:
    """Count, time and cost of one choice, in a sentence that begins with what makes it doubtful."""
    doubt = "" if reliability == "ok" else f", by doubtful evidence ({reliability.replace('+', ', ')})"
    nodes = f" ({choice.nodes:,.0f} {plural('node', choice.nodes)})" if np.isfinite(choice.nodes) else ""
    price = f", cost {figure(choice.price)}" if np.isfinite(choice.price) else ""
    energy = f", {figure(choice.energy_j)} J measured" if np.isfinite(choice.energy_j) else ""
    time = f"{figure(choice.runtime_s)} s (80%: {figure(choice.low_s)} to {figure(choice.high_s)})"
    efficient = f", efficiency {choice.efficiency:.0%}" if np.isfinite(choice.efficiency) else ""
    return (
        f"{choice.why[0].upper()}{choice.why[1:]}{doubt}: {counted(choice.procs, axis)}{nodes}, {time}, "
        f"{figure(choice.proc_hours)} {axis.unit}-hours{price}{energy}{efficient}."
    )


def figure(value: float) -> str:
    """A number with three significant digits, or with separated thousands; `unknown` for NaN."""
    if np.isnan(value):
        return "unknown"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Energy:
    """Per count, rising: median energy (J) of its runs, and median energy times runtime of a run (J s)."""

    procs: Floats
    energy_j: Floats
    energy_delay_js: Floats

    @classmethod
    def of(cls, procs: Floats, energy_j: Floats, energy_delay_js: Floats) -> "Energy | None":
        """Of the counts whose energy is known (NaN: unknown); None where there is none."""
        known = np.flatnonzero(np.isfinite(energy_j))
        known = known[np.argsort(procs[known], kind="stable")]
        return cls(procs[known], energy_j[known], energy_delay_js[known]) if len(known) else None

    def least(self) -> tuple[int, int]:
        """The counts of least energy and of least energy times runtime; of equals the smaller."""
        return int(self.procs[self.energy_j.argmin()]), int(self.procs[self.energy_delay_js.argmin()])

    def sentence(self, axis: Axis = Axis.PROCS) -> str:
        """Which measured counts take least; empty where there is one only."""
        if len(self.procs) == 1:
            return ""
        frugal, both = self.least()
        energy_j, delay_js = self.energy_j.min(), self.energy_delay_js.min()
        counts = f"{len(self.procs):,} measured {plural('count', len(self.procs))}"
        return (
            f"Of {counts} {counted(frugal, axis)} took least energy, {figure(energy_j)} J a run, and "
            f"{both:,} least energy times runtime, {figure(delay_js)} J s."
        )


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
    return Answer(plain, [*_sentences(found, counts, reliability, axis), *([frugal] if frugal else [])])


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
