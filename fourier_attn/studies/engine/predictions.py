"""Compares the error of each call site on an engine with the error budget of its passes.

    python -m fourier_attn.studies.engine.predictions [--engine=PRESET] [--programs=NAME,..]
      [--workdir=RUN,..] [--out=NAME]

--programs takes the programs of `fourier_attn.studies.engine.programs`, and --workdir trained runs, whose
exact networks read the first batch of their test split. The prediction knows the engine's parameters and the
numbers that modulators write, and does not use the emulation of a pass. See
`fourier_attn.optics.predicted_errors`. --out=NAME writes NAME.json.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from absl import flags

from fourier_attn import command, model, paths, provenance
from fourier_attn.choices import check_choices
from fourier_attn.columns import aligned
from fourier_attn.inference.evaluation import load_splits
from fourier_attn.layers.fields import on_engines
from fourier_attn.optics import Band, Engine, predicted_errors, report, site_errors
from fourier_attn.optics.presets import preset
from fourier_attn.studies import runs
from fourier_attn.studies.engine.foreign import Program
from fourier_attn.studies.engine.programs import DATA, PROGRAMS
from fourier_attn.train.init_from import restore, restore_state
from fourier_attn.train.step import model_inputs

KEY = 1  # of the noise
TRANSFORMS = {"circular": {"method": "literal"}}  # instead of products with matrices


def trained(directory: Path) -> Program:
    """Returns the exact network of a run with its weights, and the first batch of its test split.

    Args:
      directory: of the run.
    """
    config, _, weights = restore(directory)
    fields = config.model.to_dict()
    mixer = fields["mixer"]
    for field, instead in on_engines(model.find_mixer(mixer["name"])).items():
        mixer[field] = instead.get(mixer[field], mixer[field])
    mixer |= dict.fromkeys(model.engine_fields(mixer["name"])) | TRANSFORMS.get(mixer["name"], {})
    network, batch = model.build(fields), load_splits(config, directory).test[0]
    x = {"inputs": batch["inputs"], **model_inputs(batch)}
    return Program(lambda weights, x: network.apply({"params": weights}, **x), weights, x)


def rows(program: Program, engine: Engine) -> list[dict[str, Any]]:
    """Returns the measured and the predicted error of each call site of a program.

    Args:
      program: the program.
      engine: the engine.
    """
    args: tuple[Any, ...] = (program.f, (program.weights, program.x), engine)
    measured = site_errors(*args, key=jax.random.key(KEY), argnums=DATA)
    bands = predicted_errors(*args, argnums=DATA)
    optical = {row.site.label: row for row in report(*args, argnums=DATA).optical}
    return [
        {
            "site": label,
            "stages": optical[label].stages // (optical[label].site.repeats or 1),
            "arrays": optical[label].site.arrays,
            "measured_db": ratio,
            "predicted_db": list(bands[label]),
            "inside": bands[label].holds(ratio),
        }
        for label, ratio in measured.items()
    ]


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Formats one line for each call site."""
    lines = [["program", "call site", "stages", "measured dB", "predicted dB", "inside"]]
    for row in found:
        low, high = Band(*row["predicted_db"])
        inside = "yes" if row["inside"] else "no"
        words = [row["program"], row["site"], str(row["stages"]), f"{row['measured_db']:.1f}"]
        lines.append([*words, f"{low:.1f} to {high:.1f}", inside])
    return "\n".join(aligned(lines, right=True))


def define_flags() -> None:
    runs.define_flags(several=True)
    flags.DEFINE_string("engine", "chip_11x11", "preset, or file of a measured device")
    flags.DEFINE_list("programs", list(PROGRAMS), "names of the programs")
    flags.DEFINE_string("out", None, "path of the results without a suffix; .json is added")


def main() -> None:
    options = flags.FLAGS
    engine = preset(options.engine)
    check_choices("--programs", options.programs, PROGRAMS)
    stem = paths.stem(options.out, "--out") if options.out else None
    programs: dict[str, tuple[Callable[[], Program], dict[str, Any]]] = {}
    for directory in runs.directories() if options.workdir else ():
        config, _, at, _ = restore_state(directory)
        name = f"{config.model.mixer.name}, trained"
        programs[name] = (lambda directory=directory: trained(directory), {"steps": int(at.step)})
    programs |= {name: (PROGRAMS[name], {}) for name in options.programs}
    found = []
    for name, (made, facts) in programs.items():
        own = rows(made(), engine)
        found += [{"program": name, **facts, **row} for row in own]
        print(f"{name}: {sum(row['inside'] for row in own)} of {len(own)} inside", flush=True)
    print(f"\n{table(found)}")
    if stem:
        document = provenance.record() | {"setting": options.engine, "rows": found}
        provenance.write(stem.with_name(f"{stem.name}.json"), document)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
