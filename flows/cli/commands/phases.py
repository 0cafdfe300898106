"""`walltime phases`: the phases that a run repeats, what of them to time elsewhere, and the run's time there."""

from pathlib import Path

from flows.cli.options import PAGE_FILE, argument, option
from flows.pages.terminal.blocks import Answer
from flows.pages.terminal.view_models import view_phases, view_plan, view_prediction, view_times
from flows.services.quantities import share
from pipeline.errors import InputError

FOLDER = argument("DIR", "The folder that walltime phases find wrote.")
PLATFORM = option("--platform NAME", "The other machine's name.", ...)


def find_phases(
    given: Path = argument("TRACE|BB", "An MPI trace (CSV, OTF2) or basic-block vectors (.bb)."),
    out: Path = option("--out DIR", "The folder for the tables, one per trace.", ...),
    application: str | None = option("--application NAME", "The application, for walltime query --platform."),
    times: Path | None = option("--times CSV", "Measured times of the vectors' intervals: interval (from 0), time_s."),
    literal: bool = option("--literal", "Follow the words of the PAS2P paper, without the changes of Walltime.", False),
    report: Path | None = PAGE_FILE,
) -> Answer:
    """Find the phases that a run repeats: the first step of a prediction for another machine.

    \b
    Examples:
      walltime phases find trace.csv --out found --application solver --report phases.html
    """
    from flows.services.phase_folder import find

    found = find(given, out, literal=literal, application=application, times=times)
    if report:
        _draw(report, out, found.facts["status"])
    facts = found.facts | {"phases": found.rows, "notes": found.notes}
    return Answer(facts, view_phases(found.facts, found.rows, found.notes))


def _draw(report: Path, out: Path, status: str) -> None:
    from flows.pages.html.model_pages import phases_page
    from flows.services.files.table_files import write_page
    from flows.services.phase_folder import phase_table
    from pipeline.phase_tables import PHASE_POINTS, PHASES

    write_page(report, phases_page(phase_table(out, PHASES), phase_table(out, PHASE_POINTS), status))


def plan_phases(
    folder: Path = FOLDER,
    budget: str | None = option("--budget 5%", "Share of the run to spend, warm-up included. Default: 5%."),
    samples: int | None = option(
        "--samples", "Instead: this many occurrences of each phase, or all where it has fewer.", min=1
    ),
    warmup: int | None = option("--warmup", "Occurrences before each timed one that warm up.", min=0, max=1000),
) -> Answer:
    """Plan what to time: from which MPI call to which, per rank. The trace of the reference run alone decides.

    \b
    Examples:
      walltime phases plan found --budget 5%
    """
    from flows.services.phase_folder import plan

    if budget is not None and samples is not None:
        raise InputError("--samples", "--budget beside it", "one of the two")
    found = plan(folder, None if budget is None else share(budget, "--budget"), samples, warmup)
    facts = found.facts | {"plan": found.rows, "notes": found.notes}
    return Answer(facts, view_plan(found.facts, found.rows, found.notes))


def time_phases(
    folder: Path = FOLDER,
    source: Path = argument(
        "TRACE_B|TIMES.csv",
        "A trace from the other machine, whole or up to the plan's end, or a CSV: phase_id, occurrence, time_s, "
        "optionally is_warmup; for vectors also interval, time_s.",
    ),
    platform: str = PLATFORM,
) -> Answer:
    """Take the times of the planned occurrences from a run on another machine.

    \b
    Examples:
      walltime phases time found times.csv --platform north
    """
    from flows.services.phase_folder import time_platform

    found = time_platform(folder, source, platform)
    facts = found.facts | {"times": found.rows, "notes": found.notes}
    return Answer(facts, view_times(found.facts, found.rows, found.notes))


def predict_phases(
    folder: Path = FOLDER,
    platform: str = PLATFORM,
    publish: Path | None = option("--publish DIR", "Also keep it in this folder, for walltime query --from DIR."),
) -> Answer:
    """Predict the runtime on another machine, with intervals, the time spent measuring, and two controls.

    \b
    Examples:
      walltime phases predict found --platform north --publish my-site-tables
    """
    from flows.services.phase_folder import predict

    found = predict(folder, platform, publish)
    return Answer(found.facts | {"notes": found.notes}, view_prediction(found.facts, found.notes))
