"""Extra-P as a predictor beside others, for bench_curves.py; it runs in a Python environment of its own.

That Python has `extrap` 4.2.5 installed and runs this file: a question as JSON in, answers out. Two ways: its
single-parameter modeler on runtimes with negative exponents allowed, and its documented one for strong scaling, on
processors times runtime, divided by processors again.
"""

import json
import subprocess
import sys
from collections.abc import Callable

WAYS = ("extrap_negative", "extrap_p_times_t")


def modelled(question: dict[str, list[float]]) -> dict[str, list[list[float | None]]]:
    """Runs where Extra-P is installed: per way and series, the runtimes predicted; None where it gives none."""
    import warnings  # noqa: PLC0415

    warnings.simplefilter("ignore")
    answers: dict[str, list[list[float | None]]] = {way: [] for way in WAYS}
    for given, targets in zip(question["given"], question["targets"], strict=True):
        for way in WAYS:
            answers[way].append(_one(given, targets, way))
    return answers


def _one(given: list[tuple[float, float]], targets: list[float], way: str) -> list[float | None]:
    from extrap.entities.callpath import Callpath  # noqa: PLC0415
    from extrap.entities.coordinate import Coordinate  # noqa: PLC0415
    from extrap.entities.measurement import Measurement  # noqa: PLC0415
    from extrap.entities.metric import Metric  # noqa: PLC0415
    from extrap.modelers.single_parameter.basic import SingleParameterModeler  # noqa: PLC0415

    modeler, is_product = SingleParameterModeler(), way == "extrap_p_times_t"
    modeler.allow_negative_exponents = not is_product
    path, metric = Callpath("main"), Metric("time")
    seen = [Measurement(Coordinate(n), path, metric, [t * n if is_product else t]) for n, t in given]
    try:
        function = modeler.model([seen])[0].hypothesis.function
        values = [float(function.evaluate(n)) / (n if is_product else 1.0) for n in targets]
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return [None] * len(targets)
    return values


def asked_of(python: str) -> Callable[..., object]:
    """A predictor per way, both answered by one run of that Python per split."""
    import numpy as np  # noqa: PLC0415

    from pipeline.arrays import Floats  # noqa: PLC0415
    from pipeline.evaluate.scaling_errors import PredictionTask  # noqa: PLC0415

    answered: dict[int, dict[str, Floats]] = {}

    def predict(asked: PredictionTask, way: str) -> Floats:
        if id(asked) not in answered:
            order = np.argsort(asked.target_series, kind="stable")
            cuts = np.searchsorted(asked.target_series[order], np.arange(1, asked.given.n_series))
            pairs = np.column_stack([asked.given.procs, asked.given.runtime_s])
            question = {
                "given": [part.tolist() for part in np.split(pairs, asked.given.offsets[1:-1])],
                "targets": [part.tolist() for part in np.split(asked.target_procs[order], cuts)],
            }
            done = subprocess.run(
                [python, __file__], input=json.dumps(question), capture_output=True, text=True, check=True
            )
            answers, place = json.loads(done.stdout.splitlines()[-1]), np.argsort(order)
            answered[id(asked)] = {
                name: np.array([v for part in parts for v in part], np.float64)[place]
                for name, parts in answers.items()
            }
        return answered[id(asked)][way]

    return predict


if __name__ == "__main__":
    print(json.dumps(modelled(json.load(sys.stdin))))
