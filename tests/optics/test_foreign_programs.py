"""Programs and modules that know nothing of optics, on an engine: results, derivatives, errors."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal, run_here
from flax import nnx
from optical import snr

from evidence.pages.markdown import Results
from evidence.pages.programs import programs_table
from fourier_attn.optics import Engine, optical_dft2, preset, report, site_errors, through
from fourier_attn.optics.programs.rules import as_rules
from fourier_attn.optics.programs.run import Run
from fourier_attn.optics.programs.through import ranged, trace
from fourier_attn.studies.engine import programs
from fourier_attn.studies.engine.foreign import PROGRAMS

IDEAL, CHIP = Engine(shape=(11, 11)), preset("chip_11x11")
KEY = jax.random.key(0)
Function = Callable[..., Any]


def names(all_: Any, fast: tuple[str, ...]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] * (name not in fast)) for name in all_]


@pytest.fixture(autouse=True)
def relaxed() -> Iterator[None]:
    """Allows what programs of others do: they promote ranks and dtypes."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def check_exact(f: Function, *args: Any, argnums: tuple[int, ...] = (0, 1)) -> None:
    """Checks results and derivatives on an ideal engine.

    The relative tolerance of 1e-4 is some hundred roundings of single precision.
    """

    def loss(f: Function, *args: Any) -> Any:
        y = f(*args)
        return jnp.sum(jnp.sin(y)), y

    both = [
        jax.jit(jax.value_and_grad(partial(loss, f), argnums, has_aux=True))(*args)
        for f in (f, through(f, IDEAL))
    ]
    for exact, light in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(light, exact, atol=1e-4 * float(jnp.abs(exact).max()), rtol=0)
    noisy = jax.jit(through(f, CHIP, key=KEY))(*args)
    assert 8 < snr(noisy, both[0][0][1]) < 70  # it has been on the engine


@pytest.mark.parametrize("name", names(PROGRAMS, ("FNO", "Poisson")))
def test_programs_of_others(name: str) -> None:
    program = PROGRAMS[name](11)
    check_exact(program.f, program.weights, program.x)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", programs.OWN)
def test_own_networks(mixer: str) -> None:
    network = programs.network(mixer, tokens=11, width=8)
    check_exact(network.f, network.weights, network.x, argnums=(0,))


class LinenBlock(nn.Module):
    """A global filter with its norms, as linen module."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        filters = self.param("filter", nn.initializers.normal(), (2, x.shape[1], x.shape[2] // 2 + 1, 1))
        y = jnp.fft.rfft2(nn.LayerNorm()(x), axes=(1, 2)) * jax.lax.complex(*filters)
        return x + nn.Dense(x.shape[-1])(nn.gelu(jnp.fft.irfft2(y, s=x.shape[1:3], axes=(1, 2))))


class NnxBlock(nnx.Module):
    """A one-dimensional Fourier neural operator, as NNX module."""

    def __init__(self, width: int, modes: int, rngs: nnx.Rngs):
        self.kernel = nnx.Param(jax.random.normal(rngs.params(), (2, modes, width, width)))
        self.linear = nnx.Linear(width, width, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        kernel = jax.lax.complex(self.kernel[0], self.kernel[1])
        kept = jnp.einsum("bki,kio->bko", jnp.fft.rfft(x, axis=1)[:, : len(kernel)], kernel)
        return nnx.gelu(jnp.fft.irfft(kept, x.shape[1], axis=1) + self.linear(x))


def test_linen_modules() -> None:
    x = normal(2, 11, 11, 3)
    check_exact(LinenBlock().apply, drawn(LinenBlock(), x), x)


def test_nnx_modules() -> None:
    graph, state = nnx.split(NnxBlock(3, 4, nnx.Rngs(0)))
    check_exact(lambda state, x: nnx.merge(graph, state)(x), state, normal(2, 11, 3))


def test_nnx_modules_as_arguments() -> None:
    """An NNX module is a tree of arrays itself; `nnx.grad` differentiates by it."""
    block, x = NnxBlock(3, 4, nnx.Rngs(0)), normal(2, 11, 3)

    def derivative(f: Function) -> Any:
        return nnx.grad(lambda block, x: jnp.sum(jnp.sin(f(block, x))))(block, x)

    exact = derivative(lambda block, x: block(x))
    light = derivative(through(lambda block, x: block(x), IDEAL))
    for one, other in zip(jax.tree.leaves(exact), jax.tree.leaves(light), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-4 * float(jnp.abs(one).max()))


def test_equinox_modules() -> None:
    eqx = pytest.importorskip("equinox")

    class LongConvolution(eqx.Module):
        kernel: jax.Array
        out: Any
        activation: Any

        def __call__(self, x: Any) -> Any:  # (d, t)
            t = x.shape[-1]
            y = jnp.fft.irfft(jnp.fft.rfft(x, 2 * t) * jnp.fft.rfft(self.kernel, 2 * t), 2 * t)[:, :t]
            return jax.vmap(self.out, 1, 1)(self.activation(y))

    block = LongConvolution(normal(3, 11), eqx.nn.Linear(3, 3, key=KEY), jax.nn.gelu)
    x = normal(2, 3, 11)
    arrays, rest = eqx.partition(block, eqx.is_array)
    check_exact(lambda arrays, x: jax.vmap(eqx.combine(arrays, rest))(x), arrays, x)
    y = through(lambda block, x: jax.vmap(block)(x), IDEAL)(block, x)  # with its activation as a leaf
    np.testing.assert_allclose(y, jax.vmap(block)(x), atol=1e-5)


def test_haiku_modules() -> None:
    hk = pytest.importorskip("haiku")

    def network(x: Any) -> Any:
        x = jax.nn.relu(hk.Conv2D(4, 3)(x))
        return hk.Linear(5)(hk.Conv2D(4, 3, stride=2)(x).mean((1, 2)))

    pure = hk.without_apply_rng(hk.transform(network))
    x = normal(2, 9, 9, 3)
    check_exact(pure.apply, pure.init(KEY, x), x)


@pytest.mark.slow
def test_under_vmap_and_checkpoint() -> None:
    program = PROGRAMS["Wiener"](11)
    check_exact(jax.checkpoint(program.f), program.weights, program.x)
    each = jax.vmap(program.f, (None, 0))
    check_exact(each, program.weights, program.x)
    light = jax.vmap(through(program.f, IDEAL), (None, 0))(program.weights, program.x)
    np.testing.assert_allclose(light, program.f(program.weights, program.x), atol=1e-4)


# The error of a call site on the chip, from frames of the same statistics.


def seen_by(program: Any, keys: int) -> dict[int, list[Any]]:
    """Returns call site, operand, exact and optical result of each run of a call site, by its number."""
    runs: list[Any] = []

    def watch(site: Any, operands: Any, exact: Any, y: Any) -> None:
        jax.debug.callback(lambda *of: runs.append((site, *of)), operands[0], exact, y)

    traced = trace(program.f, (program.weights, program.x), {}, as_rules(CHIP, ()), frozenset({1}))
    run = Run(ranged([choice for choice in traced.choices if choice.light is not None], None), True, watch)
    light = jax.jit(lambda key: run.program(traced.program, traced.values, (), key))
    for number in range(keys):
        jax.block_until_ready(light(jax.random.key(number)))
    jax.effects_barrier()
    found: dict[int, list[Any]] = {}
    for site, *arrays in runs:
        arrays = [np.asarray(array).astype(np.complex128) for array in arrays]
        found.setdefault(site.index, []).append((site, *arrays))
    return found


def frames(site: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns what modulators write for a call site of 11 x 11 points, from its operand and exact result."""
    z = (y if site.kind == "irfft" else x).reshape(-1, 11, 11)
    if site.kind in ("rfft", "irfft"):  # two real arrays share a pass
        z = np.concatenate([z, np.zeros((len(z) % 2, 11, 11))])
        z = z[0::2] + 1j * z[1::2]
    return np.fft.fft2(z) if site.kind == "irfft" else z


def frame_error(written: np.ndarray, engine: Engine = CHIP, least: int = 256) -> float:
    """Returns power of error over signal of one pass, with shuffled values in some hundred frames."""
    values = np.tile(written.reshape(len(written), -1), (-(-least // len(written)), 1))
    values = np.random.default_rng(0).permuted(values, axis=1).reshape(-1, 11, 11)
    y = jax.jit(partial(optical_dft2, engine=engine))(jnp.asarray(values, jnp.complex64), key=KEY)
    exact = np.fft.fft2(values, norm="ortho")
    return float(np.sum(np.abs(y - exact) ** 2) / np.sum(np.abs(exact) ** 2))


def error(runs: list[Any]) -> float:
    """Returns power of error over signal of a call site."""
    return sum(np.sum(np.abs(y - z) ** 2) for *_, y, z in runs) / sum(
        np.sum(np.abs(y) ** 2) for *_, y, _ in runs
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FNO", "GFNet", "Poisson", "fluid", "Wiener"])
def test_call_sites_have_the_error_of_a_frame(name: str) -> None:
    """One stage, so SNR = SNR_1, within 1.5 dB.

    A real array alone in its pass loses the imaginary part of its error, and so up to 3 dB of it.
    """
    for runs in seen_by(PROGRAMS[name](11), keys=4).values():
        site = runs[0][0]
        predicted = -10 * np.log10(frame_error(np.concatenate([frames(*run[:3]) for run in runs])))
        alone = 3.0 if site.kind == "irfft" and site.arrays % 2 else 0.0
        assert predicted - 1.5 < -10 * np.log10(error(runs)) < predicted + 1.5 + alone, site.label


@pytest.mark.slow
def test_a_convolution_has_the_errors_of_its_two_transforms() -> None:
    """Images of 9 x 9 with their border fill the aperture: powers of both errors add, within 1.5 dB."""
    program = PROGRAMS["CNN"](9)
    runs = seen_by(program, keys=4)[0]
    signals = np.pad(runs[0][1].real, ((0, 0), (1, 1), (1, 1), (0, 0))).transpose(0, 3, 1, 2)
    kernel = np.asarray(program.weights["first"], np.float64)
    filters = np.fft.fft2(np.pad(kernel, ((0, 8), (0, 8), (0, 0), (0, 0))), axes=(0, 1)).conj()
    spectra = np.einsum("bikl,klio->bokl", np.fft.fft2(signals), filters).reshape(-1, 11, 11)
    signals = signals.reshape(-1, 11, 11)
    forth, back = (frame_error(z[0::2] + 1j * z[1::2]) for z in (signals, spectra))
    assert abs(10 * np.log10(error(runs) / (forth + back))) < 1.5


@pytest.mark.slow
def test_stages_add_their_errors() -> None:
    """A transform of 121 x 121 has s = 2 stages.

    Independent errors add as s e^2, static ones at most as s^2 e^2. The band has 1.5 dB on either side.
    """
    x = np.random.default_rng(0).standard_normal((2, 2, 121, 121))
    z = jnp.asarray(x[0] + 1j * x[1], jnp.complex64)
    written = np.asarray(z).reshape(-1, 11, 11)
    device = CHIP.device
    static = IDEAL.replace(
        static_phase_rms=device.static_phase_rms,
        static_gain_rms=device.static_gain_rms,
        crosstalk_db=device.crosstalk_db,
    )
    one, fixed = frame_error(written), frame_error(written, static)
    [label] = errors = site_errors(jnp.fft.fft2, (z,), CHIP, key=KEY)
    least, most = 2 * one, 2 * one + 2 * fixed
    assert -10 * np.log10(most) - 1.5 < errors[label] < -10 * np.log10(least) + 1.5


def test_errors_of_call_sites_are_those_of_results() -> None:
    x = normal(4, 11, 11)
    errors = site_errors(jnp.fft.fft2, (x,), CHIP, key=KEY)
    y = jax.jit(through(jnp.fft.fft2, CHIP, key=KEY))(x)
    exact = np.fft.fft2(np.asarray(x, np.float64))
    assert errors == {"0 fft 11 x 11": pytest.approx(snr(y, exact), abs=1e-3)}
    with pytest.raises(ValueError, match="noisy: pass key="):
        site_errors(jnp.fft.fft2, (x,), CHIP)


def test_noise_of_call_sites_is_independent() -> None:
    """Two uses of one program get the same operands, but noise of their own."""
    engine = IDEAL.replace(detection="hybrid90", power_w=5e-4, insertion_loss_db=15.0, tia_noise=1e-11)
    x = normal(64, 11, 11)
    light = jax.jit(lambda key: through(lambda x: (jnp.fft.fft2(x), jnp.fft.fft2(x)), engine, key=key)(x))
    one, other = (np.asarray(y) - np.fft.fft2(np.asarray(x)) for y in light(KEY))
    correlation = np.vdot(one, other) / np.linalg.norm(one) / np.linalg.norm(other)
    assert abs(correlation) < 4 / one.size**0.5  # four standard deviations of independent noise
    np.testing.assert_array_equal(light(KEY)[0], light(KEY)[0])


@pytest.mark.slow
def test_the_study(tmp_path: Path) -> None:
    out = tmp_path / "results" / "programs"
    code, said, err = run_here(programs, "--programs=CNN", f"--out={out}")
    assert (code, err) == (0, "")
    [row] = json.loads(out.with_suffix(".json").read_text())["rows"]
    program = PROGRAMS["CNN"](programs.SIZES["CNN"])
    costs = report(program.f, (program.weights, program.x), CHIP, argnums=1)
    assert row["joules"] == costs.total("joules")
    assert row["passes"] == sum(one.passes for one in costs.rows)
    light = jax.jit(through(program.f, CHIP, key=jax.random.key(1), argnums=1))
    expected = np.asarray(program.f(program.weights, program.x))
    assert row["output_db"] == pytest.approx(snr(light(program.weights, program.x), expected), abs=0.1)
    assert row["gradient_error"] < 1e-4
    assert out.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    line = f"| CNN | 2 x 32 x 32 x 3 | 2 of 2 | {row['passes']:,} | {row['output_db']:.1f} |"
    assert line in programs_table(Results(tmp_path), "programs")
    assert f"{row['passes']:,}" in said


def test_a_study_of_unknown_programs() -> None:
    code, _, err = run_here(programs, "--programs=bogus")
    assert (code, err.count("\n")) == (2, 1)
    assert "bogus" in err
