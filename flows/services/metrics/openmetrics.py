"""Writes metrics as OpenMetrics text, which Prometheus and node_exporter's textfile collector read.

Every metric is a gauge: node_exporter reads the older text format, which has no state sets and other counters.
Sources: OpenMetrics 1.0 (unit and name, order of the lines, escapes, # EOF); Prometheus text format 0.0.4.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.core.text import printable

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_LABEL_CHARS = 200


@dataclass(frozen=True, slots=True)
class Sample:
    """One value and its labels. None is unknown; it is not written."""

    value: float | None
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its name, which ends in its unit where it has one, its help text, and its samples."""

    name: str
    help: str
    samples: Sequence[Sample]
    unit: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or (self.unit and not self.name.endswith(f"_{self.unit}")):
            raise ValueError(f"{self.name} is no name of a metric in {self.unit or 'no unit'}")


def openmetrics_text(families: Iterable[Family]) -> str:
    """The families as OpenMetrics text, in the given order; one without a known value is left out."""
    lines: list[str] = []
    for family in families:
        samples = [sample for sample in family.samples if sample.value is not None]
        if not samples:
            continue
        lines.append(f"# TYPE {family.name} gauge")
        lines += [f"# UNIT {family.name} {family.unit}"] if family.unit else []
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines += [f"{family.name}{_labels(sample.labels)} {_number(sample.value)}" for sample in samples]
    return "\n".join([*lines, "# EOF", ""])


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(printable(str(value), _LABEL_CHARS))}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _number(value: float | None) -> str:
    assert value is not None  # nosec B101 # for the type checker
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(value)
