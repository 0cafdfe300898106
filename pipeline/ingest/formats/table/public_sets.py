"""The column maps of public sets of jobs, told by their own column names.

Sources: NREL/eagle-jobs and its README; NREL/raddit (Kestrel); Microsoft Philly as siasosp23/artifacts exports it;
PM100, documentation/job_features.md of francescoantici/PM100-data (Antici et al. 2023); F-DATA (Antici et al. 2025, on
Zenodo); MIT Supercloud's slurm-log.csv, which is slurmdbd's job_table (Samsi et al. 2021); Alibaba's clusterdata:
trace_2018.md (batch_task), cluster-trace-gpu-v2020 (pai_task_table) and cluster-trace-gpu-v2023 (openb_pod_list).
Google's traces have a row for each event, not for each job, so that no map of columns reads them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pipeline.settings import LogColumn

ColumnMap = Mapping[str, LogColumn]


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A set's name, the columns that no other table has together, and what its columns hold."""

    name: str
    told_by: tuple[str, ...]
    columns: ColumnMap


def _of(column: str, unit: str | None = None, per: str | None = None, times: str | None = None) -> LogColumn:
    return LogColumn.model_validate({"column": column, "unit": unit, "per": per, "times": times})


def _plain(words: str) -> dict[str, LogColumn]:
    """Pairs `target=column`."""
    pairs = (word.split("=") for word in words.split())
    return {target: _of(column) for target, column in pairs}


PUBLIC_SETS = (
    PublicSet(
        "NREL Eagle", ("wallclock_req", "processors_req", "nodes_req", "submit_time"),
        _plain(
            "job_id=job_id user=user account=account queue=partition qos=qos requested_nodes=nodes_req "
            "requested_procs=processors_req gpus=gpus_req submit_s=submit_time start_s=start_time end_s=end_time "
            "state=state job_name=name application=name work_dir=work_dir submit_line=submit_line"
        )
        | {"requested_s": _of("wallclock_req", "s"), "runtime_s": _of("run_time", "s")},
    ),
    PublicSet(
        "NREL Kestrel", ("submit", "start", "end", "nodes", "runtime", "avg_power_per_node"),
        _plain("submit_s=submit start_s=start end_s=end nodes=nodes runtime_s=runtime"),
    ),
    PublicSet(
        "Microsoft Philly", ("timestamp", "duration", "num_gpus", "gpu_time", "cluster"),
        _plain("submit_s=timestamp gpus=num_gpus queue=cluster") | {"runtime_s": _of("duration", "s")},
    ),
    PublicSet(
        "PM100", ("num_cores_alloc", "num_gpus_alloc", "run_time", "time_limit"),
        _plain(
            "job_id=job_id user=user_id user_group=group_id queue=partition qos=qos state=job_state "
            "derived_exit_code=derived_ec procs=num_cores_alloc requested_procs=num_cores_req gpus=num_gpus_alloc "
            "nodes=num_nodes_alloc requested_nodes=num_nodes_req submit_s=submit_time eligible_s=eligible_time "
            "start_s=start_time end_s=end_time"
        )
        | {"requested_s": _of("time_limit", "min"), "runtime_s": _of("run_time", "s")},
    ),
    PublicSet(
        "F-DATA (Fugaku)", ("usr", "jnam", "adt", "sdt", "edt"),
        _plain(
            "job_id=jid user=usr job_name=jnam procs=cnumat requested_procs=cnumr nodes=nnuma requested_nodes=nnumr "
            "exit_code=ec submit_s=adt start_s=sdt end_s=edt"
        )
        | {"requested_s": _of("elpl", "s"), "runtime_s": _of("duration", "s"), "state": _of("exit state")},
    ),
    PublicSet(
        "MIT Supercloud", ("id_job", "id_user", "time_submit", "time_start", "time_end", "timelimit", "cpus_req"),
        _plain(
            "job_id=id_job user=id_user queue=partition requested_procs=cpus_req nodes=nodes_alloc gpus=gres_used "
            "state=state"
        )
        | {name: _of(f"time_{name.removesuffix('_s')}", "s") for name in ("submit_s", "eligible_s", "start_s", "end_s")}
        | {"requested_s": _of("timelimit", "min"), "suspended_s": _of("time_suspended", "s")},
    ),
    PublicSet(
        "Alibaba GPU 2020 (pai_task_table)", ("task_name", "inst_num", "plan_cpu", "plan_gpu", "gpu_type"),
        _plain("job_name=job_name application=task_name state=status queue=gpu_type nodes=inst_num")
        | {"start_s": _of("start_time", "s"), "end_s": _of("end_time", "s")}
        | {"procs": _of("plan_cpu", "%", times="inst_num"), "gpus": _of("plan_gpu", "%", times="inst_num")}
        | {"requested_mem_kib": _of("plan_mem", "GiB", "node")},
    ),
    PublicSet(
        "Alibaba 2018 (batch_task)", ("task_name", "instance_num", "task_type", "plan_cpu"),
        _plain("job_name=job_name application=task_type state=status nodes=instance_num")
        | {"start_s": _of("start_time", "s"), "end_s": _of("end_time", "s")}
        | {"procs": _of("plan_cpu", "%", times="instance_num")},
    ),
    PublicSet(
        "Alibaba GPU 2023 (openb_pod_list)", ("cpu_milli", "num_gpu", "creation_time", "scheduled_time"),
        _plain("job_id=name gpus=num_gpu qos=qos state=pod_phase")
        | {"submit_s": _of("creation_time", "s"), "start_s": _of("scheduled_time", "s")}
        | {"end_s": _of("deletion_time", "s"), "procs": _of("cpu_milli", "milli")}
        | {"requested_mem_kib": _of("memory_mib", "MiB", "job")},
    ),
)  # fmt: skip


def public_set(names: Collection[str]) -> PublicSet | None:
    """The set that these column names tell; None where they are of none."""
    return next((one for one in PUBLIC_SETS if set(one.told_by) <= set(names)), None)
