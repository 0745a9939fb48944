import pytest

from monolith.native_training.base_directory import base_directory_of


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        ("bazel/bin/__main__/monolith", "bazel/bin/__main__"),
        ("venv/lib/python3.11/site-packages/monolith", "venv/lib/python3.11/site-packages"),
        ("home/checkout/monolith", "home/checkout"),
        ("home/monolith/monolith", "home/monolith"),
        # Bazel's marker goes first, wherever the others are.
        ("site-packages/x/__main__/monolith", "site-packages/x/__main__"),
    ],
)
def test_each_layout(tmp_path, package, expected):
    (tmp_path / package).mkdir(parents=True)
    assert base_directory_of(str(tmp_path / package / "path_utils.py")) == str(tmp_path / expected)


def test_a_marker_without_the_package_below_it_is_an_error_with_the_path(tmp_path):
    path = str(tmp_path / "site-packages" / "other" / "path_utils.py")
    with pytest.raises(ValueError, match=path):
        base_directory_of(path)


def test_no_marker_at_all_is_an_error_with_the_path(tmp_path):
    path = str(tmp_path / "elsewhere" / "path_utils.py")
    with pytest.raises(ValueError, match=path):
        base_directory_of(path)
