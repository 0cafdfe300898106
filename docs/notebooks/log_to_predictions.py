# ---
# jupyter:
#   jupytext:
#     formats: py:percent,md
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a log to predictions
#
# This notebook reads a simulated accounting log, sets doubtful jobs aside, fits scaling laws to similar jobs, and plots
# the predictions of one application. It needs no cluster: the log comes with Walltime.
#
# To open it: `pip install jupyterlab jupytext`, then `jupyter lab`, and "Open With, Notebook" on this file.

# %%
import matplotlib.pyplot as plt

import walltime as wt

# %% [markdown]
# One row is one job. Times are seconds since 1970, durations are seconds, and unknown values are null.

# %%
jobs = wt.read(wt.sample("riverbend.swf.gz"), site={"name": "riverbend", "max_procs": 512})
jobs[["job_id", "user", "application", "procs", "runtime_s"]].head()

# %% [markdown]
# Cleaning removes no row. The column `flag` states why a job is set aside; it is null for jobs that are kept.

# %%
jobs = wt.clean(jobs, site={"name": "riverbend", "max_procs": 512})
jobs["flag"].value_counts(dropna=False)

# %% [markdown]
# The jobs of one application, user and requested memory are a scalability series. The memory is part of it because one
# user runs an application with two memory sizes here, which are two problems. The twelve series with most processor
# counts are enough. The runtimes of a log vary more than those of a benchmark, so the errors are those of logarithms.

# %%
series = ["application", "user", "requested_mem_kib"]
kept = jobs[jobs["flag"].isna()].dropna(subset=series)
n_sizes = kept.groupby(series)["procs"].nunique()
largest = n_sizes.sort_values(ascending=False, kind="stable").head(12).index
chosen = kept.set_index(series).loc[largest].reset_index()
model = wt.fit(chosen, by=series, loss="log", max_procs=512)
model

# %% [markdown]
# A prediction has the ends of its 80% and 95% intervals. `advice` names what makes it doubtful.

# %%
predictions = wt.predict(model, procs=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
predictions[["group_id", "procs", "runtime_s", "runtime_s_lo80", "runtime_s_hi80", "advice"]].head(10)

# %%
group = model.observations["group_id"].value_counts().sort_index().idxmax()
observed = model.observations[model.observations["group_id"] == group]
predicted = predictions[predictions["group_id"] == group]
figure, axes = plt.subplots()
interval = predicted["runtime_s_lo80"], predicted["runtime_s_hi80"]
axes.fill_between(predicted["procs"], *interval, alpha=0.3, label="80% interval")
axes.plot(predicted["procs"], predicted["runtime_s"], label="predicted")
axes.plot(observed["procs"], observed["runtime_s_median"], "o", label="observed median")
axes.set(xscale="log", yscale="log", xlabel="processors", ylabel="runtime (s)", title=group)
_ = axes.legend()
