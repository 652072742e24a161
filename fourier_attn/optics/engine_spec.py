"""The parameters of a Fourier-optical engine, and the part of it that each belongs to."""

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, no_type_check

import numpy as np

from fourier_attn import paths
from fourier_attn.optics import conventions
from fourier_attn.optics.checks import check, is_number
from fourier_attn.optics.constants import ELECTRON_C, photon_j
from fourier_attn.optics.device_file import complex_array, read_device
from fourier_attn.optics.engine_rules import check_together
from fourier_attn.optics.parameter import (
    TINY,
    ByContent,
    Parameter,
    choice,
    measured,
    parameter,
    parameters,
    register,
    whole,
)
from fourier_attn.optics.parts import GROUPS, Channels, Detection, Device, Laser, Modulator, Receiver

SCOPE = "emulated_optics"  # name scope of what an engine emulates, which `fourier_attn.optics.through` leaves


@no_type_check  # transformations put other things than numbers into the leaves
@dataclasses.dataclass(frozen=True, eq=False)
class Engine(ByContent):
    """Describes a Fourier-optical engine; parameters that are None are ideal or off. `Engine()` is exact.

    Bits and modes are static; strengths (all floats) and the device's seed are leaves of a pytree, so that
    one compilation serves a sweep over them. Powers are relative to that of a pixel written with 1 ("unit
    intensity"), whose photo-electrons in a pass follow from the laser's watts:

        n = responsivity power_w 10^(-insertion_loss_db / 10) / (frame_rate_hz q)

    n counts the light of all diffraction orders. Where pixels are smaller than their pitch, detectors see the
    zero order only, `zero_order` of the amplitude.

    Args:
      modulator, device, laser, receiver, channels: the parts; the other fields are described by `python -m
        fourier_attn.config`.
    Raises: ValueError for a parameter that is out of range or unknown, or that its neighbours do not allow.
    """

    shape: tuple[int, int] = parameter(
        (11, 11), "(rows, columns) of the aperture", kind="shape", unit="pixel", static=True
    )
    lens: str = choice(
        "2d",
        ("2d", "1d"),
        '"2d" is a spherical lens; "1d" is a cylindrical lens, which transforms each row (the last axis)',
    )
    centered: bool = parameter(
        False,
        "places the optical axis in the middle of the array, fftshift(F(ifftshift(x))), as in free space",
        kind="flag",
        static=True,
    )
    modulator: Modulator = dataclasses.field(default_factory=Modulator)
    device: Device = dataclasses.field(default_factory=Device)
    laser: Laser = dataclasses.field(default_factory=Laser)
    receiver: Receiver = dataclasses.field(default_factory=Receiver)
    channels: Channels = dataclasses.field(default_factory=Channels)
    averages: int = whole(
        1,
        "number of passes that are averaged",
        most=1_000_000,
        unit="pass",
    )
    # 64 are more digits than a float32 has bits
    slices: int = whole(
        1,
        "number of digits of an array, with one pass for each. Each "
        "slice writes what the modulators' levels left over, at full scale. This adds up "
        "the bits of the modulators, but not those of the detectors",
        most=64,
        unit="pass",
    )
    max_remainder: int | None = whole(
        None,
        "largest remaining transform of an axis that is computed digitally; a larger one "
        "is computed optically with a chirp. None: the side of the aperture, and at least"
        " 3",
        most=10**9,
    )
    frame_rate_hz: float = parameter(1e9, "passes per second", unit="Hz", least=TINY)
    dc_block: bool = parameter(
        False,
        "removes the mean before the pass and adds it digitally afterwards; not available"
        " where a factor multiplies",
        kind="flag",
        static=True,
    )
    backward: str = choice(
        "model",
        ("model", "ideal", "optical", "surrogate"),
        'derivative: "model" goes through the encoding, the static device and the clips, '
        'straight through the quantisers, with scales as constants; "ideal" is that of '
        'the exact transform; "optical" sends the cotangent through the noisy engine (the'
        ' transform is its own transpose); "surrogate" runs `hardware` forward and '
        '"model" backward',
    )
    hardware: Callable[[Any], Any] | None = parameter(
        None,
        'function from a NumPy array (..., rows, columns) to its transform, for "surrogate"',
        kind="function",
        static=True,
    )
    input_factors: Any = measured(
        "digital factor of each pixel before it is written (pre-distortion), found by calibration",
        "factors",
    )
    output_factors: Any = measured(
        "digital factor of each pixel after it is read (correction), found by calibration",
        "factors",
    )
    monitor: Callable[..., None] | None = parameter(
        None,
        "function that receives counts of the values that enter the converters, see "
        "`fourier_attn.optics.ranges`",
        kind="function",
        static=True,
    )

    def __post_init__(self) -> None:
        check(self)
        for name, group in GROUPS.items():
            if isinstance(getattr(self, name), Mapping):
                raise ValueError(f"{name}={getattr(self, name)!r} must be a {group.__name__}, not a mapping")
        check_together(self)

    @classmethod
    def from_measured(
        cls,
        transfer_matrix: Any,
        drive_table: Any = None,
        *,
        like: "Engine | None" = None,
        **parameters: Any,
    ) -> "Engine":
        """Makes an engine from a measured transfer matrix and, optionally, a measured drive table.

            y = sqrt(eta) E T,   E the row of pixels (row by row) that is written, y the one that is detected

        Args:
          transfer_matrix: T, complex (pixels, pixels), lens and all.
          drive_table: complex transmissions at equally spaced drives from 0 to full, amplitudes rising; or
            None, with which the modulators stay as they are.
          like: what is not measured: aperture, levels, noise, light, receiver, calibrations; None is
            `Engine()`, with a square aperture for a matrix of that many pixels.
          parameters: further ones, each by its own name.
        Raises: ValueError for a matrix that is not square, not finite, not of the aperture or not passive, or
          a table that is not monotone.
        """
        transfer = complex_array("transfer", transfer_matrix)
        return cls._with_transfer(transfer, drive_table, like, parameters)

    @classmethod
    def with_transfer(
        cls,
        transfer_matrix: Any,
        drive_table: Any = None,
        *,
        like: "Engine | None" = None,
        **parameters: Any,
    ) -> "Engine":
        """Makes an engine like `from_measured` without its check of passivity, which noise may break.

        Args:
          transfer_matrix, drive_table, like, parameters: as in `from_measured`.
        """
        transfer = complex_array("transfer", transfer_matrix)
        conventions.trust(transfer)
        return cls._with_transfer(transfer, drive_table, like, parameters)

    @classmethod
    def _with_transfer(
        cls, transfer: np.ndarray, drive_table: Any, like: "Engine | None", parameters: Mapping[str, Any]
    ) -> "Engine":
        """Makes the engine of `from_measured` from a complex matrix."""
        side = math.isqrt(len(np.atleast_1d(transfer)))
        squared = transfer.shape == (side**2, side**2) and "shape" not in parameters
        square = cls(shape=(side, side)) if squared and side else cls()
        like = (like or square).with_orders_as_loss()
        kept = ("insertion_loss_db", "recalibrate_s", "calibration_probes")
        static = {name: parameters.get(name, getattr(like.device, name)) for name in kept}
        device = Device(**static, transfer=transfer)
        modulator = like.modulator
        if drive_table is not None:
            table = complex_array("drive_table", drive_table)
            known = {"extinction_db": None, "compensated": False, "v_pi": None, "drive_v": None}
            modulator = dataclasses.replace(modulator, drive_table=table, **known)
        return like.replace(**{"device": device, "modulator": modulator, **parameters})

    @classmethod
    def from_file(cls, path: str | Path, *, like: "Engine | None" = None, **parameters: Any) -> "Engine":
        """Makes an engine like `from_measured` from a file.

        Without `like`, the file's other entries are parameters by their own names. How well the matrix fits
        the exact transform is printed once, with the convention that it seems to have.

        Args:
          path: an .npz file with `transfer` and optionally `drive_table`, or an .npy file with the transfer
            alone.
          like: what is not measured; None: the file's other entries are parameters by name.
          parameters: further ones, each by its own name.
        Raises: ValueError for a file that cannot be used.
        """
        transfer, table, given = read_device(paths.given(path))
        if like is None:
            parameters = given | parameters
        parameters = {**parameters, "file": str(path)}
        unchecked = cls.with_transfer(transfer, table, like=like, **parameters)
        said = conventions.report(
            str(path),
            conventions.fit(unchecked.device.transfer, unchecked.shape, unchecked.lens, unchecked.centered),
        )
        try:
            made = cls.from_measured(transfer, table, like=like, **parameters)
        except ValueError as error:
            raise ValueError(f"{error}\n{said}") from error
        _say_once(said)
        return made

    @property
    def detector(self) -> Detection:
        """Returns the engine's way to detect."""
        return self.receiver.detector

    @property
    def passes(self) -> int:
        """Returns the number of passes for one transform of one aperture."""
        return self.detector.passes * self.averages * self.slices

    @property
    def photons(self) -> Any:
        """Returns the photo-electrons of unit intensity in a pass; None: unlimited light, no shot noise."""
        return None if self.laser.power_w is None else self.current / ELECTRON_C / self.frame_rate_hz

    @property
    def current(self) -> Any:
        """Returns the photo-current of unit intensity in A; None: unlimited light."""
        if self.laser.power_w is None:
            return None
        return self.receiver.responsivity * self.device.transmission * self.laser.power_w

    @property
    def bandwidth(self) -> Any:
        """Returns the bandwidth of laser and electronic noise in Hz, the frame rate by default."""
        given = self.receiver.bandwidth_hz
        return self.frame_rate_hz if given is None else given

    @property
    def quantum_efficiency(self) -> Any:
        """Returns the electrons per photon, $eta = R h c / (q lambda)$; None without a wavelength."""
        if self.laser.wavelength_m is None:
            return None
        return self.receiver.responsivity * photon_j(self.laser.wavelength_m) / ELECTRON_C

    @property
    def zero_order(self) -> Any:
        """Returns the amplitude of the zero order on the axis, over that of all light of a pixel.

        It is $sqrt(F)$ for each axis that the lens transforms, F the fill factor of that axis. Along an axis
        that the lens leaves as it is, detectors are images of pixels and lose nothing.
        """
        fill = self.device.fill_factor
        if fill is None:
            return 1.0
        return fill if self.lens == "2d" else fill**0.5

    @property
    def capacities(self) -> tuple[float, ...]:
        """Returns a detector's limits in one pass, electrons: a camera's well, a photodiode's saturation."""
        limits = ()
        if self.receiver.well_depth_e is not None:
            limits += (self.receiver.well_depth_e,)
        if self.receiver.saturation_w is not None:
            current = self.receiver.responsivity * self.receiver.saturation_w / ELECTRON_C
            limits += (current / self.frame_rate_hz,)
        return limits

    @property
    def noisy(self) -> bool:
        """Says whether a pass draws random numbers, so that it needs a key."""
        modulator, laser, receiver = self.modulator, self.laser, self.receiver
        written = modulator.dac_bits_amp is not None or modulator.dac_bits_phase is not None
        if modulator.dac_rounding == "stochastic" and written:
            return True
        if receiver.adc_rounding == "stochastic" and receiver.adc_bits is not None:
            return True
        strengths = (
            modulator.phase_noise_rms,
            modulator.amp_noise_rms,
            modulator.drive_noise_rms,
            modulator.dac_jitter_s,
            laser.rin_db_hz,
            laser.power_drift_rms,
            laser.power_w,
            receiver.lo_drift,
            receiver.jitter_s,
            receiver.adc_noise_lsb,
        )
        return any(strength is not None for strength in strengths)

    @property
    def scale_free(self) -> bool:
        """Says whether nothing depends on how large the signal is: no levels, no reference, no noise."""
        modulator, receiver = self.modulator, self.receiver
        effects = (
            modulator.dac_bits_amp,
            modulator.dac_bits_phase,
            modulator.extinction_db,
            modulator.drive_v,
            modulator.drive_table,
            modulator.settling_s,
            receiver.cmrr_db,
            receiver.prnu_rms,
            receiver.adc_bits,
            self.channels.channel_crosstalk_db,  # of light: each aperture is scaled to its largest number
            self.channels.aperture_crosstalk_db,
        )
        if self.noisy or receiver.memory or any(value is not None for value in effects):
            return False
        if modulator.encode != "complex" or modulator.dac_range != "auto" or receiver.adc_range != "auto":
            return False
        # a balanced pair subtracts what the reference adds
        return self.detector.balanced or not self.detector.referenced

    @property
    def linear(self) -> bool:
        """Says whether the result is the field, or a part of it, rather than a power."""
        return self.detector.linear

    def replace(self, **changes: Any) -> "Engine":
        """Returns this engine with other parameters, each by its own name, or with other groups.

        Args:
          changes: the new value of each parameter or group, by its name.
        Raises: ValueError for a name that is unknown, or a value that cannot be.
        """
        own = [field.name for field in dataclasses.fields(self)]
        if unknown := set(changes) - {*own, *PLACES}:
            raise ValueError(
                f"an engine has no {', '.join(sorted(unknown))}; it has {', '.join([*own, *PLACES])}"
            )
        direct = {name: value for name, value in changes.items() if name in own}
        for group in GROUPS:
            inner = {name: value for name, value in changes.items() if PLACES.get(name) == group}
            if inner:
                direct[group] = dataclasses.replace(direct.get(group, getattr(self, group)), **inner)
        return dataclasses.replace(self, **direct)

    def with_photons(self, photons: float | None) -> "Engine":
        """Returns this engine with the laser power for a number of photons.

        Args:
          photons: photo-electrons of unit intensity in a pass; None: unlimited light.
        """
        if photons is None:
            return self.replace(power_w=None)
        share = (self.receiver.responsivity, self.device.transmission)
        return self.replace(power_w=watts(photons, self.frame_rate_hz, *share))

    def with_orders_as_loss(self) -> "Engine":
        """Returns this engine without a fill factor, and with the same light in the zero order.

        The light of higher orders becomes insertion loss, and the unit of light shrinks with it; so the
        reference and full scales, which are relative to it, grow. A measured transfer needs this form, since
        it holds the shape of the zero order and not its light.
        """
        if self.device.fill_factor is None:
            return self
        share, receiver = float(self.zero_order), self.receiver
        loss = (self.device.insertion_loss_db or 0.0) - 20 * math.log10(share)
        changes: dict[str, Any] = {"fill_factor": None, "insertion_loss_db": loss}
        changes["lo_ratio"] = receiver.lo_ratio / share**2
        if is_number(receiver.adc_range):
            changes["adc_range"] = receiver.adc_range / share
        if receiver.adc_full_scale is not None:
            changes["adc_full_scale"] = receiver.adc_full_scale / share
        return self.replace(**changes)

    def whole_field(self) -> "Engine":
        """Returns this engine, with "hybrid90" if it would detect the real part alone."""
        return self.replace(detection="hybrid90") if self.receiver.detection == "homodyne_re" else self

    def ideal(self) -> "Engine":
        """Returns an exact engine with this engine's aperture, lens and detected quantity."""
        powers = ("intensity", "amplitude", "homodyne_re")
        encode, detection = self.modulator.encode, self.receiver.detection
        return Engine(
            shape=self.shape,
            lens=self.lens,
            centered=self.centered,
            modulator=Modulator(encode="complex" if encode == "phase" else encode),
            receiver=Receiver(detection=detection if detection in powers else "field"),
        )


register(Engine)

# The group of each parameter that is in one.
PLACES = {name: group for group, cls in GROUPS.items() for name, _, _ in parameters(cls)}


def every_parameter(engine: Engine) -> Iterator[tuple[str, str, Parameter, Any]]:
    """Yields group ("" for none), name, meaning and value of each parameter, group after group."""
    for row in parameters(engine):
        yield "", *row
    for group in GROUPS:
        for row in parameters(getattr(engine, group)):
            yield group, *row


def watts(photons: Any, frame_rate_hz: Any, responsivity: Any, transmission: Any = 1.0) -> Any:
    """Returns the power in W that gives a number of photo-electrons in a pass.

    Args:
      photons: photo-electrons in a pass.
      frame_rate_hz: passes per second.
      responsivity: of the detectors, A/W.
      transmission: share of the power that arrives; 1, the default, gives the power at the detectors.
    """
    return photons * frame_rate_hz * ELECTRON_C / responsivity / transmission


@functools.cache
def _say_once(line: str) -> None:
    print(line, file=sys.stderr)
