"""Whether the caller has a permission. Who it is was found out at the gate, before."""

from starlette.types import Scope

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.errors import Unauthorized


def check_permission(scope: Scope, permission: Permission | None) -> None:
    """Raise Unauthorized for somebody unknown, Forbidden for one who may not."""
    if permission is None:
        return
    check_known(scope).check_may(permission)


def check_known(scope: Scope) -> Principal:
    """The caller. Raises Unauthorized for somebody unknown."""
    principal: Principal | None = scope.get("principal")
    if principal is None:
        raise Unauthorized(
            "Say who you are: send an API key or a token as 'Authorization: Bearer …'."
        )
    return principal
