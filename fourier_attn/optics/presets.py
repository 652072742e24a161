"""Engines with a name, and where each of their parameters comes from.

"published" is from a source, "derived" follows from published facts, "assumed" is an order of magnitude.
Beyond the aperture, the boundary condition and the way of detection, nothing that we know of is published on
such an engine: no bit depth, no noise, no power, no error.

`python -m fourier_attn.optics.presets` prints the tables.
"""

import contextlib
import math
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fourier_attn import paths
from fourier_attn.choices import check_choice
from fourier_attn.columns import aligned
from fourier_attn.optics.device_file import read_device
from fourier_attn.optics.engine_spec import Engine, every_parameter
from fourier_attn.optics.from_dict import built, grouped
from fourier_attn.optics.parts import Device, Laser, Modulator, Receiver


class Preset(NamedTuple):
    """Holds an engine, the provenance of its parameters, and its limit by light and electronics.

    No preset fills its detectors with the brightest light of its arrangement and the reference. Behind one
    lens, an aperture whose pixels are all on puts N1 N2 times unit intensity into its zero order.

    Args:
      published, derived: names of parameters; all others are assumed.
      light_db: signal over the noise of light and electronics in one detection of unit intensity.
      brightest: largest intensity at a detector, in unit intensities; None is N1 N2. A 4f correlator with an
        open filter images pixels on pixels, so that it is 1. Peaks of a filter that focuses may saturate.
      what: the arrangement in words.
    """

    engine: Engine
    published: tuple[str, ...]
    derived: tuple[str, ...] = ()
    light_db: float = math.inf
    brightest: float | None = None
    what: str = "a lens without errors"

    def provenance(self) -> dict[str, str]:
        """Returns "published", "derived" or "assumed" for each parameter that is on, published ones first."""
        given = [name for _, name, _, value in every_parameter(self.engine) if value is not None]
        words = dict.fromkeys(self.published, "published") | dict.fromkeys(self.derived, "derived")
        return {name: words.get(name, "assumed") for name in dict.fromkeys([*self.published, *given])}

    def table(self) -> str:
        """Formats one line for each parameter that is not off: name, value, unit, provenance."""
        of = {name: (str(value), what.unit) for _, name, what, value in every_parameter(self.engine)}
        rows = [(name, *of[name], provenance) for name, provenance in self.provenance().items()]
        return "\n".join(aligned(rows))


# Half a milliwatt a pixel, 16 uW of it at the detectors: 99,000 electrons in a nanosecond. The amplifiers
# limit it: their 10 pA/sqrt(Hz) are 2,000 electrons, where shot noise of a detector is some 500.
CHIP = Engine(
    shape=(11, 11),
    modulator=Modulator(
        kind="electro_optic",
        dac_bits_amp=8,
        dac_bits_phase=8,
        extinction_db=30.0,
        compensated=True,
        phase_noise_rms=0.01,
        drive_noise_rms=0.003,
    ),
    device=Device(static_phase_rms=0.02, static_gain_rms=0.01, crosstalk_db=-40.0, insertion_loss_db=15.0),
    laser=Laser(power_w=5e-4, wavelength_m=1.55e-6, rin_db_hz=-145.0, power_drift_rms=0.002),
    receiver=Receiver(
        detection="hybrid90", dark_current=1e-10, tia_noise=1e-11, cmrr_db=30.0, saturation_w=1e-3, adc_bits=8
    ),
    frame_rate_hz=1e9,
    dc_block=True,
)

# A camera after heaters: 50 pW a pixel, which in a millisecond gives 9,900 electrons and 99,000 of the
# reference, a tenth of a pixel's well.
DEMONSTRATOR = CHIP.replace(
    shape=(5, 5),
    kind="thermo_optic",
    extinction_db=25.0,
    static_phase_rms=0.05,
    crosstalk_db=-30.0,
    receiver=Receiver(detection="psi4", dark_current=1e-14, read_noise_e=200.0, well_depth_e=1e6, adc_bits=8),
    power_w=5e-11,
    frame_rate_hz=1e3,
)

PRESETS: Mapping[str, Preset] = {
    "ideal": Preset(Engine(), ("shape",)),
    "demonstrator_5x5": Preset(
        DEMONSTRATOR,
        ("shape", "encode", "lens"),
        light_db=44.2,
        what="thermal modulators and a camera; the field is recovered from intensities",
    ),
    "chip_11x11": Preset(
        CHIP,
        ("shape", "encode", "lens", "detection"),
        light_db=37.7,
        what="fast modulators and balanced receivers that detect real and imaginary part at once",
    ),
    "chip_11x11_4bit": Preset(
        CHIP.replace(dac_bits_amp=4, dac_bits_phase=4, adc_bits=4),
        ("shape", "encode", "lens", "detection"),
        light_db=37.7,
        what="like `chip_11x11`, but with 4-bit converters",
    ),
    "shot_limited": Preset(
        Engine(laser=Laser(wavelength_m=1.55e-6), receiver=Receiver(detection="hybrid90")).with_photons(1e3),
        (),
        ("detection", "power_w"),
        light_db=29.6,
        what="shot noise alone",
    ),
    # Two nanowatts a mirror. An open filter images all mirrors onto the camera, each with half a well. Behind
    # the first lens, the same light of a million mirrors would meet in one pixel.
    "amplitude_4f": Preset(
        Engine(
            shape=(1000, 1000),
            modulator=Modulator(encode="amplitude", kind="micromirror", dac_bits_amp=1, extinction_db=30.0),
            laser=Laser(power_w=2e-9, wavelength_m=633e-9),
            receiver=Receiver(
                detection="intensity", responsivity=0.4, read_noise_e=2.0, well_depth_e=1e6, adc_bits=8
            ),
            frame_rate_hz=1e4,
        ),
        ("shape", "encode", "kind", "detection", "frame_rate_hz"),
        ("dac_bits_amp",),
        light_db=57.0,
        brightest=1.0,
        what="a 4f correlator: binary mirrors in the input and in the filter plane, and a camera",
    ),
    # The joint spectrum has its largest value at zero frequency, where up to 86 pixels meet in one of 256:
    # 86^2 / 256 unit intensities of 158 uW. The correlation is far weaker, so that detectors integrate longer
    # than those of `chip_11x11`.
    "joint_transform": Preset(
        Engine(
            shape=(1, 256),
            lens="1d",
            modulator=Modulator(
                encode="amplitude",
                kind="electro_optic",
                dac_bits_amp=8,
                extinction_db=30.0,
                compensated=True,
                drive_noise_rms=0.003,
            ),
            device=Device(
                static_phase_rms=0.02, static_gain_rms=0.01, crosstalk_db=-40.0, insertion_loss_db=5.0
            ),
            laser=Laser(power_w=5e-4, wavelength_m=1.55e-6, rin_db_hz=-145.0),
            receiver=Receiver(
                detection="intensity", dark_current=1e-10, tia_noise=1e-11, saturation_w=1e-2, adc_bits=8
            ),
            frame_rate_hz=1e8,
        ),
        ("lens",),
        light_db=63.0,
        brightest=86**2 / 256,
        what="a joint transform correlator on a chip, with cylindrical lenses and photodiodes in both planes",
    ),
    "hostile": Preset(
        CHIP.replace(
            dac_bits_amp=3,
            dac_bits_phase=3,
            extinction_db=15.0,
            phase_noise_rms=0.1,
            drive_noise_rms=0.05,
            static_phase_rms=0.2,
            static_gain_rms=0.1,
            crosstalk_db=-20.0,
            shift_pitch=(0.1, 0.1),
            defocus_rad=0.3,
            fill_factor=0.8,
            rin_db_hz=-125.0,
            power_drift_rms=0.02,
            power_w=5e-6,
            tia_noise=1e-12,  # the chip's 1e-11 would bury so little light
            adc_bits=3,
        ),
        (),
        light_db=15.7,
        what="all effects strong, for studies of robustness",
    ),
}


DEVICE_FILES = (".npz", ".npy")


def preset(name: str) -> Engine:
    """Returns the engine of that name, or of a measured device: FILE.npz, or PRESET:FILE.npz.

    What a file does not say is ideal, or the preset's. A square aperture need not be named; another one is
    the file's entry `shape`. `Engine.from_file` says what a file holds.

    Args:
      name: key of `PRESETS`, a file, or both with a colon between them.
    Raises: ValueError for a name that is not in `PRESETS`, and for a file that cannot be used.
    """
    base, _, file = name.rpartition(":")
    if file.endswith(DEVICE_FILES) and base in ("", *PRESETS):
        return _measured(paths.given(file), base)
    measured = ", or the file of a measured device, like device.npz or chip_11x11:device.npz"
    check_choice("preset", name, PRESETS, measured)
    return PRESETS[name].engine


def _measured(file: Path, base: str) -> Engine:
    """Returns the engine of a measured device; what the file does not say is as in a preset, or ideal."""
    transfer, _, given = read_device(file)
    side = math.isqrt(len(transfer)) if transfer.ndim else 0
    given = {"shape": (side, side)} | given
    like = PRESETS[base].engine if base else Engine()
    return Engine.from_file(file, like=like.replace(**given))


def build(config: Any) -> Engine | None:
    """Turns a configuration's engine into one: a preset's name, a mapping of parameters, or None.

    Raises: ValueError for a name or a parameter that is unknown, or a value that cannot be.
    """
    if config is None or isinstance(config, Engine):
        return config
    if isinstance(config, str):
        return preset(config)
    return built(_plain(grouped(dict(config))))


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values as an engine has them: JSON has lists for tuples, a command line quotes numbers."""
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = _plain(value)
        elif isinstance(value, list):
            value = tuple(value)
        elif name in ("dac_range", "adc_range"):  # words or numbers
            with contextlib.suppress(TypeError, ValueError):
                value = float(value)
        plain[name] = value
    return plain


def scaled(engine: Engine, bits: int, noise: float, device: int) -> Engine:
    """Returns the engine with other converters, noise times a factor, and another device.

    Amplitudes of noise are multiplied, the light is divided by the square, so that shot noise grows alike,
    and what a detector takes with it; electrical noise, which counts against the light, is divided once.
    Misalignment and extinction stay. The laws are with the parameters: `noise_power` and `noise_db`.

    Args:
      engine: the engine to start from.
      bits: of all converters.
      noise: factor on its noise; 0 is without noise.
      device: seed of the device.
    Raises: ValueError for a negative factor, and as `check_variants`.
    """
    if noise < 0:
        raise ValueError(f"noise={noise} must be at least 0")
    check_variants(engine, device + 1, [noise])
    changes: dict[str, Any] = {
        "dac_bits_amp": bits,
        "dac_bits_phase": bits,
        "adc_bits": None if engine.detector.detectors == 0 else bits,
        "seed": device,
    }
    for _, name, parameter, value in every_parameter(engine):
        if not parameter.noise:
            continue
        if value is None or noise == 0:
            changes[name] = None
        elif parameter.noise_power is not None:
            changes[name] = value * noise**parameter.noise_power
        else:
            grown = value + parameter.noise_db * 20 * math.log10(noise)
            changes[name] = min(max(grown, parameter.least), parameter.most)
    return engine.replace(**changes)


def check_variants(engine: Engine, devices: int, noises: Sequence[float] = (1.0,)) -> None:
    """Checks that an engine can have this many devices, and these factors on its noise and static errors.

    Args:
      engine: the engine.
      devices: how many devices are drawn.
      noises: factors on the noise; default (1.0,).
    Raises: ValueError for a measured device, which is one and has the errors that it has.
    """
    if engine.device.transfer is not None and (devices > 1 or any(noise != 1 for noise in noises)):
        factors = ",".join(f"{noise:g}" for noise in noises)
        raise ValueError(
            f"devices={devices}, noise={factors}: no seed and no factor changes the errors of a measured "
            "device; use devices=1 and noise=1"
        )


def main() -> None:
    """Prints every preset: what it is, its light, and where each parameter comes from."""
    for name, entry in PRESETS.items():
        head = f"{name}: {entry.what}\nlight and electronics: {entry.light_db:g} dB of unit intensity"
        print(f"{head}\n{entry.table()}\n", file=sys.stdout)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly in `| head`
    main()
