"""URLs in a workflow: which there are, and whether their domains are allowed. Pure."""

import re
from dataclasses import dataclass

from comfyrail.errors import AddressRefused
from comfyrail.network.addresses import is_public_name, matches_domain, normal_host
from comfyrail.network.urls import read_web_url
from comfyrail.validation.policy import SecurityPolicy

_OTHER_SCHEMES = (
    "file ftp ftps sftp ssh scp smb gopher dict ldap ldaps tftp jar netdoc data blob javascript "
    "vbscript ws wss s3 gs az hdfs git telnet php phar expect"
)
_OF_FFMPEG = (
    "amqp async bluray cache concat concatf crypto fd gophers hls http httpproxy https icecast "
    "ipfs ipns md5 mmsh mmst pipe prompeg rist rtmp rtmpe rtmps rtmpt rtmpte rtmpts rtp rtsp sctp "
    "srt srtp subfile tcp tee tls udp udplite unix zmq"
)
"""What opens a video opens these too; their options stand before the colon."""
OTHER_SCHEMES = frozenset(_OTHER_SCHEMES.split())
_SCHEMES = "|".join(sorted(OTHER_SCHEMES | set(_OF_FFMPEG.split())))
_SPACE = re.compile(r"\s")
_WRAPPING = re.compile(r"[\x00-\x20\s<\"'(]*(?:url:\s*)?", re.IGNORECASE)
_BROKEN = r"[\t\r\n]*"
_IN_PIECES = "|".join(_BROKEN.join(scheme) for scheme in ("http", "https", "file", "ftp"))
"""Python, like browsers, takes tabs and ends of lines out of a URL."""
_BEGINS_AS_URL = re.compile(
    rf"[a-z][a-z0-9+.-]+:[/\\]{{2}}|(?:{_SCHEMES}):[/\\]|\\\\\w"
    rf"|(?:{_IN_PIECES}){_BROKEN}:{_BROKEN}[/\\]",
    re.IGNORECASE,
)
_IS_URL_OF_ONE_WORD = re.compile(
    rf"(?:{'|'.join(sorted(OTHER_SCHEMES))}|https?):|(?:{_SCHEMES})(?:[,+][^\s:]*)?:[^\s:]*[/\\:]"
    r"|//[^\s/]|[^\s]*:[/\\]{2}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class UrlFault:
    """`reason`: scheme, credentials, malformed, private_address or domain."""

    reason: str
    text: str
    domain: str | None = None


def is_url(text: str) -> bool:
    """Whether a text as a whole is what some program takes for a URL: no words before it.

    Programs are lenient: they take brackets and `URL:` off, mend slashes, and look for a URL
    behind the name of a protocol of theirs.
    """
    opening = _WRAPPING.match(text)
    start = opening.end() if opening else 0
    if _BEGINS_AS_URL.match(text, start):
        return True
    rest = text[start:].rstrip()
    return _IS_URL_OF_ONE_WORD.match(rest) is not None and not _SPACE.search(rest)


def whole_url(text: str) -> str:
    """With the scheme that those who take a URL add where there is none."""
    text = text.strip()
    if text.startswith("//"):
        return f"https:{text}"
    return text if is_url(text) else f"https://{text}"


def find_url_fault(text: str, policy: SecurityPolicy) -> UrlFault | None:
    """Why a URL may not be asked for; None where it may."""
    try:
        target = read_web_url(text.strip())
    except AddressRefused as error:
        return UrlFault(error.reason, error.message)
    if not any(matches_domain(target.host, pattern) for pattern in policy.allowed_domains):
        allowed = ", ".join(policy.allowed_domains[:5]) or "none"
        text = f"The domain '{target.host}' is not among those that are allowed ({allowed})."
        return UrlFault("domain", text, target.host)
    if not is_public_name(target.host) and target.host not in _listed(policy):
        return UrlFault("private_address", "The address is not a public one.", target.host)
    return None


def allows_host(host: str, policy: SecurityPolicy) -> bool:
    """Whether a host, in its normal form, is of an allowed domain."""
    return any(matches_domain(host, pattern) for pattern in policy.allowed_domains)


def _listed(policy: SecurityPolicy) -> set[str | None]:
    """Hosts that are allowed by their own names: then one of this network may be meant."""
    return {normal_host(domain) for domain in policy.allowed_domains if "*" not in domain}
