"""Programs for other platforms: exported from here, each with the choices of its own platform."""

from functools import partial
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.test_util import check_grads

from benchmarks import aot
from fourier_attn.model import MIXERS
from fourier_attn.ops.attention import attention, shared_attention
from fourier_attn.ops.circular import circular_correlate
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.ops.platforms import PLATFORMS, by_platform
from fourier_attn.train.target.program import collectives


def module(function: Any, *arguments: Any, platforms: tuple[str, ...] = PLATFORMS) -> str:
    return jax.export.export(jax.jit(function), platforms=platforms)(*arguments).mlir_module()


def scaled(choice: str, x: jax.Array) -> jax.Array:
    return jnp.sin(x) if choice == "sine" else jnp.cos(x)


def choice(platform: str) -> str:
    return "sine" if platform in ("cpu", "rocm") else "cosine"


def test_a_program_has_the_choice_of_its_platform() -> None:
    chosen = partial(by_platform, choice, scaled)
    x = normal(3)
    for function in (chosen, jax.jit(chosen), jax.vmap(chosen)):
        np.testing.assert_array_equal(function(x), jnp.sin(x))
    check_grads(lambda x: chosen(jnp.asarray(x)), (x,), order=2, atol=1e-2, rtol=1e-2)
    for platform in PLATFORMS:
        text = module(chosen, x, platforms=(platform,))
        assert [f"stablehlo.{name}" in text for name in ("sine", "cosine")].count(True) == 1
        assert f"stablehlo.{choice(platform)}" in text
    text = module(chosen, x)
    assert "stablehlo.sine" in text
    assert "stablehlo.cosine" in text


def test_a_program_for_one_platform_asks_nothing() -> None:
    """Neither a branch nor the other platforms' tables are left in what is compiled here."""
    x, kernel = jnp.ones((2, 128, 128), jnp.bfloat16), jnp.ones((2, 128))
    heads = jnp.ones((2, 128, 2, 8))
    for function in (
        attention,
        lambda q, k, v: shared_attention(q[:, :, 0], k[:, :, 0], jnp.ones((2, 128), bool)),
    ):
        text = jax.jit(lambda x, f=function: f(x, x, x)).lower(heads).compile().as_text() or ""
        assert "conditional" not in text
    for function, method in (
        (fourier_mix, "rfft"),
        (lambda x, **options: circular_correlate(x, kernel, **options), "fft"),
    ):

        def loss(x: jax.Array, function=function, **options: str) -> jax.Array:
            return jnp.sum(jnp.square(function(x, **options).astype(jnp.float32)))

        programs = [
            jax.jit(jax.grad(partial(loss, **options))).lower(x).compile()
            for options in ({}, {"method": method})
        ]
        texts = [program.as_text() or "" for program in programs]
        assert "conditional" not in texts[0]
        assert "dot(" not in texts[0]
        analyses: list[Any] = [program.memory_analysis() for program in programs]
        assert analyses[0].temp_size_in_bytes == analyses[1].temp_size_in_bytes
        assert texts[0].count(" = ") == texts[1].count(" = ")


def test_a_transform_is_made_for_its_platform() -> None:
    x = jnp.ones((2, 64, 8), jnp.bfloat16)
    assert "fft" in module(fourier_mix, x, platforms=("cpu",))
    for platform in ("cuda", "rocm", "tpu"):
        text = module(fourier_mix, x, platforms=(platform,))
        assert "stablehlo.fft" not in text
        assert "dot_general" in text


@pytest.mark.parametrize("name", MIXERS)
def test_every_mixer_is_exported(name: str) -> None:
    for dtype in ("float32", "bfloat16"):
        with jax.numpy_dtype_promotion("standard"):
            function, arguments = aot.gradient((name, {}), dtype, 2, 16, 8)
            exported = jax.export.export(jax.jit(function), platforms=PLATFORMS)(*arguments)
        assert exported.platforms == PLATFORMS


@pytest.mark.parametrize("causal", [False, True])
def test_a_lambda_layer_is_exported_for_any_number_of_rows(causal: bool) -> None:
    (b,) = jax.export.symbolic_shape("b")
    x, mask = normal(3, 40, 8), jnp.arange(40)[None] < jnp.array([[40], [33], [0]])
    layer = MIXERS["lambda"](causal=causal)
    params = layer.init(jax.random.key(0), x)
    apply = jax.jit(lambda x, mask: layer.apply(params, x, mask=mask))
    exported = jax.export.export(apply)(
        *(jax.ShapeDtypeStruct((b, *a.shape[1:]), a.dtype) for a in (x, mask))
    )
    np.testing.assert_allclose(exported.call(x, mask), apply(x, mask), atol=1e-6)


def test_a_training_step_is_exported() -> None:
    with jax.numpy_dtype_promotion("standard"):
        function, arguments = aot.training("hybrid", 2, 2, 16, size="tiny")
        exported = jax.export.export(jax.jit(function), platforms=PLATFORMS)(*arguments)
    assert exported.platforms == PLATFORMS


def test_collectives_are_counted() -> None:
    program = """
      %a = f32[4,8]{1,0:T(8,128)} all-gather(f32[1,8] %x), dimensions={0}
      %b = (f32[2]{0}, bf16[3,2]{1,0}) all-reduce(f32[2] %y, bf16[3,2] %z), to_apply=%sum
      %c = (f32[1,8], f32[4,8]) all-gather-start(f32[1,8] %x)
      %d = pred[] all-reduce(pred[] %p)
    """
    assert collectives(program) == {
        "all-gather": {"count": 2, "bytes": 288, "largest": 160},
        "all-reduce": {"count": 2, "bytes": 21, "largest": 20},
    }
