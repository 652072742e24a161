"""Uses trained runs: predictions, evaluation, files of inputs, text generation, explanations and exports."""
