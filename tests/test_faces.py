"""The public names of packages, and what they cost before they are used."""

import importlib
import pkgutil
import subprocess
import sys

import pytest
from conftest import ROOT

FACES = ("fourier_attn", "fourier_attn.ops", "fourier_attn.layers", "fourier_attn.optics")
# A function and its module have one name; the function is imported from the module, in any order of imports.
TWINS = {
    "fourier_attn.ops": ("attention", "global_filter", "patches"),
    "fourier_attn.layers": ("attention_weights",),
}
PROGRAM = """
import importlib, sys
for name in {faces}:
    importlib.import_module(name)
assert not {{"ast", "numpy", "jax"}} & sys.modules.keys()
import fourier_attn.ops.{first}
from fourier_attn import register_task
from fourier_attn.ops import fourier_mix
from fourier_attn.optics import *
assert plan and "flax" not in sys.modules
from fourier_attn.layers import LambdaLayer
for package, names in {twins}.items():
    for name in names[::{step}]:
        if {step} == 1:
            exec(f"import {{package}}.{{name}}")
        exec(f"from {{package}}.{{name}} import {{name}} as function")
        assert type(function).__name__ == "function", name
        exec(f"from {{package}} import {{name}} as module")
        assert type(module) is type(sys), name
        exec(f"import {{package}}.{{name}} as module")
        assert module.__dict__[name] is function, name
print("fine")
"""


@pytest.mark.parametrize(("step", "first"), [(1, "attention"), (-1, "fourier")])
def test_names_are_imported_when_they_are_used(step: int, first: str) -> None:
    program = PROGRAM.format(faces=FACES, twins=TWINS, step=step, first=first)
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stdout == "fine\n", result.stderr


@pytest.mark.parametrize("package", FACES)
def test_all_names_exist_and_mean_one_thing(package: str) -> None:
    face = importlib.import_module(package)
    modules = {module.name for module in pkgutil.iter_modules(face.__path__)}
    assert len(set(face.__all__)) == len(face.__all__)
    assert set(face.__all__) <= set(dir(face))
    for name in face.__all__:
        module = sys.modules.get(f"{package}.{name}")
        assert (getattr(face, name) is module) == (name in modules), name
    assert package == "fourier_attn" or not modules & set(face.__all__)
    for name in TWINS.get(package, ()):
        assert callable(getattr(importlib.import_module(f"{package}.{name}"), name))
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'fourier_mux'"):
        _ = face.fourier_mux
