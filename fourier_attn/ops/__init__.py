"""Pure functions of arrays: no parameters, no Flax, no configuration."""
