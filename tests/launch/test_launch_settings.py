"""What `monolith launch` cannot start."""

import pytest

from monolith.cli.models.launch import run
from monolith.train.config import ServiceDiscoveryType

ADDRESSES = "static:ps=127.0.0.1:7001;worker=127.0.0.1:7002"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"discovery_type": ServiceDiscoveryType.PRIMUS},
            "say the role of one process",
        ),
        ({"discovery_type": ServiceDiscoveryType.MLP}, "say the role of one process"),
        ({"tf_config": "{}"}, "leave out --discovery-type and --tf-config"),
        ({"discovery": ADDRESSES, "num_ps": 1}, "say --num-ps and --num-workers"),
        ({"index": 1}, "--index is for one process"),
    ],
)
def test_settings_of_one_process_are_refused(tmp_path, settings, words):
    with pytest.raises(ValueError, match=words):
        run("model:Model", {"model_dir": str(tmp_path), **settings}, {"max_restarts": 0, "stop_seconds": 1.0})
