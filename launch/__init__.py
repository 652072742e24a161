"""Starts commands on this machine, in several processes, on SLURM or on Kubernetes.

The package decides where a command runs. Configuration files decide which experiment it is.
"""
