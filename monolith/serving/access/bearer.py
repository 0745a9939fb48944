"""Only requests with a token get through; whether the server lives, anybody may ask."""

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from monolith.serving.access.tokens import Tokens
from monolith.serving.answer import error_response

OPEN_PATHS: Final = ("/v2/health/live", "/v2/health/ready")
"""For probes of load balancers, which often cannot send a token."""

_CHALLENGE: Final = 'Bearer realm="monolith"'


class BearerOnly:
    """An ASGI application around another one: requests without a token of ours get a 401, and nothing is read."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        """Let requests with one of these tokens through."""
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look at the header `Authorization`, then hand the request on or refuse it."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal([value for name, value in scope["headers"] if name == b"authorization"])
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            message, headers = refusal
            await error_response(401, message, headers)(scope, receive, send)

    def _refusal(self, given: list[bytes]) -> tuple[str, Mapping[str, str]] | None:
        if not given:
            return "this server needs a token: send the header `Authorization: Bearer TOKEN`", {
                "WWW-Authenticate": _CHALLENGE
            }
        scheme, _, token = given[0].decode("latin-1").strip().partition(" ")
        if len(given) == 1 and scheme.lower() == "bearer" and self._tokens.has(token.strip()):
            return None
        return "this server does not know this token", {
            "WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"',
        }
