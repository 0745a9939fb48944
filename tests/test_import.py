"""What `import monolith` does and does not do, seen from a fresh interpreter."""

import subprocess
import sys
import tomllib
from pathlib import Path

import monolith
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent
OPTIONAL = {
    "confluent_kafka", "consul", "fastapi", "grpc", "kazoo", "monolith.serving", "onnxruntime", "ray", "tensorboard"
}  # fmt: skip


def run_python(program: str) -> str:
    """Run a program in a new interpreter at the repository's root and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_starts_nothing_and_loads_nothing_optional():
    program = f"""
import os, signal, sys, threading
env, handlers, path = dict(os.environ), signal.getsignal(signal.SIGUSR1), list(sys.path)
import monolith
assert threading.active_count() == 1, threading.enumerate()
assert dict(os.environ) == env
assert signal.getsignal(signal.SIGUSR1) == handlers
assert sys.path == path
loaded = {OPTIONAL!r} & set(sys.modules)
assert not loaded, loaded
"""
    run_python(program)


def test_import_adds_one_finder_and_adds_it_last():
    program = """
import sys
before = list(sys.meta_path)
import monolith
added = sys.meta_path[len(before):]
assert sys.meta_path[:len(before)] == before
print([type(finder).__name__ for finder in added])
"""
    assert run_python(program) == "['OriginalPathFinder']\n"


def test_the_source_tree_reads_the_environment_only_where_it_is_documented():
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "monolith").rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in ("os.environ", "os.getenv"))
    ]
    documented = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert not [path for path in readers if path not in documented]


def test_the_version_is_the_same_in_the_package_and_in_its_metadata():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert monolith.__version__ == project["version"]
