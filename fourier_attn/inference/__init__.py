"""A trained run in use: predictions, streams of inputs, exports."""
