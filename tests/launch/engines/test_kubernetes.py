"""`monolith launch --engine k8s`: manifests that fit the API, and an image that can be built."""

import json
import re
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.cli.models.flags import parse_arguments
from monolith.cluster.discovery import discovery_from
from monolith.launch.engines.kubernetes import USER_ID

ROOT = Path(__file__).resolve().parents[3]
NEEDED = ["--model-dir", "/models/ranking_1", "--engine", "k8s", "--dry-run", "--image", "shop:1"]
NEEDED += ["--volume-claim", "models", "--num-ps", "2", "--num-workers", "3"]
SIZES = ["--ps-memory-gb", "8", "--worker-cpus", "0.5", "--max-restarts", "5", "--stop-seconds", "90"]
VERSIONS = ("1.31", "1.34", kubernetes_validate.latest_version())


def launch(*flags):
    done = CliRunner().invoke(app, ["launch", "ranking:Ranking", *flags], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def by_name(manifests):
    return {(one["kind"], one["metadata"]["name"]): one for one in manifests["items"]}


@pytest.mark.parametrize("security", [["--tls-secret", "ranking-tls"], ["--insecure"]])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_fits_the_schema_of_the_api(version, security):
    manifests = launch(*NEEDED, *SIZES, *security)
    assert manifests["kind"] == "List"
    for one in manifests["items"]:
        kubernetes_validate.validate(one, version, strict=True)


def test_the_schema_notices_a_wrong_field():
    (one, *_) = launch(*NEEDED, "--insecure")["items"]
    one["spec"]["ports"][0]["port"] = "seven"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(one, VERSIONS[0], strict=True)


@pytest.mark.parametrize(("kind", "count"), [("ps", 2), ("worker", 3)])
def test_every_pod_is_a_process_that_the_others_find(kind, count):
    found = by_name(launch(*NEEDED, *SIZES, "--tls-secret", "ranking-tls"))
    job, service = found["Job", f"ranking-1-{kind}"], found["Service", f"ranking-1-{kind}"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == count
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    _, settings, _ = parse_arguments(
        container["args"][0], [one.replace("$(INDEX)", "1") for one in container["args"][1:]]
    )
    assert (settings["server_type"], settings["index"]) == (kind, 1)
    assert (settings["num_ps"], settings["num_workers"], settings["listen"]) == (2, 3, "$(POD_IP)")
    assert {one["name"] for one in container["env"]} == {"INDEX", "POD_IP"}
    # A pod of an indexed Job is called by its job and index, below the service of its subdomain.
    listed = discovery_from(settings["discovery"]).query(kind)
    (port,) = service["spec"]["ports"]
    pods = [f"{job['metadata']['name']}-{index}.{pod['subdomain']}:{port['port']}" for index in range(count)]
    assert list(listed.values()) == (pods if kind == "ps" else pods[:1])
    assert service["metadata"]["name"] == pod["subdomain"]
    assert service["spec"]["selector"] == job["spec"]["template"]["metadata"]["labels"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounts.keys() == {one["name"] for one in pod["volumes"]} == {"model", "tls"}
    assert mounts["model"] == settings["model_dir"] == "/models/ranking_1"
    assert all(settings[f"tls_{name}"].startswith(f"{mounts['tls']}/") for name in ("cert", "key", "ca"))
    asked = {"ps": {"cpu": "1000m", "memory": "8000M"}, "worker": {"cpu": "500m"}}
    assert container["resources"]["requests"] == asked[kind]
    assert (job["spec"]["backoffLimitPerIndex"], pod["terminationGracePeriodSeconds"]) == (5, 90)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"--dry-run": None}, "say --dry-run"),
        ({"--image": None}, "needs --image"),
        ({"--volume-claim": None}, "needs --volume-claim"),
        ({"--model-dir": "models"}, "begins with /, got 'models'"),
        ({"--insecure": None}, "--host ranking-1-ps-1.ranking-1-ps --host ranking-1-worker-0.ranking-1-worker`"),
        ({"--job-name": "Shop_1"}, "got 'Shop_1'; choose a --job-name"),
        ({"--listen": "0.0.0.0"}, "--engine k8s sets --listen for every process"),
    ],
)
def test_what_cannot_run_in_a_cluster_is_refused(changes, words):
    flags = {"--model-dir": "/models/ranking_1", "--image": "shop:1", "--volume-claim": "models", "--engine": "k8s"}
    flags |= {"--dry-run": "true", "--insecure": "true", "--num-ps": "2", **changes}
    with pytest.raises(ValueError, match=re.escape(words)):
        launch(*(f"{name}={value}" for name, value in flags.items() if value is not None))


def test_the_image_copies_what_exists_and_runs_as_the_user_of_the_manifests():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if re.match("COPY (?!--from)", line) for word in line.split()[1:-1]]
    assert {"monolith", "csrc", "pyproject.toml"} <= set(copied)
    assert not [path for path in copied if not (ROOT / path).exists()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = (found[1].split(",") for line in lines if (found := re.search(r"'\.\[(.*)\]'", line)))
    assert set(extras) <= project["optional-dependencies"].keys()
    # What the build reads besides the sources.
    assert {project["readme"], *project["license-files"]} <= set(copied)
    assert f"USER {USER_ID}" in lines
