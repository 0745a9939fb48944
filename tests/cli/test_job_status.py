"""`monolith status` as a user runs it."""

import json

from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.parallel.coordination import Coordinator, Opening
from monolith.train.job.place import WORKER
from monolith.train.job.scale.shape import CLUSTER_FOLDER
from monolith.wire import SharedSecret
from tests.wire.conftest import certificates  # noqa: F401  a fixture


def test_a_job_with_certificates_answers_those_who_have_them(tmp_path, certificates):  # noqa: F811
    folder = tmp_path / CLUSTER_FOLDER
    secret, ours = SharedSecret.made_in_folder(folder), certificates["client"]
    with Coordinator(2, secret=secret, tls=certificates["server"]) as chief, FilesServiceDiscovery(folder) as discovery:
        discovery.register(WORKER, 0, str(chief.address))
        chief.open(Opening(generation=3, servers=[], plan_hash=7, settings={}))
        ask = ["status", str(tmp_path), "--json", "--timeout", "30"]
        flags = {"--tls-cert": ours.cert_path, "--tls-key": ours.key_path, "--tls-ca": ours.ca_path}
        answer = CliRunner().invoke(app, [*ask, *(word for pair in flags.items() for word in pair)])
        assert answer.exit_code == 0, answer.output
        assert json.loads(answer.stdout)["generation"] == 3
        assert CliRunner().invoke(app, ask).exit_code != 0
