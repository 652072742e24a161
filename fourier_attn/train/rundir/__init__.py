"""The directory of a run: its configuration, checkpoints, metrics, curves and compiled programs."""
