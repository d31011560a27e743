"""Outputs as replies show them, with what is known of their files."""

from collections.abc import Sequence

from comfyrail.api.contract import OutputBody, output_body
from comfyrail.api.services import Services
from comfyrail.jobs.job import Output
from comfyrail.store.media import media_file


async def output_bodies(services: Services, outputs: Sequence[Output]) -> list[OutputBody]:
    """With one look at the store for all of them."""
    media = await services.outputs.media_of(outputs)
    return [output_body(output, media.get(media_file(output))) for output in outputs]
