"""Finds the files and folders that a configuration names, and makes their paths absolute."""

from ml_collections import ConfigDict

from fourier_attn import hub, model, paths
from fourier_attn.config.build import set_engine
from fourier_attn.config.options import Config
from fourier_attn.data.corpus import names_files
from fourier_attn.data.tables.user_tables import SPLITS
from fourier_attn.data.tasks import FILES
from fourier_attn.knobs import copied
from fourier_attn.optics import presets


def device_files(config: Config) -> dict[str, str]:
    """Returns the files of measured devices that the mixers' engines use, by the names of their options.

    Args:
      config: the complete configuration.
    """
    found = {}
    for mixer, fields in model.mixers(config.model).items():
        place = "mixer" if mixer == config.model.mixer.name else f"others.{mixer}"
        for name in model.engine_fields(mixer):
            file = fields[name].device.file if isinstance(fields[name], ConfigDict) else None
            if file is not None:
                found[f"model.{place}.{name}.device.file"] = file
    return found


def with_absolute_paths(config: Config) -> Config:
    """Returns a copy in which the path of every file and folder is absolute.

    Args:
      config: the complete configuration.
    Raises: ValueError for a path that cannot be used.
    """
    config = copied(config)
    part = config.data
    if not hub.is_hub_name(config.init_from):
        config.init_from = paths.absolute(config.init_from)
    part.dir = paths.absolute(part.dir)
    if part.task in FILES:
        part.update({split: paths.absolute(part[split]) for split in SPLITS})
    if part.tokenizer.lower().endswith((".json", ".model")):
        part.tokenizer = paths.absolute(part.tokenizer)
    for knob in ("corpora", "exclude"):
        part[knob] = tuple(
            paths.absolute(entry) if isinstance(entry, str) and names_files(entry) else entry
            for entry in part[knob]  # `data.check` checks their types later
        )
    for mixer, fields in model.mixers(config.model).items():
        for name in model.engine_fields(mixer):
            if str(fields[name]).endswith(presets.DEVICE_FILES):
                with fields.unlocked():
                    set_engine(fields, mixer, presets.preset(fields[name]), name)
            if isinstance(fields[name], ConfigDict) and fields[name].device.file is not None:
                fields[name].device.file = paths.absolute(fields[name].device.file)
    return config
