"""SLURM on this machine alone: python tests/slurm_node.py FOLDER starts munged, slurmctld and slurmd there.

It prints the environment that commands need, and goes on until it is told to stop; nothing is left then. The
daemons are those of Debian's slurmctld, slurmd, slurm-client and munge (all in slurm-wlm). No root is needed:
they run as whoever starts them, with a key and ports of their own, beside any SLURM that there is.
"""

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from waiting import HANG_S

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PlugStackConfig={folder}/plugstack.conf
ReturnToService=2
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """What is not installed."""
    places = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return [name for name in DAEMONS if not shutil.which(name, path=places)]


class Node:
    """A cluster of one node, in a folder that must not be there yet; `environment` is for its commands."""

    def __init__(self, folder: Path):
        self.folder, self.processes = folder, []
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        (folder / "plugstack.conf").touch()
        self.host = socket.gethostname().partition(".")[0]
        self.configuration = folder / "slurm.conf"
        self.configuration.write_text(
            CONFIGURATION.format(host=self.host, user=getpass.getuser(), folder=folder, ports=free_ports(2))
        )
        places = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        own = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        self.environment = own | {"SLURM_CONF": str(self.configuration), "PATH": places}

    def __enter__(self) -> "Node":
        try:
            files = [f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
            self.start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *files)
            self.wait(lambda: (self.folder / "munge.socket").exists(), "munged")
            self.start("slurmctld", "-D", "-f", str(self.configuration))
            self.start("slurmd", "-D", "-f", str(self.configuration), "-N", self.host)
            self.wait(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%T"), "the node")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self, *words: str) -> None:
        with (self.folder / f"{words[0]}.out").open("w") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, env=self.environment)
        self.processes.append(process)

    def stop(self) -> None:
        """Ends all jobs, then the daemons in the opposite order of their start."""
        if len(self.processes) == 3 and self.ask("squeue", "--noheader"):
            self.ask("scancel", f"--user={os.getuid()}")
            deadline = time.monotonic() + 30
            while self.ask("squeue", "--noheader") and time.monotonic() < deadline:
                time.sleep(0.5)
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def ask(self, *words: str) -> str:
        """What a command prints; nothing where it fails."""
        answer = subprocess.run(words, capture_output=True, text=True, check=False, env=self.environment)
        return answer.stdout.strip() if answer.returncode == 0 else ""

    def wait(self, ready, what: str) -> None:
        deadline = time.monotonic() + HANG_S
        while not ready():
            if time.monotonic() > deadline or any(p.poll() is not None for p in self.processes):
                logs = "".join(path.read_text() for path in sorted(self.folder.glob("*.out")))
                raise RuntimeError(f"{what} does not come up:\n{logs}")
            time.sleep(0.2)


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main() -> int:
    if absent := missing():
        print(f"error: {', '.join(absent)} not found; apt-get install slurm-wlm", file=sys.stderr)
        return 2
    with Node(Path(sys.argv[1]).resolve()) as node:
        print(f"export SLURM_CONF={node.configuration}", flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    sys.exit(main())
