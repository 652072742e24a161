"""Energy that depends on the data: heat while values are held, switching where they change."""

import jax.numpy as jnp
import numpy as np
import pytest

from fourier_attn.optics import DataStatistics, Engine, components, cost, measure_data, plan, preset

RNG = np.random.default_rng(5)


def numbers(count: int, side: int) -> np.ndarray:
    """Complex numbers with sizes from 0 to 1, the largest of each array 1."""
    size = RNG.random((count, side, side))
    size /= size.max((1, 2), keepdims=True)
    return size * np.exp(2j * np.pi * RNG.random(size.shape))


def test_statistics_are_those_of_the_drives() -> None:
    """Counted pixel by pixel: sin(theta / 2) = a; half of the pixels stay, and tiny steps are none."""
    x = numbers(1, 16).repeat(5, axis=0)
    x[2:, :8] = numbers(1, 16)[0, :8]
    x[:, 0, 0] = 1.0  # the scale
    x[4, 1:] *= 1 + 1e-5
    engine = Engine(shape=(16, 16)).replace(dac_bits_amp=8, dac_bits_phase=8)
    found = measure_data(jnp.asarray(x, jnp.complex64), engine)
    codes = np.stack([np.round(255 * abs(x)), np.round(np.angle(x) * 128 / np.pi) % 256], -1)
    new = [1.0, *(np.mean(codes[i] != codes[i - 1]) for i in range(1, 5))]
    assert found.changed == pytest.approx(np.mean(new), abs=2e-3)  # ties of float32
    assert new[1] == new[3] == 0
    assert new[4] < 0.01
    assert 0.49 < new[2] < 0.52
    assert found.amp_turns == pytest.approx(np.mean(2 / np.pi * np.arcsin(codes[..., 0] / 255)), abs=1e-3)
    assert found.phase_turns == pytest.approx(np.mean(codes[..., 1]) / 128, abs=5e-3)
    uniform = np.sin(np.pi / 2 * RNG.random((50, 16, 16)))
    uniform[:, 0, 0] = 1.0
    turned = jnp.asarray(uniform * np.exp(-1e-7j), jnp.complex64)  # as good as no phase
    drives = measure_data(turned, Engine(shape=(16, 16)))
    assert drives.amp_turns == pytest.approx(DataStatistics().amp_turns, abs=0.01)
    assert drives.phase_turns < 1e-6


def test_heaters_take_power_while_they_hold() -> None:
    """P_pi theta / pi for each heater and pass, summed one by one."""
    e, p, x = preset("demonstrator_5x5"), components.prices(), numbers(40, 5)
    assert e.passes == 4
    seconds = 4 / e.frame_rate_hz
    angles = 2 * np.arcsin(np.round(255 * abs(x)) / 255), np.angle(x) % (2 * np.pi)
    heat = seconds * p["thermo_optic.hold_w_per_pi"] * sum(angle.sum() / np.pi for angle in angles)
    plain = e.replace(extinction_db=None, compensated=False, dc_block=False)
    used = cost.energy(e, 40, data=measure_data(jnp.asarray(x, jnp.complex64), plain))
    assert used.hold == pytest.approx(heat, rel=5e-3)
    assert cost.energy(e, 1).hold == pytest.approx(seconds * 25 * 1.5 * p["thermo_optic.hold_w_per_pi"])


def test_capacitors_take_energy_where_bits_rise() -> None:
    """The supply gives C V^2 for each rising edge: half of the bits that change, once for four steps."""
    p = components.prices()
    e = preset("chip_11x11").replace(encode="amplitude", dac_bits_phase=None, dc_block=False)
    e = e.replace(dac_bits_amp=1, extinction_db=None, compensated=False, v_pi=2.0, drive_v=2.0)
    for share in (0.5, 0.1):  # of ones: random bits, and bits that seldom change
        x = (RNG.random((200, 11, 11)) < share).astype(np.float32)
        x[:, 0, 0] = 1
        rising = np.sum(np.diff(x, axis=0) > 0) / x.size
        data = measure_data(jnp.asarray(x), e)
        for passes, name in ((1, "hybrid90"), (4, "psi4")):
            way = e.replace(detection=name, cmrr_db=None)
            assert way.passes == passes
            used = cost.energy(way, 1, data=data).modulator
            assert used == pytest.approx(121 * p["electro_optic.capacitance_f"] * 4.0 * rising, rel=0.02)
    used = cost.energy(e, 1).modulator
    signed = cost.energy(e.replace(encode="signed", dac_bits_amp=2), 1).modulator
    assert signed == pytest.approx(4 * used, rel=0.05)  # both signs: twice the swing


def test_what_stays_is_not_switched() -> None:
    """Heaters and electro-optic modulators keep values; panels do not, and patterns are loaded again."""
    e, still = preset("chip_11x11"), DataStatistics(changed=0.25)
    moved, kept = cost.energy(e, 8), cost.energy(e, 8, data=still)
    assert kept.modulator == pytest.approx(moved.modulator / 4)
    assert kept._replace(modulator=0) == moved._replace(modulator=0)
    panel = e.replace(kind="liquid_crystal", frame_rate_hz=100.0)
    assert cost.energy(panel, 8, data=still) == cost.energy(panel, 8)
    mirrors = preset("amplitude_4f").replace(dac_bits_amp=4, frame_rate_hz=1e3, power_w=1e-12)
    once, thrice = (cost.energy(mirrors.replace(averages=n), 1).modulator for n in (1, 3))
    assert thrice == pytest.approx(3 * once)
    binary = mirrors.replace(dac_bits_amp=1)
    assert cost.energy(binary.replace(averages=3), 1).modulator == cost.energy(binary, 1).modulator


def test_kernels_stay() -> None:
    """A second bank writes each kernel once and holds it for all vectors."""
    e = preset("demonstrator_5x5")
    work = plan("circular_correlate", (8, 25), e, kernel=(3, 5, 5), shape=(5, 5), multiply="modulator")
    assert (work.factors, work.factor_arrays) == (12, 3)  # four pairs of vectors
    fresh, held = (cost.energy(e, **work.load(), data=d) for d in (DataStatistics(), work.stationary()))
    one = cost.energy(e, 1)
    assert fresh.dac - held.dac == pytest.approx(9 * one.dac)
    assert (fresh.hold, fresh.laser, fresh.adc) == (held.hold, held.laser, held.adc)
    sent = 9 * 25 * 16
    assert fresh.link - held.link == pytest.approx(sent * components.prices()["link.bit_j"])
    took = [cost.seconds(e, **work.load(), data=d) for d in (DataStatistics(), work.stationary())]
    bits_s = 8 * components.prices()["link.bytes_per_s"]
    assert took[0].transfer - took[1].transfer == pytest.approx(sent / bits_s)
    assert plan("dft", (5, 5), e).stationary() == DataStatistics()


@pytest.mark.parametrize(
    "data",
    [{"changed": 1.5}, {"factor_changed": -0.1}, {"amp_turns": 2.0}, {"phase_turns": float("nan")}],
    ids=str,
)
def test_statistics_that_cannot_be(data: dict) -> None:
    [(name, _)] = data.items()
    for account in (cost.energy, cost.seconds):
        with pytest.raises(ValueError, match=f"{name}=.* must be at least 0 and at most"):
            account(preset("chip_11x11"), 1, data=DataStatistics(**data))


def test_arrays_that_have_no_statistics() -> None:
    e = Engine(shape=(4, 4))
    for shape in ((4, 4, 5), (0, 4, 4)):
        with pytest.raises(ValueError, match="must be arrays of the aperture"):
            measure_data(jnp.zeros(shape), e)
    with pytest.raises(ValueError, match="slices=2 writes digits"):
        measure_data(jnp.zeros((1, 4, 4)), e.replace(dac_bits_amp=4, slices=2))
