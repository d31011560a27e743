"""The routes of webhooks and deliveries."""

from comfyrail.access.permissions import Permission
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.webhooks import contract, deliveries, routes

ROUTERS = (routes.router, deliveries.router)

_READ = Permission.WEBHOOKS_READ
_WRITE = Permission.WEBHOOKS_WRITE

OPERATIONS: Operations = {
    ("get", contract.WEBHOOKS): Operation(_READ, "List webhooks", contract.WebhookList),
    ("post", contract.WEBHOOKS): Operation(
        _WRITE,
        "Add a webhook",
        contract.WebhookWithSecret,
        201,
        contract.WebhookRequest,
        (409, 415, 422),
        example={"url": "https://example.com/hook", "events": ["execution.completed"]},
        reply_headers=("Location",),
    ),
    ("get", contract.SIGNING_SECRET): Operation(
        _WRITE, "Show the secret that signs for jobs", contract.SigningSecretBody
    ),
    ("post", contract.ROTATE_SIGNING_SECRET): Operation(
        _WRITE,
        "Replace the secret that signs for jobs",
        contract.SigningSecretBody,
        body=contract.RotateRequest,
        errors=(409, 415, 422),
        example={"overlap": 3600},
        is_body_required=False,
    ),
    ("get", contract.WEBHOOK): Operation(
        _READ, "Show a webhook", contract.WebhookBody, errors=(404,)
    ),
    ("patch", contract.WEBHOOK): Operation(
        _WRITE,
        "Change a webhook",
        contract.WebhookBody,
        body=contract.WebhookChange,
        errors=(404, 415, 422),
        example={"enabled": True},
    ),
    ("delete", contract.WEBHOOK): Operation(_WRITE, "Delete a webhook", "", 204, errors=(404,)),
    ("post", contract.ROTATE): Operation(
        _WRITE,
        "Replace the secret of a webhook",
        contract.WebhookWithSecret,
        body=contract.RotateRequest,
        errors=(404, 409, 415, 422),
        example={"overlap": 3600},
        is_body_required=False,
    ),
    ("post", contract.TEST): Operation(
        _WRITE, "Send a test message", contract.TestBody, errors=(404,)
    ),
    ("get", contract.DELIVERIES): Operation(_READ, "List deliveries", contract.DeliveryList),
    ("get", contract.DELIVERY): Operation(
        _READ, "Show a delivery", contract.DeliveryDetail, errors=(404,)
    ),
    ("delete", contract.DELIVERY): Operation(
        _WRITE, "Forget a delivery", "", 204, errors=(404, 409)
    ),
    ("post", contract.REDELIVER): Operation(
        _WRITE, "Deliver once more", contract.DeliveryDetail, 202, errors=(404, 409)
    ),
    ("get", contract.DEAD_LETTERS): Operation(_READ, "List dead letters", contract.DeliveryList),
    ("post", contract.REDELIVER_DEAD): Operation(
        _WRITE,
        "Deliver dead letters once more",
        contract.DeadLetterCount,
        202,
        contract.DeadLetterChoice,
        (415,),
        example={"type": "execution.completed"},
        is_body_required=False,
    ),
    ("delete", contract.DEAD_LETTERS): Operation(
        _WRITE, "Forget dead letters", contract.DeadLetterCount
    ),
}
