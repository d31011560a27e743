"""Structured logs on standard error: for people on a terminal, JSON lines elsewhere."""

import contextlib
import logging
import sys
from typing import TextIO, cast

import structlog


def configure_logs(*, as_json: bool | None = None, level: str = "info") -> None:
    """Set up logging once, at the start of a process."""
    use_json = not sys.stderr.isatty() if as_json is None else as_json
    threshold = logging.getLevelNamesMapping()[level.upper()]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if use_json else structlog.dev.ConsoleRenderer()
    )
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if use_json:
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _UnfailingErrors())),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(stream=sys.stderr, level=max(threshold, logging.WARNING), force=True)


class _UnfailingErrors:
    """Standard error, which may be a file on a full disk: a line that cannot be written must not
    end the loop that says it.
    """

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
