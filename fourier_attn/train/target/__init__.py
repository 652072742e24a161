"""Compiles training steps for devices that need not exist."""
