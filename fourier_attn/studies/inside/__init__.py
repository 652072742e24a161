"""Looks inside trained runs and layers: attention maps, filters, matrices."""
