"""Runs JAX's coordination service in a separate process on the machine of process 0.

When the service ends, JAX aborts the processes that use it, with a C++ stack trace. Here the service outlives
process 0 until the other processes have noticed its end, so that each of them can exit with a message.

This is the only file that uses private names of JAX, because the service, the keys and values that processes
share, and the launchers that JAX detects have no public API. `PRIVATE` lists the names, and `TRIED` lists the
versions of JAX with which they work. A test checks the installed version. Runs of one process do not need
them.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from jax._src import clusters, distributed

TRIED = ("0.10.2",)
PRIVATE = (
    "distributed._jax.get_distributed_runtime_service",
    "distributed._jax.DistributedRuntimeClient.key_value_set",
    "distributed._jax.DistributedRuntimeClient.key_value_dir_get",
    "distributed._jax.DistributedRuntimeClient.blocking_key_value_get",
    "distributed.global_state.client",
    "distributed.global_state.service",
    "clusters.ClusterEnv._cluster_types",
    "clusters.ClusterEnv.opt_in_only_method",
    "clusters.ClusterEnv.is_env_present",
    "clusters.ClusterEnv.get_process_count",
    "clusters.K8sCluster",
)
LIBRARY: Any = vars(distributed).get("_jax")  # the module that contains JAX's service
LINGERS_S = {"end": 0.0, "leave": 5.0, "": 40.0}  # lifetime after its last message; "": process 0 was killed


class Service:
    """Replaces JAX's service, with the same interface.

    Args:
      address: host:port.
      processes: number of processes.
      options: further arguments of JAX's service.
    Raises: ValueError if the port cannot be used.
    """

    def __init__(self, address: str, processes: int, **options: Any):
        order = json.dumps([address, processes, options])
        # -P, because some modules in this folder have names of the standard library
        self.child = subprocess.Popen(
            [sys.executable, "-P", __file__, order],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self.child.stdout
        if self.child.stdout.readline() != "ready\n":
            raise ValueError(f"the port of --coordinator={address} cannot be used; choose another one")

    def end_after(self, word: str) -> None:
        """Lets the service end after the time of `word` in `LINGERS_S`."""
        assert self.child.stdin
        with contextlib.suppress(OSError, ValueError):
            self.child.stdin.write(f"{word}\n")
            self.child.stdin.close()

    def shutdown(self) -> None:
        """Ends the service, after all processes have left."""
        self.end_after("end")
        self.child.wait()


def table() -> Any:
    """Returns the client of the keys and values that processes share."""
    return distributed.global_state.client


def dismiss(word: str) -> None:
    """Lets the service, if this process started it, end after the time of `word` in `LINGERS_S`."""
    service = distributed.global_state.service
    if service:
        service.end_after(word)


def launched() -> int:
    """Returns the number of processes that a launcher has started; 1 if JAX detects no launcher.

    Kubernetes is not queried, because that needs a package and permissions that few pods have.

    Raises: OSError on a machine with TPUs without a metadata server.
    """
    kinds = vars(clusters.ClusterEnv)["_cluster_types"]
    asked = [kind for kind in kinds if not (kind.opt_in_only_method or kind.__name__ == "K8sCluster")]
    launcher = next((kind for kind in asked if kind.is_env_present()), None)
    return 1 if launcher is None else launcher.get_process_count()


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Makes JAX start this service instead of its own, inside the context."""
    own = LIBRARY.get_distributed_runtime_service
    LIBRARY.get_distributed_runtime_service = Service
    try:
        yield
    finally:
        LIBRARY.get_distributed_runtime_service = own


def main() -> None:
    """Runs the service until process 0 ends it."""
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(signum, signal.SIG_IGN)  # process 0 decides
    address, processes, options = json.loads(sys.argv[1])
    service = LIBRARY.get_distributed_runtime_service(address, processes, **options)
    print("ready", flush=True)
    time.sleep(LINGERS_S.get(sys.stdin.readline().strip(), 0.0))
    service.shutdown()


if __name__ == "__main__":
    main()
