"""What can go wrong with values on disk."""

from comfyrail.errors import ComfyrailError


class SpilledValueLost(ComfyrailError):
    """A value was moved to disk and cannot be read back."""

    code = "VALUE_LOST"

    def __init__(self, node_id: str, reason: object) -> None:
        super().__init__(
            f"The value of node '{node_id}' was moved to disk to save memory and cannot be read "
            f"back: {reason}. Run the workflow again, and let nothing else clear the temp folder."
        )
        self.node_id = node_id
