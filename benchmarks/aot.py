"""Compiles programs for absent devices, without running them: `python -m benchmarks.aot v5e`, or `h100`.

With `length` after the target it compiles fourier mixing and attention of growing sequences instead, for
aot-length-v5e.json or aot-length-h100.json. With `scan` it compiles twelve blocks, unrolled and in one
`jax.lax.scan`. With `shared` it compiles a block whose tokens are split over devices, for
aot-shared-h100.json.

Needs `pip install -e .[aot-tpu]`, or `.[aot-cuda]`, but not an accelerator. Four chips hold a quarter of the
batch each, and all parameters. Cycles are the TPU compiler's own estimates: they rank programs, and do not
measure time. Every row is written to aot-v5e.json or aot-h100.json in results/benchmarks as soon as it is
known; existing rows of the same commit are not compiled again.
"""

import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.timing import RESULTS, Row, complete, facts_and_rows
from fourier_attn import command, config
from fourier_attn.choices import check_choice
from fourier_attn.family import ARCHITECTURES, family
from fourier_attn.layers.encoder import Block
from fourier_attn.model import MIXERS
from fourier_attn.ops.arguments import wide
from fourier_attn.ops.attention import attention
from fourier_attn.ops.chirp import chirp_mix
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.ops.fourier_matmul import masked_mix
from fourier_attn.optics import Engine
from fourier_attn.train.distributed.sharding import AXES, Placement
from fourier_attn.train.target.devices import environment, find_devices, parse
from fourier_attn.train.target.program import collectives
from fourier_attn.train.target.step import Step, training_step

Case = tuple[Row, Callable[[], Row]]  # what is compiled, and what finds out what the compiler says of it
Mixer = tuple[str, dict[str, Any]]
TARGETS = {"v5e": parse("v5e:2x2"), "h100": parse("h100:4")}  # four devices of each kind
LENGTHS = (512, 2048, 8192, 32768)
SHARED: dict[str, dict[str, Any]] = {  # mixers whose tokens can be split, for 262,144 of them
    "fourier": {"padding": "tokens"},
    "global_filter": {"length": 262_144},
    "long_conv": {"length": 262_144},
    "afno": {},
    "token_conv": {},
    "lambda": {},
    "attention": {"head_width": "split"},
    "circular": {},
}
CYCLES = re.compile(r'"estimated_cycles":"?(\d+)')


def mixers(t: int) -> dict[str, Mixer]:
    """Returns every mixer with every method, for t tokens; t is a square."""
    side = round(t**0.5)
    image = {"kernel": (3, 3), "boundary": "zero"}
    fft = {method: {"method": method, "padding": "zero"} for method in ("fft", "rfft", "matmul", "monarch")}
    methods: dict[str, Mixer] = {name: (name, {}) for name in MIXERS}
    methods |= {f"fourier, {method}": ("fourier", fields) for method, fields in fft.items()}
    return methods | {
        "fourier, own lengths": ("fourier", {"method": "rfft"}),
        "fourier, own lengths, matmul": ("fourier", {"method": "matmul"}),
        "circular, literal": ("circular", {"method": "literal"}),
        "circular, zero": ("circular", {"shape": (8, 4), **image}),
        "lambda, whole length, matrix": ("lambda", {"context": 0, "length": t, "method": "matrix"}),
        "lambda, whole length, fft": ("lambda", {"context": 0, "length": t, "method": "fft"}),
        "lambda, image": ("lambda", {"grid": (side, side)}),
        "lambda, causal": ("lambda", {"causal": True}),
        "global_filter, image": ("global_filter", {"grid": (side, side)}),
        "afno, image": ("afno", {"grid": (side, side), "modes": 0.5}),
        "long_conv, causal": ("long_conv", {"length": t, "causal": True}),
        "long_conv, circular": ("long_conv", {"length": t, "boundary": "circular"}),
    }


def engines() -> dict[str, Mixer]:
    """Returns the mixers that an optical engine can compute, without and with its noise."""
    ideal = Engine((16, 16))
    noisy = ideal.replace(detection="hybrid90", adc_bits=8, phase_noise_rms=0.01).with_photons(1e4)
    cases: dict[str, Mixer] = {}
    for kind, engine in (("ideal", ideal), ("noisy", noisy)):
        cases[f"fourier, {kind} engine"] = ("fourier", {"engine": engine, "padding": "zero"})
        cases[f"circular, {kind} engine"] = ("circular", {"engine": engine, "kernel": (3,), "heads": 2})
        cases[f"lambda, {kind} engine"] = ("lambda", {"engine": engine, "heads": 2, "k": 4})
    return cases


def gradient(mixer: Mixer, dtype: str, b: int, t: int, d: int) -> tuple[Callable[..., Any], list[Any]]:
    """Returns the gradient function of a mixer and its arguments as shapes (parameters on all devices).

    Args:
      mixer: name and options of the mixer.
      dtype: dtype of the input.
      b, t, d: batch size, tokens and width.
    """
    name, fields = mixer
    layer = MIXERS[name](**fields, dtype=jnp.dtype(dtype))
    x, mask = jax.ShapeDtypeStruct((b, t, d), dtype), jax.ShapeDtypeStruct((b, t), bool)
    params = jax.eval_shape(layer.init, jax.random.key(0), x)

    def loss(params: Any, x: jax.Array, mask: jax.Array) -> jax.Array:
        real = None if "engine" in fields else mask
        y: Any = layer.apply(params, x, mask=real, rngs={"noise": jax.random.key(1)})
        return jnp.sum(jnp.square(y.astype(wide(y))))

    return jax.value_and_grad(loss, (0, 1)), [params, x, mask]


def training(
    name: str,
    depth: int,
    b: int,
    t: int,
    size: str = "base",
    placement: Placement | None = None,
    remat: str = "none",
) -> Step:
    """Returns a pre-training step of an encoder in bfloat16, and the shapes of its arguments.

    Args:
      name: architecture, such as "fnet".
      depth: number of blocks.
      b, t: batch size and tokens.
      size: "base" or another size of the family.
      placement: distribution over devices; None for one device.
      remat: `train.remat`.
    """
    c = encoder(name, depth, b, t, size)
    c.train.remat = remat
    return training_step(config.fitted_without_data(c), placement)


def encoder(name: str, depth: int, b: int, t: int, size: str = "base") -> config.Config:
    """Returns the configuration to pre-train an encoder in bfloat16; the arguments are those of `training`.

    "lambda" and "circular" are the encoder with this mixer, with the mixer's default options.
    """
    known = name in ARCHITECTURES
    c = family(name, size) if known else config.with_mixer(family("ff", size), name)
    c.model.depth, c.model.dtype = depth, "bfloat16"
    if c.model.layout:
        attention = min(2, depth // 2)
        c.model.layout = (*("fourier",) * (depth - attention), *("attention",) * attention)
    c.data.batch, c.data.length, c.model.positions = b, t, max(t, c.model.positions)
    return config.fit_length(c)


def split(arguments: list[Any], devices: list[Any]) -> list[Any]:
    """Returns the shapes of arguments; all but the first are split over the devices."""
    mesh = Mesh(np.array(devices), ("data",))

    def place(tree: Any, spec: PartitionSpec) -> Any:
        sharding = NamedSharding(mesh, spec)
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding), tree)

    leading, *others = arguments
    return [place(leading, PartitionSpec()), *(place(tree, PartitionSpec("data")) for tree in others)]


def compiled(function: Callable[..., Any], arguments: list[Any], donate: bool = False) -> Row:
    """Compiles a function for the devices of its arguments; returns facts of the compiler.

    Args:
      function: the function.
      arguments: their shapes, with devices.
      donate: whether the first argument can be overwritten.
    """
    begin = time.process_time()
    try:
        program = jax.jit(function, donate_argnums=0 if donate else ()).trace(*arguments).lower().compile()
    except Exception as error:  # the benchmark records whatever a compiler refuses
        why = re.sub(r"\s+", " ", str(error))[:200]
        return {"compiles": False, "why": why}
    text = program.as_text() or ""
    memory: Any = program.memory_analysis()
    row: Row = {"compiles": True, "temporary_mb": round(memory.temp_size_in_bytes / 1e6, 2)}
    row["collectives"] = collectives(text)
    cycles = sum(map(int, CYCLES.findall(text)))
    return row | ({"cycles": cycles} if cycles else {}) | {"compile_s": round(time.process_time() - begin, 1)}


def mixer_rows(
    devices: list[Any],
    b: int = 16,
    t: int = 64,
    d: int = 32,
    dtypes: tuple[str, ...] = ("float32", "bfloat16"),
) -> Iterator[Case]:
    """Yields the gradient of every mixer and method on four devices.

    Args:
      devices: the devices.
      b, t, d: batch size, tokens and width.
      dtypes: dtypes of the input.
    """
    for dtype in dtypes:
        chosen = mixers(t) | (engines() if dtype == "float32" else {})
        for what, mixer in chosen.items():
            facts = {"part": "mixer", "what": what, "dtype": dtype, "devices": len(devices)}
            facts["size"] = f"({b}, {t}, {d})"
            function, arguments = gradient(mixer, dtype, b, t, d)
            yield facts, partial(compiled, function, split(arguments, devices))


def length_rows(devices: list[Any], heads: int = 8, k: int = 64) -> Iterator[Case]:
    """Yields FNet's mixing, the attention layer and its op, for one sequence on one device: their memory.

    Args:
      devices: the devices, the first of which is used.
      heads, k: number and width of the heads; the mixers have d = heads k.
    """
    layers = {"fourier": {}, "attention": {"heads": heads, "head_width": "split"}}
    for t, dtype in itertools.product(LENGTHS, ("float32", "bfloat16")):
        programs = {name: gradient((name, fields), dtype, 1, t, heads * k) for name, fields in layers.items()}
        x, mask = jax.ShapeDtypeStruct((1, t, heads, k), dtype), jax.ShapeDtypeStruct((1, t), bool)
        programs["attention, without projections"] = (
            jax.value_and_grad(averaged, (1, 2, 3)),
            [{}, x, x, x, mask],
        )
        for what, (function, arguments) in programs.items():
            facts = {"part": "length", "what": what, "dtype": dtype, "devices": 1, "t": t}
            facts["size"] = f"(1, {t}, {heads * k})"
            yield facts, partial(compiled, function, split(arguments, devices[:1]))


def averaged(_: Any, query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array) -> jax.Array:
    """Returns the sum of squares of the averages of attention; the first argument is not used."""
    y = attention(query, key, value, mask=mask)
    return jnp.sum(jnp.square(y.astype(jnp.float32)))


def method_rows(devices: list[Any], d: int = 128) -> Iterator[Case]:
    """Yields each method of `fourier_mix` for one sequence on one chip, the basis of its `auto` on TPUs.

    "rfft" and chirps run in float32 whatever the dtype, and are compiled for that alone. Products with t x t
    tables for long sequences are left out, since they take minutes to compile.
    """
    plain = {m: lambda _, x, n, m=m: fourier_mix(x, method=m) for m in ("rfft", "matmul", "monarch")}
    masked = {
        "chirps": lambda _, x, n: chirp_mix(x.astype(jnp.float32), n).astype(x.dtype),
        "masked matmul": lambda _, x, n: masked_mix(x, n),
    }
    longest = {"matmul": 4096, "chirps": 4096, "masked matmul": 512}
    for t in (128, 256, 512, 1024, 4096, 16384, 32768):
        for dtype in ("float32", "bfloat16"):
            shapes = [{}, jax.ShapeDtypeStruct((1, t, d), dtype), jax.ShapeDtypeStruct((1,), "int32")]
            for what, function in (plain | masked).items():
                facts = {"part": "method", "what": what, "dtype": dtype, "devices": 1, "t": t}
                facts["size"] = f"(1, {t}, {d})"
                always = what in ("rfft", "chirps")
                if t <= longest.get(what, t) and (dtype == "float32" or not always):
                    yield facts, partial(compiled, function, split(shapes, devices[:1]))


def shared_rows(devices: list[Any], t: int = 262_144, d: int = 256) -> Iterator[Case]:
    """Yields the gradient of one block for one sequence, on one device and with its tokens on four.

    Args:
      devices: the devices.
      t, d: tokens and width.
    """
    x = jax.ShapeDtypeStruct((1, t, d), jnp.float32)
    for what, fields in SHARED.items():
        block = Block(partial(MIXERS[what], **fields), mlp=4 * d)
        params = jax.eval_shape(block.init, jax.random.key(0), x)
        for count in (1, 4):
            placement = Placement(Mesh(np.array(devices[:count]).reshape(1, 1, 1, count), AXES))

            def gradient(params: Any, x: jax.Array, block: Any = block, placement: Any = placement) -> Any:
                def loss(params: Any, x: jax.Array) -> jax.Array:
                    return jnp.sum(jnp.square(block.apply(params, x)))

                with placement.entered():
                    return jax.value_and_grad(loss, (0, 1))(params, x)

            def placed(tree: Any, where: Any) -> Any:
                return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=where), tree)

            whole, tokens = placement.replicated, placement.sharding(None, "tokens")
            facts = {"part": "shared", "what": what, "dtype": "float32", "devices": count, "t": t}
            facts["size"] = f"(1, {t}, {d})"
            yield facts, partial(compiled, gradient, [placed(params, whole), placed(x, tokens)])


def training_rows(devices: list[Any], b: int = 32, t: int = 512) -> Iterator[Case]:
    """Yields training steps of encoders of size base: 2 blocks on four devices, 12 blocks on one.

    Args:
      devices: the devices.
      b, t: batch size and tokens.
    """
    whole = [("data", 1, 12, "none"), ("data", 1, 12, "block")]
    for axis, count, depth, remat in (("data", 4, 2, "none"), ("fsdp", 4, 2, "none"), *whole):
        shape = [count if name == axis else 1 for name in AXES]
        placement = Placement(Mesh(np.array(devices[:count]).reshape(shape), AXES))
        for name in ("fnet", "hybrid", "bert"):
            facts = {"part": "training", "what": name, "dtype": "bfloat16", "devices": count, "mesh": axis}
            facts["size"] = f"{depth} blocks, batch {b}, {t} tokens"
            facts |= {} if remat == "none" else {"remat": remat}
            step = training(name, depth, b, t, placement=placement, remat=remat)
            yield facts, partial(compiled, step.function, list(step.arguments), donate=True)


def scan_rows(devices: list[Any], depth: int = 12, b: int = 32, t: int = 512, d: int = 768) -> Iterator[Case]:
    """Yields steps of gradient descent through blocks of size base, unrolled and in one scan.

    Args:
      devices: the devices; only the first is used.
      depth: number of blocks.
      b, t, d: batch size, tokens and width.
    """
    x, key = jax.ShapeDtypeStruct((b, t, d), jnp.bfloat16), jax.eval_shape(lambda: jax.random.key(0))
    where = Placement(Mesh(np.array(devices[:1]).reshape(1, 1, 1, 1), AXES)).replicated
    mixers = {"fourier": {}, "attention": {"heads": 12, "head_width": "split"}}
    for what, remat, form in itertools.product(mixers, ("none", "block"), ("unrolled", "scan")):
        mixer = partial(MIXERS[what], **mixers[what], dtype=x.dtype)
        block = Block(mixer, mlp=4 * d, activation="gelu", mixer_dropout=0.1, dropout=0.1, dtype=x.dtype)
        one = jax.eval_shape(block.init, jax.random.key(0), x)

        def apply(x: jax.Array, part: Any, block: Any = block) -> tuple[jax.Array, None]:
            return block.apply(part[0], x, train=True, rngs={"dropout": part[1]}).astype(x.dtype), None

        apply = jax.checkpoint(apply) if remat == "block" else apply

        def step(params: Any, x: jax.Array, key: jax.Array, apply: Any = apply, form: str = form) -> Any:
            def loss(params: Any) -> jax.Array:
                keys, y = jax.random.split(key, depth), x
                if form == "scan":
                    y = jax.lax.scan(apply, x, (params, keys))[0]
                else:
                    for part in zip(params, keys, strict=True):
                        y = apply(y, part)[0]
                return jnp.mean(jnp.square(y.astype(jnp.float32)))

            return jax.tree.map(jnp.subtract, params, jax.grad(loss)(params))

        stacked = jax.tree.map(lambda a: jax.ShapeDtypeStruct((depth, *a.shape), a.dtype), one)
        arguments = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=where),
            [stacked if form == "scan" else [one] * depth, x, key],
        )
        facts = {"part": "scan", "what": what, "form": form, "remat": remat, "dtype": "bfloat16"}
        facts |= {"devices": 1, "size": f"{depth} blocks, batch {b}, {t} tokens"}
        yield facts, partial(compiled, step, arguments, donate=True)


def cases(target: str, part: str) -> Iterator[Case]:
    devices = find_devices(TARGETS[target])
    if part:
        parts = {"length": length_rows, "scan": scan_rows, "shared": shared_rows}
        yield from parts[part](devices)
        return
    yield from mixer_rows(devices)
    if target == "v5e":
        yield from method_rows(devices)
    else:
        yield from training_rows(devices)


def main(target: str = "", part: str = "") -> None:
    check_choice("target", target, TARGETS)
    check_choice("part", part, ("", "length", "scan", "shared"))
    variables = environment(TARGETS[target])
    if not variables.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | variables)
    path = RESULTS / "-".join(word for word in ("aot", part, f"{target}.json") if word)
    package = TARGETS[target].device.package
    facts, known = facts_and_rows(path, package, setting=f"compiled for {target}, not run")
    complete(path, facts, known, ((case, lambda c=c: [c()]) for case, c in cases(target, part)))


if __name__ == "__main__":
    sys.exit(command.run(main, arguments=True))
