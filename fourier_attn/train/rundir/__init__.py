"""Reads and writes the directory of a run: configuration, checkpoints, metrics, curves, compiled programs."""
