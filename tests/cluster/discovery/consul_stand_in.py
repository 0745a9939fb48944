"""A stand-in for a Consul agent: it speaks the part of the HTTP API that discovery uses, with checks that run out.

No package of a real agent can be installed by `make test-services`; MONOLITH_TEST_CONSUL=host:port names one, and the
same tests run against it.
"""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class ConsulStandIn:
    """Services, each with a check that must be renewed within its time."""

    def __init__(self):
        self.lock = threading.Lock()
        self.services = {}
        self.blacklisted = False
        self.failures = []
        self.requests = []
        self.index = 0
        self.seconds_ahead = 0.0
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, value = stand_in.answer(self.command, self.path, body)
                if status is None:
                    self.close_connection = True  # the connection breaks without an answer
                    return
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("X-Consul-Index", str(stand_in.index + 1))
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = answer  # noqa: N815

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        self.address = ("127.0.0.1", self.server.server_address[1])

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, method, target, body):
        path = unquote(urlsplit(target).path)
        with self.lock:
            self.requests.append((method, path))
            if self.failures:
                return self.failures.pop(0)
            if path == "/v1/agent/self":
                return 200, {"Config": {"NodeName": "stand-in"}}
            if path == "/v1/agent/service/register" and method == "PUT":
                return self.register(json.loads(body))
            if (found := re.fullmatch("/v1/agent/service/deregister/(.*)", path)) and method == "PUT":
                gone = self.services.pop(found[1], None)
                return (200, None) if gone else (404, f'Unknown service ID "{found[1]}"')
            if (found := re.fullmatch("/v1/agent/check/pass/service:(.*)", path)) and method == "PUT":
                return self.renew(found[1])
            if (found := re.fullmatch("/v1/health/service/(.*)", path)) and method == "GET":
                return 200, self.health(found[1], passing="passing" in urlsplit(target).query)
            return 404, "no such endpoint"

    def register(self, asked):
        (check,) = asked["checks"]
        self.index += 1
        ttl = float(check["ttl"].removesuffix("s"))
        until = self.now() + ttl if check["status"] == "passing" else 0
        self.services[asked["id"]] = {**asked, "ttl": ttl, "until": until, "index": self.index}
        return 200, None

    def renew(self, service_id):
        if service_id not in self.services:
            return 404, f'Unknown check ID "service:{service_id}"'
        service = self.services[service_id]
        service["until"] = self.now() + service["ttl"]
        return 200, None

    def health(self, name, passing):
        return [
            {
                "Node": {"Node": "stand-in", "Address": "127.0.0.1"},
                "Service": {
                    "ID": one["id"],
                    "Service": name,
                    "Tags": one["tags"],
                    "Address": one["address"],
                    "Port": one["port"],
                    "ModifyIndex": one["index"],
                },
                "Checks": [],
            }
            for one in self.services.values()
            if one["name"] == name and not self.blacklisted and (not passing or one["until"] > self.now())
        ]

    def now(self):
        return time.monotonic() + self.seconds_ahead
