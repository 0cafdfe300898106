"""Every column of every table, once: name, type, unit, meaning.

Units stand in the name (`_s` seconds, `_kib` kibibytes, `_pct` per cent) and again in the field's metadata. Instants
are UTC epoch seconds (int64); durations are float64 seconds, because logs write fractions. Null is unknown.
"""

from dataclasses import dataclass

import pyarrow as pa

CATEGORY = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its Arrow type in memory, its unit and what a reader should understand by it."""

    name: str
    type: pa.DataType
    meaning: str
    unit: str | None = None
    is_required: bool = False
    minimum: float | None = None

    def field(self, *, on_disk: bool = False) -> pa.Field:
        """The Arrow field, with unit and meaning as metadata; on disk a category is a plain string."""
        stored = pa.string() if on_disk and self.type == CATEGORY else self.type
        facts = {"meaning": self.meaning} | ({"unit": self.unit} if self.unit else {})
        return pa.field(self.name, stored, nullable=not self.is_required, metadata=facts)


def _text(name: str, meaning: str, *, required: bool = False) -> Column:
    return Column(name, pa.string(), meaning, is_required=required)


def _category(name: str, meaning: str, *, required: bool = False) -> Column:
    return Column(name, CATEGORY, meaning, is_required=required)


def _instant(name: str, meaning: str) -> Column:
    return Column(name, pa.int64(), meaning, unit="s since 1970-01-01 UTC")


def _seconds(name: str, meaning: str) -> Column:
    return Column(name, pa.float64(), meaning, unit="s")


def _count(name: str, meaning: str, unit: str, *, required: bool = False, minimum: float | None = 0) -> Column:
    return Column(name, pa.int64(), meaning, unit=unit, is_required=required, minimum=minimum)


def _number(name: str, meaning: str, unit: str | None = None) -> Column:
    return Column(name, pa.float64(), meaning, unit=unit)


def _list(name: str, of: pa.DataType, meaning: str) -> Column:
    return Column(name, pa.list_(pa.field("element", of)), meaning)


def _truth(name: str, meaning: str) -> Column:
    return Column(name, pa.bool_(), meaning, is_required=True)


_DECLARED = (
    # who and what
    _category("site", "The cluster whose log holds the job.", required=True),
    _text("job_id", "The job's id as the log writes it, array tasks expanded.", required=True),
    _count("restart", "0 for a job's first record, one more a requeue or partial run.", "restarts", required=True),
    _category("user", "Who submitted the job."),
    _category("user_group", "The submitter's Unix group."),
    _category("account", "The account or project charged."),
    _category("application", "What the job runs as far as the log tells: executable id or normalised job name."),
    _category("queue", "Queue (Slurm calls it partition)."),
    _category("partition", "Partition of the machine, where the log names one apart from the queue."),
    _category("qos", "Quality of service."),
    _text("job_name", "The job's name as the log writes it."),
    _category("problem_size", "Problem size, where a site's rule finds one in the job's text."),
    # when
    _instant("submit_s", "When the job was submitted."),
    _instant("eligible_s", "When the job could first have started."),
    _instant("start_s", "When the job started; null where the log gives no start or no wait time."),
    _instant("end_s", "When the job ended; null where start or runtime is unknown."),
    # how much
    _count("procs", "Processors allocated.", "processors", minimum=None),
    _count("nodes", "Nodes allocated.", "nodes", minimum=None),
    _count("gpus", "GPUs allocated.", "GPUs", minimum=None),
    _seconds("runtime_s", "Wall-clock time the job ran, suspension left out where the log tells."),
    _seconds("suspended_s", "Wall-clock time the job was suspended."),
    _count("requested_procs", "Processors the user asked for.", "processors", minimum=None),
    _count("requested_nodes", "Nodes the user asked for.", "nodes", minimum=None),
    _seconds("requested_s", "Wall-clock time the user asked for (the literature's user estimate)."),
    _number("requested_mem_kib", "Memory the user asked for, per processor.", "KiB per processor"),
    _category("requested_memory", "Memory as the user asked for it: an amount, and what it is per, as in 2GiB/node."),
    _number("used_mem_kib", "Memory the job used, per processor.", "KiB per processor"),
    _number("max_rss_kib", "Largest resident memory of any task of the job.", "KiB"),
    _number("cpu_s", "CPU time used, mean per processor.", "s per processor"),
    _number("energy_j", "Energy used, as the log measured it: the job's own, or its largest step's.", "J"),
    # how it ended
    _category("state", "Final state in Slurm's words where the log's own maps to one, else the log's text."),
    _count("exit_code", "Exit code of the job's script; null where the log has none.", "code", minimum=None),
    _count("derived_exit_code", "Highest exit code of the job's steps; null: unknown.", "code", minimum=None),
    # relations
    _category("array_id", "Id of the job array this job is a task of."),
    _category("het_id", "Id of the heterogeneous job this is a component of."),
    _text("preceding_job_id", "The job this one waited for."),
    _seconds("think_s", "Time between the preceding job's end and this submit."),
    _text("submit_tokens", "The submit line's words, where asked for."),
    _category("work_dir_hash", "Keyed hash of the working directory."),
    # where it came from, what became of it
    _category("source_file", "File the record was read from, relative to the path given.", required=True),
    _count("source_line", "Line of that file, from 1.", "line", required=True, minimum=1),
    _category("flag", "Why the job is set aside; null: it is kept."),
    _category("burst_id", "The burst the job belongs to, set aside or kept; null: none."),
    Column(
        "is_lower_bound",
        pa.bool_(),
        "Whether the job would have run longer: killed at its limit, not ended yet, or stopped from outside.",
    ),
    _category("group_id", "The similarity group the job falls into; null: none."),
    # groups and observations
    _category("template", "The columns that define similarity, joined by +."),
    _text("label", "The group's template values in words."),
    _number("error_later", "Mean absolute error on later jobs; null: too few to compare.", "log s"),
    _count("n_later", "Later jobs that were predicted.", "jobs"),
    _number("share_covered", "Share of the later jobs whose group had run before."),
    _count("n_groups", "Groups of the kept jobs.", "groups"),
    _count("n_scaling_groups", "Groups seen on three processor counts at least.", "groups"),
    _number("scaling_proc_hours", "Processor-hours of the jobs in those groups.", "processor-hours"),
    _number("score", "error_later, lower by up to group.series_worth for the share of processor-hours in series."),
    _truth("is_previous", "Whether the run before had chosen it."),
    _count("n_jobs", "Jobs behind this row.", "jobs", required=True),
    _count("n_censored", "Jobs of them whose runtime is only a lower bound.", "jobs"),
    _count("n_sizes", "Distinct processor counts the group has run on.", "sizes", required=True),
    _count("procs_min", "Smallest processor count observed.", "processors"),
    _count("procs_max", "Largest processor count observed.", "processors"),
    _number("runtime_s_median", "Median runtime of the jobs here; null: longer than anything seen to end.", "s"),
    _number("runtime_s_q10", "10% quantile of their runtimes (Kaplan-Meier, linear interpolation).", "s"),
    _number("runtime_s_q90", "90% quantile of their runtimes; null as the median.", "s"),
    _count("n_energy", "Jobs of them whose energy was measured.", "jobs"),
    _number("energy_j_median", "Median energy of those jobs; null: none was measured.", "J"),
    _number("energy_delay_js_median", "Median of energy times runtime of those jobs.", "J s"),
    _number("log_sd", "Standard deviation of log runtime over repeats that are no bounds; null for one job.", "log s"),
    _instant("first_start_s", "Earliest start among the jobs (submit where the log has no start)."),
    _instant("last_end_s", "Latest end among the jobs (submit + runtime where the log has no start)."),
    _category("odd", "slow or fast: the group's other sizes contradict its runtime here; null: nothing odd."),
    _number("deviation", "How far the runtime lies from what the other sizes predict.", "predictive sd"),
    _number("expected_s", "What the other sizes predict where they contradict the runtime.", "s"),
    _number("fit_weight", "Factor on this size's weight in the fits; 0: it is left out; null: 1."),
    # patterns
    _category("pattern", "stepwise, declining, or the favoured processor counts.", required=True),
    _count("step", "1; further steps of one series are 2, 3, ...", "steps", required=True, minimum=1),
    _number("log_odds", "Odds for the pattern against a plain curve, natural logarithm; null: not looked for."),
    _number("factor", "Runtime over that of a plain curve, in the phase or at the sizes the pattern sets apart."),
    _count("from_procs", "Where the phase, or the decline, begins; null: a pattern without beginning.", "processors"),
    _count("node_procs", "Processors of a node, where the pattern is about them.", "processors"),
    _text("words", "The pattern as advice, in a sentence."),
    # runtime classes and other problem sizes
    _count("runtime_class", "Place of the class among its group's, 1 the shortest.", "place", required=True, minimum=1),
    _number("class_factor", "Runtime over that of the group's shortest class, at the same processor count."),
    _number("class_share", "Share of the group's jobs that fall into the class."),
    _category("base_group_id", "The group of another problem size that lends its curve.", required=True),
    _number("ratio_s", "The base's runtime times one ratio, at the smallest common count: the thesis's way.", "s"),
    _number("own_s", "The runtime by the model average of the problem size's own points alone.", "s"),
    _number("same_application", "Posterior probability that the two sizes are one application whose shape may move."),
    _number("overhead_power", "By what power of the serial time overhead grows; null where the sizes' are alike."),
    # fits
    _category("law", "Functional form of the fit."),
    _number("t1_s", "Runtime on one processor.", "s"),
    _number("tinf_s", "Runtime on infinitely many processors.", "s"),
    _number("avg_parallelism", "A of Downey's model: S(infinity); infinite: linear speedup throughout."),
    _number("sigma", "sigma of Downey's model: variance of the parallelism profile."),
    _number("serial_fraction", "Amdahl's serial fraction, T(inf)/T(1)."),
    _number("overhead_s", "What each processor beyond the first, or each doubling, adds to the runtime.", "s"),
    _number("exponent", "b of a power law, T(n) = T(1) n^-b."),
    _number("avg_parallelism_lo", "Lower end of A where the data leave the tail open."),
    _number("avg_parallelism_hi", "Upper end of A where the data leave the tail open."),
    _count("n_points", "Distinct processor counts fitted.", "sizes", required=True),
    _number("wssre", "Weighted sum of squared relative errors at the optimum, weights averaging 1."),
    _number("loo_log_rmse", "Root mean square of log errors, each size predicted from the others.", "log s"),
    _number("core_log_sd", "Log standard deviation of repeats at one size, from their 10% and 90% quantiles.", "log s"),
    _number("repeat_log_lo95", "How far below their size's median 2.5% of the group's repeats lie, at least.", "log s"),
    _number("repeat_log_hi95", "How far above their size's median 2.5% of the group's repeats lie, at least.", "log s"),
    _category("status", "What came of it; the README lists the words of each table.", required=True),
    _truth("is_chosen", "Whether this law answers for the group, or this template forms the groups."),
    # predictions
    _number("runtime_s_lo80", "Lower end of the 80% interval of one new run.", "s"),
    _number("runtime_s_hi80", "Upper end of the 80% interval.", "s"),
    _number("runtime_s_lo95", "Lower end of the 95% interval.", "s"),
    _number("runtime_s_hi95", "Upper end of the 95% interval.", "s"),
    _number("speedup", "T(1)/T(procs) by the same average as the runtime."),
    _number("efficiency", "Speedup over processors."),
    _truth("is_extrapolated", "Whether procs lies outside the sizes observed."),
    _category("reliability", "Codes of what makes it doubtful, joined by +; ok: none, or its past windows came true."),
    _text("advice", "What to do about it, in a sentence."),
    _number("near_share", "Share of later jobs expected within 25% of the median, by past windows; null: too few."),
    _instant("holds_until_s", "For jobs submitted until then reliability is ok; null: it is not."),
    _category("method", "How the value was made.", required=True),
    _category("run_id", "The run that wrote the row.", required=True),
    # scalability
    _number("largest_useful_procs", "Beyond it the law gains nothing: 2A-1, or A + A sigma - sigma.", "processors"),
    _count("working_set_procs", "Processor working set: the n that maximises S(n)^2/n.", "processors"),
    _number("working_set_speedup", "Speedup at the processor working set."),
    _number("working_set_efficiency", "Efficiency at the processor working set."),
    _count("time_optimal_procs", "Fewest processors of which none take 1% less time.", "processors"),
    _count("efficiency_80_procs", "Largest count used with an efficiency of at least 80%.", "processors"),
    _count("efficiency_50_procs", "Largest count used with an efficiency of at least 50%.", "processors"),
    # estimates
    _number("runtime_s_q50", "Median runtime of the jobs behind this row: the estimate.", "s"),
    _number("runtime_s_q80", "80% quantile of runtime.", "s"),
    _number("runtime_s_q95", "95% quantile of runtime.", "s"),
    _number("runtime_s_q99", "99% quantile of runtime.", "s"),
    *(
        _number(f"ratio_q{q}", f"{q}% quantile of runtime over request; null: its key has a request, or none did.")
        for q in (10, 50, 80, 90, 95, 99)
    ),
    _category("who", "The user; where the log names none, 'account ...', else 'user_group ...'; null: anyone."),
    _category("what", "The application; where unknown 'job_name ...', 'submit_tokens ...' or 'queue ...'; null: any."),
    _number("n_effective", "Jobs of equal weight worth all those weighed for this row, others' too (Kish).", "jobs"),
    _count("chain_rank", "Place in the fallback chain, 0 the most specific template.", "rank", required=True),
    _instant("newest_end_s", "Latest end among the jobs: how old the knowledge is."),
    # bursts and what cleaning changed
    _category("tier", "remove: its jobs are set aside; suspect: listed and kept.", required=True),
    _category("screen", "The screen that found it: flurry, slow, probe or cron.", required=True),
    _instant("first_submit_s", "Earliest submit among its jobs."),
    _instant("last_submit_s", "Latest submit among its jobs."),
    _number("span_days", "From the first to the last submit.", "days"),
    _number("share_of_span", "Its share of all jobs submitted in its span."),
    _number("machine_weeks", "Its jobs, in normal weeks of everybody else's jobs.", "weeks"),
    _number("alike_procs", "Share of its jobs on its commonest processor count; null: no size is known."),
    _number("alike_application", "Share of its jobs that run its commonest application; null: none is known."),
    _number(
        "runtime_spread",
        "75% over 25% quantile of its positive runtimes, each at least clean.flurry.spread_floor_s; null: fewer than "
        "half its jobs have one.",
        "ratio",
    ),
    _number("runtime_s_q25", "25% quantile of its runtimes.", "s"),
    _number("runtime_s_q75", "75% quantile of its runtimes.", "s"),
    _number("proc_hours", "Processor-hours.", "processor-hours"),
    _text("why", "Why it is listed or chosen, in a sentence."),
    _text("selection", "before: all jobs; after: those kept; else the flag whose jobs these are.", required=True),
    _count("n_users", "Distinct users.", "users", required=True),
    _number("runtime_s_mean", "Mean runtime.", "s"),
    _number("procs_mean", "Mean processors.", "processors"),
    _number("procs_median", "Median processors.", "processors"),
    _number("jobs_per_day_mean", "Submits a day, mean over the log's days.", "jobs per day"),
    _number("jobs_per_day_median", "Submits a day, median over the log's days.", "jobs per day"),
    _number("load", "Processor-seconds over what the machine has in the log's span."),
    # an evaluation of scaling
    _text("predictor", "What predicted: a law, adept, or a predictor of its own.", required=True),
    _text("split", "Which sizes of each series were given.", required=True),
    _count("n_series", "Series that the split leaves a target.", "series", required=True),
    _count("n_targets", "Sizes predicted.", "sizes", required=True),
    _count("n_answered", "... of them with an answer.", "sizes", required=True),
    _number("median_abs_error_pct", "Median of |predicted/measured - 1|, an open target counted as infinite.", "%"),
    _count("n_near", "Targets at most 4 times beyond the sizes given.", "sizes", required=True),
    _number("near_median_abs_error_pct", "The same median over those.", "%"),
    # backtest
    _text("log", "The log: its site's name, or the file that was read by itself.", required=True),
    _category("estimator", "The method that estimated.", required=True),
    _number("stale_days", "Days from the midnight whose knowledge answered to the submit, at least; null: none."),
    _category("learnt_from", "Whether flagged jobs were learnt from too (all), or not (kept)."),
    _category("part", "all, or what jobs are split by: month, size, or the fortnight covered worst.", required=True),
    _text("part_value", "Which part: the month, the processors, the fortnight's first day, on the site's clock."),
    _count("n_fallback", "Jobs it had no answer for; the request stood in, else the log so far.", "jobs"),
    _count("n_unanswered", "Jobs for which nothing could stand in; not scored.", "jobs"),
    _number("mae_s", "Mean absolute error of the median estimate.", "s"),
    _number("mae_over_mean", "The same over the jobs' mean runtime."),
    _number("median_abs_pct", "Median of the absolute error over the runtime.", "%"),
    _number("share_under", "Share of jobs estimated below their runtime."),
    *(_number(f"pinball_q{q}_s", f"Mean pinball loss of the {q}% quantile.", "s") for q in (10, 50, 80, 90, 95, 99)),
    *(_number(f"coverage_q{q}", f"Share of jobs no longer than the {q}% quantile.") for q in (10, 50, 80, 90, 95, 99)),
    _number("coverage_80", "Share of jobs from the 10% to the 90% quantile."),
    _number("q95_over_request", "Median 95% quantile over the median request, of jobs with both."),
    # what the estimator has learnt
    _text("array", "What the values are, as in beliefs.who_log.", required=True),
    _list("shape", pa.int64(), "Lengths of the array's axes; the last one varies fastest in the values."),
    _list("floats", pa.float64(), "The values of an array of real numbers; not-a-number is unknown."),
    _list("integers", pa.int64(), "The values of an array of counts, codes and places; -1 is unknown."),
    _list("flags", pa.bool_(), "The values of an array of truths."),
    _list("texts", pa.string(), "The values of an array of texts."),
    # unreadable records
    _number("byte_offset", "Where the record starts in the decompressed file.", "bytes"),
    _category("reason", "Why the record could not be read."),
    _text("raw", "The record's text, cut at a bound."),
)  # fmt: skip

COLUMNS = {column.name: column for column in _DECLARED}

TEMPLATE_COLUMNS = (
    "user",
    "user_group",
    "account",
    "application",
    "queue",
    "partition",
    "qos",
    "problem_size",
    "requested_s",
    "requested_mem_kib",
    "requested_memory",
    "job_name",
    "procs",
)
"""Columns a similarity template may name."""


def columns(*names: str) -> tuple[Column, ...]:
    """The declared columns of these names, in the order asked."""
    return tuple(COLUMNS[name] for name in names)
