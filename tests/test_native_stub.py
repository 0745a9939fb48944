"""The stub of the compiled core says what the binary has: every name, every parameter, and nothing else."""

import ast
import enum
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from monolith._core import native

STUB = Path(native.__file__).parent / "native.pyi"
WAY_OUT = "run `python tools/native_stub.py` and commit monolith/_core/native.pyi"

Parameters = tuple[tuple[str, bool], ...]
"""Name of each parameter, and whether it may be left out."""


def is_public(name: str) -> bool:
    """Tell whether callers may use a name: not underscored, or __init__ or __len__ and the like."""
    return not name.startswith("_")


def parameters_of(arguments: ast.arguments) -> Parameters:
    """Return the parameters of a parsed function, without self."""
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    found = [(argument.arg, i >= first_default) for i, argument in enumerate(positional)]
    found += [
        (argument.arg, default is not None)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return tuple(parameter for parameter in found if parameter[0] not in ("self", "cls"))


def signature_in_binary(function: object) -> Parameters:
    """Return the parameters that nanobind noted for a function; its overloads differ in types alone."""
    overloads = {parameters_in(signature, defaults) for signature, _, defaults in function.__nb_signature__}  # type: ignore[attr-defined]
    (parameters,) = overloads
    return parameters


def parameters_in(signature: str, defaults: tuple[object, ...] | None) -> Parameters:
    """Return the parameters of one overload."""
    inside, depth, words = signature[signature.index("(") + 1 :], 0, [""]
    for character in inside:  # up to the closing bracket, cut at the commas that are not inside another bracket
        if character == ")" and depth == 0:
            break
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            words.append("")
        else:
            words[-1] += character
    pieces = [word.strip() for word in words]
    named = [(piece.partition(":")[0].strip(), "= \\" in piece) for piece in pieces if piece not in ("", "/", "*")]
    assert sum(optional for _, optional in named) == len(defaults or ())
    return tuple(parameter for parameter in named if parameter[0] not in ("self", "cls"))


def names_in_binary() -> Iterator[tuple[str, object]]:
    """Yield what the compiled module offers: a name, and its kind or its parameters."""
    for name, value in vars(native).items():
        if not is_public(name):
            continue
        if not isinstance(value, type):
            yield name, signature_in_binary(value) if hasattr(value, "__nb_signature__") else "value"
            continue
        yield name, tuple(base.__name__ for base in value.__bases__ if base is not object)
        if issubclass(value, enum.Enum):
            yield from ((f"{name}.{member.name}", member.value) for member in value)
            continue
        for member, inside in vars(value).items():
            if isinstance(inside, property):
                yield f"{name}.{member}", "settable property" if inside.fset else "property"
            elif (is_public(member) or member in ("__init__", "__len__")) and hasattr(inside, "__nb_signature__"):
                yield f"{name}.{member}", signature_in_binary(inside)


def members_in_stub(node: ast.ClassDef) -> Iterator[tuple[str, object]]:
    """Yield the members of a class of the stub, as names_in_binary does."""
    for inside in node.body:
        if isinstance(inside, ast.Assign):
            (target,) = inside.targets
            assert isinstance(target, ast.Name)
            yield f"{node.name}.{target.id}", ast.literal_eval(inside.value)
        elif isinstance(inside, ast.FunctionDef):
            decorators = [ast.unparse(decorator) for decorator in inside.decorator_list]
            if not decorators:
                yield f"{node.name}.{inside.name}", parameters_of(inside.args)
            else:  # a setter comes after its property and overwrites it in the dict below
                yield f"{node.name}.{inside.name}", "property" if decorators == ["property"] else "settable property"


def names_in_stub() -> Iterator[tuple[str, object]]:
    """Yield what the stub promises, as names_in_binary does."""
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, parameters_of(node.args)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and is_public(node.target.id):
            yield node.target.id, "value"
        elif isinstance(node, ast.ClassDef):
            yield node.name, tuple(ast.unparse(base).rpartition(".")[2] for base in node.bases)
            yield from members_in_stub(node)


def test_stub_and_binary_agree() -> None:
    stub, binary = dict(names_in_stub()), dict(names_in_binary())
    assert len(binary) > 100  # the comparison below is of something
    assert not sorted(binary.keys() - stub.keys()), f"missing in the stub: {WAY_OUT}"
    assert not sorted(stub.keys() - binary.keys()), f"only in the stub: {WAY_OUT}"
    assert {name: (stub[name], binary[name]) for name in binary if stub[name] != binary[name]} == {}, WAY_OUT


def test_no_function_has_a_vague_type() -> None:
    vague = {"Any", "object", "tuple", "dict", "list"}
    for node in ast.walk(ast.parse(STUB.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            types_used = [argument.annotation for argument in (*node.args.args, *node.args.kwonlyargs)] + [node.returns]
            assert not vague & {ast.unparse(used) for used in types_used if used is not None}, node.name


def test_signatures_are_read_right() -> None:
    """The comparison rests on reading nanobind's own notes; two of them, checked by hand."""
    assert signature_in_binary(native.BatchPlan.step) == (
        ("gradients", False),
        ("learning_rates", False),
        ("global_step", False),
        ("time", False),
        ("sum_repeated", True),
    )
    assert signature_in_binary(native.simd_level) == ()
    unlike = (("def f(a: int) -> None", None, None), ("def f(b: int) -> None", None, None))
    with pytest.raises(
        ValueError, match="unpack"
    ):  # overloads of other parameters would need a comparison of their own
        signature_in_binary(types.SimpleNamespace(__nb_signature__=unlike))
