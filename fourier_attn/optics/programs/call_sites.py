"""Finds the transforms and convolutions of a traced function."""

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core, source_info_util

from fourier_attn.ops.arguments import known as readable
from fourier_attn.optics.engine_spec import SCOPE

Address = tuple[int, ...]  # of an equation: its place in each of the nested programs

TRANSFORMS = ("fft", "ifft", "rfft", "irfft")
KINDS = (*TRANSFORMS, "conv", "matrix")
DOUBLE = ("float64", "complex128")
SINGLE = ("float32", "bfloat16", "float16")
EMPTY, POINT = "empty", "one point, of which nothing is to be transformed"
SIMULATED = re.compile(rf"\b{SCOPE}")  # also in transformed scopes, such as "vmap(..)" and "jvp(..)"
AXES = 3  # of a transform, or a convolution, at most


@dataclasses.dataclass(frozen=True)
class CallSite:
    """Describes one transform or convolution of a traced function.

    Args:
      index: number of the call site, in the order of the program.
      address: place of its equation in the nested programs.
      kind: "fft", "ifft", "rfft", "irfft", "conv", or "matrix" for a product with a DFT matrix.
      line: file, line and function that called it.
      scope: name scope, such as the path of a Flax module.
      shape: shape of the operand; of a product with a matrix, the transformed axis comes last.
      kernel: shape of the kernel of a convolution; () for a transform.
      dtype: dtype of the operand.
      sizes: transformed sizes; of a convolution the padded sizes of its signal.
      repeats: number of times that a program runs it; None inside a `while_loop`, where nobody knows it.
      arguments: numbers of the function's arguments that its operands depend on.
      params: parameters of the equation.
      why: reason for which no engine can compute it; "" if one can.
    """

    index: int
    address: Address
    kind: str
    line: str
    scope: str
    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    dtype: str
    sizes: tuple[int, ...]
    repeats: int | None
    arguments: frozenset[int]
    params: Mapping[str, Any]
    why: str

    @property
    def label(self) -> str:
        """Names the call site: number, kind and sizes."""
        return f"{self.index} {self.kind} {' x '.join(map(str, self.sizes))}"

    @property
    def arrays(self) -> int:
        """Returns the number of transforms of the operand; of a convolution the number of its signals."""
        if self.kind == "conv":
            batch, features, *_ = self.params["dimension_numbers"].lhs_spec
            return self.shape[batch] * self.shape[features]
        return math.prod(self.shape[: len(self.shape) - len(self.sizes)])


class Origin(NamedTuple):
    """Says what a value depends on.

    Args:
      arguments: the arguments of the function.
      value: the value itself, if it is a constant.
    """

    arguments: frozenset[int] = frozenset()
    value: Any = None


class _Place(NamedTuple):
    """Says where a program stands in the programs around it."""

    address: Address = ()
    scope: str = ""
    line: str = ""
    repeats: int | None = 1
    why: str = ""

    def at(self, number: int, equation: Any) -> "_Place":
        """Returns the place of an equation of the program."""
        scope = "/".join(part for part in (self.scope, str(equation.source_info.name_stack)) if part)
        line = self.line if equation.primitive.name == "fft" else _line(equation)
        return self._replace(address=(*self.address, number), scope=scope, line=line or self.line)

    def inside(self, number: int, times: int | None = 1, why: str = "") -> "_Place":
        """Returns the place of a program of an equation."""
        address = (*self.address, number)
        repeats = None if self.repeats is None or times is None else self.repeats * times
        return self._replace(address=address, repeats=repeats, why=self.why or why)


def _line(equation: Any) -> str:
    """Returns file, line and function of the caller.

    The equation "fft" itself has the line of whoever called it first: JAX keeps the program around it.
    """
    return source_info_util.summarize(equation.source_info)


def find(program: core.ClosedJaxpr, arguments: Sequence[int]) -> list[CallSite]:
    """Returns the call sites of a traced function.

    Args:
      program: the traced function.
      arguments: number of the function's argument that each input of the program is a part of.
    """
    found: list[CallSite] = []
    _walk(program, [Origin(frozenset((number,))) for number in arguments], _Place(), found)
    return [dataclasses.replace(site, index=index) for index, site in enumerate(found)]


def _walk(
    program: core.ClosedJaxpr, origins: Sequence[Origin], place: _Place, found: list[CallSite]
) -> list[Origin]:
    """Adds the call sites of a program to `found`; returns what its results depend on."""
    jaxpr = program.jaxpr
    known: dict[Any, Origin] = dict(zip(jaxpr.invars, origins, strict=True))
    for variable, value in zip(jaxpr.constvars, program.consts, strict=True):
        known[variable] = Origin(value=value if readable(value) else None)

    def origin(atom: Any) -> Origin:
        return Origin() if isinstance(atom, core.Literal) else known.get(atom, Origin())

    for number, equation in enumerate(jaxpr.eqns):
        inputs = [origin(atom) for atom in equation.invars]
        outputs = _outputs(equation, inputs, place.at(number, equation), found)
        known.update(zip(equation.outvars, outputs, strict=True))
    return [origin(atom) for atom in jaxpr.outvars]


def _outputs(equation: Any, inputs: list[Origin], here: _Place, found: list[CallSite]) -> list[Origin]:
    """Returns what the results of one equation depend on, and adds its call sites."""
    name, arguments = equation.primitive.name, frozenset[int]().union(*(one.arguments for one in inputs))
    together = Origin(arguments)
    if name in ("fft", "conv_general_dilated"):
        found.append(_call_site(equation, arguments, here))
    elif name == "dot_general":
        found += _products(equation, inputs, here)
    elif name in NESTED:
        inner, outputs = _Inner(equation, inputs, together), []
        for number, (program, origins, times) in enumerate(NESTED[name](inner)):
            outputs = _walk(program, origins, here.inside(number, times), found)
        if name in TRANSPARENT:
            return outputs
    else:
        for number, jaxpr in enumerate(core.jaxprs_in_params(equation.params)):
            why = f"inside {name}, which stays as it is"
            program = core.ClosedJaxpr(jaxpr, [None] * len(jaxpr.constvars))
            _walk(program, [together] * len(jaxpr.invars), here.inside(number, why=why), found)
    return [together] * len(equation.outvars)


class _Inner(NamedTuple):
    """Holds an equation with programs of its own, and what its inputs depend on."""

    equation: Any
    inputs: list[Origin]
    together: Origin


Programs = Iterator[tuple[core.ClosedJaxpr, Sequence[Origin], int | None]]


def body(equation: Any) -> core.ClosedJaxpr:
    """Returns the program of an equation that runs one program once."""
    params = equation.params
    inner = params[next(name for name in ("call_jaxpr", "jaxpr", "call") if name in params)]
    return inner if isinstance(inner, core.ClosedJaxpr) else core.ClosedJaxpr(inner, ())


def _one(inner: _Inner) -> Programs:
    yield body(inner.equation), inner.inputs, 1


def _shard_map(inner: _Inner) -> Programs:
    yield body(inner.equation), inner.inputs, shards(inner.equation)


def shards(equation: Any) -> int:
    """Returns the number of shards that each run the program of a `shard_map`."""
    return math.prod(equation.params["mesh"].shape[name] for name in manual_axes(equation))


def manual_axes(equation: Any) -> frozenset[str]:
    """Returns the axes of the mesh that a `shard_map` maps over."""
    params = equation.params
    return frozenset(params["newly_manual_axes" if "newly_manual_axes" in params else "manual_axes"])


def _scan(inner: _Inner) -> Programs:
    inputs, (program, first, last) = inner.inputs, scanned(inner.equation)
    carried = [inner.together] * (last - first)
    yield program, [*inputs[:first], *carried, *inputs[last:]], inner.equation.params["length"]


def scanned(equation: Any) -> tuple[core.ClosedJaxpr, int, int]:
    """Returns the program of a `scan`, and the places of the first and after the last carried input.

    JAX 0.10 has the number of each kind of input, JAX 0.11 their trees.
    """
    params = equation.params
    if "num_consts" in params:
        consts, carry = params["num_consts"], params["num_carry"]
    else:
        consts, carry, _ = (len(part.vals) for part in params["ft_in"].unpack())
    return body(equation), consts, consts + carry


def _while(inner: _Inner) -> Programs:
    params, inputs = inner.equation.params, inner.inputs
    tests, first = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    carried = [inner.together] * (len(inputs) - first)
    yield params["cond_jaxpr"], [*inputs[:tests], *carried], None
    yield params["body_jaxpr"], [*inputs[tests:first], *carried], None


def _cond(inner: _Inner) -> Programs:
    branches = inner.equation.params["branches"]
    only = platform_branch(inner.equation)
    for number, branch in enumerate(branches):
        # An empty program keeps the numbers of the branches.
        skipped = only is not None and number != only
        empty = core.ClosedJaxpr(branch.jaxpr.replace(eqns=[], outvars=[]), branch.consts)
        yield empty if skipped else branch, inner.inputs[1:], 1


def _solve(inner: _Inner) -> Programs:
    solve, consts, operands = solution(inner.equation, inner.inputs)
    yield solve, [*consts, *operands], 1


def solution(equation: Any, inputs: Sequence[Any]) -> tuple[core.ClosedJaxpr, Sequence[Any], Sequence[Any]]:
    """Returns the program of a `custom_linear_solve` that solves, its constants and its right sides."""
    lengths, programs = equation.params["const_lengths"], equation.params["jaxprs"]
    first = lengths.matvec + lengths.vecmat
    return programs.solve, inputs[first : first + lengths.solve], inputs[sum(lengths) :]


def platform_branch(equation: Any) -> int | None:
    """Returns the branch to trace of a `platform_dependent`; None for a condition on values.

    All branches compute the same in forms for different platforms. The one with most call sites is taken, and
    the first of these.
    """
    if equation.params.get("branches_platforms") is None:
        return None
    counts = []
    for branch in equation.params["branches"]:
        found: list[CallSite] = []
        _walk(branch, [Origin()] * len(branch.jaxpr.invars), _Place(), found)
        counts.append(len(found))
    return counts.index(max(counts))


TRANSPARENT = ("jit", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "custom_partitioning")
TRANSPARENT += ("linear_map",)  # of `fourier_attn.ops.derivatives`
TRANSPARENT += ("checkpoint", "remat2")  # one primitive, whose name depends on the version of JAX
NESTED = dict.fromkeys(TRANSPARENT, _one)
NESTED |= {"scan": _scan, "while": _while, "cond": _cond, "custom_linear_solve": _solve}
NESTED |= {"shard_map": _shard_map}


def _call_site(equation: Any, arguments: frozenset[int], here: _Place) -> CallSite:
    x, params = equation.invars[0].aval, equation.params
    if equation.primitive.name == "fft":
        kind = jax.lax.FftType(params["fft_type"]).name.lower()
        sizes, kernel, why = tuple(params["fft_lengths"]), (), ""
    else:
        kind, kernel = "conv", equation.invars[1].aval.shape
        sizes, why = convolved_sizes(x.shape, params), _why_not(kernel, params)
        types = [str(value.aval.dtype) for value in (*equation.invars, *equation.outvars)]
        if wrong := next((name for name in types if name not in SINGLE), ""):
            why = f"{wrong}, for which the engine has no convolution"
    if not why and str(x.dtype) in DOUBLE:
        why = f"{x.dtype}, which no converter has the bits for"
    if not why and 0 in (*x.shape, *kernel, *equation.outvars[0].aval.shape):
        why = EMPTY
    if not why and math.prod(sizes) == 1:
        why = POINT
    if SIMULATED.search(here.scope):
        why = "inside the emulation of an engine"
    return CallSite(
        index=-1,
        address=here.address,
        kind=kind,
        line=here.line,
        scope=here.scope,
        shape=x.shape,
        kernel=kernel,
        dtype=str(x.dtype),
        sizes=sizes,
        repeats=here.repeats,
        arguments=arguments,
        params=params,
        why=here.why or why,
    )


def _products(equation: Any, inputs: list[Origin], here: _Place) -> Iterator[CallSite]:
    """Yields the call site of a product with a constant DFT matrix, in any order of the two."""
    (contracted, batch) = equation.params["dimension_numbers"]
    for side in (0, 1):
        matrix = inputs[side].value
        if batch[0] or len(contracted[0]) != 1 or np.ndim(matrix) != 2 or not jnp.iscomplexobj(matrix):
            continue
        found = dft_scale(np.asarray(matrix))
        x = equation.invars[1 - side].aval
        if found is None or not np.issubdtype(x.dtype, np.complexfloating):
            continue
        (axis,) = contracted[1 - side]
        rest = [n for place, n in enumerate(x.shape) if place != axis]
        why = f"{x.dtype}, which no converter has the bits for" if str(x.dtype) in DOUBLE else ""
        yield CallSite(
            index=-1,
            address=here.address,
            kind="matrix",
            line=here.line,
            scope=here.scope,
            shape=(*rest, x.shape[axis]),
            kernel=np.shape(matrix),
            dtype=str(x.dtype),
            sizes=(x.shape[axis],),
            repeats=here.repeats,
            arguments=inputs[1 - side].arguments,
            params={"operand": 1 - side, "axis": axis, "inverse": found[0], "scale": found[1]},
            why=here.why or why,
        )
        return


def dft_scale(matrix: np.ndarray) -> tuple[bool, complex] | None:
    """Returns whether a matrix is $c F$ or $c F^-1$, with F the orthonormal DFT, and c; None: it is neither.

    Args:
      matrix: the matrix.
    """
    n = len(matrix)
    if n < 2 or matrix.shape != (n, n) or not np.iscomplexobj(matrix) or matrix[0, 0] == 0:
        return None
    turns = np.exp(-2j * np.pi * (np.outer(np.arange(n), np.arange(n)) % n) / n)
    for inverse, expected in ((False, turns), (True, turns.conj())):
        if np.allclose(matrix / matrix[0, 0], expected, atol=1e-5):
            return inverse, complex(matrix[0, 0]) * n**0.5
    return None


def convolved_sizes(shape: tuple[int, ...], params: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the padded sizes of the signals of a convolution."""
    _, _, *places = params["dimension_numbers"].lhs_spec
    return tuple(shape[at] + low + high for at, (low, high) in zip(places, params["padding"], strict=True))


def convolved_places(
    sizes: tuple[int, ...], kernel: tuple[int, ...], params: Mapping[str, Any]
) -> tuple[int, ...]:
    """Returns the number of results of a convolution on each axis.

    Args:
      sizes: padded sizes of the signals.
      kernel: shape of the kernel.
      params: parameters of the equation.
    """
    _, _, *places = params["dimension_numbers"].rhs_spec
    reach = [(kernel[at] - 1) * by for at, by in zip(places, params["rhs_dilation"], strict=True)]
    steps = params["window_strides"]
    return tuple(max(0, (n - r - 1) // s + 1) for n, r, s in zip(sizes, reach, steps, strict=True))


def _why_not(kernel: tuple[int, ...], params: Mapping[str, Any]) -> str:
    """Returns why the convolution of an equation has no optical form; "" if it has one."""
    _, _, *places = params["dimension_numbers"].rhs_spec
    taps = [kernel[at] for at in places]
    if params["batch_group_count"] != 1 or set(params["lhs_dilation"]) - {1}:
        return "a transposed convolution"
    if len(taps) not in (1, 2):
        return f"a convolution over {len(taps)} axes"
    if math.prod(taps) == 1:
        return "a kernel of one tap, which is a product"
    return ""
