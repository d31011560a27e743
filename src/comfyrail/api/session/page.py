"""Pages without a script: the login, and what stands in for a page that was not built."""

from html import escape
from urllib.parse import quote, urlsplit

from comfyrail import __version__
from comfyrail.access.principal import Principal

START = "/"
LONGEST_NEXT = 8000
"""As it is sent. An address of the page holds what was filled in."""

STYLES = """:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6678; --line: #d8dde6;
  --paper: #fff; --shade: #f4f6f9; --link: #1a56b0; --act: #2457c5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ef; --soft: #9aa6b8; --line: #323b4a;
  --paper: #151a22; --shade: #1d242f; --link: #7fb2ff; --act: #2f62d0; } }
* { box-sizing: border-box; }
body { font: 1.05rem/1.6 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto;
  padding: 0 1rem; color: var(--ink); background: var(--paper); }
h1 { display: flex; align-items: center; gap: .7rem; font-size: 1.7rem; line-height: 1.2; }
h1 img { width: 2.2rem; height: 2.2rem; }
h1 small, .soft { color: var(--soft); font-weight: 400; font-size: .95rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
a { color: var(--link); }
code, pre { font: .9rem/1.5 ui-monospace, monospace; background: var(--shade);
  border-radius: .3rem; }
code { padding: .1rem .3rem; }
pre { padding: .7rem .9rem; overflow: auto; }
.links { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: .7rem;
  padding: 0; list-style: none; }
.links a { display: block; height: 100%; padding: .7rem .9rem; border: 1px solid var(--line);
  border-radius: .5rem; text-decoration: none; font-weight: 600; }
.links a:hover { background: var(--shade); }
.links span { display: block; color: var(--soft); font-weight: 400; font-size: .9rem; }
.who { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem 1rem; padding: .6rem .9rem;
  background: var(--shade); border-radius: .5rem; }
.who form { display: block; margin-left: auto; }
form { display: grid; gap: 1rem; max-width: 26rem; }
label { display: grid; gap: .3rem; }
input, button { font: inherit; padding: .5rem .7rem; border-radius: .4rem;
  border: 1px solid var(--line); background: var(--paper); color: inherit; }
button { cursor: pointer; }
button.act { background: var(--act); border-color: var(--act); color: #fff; }
a:focus-visible, button:focus-visible, input:focus-visible { outline: 3px solid #7fa5f8;
  outline-offset: 1px; }
.fault { border-left: .3rem solid #c62f2f; padding-left: .8rem; }
"""

ICON = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect width="32" height="32" rx="7" fill="#2457c5"/>
<path d="M10 5 6 27M22 5l4 22M9.1 10h13.8M8 16h16M7 22h18" stroke="#fff" stroke-width="2.6"
stroke-linecap="round" fill="none"/></svg>
"""

_LINKS = (
    ("/docs", "API", "every route, with examples"),
    ("/editor", "Editor", "ComfyUI's own, in front of the fleet"),
    ("/v2/workflows/executions", "Executions", "your jobs, as JSON"),
    ("/v1/queue", "Queue", "what waits, as JSON"),
    ("/v1/workers", "Workers", "the fleet, as JSON"),
    ("/ready", "Readiness", "can it work now?"),
)

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/favicon.ico" type="image/svg+xml">
<link rel="stylesheet" href="/comfyrail.css"></head><body>
<h1><img src="/favicon.ico" alt="">{heading}</h1>
"""


def unbuilt_page(principal: Principal | None, *, has_access: bool) -> str:
    """What a server shows whose page was not built. With access off there is nobody to be."""
    links = "\n".join(
        f'<li><a href="{path}">{name}<span>{about}</span></a></li>' for path, name, about in _LINKS
    )
    return (
        _HEAD.format(title="Comfyrail", heading=f"Comfyrail <small>{__version__}</small>")
        + (_who(principal) if has_access else "")
        + f"""<p>This server runs ComfyUI workflows. Its page was not built: run
<code>make page</code> in the checkout, then reload. Everything else works.</p>
<ul class="links">
{links}
</ul>
</body></html>
"""
    )


def _who(principal: Principal | None) -> str:
    if principal is None:
        return '<p class="who">Nobody is logged in. <a href="/login">Log in</a></p>\n'
    name = escape(principal.user_id or "unnamed")
    return f"""<div class="who"><span>You are <strong>{name}</strong>
<span class="soft">of {escape(principal.tenant)}, tier {escape(principal.tier)}</span></span>
<form method="post" action="/logout"><button>Log out</button></form></div>
"""


def login_page(following: str, fault: str | None = None, known: Principal | None = None) -> str:
    """`following`: where it goes on from here; `known`: who is logged in already."""
    said = "" if fault is None else f'<p class="fault" role="alert">{escape(fault)}</p>\n'
    if known is not None:
        said += _who(known) + (
            f'<p><a href="{escape(following)}">Go on</a>, or log in as somebody else:</p>\n'
        )
    return (
        _HEAD.format(title="Log in to Comfyrail", heading="Log in to Comfyrail")
        + f"""{said}<form method="post" action="/login">
<label>API key or token
<input type="password" name="credential" autocomplete="current-password" required autofocus></label>
<input type="hidden" name="next" value="{escape(following)}">
<button class="act">Log in</button>
</form>
<p class="soft">A key begins with <code>crk_</code>. Whoever runs this server can give you one.</p>
</body></html>
"""
    )


def local_path(wanted: str) -> str:
    """A path of this server, or its start page: never a way to another site."""
    if len(wanted) > LONGEST_NEXT or not wanted.isprintable() or "\\" in wanted:
        return START
    if len(encoded(wanted)) > LONGEST_NEXT:
        return START
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return START
    is_local = not parts.scheme and not parts.netloc and wanted.startswith("/")
    return wanted if is_local and not wanted.startswith("//") else START


def encoded(path: str) -> str:
    """As a header has it; what is encoded already stays as it is."""
    return quote(path, safe="/?&=#%:+,;@!$'()*~")
