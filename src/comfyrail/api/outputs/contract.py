"""The bodies of the outputs' API."""

from datetime import datetime
from typing import Annotated

import msgspec

from comfyrail.api.contract import OutputBody
from comfyrail.results.links import FILES

OUTPUTS = "/v1/outputs"
ZIP = "/v1/outputs.zip"
OUTPUT = "/v1/outputs/{output_id}"
CONTENT = "/v1/outputs/{output_id}/content"
LINK = "/v1/outputs/{output_id}/link"
FILE = FILES + "/{token}/{filename}"


class FoundOutputBody(msgspec.Struct, kw_only=True):
    """An output and where it comes from. `expires_at`: when it will be gone; null: it is."""

    execution_id: str
    workflow_id: str | None
    expires_at: datetime | None
    output: OutputBody


class FoundOutputs(msgspec.Struct, kw_only=True):
    outputs: list[FoundOutputBody]
    next_cursor: str | None


class LinkRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`expires_in` in seconds, at most a week; `variant`: of a smaller version, such as thumb_512;
    `download`: browsers save it; `direct`: a URL of the storage itself, where it has any.
    """

    expires_in: Annotated[
        float, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": 604800})
    ] = 3600.0
    variant: Annotated[str, msgspec.Meta(max_length=40)] | None = None
    download: bool = False
    direct: bool = False


class LinkBody(msgspec.Struct, kw_only=True):
    url: str
    expires_at: datetime
    direct: bool
