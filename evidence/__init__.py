"""Trains, reports and tabulates what this repository claims; not part of the wheel."""
