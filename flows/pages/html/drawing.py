"""How the pages draw: one SVG to stand in HTML, whose colours are the page's own CSS variables.

matplotlib is slow to load, so only who draws imports this module.
"""

import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import matplotlib as mpl
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.core.text import printable

WIDTH_IN = 10.4

_CSS = (
    "ink", "muted", "line", "kept", "suspect", "flurry", "probe", "cron", "site", "other", "best", "wash",
    *(f"m{place}" for place in range(8)),
)  # fmt: skip
COLOURS = {name: f"#0a0b{place:02x}" for place, name in enumerate(_CSS)}
"""Stand-ins that no plot uses otherwise: in the finished SVG each becomes the page's variable of that name."""

_STYLE = {
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
    """Within it matplotlib draws as the pages want it, whatever the user's own settings are."""
    # It speaks of fonts it caches, and of letters it cannot measure: nothing that a person must know.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with warnings.catch_warnings(), mpl.rc_context():
        warnings.simplefilter("ignore")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def panel(height_in: float, left: float = 0.055, right: float = 0.985) -> tuple[Figure, Axes]:
    """An empty drawing as wide as the page."""
    figure = Figure(figsize=(WIDTH_IN, height_in))
    axes = figure.subplots()
    figure.subplots_adjust(left=left, right=right, top=1 - 0.1 / height_in, bottom=0.4 / height_in)
    return figure, axes


def short(value: float, _: object) -> str:
    """A count on an axis."""
    return f"{value / 1e6:,g} M" if value >= 1e7 else f"{value:,.0f}"


def to_svg(figure: Figure, titles: Mapping[str, str] | None = None) -> str:
    """The drawing without what a file of its own needs; titles: what a part says when it is pointed at."""
    drawn = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(drawn, format="svg", transparent=True, metadata=nothing)
    svg = drawn.getvalue()
    svg = re.sub(r"(?s)<style.*?</style>", "", svg[svg.index("<svg") :])
    # Inside tags only: between them stands text from the log, where no `<` or `>` is left.
    svg = re.sub(r"<[^>]*>", lambda tag: _on_the_page(tag[0]), svg)
    for gid, title in (titles or {}).items():
        said = f"<title>{escape(printable(title, 500))}</title>"
        svg = re.sub(rf'<g id="{gid}(?:-jobs)?">', lambda group, said=said: group[0] + said, svg)
    return re.sub(r'<g id="[^"]*"', "<g", svg)


def _on_the_page(tag: str) -> str:
    """A tag in the page's colours and font, as wide as the page lets it be, to a hundredth of a point."""
    for name, stand_in in COLOURS.items():
        tag = tag.replace(stand_in, f"var(--{name})")
    if tag.startswith("<svg"):
        return re.sub(r' (?:width|height)="[^"]*"', "", tag).replace("<svg", '<svg role="img"')
    return re.sub(r"(\.\d\d)\d+", r"\1", tag.replace(" font-family: 'DejaVu Sans';", ""))
