"""Parameters in their groups: what each says about itself, where it stands, and what it was called before."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from optical import KEY, made

from fourier_attn import config
from fourier_attn.optics import Engine, optical_dft2, presets, random
from fourier_attn.optics.engine_spec import ELECTRON_C, PLACES, every_parameter
from fourier_attn.optics.from_dict import grouped
from fourier_attn.optics.parameter import parameters
from fourier_attn.optics.parts import GROUPS, Laser, Modulator

SIDE_BY_SIDE = {  # parameters without their groups
    "shape": [4, 4],
    "encode": "complex",
    "dac_bits_amp": 8,
    "dac_range": "auto",
    "extinction_db": 30.0,
    "amp_noise_rms": 0.003,
    "crosstalk_db": -40.0,
    "insertion_loss_db": 15.0,
    "rin_db_hz": -145.0,
    "detection": "hybrid90",
    "power_w": 1e-6,
    "responsivity": 0.8,
    "tia_noise": 1e-11,
    "adc_range": "auto",
    "adc_bits": 8,
    "frame_rate_hz": 1e8,
    "seed": 3,
    "averages": 2,
    "shift_pitch": None,
}


def test_every_parameter_says_what_it_is() -> None:
    rows = list(every_parameter(Engine()))
    names = [name for _, name, _, _ in rows]
    assert len(names) == len(set(names)) > 50  # one name, one place
    assert {name for group, name, _, _ in rows if group} == PLACES.keys()
    for _, name, what, _ in rows:
        assert what.text, name
        assert what.words or what.kind not in ("choice", "full_scale"), name
    printed = "\n".join(config.describe())
    for group, name, _, _ in rows:
        assert f"\n{group}.{name} = ".replace("\n.", "\n") in printed, name


def test_groups_are_trees_of_their_strengths() -> None:
    """Bits and modes are structure; strengths and the device's seed are leaves."""
    engine = made(phase_noise_rms=0.1, dac_bits_amp=4, seed=5, kind="electro_optic")
    other = engine.replace(phase_noise_rms=0.2, seed=6)
    assert jax.tree.structure(engine) == jax.tree.structure(other)
    assert jax.tree.structure(engine) != jax.tree.structure(engine.replace(dac_bits_amp=5))
    assert jax.tree.unflatten(jax.tree.structure(engine), jax.tree.leaves(engine)) == engine
    for group in GROUPS.values():
        traced = [what for _, what, _ in parameters(group) if not what.static]
        assert {what.kind for what in traced} <= {
            "number",
            "pair",
            "row",
            "seed",
            "matrix",
            "rising",
            "factors",
        }


def test_an_engine_without_groups_is_read() -> None:
    engine = presets.build(SIDE_BY_SIDE)
    assert engine.photons == pytest.approx(1e-6 * 0.8 / ELECTRON_C / 1e8 / 10**1.5)
    assert (engine.shape, engine.averages, engine.device.seed) == ((4, 4), 2, 3)
    assert (engine.modulator.amp_noise_rms, engine.modulator.compensated) == (0.003, False)
    for group, name, _, value in every_parameter(engine):
        if name in SIDE_BY_SIDE and name != "shape":
            assert value == SIDE_BY_SIDE[name], (group, name)
    assert grouped(grouped(SIDE_BY_SIDE)) == grouped(SIDE_BY_SIDE)
    now = {"shape": (4, 4), "receiver": {"adc_bits": 6}}
    assert grouped(now) == now


def test_a_configuration_without_groups_is_read() -> None:
    values = config.default("fourier", engine="chip_11x11").to_dict()
    values["model"]["mixer"] |= {"engine": SIDE_BY_SIDE, "eval_engine": SIDE_BY_SIDE | {"adc_bits": 4}}
    mixer = config.from_dict(json.loads(json.dumps(values))).model.mixer
    assert presets.build(mixer.engine) == presets.build(SIDE_BY_SIDE)
    assert presets.build(mixer.eval_engine) == presets.build(SIDE_BY_SIDE).replace(adc_bits=4)
    values["model"]["mixer"]["engine"] = {"bits": 4}
    with pytest.raises(ValueError, match="engine.bits is not an option"):
        config.from_dict(values)


def test_wrong_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="the receiver of an engine has no dac_bits_amp; it has detection"):
        presets.build({"receiver": {"dac_bits_amp": 8}})
    with pytest.raises(ValueError, match="modulator={'encode': 'phase'} must be a Modulator, not a mapping"):
        Engine(modulator={"encode": "phase"})
    with pytest.raises(ValueError, match="kind='acousto_optic' is unknown; choose one of thermo_optic"):
        Modulator(kind="acousto_optic")
    with pytest.raises(ValueError, match="v_pi=None and drive_v=2.0 belong together"):
        Modulator(drive_v=2.0)
    with pytest.raises(ValueError, match="writes no phases"):
        Modulator(kind="micromirror")
    with pytest.raises(ValueError, match="compensated='yes' must be True or False"):
        Modulator(compensated="yes")
    with pytest.raises(ValueError, match="power_w=-1.0 must be positive"):
        Laser(power_w=-1.0)


def test_streams_share_nothing() -> None:
    """A device of seed 0 and a pass of key 0, the draws of a pass among themselves, and splits of the key."""
    key = jax.random.key(0)
    keys = [random.stream(key, name) for name in ("static pattern", "coupling", "noise", "rounding")]
    keys += [jax.random.split(key)[0], jax.random.fold_in(key, 1), key]
    numbers = [np.asarray(random.uniform(key, (20_000,), np.float32)) for key in keys]
    found = np.corrcoef(numbers) - np.eye(len(numbers))
    assert np.abs(found).max() < 5 / 20_000**0.5


def test_a_devices_pattern_is_not_in_the_draws_of_a_pass() -> None:
    """Gains of seed 0 and amplitudes of key 0, of which one generator would make the same numbers."""
    ones, plain = jnp.ones((1, 40, 40)), made(shape=(40, 40))
    clean = np.asarray(optical_dft2(ones, plain))
    still = np.asarray(optical_dft2(ones, plain.replace(static_gain_rms=1e-2))) - clean
    moving = np.asarray(optical_dft2(ones, plain.replace(amp_noise_rms=1e-2), KEY)) - clean
    moving[0, 0, 0] = still[0, 0, 0] = 0
    found = abs(np.vdot(still, moving)) / np.linalg.norm(still) / np.linalg.norm(moving)
    assert found < 5 / 1600**0.5
