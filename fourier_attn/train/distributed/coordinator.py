"""The service through which processes find each other, in a separate process on the machine of process 0.

Where the service ends, JAX ends the processes that use it, with a C++ stack. Here it outlives process 0 until
the others have noticed, each of which then ends with a message.

This is the only file that uses private names of JAX. There is no public way to the service, to the keys and
values that processes share, or to the launchers that JAX recognises. `PRIVATE` lists the names, and `TRIED`
the versions of JAX with which they work; a test checks the installed one. Runs of one process need none of
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
LIBRARY: Any = vars(distributed).get("_jax")  # from which JAX takes its service
LINGERS_S = {"end": 0.0, "leave": 5.0, "": 40.0}  # by its last message; "": process 0 was killed


class Service:
    """Has the interface of JAX's own.

    Args:
      address: host:port.
      processes, options: as JAX gives them to its own.
    Raises: ValueError where the port cannot be used.
    """

    def __init__(self, address: str, processes: int, **options: Any):
        order = json.dumps([address, processes, options])
        # -P: some modules in this folder have names of the standard library's
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

    def tell(self, word: str) -> None:
        """Lets it end, after as many seconds as `LINGERS_S` says."""
        assert self.child.stdin
        with contextlib.suppress(OSError, ValueError):
            self.child.stdin.write(f"{word}\n")
            self.child.stdin.close()

    def shutdown(self) -> None:
        """Ends it, when all processes have left."""
        self.tell("end")
        self.child.wait()


def table() -> Any:
    """Returns the client of the keys and values that the processes share."""
    return distributed.global_state.client


def dismiss(word: str) -> None:
    """Tells the service, if it is this process's, how long it is still needed."""
    service = distributed.global_state.service
    if service:
        service.tell(word)


def launched() -> int:
    """Returns how many processes the launcher has started, 1 where JAX recognises none.

    Kubernetes is not asked: that needs a package and rights that few pods have.
    Raises: OSError on a machine with TPUs where nothing answers that knows of slices.
    """
    kinds = vars(clusters.ClusterEnv)["_cluster_types"]
    asked = [kind for kind in kinds if not (kind.opt_in_only_method or kind.__name__ == "K8sCluster")]
    launcher = next((kind for kind in asked if kind.is_env_present()), None)
    return 1 if launcher is None else launcher.get_process_count()


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Lets JAX start this service instead of its own, inside `with`."""
    own = LIBRARY.get_distributed_runtime_service
    LIBRARY.get_distributed_runtime_service = Service
    try:
        yield
    finally:
        LIBRARY.get_distributed_runtime_service = own


def main() -> None:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(signum, signal.SIG_IGN)  # process 0 decides
    address, processes, options = json.loads(sys.argv[1])
    service = LIBRARY.get_distributed_runtime_service(address, processes, **options)
    print("ready", flush=True)
    time.sleep(LINGERS_S.get(sys.stdin.readline().strip(), 0.0))
    service.shutdown()


if __name__ == "__main__":
    main()
