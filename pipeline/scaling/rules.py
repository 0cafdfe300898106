"""Thresholds and priors of laws, screens and predictions; a study passes others to the stages.

ADEPT's own are those of its thesis (Deshmeh 2013).
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class AdeptRules:
    """How ADEPT (Deshmeh 2013) searches."""

    # Scale of runtimes; "unit": in units where T(inf) = 1 (low mode), as in the thesis.
    scale: Literal["free", "unit"] = "free"
    # Initial relative half-width of the envelope, and the step by which it grows.
    delta: float = 0.05
    # Weight of an observation: q times the largest distance to the target, minus its own.
    q: float = 2.0
    # With a free scale, T(inf) is searched down to the shortest runtime divided by this.
    reach: float = 64.0
    # Ratio of neighbouring scales in the search.
    scale_step: float = 1.05


@dataclass(frozen=True, slots=True)
class FitRules:
    """Which laws are fitted, and how one is chosen."""

    # The laws that are fitted to each group, by the names on the page of laws.
    laws: tuple[str, ...] = ("constant", "amdahl", "downey_low", "downey_high")
    # Errors whose squares are summed: log errors, or relative errors as in ADEPT's WSSRE.
    loss: Literal["log", "relative"] = "log"
    # Lower bound of a size's error, however many jobs it has (log s).
    noise_floor: float = 0.05
    # A simpler law is chosen if its leave-one-out error is larger by at most this share.
    choice_margin: float = 0.1


@dataclass(frozen=True, slots=True)
class PredictRules:
    """On which processor counts runtimes are predicted, and what makes a prediction doubtful."""

    # Predict up to this many times the largest observed size, and down to the smallest over it.
    reach: float = 4.0
    # Other counts that every group of several sizes is predicted on.
    counts: tuple[int, ...] = ()
    # Error assumed for a group whose jobs do not determine it (log s).
    default_log_sd: float = 0.4
    # Lower bound of the spread of a single run (log s).
    measured_log_sd: float = 0.02
    # Spread of repeats where too few groups of the log have repeats (log s; 0.02 is 2%).
    run_log_sd: float = 0.02
    # Deviation of runtimes from any law per doubling, where the log does not determine it (log s).
    drift_log_sd: float = 0.07
    # Largest spread of repeats; a wider group has no common runtime (log s).
    wide_log_sd: float = 0.7
    # Least distance of a law from the runs of a size that it is said to miss (log s).
    high_log_error: float = 0.25
    # Largest relative error of a law at a size of its fit (ADEPT has 10%); above, the fit counts as doubtful.
    high_error: float = 0.1


@dataclass(frozen=True, slots=True)
class ScreenRules:
    """Which sizes a series' fit leaves out because the others contradict them; steps, favoured counts and declines."""

    # Rate of false alarms: share of clean series in which a size is called odd.
    false_alarms: float = 0.05
    # Least number of sizes of a series in which a size can be odd.
    min_points: int = 5
    # Largest share of odd sizes in a series.
    max_share: float = 0.25
    # Least odds of a pattern that is reported; 20 is a false alarm in at most 1 of 20 series.
    odds: float = 20.0
    # The same for a step to faster runs where repeats measure the noise; a false alarm in at most 1 of 100 series.
    gain_odds: float = 1.5
    # Least deviation of an odd size, and least factor of a step or of a favoured class (log s; 0.1 is 10%).
    least_departure: float = 0.1
    # Typical deviation of a phase or class of sizes from the curve (log s; 0.3 is 35%).
    departure_log_sd: float = 0.3
    # Least number of sizes on either side of a step.
    min_phase_points: int = 3
    # Least number of sizes inside and outside a favoured class.
    min_class_points: int = 3
    # Largest spread of repeats in a searched group; wider groups mix different work (log s).
    wide_log_sd: float = 0.5
    # Lower bound of the spread of repeats (log s; 0.01 is 1%).
    least_log_sd: float = 0.01
    # Spread of repeats where the log has no repeats (log s).
    default_log_sd: float = 0.05


@dataclass(frozen=True, slots=True)
class AcrossRules:
    """How the curve of one problem size predicts another problem size of the same application."""

    # Prior probability that two problem sizes belong to one application.
    same_prior: float = 0.9
    # Deviation of a measured runtime from its curve (log s).
    run_log_sd: float = 0.07
    # Below this posterior probability two sizes count as two applications.
    apart: float = 0.2
    # Weight of the target's own prediction in the published one (geometric mean); 1: no borrowing.
    own_share: float = 0.3
    # Least difference of a constant ratio and the joint fit for the status shape_moves (log s).
    ratio_log_error: float = 0.25
