"""Builds the configurations of the FNet paper: its architectures and sizes."""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default, fit_length

# name -> mixer of all blocks; the hybrid has attention in two of them
ARCHITECTURES = {
    "fnet": "fourier",
    "hybrid": "fourier",
    "bert": "attention",
    "linear": "linear",
    "random": "random",
    "ff": "identity",
}
SIZES = {
    "tiny": {"depth": 2, "d": 128, "emb": 128, "mlp": 512, "heads": 2},
    "mini": {"depth": 4, "d": 256, "emb": 256, "mlp": 1024, "heads": 4},
    "base": {"depth": 12, "d": 768, "emb": 768, "mlp": 3072, "heads": 12},
    "large": {"depth": 24, "d": 1024, "emb": 1024, "mlp": 4096, "heads": 16},
}


def family(
    name: str = "fnet",
    size: str = "base",
    task: str = "pretraining",
    attention: int | None = None,
    where: str | None = None,
) -> Config:
    """Returns the configuration of an architecture of the FNet paper.

    Only padding and the initial weights differ from the paper. The sum of the word, position and type tables
    (32,000, 512 and 4 rows) is normalised (eps 1e-12) and projected. Blocks normalise after each sum and use
    the tanh form of GELU, and the first token is pooled. Dense layers start with variance $1 / inputs$ and
    without bias; in the paper they start with deviation 0.02, and so do some biases. In size "base", with the
    heads of pre-training, fnet, hybrid, linear and bert have 83.49, 88.21, 93.71 and 111.84 million
    parameters.

    As in BERT, attention drops a tenth of its weights in training. On long texts, sampling this dropout takes
    a large part of the time. To compare mixers, set `config.model.mixer.dropout = 0`.

    Args:
      name: the architecture: "fnet", "hybrid", "linear", "random", "ff" or "bert".
      size: the size, a key of `SIZES`.
      task: the task, for example "pretraining".
      attention: number of blocks of "hybrid" with attention; None: two, or one of two blocks.
      where: position of these blocks, see `placed`; None: "top".
    Raises: ValueError for an unknown name or size, and for `attention` or `where` without "hybrid".
    Source: Lee-Thorpe et al., arXiv 2105.03824; sizes base and large also Devlin et al., arXiv 1810.04805.
    """
    check_choice("name", name, ARCHITECTURES)
    check_choice("size", size, SIZES)
    hybrid = name == "hybrid"
    if not hybrid and (attention, where) != (None, None):
        raise ValueError(
            f"attention={attention} and where={where!r} are of 'hybrid', not of name={name!r}; leave them out"
        )
    config = default(ARCHITECTURES[name], task, others=("attention",) if hybrid else ())
    sizes = dict(SIZES[size])
    heads = sizes.pop("heads")
    model = config.model
    model.update(sizes)
    model.vocab = config.data.vocab = 32_000
    model.positions, model.types = 512, 4
    model.activation, model.norm_eps, model.pooling, model.dropout = "gelu", 1e-12, "first", 0.1
    if name in ("hybrid", "bert"):
        mixer = model.others.attention if hybrid else model.mixer
        mixer.heads, mixer.head_width, mixer.bias, mixer.dropout = heads, "split", True, 0.1
    if hybrid:
        count = min(2, model.depth // 2) if attention is None else attention
        model.layout = placed(model.depth, count, where or "top", "fourier")
    if task == "pretraining":
        model.head = "pretraining"
    return fit_length(config)


def placed(depth: int, count: int, where: str, mixer: str, other: str = "attention") -> tuple[str, ...]:
    """Returns the layout of a hybrid of FNet: one mixer for each block, from the first block to the last.

        >>> placed(4, 1, "top", "fourier")
        ('fourier', 'fourier', 'fourier', 'attention')

    Args:
      depth: number of blocks.
      count: number of blocks with `other`.
      where: position of these blocks. "bottom" takes the first `count` blocks, "top" the last ones, "middle"
        those around the middle, and "mixed" blocks at equal distances: block $floor(j depth / count)$ for
        every j below `count`.
      mixer: mixer of the remaining blocks.
      other: mixer of the `count` blocks.
    Raises: ValueError if `count` is larger than `depth`, or for an unknown position.
    Source: Lee-Thorpe et al., arXiv 2105.03824. Their code places "mixed" at every block l for which
      l mod (depth // count) is 0. The result is the same where `count` divides `depth`; elsewhere their code
      places too many blocks.
    """
    if not 0 <= count <= depth:
        raise ValueError(f"count={count} must lie between 0 and depth={depth}")
    chosen = {
        "bottom": range(count),
        "middle": [n for n in range(depth) if depth - count <= 2 * n < depth + count],
        "mixed": [j * depth // count for j in range(count)],
        "top": range(depth - count, depth),
    }
    check_choice("where", where, chosen)
    return tuple(other if n in chosen[where] else mixer for n in range(depth))
