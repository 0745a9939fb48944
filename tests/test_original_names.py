"""Every name of the original system resolves under its original path, or is retired with a reason."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import monolith
from monolith.native_training.absent import RETIRED
from monolith.native_training.finder import fetch
from monolith.native_training.homes import EVERYTHING, HOMES
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent
NAMES = json.loads((ROOT / "tests" / "golden" / "names.json").read_text(encoding="utf-8"))
ALL = [f"{module}:{name}" for module, names in NAMES.items() for name in names]


def import_from(name: str) -> object:
    """Do what `from module import attribute` does."""
    module, _, attribute = name.partition(":")
    scope: dict[str, object] = {}
    exec(f"from {module} import {attribute}", scope)
    return scope[attribute]


@pytest.mark.parametrize("path", NAMES)
def test_path_imports(path):
    assert importlib.import_module(path).__name__ == path


@pytest.mark.parametrize("name", ALL)
def test_name(name):
    if name in RETIRED:
        with pytest.raises(ImportError, match="is retired: .{20,}"):
            import_from(name)
    else:
        module, _, attribute = name.partition(":")
        homes, found = HOMES.get(module, {}), import_from(name)
        if attribute in homes:
            assert found is fetch(homes[attribute])
        elif EVERYTHING in homes:
            assert found is getattr(fetch(homes[EVERYTHING]), attribute)
        else:
            assert has_file(module)


def has_file(path: str) -> bool:
    return ROOT.joinpath(*path.split(".")).with_suffix(".py").is_file()


def test_no_original_path_needs_an_optional_package():
    program = f"""
import importlib, sys
sys.modules["tensorboard"] = sys.modules["confluent_kafka"] = None
for path in {list(NAMES)!r}:
    importlib.import_module(path)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr


def test_the_lists_hold_original_names_only():
    assert set(ALL) >= set(RETIRED)
    assert {*HOMES, *filter(has_file, NAMES)} == set(NAMES)
    wired = {f"{path}:{name}" for path, names in HOMES.items() for name in names if name != EVERYTHING}
    assert set(ALL) >= wired


def test_a_file_at_an_original_path_fetches_the_other_names_when_they_are_used():
    fetched = {path: sorted(HOMES[path]) for path in NAMES if has_file(path) and path in HOMES}
    assert fetched
    program = f"""
import importlib
for path, names in {fetched!r}.items():
    module = importlib.import_module(path)
    assert not set(names) & vars(module).keys(), (path, sorted(set(names) & vars(module).keys()))
    assert all(getattr(module, name) is not None for name in names)
    assert set(names) <= vars(module).keys(), path
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr


def test_no_stub_hides_a_file():
    stubs = [*(ROOT / "monolith").glob("*.pyi"), *(ROOT / "monolith/native_training").rglob("*.pyi")]
    assert not [stub for stub in stubs if stub.with_suffix(".py").exists()], "run tools/write_stubs.py"


def test_a_name_nobody_knows_is_an_ordinary_import_error():
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        import_from("monolith.path_utils:no_such_name")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("monolith.native_training.no_such_module")


def test_gen_monolith_ops_offers_the_native_core():
    ops = importlib.import_module("monolith.native_training.runtime.ops.gen_monolith_ops")
    assert ops.simd_level() in {"scalar", "avx2", "avx512"}


def test_gen_monolith_ops_without_the_core_fails_with_one_clear_line():
    program = """
import sys
sys.modules["monolith._core.native"] = None
try:
    import monolith.native_training.runtime.ops.gen_monolith_ops
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert "compiled core cannot be loaded" in done.stdout
    assert done.stdout.count("\n") == 1


def test_the_empty_placeholder_imports_and_is_empty():
    assert importlib.import_module("monolith.native_training.remote_predict_ops").__all__ == []


def test_original_paths_are_lazy():
    program = """
import sys
import monolith.native_training.estimator, monolith.utils
print([name for name in ("torch", "monolith._core") if name in sys.modules and name not in before])
"""
    # The front door may load torch; an original path must not load more than that.
    program = "import sys, monolith; before = set(sys.modules)" + program
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.stdout == "[]\n", done.stderr


def test_find_main_is_the_folder_that_holds_the_package():
    find_main, get_libops_path = (
        import_from("monolith.path_utils:find_main"),
        import_from("monolith.utils:get_libops_path"),
    )
    assert Path(find_main()) == Path(monolith.__file__).parent.parent
    assert Path(get_libops_path("monolith/errors.py")).is_file()
