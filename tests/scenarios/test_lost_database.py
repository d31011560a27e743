"""A real server whose database file is taken away under it: it accepts nothing that would be gone
when it stops.
"""

from pathlib import Path

from tests.graphs import picture
from tests.processes import server, wait_until


def test_server_without_its_database_refuses_work_and_goes_on_when_that_is_back(
    tmp_path: Path,
) -> None:
    submission = {"workflow": picture(2)}
    with server(tmp_path / "data", workers=1) as process:
        process.wait_ready()
        done = process.submit(picture(1))
        process.wait_for(done, "completed")
        database = process.data / "comfyrail.db"
        database.rename(tmp_path / "elsewhere")
        status, refused = process.call("POST", "/v1/workflows/execute", submission)
        assert (status, refused["error"]["code"]) == (503, "STORE_UNAVAILABLE")
        assert f"{database} was deleted or replaced" in refused["error"]["message"]
        assert process.call("GET", "/ready")[0] == 503
        wait_until(lambda: '"storage_trouble"' in process.log)
        assert process.execution(done)["status"] == "completed"
        assert process.call("GET", "/health")[0] == 200

        (tmp_path / "elsewhere").rename(database)
        process.wait_ready()
        accepted = process.submit(picture(3))
        process.wait_for(accepted, "completed")
        assert process.stop() == 0
        process.start()
        assert wait_until(lambda: process.execution(accepted))["status"] == "completed"
