"""Writes one file of a class and of the functions that it calls, from their sources.

Text is edited in place, so that formatting and comments stay. What a standalone file never has is taken for
a constant (`CONSTANTS`): branches on it are decided, and arguments and fields with its name are left out.
"""

import ast
import functools
import importlib
import itertools
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fourier_attn.standalone import plain

CONSTANTS: dict[str, Any] = {
    "asked": False,
    "cursor": None,
    "engine": None,
    "place": None,
    "shares()": 1,
    "known_lengths": (),
    "method": "literal",
    "self.method": "literal",
    "self.implementation": "xla",
    "self.optical": False,
    "self.rotary": False,
}
DROPPED = {"cursor", "method", "implementation", "rotary", "prefer", "dot_general", "has_step", "shared"}
NOT_PASSED = DROPPED | {"sizes"}
RENAMED = {
    "matrix_dot_general(": "jax.lax.dot_general(",
    "initializers.dense(": "dense_initializers(",
    # What these say of engines and methods has no meaning in a file.
    "  # an engine has no mask then": "",
    " and no engine; ": "; ",
    ", or as `method` says": "",
}
UNKNOWN = object()
BLOCKS = ("def ", "class ", "@")  # how functions and classes begin
ARRAY = re.compile(r'\b(?:Bool|Complex|Float|Inexact|Int|Num)\[(?:Array|np\.ndarray), "[^"]*"\]')


class Definition(NamedTuple):
    """A function, class or constant of a module: its text as it goes into the file, and what it uses."""

    module: str
    text: str
    names: tuple[str, ...]


class Module:
    """The source of a module, with its definitions and imports by name."""

    def __init__(self, name: str) -> None:
        file = importlib.import_module(name).__file__
        assert file is not None
        self.name, self.source = name, Path(file).read_text()
        self.starts = [0, *itertools.accumulate(len(line) for line in self.source.splitlines(True))]
        self.definitions: dict[str, ast.stmt] = {}
        self.imports: dict[str, tuple[str, str]] = {}  # name -> module and name there, or "" for a module
        for node in ast.parse(self.source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.definitions[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.definitions |= {
                    n.id: node for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)
                }
            elif isinstance(node, ast.Import):
                self.imports |= {alias.asname or alias.name: (alias.name, "") for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                self.imports |= {a.asname or a.name: (str(node.module), a.name) for a in node.names}

    def text_of(self, begin: int, end: int, node: ast.stmt) -> str:
        """Returns a part of the source with the edits of a node."""
        return Editor(self).text(begin, end, [node])

    def first_name(self, name: str) -> str:
        """Returns the first of the names that the statement defines which defines this one."""
        return next(n for n, node in self.definitions.items() if node is self.definitions[name])

    def span(self, node: Any) -> tuple[int, int]:
        """Returns where the text of a node begins and ends; columns count bytes, and sources are ASCII."""
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )


@functools.cache
def load(name: str) -> Module:
    """Returns the module of this name, read once."""
    return Module(name)


def value_of(node: ast.expr) -> Any:
    """Returns what an expression is in every standalone file, `UNKNOWN` where that depends on a call."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Call):
        return CONSTANTS.get(ast.unparse(node), UNKNOWN)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = value_of(node.operand)
        return value if value is UNKNOWN else not value
    if isinstance(node, ast.BoolOp):
        values, end = [value_of(part) for part in node.values], isinstance(node.op, ast.Or)
        if any(value is not UNKNOWN and bool(value) is end for value in values):
            return end
        return UNKNOWN if UNKNOWN in values else not end
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = value_of(node.left), value_of(node.comparators[0])
        if UNKNOWN not in (left, right):
            equal = left == right
            return equal if isinstance(node.ops[0], ast.Is | ast.Eq) else not equal
    return UNKNOWN


class Editor:
    """Collects the edits of one definition."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.edits: list[tuple[int, int, str]] = []

    def text(self, begin: int, end: int, nodes: list[Any]) -> str:
        """Returns a part of the source with the edits of these nodes."""
        inner = Editor(self.module)
        for node in nodes:
            inner.visit(node)
        parts, place = [], begin
        for first, last, new in sorted(inner.edits):
            parts += [self.module.source[place:first], new]
            place = max(place, last)
        return "".join([*parts, self.module.source[place:end]])

    def remove(self, node: Any, lines: bool = True) -> None:
        """Removes a statement with its lines, or an item of a list with the comma behind it."""
        begin, end = self.module.span(node)
        if decorators := getattr(node, "decorator_list", ()):
            begin = self.module.span(decorators[0])[0] - 1
        source = self.module.source
        if rest := re.match(r" +#.*" if lines else r", ?", source[end:]):
            end += len(rest[0])
        elif not lines and source[:begin].endswith(", "):
            begin -= 2
        if source[source.rfind("\n", 0, begin) + 1 : begin].isspace() and source[end : end + 1] == "\n":
            begin, end = source.rfind("\n", 0, begin) + 1, end + 1
        self.edits.append((begin, end, ""))

    def visit(self, node: Any) -> None:
        """Edits a node and what it contains."""
        drop = getattr(self, f"edit_{type(node).__name__}", lambda node: False)
        if not drop(node):
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def edit_If(self, node: ast.If) -> bool:
        value = value_of(node.test)
        if value is UNKNOWN:
            return False
        body = node.body if value else node.orelse
        if not body:
            self.remove(node)
            return True
        first, last = self.module.starts[body[0].lineno - 1], self.module.span(body[-1])[1]
        text = self.text(first, last, list(body))
        indent = " " * node.col_offset
        new = textwrap.indent(textwrap.dedent(text), indent).lstrip()
        self.edits.append((*self.module.span(node), re.sub(r"^elif", "if", new)))
        return True

    def edit_IfExp(self, node: ast.IfExp) -> bool:
        value = value_of(node.test)
        if value is UNKNOWN:
            return False
        chosen = node.body if value else node.orelse
        self.edits.append((*self.module.span(node), self.text(*self.module.span(chosen), [chosen])))
        return True

    def edit_BoolOp(self, node: ast.BoolOp) -> bool:
        """Leaves out the parts that decide nothing."""
        kept = [part for part in node.values if isinstance(part, ast.Constant) or value_of(part) is UNKNOWN]
        if len(kept) == len(node.values) or not kept:
            return False
        word = " and " if isinstance(node.op, ast.And) else " or "
        new = word.join(self.text(*self.module.span(part), [part]) for part in kept)
        self.edits.append((*self.module.span(node), new))
        return True

    def edit_Assign(self, node: ast.Assign) -> bool:
        names = {ast.unparse(part) for target in node.targets for part in ast.walk(target)}
        if names & CONSTANTS.keys():
            self.remove(node)
            return True
        return False

    def edit_AnnAssign(self, node: ast.AnnAssign) -> bool:
        name = ast.unparse(node.target)
        if name in DROPPED:
            self.remove(node)
            return True
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func).startswith(
            ("from_", "how_", "not_an")
        ):
            default = node.value.args[1 if ast.unparse(node.value.func).startswith("from_") else 0]
            begin, end = self.module.span(default)
            self.edits.append((*self.module.span(node.value), self.module.source[begin:end]))
            return True
        return False

    def edit_Expr(self, node: ast.Expr) -> bool:
        """Leaves out the check of a field that is left out."""
        names = {ast.unparse(part) for part in ast.walk(node)}
        if isinstance(node.value, ast.Call) and "check_choice" in names and names & CONSTANTS.keys():
            self.remove(node)
            return True
        return False

    def edit_Call(self, node: ast.Call) -> bool:
        if ast.unparse(node.func) == "self.on_engine":  # it calls its first argument with the others
            begin, end = self.module.span(node)[0], self.module.span(node.args[1])[0]
            self.edits.append((begin, end, f"{ast.unparse(node.args[0])}("))
            self.remove(node.keywords[0], lines=False)
        for keyword in node.keywords:
            if keyword.arg in NOT_PASSED:
                self.remove(keyword, lines=False)
        return False

    def edit_keyword(self, node: ast.keyword) -> bool:
        return node.arg in NOT_PASSED

    def edit_FunctionDef(self, node: ast.FunctionDef) -> bool:
        for decorator in node.decorator_list:
            if ast.unparse(decorator) in ("takes_arrays", "nn.nowrap"):
                begin, end = self.module.span(decorator)
                self.edits.append((begin - decorator.col_offset, end + 1, ""))
        every, last = [*node.args.args, *node.args.kwonlyargs], node.args.defaults
        defaults = [*[None] * (len(node.args.args) - len(last)), *last, *node.args.kw_defaults]
        for argument, default in zip(every, defaults, strict=True):
            if argument.arg in DROPPED:
                end = default or argument
                whole = ast.copy_location(ast.Name(argument.arg), argument)
                whole.end_lineno, whole.end_col_offset = end.end_lineno, end.end_col_offset
                self.remove(whole, lines=False)
        self.document(node, brief)
        return False

    def edit_ClassDef(self, node: ast.ClassDef) -> bool:
        for base in node.bases:
            if ast.unparse(base) == "OnEngine":
                self.edits.append((*self.module.span(base), "nn.Module"))
        methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
        used, new, text = set(), {"__call__"}, ""
        while new:
            used |= new
            text += "".join(self.text(*self.module.span(methods[name]), [methods[name]]) for name in new)
            new = (set(re.findall(r"self\.(\w+)", text)) & methods.keys()) - used
        fields = {ast.unparse(part.target): part for part in node.body if isinstance(part, ast.AnnAssign)}
        if "self.grid" not in text and "grid" in fields:  # of attention, which needs it for rotations alone
            self.remove(fields.pop("grid"))
        for name in methods.keys() - used:
            self.remove(methods[name])
        for part in (*fields.values(), *(methods[name] for name in used)):
            self.visit(part)
        self.document(node, functools.partial(of_class, fields=[f for f in fields if f not in DROPPED]))
        return True

    def document(self, node: Any, write: Callable[[str], str]) -> None:
        """Puts what `write` makes of a docstring in its place."""
        if doc := ast.get_docstring(node):
            expression, indent = node.body[0].value, " " * (node.col_offset + 4)
            new = textwrap.indent(write(doc), indent).strip()
            end = f"\n{indent}" if "\n" in new else ""
            self.edits.append((*self.module.span(expression), f'"""{new}{end}"""'))


def brief(doc: str) -> str:
    """Returns the first paragraph of a docstring and the equations that follow it at once."""
    paragraphs = re.split(r"\n\s*\n", doc)
    block = paragraphs[1] if len(paragraphs) > 1 else ""
    equations = block.startswith("  ") and ">>>" not in block
    kept = [paragraphs[0], block] if equations else paragraphs[:1]
    return re.sub(r" {3,}`fourier_attn\S+`", "", "\n\n".join(kept))


SECTION = re.compile(r"^(Parameters|Args|Masking|Source|Returns|Raises|Shapes): ?", flags=re.MULTILINE)
ENTRY = re.compile(r"^  (\w+(?:, \w+)*): ", flags=re.MULTILINE)


def sections(doc: str) -> dict[str, str]:
    """Returns the sections of a docstring by name, and the text before them as ""."""
    parts = SECTION.split(doc)
    return {
        "": parts[0].rstrip(),
        **{name: text.rstrip() for name, text in zip(parts[1::2], parts[2::2], strict=True)},
    }


def of_class(doc: str, fields: list[str]) -> str:
    """Returns the docstring of a layer with its equations, its parameters, these fields and its mask."""
    found = sections(doc)
    parts = [brief(found[""])]
    if "Parameters" in found:
        parts.append(f"Parameters: {found['Parameters']}")
    entries = ENTRY.split(f"{found.get('Args', '')}\n")
    kept = [
        f"  {names}: {text.rstrip()}"
        for names, text in zip(entries[1::2], entries[2::2], strict=True)
        if set(names.split(", ")) & {*fields}
    ]
    if kept:
        parts.append("\n".join(["Args:", *kept]))
    if "Masking" in found:
        parts.append(f"Masking: {found['Masking']}")
    return "\n\n".join(parts)


# Arguments of a call or a signature, one on each line.
LIST = re.compile(r"\((?:(?:\n *[^\s)][^\n]*,)+|\n *[^\s)][^\n]*)\n *\)[^\n]*\n")


def joined(match: re.Match[str]) -> str:
    """Returns a list of arguments on one line, where it fits there."""
    line = re.sub(r"\s*\n\s*", " ", match[0].rstrip())
    line = re.sub(r",? \)", ")", line.replace("( ", "("))
    begin = match.string.rfind("\n", 0, match.start()) + 1
    fits = match.start() - begin + len(line) <= 110 and "#" not in line
    return f"{line}\n" if fits else match[0]


def definition(module: Module, name: str) -> Definition:
    """Returns a definition of a module, edited for a standalone file."""
    node = module.definitions[name]
    begin, end = module.span(node)
    begin = min(begin, *(module.span(d)[0] - 1 for d in getattr(node, "decorator_list", ())), begin)
    text = module.text_of(begin, end, node)
    text = ARRAY.sub("jax.Array", text)
    text = re.sub(r"\bnp\.ndarray\b|(?<![\w.])Array\b", "jax.Array", text)
    text = re.sub(r"\bnp\.", "jnp.", re.sub(r"\bwide\([^()]*\)", "jnp.float32", text))
    for before, after in RENAMED.items():
        text = text.replace(before, after)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r", +\)", ")", text))
    text = re.sub(r"\b(and|or) \((\w+)\)", r"\1 \2", LIST.sub(joined, f"{text}\n").rstrip())
    tree = ast.parse(text)
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    used = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in own]
    return Definition(module.name, text, tuple(dict.fromkeys(used)))


class Program:
    """Collects definitions, with all that they use, and the imports that these need."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.definitions: dict[str, Definition] = {}

    def add(self, module: Module, name: str) -> None:
        """Adds what a name means in a module, after what that uses. Names of other libraries are imported.

        Raises: ValueError where two functions of different modules have the same name.
        """
        if name in load(plain.__name__).definitions:
            module = load(plain.__name__)
        if name in module.definitions:
            self.define(module, module.first_name(name))
        elif name in module.imports:
            origin, there = module.imports[name]
            if origin.startswith("fourier_attn"):
                self.add(load(origin), there)
            elif name != "np":
                self.imports.add(f"from {origin} import {there}" if there else import_line(origin, name))

    def define(self, module: Module, name: str) -> None:
        """Adds a definition of a module, once."""
        if known := self.definitions.get(name):
            if known.module != module.name:
                raise ValueError(f"{name} is defined by {known.module} and by {module.name}; rename one")
            return
        self.definitions[name] = definition(module, name)
        for used in self.definitions[name].names:
            self.add(module, used)
        self.definitions[name] = self.definitions.pop(name)


def inline(module: str, name: str) -> str:
    """Returns a program that defines a class and all that it uses.

    Imports and constants come first, then functions of ops, the class, and functions that check its fields.

    Args:
      module: full name of the module with the class.
      name: the class.
    Raises: ValueError where two functions of different modules have the same name.
    """
    program = Program()
    program.add(load(module), name)

    def order(item: tuple[str, Definition]) -> int:
        helper = item[0].startswith("check_") or item[0] in ("same_proportions", "scan_order")
        return 2 if helper else 1 if item[0] == name else 0

    texts = [one.text for _, one in sorted(program.definitions.items(), key=order)]
    constants = "\n".join(text for text in texts if not text.startswith(BLOCKS))
    lines = program.imports
    python = {line for line in lines if line.split()[1].split(".")[0] in sys.stdlib_module_names}
    groups = ["\n".join(sorted(group, key=import_order)) for group in (python, lines - python) if group]
    top = "\n\n".join(filter(None, [*groups, constants]))
    return "\n\n\n".join([top, *(text for text in texts if text.startswith(BLOCKS))]) + "\n"


def import_order(line: str) -> tuple[bool, str]:
    """Returns the place of an import in its group: `import` before `from`."""
    return line.startswith("from"), line


def import_line(module: str, name: str) -> str:
    """Returns the line that imports a module under a name."""
    return f"import {module}" if module == name else f"import {module} as {name}"
