"""What `walltime evaluate-scaling` does: the errors of every predictor on the same splits of measured series."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from flows.services.series.series_csv import read_series_and_applications
from pipeline.core.errors import InputError
from pipeline.core.evaluate_settings import ScalingSettings
from pipeline.core.prediction_task import Predictor
from pipeline.core.report import Report
from pipeline.core.tables import OBSERVATIONS
from pipeline.core.text import printable
from pipeline.evaluate import evaluate_scaling
from pipeline.fit import law_predictors
from pipeline.predict import average_predictors

PREDICTORS: dict[str, Predictor] = average_predictors.PREDICTORS | law_predictors.PREDICTORS


def evaluate_files(
    paths: Sequence[Path], names: Sequence[str], settings: ScalingSettings | None = None
) -> tuple[pa.Table, Report]:
    """SCALING_ERRORS of these predictors over the series of all files, and the report on the series."""
    observations, applications = read_all(paths)
    predictors = {name: PREDICTORS[name] for name in names}
    table, report = evaluate_scaling(observations, applications, predictors, settings or ScalingSettings())
    if not any(table.column("n_targets").to_pylist()):
        found = f"{len(applications)} series, none of them with a size to predict"
        expected = "a series of at least four sizes, as three are given and the others predicted"
        raise InputError(", ".join(printable(str(path)) for path in paths), found, expected)
    return table, report


def known_predictors(names: Sequence[str] | None) -> list[str]:
    """These predictors, each once, or all of them; InputError for an unknown name."""
    for name in names or ():
        if name not in PREDICTORS:
            raise InputError("--predictor", printable(name), f"one of {', '.join(PREDICTORS)}")
    return list(dict.fromkeys(names or PREDICTORS))


def read_all(paths: Sequence[Path]) -> tuple[pa.Table, dict[str, str]]:
    """OBSERVATIONS of every file, and each group's application; ids of groups of several files name the file."""
    tables: list[pa.Table] = []
    applications: dict[str, str] = {}
    field = OBSERVATIONS.schema().field("group_id")
    for place, path in enumerate(paths):
        table, named = read_series_and_applications(path)
        prefix = f"{place + 1} {path.stem}: " if len(paths) > 1 else ""
        ids = pa.array([prefix + group for group in table.column("group_id").to_pylist()])
        tables.append(table.set_column(0, field, ids.cast(field.type)))
        applications |= {prefix + group: word for group, word in named.items()}
    return pa.concat_tables(tables), applications
