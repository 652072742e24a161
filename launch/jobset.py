r"""Prints a Kubernetes JobSet for GKE's TPU or GPU node pools.

    python -m launch.jobset --name=fnet --image=IMAGE --volume=CLAIM:/data \
        --accelerator=tpu-v5-lite-podslice --topology=2x4 -- \
        --config=configs/fnet.py --workdir=/data/fnet | kubectl apply -f -

Each machine has one pod, and each pod has one process. Arguments after -- are for `fourier_attn.main`.

Source: kubernetes-sigs/jobset, api/jobset/v1alpha2/jobset_types.go (fields; names of pods); GKE's labels of
node pools (cloud.google.com/gke-tpu-accelerator, gke-tpu-topology, gke-accelerator).
"""

import math
import re
import sys
from pathlib import PurePosixPath
from typing import Any

import yaml
from absl import flags

from fourier_attn import command
from fourier_attn.train.distributed import processes
from launch import program

LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"  # RFC 1123
LONGEST = 63 - len("-workers-0-00000")  # letters of --name, which is part of the names of the pods
JOB, CONTAINER, PORT = "workers", "run", 8476
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
BAD_INPUT = 2  # the exit code that no restart can fix
SAVING = 120  # seconds between SIGTERM and SIGKILL
PATIENCE = 900  # seconds for all pods to start, including the time to pull images and create machines


def define_flags() -> None:
    program.define_flags()
    flags.adopt_module_key_flags(program)
    flags.DEFINE_string("name", None, "name of the JobSet")
    flags.DEFINE_string("image", None, "container image with this repository as its working directory")
    flags.DEFINE_string(
        "accelerator",
        None,
        "accelerator of the node pool, such as tpu-v5-lite-podslice or nvidia-h100-80gb",
    )
    flags.DEFINE_string("topology", None, "topology of the TPU slice, for example 2x4")
    flags.DEFINE_integer("chips_per_machine", 4, "number of TPU chips per machine")
    flags.DEFINE_integer("machines", 1, "number of machines with GPUs; for TPUs it follows from --topology")
    flags.DEFINE_integer("gpus_per_machine", 8, "number of GPUs per machine")
    flags.DEFINE_string("volume", None, "CLAIM:/PATH of a volume for --workdir that all pods can write to")
    flags.DEFINE_string("namespace", None, "namespace of the cluster; default: that of kubectl")
    flags.DEFINE_integer("restarts", 10, "how often all pods restart after one has failed or was evicted")


def main(*words: str) -> None:
    print(yaml.safe_dump(jobset(words), sort_keys=False, width=10**6), end="")


def jobset(words: tuple[str, ...]) -> dict[str, Any]:
    """Returns the JobSet that the flags describe.

    Raises: ValueError.
    """
    options = flags.FLAGS
    for flag in ("name", "image", "accelerator"):
        if not options[flag].value:
            raise ValueError(f"--{flag} is missing; --help describes it")
    if not re.fullmatch(LABEL, options.name) or len(options.name) > LONGEST:
        raise ValueError(
            f"--name={options.name} must be lower-case letters, digits and -, at most {LONGEST} of them"
        )
    if options.restarts < 0:
        raise ValueError(f"--restarts={options.restarts} must be at least 0")
    tpu = options.accelerator.startswith("tpu-")
    machines = slice_machines() if tpu else gpu_machines()
    metadata = {"name": options.name} | ({"namespace": options.namespace} if options.namespace else {})
    if tpu:  # all pods of a job on one slice
        metadata["annotations"] = {
            "alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"
        }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All"},
            "failurePolicy": {
                "maxRestarts": options.restarts,
                "rules": [
                    {
                        "name": "badInput",
                        "action": "FailJobSet",
                        "onJobFailureReasons": ["PodFailurePolicy"],
                    }
                ],
            },
            "replicatedJobs": [{"name": JOB, "replicas": 1, "template": job(words, machines, tpu)}],
        },
    }


def slice_machines() -> int:
    """Returns the number of machines of a TPU slice.

    Raises: ValueError.
    """
    options = flags.FLAGS
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){1,2}", options.topology or ""):
        raise ValueError(f"--topology={options.topology} is not a TPU topology; give one like 2x4 or 4x4x4")
    chips, each = math.prod(map(int, options.topology.split("x"))), options.chips_per_machine
    if each < 1 or (chips > each and chips % each):
        raise ValueError(f"--chips_per_machine={each} must divide the {chips} chips of {options.topology}")
    return max(chips // each, 1)


def gpu_machines() -> int:
    """Returns the requested number of machines with GPUs.

    Raises: ValueError.
    """
    options = flags.FLAGS
    if options.topology:
        raise ValueError(f"--topology={options.topology} is for TPUs; {options.accelerator} has --machines")
    for flag in ("machines", "gpus_per_machine"):
        count: Any = options[flag].value
        if count < 1:
            raise ValueError(f"--{flag}={count} must be at least 1")
    return options.machines


def job(words: tuple[str, ...], machines: int, tpu: bool) -> dict[str, Any]:
    """Returns the template of the Job, with one pod per machine. Exit code 2 ends the Job permanently.

    Args:
      words: arguments of the command.
      machines: number of machines.
      tpu: whether they have TPUs.
    """
    bad_input = {"containerName": CONTAINER, "operator": "In", "values": [BAD_INPUT]}
    return {
        "spec": {
            "parallelism": machines,
            "completions": machines,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": bad_input}]},
            "template": {"spec": pod(words, machines, tpu)},
        }
    }


def pod(words: tuple[str, ...], machines: int, tpu: bool) -> dict[str, Any]:
    """Returns the pod of one machine.

    Args:
      words: arguments of the command.
      machines: number of machines.
      tpu: whether they have TPUs.
    Raises: ValueError.
    """
    options, claim, path = flags.FLAGS, *volume(words)
    chips = min(options.chips_per_machine, math.prod(map(int, options.topology.split("x")))) if tpu else 0
    amount = {"google.com/tpu": chips} if tpu else {"nvidia.com/gpu": options.gpus_per_machine}
    selector = {
        "cloud.google.com/gke-tpu-accelerator": options.accelerator,
        "cloud.google.com/gke-tpu-topology": options.topology,
    }
    container = {
        "name": CONTAINER,
        "image": options.image,
        "command": ["python", "-m", options.module, *words],
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}, *meeting(machines, tpu)],
        "ports": [{"containerPort": PORT}],
        "resources": {"limits": amount},
        "volumeMounts": [{"name": "runs", "mountPath": path}],
    }
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": SAVING,
        "nodeSelector": selector if tpu else {"cloud.google.com/gke-accelerator": options.accelerator},
        "containers": [container],
        "volumes": [{"name": "runs", "persistentVolumeClaim": {"claimName": claim}}],
    }


def meeting(machines: int, tpu: bool) -> list[dict[str, Any]]:
    """Returns the environment variables through which the processes find each other.

    One process needs none. On a TPU slice, JAX detects the other processes.
    """
    if machines == 1:
        return []
    name, patience = flags.FLAGS.name, {"name": processes.PATIENCE, "value": str(PATIENCE)}
    if tpu:
        return [patience]
    return [
        patience,
        {"name": "JAX_COORDINATOR_ADDRESS", "value": f"{name}-{JOB}-0-0.{name}:{PORT}"},
        {"name": "JAX_NUM_PROCESSES", "value": str(machines)},
        {"name": "JAX_PROCESS_ID", "valueFrom": {"fieldRef": {"fieldPath": INDEX}}},
    ]


def volume(words: tuple[str, ...]) -> tuple[str, str]:
    """Returns the claim of the volume and its mount path.

    The run directory must be in the volume, because a resumed run needs it after its pods have ended.

    Raises: ValueError.
    """
    claim, _, path = (flags.FLAGS.volume or "").partition(":")
    if not re.fullmatch(rf"{LABEL}(\.{LABEL})*", claim) or not path.startswith("/"):
        raise ValueError(f"--volume={flags.FLAGS.volume} is not a volume; give CLAIM:/PATH like runs:/data")
    workdir = program.option(words, "workdir")
    if not workdir or ".." in workdir or PurePosixPath(path) not in PurePosixPath(workdir).parents:
        raise ValueError(
            f"--workdir={workdir} must be in the volume; give, for example, --workdir={path}/run after --"
        )
    return claim, path


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main, arguments=True))
