"""Which of some processor counts to request, what they cost, and the energy that runs took, in sentences."""

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Floats
from pipeline.axes import MOST_EFFICIENCY, Axis, counted, plural
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
    doubt = "" if reliability == "ok" else f" (low confidence: {reliability.replace('+', ', ')})"
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
