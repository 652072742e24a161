"""Functions on an engine: every kind of call site, every control flow, rules, noise, refusals."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.scipy.sparse.linalg import cg

from fourier_attn import config
from fourier_attn.layers.global_filter import GlobalFilter
from fourier_attn.layers.long_conv import LongConvolution
from fourier_attn.ops.circular import circular_correlate
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.optics import (
    Engine,
    Rule,
    calibrate_ranges,
    components,
    cost,
    optical_circular_correlate,
    optical_fourier_mix,
    plan,
    preset,
    report,
    through,
)
from fourier_attn.optics.programs.call_sites import dft_scale
from fourier_attn.optics.programs.rules import as_rules
from fourier_attn.optics.programs.through import trace
from fourier_attn.studies.engine.workload import work

SMALL = Engine(shape=(4, 4))  # so small that stages, tiles and chirps are needed
fft, ifft = jnp.fft.fft, jnp.fft.ifft


def filtered(x: Any, factor: Any = 1.0) -> Any:
    return ifft(fft(x) * 0.5).real * factor


def half_spectrum(x: Any) -> Any:  # not the spectrum of any real array
    return jax.lax.complex(x, normal(*x.shape, seed=3))


def convolution(*layout: str, padding: Any = "SAME", stride: int = 1, **more: Any) -> Callable[..., Any]:
    lhs, rhs, out = layout
    return lambda x, kernel: jax.lax.conv_general_dilated(
        x, kernel, (stride,) * (len(lhs) - 2), padding, dimension_numbers=(lhs, rhs, out), **more
    )


FUNCTIONS = {
    "fft": (fft, [(3, 7)]),
    "ifft": (ifft, [(3, 7)]),
    "two axes apart": (partial(jnp.fft.fft2, axes=(0, 2)), [(3, 7, 5)]),
    "three axes": (jnp.fft.fftn, [(3, 7, 5)]),
    "rfft": (jnp.fft.rfft, [(3, 7)]),
    "rfft of three axes": (partial(jnp.fft.rfftn, axes=(1, 2, 3)), [(3, 4, 7, 6)]),
    "irfft, even": (lambda x: jnp.fft.irfft2(half_spectrum(x), s=(7, 8)), [(3, 7, 5)]),
    "irfft, odd": (lambda x: jnp.fft.irfft2(half_spectrum(x), s=(7, 9)), [(3, 7, 5)]),
    "images": (convolution("NCHW", "OIHW", "NCHW"), [(2, 3, 9, 8), (4, 3, 3, 3)]),
    "images, strided and dilated": (
        convolution("NHWC", "HWIO", "NHWC", padding="VALID", stride=2, rhs_dilation=(2, 1)),
        [(2, 9, 8, 3), (3, 2, 3, 4)],
    ),
    "signals, cut and padded": (
        convolution("NWC", "WIO", "NWC", padding=((-1, 3),)),
        [(3, 20, 3), (9, 3, 2)],
    ),
    "signals, each with its kernel": (
        convolution("NWC", "WIO", "NWC", feature_group_count=6),
        [(2, 30, 6), (3, 1, 12)],
    ),
    "scan": (
        lambda x, rows: jax.lax.scan(lambda x, row: (filtered(x, row), x), x, rows),
        [(2, 5), (3, 1, 1)],
    ),
    "cond": (lambda x: jax.lax.cond(x[0, 0] > 9, lambda x: x, filtered, x), [(2, 5)]),
    "checkpoint": (jax.checkpoint(lambda x: jnp.sin(filtered(x))), [(2, 5)]),
    "vmap": (jax.vmap(filtered), [(2, 5)]),
    "jit": (jax.jit(lambda x: filtered(filtered(x))), [(2, 5)]),
    "custom_vjp and custom_partitioning": (partial(fourier_mix, method="rfft"), [(3, 6, 8)]),
    "linear solver with a while loop": (lambda b: cg(partial(filtered, factor=4.0), b)[0], [(2, 8)]),
}
SLOW = ("three axes", "rfft of three axes", "images, strided and dilated", "signals, cut and padded")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in FUNCTIONS]
)
def test_an_ideal_engine_gives_results_and_derivatives_of_the_function(name: str) -> None:
    f, shapes = FUNCTIONS[name]
    args = [normal(*shape, seed=seed) for seed, shape in enumerate(shapes)]

    def loss(f: Callable[..., Any], *args: Any) -> Any:
        y = f(*args)
        return sum(jnp.sum(jnp.sin(part.real) + part.imag**2) for part in jax.tree.leaves(y)), y

    derived = [
        jax.value_and_grad(partial(loss, f), range(len(args)), has_aux=True)(*args)
        for f in (f, jax.jit(through(f, SMALL)))
    ]
    for exact, light in zip(*map(jax.tree.leaves, derived), strict=True):
        np.testing.assert_allclose(light, exact, atol=1e-5 * float(jnp.abs(exact).max()))


def test_a_while_loop_and_forward_mode() -> None:
    def f(x: Any) -> Any:
        return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, filtered(s[1])), (0, x))[1]

    x = normal(2, 5)
    np.testing.assert_allclose(through(f, SMALL)(x), f(x), atol=1e-6)
    np.testing.assert_allclose(jax.jvp(through(f, SMALL), (x,), (x,))[1], x / 8, atol=1e-6)


def test_rules_of_derivatives_are_kept_or_not() -> None:
    """A rule that is not the derivative, as of a straight-through estimator."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return fft(x).real

    f.defvjp(lambda x: (f(x), None), lambda _, g: (-7 * g,))
    x = normal(2, 5)

    def derivative(**options: Any) -> Any:
        return jax.grad(lambda x: through(f, SMALL, **options)(x).sum())(x)

    np.testing.assert_allclose(derivative(), -7 * jnp.ones_like(x))
    true = jax.grad(lambda x: fft(x).real.sum())(x)
    np.testing.assert_allclose(derivative(custom_derivatives="inline"), true, atol=1e-6)


def test_call_sites_are_described() -> None:
    def net(weights: Any, x: Any) -> Any:
        with jax.named_scope("block_1"):
            spectrum = jnp.fft.rfft(weights["kernel"], 8)
        y = jax.lax.scan(
            lambda x, _: (jnp.fft.irfft(jnp.fft.rfft(x) * spectrum[None, None]), None), x, None, length=3
        )[0]
        return fourier_mix(y)

    args = ({"kernel": normal(3)}, normal(2, 4, 8))
    sites = [choice.site for choice in trace(net, args, {}, as_rules(SMALL, ())).choices]
    assert [site.label for site in sites] == ["0 rfft 8", "1 rfft 8", "2 irfft 8", "3 rfft 4 x 8"]
    assert [site.arrays for site in sites] == [1, 8, 8, 2]
    assert [site.repeats for site in sites] == [1, 3, 3, 1]
    assert [set(site.arguments) for site in sites] == [{0}, {1, 0}, {0, 1}, {0, 1}]
    assert "block_1" in sites[0].scope
    assert "test_programs.py" in sites[0].line
    chosen = trace(net, args, {}, as_rules(SMALL, ()), frozenset({1})).choices
    assert [choice.why for choice in chosen] == ["depends on no argument of argnums", "", "", ""]


def test_rules_say_what_goes_where() -> None:
    """A noisy engine shows which call sites it computed."""

    def f(x: Any) -> tuple[Any, ...]:
        with jax.named_scope("first"):
            y = fft(x)
        with jax.named_scope("second"):
            return y, fft(x), jnp.fft.fft2(x)

    x, key = normal(3, 16), jax.random.key(0)

    def changed(*rules: Rule) -> list[bool]:
        results = through(f, "chip_11x11", key=key, rules=rules)(x)
        return [bool((y != z).any()) for y, z in zip(jax.jit(f)(x), results, strict=True)]

    assert changed(Rule("chip_11x11", scope="second"), Rule(None)) == [False, True, True]
    assert changed(Rule(None, sites=(1, 2))) == [True, False, False]
    assert changed(Rule(None, smallest=17)) == [True, True, False]
    assert changed(Rule(None, largest=16)) == [False, False, True]
    assert changed(Rule(None, kinds=("fft",), sites=(0,))) == [False, True, True]


@pytest.mark.parametrize("norm", ["backward", "ortho", "inverse"])
def test_products_with_a_dft_matrix_are_transforms_by_a_rule(norm: Any) -> None:
    """On either side of the product, and inside a compiled function."""
    n = 6
    matrix = np.fft.ifft(np.eye(n)) if norm == "inverse" else np.fft.fft(np.eye(n), norm=norm)
    matrix = jnp.asarray(matrix, jnp.complex64)

    @jax.jit
    def f(x: Any) -> tuple[Any, ...]:
        return jnp.einsum("bij,jk->bik", x, matrix), jnp.tensordot(matrix, x, ((0,), (1,))), x @ x

    x = jax.lax.complex(normal(2, n, n), normal(2, n, n, seed=1))
    rules = (Rule(SMALL, kinds=("matrix",)),)
    for y, exact in zip(through(f, SMALL, rules=rules)(x), f(x), strict=True):
        np.testing.assert_allclose(y, exact, atol=1e-5)
    noisy = through(f, "chip_11x11", key=jax.random.key(0), rules=(Rule("chip_11x11", kinds=("matrix",)),))(x)
    changed = [bool((y != exact).any()) for y, exact in zip(noisy, f(x), strict=True)]
    assert changed == [True, True, False]
    with pytest.raises(ValueError, match=r"can go to the engine \(0 matrix 6: a product with a DFT matrix"):
        through(f, SMALL)(x)
    assert dft_scale(np.fft.fft(np.eye(n))[::-1]) is None


def test_noise_has_a_key_for_each_call_site_and_step() -> None:
    def f(x: Any) -> Any:
        steps = jax.lax.scan(lambda c, _: (c, jnp.fft.fft2(x).real), 0.0, None, length=2)[1]
        return jnp.stack([*steps, jnp.fft.fft2(x).real])

    light = partial(through, f, preset("chip_11x11"))
    x, keys = normal(11, 11), jax.random.split(jax.random.key(0))
    y = light(key=keys[0])(x)
    pairs = [(y[0], y[1]), (y[0], y[2]), (y[1], y[2]), (y[0], light(key=keys[1])(x)[0])]
    assert all((one != other).mean() > 0.5 for one, other in pairs)
    np.testing.assert_array_equal(y, light(key=keys[0])(x))
    both = jax.vmap(lambda key: light(key=key)(x))(keys)
    np.testing.assert_allclose(both[0], y, atol=1e-4)


@pytest.mark.parametrize(
    ("f", "options", "message"),
    [
        (jnp.sin, {}, "has no transform and no convolution; call it"),
        (fft, {"engine": "chip_11x11"}, "this engine is noisy: pass key="),
        (fft, {"rules": (Rule(None, scope="nowhere"), Rule(None))}, r"Rule\(scope='nowhere'\) names none"),
        (fft, {"rules": (Rule(None),)}, "can go to the engine .0 fft 6: by a rule."),
        (fft, {"rules": ("block_1",)}, "rules has 'block_1'; give optics.Rule"),
        (fft, {"ranges": {"0 fft 9": {"adc": 1.0}}}, "call sites '0 fft 9', which this function does not"),
        (
            fft,
            {"engine": Engine(shape=(4, 4)).replace(adc_range="calibrated")},
            "no ranges for its conv.* adc",
        ),
        (fft, {"engine": Engine(shape=(4, 3))}, "0 fft 6: aperture .4, 3. must be square"),
        (fft, {"engine": SMALL.replace(detection="intensity")}, "'intensity' loses the phase"),
        (fft, {"custom_derivatives": "no"}, "custom_derivatives='no' is unknown"),
        (fft, {"engine": "chip"}, "chip"),
    ],
)
def test_what_cannot_be_is_refused(f: Any, options: dict[str, Any], message: str) -> None:
    engine = options.pop("engine", SMALL)
    with pytest.raises(ValueError, match=message):
        through(f, engine, **options)(normal(2, 6))


def test_a_rule_by_number_is_not_ignored() -> None:
    engine = Engine(shape=(4, 3))
    with pytest.raises(ValueError, match="call site 0 fft 6 at .* cannot go to the engine: aperture"):
        through(fft, SMALL, rules=(Rule(engine, sites=(0,)),))(normal(2, 6))
    with pytest.raises(ValueError, match="scope='.' is not a regular expression"):
        Rule(None, scope="(")


def test_reports_count_passes_work_and_shares() -> None:
    """Against the plan of each operation, and prices by hand."""

    def net(w: Any, x: Any) -> Any:
        def step(x: Any, _: None) -> tuple[Any, None]:
            return jnp.fft.irfft(jnp.fft.rfft(x), n=121) @ w, None

        return jnp.fft.fft2(jax.lax.scan(step, x, None, length=3)[0])

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((121, 121), (2, 121, 121))]
    engine = preset("chip_11x11")
    found = report(net, shapes, engine, rules=(Rule(None, kinds=("irfft",)),))
    one, two, three = found.rows
    halved = plan("dft", (121, 121), engine, axes=(-1,))  # 242 real arrays in pairs
    assert (one.passes, one.stages) == (3 * halved.passes, 3 * halved.stages)
    assert (two.passes, two.why, two.seconds) == (0, "by a rule", {})
    assert three.passes == plan("dft", (2, 121, 121), engine).passes
    prices = components.prices()
    points = 2 * 121 * 121
    transform_s = 16 * points / prices["gpu.bytes_per_s"]  # limited by memory, as the product is
    product_s = 4 * (2 * points + 121 * 121) / prices["gpu.bytes_per_s"]
    np.testing.assert_allclose([one.electronic_s, three.electronic_s], [1.5 * transform_s, transform_s])
    share = 2.5 * transform_s / (4 * transform_s + 3 * product_s)
    np.testing.assert_allclose(found.share, share)
    np.testing.assert_allclose(found.bound, 1 / (1 - share))
    seconds = found.total("seconds")["typical"]
    np.testing.assert_allclose(found.speedup(), 1 / (1 - share + share * seconds / (2.5 * transform_s)))
    joules = cost.energy(
        engine, prices=components.prices("high"), **plan("dft", (2, 121, 121), engine).load()
    )
    assert three.joules["high"] == joules.total
    assert "exact: by a rule" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["rows"][2]["passes"] == three.passes
    assert len(found.plot().axes) == 2


def test_mixers_through_an_engine_take_the_passes_of_their_optical_operations() -> None:
    """And their error, with all effects of the preset."""
    chip, key, grid = preset("chip_11x11"), jax.random.key(0), {"shape": (11, 11)}
    small, tokens = chip.replace(shape=(8, 8)), normal(3, 64, 8)
    x, w = normal(4, 121), normal(2, 6, 6, seed=1)
    cases = [
        (partial(fourier_mix, method="rfft"), optical_fourier_mix, (tokens,), small, {}),
        (partial(circular_correlate, method="fft", **grid), optical_circular_correlate, (x, w), chip, grid),
    ]
    for f, optical, args, engine, more in cases:
        kernel = {"kernel": args[1].shape} if len(args) > 1 else {}
        counted = plan(optical.__name__.removeprefix("optical_"), args[0].shape, engine, **kernel, **more)
        assert sum(row.passes for row in report(f, args, engine, argnums=0).rows) == counted.passes
        exact = f(*args)
        one = optical(*args, engine, key, **more) - exact
        other = through(f, engine, key=key, argnums=0)(*args) - exact
        assert abs(20 * np.log10(jnp.linalg.norm(one) / jnp.linalg.norm(other))) < 1  # dB


@pytest.mark.parametrize(("name", "sizes"), [("global_filter", (22,)), ("afno", (22,)), ("long_conv", (45,))])
def test_the_work_of_a_mixer_is_that_of_its_call_sites(name: str, sizes: tuple[int, ...]) -> None:
    """Of the tokens' signals in pairs, forth and back; the filter of long_conv is computed once."""
    fields = config.default(name, engine="chip_11x11").model.mixer.to_dict()
    job = work(fields | {"length": 22} if "length" in fields else fields, 2, 22, 8)
    assert job is not None
    assert job.arrays == [(2, 8, *sizes)]
    once = plan("dft", (8, *sizes), preset("chip_11x11"), axes=(-1,))
    assert job.plan(preset("chip_11x11")).frames == 2 * once.frames


@pytest.mark.parametrize(("speedup", "share"), [(45.3, 0.97792), (159.4, 0.99373), (1.94, 0.48454)])
def test_a_measured_share_gives_the_published_bound(speedup: float, share: float) -> None:
    """Meech et al., arXiv 2308.01719: pure Fourier transform, pure convolution, and the median program."""
    found = report(fft, (normal(2, 6),), SMALL, share=share)
    np.testing.assert_allclose(found.bound, speedup, rtol=2e-3)
    assert found.measured
    assert found.total("joules") == {}
    assert "no energy without converters" in str(found)


def test_calibrated_ranges_are_those_of_each_call_site() -> None:
    """Second site: 16 times the amplitude of the first. The static range is as good as the automatic one."""

    def f(x: Any) -> Any:
        y = jnp.fft.fft2(x)
        return y, jnp.fft.fft2(x * 16)

    engine = preset("chip_11x11").replace(adc_range="calibrated", dac_range="calibrated")
    x, key = normal(16, 11, 11), jax.random.key(0)
    ranges = calibrate_ranges(f, [(x[:8],), (x[8:],)], engine, key=key)
    first, second = ranges["0 fft 11 x 11"], ranges["1 fft 11 x 11"]
    np.testing.assert_allclose(second["dac"], 16 * first["dac"], rtol=0.02)
    np.testing.assert_allclose(second["adc"], first["adc"], rtol=0.1)  # in units of the written amplitude

    def error(engine: Engine, **options: Any) -> float:
        y = jax.jit(through(f, engine, key=key, **options))(x)[0]
        return float(jnp.linalg.norm(y - f(x)[0]))

    assert error(engine, ranges=ranges) < 1.3 * error(preset("chip_11x11").replace(adc_range="auto"))
    with pytest.raises(ValueError, match="no ranges for its converters dac, adc; pass ranges="):
        error(engine)
    with pytest.raises(ValueError, match="batches is empty"):
        calibrate_ranges(f, [], engine, key=key)
    with pytest.raises(ValueError, match="no converter of the engine has a calibrated range; set dac_range="):
        calibrate_ranges(f, [(x,)], "chip_11x11", key=key)
    with pytest.raises(ValueError, match=r"share=1.5 must be at least 0 and at most 1"):
        report(f, (x,), "chip_11x11", share=1.5)
    with pytest.raises(ValueError, match="nothing to report"):
        report(jnp.sin, (x,), "chip_11x11")


def test_noise_in_loops_reaches_functions_with_rules_of_their_own() -> None:
    """The key of a step is a traced value there."""

    def f(x: Any) -> Any:
        step = partial(fourier_mix, method="rfft")
        return jax.lax.scan(lambda x, _: (step(x) / 9, None), x, None, length=2)[0].sum()

    light = through(f, "chip_11x11", key=jax.random.key(0))
    x = normal(2, 3, 4)
    np.testing.assert_allclose(jax.grad(light)(x), jax.grad(f)(x), rtol=1e-4)
    w = jnp.ones(())

    def closed(w: Any, x: Any) -> Any:
        @jax.custom_vjp
        def inner(x: Any) -> Any:
            return fft(x).real * w

        inner.defvjp(lambda x: (inner(x), None), lambda _, g: (g,))
        return inner(x).sum()

    np.testing.assert_allclose(through(closed, SMALL)(w, x), closed(w, x), rtol=1e-5)
    with pytest.raises(
        ValueError, match="closes over a value that is differentiated; pass it as an argument"
    ):
        jax.grad(through(closed, SMALL))(w, x)


@pytest.mark.parametrize("dtype", [jnp.int16, jnp.complex64])
def test_convolutions_of_other_numbers_stay_exact(dtype: Any) -> None:
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape in ((1, 1, 9), (1, 1, 3))]

    def f(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(x, kernel, (1,), "SAME"), fft(x[0].real.astype(jnp.float32))

    conv, transform = report(f, shapes, SMALL).rows
    assert "for which the engine has no convolution" in conv.why
    assert transform.passes


def test_empty_axes_single_points_and_constants_are_no_errors() -> None:
    def f(x: Any, *, n: int | None = None, train: bool = False) -> Any:
        return fft(x, n) if train else x

    light = through(f, "chip_11x11", key=jax.random.key(0))
    np.testing.assert_array_equal(light(jnp.ones((2, 1)), train=True), jnp.ones((2, 1)))
    assert light(jnp.ones((0, 3)), train=True).shape == (0, 3)
    assert through(f, SMALL)(normal(2, 6), n=8, train=True).shape == (2, 8)
    for layer in (GlobalFilter(length=4, engine=SMALL), LongConvolution(length=4, engine=SMALL)):
        params = layer.init(jax.random.key(0), jnp.ones((1, 4, 2)))
        for shape in ((0, 4, 2), (2, 1, 2)):
            y: Any = layer.apply(params, jnp.ones(shape))
            assert y.shape == shape


def test_reports_of_exact_functions_say_why() -> None:
    found = report(fft, (normal(2, 6),), SMALL, rules=[Rule(None)])
    assert (found.share, found.bound, found.speedup()) == (0, 1, 1)
    assert "exact: by a rule" in str(found)
    assert found.to_dict()["rows"][0]["why"] == "by a rule"

    def either(x: Any) -> Any:
        return jax.lax.cond(x[0, 0] > 0, lambda x: fft(x).real, lambda x: fft(fft(x)).real, x)

    assert report(either, (normal(2, 6),), SMALL).share == 1
    image = convolution("NCHW", "OIHW", "NCHW")
    args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((1, 1, 32, 32), (1, 1, 31, 31))]
    half = report(lambda x, k: (image(x, k), image(x, k)), args, SMALL, rules=[Rule(None, sites=(1,))])
    np.testing.assert_allclose(half.share, 0.5)


def test_an_emulated_engine_is_no_call_site() -> None:
    """Of a function that goes through an engine already."""

    def f(x: Any) -> Any:
        return through(fft, SMALL)(x) + fft(x)

    (found,) = [row for row in report(f, (normal(2, 6),), SMALL).rows if row.passes]
    assert found.site.kind == "fft"
    np.testing.assert_allclose(through(f, SMALL)(normal(2, 6)), f(normal(2, 6)), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"argnums": 2}, r"argnums has \[2\], but the arguments of this call are \[0, 1\]"),
        ({"rules": (Rule(None, sites=(0, 9)),)}, r"names call sites \[9\], but there are 1, from 0 on"),
        ({"rules": (Rule(None, scope="tmp/x"),)}, "names none of the 1 call sites"),
        ({"key": 0}, r"key=0 is not a PRNG key; pass key=jax.random.key\(0\)"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    def f(weights: Any, data: Any) -> Any:
        return fft(data) * weights

    with pytest.raises(ValueError, match=message):
        through(f, SMALL, **options)(jnp.ones((), jnp.complex64), data=normal(2, 6))


def test_arguments_are_numbered_from_both_ends_and_by_name() -> None:
    def f(weights: Any, data: Any) -> Any:
        return fft(weights) * fft(data)

    w, x = normal(6), normal(6, seed=1)
    for options, args, more in [({"argnums": -1}, (w, x), {}), ({"argnums": (1,)}, (w,), {"data": x})]:
        rows = report(f, args, SMALL, kwargs=more, **options).rows
        assert [bool(row.passes) for row in rows] == [False, True]


def test_a_while_loop_under_vmap_stops_for_each_example() -> None:
    def f(n: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, n, lambda _, x: filtered(x), x)

    many = jax.vmap(f)
    n, x = jnp.array([1, 3]), normal(2, 5)
    for light in (through(many, SMALL), jax.vmap(through(f, SMALL))):
        np.testing.assert_allclose(light(n, x), many(n, x), atol=1e-6)


def test_an_empty_kernel_and_a_donated_buffer_are_no_errors() -> None:
    @partial(jax.jit, donate_argnums=0)
    def doubled(y: Any) -> Any:
        return y * 2

    @jax.jit  # which ignores the donation inside
    def f(x: Any) -> Any:
        y = filtered(x)
        empty = convolution("NWC", "WIO", "NWC")(jnp.zeros((1, 5, 0)), jnp.zeros((3, 0, 2)))
        return doubled(y) + y, empty

    x = normal(2, 5)
    for y, exact in zip(through(f, SMALL)(x), f(x), strict=True):
        np.testing.assert_allclose(y, exact, atol=1e-6)


def test_second_derivatives_keep_the_rules_of_functions() -> None:
    """The rule of f doubles the gradient, once for each derivative."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return filtered(x)

    f.defvjp(lambda x: (f(x), None), lambda _, g: (2 * filtered(g),))
    x = normal(2, 5)

    def second(f: Callable[..., Any]) -> Any:
        return jax.grad(lambda x: jnp.sum(jax.grad(lambda x: jnp.sum(jnp.sin(f(x))))(x) ** 2))(x)

    np.testing.assert_allclose(second(through(f, SMALL)), second(f), atol=1e-5)


def test_an_emulated_engine_is_no_call_site_under_other_transformations() -> None:
    light, smooth = through(fft, SMALL), through(partial(jnp.convolve, jnp.ones(3)), SMALL)
    kernel = normal(2, 3)

    def f(x: Any) -> Any:
        steep = jax.grad(lambda x: jnp.sum(jnp.abs(light(x))))(x)
        return jax.vmap(smooth)(x), steep, optical_circular_correlate(x, kernel, SMALL), fft(x)

    rows = report(f, (normal(2, 6),), SMALL).rows
    assert [row.site.index for row in rows if row.passes] == [rows[-1].site.index]

    def named(x: Any) -> Any:
        with jax.named_scope("optical_block"):  # the name of a user's module
            return fft(x)

    assert report(named, (normal(2, 6),), SMALL).rows[0].passes


@pytest.mark.parametrize("key", [jax.random.split(jax.random.key(0)), jnp.float32(3)])
def test_only_one_key_is_a_key(key: Any) -> None:
    with pytest.raises(ValueError, match="is not a PRNG key; pass .*, and use jax.vmap for several"):
        through(fft, "chip_11x11", key=key)(normal(2, 6))
