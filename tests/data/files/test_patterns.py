"""Patterns of file names."""

import fsspec
import pytest

from monolith.data.files import expand_patterns, expand_placeholders, gen_patterns


def test_days_and_numbers_give_every_combination():
    assert expand_placeholders("logs_{DATE(20240101,20240103)}/part_{INT(0,2)}") == [
        f"logs_2024010{day}/part_{part}" for day in (1, 2, 3) for part in (0, 1, 2)
    ]


def test_hours_cross_the_year():
    assert expand_placeholders("{DATE(2023123122,2024010101)}") == [
        "2023123122",
        "2023123123",
        "2024010100",
        "2024010101",
    ]


def test_other_braces_stay():
    assert expand_placeholders("a{b}/{INT (0,1)}/{}*") == ["a{b}/{INT (0,1)}/{}*"]


@pytest.mark.parametrize(
    "pattern",
    [
        "{INT(3)}",
        "{INT(a,b)}",
        "{INT(5,1)}",
        "{INT(0,99999999999)}",
        "{INT(0,9999)}{INT(0,9999)}",
        "{DATE(20240101,2024010200)}",
        "{DATE(2024,2025)}",
        "{DATE(20241301,20241302)}",
        "{DATE(20240102,20240101)}",
    ],
)
def test_a_wrong_placeholder_is_named(pattern):
    with pytest.raises(ValueError) as error:
        expand_placeholders(pattern)
    assert pattern in str(error.value)


def test_files_are_sorted_and_come_once(tmp_path):
    for name in ("b/2", "b/10", "a/1", "a/folder/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = expand_patterns([f"{tmp_path}/b/*", f"{tmp_path}/*/[12]*", f"{tmp_path}/a/*"])
    assert found == [f"{tmp_path}/{name}" for name in ("a/1", "b/10", "b/2")]
    assert expand_patterns(f"{tmp_path}/**/x") == [f"{tmp_path}/a/folder/x"]


def test_what_matches_nothing_is_warned_of(tmp_path):
    (tmp_path / "part_1").touch()
    with pytest.warns(UserWarning, match="part_0' matches no file; 2 of 3 patterns match none$") as warned:
        assert expand_patterns(f"{tmp_path}/part_{{INT(0,2)}}") == [f"{tmp_path}/part_1"]
    assert len(warned) == 1
    with pytest.warns(UserWarning, match="part_0' matches no file$"):
        expand_patterns(f"{tmp_path}/part_{{INT(0,1)}}")


def test_no_file_at_all_is_an_error_that_names_the_patterns(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no match files.*nowhere/\*.*other"):
        expand_patterns([f"{tmp_path}/nowhere/*", f"{tmp_path}/other"])
    with pytest.raises(FileNotFoundError, match="no match files"):
        expand_patterns([])


def test_remote_files():
    files = fsspec.filesystem("memory")
    files.pipe({"/patterns-test/20240101/a": b"", "/patterns-test/20240102/b": b""})
    found = expand_patterns("memory://patterns-test/{DATE(20240101,20240102)}/*")
    assert [name.rsplit("/", 2)[1:] for name in found] == [["20240101", "a"], ["20240102", "b"]]
    assert all(name.startswith("memory://") for name in found)
    # What comes out can be put in again.
    assert expand_patterns(found) == found
    with pytest.raises(FileNotFoundError, match="no match files"):
        expand_patterns("memory://patterns-test/nothing*")


def test_gen_patterns_daily_and_hourly():
    assert gen_patterns("hdfs://x/y/", "20240228", end_date=20240302) == [
        f"hdfs://x/y/{day}/*" for day in ("20240228", "20240229", "20240301")
    ]
    assert gen_patterns("p", 20240101, 22, 20240102, 2, True, "-*.gz") == [
        "p/20240101/22-*.gz",
        "p/20240101/23-*.gz",
        "p/20240102/00-*.gz",
        "p/20240102/01-*.gz",
    ]
    assert len(gen_patterns("p", 20240101, end_date=20240103, is_hourly=True)) == 48


def test_gen_patterns_says_what_is_wrong():
    with pytest.raises(ValueError, match="end_date"):
        gen_patterns("p", 20240101)
    with pytest.raises(ValueError, match="empty"):
        gen_patterns("p", 20240101, end_date=20240101)
    with pytest.raises(ValueError, match="24"):
        gen_patterns("p", 20240101, 24, 20240102, 0, True)
    with pytest.warns(UserWarning, match="is_hourly"):
        assert gen_patterns("p", 20240101, 5, 20240102) == ["p/20240101/*"]
