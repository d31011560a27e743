"""Options that many commands have."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_SERVER = "http://127.0.0.1:8080"

ServerOption = Annotated[
    str,
    typer.Option("--server", envvar="COMFYRAIL_SERVER", help="Address of the server."),
]
SameServerOption = Annotated[str | None, typer.Option("--server", help="Address of the server.")]
LimitOption = Annotated[int, typer.Option(min=1, max=500, help="How many at most.")]
FileArgument = Annotated[
    Path,
    typer.Argument(
        help="A workflow: JSON in either format, a PNG or a WebP; - reads stdin. With --server "
        "also the name of one in its library."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Set an input: NODE.INPUT=VALUE (node id or title), or NAME=VALUE of one that the "
        "workflow declares. With run, @FILE as value gives that file.",
    ),
]
CheckServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar="COMFYRAIL_SERVER",
        help="Check against this server's workers, not in this process.",
    ),
]
CatalogOption = Annotated[
    Path | None, typer.Option("--catalog", help="A worker's /object_info, saved as a file.")
]
CatalogDataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Data folder whose workers count (default comfyrail-data)."),
]
OfflineDataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Work on this data folder itself, while no server uses it."),
]
AutoFixOption = Annotated[
    bool, typer.Option("--auto-fix", help="Mend common faults first, and say which.")
]
OptimizeOption = Annotated[
    bool, typer.Option("--optimize", help="Remove dead nodes and merge equal ones.")
]
