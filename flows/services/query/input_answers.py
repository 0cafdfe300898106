"""Answers of the models over inputs that a run has published, for jobs whose names or inputs are given."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.arrays import Value
from pipeline.estimate.history import History
from pipeline.publish import Manifest
from pipeline.tables import INPUT_MODELS

INPUTS = "inputs"


def model_answers(
    manifest: Manifest, jobs: Sequence[Mapping[str, Value]], questions: History
) -> list[list[float] | None]:
    """For each job six quantiles (s), or None where no published model answers: the site has none, or it refuses.

    The rules read the job's name, comment and submit line, as far as they are given.
    """
    plain = manifest.settings.get("inputs", {})
    if not plain.get("rules") or INPUT_MODELS.name not in manifest.tables:
        return [None] * len(jobs)
    return _answers(manifest, plain, jobs, questions)


def _answers(
    manifest: Manifest, plain: Mapping[str, Any], jobs: Sequence[Mapping[str, Value]], questions: History
) -> list[list[float] | None]:
    # Only sites with rules wait for these imports.
    from pipeline.ingest.derive import inputs_of  # noqa: PLC0415
    from pipeline.inputs.log_models import Question, answer_questions  # noqa: PLC0415
    from pipeline.settings import INPUT_TEXTS, LogInputSettings  # noqa: PLC0415
    from pipeline.storage import read_table  # noqa: PLC0415

    settings = LogInputSettings.model_validate({"rules": plain["rules"]})
    # Ingest leaves other values out where it anonymises; a query must find the same inputs.
    only_numbers = bool(manifest.settings.get("site", {}).get("anonymise"))
    asked: dict[int, Question] = {}
    for place, job in enumerate(jobs):
        texts = {name: str(job[name]) for name in INPUT_TEXTS if job.get(name) is not None}
        text = inputs_of(texts, settings.rules, only_numbers=only_numbers) if texts else None
        if text is not None:
            asked[place] = Question(
                _named(questions, "what", place) or "", json.loads(text), float(questions.procs[place]),
                _named(questions, "who", place), float(questions.requested_s[place]),
            )  # fmt: skip
    found: list[list[float] | None] = [None] * len(jobs)
    if asked:
        models = read_table(manifest.path(INPUT_MODELS.name), INPUT_MODELS)
        quantiles_s = answer_questions(models, list(asked.values()), settings)
        for place, row in zip(asked, quantiles_s.tolist(), strict=True):
            found[place] = row if row[1] == row[1] else None
    return found


def _named(questions: History, attribute: str, place: int) -> str | None:
    code = int(questions.codes[attribute][place])
    return questions.names[attribute][code] if code >= 0 else None
