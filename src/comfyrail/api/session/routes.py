"""Logging in and out with a browser [11.3]."""

from datetime import UTC, datetime
from urllib.parse import parse_qsl

import msgspec
from fastapi import APIRouter
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from comfyrail.access.gatekeeper import Gatekeeper, Login
from comfyrail.access.principal import Principal
from comfyrail.access.sessions import COOKIE, SessionNote, cookie_in
from comfyrail.api.gate import note_refusal
from comfyrail.api.messages import json_response, read_body, read_json
from comfyrail.api.origins import refuse_other_sites
from comfyrail.api.request_head import read_head
from comfyrail.api.services import services_of
from comfyrail.api.session.contract import SESSION, LoginRequest, session_body
from comfyrail.api.session.page import ICON, START, STYLES, encoded, local_path, login_page
from comfyrail.clock import Instant
from comfyrail.errors import Conflict, MalformedRequest, Unauthorized

LOGIN = "/login"
LOGOUT = "/logout"
STYLE_SHEET = "/comfyrail.css"
FAVICON = "/favicon.ico"
FORM = "application/x-www-form-urlencoded"
LARGEST_LOGIN = 64 << 10
SEE_OTHER = 303
WRONG_CREDENTIALS = 401
STYLES_KEPT = "public, max-age=3600"
PAGE_KEPT = "no-store"
NOWHERE_KEPT = {"Cache-Control": "no-store"}

router = APIRouter(tags=["session"])
_decoder = msgspec.json.Decoder(LoginRequest)


@router.post(SESSION)
async def begin_session(request: Request) -> Response:
    """A cookie for an API key or a token."""
    keeper = _keeper(request)
    _refuse_other_pages(request)
    wanted = await read_json(request, _decoder, LARGEST_LOGIN)
    if (wanted.key is None) == (wanted.token is None):
        raise MalformedRequest("Send either key or token.")
    login = await _log_in(request, keeper, wanted.key or wanted.token or "")
    body = session_body(login.principal, "session", login.expires_at)
    response = json_response(body, 201, NOWHERE_KEPT)
    _set_cookie(request, response, login)
    _end_replaced(request, response, keeper)
    return response


@router.get(SESSION)
async def show_session(request: Request) -> Response:
    """Who the caller is."""
    principal: Principal | None = request.scope["principal"]
    if principal is None:
        raise Unauthorized("There is no session. Log in with an API key or a token.")
    note: SessionNote | None = request.scope.get("session")
    if note is not None:
        return json_response(session_body(principal, "session", Instant(note.expires_at)))
    if not principal.is_limited:
        return json_response(session_body(principal, "local"))
    return json_response(session_body(principal, "key" if principal.key_id else "token"))


@router.delete(SESSION)
async def end_session(request: Request) -> Response:
    """Forget the session, here and in the browser. One that is over is none to forget."""
    return await _log_out(request, Response(status_code=204))


@router.post(LOGOUT, include_in_schema=False)
async def take_logout(request: Request) -> Response:
    """The form of our pages. A page of another site cannot log anybody out."""
    _refuse_other_pages(request)
    return await _log_out(request, _go_to(START))


@router.get(LOGIN, include_in_schema=False)
async def show_login(request: Request) -> Response:
    following = local_path(request.query_params.get("next", "/"))
    if services_of(request).gatekeeper is None:
        return _go_to(following)
    page = login_page(following, known=request.scope["principal"])
    return HTMLResponse(page, headers={"Cache-Control": PAGE_KEPT})


@router.post(LOGIN, include_in_schema=False)
async def take_login(request: Request) -> Response:
    """The form of the page."""
    keeper = _keeper(request)
    _refuse_other_pages(request)
    content = await read_body(request, LARGEST_LOGIN, FORM)
    fields = dict(parse_qsl(content.decode("utf-8", "replace"), max_num_fields=10))
    following = local_path(fields.get("next", "/"))
    try:
        login = await _log_in(request, keeper, fields.get("credential", "").strip())
    except Unauthorized as error:
        page = login_page(following, error.message)
        return HTMLResponse(page, WRONG_CREDENTIALS, {"Cache-Control": PAGE_KEPT})
    response = _go_to(following)
    _set_cookie(request, response, login)
    _end_replaced(request, response, keeper)
    return response


@router.get(STYLE_SHEET, include_in_schema=False)
async def show_styles() -> Response:
    return Response(STYLES, media_type="text/css", headers={"Cache-Control": STYLES_KEPT})


@router.get(FAVICON, include_in_schema=False)
async def show_icon() -> Response:
    return Response(ICON, media_type="image/svg+xml", headers={"Cache-Control": STYLES_KEPT})


async def _log_out(request: Request, response: Response) -> Response:
    keeper = _keeper(request)
    cookie = cookie_in(request.headers.get("cookie", ""))
    if cookie is not None:
        await keeper.log_out(cookie)
    response.delete_cookie(
        COOKIE, path="/", httponly=True, samesite="strict", secure=request.scope["is_https"]
    )
    return response


def _end_replaced(request: Request, response: Response, keeper: Gatekeeper) -> None:
    """A browser has one session: that of before ends, once it has the new cookie. Its open pages
    lose their streams by that, and find out who is logged in now.
    """
    cookie = cookie_in(request.headers.get("cookie", ""))
    if cookie is not None:
        response.background = BackgroundTask(keeper.log_out, cookie)


def _keeper(request: Request) -> Gatekeeper:
    keeper = services_of(request).gatekeeper
    if keeper is None:
        raise Conflict(
            "Access is off on this server: everybody on its machine is the local user, and there "
            "are no sessions.",
            code="ACCESS_IS_OFF",
        )
    return keeper


def _refuse_other_pages(request: Request) -> None:
    """A page of another site could log somebody in as somebody else, who then sees what is done. A
    program says no Origin.
    """
    head = read_head(request.scope)
    if head.origin is not None or head.fetch_site:
        refuse_other_sites(request.scope, head)


async def _log_in(request: Request, keeper: Gatekeeper, credential: str) -> Login:
    try:
        return await keeper.log_in(credential)
    except Unauthorized as error:
        await note_refusal(request.scope, error)
        raise


def _go_to(path: str) -> Response:
    return RedirectResponse(encoded(path), SEE_OTHER)


def _set_cookie(request: Request, response: Response, login: Login) -> None:
    until = datetime.fromtimestamp(login.expires_at / 1000, UTC)
    response.set_cookie(
        COOKIE,
        login.cookie,
        expires=until,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.scope["is_https"],
    )
