"""Which hypothesis an answer comes from, in a code and a sentence."""

import numpy as np

from pipeline.arrays import Floats
from pipeline.axes import Axis, counted
from pipeline.estimate.group_record import chances
from pipeline.estimate.history import History
from pipeline.estimate.law_curves import speaks
from pipeline.estimate.learnt_parts import recoded, with_numbers
from pipeline.estimate.state import State
from pipeline.estimate.submits import Jobs, jobs_of

SENTENCES = {
    "others": "No job of this submitter, application and memory is known: similar jobs answer.",
    "anybody": "Similar jobs answer.",
    "own_runs": "Runs at this size answer.",
    "not_request": "Runs at this size did not follow the request.",
    "request": "Scaled by the request, which runs of this kind follow.",
    "not_size": "Runs on {nearest} answer: runtimes hardly change with the size.",
    "power": "Scaled from {nearest} by the curve of the submitter's runs.",
    "law": "Scaled from {nearest} by the law of the group, which was close to its latest runs.",
    "law_here": "The law of the group answers, at the level of its latest runs; it was closer than the estimate.",
}


def spoken(state: State, questions: History, law: Floats) -> list[tuple[str, str]]:
    """Per question the code of the hypothesis and its sentence; `law` is what `answers` judged of the laws."""
    jobs, found = with_numbers(jobs_of(recoded(questions, state.names)), state), []
    for job, by_law in enumerate(speaks(law).tolist()):
        places = _ended(state, int(jobs.group[job]))
        is_here = jobs.size[job] in state.jobs.size[places]
        code = _code(state, jobs, job, places, is_here=is_here, by_law=by_law)
        # Nothing is said of a submitter where none is given.
        sentence = SENTENCES["anybody" if code == "others" and jobs.who[job] < 0 else code]
        found.append((code, sentence.format(nearest=_nearest(state.jobs, places, jobs.log_size[job]))))
    return found


def _ended(state: State, group: int) -> list[int]:
    """The places of a group's remembered ended jobs, the newest first."""
    places, other = list[int](), int(state.memory.newest[group]) if group >= 0 else -1
    while other >= 0:
        places.append(other)
        other = int(state.memory.before[other])
    return places


def _nearest(past: Jobs, places: list[int], log_size: float) -> str:
    """The size nearest to one, in words."""
    if not places:
        return ""
    place = places[int(np.argmin(np.abs(past.log_size[places] - log_size)))]
    return counted(past.gpus[place], Axis.GPUS) if past.gpus[place] > 0 else counted(past.procs[place], Axis.PROCS)


def _code(state: State, jobs: Jobs, job: int, places: list[int], *, is_here: bool, by_law: bool) -> str:
    if by_law:
        return "law_here" if is_here else "law"
    if not places:
        return "others"
    chance, evidence = np.empty(3), state.evidence
    chances(evidence.of_group[jobs.group[job]], evidence.of_who[jobs.who[job]], evidence.of_all[0], chance)
    if is_here:
        asked_s = state.jobs.limit_s[places][state.jobs.size[places] == jobs.size[job]]
        if jobs.limit_s[job] <= 0 or jobs.limit_s[job] in asked_s:
            return "own_runs"
        return "request" if chance[1] > 0.5 else "not_request"
    return ("not_size", "request", "power")[int(np.argmax(chance))]
