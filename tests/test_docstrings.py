"""Docstrings document every argument and every field."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "fourier_attn"
# Their call has the meaning of the field.
DESCRIBED = {"knob", "parameter", "choice", "bits", "whole", "noise", "crosstalk", "measured"}
# The functions of `standalone` are templates, which files of limited length copy.
ROOMS = ("", *sorted({path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"standalone"}))
Definition = ast.FunctionDef | ast.ClassDef


def exported(init: Path) -> Iterator[tuple[Path, str]]:
    """Yields file and name of the definitions that a package exports in `__all__`."""
    tree = ast.parse(init.read_text())
    names = {
        text.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        for text in node.value.elts
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            file = ROOT / f"{node.module.replace('.', '/')}.py"
            file = file if file.exists() else file.with_suffix("") / "__init__.py"
            yield from ((file, alias.name) for alias in node.names if (alias.asname or alias.name) in names)
        elif isinstance(node, Definition) and node.name in names:
            yield init, node.name


def undocumented(node: Definition) -> list[str]:
    """Returns the arguments, or the fields, that a docstring does not name."""
    text = ast.get_docstring(node) or ""
    if isinstance(node, ast.ClassDef):
        names = [item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and is_plain(item)]
    else:
        names = arguments(node)
    return [name for name in names if not re.search(rf"\b{name}\b", text) and not name.startswith("_")]


def is_plain(field: ast.AnnAssign) -> bool:
    """Whether a field's declaration does not have its meaning, as a call or as metadata."""
    if isinstance(field.value, ast.Call):
        named = getattr(field.value.func, "id", "") in DESCRIBED
        return not named and all(keyword.arg != "metadata" for keyword in field.value.keywords)
    return "ClassVar" not in ast.unparse(field.annotation)


def arguments(node: ast.FunctionDef) -> list[str]:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [arg.arg for arg in every if arg is not None and arg.arg not in ("self", "cls")]


def public(body: list[ast.stmt]) -> Iterator[Definition]:
    """Yields the public functions, classes and methods of a module."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def test_exported_names_document_every_argument_and_field() -> None:
    wrong = []
    for init in sorted(
        path for room in ROOMS for path in (PACKAGE / room).glob("**/__init__.py" if room else "*.py")
    ):
        for file, name in exported(init):
            found = {
                node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, Definition)
            }
            listed = file.relative_to(PACKAGE).parts[0] in ROOMS or file.parent == PACKAGE
            if listed and name in found and (missing := undocumented(found[name])):
                wrong.append(f"{file.relative_to(ROOT)}: {name} does not document {', '.join(missing)}")
    assert not wrong, "\n".join(sorted(set(wrong)))


@pytest.mark.parametrize("room", ROOMS)
def test_functions_with_three_arguments_document_them(room: str) -> None:
    wrong = []
    for file in sorted((PACKAGE / room).rglob("*.py") if room else PACKAGE.glob("*.py")):
        for node in public(ast.parse(file.read_text()).body):
            large = isinstance(node, ast.FunctionDef) and len(arguments(node)) >= 3
            if large and (missing := undocumented(node)):
                wrong.append(f"{file.relative_to(ROOT)}: {node.name} does not document {', '.join(missing)}")
    assert not wrong, "\n".join(wrong)


def entries(node: ast.FunctionDef) -> list[str]:
    """Returns the names in the section "Args:" of a docstring."""
    text = (ast.get_docstring(node) or "").partition("\nArgs:\n")[2]
    section = re.split(r"^\S", text, flags=re.MULTILINE)[0]
    return ", ".join(re.findall(r"^  (\w+(?:, \w+)*): ", section, flags=re.MULTILINE)).split(", ")


def test_exported_docstrings_begin_with_a_verb() -> None:
    """In the third person, as in "Returns the ..."; the index of the reference shows these sentences."""
    wrong = set()
    for file, name in {found for init in PACKAGE.rglob("__init__.py") for found in exported(init)}:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, Definition) and node.name == name:
                text = ast.get_docstring(node) or ""
                if not re.match(r"[A-Z][a-z]+s |Is |Has ", text):
                    wrong.add(f"{file.relative_to(ROOT)}: {name}: {text[:60]}")
    assert not wrong, "\n".join(sorted(wrong))


def test_exported_functions_and_methods_list_every_argument() -> None:
    """In the section "Args:", which the API reference shows as a list."""
    wrong = set()
    for file, name in {found for init in PACKAGE.rglob("__init__.py") for found in exported(init)}:
        chosen = [node for node in ast.parse(file.read_text()).body if getattr(node, "name", "") == name]
        for node in public(chosen) if "standalone" not in file.parts else ():
            missing = set(arguments(node)) - set(entries(node)) if isinstance(node, ast.FunctionDef) else ()
            if missing:
                wrong.add(f"{file.relative_to(ROOT)}: {node.name} does not list {', '.join(missing)}")
    assert not wrong, "\n".join(sorted(wrong))


def test_arguments_are_documented_once_and_exist() -> None:
    wrong = []
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = entries(node) if isinstance(node, ast.FunctionDef) else []
            known = {*arguments(node), "cls", ""} if names else set()  # cls is also a token
            if bad := {name for name in names if names.count(name) > 1 or name not in known}:
                wrong.append(f"{file.relative_to(ROOT)}: {node.name}: {', '.join(sorted(bad))}")
    assert not wrong, "\n".join(wrong)
