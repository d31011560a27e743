"""What is said of outputs whose files have been removed."""

from datetime import UTC, datetime

from comfyrail.errors import Gone
from comfyrail.jobs.job import Output
from comfyrail.jobs.life_cycle import GoneReason

WHY_GONE = {
    GoneReason.EXPIRED: "its time was over",
    GoneReason.QUOTA: "the server needed the room for newer ones",
    GoneReason.DELETED: "it was deleted",
}


def check_there(output: Output) -> Output:
    """Raises Gone for one whose file has been removed."""
    if output.gone_at is None or output.gone_reason is None:
        return output
    when = datetime.fromtimestamp(output.gone_at / 1000, UTC).isoformat(timespec="seconds")
    raise Gone(
        f"The output {output.file.filename} is gone since {when}: "
        f"{WHY_GONE[output.gone_reason]}. Run the job once more to make it again.",
        code="OUTPUT_GONE",
        details={
            "output_id": output.file.id,
            "execution_id": output.job_id,
            "gone_at": when,
            "reason": output.gone_reason,
        },
    )
