"""Reading URLs strictly: what two readers could understand differently is refused. Pure."""

import re
from dataclasses import dataclass

from yarl import URL

from comfyrail.errors import AddressRefused
from comfyrail.network.addresses import normal_host, read_address

LONGEST_URL = 8192
SCHEMES = ("http", "https")

_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ud800-\udfff]")
_AUTHORITY = re.compile(r"^[^:]*:/*([^/?#]*).*", re.DOTALL)
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_UP_TO_AUTHORITY = re.compile(r"\s*(?:[a-zA-Z][a-zA-Z0-9+.-]*:(?=[/\\]))?[/\\]*")
_AUTHORITY_BEFORE_PATH = re.compile(r"[^/?#\\]*")
_WORD_AS_PORT = re.compile(r":[^:\]]*[^0-9:\]][^:\]]*$")
_QUERY = re.compile(r"[?#].*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WebUrl:
    """A URL of the web. `host` is in its normal form, and the URL has it so too."""

    url: URL
    host: str

    @property
    def origin(self) -> tuple[str, str, int | None]:
        return (self.url.scheme, self.host, self.url.port)


def without_secrets(text: str) -> str:
    """A URL, or what was to be one, as a message may show it: no user, password, query, fragment.

    Text that no reader takes is cut too, rather once too often.
    """
    opening = _UP_TO_AUTHORITY.match(text)
    start = opening.end() if opening else 0
    rest = text[start:]
    authority = _AUTHORITY_BEFORE_PATH.match(rest)
    if "@" in rest and authority and ("@" in authority[0] or _WORD_AS_PORT.search(authority[0])):
        # A password may have slashes and question marks in it.
        rest = f"…@{rest.rpartition('@')[2]}"
    return text[:start] + _QUERY.sub("?…", rest, count=1)


def read_scheme(text: str) -> str | None:
    """`https` of `https://…`, in lower case; None where a text does not begin with one."""
    found = _SCHEME.match(text)
    return found[1].lower() if found else None


def read_web_url(text: str) -> WebUrl:
    """Read `http://…` or `https://…`. Raises AddressRefused, saying what is wrong."""
    if len(text) > LONGEST_URL:
        raise AddressRefused(f"It is longer than {LONGEST_URL} characters.", "malformed")
    if _UNSAFE.search(text):
        raise AddressRefused("It has spaces, backslashes or control characters.", "malformed")
    scheme = read_scheme(text)
    if scheme not in SCHEMES:
        raise AddressRefused("It begins neither with http:// nor with https://.", "scheme")
    try:
        url = URL(text)
        host, port = url.raw_host or "", url.port
    except ValueError as error:
        # What the reader says would name parts of it, and one may be a password.
        raise AddressRefused("It cannot be read.", "malformed") from error
    if "@" in _AUTHORITY.sub(r"\1", text):
        raise AddressRefused("It has a user or a password in it.", "credentials")
    normal = normal_host(host)
    if normal is None or port == 0:
        raise AddressRefused("It has no host that makes sense.", "malformed")
    return WebUrl(_with_host(url, normal), normal)


def _with_host(url: URL, host: str) -> URL:
    # Names that are not ASCII and odd spellings of addresses are asked for as they were checked.
    return url if url.raw_host == host else url.with_host(str(read_address(host) or host))
