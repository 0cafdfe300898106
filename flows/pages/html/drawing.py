"""Draws charts as SVG in the colours of the pages; text from logs is escaped. Only what draws loads matplotlib."""

import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from pipeline.errors import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

WIDTH_IN = 10.4
CARD_IN = 3.4

_CSS = (
    "ink", "muted", "line", "kept", "suspect", "flurry", "probe", "cron", "site", "other", "best", "wash",
    *(f"m{place}" for place in range(8)),
)  # fmt: skip
N_RANKED = 8
"""Number of things on one plot, best first, that have a colour of their own."""

COLOURS = {name: f"#0a0b{place:02x}" for place, name in enumerate(_CSS)}
"""Placeholders by CSS variable: in the finished SVG each colour is replaced by its variable."""


def colour_of(place: int) -> str:
    """The CSS variable of what has this place among things that are drawn best first."""
    return "best" if place == 0 else f"m{place}" if place < N_RANKED else "line"


_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "walltime",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.color": COLOURS["ink"],
    "axes.edgecolor": COLOURS["line"],
    "axes.labelcolor": COLOURS["muted"],
    "xtick.color": COLOURS["line"],
    "ytick.color": COLOURS["line"],
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["muted"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": COLOURS["line"],
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "ytick.major.size": 0,
    "hatch.linewidth": 0.7,
}  # fmt: skip


@contextmanager
def styled() -> Iterator[None]:
    """A context in which matplotlib uses the style of the pages and ignores the user's settings."""
    import matplotlib as mpl  # noqa: PLC0415

    # Its messages on cached fonts and missing glyphs do not concern the user.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with warnings.catch_warnings(), mpl.rc_context():
        warnings.simplefilter("ignore")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def panel(height_in: float, left: float = 0.07, right: float = 0.985) -> "tuple[Figure, Axes]":
    """An empty figure as wide as the page, and its axes."""
    figure, axes = panels((1,))
    figure.set_figheight(height_in)
    figure.subplots_adjust(left=left, right=right, top=1 - 0.1 / height_in, bottom=0.52 / height_in)
    return figure, axes[0]


def panels(widths: Sequence[float], height_in: float = 1.0) -> "tuple[Figure, list[Axes]]":
    """An empty figure as wide as the page, and the axes of plots with these relative widths side by side."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(WIDTH_IN, height_in))
    axes = figure.subplots(1, len(widths), squeeze=False, gridspec_kw={"width_ratios": widths})
    return figure, list(axes[0])


def card(left: float = 0.13) -> "tuple[Figure, Axes]":
    """An empty figure as wide as one number of a page, and its axes."""
    figure, axes = panels((1,), CARD_IN / 2)
    figure.set_figwidth(CARD_IN)
    figure.subplots_adjust(left=left, right=0.97, top=0.95, bottom=0.15)
    axes[0].yaxis.set_major_formatter(short)
    return figure, axes[0]


def curve(axes: "Axes", x: "ArrayLike", y: "ArrayLike", *, colour: str = "best", **style: Any) -> None:
    """Draw a line with a disc at each point."""
    discs: dict[str, Any] = {"marker": "o", "markersize": 4}
    axes.plot(x, y, color=COLOURS[colour], **discs | style)


def rule(draw: Callable[..., Any], at: float, **style: Any) -> None:
    """Draw a thin line across a plot, with `axhline` or `axvline` of its axes."""
    draw(at, color=COLOURS["ink"], linewidth=0.8, **style)


def named_ticks(axis: "Axis", named: Mapping[float, str]) -> None:
    """Ticks at some values alone, with a text each."""
    axis.set_ticks(list(named), labels=list(named.values()))
    axis.set_ticks([], minor=True)


def named_rows(axes: "Axes", names: Sequence[str]) -> None:
    """Name the rows of a plot, the first one at the top."""
    named_ticks(axes.yaxis, dict(enumerate(names)))
    axes.invert_yaxis()


def per_cent(axis: "Axis", decimals: int | None = 0) -> None:
    """Label the shares of an axis in per cent."""
    from matplotlib.ticker import PercentFormatter  # noqa: PLC0415

    axis.set_major_formatter(PercentFormatter(1.0, decimals=decimals))


def whole_ticks(axis: "Axis", most: int) -> None:
    """At most so many ticks, at whole numbers."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    axis.set_major_locator(MaxNLocator(nbins=most, integer=True))


def short(value: float, _: object) -> str:
    """The label of a count on an axis."""
    return f"{value / 1e6:,g} M" if value >= 1e7 else f"{value:,.0f}"


def to_svg(figure: "Figure", alt: str, titles: Mapping[str, str] | None = None) -> Markup:
    """The figure as SVG to embed in HTML; `alt` says what it shows, and `titles` are tooltips by group id."""
    drawn = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(drawn, format="svg", transparent=True, metadata=nothing)
    svg = drawn.getvalue()
    svg = re.sub(r"(?s)<style.*?</style>", "", svg[svg.index("<svg") :])
    # Only inside tags: the text between them comes from the log and has no unescaped `<` or `>`.
    svg = re.sub(r"<[^>]*>", lambda tag: _tag_on_page(tag[0]), svg)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(printable(alt, 1000))}"', 1)
    for gid, title in (titles or {}).items():
        tooltip = f"<title>{escape(printable(title, 500))}</title>"
        svg = re.sub(rf'(<g id="{gid}(?:-jobs)?">)', rf"\g<1>{_literal(tooltip)}", svg)
    # matplotlib escapes the texts that it draws, and titles are escaped above.
    return Markup(re.sub(r'<g id="[^"]*"', "<g", svg))  # noqa: S704 # nosec B704


def _literal(text: str) -> str:
    """The text as a replacement of `re.sub` that stands for itself."""
    return text.replace("\\", r"\\")


def _tag_on_page(tag: str) -> str:
    """A tag with the page's colours and font, without a fixed size, with coordinates to a hundredth of a point."""
    for name, stand_in in COLOURS.items():
        tag = tag.replace(stand_in, f"var(--{name})")
    if tag.startswith("<svg"):
        return re.sub(r' (?:width|height)="[^"]*"', "", tag)
    return re.sub(r"(\.\d\d)\d+", r"\1", tag.replace(" font-family: 'DejaVu Sans';", ""))
