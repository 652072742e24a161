"""Thin linen modules: each owns parameters and calls one op."""
