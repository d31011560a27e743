"""The routes of sessions."""

from comfyrail.api.operations import Operation, Operations
from comfyrail.api.session import routes
from comfyrail.api.session.contract import SESSION, LoginRequest, SessionBody

OPERATIONS: Operations = {
    ("post", SESSION): Operation(
        None,
        "Begin a session",
        SessionBody,
        201,
        LoginRequest,
        (401, 409, 413, 415),
        example={"key": "crk_…"},
    ),
    ("get", SESSION): Operation(None, "Show the session", SessionBody, errors=(401,)),
    ("delete", SESSION): Operation(None, "End the session", "", 204, errors=(409,)),
    ("get", routes.LOGIN): Operation(None, "Login page", "text/html", is_shown=False),
    ("post", routes.LOGIN): Operation(None, "Log in", "text/html", 303, is_shown=False),
    ("post", routes.LOGOUT): Operation(None, "Log out", "text/html", 303, is_shown=False),
    ("get", routes.FAVICON): Operation(None, "Icon", "image/svg+xml", is_shown=False),
    ("get", routes.STYLE_SHEET): Operation(None, "Styles", "text/css", is_shown=False),
}
