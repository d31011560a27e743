"""URLs in a workflow: which there are, and whether their domains are allowed. Pure."""

import re
from dataclasses import dataclass

from comfyrail.errors import AddressRefused
from comfyrail.network.addresses import is_public_name, matches_domain, normal_host
from comfyrail.network.urls import read_scheme, read_web_url
from comfyrail.validation.policy import SecurityPolicy

_OTHER_SCHEMES = (
    "file ftp ftps sftp ssh scp smb gopher dict ldap ldaps tftp jar netdoc data blob javascript "
    "vbscript ws wss s3 gs az hdfs git telnet php phar expect"
)
_SPACE = re.compile(r"\s")
OTHER_SCHEMES = frozenset(_OTHER_SCHEMES.split())


@dataclass(frozen=True, slots=True)
class UrlFault:
    """`reason`: scheme, credentials, malformed, private_address or domain."""

    reason: str
    text: str
    domain: str | None = None


def is_url(text: str) -> bool:
    """Whether a text as a whole is a URL: no words around it."""
    stripped = text.strip()
    scheme = read_scheme(stripped)
    if scheme is None or _SPACE.search(stripped):
        return False
    return stripped[len(scheme) + 1 :].startswith("//") or scheme in OTHER_SCHEMES


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
