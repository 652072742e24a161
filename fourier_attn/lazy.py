"""Imports the public names of a package when they are first used."""

import importlib
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package, so that importing it imports nothing else.

    The imports that the package's source has below `if TYPE_CHECKING:` say where each name of `__all__` is.
    Type checkers read the same lines. A name that is also a module of the package has no place there: which
    of the two an import returned would depend on the imports before it.
    """
    module = sys.modules[package]
    sources: dict[str, tuple[str, str]] = {}

    def load(name: str) -> Any:
        if name in module.__all__:
            sources.update(sources or _sources(module))
            value = _find(*sources[name])
            setattr(module, name, value)
            return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)

    return load, lambda: sorted({*vars(module), *module.__all__})


def _sources(module: Any) -> dict[str, tuple[str, str]]:
    """Returns where the names of a package are: a module, and their name in it."""
    import ast  # only where a name is used

    tree = ast.parse(module.__spec__.loader.get_source(module.__name__))
    blocks = [node.body for node in tree.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block if isinstance(node, ast.ImportFrom)]
    return {
        name.asname or name.name: (str(node.module), name.name) for node in imports for name in node.names
    }


def _find(module: str, name: str) -> Any:
    """Returns what `from module import name` would, for a submodule, too."""
    loaded = importlib.import_module(module)
    try:
        return vars(loaded)[name]
    except KeyError:
        return importlib.import_module(f"{module}.{name}")
