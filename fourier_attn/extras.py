"""Names the command that installs an optional dependency; the package is not on PyPI."""


def install(extra: str) -> str:
    """Returns what to do if a package of an extra is not installed, for an error message.

    >>> install("export")
    "run pip install -e '.[export]' in your clone of fourier_attn"

    Args:
      extra: name of a group of optional dependencies in pyproject.toml.
    """
    return f"run pip install -e '.[{extra}]' in your clone of fourier_attn"
