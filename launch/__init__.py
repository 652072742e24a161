"""On which machines a command runs: this one, several processes, SLURM, a cluster. Never which experiment."""
