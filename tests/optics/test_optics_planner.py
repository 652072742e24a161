import json
import math
import sys
import tracemalloc
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal, run_here
from optical import KEY, QUICK, decibel, dft, exact, frames_sent, made, snr, waves

from evidence.pages.engine_errors import plan_table
from evidence.pages.markdown import Results
from fourier_attn.ops.circular import BOUNDARIES, circular_correlate
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.optics import (
    Engine,
    optical_circular_correlate,
    optical_dft,
    optical_fourier_mix,
    optical_position_lambda,
    plan,
)
from fourier_attn.optics.presets import preset
from fourier_attn.optics.schedule import split
from fourier_attn.optics.transform_plan import PREFER
from fourier_attn.studies.engine import plans

FOUR = Engine(shape=(4, 4))
mix = jax.jit(fourier_mix, compiler_options=QUICK)
correlate = jax.jit(circular_correlate, static_argnames=("shape", "boundary"), compiler_options=QUICK)


def counted(operation: str, *arrays: Any, engine: Engine, **options: Any) -> jax.Array:
    """The operation's result, after comparing the passes it executed with those that were planned."""
    functions = {"dft": optical_dft, "fourier_mix": optical_fourier_mix}
    functions["circular_correlate"] = optical_circular_correlate

    @partial(jax.jit, compiler_options=QUICK)
    def run(*arrays: Any) -> jax.Array:
        return functions[operation](*arrays, engine, KEY, **options)

    with frames_sent() as frames:
        y = run(*arrays)
    options.pop("inverse", None)
    if operation == "dft":
        options["real"] = not jnp.iscomplexobj(arrays[0])
    if operation == "circular_correlate":
        options["kernel"] = arrays[1].shape
    planned = plan(operation, arrays[0].shape, engine, **options)
    assert sum(frames) == planned.frames
    assert planned.passes == planned.frames * engine.passes
    return y


@pytest.mark.parametrize(("shape", "lens"), [((1, 16), "1d"), ((3, 16), "1d"), ((3, 16), "2d")])
def test_rows_of_their_own_length_need_no_square_aperture(shape: tuple[int, int], lens: str) -> None:
    """Vectors, as many in a frame as there are rows; their derivative; and tiles of a longer signal."""
    engine, x, g = Engine(shape=shape, lens=lens), normal(7, 16), waves(7, 16)
    y = counted("dft", x, engine=engine, axes=(-1,))
    np.testing.assert_allclose(y, np.fft.fft(np.asarray(x), norm="ortho"), atol=1e-5)
    assert plan("dft", x.shape, engine, axes=(-1,)).frames == -(-7 // shape[0])
    back = jax.vjp(partial(optical_dft, engine=engine, axes=(-1,)), x)[1](g)[0]
    np.testing.assert_allclose(back, np.fft.fft(np.asarray(g), norm="ortho").real, atol=1e-5)
    x, kernel = normal(3, 70), normal(2, 5, seed=1)
    found = counted("circular_correlate", x, kernel, engine=engine)
    np.testing.assert_allclose(found, correlate(x, kernel), atol=2e-5)
    with pytest.raises(ValueError, match="must be square, 2 x 2 at least, for sizes"):
        optical_dft(x, engine, axes=(-1,))


# the aperture's own size; N^s; N^s r with a digital rest; chirps; sizes of one; batches that leave gaps
@pytest.mark.parametrize("n", [1, 3, 4, 7, 12, 16, 28])
def test_one_axis(n: int) -> None:
    x = waves(3, n)
    y = counted("dft", x, engine=FOUR, axes=(-1,))
    np.testing.assert_allclose(y, np.fft.fft(np.asarray(x), norm="ortho"), atol=1e-5)
    if n == 7:
        cylindrical = counted("dft", x, engine=FOUR.replace(lens="1d"), axes=(-1,))
        np.testing.assert_allclose(cylindrical, y, atol=1e-5)


@pytest.mark.parametrize("prefer", PREFER)
@pytest.mark.parametrize(
    "sizes", [(4, 4), (1, 1), (8, 16), (4, 3), (5, 16), (1, 6), (7, 5), (64, 6), (28, 5), (20, 4)]
)
def test_two_axes(sizes: tuple, prefer: str) -> None:
    x = waves(2, *sizes)
    y = counted("dft", x, engine=FOUR, prefer=prefer)
    np.testing.assert_allclose(y, np.fft.fft2(np.asarray(x), norm="ortho"), atol=1e-5)


@pytest.mark.parametrize("sizes", [(4, 4), (7, 5), (5, 6), (6, 5), (1, 3), (3, 1), (2, 2), (12, 10)])
def test_half_of_a_real_arrays_transform(sizes: tuple) -> None:
    """Odd and even rows and columns, one row, one column."""
    x = normal(3, *sizes)
    y = counted("dft", x, engine=FOUR, prefer="passes")
    np.testing.assert_allclose(y, np.fft.fft2(np.asarray(x), norm="ortho"), atol=1e-5)
    y = counted("dft", x, engine=FOUR, prefer="passes", inverse=True)
    np.testing.assert_allclose(y, np.fft.ifft2(np.asarray(x), norm="ortho"), atol=1e-5)


def test_digital_remainders_are_bounded() -> None:
    """97 points of 1,067 are more than a stage has: a chirp of their own. All plans are exact."""
    eleven = Engine(shape=(11, 11))
    bounded = {m: plan("dft", (1067,), eleven.replace(max_remainder=m), axes=(-1,)) for m in (None, 97, 1)}
    assert bounded[97].method == "1067 = 11^1 x 97 digitally"
    assert bounded[None].method == "1067 = 11^1 x 97 with a chirp on 242"
    assert bounded[97].frames == 9 < bounded[None].frames < bounded[1].frames
    x = waves(2, 28)
    for most in (None, 7, 1):
        engine = FOUR.replace(max_remainder=most)
        y = counted("dft", x, engine=engine, axes=(-1,))
        np.testing.assert_allclose(y, np.fft.fft(np.asarray(x), norm="ortho"), atol=1e-5)
    assert plan("dft", (28,), FOUR.replace(max_remainder=1, lens="1d"), axes=(-1,)).digital_bytes == 0
    with pytest.raises(ValueError, match="max_remainder=0 must be at least 1, and whole"):
        FOUR.replace(max_remainder=0)


def test_inverse_and_other_axes() -> None:
    x = waves(3, 8, 5)
    y = counted("dft", x, engine=FOUR, inverse=True)
    np.testing.assert_allclose(y, np.fft.ifft2(np.asarray(x), norm="ortho"), atol=1e-5)
    y = counted("dft", x, engine=FOUR, axes=(2, 0))
    np.testing.assert_allclose(y, np.fft.fftn(np.asarray(x), axes=(2, 0), norm="ortho"), atol=1e-5)
    y = counted("dft", x, engine=FOUR, axes=(1,), inverse=True)
    np.testing.assert_allclose(y, np.fft.ifft(np.asarray(x), axis=1, norm="ortho"), atol=1e-5)
    y = counted("dft", x, engine=Engine(shape=(8, 5)), inverse=True)  # any aperture in one pass
    np.testing.assert_allclose(y, np.fft.ifft2(np.asarray(x), norm="ortho"), atol=1e-5)


def test_double_precision() -> None:
    with jax.enable_x64(True):
        draw = np.random.default_rng(0)
        z = draw.standard_normal((2, 8, 7)) * (1 + 2j)  # stages and chirps
        for x in (z, z.real):
            for prefer in PREFER:
                transform = jax.jit(partial(optical_dft, prefer=prefer), compiler_options=QUICK)
                y = transform(jnp.asarray(x), FOUR)
                np.testing.assert_allclose(y, np.fft.fft2(x, norm="ortho"), atol=1e-13)
        tokens, kernel = draw.standard_normal((3, 20)), draw.standard_normal((2, 3))
        tiled = jax.jit(optical_circular_correlate, compiler_options=QUICK)
        y = tiled(jnp.asarray(tokens), jnp.asarray(kernel), FOUR)
        rolled = np.stack([np.roll(tokens, -j, axis=1) for j in range(3)])
        np.testing.assert_allclose(y, np.einsum("hj,jbp->bhp", kernel, rolled), atol=1e-13)


@pytest.mark.parametrize("detection", ["field", "homodyne_re", "psi4"])
@pytest.mark.parametrize(
    ("shape", "prefer"),
    [
        ((3, 4, 4), "error"),
        ((2, 8, 6), "error"),
        ((2, 8, 6), "passes"),
        ((3, 6, 10), "passes"),  # rows of each
        ((5, 3), "error"),
        ((5, 3), "passes"),
        ((4, 4), "error"),
    ],
)
def test_fourier_mixing(shape: tuple, prefer: str, detection: str) -> None:
    x = normal(*shape)
    y = counted("fourier_mix", x, engine=FOUR.replace(detection=detection), prefer=prefer)
    np.testing.assert_allclose(y, mix(x), atol=1e-4)  # sums of up to 60 numbers


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(
    ("d", "shape", "taps", "side"),
    [
        (4, None, (3,), 4),  # one pass
        (11, None, (3,), 5),  # tiles
        (9, None, (9,), 4),  # stages
        (25, (5, 5), (3, 3), 5),  # the article's
        (42, (6, 7), (3, 2), 5),  # tiles on both axes
        (12, (4, 3), (4, 3), 4),
    ],
)
def test_correlation(d: int, shape: tuple | None, taps: tuple, side: int, boundary: str) -> None:
    x, kernel = normal(3, d), normal(2, *taps, seed=1)
    options = {"shape": shape, "boundary": boundary}
    y = counted("circular_correlate", x, kernel, engine=Engine(shape=(side, side)), **options)
    np.testing.assert_allclose(y, correlate(x, kernel, **options), atol=3e-5)


@pytest.mark.parametrize("prefer", PREFER)
def test_correlation_in_rows_and_columns(prefer: str) -> None:
    x, kernel = normal(3, 70), normal(2, 5, 6, seed=1)  # kernels larger than the aperture
    options = {"shape": (7, 10), "prefer": prefer}
    y = counted("circular_correlate", x, kernel, engine=FOUR, **options)
    np.testing.assert_allclose(y, correlate(x, kernel, shape=(7, 10)), atol=1e-4)
    passes = [
        plan("circular_correlate", x.shape, FOUR, kernel=kernel.shape, shape=(7, 10), prefer=name).passes
        for name in PREFER
    ]
    assert passes[1] < passes[0]


def test_a_correlation_needs_the_whole_field() -> None:
    x, kernel = normal(4, 16), normal(2, 4, 4, seed=1)
    real, whole = (FOUR.replace(detection=name) for name in ("homodyne_re", "hybrid90"))
    y = counted("circular_correlate", x, kernel, engine=real, shape=(4, 4))
    np.testing.assert_allclose(y, correlate(x, kernel, shape=(4, 4)), atol=3e-5)
    planned = [plan("circular_correlate", (4, 16), e, kernel=(2, 4, 4), shape=(4, 4)) for e in (real, whole)]
    assert planned[0] == planned[1]


@pytest.mark.parametrize("dc_block", [False, True])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_second_bank_of_modulators(boundary: str, dc_block: bool) -> None:
    x, kernel = normal(2, 3, 24) + 1, normal(2, 3, 2, seed=1)
    options = {"shape": (4, 6), "boundary": boundary}
    engine = Engine(shape=(5, 5), dc_block=dc_block)
    y = counted("circular_correlate", x, kernel, engine=engine, multiply="modulator", **options)
    np.testing.assert_allclose(y, correlate(x, kernel, **options), atol=5e-5)


def test_second_bank_has_levels_of_its_own() -> None:
    """Two roundings of equal strength: 3 dB. 3,200 numbers know each level to 0.1 dB."""
    x, bank = (jnp.exp(1j * normal(200, 4, 4, seed=i).astype(jnp.complex64)) for i in (0, 1))
    engine = FOUR.replace(dac_bits_phase=6)
    both = snr(dft(x, engine, factor=bank), exact(x * bank))
    assert abs(snr(dft(x, engine), exact(x)) - both - 3.01) < 0.4


def test_one_transform_serves_all_kernels_and_two_vectors() -> None:
    eleven = made(shape=(11, 11), detection="psi4", averages=2)
    options = {"kernel": (8, 11, 11), "shape": (11, 11)}
    planned = plan("circular_correlate", (64, 121), eleven, **options)
    assert planned.frames == 32 * (1 + 8)
    assert planned.passes == 8 * planned.frames
    five = plan("circular_correlate", (1, 25), Engine(shape=(5, 5)), kernel=(1, 3, 3), shape=(5, 5))
    assert five.frames == 2


def test_golden_frames() -> None:
    assert plan("dft", (121, 121), Engine(shape=(11, 11))).frames == 242
    assert plan("dft", (512, 768), Engine(shape=(16, 16))).frames == 3072
    assert plan("dft", (512, 768), Engine(shape=(11, 11))).frames == 2 * 3 * 29_282
    assert plan("fourier_mix", (2, 121, 121), Engine(shape=(11, 11))).frames == 242  # two share a pass
    assert plan("fourier_mix", (3, 121, 121), Engine(shape=(11, 11))).frames == 484


# of 11 x 11 pixels: together, and rows then columns
@pytest.mark.parametrize(
    ("sizes", "together", "apart"),
    [
        ((256, 64), 15_972, 6_272),
        ((512, 128), 23_958, 14_592),
        ((64, 64), 1_936, 1_024),
        ((100, 37), 968, 696),
        ((121, 121), 242, 242),  # without chirps there is nothing to save
    ],
)
def test_golden_passes(sizes: tuple, together: int, apart: int) -> None:
    eleven = Engine(shape=(11, 11))
    plans = [plan("dft", sizes, eleven, prefer=prefer) for prefer in PREFER]
    assert [planned.passes for planned in plans] == [together, apart]
    assert [plan("fourier_mix", (2, *sizes), eleven, prefer=p).passes for p in PREFER] == [together, apart]
    half = plan("dft", sizes, eleven, prefer="passes", real=True).passes
    assert apart / 2 <= half <= (0.52 * apart if together > apart else apart)
    assert plan("fourier_mix", (1, *sizes), eleven, prefer="passes").passes == half
    three = plan("fourier_mix", (3, *sizes), eleven, prefer="passes").passes
    assert three == min(3 * half, 2 * apart)  # each by itself, or in two pairs, one of them with zeros


def test_frames_follow_from_their_definition() -> None:
    """Stages of each axis by trial division; an axis of L points, P vectors: ceil(L P / N^2) frames each."""

    def axis(n: int, side: int) -> tuple[int, int, int]:
        """Points, stages, and how often: a chirp takes them twice."""
        for r in range(1, n + 1):
            for s in range(1, 12):
                if n == r * side**s and r % side:
                    return n, s, 1
        chirps = ((r * side**s, s) for r in (1, 2, 3) for s in range(1, 12))
        return (*min((length, s) for length, s in chirps if length >= 2 * n - 1), 2)

    draw = np.random.default_rng(0)
    for n1, n2, side, count in draw.integers((2, 2, 4, 1), (400, 400, 20, 9), (40, 4)).tolist():
        engine, shape = Engine(shape=(side, side), max_remainder=400), (count, n1, n2)
        if (n1, n2) == (side, side):
            continue
        (l1, s1, t1), (l2, s2, t2) = axis(n1, side), axis(n2, side)
        lots = max(s1, s2) + max(s * (t - 1) for s, t in ((s1, t1), (s2, t2)))
        together = lots * -(-count * l1 * l2 // side**2)
        assert plan("dft", shape, engine).frames == together
        rows, columns = -(-count * n1 * l2 // side**2), -(-count * l1 * n2 // side**2)
        assert plan("dft", shape, engine, prefer="passes").frames == min(
            together, s1 * t1 * columns + s2 * t2 * rows
        )


def test_large_sizes_are_planned_at_once() -> None:
    """Counted, not timed: lines that are run, and bytes, are far fewer than the passes."""
    lines, before = 0, sys.gettrace()

    def count(frame: types.FrameType, event: str, argument: object) -> Callable | None:
        nonlocal lines
        lines += event == "line"
        return count

    for prefer in PREFER:
        engine, lines = Engine(shape=(11, 11)), 0
        tracemalloc.start()
        sys.settrace(count)
        try:
            planned = plan("dft", (4096, 4096), engine, prefer=prefer)
        finally:
            sys.settrace(before)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert planned.passes > 10**6
        assert 0 < lines < 10**5
        assert most < 10**6


def test_golden_factors() -> None:
    sizes = (121, 125, 128, 256, 512, 768, 1331)
    golden = {
        5: "0,121 3,1 0,128 0,256 0,512 0,768 0,1331",
        8: "0,121 0,125 2,2 2,4 3,1 2,12 0,1331",
        11: "2,1 0,125 0,128 0,256 0,512 0,768 3,1",
        16: "0,121 0,125 1,8 2,1 2,2 2,3 0,1331",
        32: "0,121 0,125 1,4 1,8 1,16 1,24 0,1331",
    }
    for side, words in golden.items():
        assert [split(n, side) for n in sizes] == [tuple(map(int, w.split(","))) for w in words.split()]


@pytest.mark.slow
def test_errors_of_stages_add() -> None:
    """Noise of equal strength in each of s stages: 10 log10 s dB. 24,000 numbers know a level to 0.05 dB."""
    engine, levels = FOUR.replace(amp_noise_rms=0.01), {}
    for n, batch in ((4, 1500), (16, 100), (64, 6)):
        x = waves(batch, n, n)
        y = jax.jit(partial(optical_dft, engine=engine), compiler_options=QUICK)(x, key=KEY)
        levels[n] = snr(y, np.fft.fft2(np.asarray(x), norm="ortho"))
    assert abs(levels[4] - 40) < 0.2
    assert abs(levels[4] - levels[16] - 10 * math.log10(2)) < 0.3
    assert abs(levels[4] - levels[64] - 10 * math.log10(3)) < 0.3


def test_fewer_passes_cost_error() -> None:
    """Equal noise in eight stages instead of four makes 3.0 dB; with what chirps leave out, 4.6 dB.

    Noise of a chirp's stage is spread over all L points, what is transformed over 2 n - 1 of them: of the
    points that are kept, noise is (2 n - 1) / L of what it was. Together, each of four stages has it on both
    axes; apart, four stages have it on either. 3,700 complex numbers know a level to 0.07 dB.
    """
    x = waves(1, 100, 37)
    together, apart = stage_errors(made(shape=(11, 11), amp_noise_rms=0.01), x)
    columns, rows = 199 / 242, 73 / 121
    shares = (4 * columns + 4 * rows) / (4 * columns * rows)
    assert 10 * math.log10(8 / 4) - 0.2 < decibel(apart / together) < 10 * math.log10(shares) + 0.2


@pytest.mark.slow
def test_what_fewer_passes_cost_of_the_chip() -> None:
    """Its errors add: the leak, which does not count the stages, and noise and pattern, which do.

    Where nothing is written, the leak is: in the points that a chirp adds. Together has them on both axes,
    so that apart gains there what its stages lose. Powers of parts are differences; they are known to 0.4 dB.
    """
    x, none = waves(1, 100, 37), 1e-9
    still = dict.fromkeys(("phase_noise_rms", "drive_noise_rms", "power_drift_rms"), none)
    still |= {"rin_db_hz": -300.0, "tia_noise": 1e-30}
    plain = {"static_phase_rms": none, "static_gain_rms": none, "crosstalk_db": -300.0}
    chip = preset("chip_11x11")
    whole, moving, fixed, leak = (
        stage_errors(chip.replace(**changes), x) for changes in ({}, plain, still, still | plain)
    )
    np.testing.assert_allclose(moving + fixed - leak, whole, rtol=0.05)
    assert abs(decibel(leak[1] / leak[0])) < 1
    for part in (moving - leak, fixed - leak):
        assert abs(decibel(part[1] / part[0]) - 10 * math.log10(8 / 4)) < 0.8
    share = 1 - leak[0] / whole[0]  # of what counts the stages
    assert abs(decibel(whole[1] / whole[0]) - decibel(1 + share)) < 0.4


@partial(jax.jit, static_argnames="prefer", compiler_options=QUICK)
def transformed(x: jax.Array, engine: Engine, prefer: str) -> jax.Array:
    return optical_dft(x, engine, KEY, prefer=prefer)


def stage_errors(engine: Engine, x: jax.Array) -> np.ndarray:
    """Power of the error over that of the signal, together and apart."""
    return np.array([10 ** (-snr(transformed(x, engine, prefer), exact(x)) / 10) for prefer in PREFER])


def test_a_study_of_plans(tmp_path: Path) -> None:
    out = tmp_path / "plans-chip.json"
    words = ["--engine=ideal", "--sizes=7x4,11x11", "--averages=1"]
    code, said, err = run_here(plans, *words, f"--out={out}")
    assert (code, err) == (0, "")
    rows = json.loads(out.read_text())["rows"]
    assert [(row["size"], row["prefer"]) for row in rows] == [
        (size, prefer) for size in ("7 x 4", "11 x 11") for prefer in PREFER
    ]
    for row in rows:
        size = tuple(int(n) for n in row["size"].split(" x "))
        planned = plan("dft", size, preset("ideal"), prefer=row["prefer"])
        assert (row["passes"], row["stages"]) == (planned.passes, planned.stages)
        assert f"{row['passes']} passes" in said
        assert math.isfinite(row["snr_db"])
    (tmp_path / "results").mkdir()
    out.rename(tmp_path / "results" / out.name)
    text = plan_table(Results(tmp_path), "plans-chip")
    first = [row for row in rows if row["size"] == "7 x 4"]
    cells = [f"{row['passes']:,} | {row['stages']} | {row['snr_db']:.1f}" for row in first]
    assert f"| 7 x 4 | 1 | {cells[0]} | {cells[1]} |" in text


@pytest.mark.parametrize("words", ["--sizes=3", "--sizes=0x3", "--averages=0", "--engine=bogus"])
def test_a_study_of_plans_that_cannot_be(words: str) -> None:
    code, _, err = run_here(plans, words)
    assert code == 2
    assert err.count("\n") == 1
    assert words.partition("=")[2] in err


@pytest.mark.slow
def test_static_errors_of_stages_add_too() -> None:
    """Between the law of independent errors, -10 log10 s, and the worst case, all in phase, -20 log10 s."""
    found = []
    for s in (1, 2, 3):
        x = waves(2, 4**s, 4**s)
        devices = [FOUR.replace(static_phase_rms=0.03, seed=seed) for seed in range(6)]
        noise = [10 ** (-snr(optical_dft(x, engine), exact(x)) / 10) for engine in devices]
        found.append(10 * math.log10(np.mean(noise)))
    for s, level in zip((2, 3), found[1:], strict=True):
        assert 10 * math.log10(s) - 1 < level - found[0] < 20 * math.log10(s) + 1


def test_stages_draw_noise_of_their_own() -> None:
    x, engine = normal(2, 9), FOUR.replace(phase_noise_rms=0.05)
    run = jax.jit(lambda key: optical_circular_correlate(x, x[:, :3], engine, key), compiler_options=QUICK)
    y = run(KEY)
    np.testing.assert_array_equal(y, run(KEY))
    assert np.abs(y - run(jax.random.key(1))).min() > 0


@pytest.mark.parametrize(
    ("engine", "shape", "message"),
    [
        (Engine(shape=(4, 5)), (8, 10), r"aperture \(4, 5\) must be square"),
        (Engine(shape=(1, 1)), (3, 3), "2 x 2 at least"),
        (FOUR, (0, 4), "must all be at least 1"),
        (FOUR.replace(detection="intensity"), (8, 8), "loses the phase"),
        (FOUR.replace(centered=True), (4, 4), "need centered=False"),
        (FOUR.replace(lens="1d"), (4, 4), "two axes lens='2d'"),
        (FOUR.replace(encode="signed"), (8, 8), "stages encode='complex'"),
    ],
)
def test_sizes_that_no_plan_covers(engine: Engine, shape: tuple, message: str) -> None:
    x = jnp.zeros(shape)
    with pytest.raises(ValueError, match=message):
        optical_dft(x, engine)
    with pytest.raises(ValueError, match=message):
        plan("dft", shape, engine)


def test_bad_operations() -> None:
    x, kernel = normal(2, 8), normal(2, 3)
    with pytest.raises(ValueError, match="pass key="):
        optical_dft(x, FOUR.replace(phase_noise_rms=0.1))
    for axes in ((0, 1, 1), (1, -1), (), (0, 2)):
        with pytest.raises(ValueError, match="or two different ones"):
            optical_dft(x, FOUR, axes=axes)
        with pytest.raises(ValueError, match="or two different ones"):
            plan("dft", x.shape, FOUR, axes=axes)
    with pytest.raises(ValueError, match=r"aperture \(1, 1\) must be square, 2 x 2 at least"):
        plan("circular_correlate", (2, 5), Engine(shape=(1, 1)), kernel=(1, 1))
    for call in (optical_dft, optical_fourier_mix, partial(plan, "dft")):
        with pytest.raises(ValueError, match="prefer='speed' is unknown; choose one of error, passes"):
            call(x.shape if isinstance(call, partial) else x, FOUR, prefer="speed")
    with pytest.raises(ValueError, match="prefer='speed' is unknown"):
        optical_circular_correlate(x, kernel, FOUR, prefer="speed")
    with pytest.raises(ValueError, match="operation='fft' is unknown"):
        plan("fft", (4, 4), FOUR)
    with pytest.raises(ValueError, match="multiply='optical' is unknown"):
        optical_circular_correlate(x, kernel, FOUR, multiply="optical")
    with pytest.raises(ValueError, match="r must lie between 1 and d"):
        optical_circular_correlate(x[:, :2], kernel, FOUR)
    with pytest.raises(ValueError, match="needs frames of the aperture"):
        optical_circular_correlate(x, kernel, FOUR, multiply="modulator")
    with pytest.raises(ValueError, match="r must lie between 1 and d"):
        plan("circular_correlate", (2, 2), FOUR, kernel=(2, 3))
    for power in ("intensity", "amplitude"):
        engine = FOUR.replace(detection=power)
        with pytest.raises(ValueError, match="loses the phase"):
            optical_circular_correlate(normal(1, 16), normal(1, 2, 2), engine, shape=(4, 4))
        with pytest.raises(ValueError, match="loses the phase"):
            optical_fourier_mix(normal(4, 4), engine)
        with pytest.raises(ValueError, match="loses the phase"):
            plan("fourier_mix", (4, 4), engine)


@pytest.mark.parametrize("detection", ["hybrid90", "homodyne_re"])
def test_an_empty_batch_gives_an_empty_result(detection: str) -> None:
    e = made(shape=(5, 5), detection=detection)
    x, w = jnp.zeros((0, 5, 5)), jnp.ones((2, 3, 3))
    y, full = optical_dft(x, e), optical_dft(jnp.zeros((1, 5, 5)), e)
    assert (y.shape, y.dtype) == ((0, 5, 5), full.dtype)
    assert optical_dft(jnp.zeros((0, 7)), e, axes=(-1,)).shape == (0, 7)
    assert optical_fourier_mix(x, e).shape == (0, 5, 5)
    for boundary in ("circular", "valid"):
        one = optical_circular_correlate(jnp.zeros((1, 25)), w, e, shape=(5, 5), boundary=boundary)
        none = optical_circular_correlate(jnp.zeros((0, 25)), w, e, shape=(5, 5), boundary=boundary)
        assert none.shape == (0, *one.shape[1:])
    table = jnp.ones((3, 4, 2))
    assert optical_position_lambda(jnp.zeros((0, 5, 2, 4)), jnp.zeros((0, 5, 3, 2)), table, e).shape == (
        0,
        5,
        2,
        3,
    )
    none = jnp.zeros((1, 0, 2, 4))
    for call, name in (
        (lambda: optical_dft(jnp.zeros((2, 0, 5)), e), "x"),
        (lambda: optical_fourier_mix(jnp.zeros((2, 0, 5)), e), "x"),
        (lambda: optical_circular_correlate(jnp.zeros((2, 0)), jnp.ones((2, 1)), e), "x"),
        (lambda: optical_position_lambda(none, none, jnp.ones((3, 4, 4)), e), "query"),
    ):
        with pytest.raises(ValueError, match=rf"{name} of shape .* must all be at least 1; only the batch"):
            call()
