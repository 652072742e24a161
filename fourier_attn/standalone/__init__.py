"""Prints each mixer as one file that needs JAX and Flax alone, for use in another project.

    python -m fourier_attn.standalone lambda > lambda_layer.py

The file is made from the sources of the layer and of its op: `inline` collects the functions that are used
and leaves out the optical engine, decoding token by token, and the annotations of jaxtyping. Ops with several
fast forms are replaced with the short ones in `plain`.
"""

import inspect
import textwrap

from fourier_attn import __version__
from fourier_attn.choices import check_choice
from fourier_attn.model import MIXERS
from fourier_attn.standalone.inline import inline, sections

ORIGIN = """
    This file is one mixer of fourier_attn {version}, for use in another project. It needs only JAX and Flax.
    `python -m fourier_attn.standalone {name}` made it from {layer}.
    Parameters, outputs and gradients are the same up to rounding. It leaves out {without}.
"""
HEAD = '''"""{summary}

{origin}

    layer = {layer}()
    x = jnp.ones((2, 16, 64))  # examples, tokens, features
    mask = jnp.arange(16)[None] < jnp.array([[16], [9]])  # True for real tokens; padding follows them
    params = layer.init(jax.random.key(0), x)
    y = layer.apply(params, x, mask=mask)  # (2, 16, 64)

{source}
Licence: Apache-2.0
"""
'''


def standalone(name: str) -> str:
    """Returns the text of a file with one mixer, its op and nothing else of this package.

        >>> standalone("identity").splitlines()[-1]
        '        return x.astype(self.dtype)'

    Args:
      name: the mixer, a key of `fourier_attn.model.MIXERS`.
    Raises: ValueError for an unknown mixer.
    """
    check_choice("mixer", name, MIXERS)
    layer = MIXERS[name]
    doc = sections(inspect.getdoc(layer) or "")
    fields = layer.__dataclass_fields__.keys()
    left_out = {
        "engine": "the optical engine",
        "method": "faster methods",
        "causal": "decoding token by token",
    }
    origin = ORIGIN.format(
        version=__version__,
        name=name,
        layer=f"{layer.__module__}.{layer.__name__}",
        without=", ".join([*(words for field, words in left_out.items() if field in fields), "type checks"]),
    )
    head = HEAD.format(
        summary=_filled(doc[""].split("\n\n")[0]),
        origin=_filled(origin),
        layer=layer.__name__,
        source=_filled(f"Source: {doc['Source']}"),
    )
    return f"{head}\n{inline(layer.__module__, layer.__name__)}"


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False)
