"""A workload simulator: whole accounting logs from known laws, with planted anomalies and the truth about each.

laws.py       runtime on n processors, written from the published speedup formulas, apart from the library's own
workload.py   applications and the jobs their users submit
plant.py      anomalies, each a small function that takes jobs and gives jobs
scheduler.py  when each job starts on a machine of limited size
swf_text.py   jobs to lines of the Standard Workload Format; textual traps
log.py        simulate_log: all of it in one call
riverbend.py  the catalogue behind the main sample
samples.py    the files of data_samples/
"""
