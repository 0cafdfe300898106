"""The evaluation of scaling over files of measured runtimes: every registered predictor on the same splits."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from flows.series_csv import read_series_and_applications
from pipeline.core.asked import Predictor
from pipeline.core.errors import InputError
from pipeline.core.evaluate_settings import ScalingSettings
from pipeline.core.report import Report
from pipeline.core.tables import OBSERVATIONS
from pipeline.core.text import printable
from pipeline.evaluate import evaluate_scaling
from pipeline.fit import law_predictors
from pipeline.predict import average_predictors

PREDICTORS: dict[str, Predictor] = average_predictors.PREDICTORS | law_predictors.PREDICTORS


def evaluated(
    paths: Sequence[Path], names: Sequence[str], settings: ScalingSettings | None = None
) -> tuple[pa.Table, Report]:
    """SCALING_ERRORS of these predictors over the series of all files, and the account of the series."""
    observations, applications = read_all(paths)
    asked = {name: PREDICTORS[name] for name in names}
    table, report = evaluate_scaling(observations, applications, asked, settings or ScalingSettings())
    if not any(table.column("n_targets").to_pylist()):
        found = f"{len(applications)} series, none of them with a size to predict"
        expected = "a series of at least four sizes: three are given, the others predicted"
        raise InputError(", ".join(printable(str(path)) for path in paths), found, expected)
    return table, report


def read_all(paths: Sequence[Path]) -> tuple[pa.Table, dict[str, str]]:
    """OBSERVATIONS of every file, and each group's application; groups of several files are told apart by them."""
    tables, applications = [], {}
    field = OBSERVATIONS.schema().field("group_id")
    for place, path in enumerate(paths):
        table, named = read_series_and_applications(path)
        before = f"{place + 1} {path.stem}: " if len(paths) > 1 else ""
        ids = pa.array([before + group for group in table.column("group_id").to_pylist()])
        tables.append(table.set_column(0, field, ids.cast(field.type)))
        applications |= {before + group: word for group, word in named.items()}
    return pa.concat_tables(tables), applications
