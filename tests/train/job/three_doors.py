"""Jobs whose processes learn who they are in different ways, whose clocks differ, or whose sessions end."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from monolith.cluster.discovery.zookeeper import zk_discovery
from monolith.cluster.discovery.zookeeper.client import MonolithKazooClient
from monolith.train.config import ServiceDiscoveryType
from tests.train.job.counting_job import take_part

DAY = 86_400


def by_door(model_dir: str, num_events: int, *, server_type: str, index: int, addresses: dict, **common: Any) -> None:
    """Be a process of a job: a server of a written list, a chief of TF_CONFIG, a worker of the MLP platform."""
    real = time.time
    ahead = {"ps": DAY, "worker": -DAY}[server_type]
    time.time = lambda: real() + ahead
    common = {name: value for name, value in common.items() if name not in ("num_ps", "num_workers")}
    if server_type == "ps":
        words = [f"{name}={','.join(listed)}" for name, listed in addresses.items()]
        role: dict[str, Any] = {"discovery": f"static:{';'.join(words)}", "server_type": "ps", "index": index}
    elif index == 0:
        os.environ["TF_CONFIG"] = json.dumps({"cluster": addresses, "task": {"type": "worker", "index": 0}})
        role = {"discovery_type": ServiceDiscoveryType.PRIMUS}
    else:
        os.environ |= {"MLP_ROLE": "worker", "MLP_ROLE_INDEX": str(index)}
        for name, listed in addresses.items():
            os.environ[f"MLP_{name.upper()}_NUM"] = str(len(listed))
            for number, address in enumerate(listed):
                host, _, port = address.rpartition(":")
                os.environ[f"MLP_{name.upper()}_{number}_PRIMARY_HOST"] = host
                os.environ[f"MLP_{name.upper()}_{number}_PORT"] = port
        role = {"discovery_type": ServiceDiscoveryType.MLP}
    take_part(model_dir, num_events, **common, **role)


def watched_part(model_dir: str, num_events: int, **role: Any) -> None:
    """Be a process of a job; its ZooKeeper session ends when the file `expire` appears in `model_dir`."""
    real = zk_discovery.connected_client

    def connected(servers: str, **how: Any) -> Any:
        client = real(servers, **how)

        def expire() -> None:
            while not (Path(model_dir) / "expire").exists():
                time.sleep(0.05)
            # A second connection to a session takes it over; closing that one ends the session.
            double = MonolithKazooClient(servers, client_id=client.client_id)
            double.start()
            double.stop()
            double.close()

        threading.Thread(target=expire, daemon=True).start()
        return client

    zk_discovery.connected_client = connected
    take_part(model_dir, num_events, **role)
