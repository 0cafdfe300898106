"""Plots as SVG that stands in a page of HTML: its colours are the page's own CSS variables, its texts are escaped.

matplotlib is slow to load, so only who draws imports this module.
"""

import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH_IN = 10.4

_CSS = ("ink", "muted", "line", "kept", "best", "wash", *(f"m{n}" for n in range(8)))
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
}  # fmt: skip


@contextmanager
def drawing() -> Iterator[None]:
    """The pages' style; matplotlib speaks of fonts it caches and letters it cannot measure, which nobody asked."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with warnings.catch_warnings(), mpl.rc_context():
        warnings.simplefilter("ignore")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def panel(height_in: float, left: float = 0.055, right: float = 0.985) -> tuple[Figure, Axes]:
    """A figure as wide as the page, with one pair of axes."""
    figure = Figure(figsize=(WIDTH_IN, height_in))
    axes = figure.subplots()
    figure.subplots_adjust(left=left, right=right, top=1 - 0.1 / height_in, bottom=0.4 / height_in)
    return figure, axes


def svg_of(figure: Figure) -> str:
    """The drawing without what a file of its own needs, as wide as the page lets it be."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = drawn.getvalue()
    svg = re.sub(r"(?s)<style.*?</style>", "", svg[svg.index("<svg") :])
    # Inside tags only: between them stands text, where no `<` or `>` is left.
    svg = re.sub(r"<[^>]*>", lambda tag: _on_the_page(tag[0]), svg)
    return re.sub(r'<g id="[^"]*"', "<g", svg)


def _on_the_page(tag: str) -> str:
    for name, stand_in in COLOURS.items():
        tag = tag.replace(stand_in, f"var(--{name})")
    if tag.startswith("<svg"):
        return re.sub(r' (?:width|height)="[^"]*"', "", tag).replace("<svg", '<svg role="img"')
    return re.sub(r"(\.\d\d)\d+", r"\1", tag.replace(" font-family: 'DejaVu Sans';", ""))
