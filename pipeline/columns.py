"""Every column of every table, declared once: name, type, unit, meaning."""

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa

from pipeline.schema import Column, category, count, instant, list_of, number, seconds, text, truth

LEVELS = (10, 50, 80, 90, 95, 99)
"""The quantiles of estimates, %."""

QUANTILES = tuple(f"runtime_s_q{level}" for level in LEVELS)
RATIOS = tuple(f"ratio_q{level}" for level in LEVELS)
INTERVALS = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95")

_DECLARED = (
    # who and what
    category("site", "The cluster that ran the job.", required=True),
    category("cluster", "Cluster of the job's id, where the log names one: an id may occur in several clusters."),
    text("job_id", "The job's id in the log, array tasks expanded.", required=True),
    count("restart", "0 for a job's first record, then one more per further record.", "restarts", required=True),
    category("user", "Who submitted the job."),
    category("user_group", "The submitter's Unix group."),
    category("account", "The account or project charged."),
    category("application", "What the job runs, where known: executable id or normalised job name."),
    category("queue", "Queue (Slurm calls it partition)."),
    category("partition", "Partition of the machine, where the log has one beside the queue."),
    category("qos", "Quality of service."),
    text("job_name", "The job's name in the log."),
    category("problem_size", "Problem size, where a rule of the site finds one in the job's text."),
    text("inputs", "Inputs that a rule of the site finds in the job's text: a JSON object of texts by name."),
    # when
    instant("submit_s", "When the job was submitted."),
    instant("eligible_s", "When the job could first have started."),
    instant("start_s", "When the job started; null where the log gives no start or no wait time."),
    instant("end_s", "When the job ended; null where start or runtime is unknown."),
    # how much
    count("procs", "Processors allocated.", "processors", minimum=None, positive=True),
    count("nodes", "Nodes allocated.", "nodes", minimum=None),
    count("gpus", "GPUs allocated.", "GPUs", minimum=None),
    category("gpu_type", "GPU type in the log; gpu: unknown type (groups only); null: no GPUs, or an unknown type."),
    category("axis", "What columns named procs count in this row: procs, nodes or gpus; null: processors."),
    seconds("runtime_s", "Wall-clock time, without suspension where known; of a prediction the median.", positive=True),
    seconds("suspended_s", "Wall-clock time the job was suspended."),
    count("requested_procs", "Processors the user asked for.", "processors", minimum=None),
    count("requested_nodes", "Nodes the user asked for.", "nodes", minimum=None),
    seconds("requested_s", "Wall-clock time requested (user estimate)."),
    seconds("limit_set_s", "First limit that Walltime set, or noted in a dry run; null: none."),
    category("limit_set_by", "What set it: the plug-in with the look-up's stamp, the guard, or dry_run."),
    number("requested_mem_kib", "Memory requested.", "KiB per processor"),
    category("requested_memory", "Requested memory as typed, per processor, node or job, as in 2GiB/node."),
    number(
        "used_mem_kib",
        "Memory used by the whole job: SWF's field 7, PBS's resources_used.mem; in sacct the largest "
        "step's tasks times AveRSS, or MaxRSS; null: unknown.",
        "KiB per processor",
    ),
    number("max_rss_kib", "Largest resident memory of any task of the job.", "KiB"),
    number("cpu_s", "CPU time used, mean per processor.", "s per processor"),
    number("energy_j", "Measured energy of the job, else of its largest step.", "J"),
    # how it ended
    category("state", "Final state in Slurm's terms where it has one, else the log's text."),
    count("exit_code", "Exit code of the job's script; null: unknown.", "code", minimum=None),
    count("derived_exit_code", "Highest exit code of the job's steps; null: unknown.", "code", minimum=None),
    # relations
    category("array_id", "Job array of this task."),
    category("het_id", "Heterogeneous job of this component."),
    text("preceding_job_id", "The job that this one waited for."),
    seconds("think_s", "Time between the preceding job's end and this submit."),
    text("submit_tokens", "Words of the submit line, where the settings keep them."),
    category("work_dir_hash", "Keyed hash of the working directory."),
    # where it came from, what became of it
    category("source_file", "File of the record, relative to the path given.", required=True),
    count("source_line", "Line of that file, from 1.", "line", required=True, minimum=1),
    category("flag", "Why the job is set aside; null: kept."),
    category("burst_id", "Burst of the job, set aside or kept; null: none."),
    Column(
        "is_lower_bound",
        pa.bool_(),
        "Whether the runtime is a lower bound: stopped at the limit or from outside, or not ended yet.",
    ),
    category("group_id", "The similarity group of the job; null: none."),
    # groups and observations
    category("template", "Columns that define similarity, joined by +."),
    text("label", "The group's template values in words."),
    number("error_later", "Mean absolute error on later jobs; null: too few to compare.", "log s"),
    count("n_later", "Later jobs that were predicted.", "jobs"),
    number("share_covered", "Share of later jobs whose group had run before."),
    count("n_groups", "Groups of the kept jobs.", "groups"),
    count("n_scaling_groups", "Groups observed on at least three processor counts.", "groups"),
    number("scaling_proc_hours", "Processor-hours of the jobs in those groups.", "processor-hours"),
    number("score", "error_later, reduced by up to 10% for the share of processor-hours in series."),
    truth("is_previous", "Whether the previous run chose it."),
    count("n_jobs", "Jobs used for this row.", "jobs", required=True),
    count("n_censored", "Jobs whose runtime is a lower bound.", "jobs"),
    count("n_sizes", "Processor counts that the group ran on.", "sizes", required=True),
    count("procs_min", "Smallest processor count observed.", "processors"),
    count("procs_max", "Largest processor count observed.", "processors"),
    number("runtime_s_median", "Median runtime of these jobs; null: longer than every job that ended.", "s", minimum=0),
    number("runtime_s_q10", "10% quantile of their runtimes (Kaplan-Meier).", "s", minimum=0),
    number("runtime_s_q90", "90% quantile of their runtimes; null as the median.", "s"),
    count("n_energy", "Jobs with measured energy.", "jobs"),
    number("energy_j_median", "Median of their energy; null: none was measured.", "J"),
    number("energy_delay_js_median", "Median of their energy times runtime.", "J s"),
    number("log_sd", "Standard deviation of log runtimes, without lower bounds; null for one job.", "log s"),
    instant("first_start_s", "Earliest start, else submit, of the jobs."),
    instant("last_end_s", "Latest end of the jobs (without starts: submit + runtime)."),
    category("odd", "Outlier by the group's other processor counts: slow or fast; null: none."),
    number("deviation", "Deviation of the runtime from the prediction from other counts.", "predictive sd"),
    number("expected_s", "That prediction, of an outlier.", "s"),
    number("fit_weight", "Factor on the weight of this count in fits; 0: left out; null: 1."),
    # patterns
    category("pattern", "stepwise, declining, or the favoured processor counts.", required=True),
    count("step", "1; further steps of one series are 2, 3, ...", "steps", required=True, minimum=1),
    number("log_odds", "Natural logarithm of the odds of the pattern against a smooth curve; null: not tested."),
    number("factor", "Runtime over that of a smooth curve, where the pattern is."),
    count("from_procs", "First processor count of the step or the decline; null: none.", "processors"),
    count("node_procs", "Not used: null.", "processors"),
    text("words", "The pattern as advice, in a sentence."),
    # other problem sizes
    category("base_group_id", "Group of the other problem size, whose curve is used.", required=True),
    number("ratio_s", "Runtime of the base group times the ratio at the smallest common count.", "s"),
    number("own_s", "Runtime by the model average without the other problem size.", "s"),
    number("same_application", "Posterior probability that both problem sizes are one application."),
    number("overhead_power", "Power of the serial time by which overhead grows; null: equal overheads."),
    # fits
    category("law", "Law of the fit."),
    number("t1_s", "Runtime on one processor.", "s", positive=True),
    number("tinf_s", "Runtime on infinitely many processors.", "s"),
    number("avg_parallelism", "A of Downey's law: S(infinity); infinite: linear speedup."),
    number("sigma", "sigma of Downey's law: variance of the parallelism."),
    number("serial_fraction", "Amdahl's serial fraction, T(inf)/T(1)."),
    number("overhead_s", "Overhead of each processor beyond the first, or of each doubling.", "s"),
    number("exponent", "b of a power law, T(n) = T(1) n^-b."),
    number("avg_parallelism_lo", "Least A that fits equally well."),
    number("avg_parallelism_hi", "Largest A that fits equally well."),
    count("n_points", "Processor counts fitted.", "sizes", required=True),
    number("wssre", "Weighted sum of squared relative errors; mean weight 1."),
    number("loo_log_rmse", "Root mean square log error, each count predicted from the others.", "log s"),
    number("core_log_sd", "Log standard deviation of repeats, from their 10% and 90% quantiles.", "log s"),
    number("repeat_log_lo95", "Distance below their median that 2.5% of repeats exceed.", "log s"),
    number("repeat_log_hi95", "Distance above their median that 2.5% of repeats exceed.", "log s"),
    category("status", "Outcome as a code; docs/reference/tables.md lists them.", required=True),
    truth("is_chosen", "Whether the group uses this law, or the groups this template."),
    # predictions
    number("runtime_s_lo80", "Lower end of the 80% interval of one new run.", "s"),
    number("runtime_s_hi80", "Upper end of the 80% interval.", "s"),
    number("runtime_s_lo95", "Lower end of the 95% interval.", "s"),
    number("runtime_s_hi95", "Upper end of the 95% interval.", "s"),
    number("speedup", "T(1)/T(procs); null: T(1) is unknown, or an efficiency is over 1.2.", positive=True),
    number("efficiency", "Speedup over processors.", positive=True),
    truth("is_extrapolated", "Whether procs lies outside the counts that ran."),
    category("reliability", "Whether to rely on the row: ok, or why not; docs/reference/tables.md lists the words."),
    text("advice", "A sentence: what the reliability means, or what to do."),
    number("kept_share", "Share of later runs in the 80% interval, newest weighted most; null: none yet."),
    category("method", "How the value was made.", required=True),
    category("run_id", "The run that wrote the row.", required=True),
    # models over inputs
    text("input_names", "Inputs of the model, joined by +.", required=True),
    count("n_scored", "Ended jobs that were predicted at their submits.", "jobs"),
    number("model_mae_s", "Mean absolute error of these predictions.", "s"),
    number("last_two_mae_s", "The same of the mean of the user's last two jobs.", "s"),
    number("request_mae_s", "The same of the request, where there is one.", "s"),
    number("walltime_mae_s", "The same of the method walltime.", "s"),
    truth("is_published", "Whether the model has the least error, and is used for queries."),
    text("model", "The model as JSON; null: not published."),
    list_of("model_arrays", pa.float64(), "Its arrays, one after the other; `model` has their shapes."),
    # scalability
    number("largest_useful_procs", "Count beyond which nothing is gained: 2A-1, or A + A sigma - sigma.", "processors"),
    count("working_set_procs", "Processor working set: the n that maximises S(n)^2/n.", "processors"),
    number("working_set_speedup", "Speedup at the processor working set."),
    number("working_set_efficiency", "Efficiency at the processor working set."),
    count("time_optimal_procs", "Smallest count that no other count beats by more than 1%.", "processors"),
    count("efficiency_80_procs", "Largest count with an efficiency of at least 80%.", "processors"),
    count("efficiency_50_procs", "Largest count with an efficiency of at least 50%.", "processors"),
    # estimates
    number("runtime_s_q50", "Median of the estimated runtime.", "s"),
    number("runtime_s_q80", "80% quantile of runtime.", "s"),
    number("runtime_s_q95", "95% quantile of runtime.", "s"),
    number("runtime_s_q99", "99% quantile of runtime.", "s"),
    *(
        number(
            f"ratio_q{q}",
            f"{q}% quantile of runtime over request; null: the key has a request, or no job did.",
            minimum=0,
        )
        for q in LEVELS
    ),
    category("who", "The user; in logs without users 'account ...', else 'user_group ...'; null: anyone."),
    category("what", "The application; where unknown 'job_name ...', 'submit_tokens ...' or 'queue ...'; null: any."),
    count("chain_rank", "Position in the order of look-up; 0: the most specific key.", "rank", required=True),
    instant("newest_end_s", "Latest end of the jobs."),
    number("used_mem_kib_q50", "Median of the memory used.", "KiB per processor"),
    number(
        "largest_mem_kib",
        "Most memory that an ended job of the key used; where one ran out, at least its allocation.",
        "KiB per processor",
    ),
    number(
        "recommended_mem_kib",
        "Memory to request, in whole MiB: 97% of all jobs stay below their recommendation.",
        "KiB per processor",
        positive=True,
    ),
    number("recommended_share", "Share of the row's jobs below its recommendation.", minimum=0),
    # advice
    seconds("recommended_s", "Time to request.", positive=True),
    number("chance_longer", "Chance that a later job runs longer.", minimum=0),
    count("n_checked", "Later jobs used for this chance, at most 10 a night; old ones have less weight.", "jobs"),
    # waste
    category("kind", "What the row's jobs share: all, application, account or user.", required=True),
    text("name", "Which application, account or user; null: unknown, or all jobs."),
    count("n_cpu", "Jobs with known CPU time, used for unused_proc_hours.", "jobs"),
    number(
        "unused_proc_hours",
        "Processors times runtime less CPU time, at least 0 for each job; null: unknown.",
        "processor-hours",
    ),
    count("n_gpu", "Jobs with GPUs.", "jobs"),
    number("gpu_hours", "GPUs times runtime.", "GPU-hours"),
    count("n_gpu_cpu", "Jobs with GPUs and known CPU time, used for the next three columns.", "jobs"),
    number(
        "unused_gpu_hours",
        "GPU-hours less CPU time, at least 0 for each job: no processor of the job was busy. Logs do not measure the "
        "use of GPUs.",
        "GPU-hours",
    ),
    count("n_one_proc_gpu", "Jobs that used at most 105% of one processor's time.", "jobs"),
    number("one_proc_gpu_hours", "GPU-hours of these.", "GPU-hours"),
    count("n_memory", "Jobs with known requested and used memory, without those that ran out of it.", "jobs"),
    number("gib_hours", "Their requested memory times runtime.", "GiB-hours"),
    number(
        "unused_gib_hours",
        "The same less the memory used, at least 0 for each job. Where only the largest task is known, this is a lower "
        "bound: each processor is taken to use as much.",
        "GiB-hours",
    ),
    count("n_requested", "Jobs whose requested time is used.", "jobs"),
    number(
        "reserved_hours", "Processors times requested time less runtime: requested, but not used.", "processor-hours"
    ),
    number("energy_kwh", "Measured energy.", "kWh"),
    number(
        "unused_kwh",
        "Energy times the unused share of processor time: an upper limit, as idle processors draw less.",
        "kWh",
    ),
    count("usual_procs", "Processors of the jobs that left most unused; null: none did.", "processors"),
    count(
        "ask_procs",
        "Processors to request instead: 97% of those jobs kept no more busy. Null: more than half were busy.",
        "processors",
    ),
    count("n_ask_procs", "Jobs used for ask_procs.", "jobs"),
    number("ask_procs_share", "Chance that such a job needs no more than ask_procs."),
    number("usual_mem_kib", "Requested memory of the jobs that left most unused.", "KiB per processor"),
    number(
        "ask_mem_kib",
        "Memory to request instead: 97% of those jobs used no more. Null: that would not be less.",
        "KiB per processor",
    ),
    count("n_ask_mem", "Jobs used for ask_mem_kib.", "jobs"),
    number("ask_mem_share", "Chance that such a job needs no more than ask_mem_kib."),
    # bursts and what cleaning changed
    category("tier", "remove: its jobs are set aside; suspect: listed and kept.", required=True),
    category("screen", "The screen that found it: flurry, slow, probe or cron.", required=True),
    instant("first_submit_s", "First submit of its jobs."),
    instant("last_submit_s", "Last submit of its jobs."),
    number("span_days", "From the first to the last submit.", "days"),
    number("share_of_span", "Its share of all jobs submitted in its span."),
    number("machine_weeks", "Its lead over all other users, in normal weeks of their jobs.", "weeks"),
    number("alike_procs", "Share of its jobs on its most common processor count; null: unknown."),
    number("alike_application", "Share of its jobs with its most common application; null: unknown."),
    number(
        "runtime_spread",
        "75% over 25% quantile of its positive runtimes, each at least 60 s; null: most are unknown.",
        "ratio",
    ),
    number("runtime_s_q25", "25% quantile of its runtimes.", "s"),
    number("runtime_s_q75", "75% quantile of its runtimes.", "s"),
    number("proc_hours", "Processor-hours.", "processor-hours"),
    text("day", "Day of the job's end, UTC, as in 2026-11-24.", required=True),
    text("why", "Why the row is listed or chosen, or its estimate doubtful; null: unknown."),
    text("selection", "before: all jobs; after: kept jobs; else a flag: the jobs with it.", required=True),
    count("n_users", "Users.", "users", required=True),
    number("runtime_s_mean", "Mean runtime.", "s"),
    number("procs_mean", "Mean processors.", "processors"),
    number("procs_median", "Median processors.", "processors"),
    number("jobs_per_day_mean", "Mean submits a day.", "jobs per day"),
    number("jobs_per_day_median", "Median submits a day.", "jobs per day"),
    number("load", "Processor-seconds over those of the machine in the log's time."),
    # an evaluation of scaling
    text("predictor", "The predictor: a law, adept, or another predictor.", required=True),
    text("split", "Which sizes of each series were given.", required=True),
    count("n_series", "Series with a target in this split.", "series", required=True),
    count("n_targets", "Sizes predicted.", "sizes", required=True),
    count("n_answered", "Sizes predicted for which the predictor has an answer.", "sizes", required=True),
    number("median_abs_error_pct", "Median of |predicted/measured - 1|; infinite where there is no answer.", "%"),
    count("n_near", "Targets at most 4 times beyond the sizes given.", "sizes", required=True),
    number("near_median_abs_error_pct", "The same median over the near targets.", "%"),
    # backtest
    text("log", "The log: its site's name, or the file that was read by itself.", required=True),
    category("estimator", "The method that estimated.", required=True),
    number("runtime_quantile", "Quantile of the runtime, interpolated between the six; null: outside, or unknown."),
    number("known_age_days", "Age of the data used, at the submit.", "days"),
    number("stale_days", "Least days between the data used, as of a midnight, and the submit; null: none."),
    category("learnt_from", "Training jobs: all, or only those that cleaning keeps (kept)."),
    category("part", "all, or a split of the jobs: by month, size or user, or the worst fortnight.", required=True),
    text("part_value", "Which part: the month, processors, user, or the fortnight's first day, on the site's clock."),
    count("n_fallback", "Jobs without an answer, for which the request was used, else the log so far.", "jobs"),
    count("n_unanswered", "Jobs without any fallback; they are not scored.", "jobs"),
    number("mae_s", "Mean absolute error of the median estimate.", "s"),
    number("mae_over_mean", "The same error over the mean runtime of the jobs."),
    number("median_abs_pct", "Median of the absolute error over the runtime.", "%"),
    number("share_under", "Share of jobs estimated below their runtime."),
    *(number(f"pinball_q{q}_s", f"Mean pinball loss of the {q}% quantile.", "s") for q in LEVELS),
    *(number(f"coverage_q{q}", f"Share of jobs no longer than the {q}% quantile.") for q in LEVELS),
    number("coverage_80", "Share of jobs from the 10% to the 90% quantile."),
    number("q95_over_request", "Median 95% quantile over the median request, of jobs with both."),
    # replay
    category("policy", "How waiting jobs were started: fcfs, easy, easy-sjbf or conservative.", required=True),
    category("estimates", "Estimates used, as in walltime; control: a tenth of the request.", required=True),
    category("correction", "What a passed prediction became: request, increments or doubling."),
    truth("is_guarded", "Whether the delay of the first waiting job was bounded."),
    category("convention", "How errors of the log became jobs: natural or pyss."),
    truth("has_waits", "Whether the log states waits; without them its submits are starts, and gains mean nothing."),
    category("statistic", "Of the shaken replays: median, q25, q75; single: of one replay, not shaken.", required=True),
    count("n_shakes", "Replays with shaken arrivals; 0: the log was replayed once as it is.", "replays", required=True),
    number("slowdown_mean", "Mean bounded slowdown: response over runtime, at least 10 s each, and at least 1."),
    number("slowdown_median", "Median bounded slowdown."),
    seconds("wait_mean_s", "Mean wait."),
    seconds("wait_p99_s", "99% quantile of the waits."),
    seconds("wait_longest_s", "Longest wait."),
    seconds("wait_wide_mean_s", "Mean wait of the tenth of the jobs with the most processors."),
    seconds("response_mean_s", "Mean wait and runtime."),
    number("utilisation", "Share of the machine's processor-seconds that the jobs held between first and last submit."),
    number("share_backfilled", "Share of jobs that started while one submitted before was waiting."),
    number("share_corrected", "Share of jobs that outlived a prediction."),
    number("slowdown_change", "Mean bounded slowdown over that of EASY with requests in the same replay, less 1."),
    number("wait_change_s", "Mean wait less that of EASY with requests in the same replay.", "s"),
    # expected starts
    instant("made_s", "When the answer was made."),
    *(instant(f"start_s_q{q}", f"When {q}% of such jobs have started.") for q in (10, 50, 80, 95)),
    category("answered_by", "How the answer was made: simulation, similar, draws or idle.", required=True),
    truth("is_newest", "Whether it is the job's newest answer, or only its first one."),
    instant("started_s", "When the job was seen to have started; null while it waits, or where it was not seen."),
    # what the estimator has learnt
    text("array", "Name of the array, as in jobs.values.", required=True),
    list_of("shape", pa.int64(), "Lengths of the array's axes; the last one varies fastest in the values."),
    list_of("floats", pa.float64(), "Values of an array of real numbers; not-a-number: unknown."),
    list_of("integers", pa.int64(), "Values of an array of integers; -1: unknown."),
    list_of("flags", pa.bool_(), "Values of an array of booleans."),
    list_of("texts", pa.string(), "Values of an array of texts."),
    # unreadable records
    number("byte_offset", "Offset of the record in the decompressed file.", "bytes"),
    category("reason", "Why the record could not be read."),
    text("raw", "The text of the record, truncated."),
)

COLUMNS = {column.name: column for column in _DECLARED}

ASCENDING = (
    ("first_start_s", "last_end_s"),
    ("procs_min", "procs_max"),
    ("runtime_s_q10", "runtime_s_median", "runtime_s_q90"),
    ("runtime_s_lo95", "runtime_s_lo80", "runtime_s", "runtime_s_hi80", "runtime_s_hi95"),
    QUANTILES,
    RATIOS,
)
"""Columns of one table whose values ascend in every row, where they are there; checked before publishing."""

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


def columns(*names: str, never_null: Collection[str] = ()) -> tuple[Column, ...]:
    """The declared columns of these names, in the given order; some that other tables leave null never are here."""
    unknown = sorted(set(never_null) - set(names))
    if unknown:
        raise ValueError(f"never_null names {', '.join(unknown)}, expected columns of the table")
    return tuple(replace(COLUMNS[name], is_required=True) if name in never_null else COLUMNS[name] for name in names)
