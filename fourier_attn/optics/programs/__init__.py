"""Any JAX function on an engine: its call sites, the rules that choose among them, and their transforms."""
