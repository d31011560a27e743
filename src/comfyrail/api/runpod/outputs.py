"""What a job has made, in the shape of the widely used ComfyUI worker for RunPod."""

import asyncio
import base64
from collections.abc import Sequence

from starlette.requests import Request

from comfyrail.api.contract import output_body
from comfyrail.api.runpod.contract import PodFile, PodOutput
from comfyrail.api.services import principal_of, services_of
from comfyrail.jobs.job import Output
from comfyrail.results.blob_store import OpenBlob, first_bytes

INLINE_BYTES = 10 << 20
"""All files of a job together, as base64; more is given as URLs."""


async def pod_output(request: Request, outputs: Sequence[Output]) -> PodOutput:
    """Files that are kept; what was only shown on the way is left out."""
    kept = [output for output in outputs if not output.file.is_temporary]
    is_inline = sum(output.file.size for output in kept) * 4 / 3 <= INLINE_BYTES
    found = [(output, await _file(request, output, is_inline=is_inline)) for output in kept]
    others = [file for output, file in found if not _is_picture(output)]
    body = PodOutput(images=[file for output, file in found if _is_picture(output)])
    if others:
        body.files = others
    return body


async def _file(request: Request, output: Output, *, is_inline: bool) -> PodFile:
    name = output.file.filename
    if not is_inline:
        base = str(request.base_url).rstrip("/")
        return PodFile(filename=name, type="url", data=base + output_body(output).url)
    _, blob = await services_of(request).jobs.output_file(
        principal_of(request), output.job_id, output.file.id
    )
    return PodFile(filename=name, type="base64", data=await _encoded(blob))


def _is_picture(output: Output) -> bool:
    return output.file.content_type.startswith("image/")


async def _encoded(blob: OpenBlob) -> str:
    content = await first_bytes(blob, blob.size)
    return (await asyncio.to_thread(base64.b64encode, content)).decode()
