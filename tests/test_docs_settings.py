"""Every setting that a page names exists where the page says: in `RunConfig`, in a call, or as a flag of a command."""

import ast
import re
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import click
import pytest
import typer

import monolith as mono
from monolith.cli.app import app
from monolith.cli.models.flags import COMMANDS
from monolith.tpu_runner import TpuFlags
from monolith.train.config import RunConfig, RunnerConfig, flag_kinds, flag_name
from tests.train.counting_model import Counting, Events

ROOT = Path(__file__).resolve().parent.parent
# Made from the settings and the docstrings themselves.
GENERATED = {ROOT / "docs" / "settings.md", *(ROOT / "docs" / "api").glob("*.md")}
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page not in GENERATED] + [ROOT / "README.md"]
RUN_SETTINGS = {one.name for one in fields(RunConfig)}
CLASSES = {one.__name__: {field.name for field in fields(one)} for one in (RunConfig, RunnerConfig)}

# Names that a page uses for something else than the setting of the same name.
OTHER_MEANINGS = {
    "environment.md": {"tf_grpc_worker_cache_threads"},  # of RunnerConfig, as the page's variables are
    "formats.md": {"filter_capacity", "index", "kafka_dump", "kafka_dump_prefix", "lagrangex_header"},  # of files
    "serving.md": {"index"},  # a request to the server
    "training.md": {"end_date", "task"},  # of a task's parameters; of RunnerConfig
    "what-works.md": {
        "enable_gpu_training",
    },  # settings that wait
    "clusters.md": {
        "deep_insight_name",
        "discovery_type",
        "index",
        "tf_config",
        "uuid",
        "zk_server",
    },  # of RunnerConfig
    "jobs.md": {
        "embedding_prefetch_capacity",
        "enable_async_optimize",
        "enable_pipelined_bwda2a",
        "enable_pipelined_fwda2a",
    },  # of RunnerConfig
    "tuning.md": {"filter_capacity"},  # of a feature column
    "data.md": {"kafka_dump", "kafka_dump_prefix", "lagrangex_header", "sort_id"},  # arguments of sources
}

# Keywords of other packages.
OF_OTHERS = {"write_page_checksum", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}  # pyarrow; variables of OpenMP


def inline_code(text: str) -> list[str]:
    """What stands between single backticks outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def code_blocks(text: str) -> list[str]:
    return re.findall(r"^```[^`\n]*\n(.*?)^```", text, flags=re.S | re.M)


def settings_of_tables(text: str) -> list[str]:
    """The names in the first column of tables about settings; `…_secs` is the one before with another end."""
    found: list[str] = []
    for table in re.findall(r"^\| setting \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, flags=re.M):
        for row in table.splitlines():
            for name in re.findall(r"`([^`]+)`", row.split("|")[1]):
                is_end = name.startswith("…_")
                found.append(found[-1].rsplit("_", 1)[0] + name[1:] if is_end else name)
    return found


@cache
def parameters_of_the_package() -> set[str]:
    """Parameters of all functions and fields of all classes."""
    names: set[str] = set()
    for path in (ROOT / "monolith").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names |= {one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return names


@cache
def flags_of_commands() -> dict[str, set[str]]:
    """The flags of each command, by its words; commands that run a model take every setting."""
    found = {f"monolith {name}": {*map(flag_name, flag_kinds(flags)), "--help-all"} for name, flags in COMMANDS.items()}

    def walk(command: click.Command, words: str) -> None:
        flags = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
        found[words] = found.get(words, set()) | flags | {"--help"}
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{words} {name}")

    walk(typer.main.get_command(app), "monolith")
    found["python -m monolith.tpu_runner"] = {*map(flag_name, flag_kinds(TpuFlags)), "--help"}
    return found


def flags_named(text: str) -> list[tuple[str, str]]:
    """Each command line on a page, and each flag that stands alone, with its flags."""
    lines = [line for block in code_blocks(text) for line in block.splitlines()] + inline_code(text)
    found = []
    for line in (one.removeprefix("$ ") for one in lines):
        if line.startswith(("monolith ", "--")):
            words = re.match(r"(?:monolith(?: [a-z][a-z-]*)*)?", line)[0]
            found += [(words, flag) for flag in re.findall(r"(?<!\S)--[a-z][a-z_-]*", line)]
    return found


def command_of(words: str) -> str:
    """The longest beginning of a line's words that is a command; all commands for a flag that stands alone."""
    while words and words not in flags_of_commands():
        words = words.rpartition(" ")[0]
    return words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_settings_in_tables_are_settings_of_a_run(page):
    unknown = [name for name in settings_of_tables(page.read_text()) if name not in RUN_SETTINGS]
    assert not unknown, f"{page.name} lists settings that RunConfig refuses: {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_settings_in_the_text_are_not_of_another_configuration(page):
    others = {one.name for one in fields(RunnerConfig)} - RUN_SETTINGS - OTHER_MEANINGS.get(page.name, set())
    codes = [re.sub(r"--[\w-]+", "", code) for code in inline_code(page.read_text())]  # flags have tests of their own
    named = {word for code in codes for word in re.findall(r"\w+", code)}
    assert not named & others, f"{page.name} names settings that RunConfig refuses: {sorted(named & others)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_keywords_are_accepted_by_what_they_are_given_to(page):
    text = page.read_text()
    for code in inline_code(text):
        alone = re.fullmatch(r"(\w+)=.*", code)
        known = parameters_of_the_package() | OF_OTHERS
        assert alone is None or alone[1] in known, f"{page.name}: nothing takes {code}"
    for code in (*inline_code(text), *code_blocks(text)):
        try:
            tree = ast.parse(code)
        except SyntaxError:
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            given = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
            assert given <= CLASSES.get(name, given), f"{page.name}: {name} has no {given - CLASSES[name]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_flags_are_those_of_their_command(page):
    known = flags_of_commands()
    for words, flag in flags_named(page.read_text()):
        command = command_of(words)
        accepted = known[command] if command else set().union(*known.values())
        assert flag in accepted, f"{page.name}: `{command or 'monolith'}` has no {flag}"


def test_pages_are_read():
    """Whether the searches above find anything: else they would pass whatever the pages say."""
    texts = {page.relative_to(ROOT).as_posix(): page.read_text() for page in PAGES}
    in_tables = settings_of_tables(texts["docs/checkpoints.md"])
    assert {"no_first_save", "tide_end_minute", "dense_only_save_checkpoints_secs", "restore_ckpt"} <= set(in_tables)
    assert "compile=True" in inline_code(texts["docs/training.md"])
    assert ("monolith serve", "--sync-address") in [
        (command_of(a), b) for a, b in flags_named(texts["docs/serving.md"])
    ]
    assert ("monolith train", "--model-dir") in [(command_of(a), b) for a, b in flags_named(texts["README.md"])]
    assert is_dataclass(RunConfig) and len(parameters_of_the_package()) > 1000


def test_every_setting_of_a_run_reaches_what_runs():
    """A setting that is taken and then ignored is worse than one that is refused."""
    known = {one.name for one in fields(RunnerConfig)}
    assert RUN_SETTINGS - known == {"enable_parameter_sync"}  # under another name, below
    assert RunConfig(enable_parameter_sync=True).to_runner_config().enable_realtime_training
    changed = RunConfig(no_first_save=True, ignore_save_errors=True, tide_start_hour=3, profile_some_steps_from=7)
    config = changed.to_runner_config()
    assert (config.no_first_save, config.ignores_save_errors) == (True, True)
    assert (config.tide_start_hour, config.profile_some_steps_from) == (3, 7)


def test_settings_of_saves_and_profiles_work_in_a_run_config(tmp_path):
    quiet = {"log_step_count_steps": 0, "save_summary_steps": 0}
    config = RunConfig(model_dir=tmp_path, no_first_save=True, enable_local_profiling=True, **quiet)
    mono.Estimator(Counting, config, params=Events(8)).train()
    assert [path.name for path in tmp_path.glob("model.ckpt-*")] == ["model.ckpt-2"]
    assert len(list((tmp_path / "profile").iterdir())) == 1
