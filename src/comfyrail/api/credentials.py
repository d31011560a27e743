"""Where a request may carry an API key or a token [11.1]."""

from urllib.parse import parse_qsl, urlencode

from starlette.types import Scope

from comfyrail.api.request_head import RequestHead
from comfyrail.errors import MalformedRequest

QUERY_NAME = "token"
MOST_QUERY_VALUES = 100


def credential_in(scope: Scope, head: RequestHead) -> str | None:
    """None where there is none. Raise MalformedRequest where there are two different ones.

    Authorization takes `Bearer …` and, as RunPod's clients send it, the credential alone. A browser
    cannot give a socket headers: only there it may be in the query, out of which it is taken, so
    that nobody behind can write it down.
    """
    found = {*map(_of_authorization, head.authorization), *map(str.strip, head.api_key)}
    if scope["type"] == "websocket":
        found.update(_take_from_query(scope))
    found.discard("")
    if len(found) > 1:
        raise credentials_conflict()
    return found.pop() if found else None


def credentials_conflict() -> MalformedRequest:
    return MalformedRequest(
        "The request carries two different credentials. Send one API key or one token.",
        code="CREDENTIALS_CONFLICT",
    )


def _of_authorization(value: str) -> str:
    """What belongs to another scheme, such as Basic, is not for us."""
    scheme, _, rest = value.strip().partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    return "" if rest else scheme


def _take_from_query(scope: Scope) -> list[str]:
    query: bytes = scope["query_string"]
    if QUERY_NAME.encode() not in query:
        return []
    try:
        pairs = parse_qsl(
            query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_QUERY_VALUES
        )
    except ValueError:
        raise MalformedRequest("The query has too many values.") from None
    kept = [(name, value) for name, value in pairs if name != QUERY_NAME]
    scope["query_string"] = urlencode(kept).encode("ascii")
    return [value.strip() for name, value in pairs if name == QUERY_NAME]
