"""The routes about access, and what each asks of its caller."""

from comfyrail.access.permissions import Permission
from comfyrail.api.access import audit, blocks, contract, keys, usage, users
from comfyrail.api.operations import Operation, Operations

ROUTERS = (users.router, keys.router, usage.router, audit.router, blocks.router)

_QUOTAS = {"jobs": 1000, "gpu_seconds": 36000.0, "storage_bytes": None}
_USER = {
    "user_id": "ada",
    "tenant": "ada",
    "tier": "pro",
    "permissions": ["jobs:read", "jobs:write"],
    "quotas": _QUOTAS,
    "disabled": False,
    "created_at": "2026-03-01T08:00:00Z",
}
_KEY = {
    "key_id": "k2x7mmq4vnca",
    "user_id": "ada",
    "name": "render farm",
    "permissions": ["jobs:read", "jobs:write"],
    "created_at": "2026-03-01T08:00:00Z",
    "created_by": "ada",
    "expires_at": "2027-03-01T00:00:00Z",
    "last_used_at": None,
    "revoked_at": None,
}
_USAGE = {
    "month": "2026-03",
    "jobs": 12,
    "gpu_seconds": 340.5,
    "storage_bytes": 73400320,
    "quotas": _QUOTAS,
    "resets_at": "2026-04-01T00:00:00Z",
    "earlier": [{"month": "2026-02", "jobs": 80, "gpu_seconds": 2210.0}],
}
_USED = {
    "submitted": 12,
    "completed": 9,
    "failed": 1,
    "cancelled": 2,
    "gpu_seconds": 340.5,
    "cost": 0.21,
}
_BLOCK = {
    "block_id": "019523b1-7d2c-7000-8000-000000000000",
    "network": "203.0.113.0/24",
    "reason": "scans",
    "created_by": "admin",
    "created_at": "2026-03-01T08:00:00Z",
    "expires_at": None,
}

OPERATIONS: Operations = {
    ("post", users.USERS): Operation(
        Permission.ACCESS_ADMIN,
        "Add a user",
        contract.UserBody,
        201,
        contract.CreateUserRequest,
        (409, 415),
        example={"user_id": "ada", "tier": "pro", "quotas": {"jobs": 1000}},
        reply_example=_USER,
    ),
    ("get", users.USERS): Operation(
        Permission.ACCESS_ADMIN,
        "List users",
        contract.UserList,
        reply_example={"users": [_USER], "next_cursor": None},
    ),
    ("get", users.USER): Operation(
        Permission.ACCESS_ADMIN,
        "Show a user",
        contract.UserBody,
        errors=(404,),
        reply_example=_USER,
    ),
    ("patch", users.USER): Operation(
        Permission.ACCESS_ADMIN,
        "Change or disable a user",
        contract.UserBody,
        body=contract.ChangeUserRequest,
        errors=(404, 415),
        example={"tier": "premium", "quotas": {"jobs": None}, "disabled": False},
        reply_example=_USER,
    ),
    ("delete", users.USER): Operation(
        Permission.ACCESS_ADMIN, "Remove a user", "", 204, errors=(404,)
    ),
    ("post", keys.KEYS): Operation(
        Permission.KEYS_WRITE,
        "Make an API key",
        contract.MadeKeyBody,
        201,
        contract.CreateKeyRequest,
        (404, 415),
        example={"name": "render farm", "expires_at": "2027-03-01T00:00:00Z"},
        reply_example={"key": "crk_k2x7mmq4vnca_…", **_KEY},
    ),
    ("get", keys.KEYS): Operation(
        Permission.KEYS_WRITE,
        "List API keys",
        contract.KeyList,
        reply_example={"keys": [_KEY], "next_cursor": None},
    ),
    ("delete", keys.KEY): Operation(
        Permission.KEYS_WRITE, "Revoke an API key", "", 204, errors=(404,)
    ),
    ("get", usage.WHOAMI): Operation(
        None,
        "Who the caller is",
        contract.WhoAmI,
        errors=(401,),
        reply_example={
            "user_id": "ada",
            "tenant": "ada",
            "tier": "pro",
            "permissions": ["jobs:read", "jobs:write"],
            "key_id": "k2x7mmq4vnca",
            "limits": {
                "submissions_per_minute": 120,
                "requests_per_minute": 3600,
                "concurrent_jobs": 10,
            },
            "usage": {**_USAGE, "earlier": []},
        },
    ),
    ("get", usage.USAGE): Operation(
        Permission.JOBS_READ,
        "What the caller's tenant has used",
        contract.UsageBody,
        reply_example=_USAGE,
    ),
    ("get", usage.DAYS): Operation(
        Permission.JOBS_READ,
        "What the caller's tenant has used by day",
        contract.DaysBody,
        reply_example={
            "days": [{"date": "2026-03-01", **_USED}],
            "total": _USED,
        },
    ),
    ("get", audit.AUDIT): Operation(
        Permission.ACCESS_ADMIN,
        "Read the audit log",
        contract.AuditList,
        reply_example={
            "entries": [
                {
                    "number": 7,
                    "at": "2026-03-01T08:00:00Z",
                    "actor": "admin",
                    "key_id": "k2x7mmq4vnca",
                    "act": "worker.drain",
                    "target": "local-1",
                    "details": {},
                    "address": "198.51.100.4",
                    "request_id": "5f0c4ae1d2b34f6d9a7e8c1b2a3d4e5f",
                }
            ],
            "next_cursor": None,
        },
    ),
    ("get", blocks.BLOCKS): Operation(
        Permission.ACCESS_ADMIN,
        "List blocked addresses",
        contract.BlockList,
        reply_example={"blocks": [_BLOCK]},
    ),
    ("post", blocks.BLOCKS): Operation(
        Permission.ACCESS_ADMIN,
        "Block addresses",
        contract.BlockBody,
        201,
        contract.BlockRequest,
        (415,),
        example={"network": "203.0.113.0/24", "reason": "scans"},
        reply_example=_BLOCK,
    ),
    ("delete", blocks.BLOCK): Operation(
        Permission.ACCESS_ADMIN, "Unblock addresses", "", 204, errors=(404,)
    ),
}
