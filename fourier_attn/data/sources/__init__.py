"""Reads or generates published and synthetic data sets; each file has one source."""
