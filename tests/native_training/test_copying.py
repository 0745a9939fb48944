"""Copies of files and folders."""

import pytest

from monolith.native_training import copying
from monolith.native_training.copying import copy_file, copy_recursively


def make_tree(folder):
    for name in ("a.txt", "one/b.txt", "one/two/c.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"content of {name}")
    (folder / "empty").mkdir()


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else None for path in folder.rglob("*")
    }


@pytest.mark.parametrize("max_workers", [1, 2])
def test_a_folder_becomes_a_copy(tmp_path, max_workers):
    make_tree(tmp_path / "from")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "old").write_text("goes")
    copy_recursively(tmp_path / "from", tmp_path / "to", max_workers=max_workers)
    assert tree(tmp_path / "to") == tree(tmp_path / "from")
    assert len(tree(tmp_path / "to")) == 6


def test_to_a_remote_folder_and_back(tmp_path):
    make_tree(tmp_path / "from")
    copy_recursively(tmp_path / "from", "memory://copies/of/it", max_workers=2)
    copy_recursively("memory://copies/of/it", tmp_path / "back")
    assert {name: text for name, text in tree(tmp_path / "back").items() if text} == {
        name: f"content of {name}" for name in ("a.txt", "one/b.txt", "one/two/c.txt")
    }


def test_what_is_not_there(tmp_path):
    (tmp_path / "to").write_text("stays")
    assert copy_file(tmp_path / "absent", tmp_path / "to") is False
    copy_recursively(tmp_path / "absent", tmp_path / "to")
    assert (tmp_path / "to").read_text() == "stays"
    with pytest.raises(FileNotFoundError):
        copy_file(tmp_path / "absent", tmp_path / "to", skip_nonexist=False)
    with pytest.raises(ValueError, match="no folder"):
        copy_recursively(tmp_path / "absent", tmp_path / "to", skip_nonexist=False)


def test_overwriting_is_a_choice(tmp_path):
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        copy_file(tmp_path / "a", tmp_path / "b", overwrite=False)
    assert copy_file(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "new"


def test_a_failure_is_tried_again(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("new")
    real, failures = copying._copy_once, iter([OSError("busy"), OSError("busy"), None])

    def flaky(*arguments):
        if error := next(failures):
            raise error
        real(*arguments)

    monkeypatch.setattr(copying, "_copy_once", flaky)
    assert copy_file(tmp_path / "a", tmp_path / "b", max_retries=2)
    assert (tmp_path / "b").read_text() == "new"
    failures = iter([OSError("busy"), OSError("still busy")])
    with pytest.raises(OSError, match="still busy"):
        copy_file(tmp_path / "a", tmp_path / "b", max_retries=1)


@pytest.mark.parametrize(("source", "target"), [("x", "x"), ("x", "x/inside"), ("x/inside", "x")])
def test_a_folder_is_not_copied_into_itself(tmp_path, source, target):
    make_tree(tmp_path / "x" / "inside")
    before = tree(tmp_path)
    with pytest.raises(ValueError, match="inside the other"):
        copy_recursively(tmp_path / source, tmp_path / target)
    assert tree(tmp_path) == before
