"""Fills the tables, values and figures of README, the pages and the results."""
