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
# # Estimates, and what they would have gained
#
# This notebook compares ways to estimate runtimes, replays a log under EASY-SJBF backfilling with these estimates, and
# estimates two jobs that have not run. It uses the first jobs of a simulated log, so that it takes seconds.
#
# To open it: `pip install jupyterlab jupytext`, then `jupyter lab`, and "Open With, Notebook" on this file.

# %%
import matplotlib.pyplot as plt
import pandas as pd

import walltime as wt

# %%
site = {"name": "riverbend", "max_procs": 512}
jobs = wt.clean(wt.read(wt.sample("riverbend.swf.gz"), site=site).head(2000), site=site)
len(jobs)

# %% [markdown]
# Each method estimates a job from the jobs that had ended by its submit. The first third of the log is not scored.
# `mae_s` is the mean absolute error in seconds.

# %%
figures = wt.backtest(jobs, methods=["request", "last_two", "walltime"], site=site)
figures[figures["part"] == "all"][["estimator", "n_jobs", "mae_s"]]

# %% [markdown]
# A replay starts the same jobs under another policy. `request` plans with the user's request, `perfect` with the true
# runtime, `soft-10` with soft limits by the 10% quantile of our estimates, `control` with soft limits by a tenth of the
# request. `order` plans with requests, and tries jobs with shorter medians first. Means of one replay of a short log
# differ by chance: with `shakes=20` the table has medians and quartiles.

# %%
replayed = wt.replay(jobs, estimates=["soft-10", "order", "control", "perfect"], shakes=0, site=site)
whole = replayed[replayed["part"] == "all"]
whole[["policy", "estimates", "wait_mean_s", "slowdown_mean"]]

# %%
figure, axes = plt.subplots()
labels = whole["policy"] + ", " + whole["estimates"]
axes.barh(labels, whole["wait_mean_s"] / 60)
_ = axes.set(xlabel="mean wait (min)", title="The same jobs under other estimates")
# %% [markdown]
# The estimator answers for jobs that have not run. The median is at most the request.

# %%
latest = jobs.dropna(subset=["user", "application", "procs", "requested_s"]).tail(2)
waiting = pd.DataFrame(latest[["user", "application", "procs", "requested_s"]])
wt.estimate(jobs, waiting, site=site)[["user", "procs", "requested_s", "runtime_s_q50", "runtime_s_q95"]]
