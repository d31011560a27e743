"""The routes of uploads and assets."""

from comfyrail.access.permissions import Permission
from comfyrail.api.assets import contract, routes, uploads
from comfyrail.api.operations import Operation, Operations

ROUTERS = (uploads.router, routes.router)

_FORM = {
    "type": "object",
    "required": [uploads.FILE_FIELD],
    "properties": {
        "name": {"type": "string"},
        "expires_in": {"type": "number"},
        "same_name": {"enum": ["keep_both", "rename", "replace"]},
        uploads.FILE_FIELD: {"type": "array", "items": {"type": "string", "format": "binary"}},
    },
}
_UPLOAD_BODY = {
    "required": True,
    "content": {
        "multipart/form-data": {"schema": _FORM},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "application/json": {
            "schema": {"$ref": "#/components/schemas/UploadRequest"},
            "example": {"url": "https://example.com/photo.png", "name": "photo.png"},
        },
    },
}

OPERATIONS: Operations = {
    ("post", contract.UPLOADS): Operation(
        Permission.ASSETS_WRITE,
        "Upload files",
        contract.UploadReply,
        201,
        contract.UploadRequest,
        (404, 413, 415, 422),
        extra={"requestBody": _UPLOAD_BODY},
    ),
    ("post", contract.SESSIONS): Operation(
        Permission.ASSETS_WRITE,
        "Begin an upload in parts",
        contract.SessionBody,
        201,
        contract.SessionRequest,
        (413, 415, 422),
        example={"name": "film.mp4", "size": 41943040},
    ),
    ("get", contract.SESSION): Operation(
        Permission.ASSETS_WRITE, "State of an upload in parts", contract.SessionBody, errors=(404,)
    ),
    ("put", contract.SESSION): Operation(
        Permission.ASSETS_WRITE,
        "Send the next part",
        contract.SessionBody,
        body="application/octet-stream",
        errors=(404, 409, 413, 415, 422),
        other_statuses=(201,),
        headers=("Content-Range", "Upload-Offset"),
    ),
    ("delete", contract.SESSION): Operation(
        Permission.ASSETS_WRITE, "Cancel an upload in parts", "", 204, errors=(404,)
    ),
    ("get", contract.ASSETS): Operation(Permission.ASSETS_READ, "List assets", contract.AssetList),
    ("get", contract.ASSET): Operation(
        Permission.ASSETS_READ, "Show an asset", contract.AssetBody, errors=(404,)
    ),
    ("delete", contract.ASSET): Operation(
        Permission.ASSETS_WRITE, "Delete an asset", "", 204, errors=(404, 409)
    ),
    ("get", contract.CONTENT): Operation(
        Permission.ASSETS_READ,
        "Download an asset",
        "*/*",
        errors=(404, 416),
        other_statuses=(206, 304),
    ),
}
