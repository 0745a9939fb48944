"""One name, one thing: no two public classes of one name, and no alias that calls another thing by a class's name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from monolith.native_training.homes import HOMES

ROOT = Path(__file__).resolve().parent.parent

# Names of the original that two of its modules define: one class here has the name, the table leads to the other.
SHARED_BY_THE_ORIGINAL = {
    "AdamomOptimizer": "the rows of a table learn by one, dense weights by `optimizers.adamom`'s",
    "RmspropOptimizer": "the rows of a table learn by one, dense weights by `optimizers.rmsprop`'s",
}


def types_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the public classes and type aliases of a file, with what each stands for; a class stands for itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, f"class of {path.relative_to(ROOT).as_posix()}"
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias" and node.value is not None:
            yield ast.unparse(node.target), ast.unparse(node.value)
        elif isinstance(node, ast.Assign) and is_type(node.value):
            yield ast.unparse(node.targets[0]), ast.unparse(node.value)


def is_type(value: ast.expr) -> bool:
    """Whether a value reads like a type: another class's name, `Callable[...]`, `A | B`; no call, text or number."""
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.BitOr) and is_type(value.left) and is_type(value.right)
    if isinstance(value, ast.Subscript):
        return is_type(value.value)
    word = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
    return word in {"int", "str", "float", "bool", "bytes", "dict", "list", "tuple", "type"} or is_class_name(word)


def is_class_name(word: str) -> bool:
    return word[:1].isupper() and not word.isupper()


def meanings_of(paths: list[Path]) -> dict[str, set[str]]:
    found = defaultdict(set)
    for path in paths:
        for name, meaning in types_of(path):
            if is_class_name(name):
                found[name].add(meaning)
    return found


def sources() -> list[Path]:
    return [path for path in (ROOT / "monolith").rglob("*.py") if "protos" not in path.relative_to(ROOT).parts]


def test_no_two_public_classes_have_one_name():
    twice = {name: sorted(meanings) for name, meanings in meanings_of(sources()).items() if len(meanings) > 1}
    assert not twice, "give one of them the name that says what it is"


def test_aliases_with_the_name_of_a_class_are_those_of_the_original():
    classes = {
        name: meaning for path in sources() for name, meaning in types_of(path) if meaning.startswith("class of ")
    }
    others = set()
    for names in HOMES.values():
        for name, home in names.items():
            module, _, attribute = home.partition(":")
            if name in classes and (name != attribute or classes[name] != f"class of {file_of(module)}"):
                others.add(name)
    assert others == set(SHARED_BY_THE_ORIGINAL)


def file_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def test_two_classes_and_an_alias_of_one_name_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    texts = {
        "a.py": "class Row: ...\nclass _Hidden: ...\nIds = dict[str, int]\n",
        "b.py": "class Row: ...\nclass _Hidden: ...\nIds = dict[str, int]\n",
        "c.py": "Ids = list[int]\nLIMIT = 3\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found = {name for name, meanings in meanings_of(sorted(tmp_path.iterdir())).items() if len(meanings) > 1}
    assert found == {"Row", "Ids"}
