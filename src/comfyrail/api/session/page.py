"""The login page: plain HTML and a form, no script."""

from html import escape
from urllib.parse import urlsplit

START = "/"
LONGEST_NEXT = 2000

STYLES = """:root { color-scheme: light dark; }
body { font: 1.1rem/1.6 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto;
  padding: 0 1rem; }
form { display: grid; gap: 1rem; max-width: 26rem; }
label { display: grid; gap: .3rem; }
input, button { font: inherit; padding: .5rem .7rem; border-radius: .4rem; border: 1px solid #888; }
button { background: #2457c5; border-color: #2457c5; color: #fff; cursor: pointer; }
button:focus-visible, input:focus-visible { outline: 3px solid #7fa5f8; outline-offset: 1px; }
.fault { border-left: .3rem solid #c62f2f; padding-left: .8rem; }
"""


def login_page(following: str, fault: str | None = None) -> str:
    """`following`: where it goes on from here."""
    said = "" if fault is None else f'<p class="fault" role="alert">{escape(fault)}</p>\n'
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Log in to Comfyrail</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/comfyrail.css"></head><body>
<h1>Log in to Comfyrail</h1>
{said}<form method="post" action="/login">
<label>API key or token
<input type="password" name="credential" autocomplete="current-password" required autofocus></label>
<input type="hidden" name="next" value="{escape(following)}">
<button>Log in</button>
</form>
<p>A key begins with <code>crk_</code>. Whoever runs this server can give you one.</p>
</body></html>
"""


def local_path(wanted: str) -> str:
    """A path of this server, or its start page: never a way to another site."""
    if len(wanted) > LONGEST_NEXT or not wanted.isprintable() or "\\" in wanted:
        return START
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return START
    is_local = not parts.scheme and not parts.netloc and wanted.startswith("/")
    return wanted if is_local and not wanted.startswith("//") else START
