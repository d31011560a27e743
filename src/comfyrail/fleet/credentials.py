"""Secrets that a setting names and the server's environment holds."""

from collections.abc import Mapping

from comfyrail.errors import DriverRefused


def secret_named(secrets: Mapping[str, str], name: str, purpose: str) -> str:
    """The secret, whose name may be written in capitals too. Raises DriverRefused, saying that
    `purpose` needs it, where the server does not have it.
    """
    found = secrets.get(name) or secrets.get(name.lower())
    if found is None:
        raise DriverRefused(
            f"{purpose} needs the secret '{name}', which the server does not have. Set "
            f"COMFYRAIL_SECRET_{name.upper()} in its environment and start it again.",
            code="SECRET_MISSING",
            details={"secret": name},
        )
    return found
