"""A program on another machine that outlives the connection which started it: shell scripts for
any POSIX shell, which keep its number, its birth and its log in a folder of the remote user. Pure.

A number alone could by now be another process's: it counts only with the same time of birth. One
that has ended and that nobody has asked for its end (a zombie) is not alive.
"""

import hashlib
import re
import shlex
from pathlib import Path

LOG_LIMIT_BYTES = 1 << 20
GRACE_SECONDS = 5
_PLACE = re.compile(r"@([a-z]+)@")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")

_FUNCTIONS = """
folder="${XDG_CACHE_HOME:-$HOME/.cache}/comfyrail/"@name@
born() {
  if [ -r "/proc/$1/stat" ]; then
    sed -n 's/.*) //; /^[ZX]/d; p' "/proc/$1/stat" | cut -d ' ' -f 20
  else ps -o lstart= -p "$1"; fi 2>/dev/null
}
# A number that no living process has is still the group's of those whom a dead leader left.
end_orphans() {
  [ -n "$pid" ] && [ -z "$(born "$pid")" ] && kill -KILL "-$pid" 2>/dev/null
}
alive() {
  pid= birth=
  [ -r "$folder/pid" ] && { read -r pid; read -r birth; } <"$folder/pid"
  [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && [ -n "$birth" ] && [ "$(born "$pid")" = "$birth" ]
}
"""

_START = """
alive && exit 0
end_orphans
mkdir -p "$folder" || exit 1
cd @workdir@ || exit 1
if [ -f "$folder/log" ] && [ "$(wc -c <"$folder/log")" -gt @limit@ ]; then : >"$folder/log"; fi
rm -f "$folder/pid"
leader=; command -v setsid >/dev/null 2>&1 && leader=setsid
nohup $leader sh -c 'echo $$ >"$1/pid.new"; tries=0
  while [ ! -e "$1/pid" ]; do
    tries=$((tries + 1)); [ $tries -gt 400 ] && exit 1; sleep 0.05
  done
  eval "$2"' sh "$folder" @command@ >>"$folder/log" 2>&1 </dev/null &
tries=0
while [ ! -s "$folder/pid.new" ]; do
  tries=$((tries + 1)); [ $tries -gt 200 ] && exit 1; sleep 0.05
done
read -r pid <"$folder/pid.new"
{ echo "$pid"; born "$pid"; } >"$folder/pid.draft"
rm -f "$folder/pid.new"
mv "$folder/pid.draft" "$folder/pid"
"""

_STOP = """
alive || { end_orphans; exit 0; }
end() { kill "-$1" "-$pid" 2>/dev/null || kill "-$1" "$pid" 2>/dev/null; }
end TERM
tries=0
while alive && [ $tries -lt @tries@ ]; do tries=$((tries + 1)); sleep 0.1; done
end KILL
while alive; do sleep 0.05; done
rm -f "$folder/pid"
"""

# What it prints is for nobody: it ends by that when the connection has ended.
_WATCH = """
while alive; do echo; sleep 0.5; done
"""

_LOG = """
[ -r "$folder/log" ] || exit 3
tail -n @lines@ "$folder/log"
"""

NO_LOG = 3
"""Exit code of the script for the log."""


class RemoteProgram:
    """The scripts for one program. Each is given to `sh -s` on the remote machine."""

    def __init__(self, worker_id: str, data: Path, command: str, workdir: str | None) -> None:
        # Two servers may give their workers the same ids.
        server = hashlib.sha256(str(data.absolute()).encode()).hexdigest()[:8]
        self._values = {
            "name": shlex.quote(f"{_NOT_IN_NAMES.sub('_', worker_id)}-{server}"),
            "command": shlex.quote(command),
            "workdir": "." if workdir is None else _quoted_path(workdir),
            "limit": str(LOG_LIMIT_BYTES),
            "tries": str(GRACE_SECONDS * 10),
        }

    def start(self) -> str:
        """Starts it, unless it runs; exits when its number is written down."""
        return self._script(_START)

    def stop(self) -> str:
        """Exits when it has ended, it and what it has started."""
        return self._script(_STOP)

    def watch(self) -> str:
        """Exits when it has ended, or the connection has."""
        return self._script(_WATCH)

    def is_alive(self) -> str:
        return self._script("alive\n")

    def log(self, lines: int) -> str:
        return self._script(_LOG, lines=str(lines))

    def _script(self, body: str, **more: str) -> str:
        values = self._values | more
        # In one pass: what is put in may look like a place for something else.
        return _PLACE.sub(lambda found: values[found[1]], _FUNCTIONS + body)


def _quoted_path(path: str) -> str:
    """With `~/` still meaning the remote user's home."""
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"/{shlex.quote(path[2:])}' if path[2:] else '"$HOME"'
    return shlex.quote(path)
