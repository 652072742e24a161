"""Photon transfer: gain, read noise and laser noise of a camera from repeated frames of one pattern.

A pixel with the mean count m above the black level has the variance

    v = r^2 / K^2 + m / K + rho^2 m^2

K is the gain in electrons per count, r the read noise in electrons, and rho the relative noise of the laser's
power. All pixels of a frame share rho, so the total of each frame gives it, and is divided out. What remains
is a straight line of variances over means. It is fitted with the weights of sample variances.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from fourier_attn.optics.recordings import check_unsaturated

ROUNDS = 20  # of fits, each with weights from the line before
SPREAD = 2.0  # least ratio of the brightest pixel to the darkest, to separate gain from read noise
SIGNIFICANT = 3.0  # standard errors


class PhotonTransfer(NamedTuple):
    """Holds the noise of a camera and its laser, with standard errors.

    Args:
      gain, gain_error: electrons per count.
      read_noise, read_noise_error: electrons, with the rounding of counts; 0 where it cannot be seen.
      laser_rms, laser_rms_error: noise of the laser's power from frame to frame, relative; 0 where it cannot
        be seen, with the error as its upper limit.
      means, variances: of each pixel (pixels,), counts; without the noise of the laser.
    """

    gain: float
    gain_error: float
    read_noise: float
    read_noise_error: float
    laser_rms: float
    laser_rms_error: float
    means: Float[np.ndarray, " p"]
    variances: Float[np.ndarray, " p"]

    def variance(self, counts: np.ndarray) -> np.ndarray:
        """Returns the variance of readings with these means, counts above the black level."""
        read = (self.read_noise / self.gain) ** 2
        return read + np.maximum(counts, 0) / self.gain + (self.laser_rms * counts) ** 2

    def rin_db_hz(self, bandwidth_hz: float) -> float | None:
        """Returns the relative intensity noise over the bandwidth of a frame; None where none is seen."""
        return None if self.laser_rms == 0 else 10 * float(np.log10(self.laser_rms**2 / bandwidth_hz))


def photon_transfer(
    frames: Float[np.ndarray, "f p"],
    *,
    black_level: float = 0.0,
    full_scale: float | None = None,
    name: str = "frames",
) -> PhotonTransfer:
    """Finds gain, read noise and laser noise from repeated frames of one pattern.

    Args:
      frames: counts (frames, pixels). The pattern should have dark and bright pixels.
      black_level: counts without light; default 0.
      full_scale: largest count of the camera; None: see `fourier_attn.optics.recordings.read_recording`.
      name: of the frames, in messages.
    Raises: ValueError for frames that are too few, cut off, or all of one brightness.
    Source: the mean-variance method of Janesick, Scientific Charge-Coupled Devices (2001).
    """
    frames = np.asarray(frames, float)
    if frames.ndim != 2 or len(frames) < 2:
        count = len(frames) if frames.ndim == 2 else 1
        raise ValueError(
            f"{name} has {count} frame of shape {frames.shape[-1:]}; variances need repeated frames of one "
            "pattern, two at least and better a hundred"
        )
    if not np.all(np.isfinite(frames)):
        raise ValueError(f"{name} has counts that are not finite; leave out these frames")
    if not np.ptp(frames, axis=0).any():
        raise ValueError(f"{name} repeats one frame without any noise; record each frame anew")
    check_unsaturated(frames, name, full_scale)
    signal = frames - black_level
    means = signal.mean(axis=0)
    scatter = np.sqrt(frames.var(axis=0, ddof=1) / len(frames))
    if np.any(below := means < -SIGNIFICANT * scatter - 0.5):
        pixel = int(np.argmax(below))
        raise ValueError(
            f"{name}: pixel_{pixel} has the mean {means[pixel] + black_level:.4g}, below the black level "
            f"{black_level:g}; give black_level as the mean count without light"
        )
    if frames.shape[1] < 3 or means.max() < SPREAD * max(means.min(), 0.0) or means.max() <= 0:
        raise ValueError(
            f"{name}: {frames.shape[1]} pixels have means from {means.min():.4g} to {means.max():.4g}, too "
            "alike for a line; show a pattern whose bright pixels have at least "
            f"{SPREAD:g} times the light of the dark ones"
        )
    total = means.sum()
    powers = signal.sum(axis=1) / total
    variances = np.sum((signal - powers[:, None] * means) ** 2, axis=0) / (len(frames) - 1)
    line, covariance = _line(means, variances, len(frames))
    if line[1] <= 0:
        raise ValueError(
            f"{name}: variances do not rise with the means (slope {line[1]:.3g}), so this is not shot noise; "
            "record frames one by one, without averaging, smoothing or gamma, and give black_level"
        )
    gain = 1 / line[1]
    gain_error = np.sqrt(covariance[1, 1]) * gain**2
    read = np.sqrt(max(line[0], 0.0)) * gain
    # r = K sqrt(a), K = 1 / b: dr = K da / (2 sqrt(a)) - K^2 sqrt(a) db
    root = np.sqrt(max(line[0], np.sqrt(covariance[0, 0])))
    slope = np.array([gain / (2 * root), -(gain**2) * root])
    own = (len(means) * max(line[0], 0.0) + line[1] * total) / total**2  # of the totals, without the laser
    common = powers.var(ddof=1)
    common_error = common * np.sqrt(2 / (len(frames) - 1))
    seen = common - own > SIGNIFICANT * common_error
    laser = np.sqrt(common - own) if seen else 0.0
    laser_error = common_error / (2 * laser) if seen else np.sqrt(SIGNIFICANT * common_error)
    return PhotonTransfer(
        gain=float(gain),
        gain_error=float(gain_error),
        read_noise=float(read),
        read_noise_error=float(np.sqrt(slope @ covariance @ slope)),
        laser_rms=float(laser),
        laser_rms_error=float(laser_error),
        means=means,
        variances=variances,
    )


def _line(means: np.ndarray, variances: np.ndarray, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Fits read and shot noise to variances; returns intercept and slope with their covariance.

    Dividing by a frame's total removes a part of the pixel's own noise. With M the sum of the means m of P
    pixels, read noise a and slope b, what remains of it is

        v = a (1 - 2 m / M + P m^2 / M^2) + b (m - m^2 / M)
    """
    total, pixels = means.sum(), len(means)
    read, shot = 1 - 2 * means / total + pixels * (means / total) ** 2, means - means**2 / total
    design = np.stack([read, shot], axis=1)
    line, covariance = np.array([variances.mean(), 0.0]), np.eye(2)
    for _ in range(ROUNDS):
        predicted = np.maximum(design @ line, 1e-3 * variances.mean())
        weights = (frames - 1) / (2 * predicted**2)
        covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
        line = covariance @ (design.T @ (weights * variances))
    return line, covariance
