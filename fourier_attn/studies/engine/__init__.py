"""Questions about optical engines in the place of a run's transforms, each one command."""
