"""The process that a function runs in: events come in on lines, answers go out on lines."""

import json
import sys
import time
import traceback
from typing import Any

from comfyrail.engine.distributed.lambda_handler import handle


class Context:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._end - time.monotonic()) * 1000))


def main(seconds: float) -> None:
    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            answer = {"given": handle(json.loads(line), Context(seconds))}
        except Exception as error:  # noqa: BLE001 - Lambda tells of whatever it is
            answer = {
                "error": {
                    "errorMessage": str(error),
                    "errorType": type(error).__name__,
                    "stackTrace": traceback.format_tb(error.__traceback__),
                }
            }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
