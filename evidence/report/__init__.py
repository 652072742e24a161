"""Reports on the suite: comparisons written down beforehand, tables and figures."""
