/** The frame around every view: menu, state of the line, messages. */

import { computed } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { boot, may } from "./boot";
import { connection } from "./live/stream";
import { href, place } from "./router";
import { Icon, type IconName } from "./ui/icons";
import { Button, Dialog, Empty, Loading } from "./ui/parts";
import { type Theme, theme } from "./ui/theme";
import { Toasts } from "./ui/toasts";
import { VIEWS, type View, type ViewProps } from "./views";
import { useFileDrop } from "./views/run/drop";

const menu = VIEWS.filter(
  (each): each is View & { icon: IconName } =>
    each.icon !== undefined && (each.needs === undefined || may(each.needs)),
);
const word = computed(() => place.value.parts[0] ?? "");

export function Shell() {
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={skip}>
        Skip to the content
      </button>
      <Side />
      <div class="content">
        {may("jobs:read") && <DropAnywhere />}
        <AwayNote />
        <Main />
      </div>
      <BottomBar />
      <Toasts />
    </div>
  );
}

/** A workflow can be dropped on every view. */
function DropAnywhere() {
  const { isOver } = useFileDrop();
  return isOver ? <p class="drop-over">Drop it to open it</p> : null;
}

/** No link: the fragment is the view's. */
function skip(): void {
  document.querySelector<HTMLElement>("main")?.focus();
}

function isCurrent(view: View): boolean {
  return view.word === word.value || view.word === MENU_OF[word.value];
}

/** Views that have no place in the menu, and under which one they are. */
const MENU_OF: Record<string, string> = { run: "", compare: "gallery" };

function Side() {
  return (
    <header class="side">
      <a class="brand" href="#/">
        <img src="/favicon.ico" alt="" />
        Comfyrail
      </a>
      <nav aria-label="Views">
        <ul>
          {menu.map((view) => (
            <li key={view.word}>
              <a href={linkTo(view)} aria-current={isCurrent(view) ? "page" : undefined}>
                <Icon name={view.icon} />
                {view.name}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <Foot />
    </header>
  );
}

function linkTo(view: View): string {
  return view.word === "" ? "#/" : href([view.word]);
}

function Foot() {
  return (
    <footer>
      {boot.editor && (
        <a href="/editor/" target="_blank" rel="noopener">
          ComfyUI's editor <Icon name="external" size={14} />
        </a>
      )}
      <a href="/docs" target="_blank" rel="noopener">
        API <Icon name="external" size={14} />
      </a>
      {boot.access && boot.user !== null && (
        <form class="row" method="post" action="/logout">
          <span class="soft" title={`Tenant ${boot.user.tenant}, tier ${boot.user.tier}`}>
            {boot.user.user_id}
          </span>
          <button
            type="submit"
            class="button quiet small bare push"
            aria-label="Log out"
            title="Log out"
          >
            <Icon name="logout" />
          </button>
        </form>
      )}
      <div class="row">
        <LineState />
        <span class="push">
          <ThemeButton />
        </span>
      </div>
    </footer>
  );
}

function LineState() {
  if (!may("jobs:read")) return null; // whoever may see no events has no line
  const words = { connecting: "Connecting", live: "Live", away: "Not connected" };
  return (
    <span class={`line-state ${connection.value}`} role="status">
      {words[connection.value]}
    </span>
  );
}

const NEXT_THEME: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const THEME_ICON: Record<Theme, IconName> = { auto: "auto", light: "sun", dark: "moon" };

function ThemeButton() {
  return (
    <Button
      icon={THEME_ICON[theme.value]}
      look="quiet"
      small
      label={`Colours: ${theme.value === "auto" ? "as the system has them" : theme.value}`}
      onClick={() => {
        theme.value = NEXT_THEME[theme.value];
      }}
    />
  );
}

function AwayNote() {
  const [isLong, setLong] = useState(false);
  const isAway = connection.value === "away";
  useEffect(() => {
    if (!isAway) {
      setLong(false);
      return;
    }
    // A short break is no news.
    const timer = setTimeout(() => setLong(true), 1_500);
    return () => clearTimeout(timer);
  }, [isAway]);
  if (!isLong) return null;
  return (
    <p class="away-note" role="alert">
      The server does not answer. What you see may be old; this page goes on by itself when it is
      back.
    </p>
  );
}

function Main() {
  const { parts, query } = place.value;
  const view = VIEWS.find((each) => each.word === word.value);
  const main = useRef<HTMLElement>(null);
  const path = parts.join("/");
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else {
      main.current?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }, [path]);
  useEffect(() => {
    document.title =
      view === undefined || view.word === "" ? "Comfyrail" : `${view.name} · Comfyrail`;
  }, [view]);
  return (
    <main class="view" ref={main} tabIndex={-1}>
      {view === undefined ? (
        <Empty title="There is nothing here">
          <p>
            The address may be mistyped. <a href="#/">Go to the start</a>
          </p>
        </Empty>
      ) : (
        <Allowed view={view} parts={parts.slice(1)} query={query} />
      )}
    </main>
  );
}

/** A link may lead to what one may not see: said here, instead of refused by every request. */
function Allowed({ view, parts, query }: ViewProps & { view: View }) {
  if (view.needs !== undefined && !may(view.needs)) {
    return (
      <>
        <h1>{view.name}</h1>
        <Empty title="This is not for your key">
          <p>
            It needs the permission <code>{view.needs}</code>. Whoever runs this server can give it
            to you.
          </p>
        </Empty>
      </>
    );
  }
  return <Loaded key={view.word} view={view} parts={parts} query={query} />;
}

function Loaded({ view, parts, query }: ViewProps & { view: View }) {
  const [part, setPart] = useState<{ shown: ComponentType<ViewProps> } | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let isThere = true;
    view.load().then(
      (module) => isThere && setPart({ shown: module.default }),
      () => isThere && setFailed(true),
    );
    return () => {
      isThere = false;
    };
  }, [view]);
  const isBack = failed && connection.value === "live";
  useEffect(() => {
    if (isBack) reloadOnce();
  }, [isBack]);
  if (failed) {
    return (
      <Empty title="This view could not be loaded">
        <p>The server may have been updated, or be away.</p>
        <Button look="main" icon="retry" onClick={() => location.reload()}>
          Reload the page
        </Button>
      </Empty>
    );
  }
  if (part === null) return <Loading />;
  return <part.shown parts={parts} query={query} />;
}

const RELOADED = "comfyrail-reloaded";
const RELOADS_APART_MS = 30_000;

/** A browser keeps the failure of a script for as long as the page is there. Never in a circle. */
function reloadOnce(): void {
  const before = Number(sessionStorage.getItem(RELOADED) ?? 0);
  if (Math.abs(Date.now() - before) < RELOADS_APART_MS) return;
  sessionStorage.setItem(RELOADED, String(Date.now()));
  location.reload();
}

/** On a phone: the four views that one needs most, and the rest behind More. */
function BottomBar() {
  const [isOpen, setOpen] = useState(false);
  const first = menu.slice(0, 4);
  const rest = menu.slice(4);
  return (
    <>
      <nav class="bottom-bar" aria-label="Views">
        {first.map((view) => (
          <a
            key={view.word}
            href={linkTo(view)}
            aria-current={isCurrent(view) ? "page" : undefined}
          >
            <Icon name={view.icon} />
            {view.name}
          </a>
        ))}
        <button
          type="button"
          onClick={() => setOpen(true)}
          aria-haspopup="dialog"
          aria-current={rest.some(isCurrent) ? "page" : undefined}
        >
          <Icon name="more" />
          More
        </button>
      </nav>
      {isOpen && (
        <Dialog title="More" close={() => setOpen(false)}>
          <div class="more-links">
            {rest.map((view) => (
              <a
                key={view.word}
                href={linkTo(view)}
                aria-current={isCurrent(view) ? "page" : undefined}
                onClick={() => setOpen(false)}
              >
                <Icon name={view.icon} />
                {view.name}
              </a>
            ))}
          </div>
          <div class="side-foot">
            <Foot />
          </div>
        </Dialog>
      )}
    </>
  );
}
