"""Draws charts as SVG from declared marks, in the colours and the font of the page; texts from logs are escaped.

A chart is panels side by side, a panel is marks between two axes. What lies beyond the ends of an axis is not drawn.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from pipeline.arrays import Floats
from pipeline.errors import printable

WIDTH, CARD_WIDTH = 760, 250
"""Widths of a drawing on the page and of one on a card, in the units of its height and margins."""
MARGIN_RIGHT, TEXT_HEIGHT = 12, 9

N_RANKED = 8
"""Number of things on one chart, best first, that have a colour of their own."""


def colour_of(index: int) -> str:
    """The CSS variable of what has this index among things that are drawn best first."""
    return "best" if index == 0 else f"m{index}" if index < N_RANKED else "line"


def count(value: float) -> str:
    """The label of a number on an axis."""
    return f"{value / 1e6:,g} M" if value >= 1e7 else f"{value:,.0f}" if value == int(value) else f"{value:g}"


def percent_label(value: float) -> str:
    """The label of a share on an axis."""
    return f"{100 * value:.4g}%"


@dataclass(frozen=True, slots=True)
class Axis:
    """A direction of a panel. Its ends are those of the marks, where `ends` does not say them."""

    label: str = ""
    form: Callable[[float], str] = count
    ends: tuple[float | None, float | None] = (None, None)
    """The first may be the larger one: the axis then falls."""
    names: Mapping[float, str] | None = None
    """The only ticks, with their texts."""
    base: float = 0.0
    """The base of a logarithmic axis."""
    most: int = 7
    """Number of ticks, about."""
    is_whole: bool = False
    """Ticks are at whole numbers."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points, with a gap where one is NaN; an infinite end is that of the axis."""

    x: ArrayLike
    y: ArrayLike
    colour: str = "ink"
    width: float = 0.8
    dash: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Band:
    """The area between two lines."""

    x: ArrayLike
    low: ArrayLike
    high: ArrayLike
    colour: str = "kept"
    opacity: float = 0.3


@dataclass(frozen=True, slots=True)
class Bars:
    """Rectangles; empty ones are left out."""

    left: ArrayLike
    right: ArrayLike
    low: ArrayLike
    high: ArrayLike
    colour: str = "kept"
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Dots:
    """Points with a tooltip each."""

    x: ArrayLike
    y: ArrayLike
    colour: str = "ink"
    radius: float = 2.5
    titles: Sequence[str] = ()
    is_cross: bool = False


Mark = Line | Band | Bars | Dots
Placed = Callable[[ArrayLike], Floats]
"""Where values stand on the page."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Marks between two axes, the last one on top."""

    marks: Sequence[Mark]
    x: Axis
    y: Axis
    share: float = 1.0
    """Its width against those of the other panels."""
    has_grid: bool = True


@dataclass(frozen=True, slots=True)
class Key:
    """A line of a chart's legend: a sample of the colour, and what it stands for."""

    text: str
    colour: str
    style: str = ""
    """Of the sample: stroke, dashed or dotted; or a sign that is drawn instead."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with its title, legend and caption; without panels the block is left out. A terminal shows none."""

    alt: str
    """What it shows, for those who do not see it."""
    panels: Sequence[Panel]
    caption: str = ""
    legend: Sequence[Key] = ()
    title: str = ""
    height: float = 170.0
    left: float = 56.0
    """The space for the texts at the left of a panel."""
    width: float = WIDTH


def rule(x: float | None = None, y: float | None = None, dash: str = "", colour: str = "ink") -> Line:
    """A thin line across a panel."""
    ends = (-math.inf, math.inf)
    return Line(ends if x is None else (x, x), ends if y is None else (y, y), colour, dash=dash)


def bars(x: ArrayLike, heights: ArrayLike, width: float = 0.8) -> Bars:
    """Bars that stand on zero, each around its x."""
    middle, tops = np.asarray(x, np.float64), np.asarray(heights, np.float64)
    return Bars(middle - width / 2, middle + width / 2, np.minimum(tops, 0), np.maximum(tops, 0))


def stairs(edges: ArrayLike, heights: ArrayLike, colour: str = "ink", width: float = 0.7) -> Line:
    """The outline of a histogram."""
    return Line(np.repeat(np.asarray(edges), 2)[1:-1], np.repeat(np.asarray(heights), 2), colour, width)


def named_rows(names: Sequence[str], limit: int = 30) -> Axis:
    """A vertical axis with a named row at each whole number, the first one at the top."""
    return Axis(ends=(len(names) - 0.5, -0.5), names={n: printable(name, limit) for n, name in enumerate(names)})


def named_steps(names: Sequence[str], label: str = "", most: int = 14) -> Axis:
    """A horizontal axis with a step at each whole number, some of them named."""
    step = max(1, -(-len(names) // most))
    return Axis(label, ends=(-0.5, len(names) - 0.5), names={n: names[n] for n in range(0, len(names), step)})


def draw(chart: Chart) -> Markup:
    """The chart as SVG to embed in HTML; the same chart gives the same bytes."""
    body, left = "", chart.left
    free = chart.width - len(chart.panels) * (chart.left + MARGIN_RIGHT)
    for panel in chart.panels:
        right = left + free * panel.share / sum(one.share for one in chart.panels)
        body += _drawn(panel, left, right, 8, chart.height - (32 if panel.x.label else 16))
        left = right + MARGIN_RIGHT + chart.left
    size, alt = f"0 0 {chart.width:g} {chart.height:g}", escape(printable(chart.alt, 1000))
    # Every text is escaped where it is put into a tag.
    return Markup(f'<svg role="img" aria-label="{alt}" viewBox="{size}">{body}</svg>')  # noqa: S704 # nosec B704


def _drawn(panel: Panel, left: float, right: float, top: float, bottom: float) -> str:
    """A panel inside this rectangle: its grid and ticks, its marks, and the labels of its axes."""
    spans = [_coordinates(mark) for mark in panel.marks]
    x_ends = _ends(panel.x, [x for x, _ in spans])
    y_ends = _ends(panel.y, [y for _, y in spans])

    def x_of(values: ArrayLike) -> Floats:
        return _on_page(values, panel.x, x_ends, left, right)

    def y_of(values: ArrayLike) -> Floats:
        return _on_page(values, panel.y, y_ends, bottom, top)

    svg = []
    for value, name in _ticks(panel.y, y_ends).items():
        y = float(y_of(value))
        svg.append(_stroke(f"M{left:.1f} {y:.1f}H{right:.1f}", "line", 0.6) if panel.has_grid else "")
        svg.append(_text(name, left - 5, y + 3, "end"))
    for value, name in _ticks(panel.x, x_ends).items():
        x = float(x_of(value))
        svg.append(_stroke(f"M{x:.1f} {bottom:.1f}v3", "line", 0.8))
        svg.append(_text(name, min(x, right + MARGIN_RIGHT), bottom + 12, "end" if x > right - 14 else "middle"))
    svg.append(_stroke(f"M{left:.1f} {bottom:.1f}H{right:.1f}", "line", 0.8))
    svg += [_shape(mark, x_of, y_of) for mark in panel.marks]
    svg.append(_text(panel.x.label, (left + right) / 2, bottom + 26, "middle") if panel.x.label else "")
    if panel.y.label:
        middle = (top + bottom) / 2
        svg.append(_text(panel.y.label, 0, 0, "middle", at=f"translate({left - 47:.1f} {middle:.1f}) rotate(-90)"))
    return "".join(svg)


TEXT_WIDTH, TEXT_ROWS = 60, 12
SIGNS = {"ink": "● measured", "kept": "○ predicted", "flurry": "× left out of the fit"}
"""What a terminal shows for dots of a colour, and what they are."""


def dots_as_text(panel: Panel) -> Iterator[str]:
    """The dots of a panel in lines of text between its two axes, the last ones on top."""
    dots = [mark for mark in panel.marks if isinstance(mark, Dots)]
    x_ends, y_ends = _ends(panel.x, [[one.x] for one in dots]), _ends(panel.y, [[one.y] for one in dots])

    def column(values: ArrayLike) -> Floats:
        return np.rint(_on_page(values, panel.x, x_ends, 0, TEXT_WIDTH - 1))

    def row(values: ArrayLike) -> Floats:
        return np.rint(_on_page(values, panel.y, y_ends, 0, TEXT_ROWS - 1))

    grid = np.full((TEXT_ROWS, TEXT_WIDTH), " ")
    for one in dots:
        cells = np.array([row(one.y), column(one.x)])
        grid[tuple(cells[:, np.isfinite(cells).all(0)].astype(np.int64))] = SIGNS[one.colour][0]
    drawn = {one.colour for one in dots}
    yield f"{panel.y.label}: {', '.join(sign for colour, sign in SIGNS.items() if colour in drawn)}"
    ticks = {int(row(value)): name for value, name in _ticks(panel.y, y_ends).items()}
    for nth in reversed(range(TEXT_ROWS)):
        yield f"{ticks.get(nth, ''):>8} │{''.join(grid[nth])}"
    below = [" "] * (TEXT_WIDTH + 8)
    for value, name in _ticks(panel.x, x_ends).items():
        below[int(column(value)) : int(column(value)) + len(name)] = name
    yield f"{'':>8} └{'─' * TEXT_WIDTH}"
    yield f"{'':>10}{''.join(below)} {panel.x.label}"


def _coordinates(mark: Mark) -> tuple[list[ArrayLike], list[ArrayLike]]:
    """The coordinates of a mark along both axes."""
    match mark:
        case Bars():
            return [mark.left, mark.right], [mark.low, mark.high]
        case Band():
            return [mark.x], [mark.low, mark.high]
        case _:
            return [mark.x], [mark.y]


def _ends(axis: Axis, spans: Iterable[Sequence[ArrayLike]]) -> tuple[float, float]:
    """The ends of an axis: those given, else those of the marks, with a margin."""
    values = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(one, np.float64)) for part in spans for one in part)])
    values = values[np.isfinite(values) & ((values > 0) | (axis.base == 0))]
    low, high = (float(values.min()), float(values.max())) if len(values) else (1.0, 1.0)
    if axis.base:
        margin = (high / low) ** 0.04
        low, high = low / margin, high * margin
    else:
        margin = 0.04 * (high - low)
        low, high = low - margin * (low != 0), high + margin
    first, last = (found if given is None else given for given, found in zip(axis.ends, (low, high), strict=True))
    if first == last:
        # A single value still needs an axis of some length.
        length = first * axis.base if axis.base else 1.0
        return (first, first + length) if axis.ends != (None, None) else (first - length / 2, first + length / 2)
    return first, last


def _on_page(values: ArrayLike, axis: Axis, ends: tuple[float, float], begin: float, end: float) -> Floats:
    """Where values stand on the page; NaN beyond the ends. Infinite values stand at the ends."""
    given, edges = np.asarray(values, np.float64), np.array(ends)
    shown = np.clip(given, min(ends), max(ends)) if np.isinf(given).any() else given
    with np.errstate(invalid="ignore", divide="ignore"):
        if axis.base:
            shown, edges = np.log(shown), np.log(edges)
        share = (shown - edges[0]) / (edges[1] - edges[0])
        found: Floats = np.where((share > -0.001) & (share < 1.001), begin + share * (end - begin), np.nan)
    return found


def _ticks(axis: Axis, ends: tuple[float, float]) -> dict[float, str]:
    """The ticks of an axis and their texts."""
    low, high = sorted(ends)
    if axis.names is not None:
        return {value: name for value, name in axis.names.items() if low <= value <= high}
    # A logarithmic axis that is short has ticks at round numbers, as any other.
    if axis.base and high / low > 4:
        factors = (1, 2, 5) if axis.base == 10 and high / low < 1e4 else (1,)
        first = (math.ceil if len(factors) == 1 else math.floor)(math.log(low, axis.base) - 1e-9)
        last = math.ceil(math.log(high, axis.base))
        powers = [axis.base**k for k in range(first, last + 1, max(1, -(-(last - first) // axis.most)))]
        values = [factor * power for power in powers for factor in factors]
        return {value: axis.form(value) for value in values if low <= value <= high}
    step = 10 ** math.floor(math.log10((high - low) / axis.most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= axis.most)
    step = max(step, 1.0) if axis.is_whole else step
    values = [round(k * step, 10) for k in range(math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6) + 1)]
    return {value: axis.form(value) for value in values}


def _text(text: str, x: float, y: float, anchor: str, colour: str = "muted", at: str = "") -> str:
    where = f'transform="{at}"' if at else f'x="{x:.1f}" y="{y:.1f}"'
    style = f"fill:var(--{colour});font-size:{TEXT_HEIGHT}px"
    return f'<text {where} text-anchor="{anchor}" style="{style}">{escape(printable(text, 200))}</text>'


def _stroke(path: str, colour: str, width: float, dash: str = "") -> str:
    dashed = f";stroke-dasharray:{dash}" if dash else ""
    return f'<path d="{path}" style="fill:none;stroke:var(--{colour});stroke-width:{width:g}{dashed}"/>'


def _filled(path: str, colour: str, opacity: float, more: str = "") -> str:
    return f'<path d="{path}" style="fill:var(--{colour});fill-opacity:{opacity:g}{more}"/>'


def _titled(svg: str, title: str) -> str:
    return f"<g><title>{escape(printable(title, 500))}</title>{svg}</g>" if title else svg


def _path(x: Floats, y: Floats) -> str:
    """The path through points, with gaps at NaN."""
    words, pen = [], "M"
    for one, other in zip(x.tolist(), y.tolist(), strict=True):
        is_known = not (math.isnan(one) or math.isnan(other))
        words += [f"{pen}{one:.1f} {other:.1f}"] if is_known else []
        pen = "L" if is_known else "M"
    return "".join(words)


def _shape(mark: Mark, x_of: Placed, y_of: Placed) -> str:
    """A mark as SVG."""
    match mark:
        case Line():
            return _titled(_stroke(_path(x_of(mark.x), y_of(mark.y)), mark.colour, mark.width, mark.dash), mark.title)
        case Band():
            x, low, high = x_of(mark.x), y_of(mark.low), y_of(mark.high)
            known = ~np.isnan(x + low + high)
            there, back = _path(x[known], low[known]), _path(x[known][::-1], high[known][::-1])
            return _filled(there + back.replace("M", "L", 1), mark.colour, mark.opacity)
        case Bars():
            return _rectangles(mark, x_of, y_of)
        case Dots():
            points = zip(np.ravel(x_of(mark.x)).tolist(), np.ravel(y_of(mark.y)).tolist(), strict=True)
            named = zip(points, mark.titles or repeat(""), strict=False)
            return "".join(_titled(_dot(mark, x, y), title) for (x, y), title in named if not math.isnan(x + y))


def _rectangles(mark: Bars, x_of: Placed, y_of: Placed) -> str:
    """One path; its edges are not smoothed, so that no seam is seen between neighbours."""
    edges = np.broadcast_arrays(x_of(mark.left), x_of(mark.right), y_of(mark.low), y_of(mark.high))
    path = "".join(
        f"M{left:.1f} {low:.1f}H{right:.1f}V{high:.1f}H{left:.1f}"
        for left, right, low, high in zip(*(np.ravel(edge).tolist() for edge in edges), strict=True)
        if right != left and high != low and not math.isnan(left + right + low + high)
    )
    return _filled(path, mark.colour, mark.opacity, ";shape-rendering:crispEdges") if path else ""


def _dot(mark: Dots, x: float, y: float) -> str:
    """A point, and where it has a tooltip a larger disc that is not seen, so that it can be pointed at."""
    r, target = mark.radius, f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill-opacity="0"/>' if mark.titles else ""
    if mark.is_cross:
        cross = f"M{x - r:.1f} {y - r:.1f}l{2 * r:g} {2 * r:g}m{-2 * r:g} 0l{2 * r:g} {-2 * r:g}"
        return _stroke(cross, mark.colour, 1.3) + target
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}" style="fill:var(--{mark.colour})"/>{target}' if r else target
