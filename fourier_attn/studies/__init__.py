"""Questions asked of trained networks and of layers, each one command."""
