"""Writes docs/api/: every public name with its signature and what its docstring says. `make pages` runs it.

A public name is one that a package below lists in `__all__`. Signatures come from the source text, so they are the same
for every version of Python.
"""

import ast
import inspect
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tools.docstring_page import first_sentences, markdown

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "api"
MANY_FIELDS = 20

# Page -> packages and modules on it, in the order in which events meet them.
PAGES = {
    "monolith": ("monolith", "monolith.errors", "monolith.hooks"),
    "data": ("monolith.data", "monolith.data.transforms"),
    "data_service": ("monolith.data_service",),
    "features": ("monolith.features",),
    "embedding": ("monolith.embedding", "monolith.embedding.hash_embedding", "monolith.embedding.layout"),
    "model": ("monolith.model", "monolith.model.metrics", "monolith.model.native_task"),
    "layers": ("monolith.model.layers",),
    "losses": ("monolith.model.losses", "monolith.model.losses.ltr"),
    "optim": ("monolith.optim",),
    "train": ("monolith.train", "monolith.train.config", "monolith.train.hooks"),
    "checkpoint": ("monolith.checkpoint", "monolith.checkpoint.keep"),
    "export": ("monolith.export",),
    "delta": ("monolith.delta",),
    "parallel": ("monolith.parallel",),
    "tensors": ("monolith.tensors",),
    "wire": ("monolith.wire",),
    "cluster": ("monolith.cluster.discovery",),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def api_pages() -> dict[str, str]:
    """Return every page by its file name."""
    rows = [f"| [{name}]({name}.md) | {first_sentences(_doc(packages[0]))} |" for name, packages in PAGES.items()]
    index = (
        "# API reference\n\nPublic names, with their signatures and docstrings. `make pages` writes these pages.\n\n"
        "| page | content |\n|---|---|\n" + "\n".join(rows) + "\n"
    )
    written = {
        f"{page}.md": f"# API: {page}\n\n" + "\n".join(_package(page, one) for one in packages)
        for page, packages in PAGES.items()
    }
    return {"README.md": index, **written}


def _doc(package: str) -> str:
    return inspect.cleandoc(import_module(package).__doc__ or "")


def _package(page: str, name: str) -> str:
    module = import_module(name)
    parts = [f"## {name}", markdown(_doc(name))]
    parts += [_entry(page, module, one) for one in sorted(public_names(module), key=str.lower)]
    return "\n\n".join(part for part in parts if part) + "\n"


def public_names(module: ModuleType) -> list[str]:
    """Return the names of `__all__`; of a module without it, the classes and functions that it defines."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("__")]
    return [name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__]


@cache
def described() -> dict[object, str]:
    """Return where each public class and function is described, as a link: the first place that offers it."""
    found: dict[object, str] = {}
    for page, packages in PAGES.items():
        for module in map(import_module, packages):
            for name in public_names(module):
                value = getattr(module, name)
                if inspect.isclass(value) or inspect.isroutine(value):
                    found.setdefault(value, f"{page}.md#{name.lower()}")
    return found


def _entry(page: str, module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        place = described()[value]
        if place != f"{page}.md#{name.lower()}":
            return f"### {name}\n\nSee [{value.__name__}]({place})."
    if inspect.isclass(value):
        return _class_entry(name, value)
    if inspect.isroutine(value):
        function = inspect.unwrap(value)
        shown = _code(_signature(name, _definition(function)))
        return f"### {name}\n\n{shown}\n\n{markdown(inspect.getdoc(function) or '')}".rstrip()
    if isinstance(value, ModuleType):
        shown = f"[{value.__name__}]({name}.md)" if name in PAGES else f"`{value.__name__}`"
        return f"### {name}\n\nThe module {shown}. {first_sentences(value.__doc__ or '')}"
    return f"### {name}\n\n{_assigned_text(module, name)}".rstrip()


def _class_entry(name: str, cls: type) -> str:
    nodes = {one: node for one in cls.__mro__ if (node := _definition(one)) is not None}
    parts = [f"### {name}", _code(_class_signature(name, nodes)), markdown(inspect.cleandoc(cls.__doc__ or ""))]
    bases = [one for one in nodes if one is not cls and one in described()]
    parts += [f"It also has what [{one.__name__}]({described()[one]}) has." for one in bases[:1]]
    nodes = {one: node for one, node in nodes.items() if not any(issubclass(base, one) for base in bases)}
    fields = [_field(field, doc) for field, doc in _fields(nodes).values() if doc and not _is_class_variable(field)]
    if 0 < len(fields) <= MANY_FIELDS:
        parts.append("\n".join(fields))
    elif fields:
        parts.append("[Settings](../settings.md) lists its fields.")
    seen: dict[str, str] = {}
    for node in nodes.values():
        for one in node.body:
            if isinstance(one, Function) and not one.name.startswith("_") and one.name not in seen:
                seen[one.name] = _method(one)
    if seen:
        parts.append("\n".join(seen[one] for one in seen if seen[one]))
    return "\n\n".join(part for part in parts if part)


def _method(node: Function) -> str:
    decorators = {ast.unparse(one) for one in node.decorator_list}
    if any(one.endswith((".setter", "overload")) for one in decorators):
        return ""
    is_property = bool(decorators & {"property", "cached_property"})
    returns = f": {ast.unparse(node.returns)}" if is_property and node.returns else ""
    shown = (
        node.name + returns if is_property else _signature(node.name, node, skip_first="staticmethod" not in decorators)
    )
    doc = first_sentences(ast.get_docstring(node) or "")
    return f"- `{shown}`" + (f" — {doc}" if doc else "")


def _class_signature(name: str, nodes: dict[type, ast.ClassDef]) -> str:
    if nodes and issubclass(next(iter(nodes)), BaseException):
        return f"class {name}({', '.join(ast.unparse(base) for base in next(iter(nodes.values())).bases)})"
    for cls, node in nodes.items():
        for one in node.body:
            if isinstance(one, Function) and one.name == "__init__":
                return "class " + _signature(name, one, skip_first=True, returns=False)
        if "__dataclass_fields__" in vars(cls) or "_fields" in vars(cls):
            fields = [_default(field) for field, _ in _fields(nodes).values() if _is_argument(field)]
            keyword_only = any("kw_only=True" in ast.unparse(one) for one in node.decorator_list)
            shown = fields if len(fields) <= MANY_FIELDS else ["**settings"]
            return _folded(f"class {name}", ["*", *shown] if keyword_only and len(fields) <= MANY_FIELDS else shown, "")
    return f"class {name}"


def _fields(nodes: dict[type, ast.ClassDef]) -> dict[str, tuple[ast.AnnAssign, str]]:
    """Return the annotated fields of a class and its bases, each with the docstring under it."""
    found: dict[str, tuple[ast.AnnAssign, str]] = {}
    for node in reversed(nodes.values()):
        for one, after in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.target.id[0] != "_":
                found[one.target.id] = (one, _string(after))
    return found


def _string(node: ast.stmt | None) -> str:
    is_string = (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return inspect.cleandoc(node.value.value) if is_string else ""


def _field(field: ast.AnnAssign, doc: str) -> str:
    return f"- `{_default(field)}` — {' '.join(doc.split())}"


def _is_class_variable(field: ast.AnnAssign) -> bool:
    return "ClassVar" in ast.unparse(field.annotation)


def _is_argument(field: ast.AnnAssign) -> bool:
    made_inside = field.value is not None and "init=False" in ast.unparse(field.value)
    return not _is_class_variable(field) and not made_inside


def _default(field: ast.AnnAssign) -> str:
    given = field.value
    if isinstance(given, ast.Call) and ast.unparse(given.func).endswith("field"):
        given = next((one.value for one in given.keywords if one.arg in ("default", "default_factory")), None)
    value = "" if given is None else f" = {ast.unparse(given)}"
    return f"{ast.unparse(field.target)}: {ast.unparse(field.annotation)}{value}"


def _signature(name: str, node: Function, *, skip_first: bool = False, returns: bool = True) -> str:
    arguments = node.args
    if skip_first:
        first = (arguments.posonlyargs or arguments.args)[0]
        arguments = ast.arguments(
            posonlyargs=[one for one in arguments.posonlyargs if one is not first],
            args=[one for one in arguments.args if one is not first],
            vararg=arguments.vararg,
            kwonlyargs=arguments.kwonlyargs,
            kw_defaults=arguments.kw_defaults,
            kwarg=arguments.kwarg,
            defaults=arguments.defaults,
        )
    end = f" -> {ast.unparse(node.returns)}" if returns and node.returns is not None else ""
    parameters = _split(arguments)
    return f"{name}({', '.join(parameters)}){end}" if skip_first and returns else _folded(name, parameters, end)


def _split(arguments: ast.arguments) -> list[str]:
    """Return the parameters one by one."""
    text = ast.unparse(arguments)
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [re.sub(r"^(\w+: [^=]+)=", r"\1 = ", part.strip()) for part in parts if part.strip()]


def _folded(head: str, parameters: list[str], end: str) -> str:
    line = f"{head}({', '.join(parameters)}){end}"
    if len(line) <= 100:
        return line
    return f"{head}(\n" + "".join(f"    {one},\n" for one in parameters) + f"){end}"


def _code(text: str) -> str:
    return f"```py\n{text}\n```"


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(Path(inspect.getsourcefile(sys.modules[module]) or "").read_text(encoding="utf-8"))


def _definition(value: type | object) -> ast.ClassDef | None:
    """Return the source of a class or function of this package; None if it was made at run time."""
    if not value.__module__.startswith("monolith"):
        return None
    body: list[ast.stmt] = _tree(value.__module__).body
    for part in value.__qualname__.split("."):
        found = [one for one in _statements(body) if getattr(one, "name", None) == part]
        if not found:
            return None
        node = found[-1]
        body = node.body
    return node


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements, and the ones under `if` and `try`."""
    inner = [_statements([*one.body, *one.orelse]) for one in body if isinstance(one, ast.If | ast.Try)]
    return [*body, *(one for part in inner for one in part)]


def _assigned_text(module: ModuleType, name: str) -> str:
    """Return what is assigned to a constant or alias, and the docstring under it, wherever it was imported from."""
    for node in _statements(_tree(module.__name__).body):
        imported = [one.name for one in node.names] if isinstance(node, ast.ImportFrom) and node.module else []
        if name in imported or ("*" in imported and name in public_names(import_module(node.module))):
            return _assigned_text(import_module(node.module), name)
    body = _tree(module.__name__).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == name for one in targets):
            return f"{_code(ast.unparse(node))}\n\n{markdown(_string(after))}"
    raise ValueError(f"{module.__name__}: nothing is assigned to {name}")


def main() -> None:
    """Write the pages, and remove the ones that are no longer written."""
    FOLDER.mkdir(exist_ok=True)
    pages = api_pages()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for path in FOLDER.glob("*.md"):
        if path.name not in pages:
            path.unlink()


if __name__ == "__main__":
    main()
