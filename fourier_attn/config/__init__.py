"""Holds all options of the project in one configuration; `python -m fourier_attn.config` prints them."""

from fourier_attn.config.build import (
    TASK_KEYS,
    check,
    check_parts,
    default,
    free_fields,
    from_dict,
    masked,
    read_engine,
    set_engine,
    with_architecture,
    with_mixer,
    with_recipe,
)
from fourier_attn.config.describe import arguments, describe
from fourier_attn.config.fit import (
    field_source,
    fit_grid,
    fit_length,
    fit_padded_lengths,
    fitted,
    fitted_without_data,
    mixer_name,
    tokens,
)
from fourier_attn.config.options import OPTIM, PARTS, RECIPES, RUN, TRAIN, Config, OptimConfig, TrainConfig
from fourier_attn.config.overrides import complete_overrides, set_optional, with_choices
from fourier_attn.config.places import device_files, with_absolute_paths
from fourier_attn.knobs import with_values

__all__ = [
    "OPTIM",
    "PARTS",
    "RECIPES",
    "RUN",
    "TASK_KEYS",
    "TRAIN",
    "Config",
    "OptimConfig",
    "TrainConfig",
    "arguments",
    "check",
    "check_parts",
    "complete_overrides",
    "default",
    "describe",
    "device_files",
    "field_source",
    "fit_grid",
    "fit_length",
    "fit_padded_lengths",
    "fitted",
    "fitted_without_data",
    "free_fields",
    "from_dict",
    "masked",
    "mixer_name",
    "read_engine",
    "set_engine",
    "set_optional",
    "tokens",
    "with_absolute_paths",
    "with_architecture",
    "with_choices",
    "with_mixer",
    "with_recipe",
    "with_values",
]
