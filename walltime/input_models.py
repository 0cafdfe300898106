"""Runtimes over the inputs of a run: learnt once, asked at new inputs, and the runs to make next."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.services.input_models import check_known, declaration_of
from pipeline import inputs
from pipeline.errors import printable
from pipeline.inputs import Cost, CostUnit, InputModel, LearnRules
from pipeline.inputs.answers import ANSWERS, SUGGESTIONS
from walltime.frames import arrow_of, frame_of, plain, same_rows


def learn(
    runs: Any, names: Sequence[str] | None = None, *, target: str = "time_s", procs: str | None = None,
    batch: str | None = None, types: Mapping[str, str] | None = None, seed: int = 0,
) -> InputModel:  # fmt: skip
    """A model of the runtime over the inputs of a run, as `walltime inputs learn`.

    Parameters
    ----------
    runs : data frame
        A row a run: inputs, and the runtime in s.
    names : sequence of str, optional
        Columns of inputs; without it every column without another role.
    target : str
        Column of runtimes, s.
    procs : str, optional
        Column of processors, by which `suggest` counts costs.
    batch : str, optional
        Column that says which runs were made together.
    types : mapping of str to str, optional
        number, log_number, category or boolean for inputs whose type should not be inferred.
    seed : int
        Seed of the folds and of what is drawn.

    Returns
    -------
    InputModel
        The model; `error.mean_pct` is its mean error on held runs, per cent, and `report` counts runs set aside.

    Raises
    ------
    InputError
        If a column is missing, fewer than ten runs are usable, or no input varies.

    Examples
    --------
    >>> import pandas as pd
    >>> import walltime as wt
    >>> runs = pd.DataFrame({"n": range(1, 31), "time_s": [0.5 * n * n for n in range(1, 31)]})
    >>> model = wt.learn(runs)
    >>> wt.ask(model, pd.DataFrame({"n": [10.0]}))["status"].tolist()
    ['ok']
    >>> len(wt.suggest(model, runs, unit="runs", n_runs=2))
    2
    """
    table, _ = arrow_of(runs, "learn")
    told = [f"{name}={kind}" for name, kind in (types or {}).items()]
    declared = declaration_of(table, target, ",".join(names) if names else None, told, procs=procs, batch=batch)
    return inputs.learn(table, declared, LearnRules(seed=seed))


def ask(model: InputModel, points: Any) -> Any:
    """Runtimes at new inputs, with intervals; a point unlike all runs is refused with its reason.

    Parameters
    ----------
    model : InputModel
        What `learn` gave.
    points : data frame
        The inputs' columns, a row a question.

    Returns
    -------
    data frame
        INPUT_ANSWERS, of the kind of the points: a row a point in their order, runtimes in s.

    Raises
    ------
    InputError
        If a column of an input is missing or has another type.

    Examples
    --------
    See `learn`.
    """
    table, kind = arrow_of(points, "ask")
    return same_rows(plain(inputs.predict(model, table), ANSWERS), kind, points)


def suggest(
    model: InputModel, candidates: Any, *, unit: str = "proc-seconds", budget: float | None = None,
    n_runs: int | None = None,
) -> Any:  # fmt: skip
    """The runs to make next, best first: those that lower the candidates' variance most for the root of their cost.

    Parameters
    ----------
    model : InputModel
        What `learn` gave.
    candidates : data frame
        The inputs' columns, a row a run that could be made.
    unit : str
        What a run costs: proc-seconds, seconds or runs.
    budget : float, optional
        What the runs may cost together.
    n_runs : int, optional
        How many runs at most.

    Returns
    -------
    data frame
        INPUT_SUGGESTIONS, of the kind of the candidates: a row a run, `candidate` is its row from 0.

    Raises
    ------
    InputError
        If the unit is unknown, or it counts processors and `learn` was given none.

    Examples
    --------
    See `learn`.
    """
    check_known("suggest", f"unit = {printable(repr(unit))}", unit, list(CostUnit))
    table, kind = arrow_of(candidates, "suggest")
    return frame_of(plain(inputs.suggest(model, table, Cost(CostUnit(unit), budget, n_runs)), SUGGESTIONS), kind)
