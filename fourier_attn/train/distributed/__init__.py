"""Runs training on several processes and devices: connection, barriers, signals and sharding."""
