"""A job of real processes whose first parameter server has more memory in use than it may."""

import json
import logging
import re
import urllib.request
from pathlib import Path

from typer.testing import CliRunner

from monolith.cli.app import app
from tests.cli.status_tables import tables_of
from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import take_part
from tests.train.job.running_job import Job, wait_for_steps, wait_until

LOG = "chief.log"
ALERT = 'check_interval_sec: 1 alert_message { user: "ann" }'


def logged_part(model_dir, num_events, **role):
    """Be a process of the job; the chief's warnings go to a file."""
    if role["server_type"] == "worker" and role["index"] == 0:
        logging.getLogger().addHandler(logging.FileHandler(Path(model_dir) / LOG))
    take_part(model_dir, num_events, **role)


def shown_as_json(folder):
    answer = CliRunner().invoke(app, ["status", str(folder), "--json", "--timeout", "30"])
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def figures(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_SECONDS) as answer:
        return dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))


def test_a_server_over_its_limit_is_seen_at_every_place(tmp_path):
    port = free_port()
    options = {"num_workers": 1, "seconds": 0.01, "holds_after": 5, "metrics_port": port}
    alert = {"monolith_chief_alert_proto": ALERT}
    with Job(tmp_path, logged_part, num_events=80, missing_ps=(0,), **options, **alert) as job:
        job.start("ps", 0, monolith_default_machine_info_mem_limit=1)
        wait_for_steps(job, 0, 5)
        full, well = (one["health"] for one in shown_as_json(tmp_path)["servers"])
        assert (full["status"], full["memory_limit_bytes"]) == ("OUT_OF_MEMORY", 1)
        assert re.fullmatch(r"Memory limit exceeded\. Current: \d+, Limit: 1", full["message"])
        assert (well["status"], well["message"], well["memory_limit_bytes"]) == ("OK", "", None)
        row = next(row for row in tables_of(tmp_path)[1] if row.get("server") == "ps 0")
        assert row["health"] == "out of memory"
        assert row["process MB"].endswith(" of 0.0")
        check_metrics(port)
        job.go()
        assert set(job.ends().values()) == {0}
    check_log((tmp_path / LOG).read_text())


def check_metrics(port):
    wanted = 'monolith_training_alerts_total{kind="servers",user="ann"}'
    found = wait_until(lambda: one if wanted in (one := figures(port)) else None)
    assert [found[f'monolith_job_server_healthy{{ps="{ps}"}}'] for ps in (0, 1)] == ["0.0", "1.0"]
    assert float(found['monolith_job_server_memory_bytes{ps="0"}']) > 1e6
    assert found['monolith_job_server_memory_limit_bytes{ps="0"}'] == "1.0"
    assert 'monolith_job_server_memory_limit_bytes{ps="1"}' not in found


def check_log(text):
    assert len(re.findall(r"(?m)^parameter server 0 \(\S+\) is not well: Memory limit exceeded\.", text)) == 1
    assert "monolith_default_machine_info_mem_limit" in text
    assert "alert (servers) for ann: parameter server 0" in text
    assert "parameter server 1" not in text
