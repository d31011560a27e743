"""A server that is not Comfyrail, or one that means ill: it says what a test tells it to."""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JOB_ID = "01a1de80-896e-703e-9c95-bd478b0c2022"
MOMENT = "2026-01-01T00:00:00Z"


@contextlib.contextmanager
def foreign_server(replies: Mapping[str, Any]) -> Iterator[str]:
    """Its URL. A reply by path is bytes (an event stream), JSON, or 404 where there is none."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reply = replies.get(self.path.partition("?")[0])
            is_stream = isinstance(reply, bytes)
            content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            if reply is None:
                content = b"<h1>Not here</h1>"
            self.send_response(404 if reply is None else 200)
            self.send_header("Content-Type", "text/event-stream" if is_stream else "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - its own name

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def job_with_outputs(*filenames: str) -> dict[str, Any]:
    """What such a server says to have run: outputs of three bytes under names of its choice."""
    outputs = [
        {
            "output_id": str(number),
            "node_id": "1",
            "kind": "images",
            "filename": filename,
            "temporary": False,
            "partial": False,
            "content_type": "image/png",
            "size": 3,
            "sha256": "",
            "url": "/output",
        }
        for number, filename in enumerate(filenames)
    ]
    job = {
        "execution_id": JOB_ID,
        "status": "completed",
        "priority": 5,
        "submitted_at": MOMENT,
        "started_at": MOMENT,
        "completed_at": MOMENT,
        "queue_position": None,
        "progress": 1.0,
        "current_node": None,
        "completed_nodes": 1,
        "total_nodes": 1,
        "attempts": 1,
        "worker_id": "[/x]\x1b]0;owned\x07",
        "result": {"outputs": outputs},
        "error": None,
    }
    path = f"/v1/workflows/execution/{JOB_ID}"
    return {
        "/v1/workflows/execute": {"execution_id": JOB_ID},
        path: job,
        f"{path}/events": b"event: close\ndata: {}\n\n",
        "/output": b"abc",
    }
