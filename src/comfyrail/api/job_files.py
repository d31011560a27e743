"""Files of a job: its outputs and its newest preview."""

from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.conditional import NOT_MODIFIED, is_known
from comfyrail.api.files import file_response
from comfyrail.api.services import principal_of, services_of
from comfyrail.ids import JobId, OutputId

NO_CONTENT = 204


async def send_output(request: Request, job_id: JobId, output_id: OutputId) -> Response:
    """The file itself, with ranges and ETag."""
    output, blob = await services_of(request).jobs.output_file(
        principal_of(request), job_id, output_id
    )
    file = output.file
    return file_response(
        request,
        blob,
        filename=file.filename,
        content_type=file.content_type,
        sha256=file.sha256,
    )


async def send_preview(request: Request, job_id: JobId) -> Response:
    """The newest picture of what is being sampled; 204 where there is none."""
    preview = await services_of(request).jobs.preview(principal_of(request), job_id)
    if preview is None:
        return Response(status_code=NO_CONTENT, headers={"Cache-Control": "no-store"})
    headers = {"ETag": f'"{preview.number}"', "Cache-Control": "no-store"}
    if is_known(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=NOT_MODIFIED, headers=headers)
    return Response(preview.image, media_type=preview.content_type, headers=headers)
