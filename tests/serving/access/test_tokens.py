"""The file of tokens: what is refused, and how changes are taken."""

import os

import pytest

from monolith.errors import SecretError
from monolith.serving.access.tokens import MAX_FILE_BYTES, Tokens

ONE, OTHER = "first-token-of-the-test", "second+token/of.the~test=="


def write(path, content, mode=0o600):
    path.write_text(content)
    path.chmod(mode)
    return path


def test_every_line_is_a_token_and_nothing_else_is(tmp_path):
    tokens = Tokens(write(tmp_path / "tokens", f"# of the web site\n{ONE}\n\n  {OTHER}  \n"))
    assert tokens.has(ONE)
    assert tokens.has(OTHER)
    for wrong in ("", ONE[:-1], ONE + "x", ONE.upper(), "# of the web site", f"{ONE}\n{OTHER}", "\udcff" * 20):
        assert not tokens.has(wrong)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no token"),
        ("# nothing\n", "holds no token"),
        (f"{ONE}\nshort\n", "line 2: a token is 16 or more letters"),
        ("two words in one line\n", "line 1: a token is"),
        ("x" * (MAX_FILE_BYTES + 1), "has more than 1048576 bytes"),
    ],
)
def test_a_file_of_something_else_is_refused_without_showing_it(tmp_path, content, words):
    with pytest.raises(SecretError, match=words) as found:
        Tokens(write(tmp_path / "tokens", content))
    assert "short" not in str(found.value)
    assert "two words" not in str(found.value)


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o666])
def test_a_file_that_others_may_use_is_refused(tmp_path, mode):
    with pytest.raises(SecretError, match=f"mode 0{mode:o}.*chmod 600"):
        Tokens(write(tmp_path / "tokens", ONE, mode))
    # Its group may read it: this is how containers hand secrets over.
    assert Tokens(write(tmp_path / "group", ONE, 0o440)).has(ONE)


def test_a_missing_file_and_one_that_is_no_file_are_refused(tmp_path):
    with pytest.raises(SecretError, match="cannot be read: No such file"):
        Tokens(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(SecretError, match="no plain file"):
        Tokens(tmp_path / "pipe")


def test_a_changed_file_counts_and_a_wrong_one_changes_nothing(tmp_path, caplog):
    path = write(tmp_path / "tokens", ONE)
    tokens = Tokens(path, reload_seconds=0)
    write(tmp_path / "new", OTHER).replace(path)
    assert tokens.has(OTHER)
    assert not tokens.has(ONE)
    for broken in (lambda: write(path, "short"), path.unlink):
        caplog.clear()
        broken()
        assert tokens.has(OTHER)
        assert tokens.has(OTHER)
        assert [record.levelname for record in caplog.records] == ["WARNING"]  # said once
    write(path, ONE)
    assert tokens.has(ONE)
    assert not tokens.has(OTHER)


def test_the_file_is_not_looked_at_for_every_request(tmp_path):
    path = write(tmp_path / "tokens", ONE)
    tokens = Tokens(path, reload_seconds=1e9)
    write(path, OTHER)
    assert tokens.has(ONE)
