/**
 * All events of the account over one socket, resumed by id after every break: nothing is missed and
 * nothing comes twice. Where sockets do not get through, the same by long polls.
 *
 * A line can die without a word: where nothing was heard for a while the server is asked whether there
 * is something that the line did not bring.
 *
 * Events are handed on in groups, at most two a second, so that the page is painted no more often
 * than that, however much happens.
 */

import { batch, signal } from "@preact/signals";
import { ApiError, address, get, type Schemas } from "../api/client";
import { boot } from "../boot";
import { isStillUs } from "./session";

export type LiveEvent = Omit<Schemas["FeedEvent"], "data"> & { data: Record<string, unknown> };
export type Connection = "connecting" | "live" | "away";

/** How the line to the server is. */
export const connection = signal<Connection>("connecting");
/** Counts up when what is shown may be older than the server by more than events can tell. */
export const resync = signal(0);

const PACE_MS = 500;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8_000;
/** Sockets that never opened in a row after which long polls are tried. */
const SOCKETS_TRIED = 2;
const OPEN_MS = 10_000;
const POLL_SECONDS = 25;
/** Replies with nothing new that come faster than this are no long polls. */
const FAST_POLL_MS = 1_000;
const ASK_SECONDS = 8;
/** So many a browser keeps to one server. */
const CONNECTIONS = 6;
const LET_GO_MS = 2_000;
/** A line on which nothing came for so long is looked at. */
const SILENT_MS = 20_000;
const LOOK_MS = 5_000;
/** What the server has, the line brings within this. */
const BEHIND_MS = 2_000;
/** A socket is closed with this code when the session is over, or may see no events any more. */
const ACCESS_LOST = 4401;

type Listener = (events: LiveEvent[]) => void;
const listeners = new Set<Listener>();

/** Called with what is new, oldest first. Returns how to stop it. */
export function onEvents(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The id of the newest event that we have. What the views load is never older than the page. */
let last: number | null = boot.events;
let failures = 0;
let neverOpened = 0;
let started = false;
let socket: WebSocket | null = null;
/** Whether the server has greeted on it. */
let isOpen = false;
let polling: AbortController | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;
/** By the clock of the wall: that one goes on while a machine sleeps. */
let heardAt = 0;

export function startStream(): void {
  if (started) return;
  started = true;
  // What the browser thinks of the network says nothing about a server on this machine.
  addEventListener("online", look);
  addEventListener("offline", look);
  addEventListener("pageshow", ({ persisted }) => {
    if (persisted) look();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") look();
  });
  setInterval(() => {
    const isSilent = Math.abs(Date.now() - heardAt) >= SILENT_MS;
    if (isOpen && isSilent && document.visibilityState === "visible") look();
  }, LOOK_MS);
  connect();
}

/** Whether the line is what it seems to be; at once a new one where there is none. */
function look(): void {
  if (polling !== null) polling.abort();
  else if (socket !== null) void check(socket);
  else {
    failures = 0;
    clearTimeout(timer);
    void reconnect();
  }
}

let isChecking = false;

async function check(line: WebSocket): Promise<void> {
  if (isChecking || !isOpen) return; // one that does not open has a limit of its own
  isChecking = true;
  let isDead = false;
  try {
    const page = await newer(1);
    const missed = page.events[0];
    if (missed === undefined) reached(page.next_after);
    else {
      await pause(BEHIND_MS);
      isDead = (last ?? 0) < missed.id;
    }
    heardAt = Date.now();
  } catch (error) {
    await letGo(error);
    // A server that asks for patience is there.
    isDead = !(error instanceof ApiError && error.status === 429);
  } finally {
    isChecking = false;
  }
  if (isDead && socket === line) drop(line);
}

/** A dead socket may take minutes to close: nobody waits for that. */
function drop(line: WebSocket): void {
  line.onmessage = null;
  line.onclose = null;
  line.close();
  ended();
}

function ended(): void {
  socket = null;
  if (!isOpen) neverOpened += 1;
  if (neverOpened === SOCKETS_TRIED) failures = 0; // another way is no repetition
  isOpen = false;
  again();
}

/**
 * Where the socket has died, the connections that the browser keeps for requests have too, and it would
 * try one after the other. A request that is given up takes its connection with it.
 */
async function letGo(error: unknown): Promise<void> {
  if (!(error instanceof ApiError && error.code === "SERVER_SILENT")) return;
  const asked = Array.from({ length: CONNECTIONS }, () =>
    newer(1, 0, AbortSignal.timeout(LET_GO_MS)),
  );
  await Promise.allSettled(asked);
}

function newer(limit: number, wait = 0, signal?: AbortSignal) {
  return get("/v1/events", {
    query: { after: last === null ? null : String(last), limit, wait },
    seconds: ASK_SECONDS + wait,
    ...(signal ? { signal } : {}),
  });
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function connect(): void {
  if (neverOpened >= SOCKETS_TRIED) {
    void poll();
    return;
  }
  const url = new URL(address("/v1/events/ws", undefined, { after: last }), location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const line = new WebSocket(url);
  socket = line;
  isOpen = false;
  const late = setTimeout(() => {
    if (socket === line && !isOpen) drop(line);
  }, OPEN_MS);
  line.onmessage = ({ data }) => {
    heardAt = Date.now();
    const message = JSON.parse(data as string) as
      | LiveEvent
      | { type: "open" | "error"; id?: number };
    if (message.type === "open") {
      clearTimeout(late);
      isOpen = true;
      opened(message.id ?? null);
    } else if (message.type !== "error") {
      take(message as LiveEvent);
    }
  };
  line.onclose = ({ code }) => {
    clearTimeout(late);
    if (code === ACCESS_LOST) {
      location.reload(); // the server writes into the page who is logged in now
      return;
    }
    ended();
  };
}

function opened(id: number | null): void {
  neverOpened = 0;
  // Without a beginning there may be views whose data is older than that of the stream.
  if (last === null) resync.value += 1;
  last ??= id;
  failures = 0;
  connection.value = "live";
}

/** Ours is never older than it was: what came meanwhile by another way is not taken twice. */
function reached(id: number): void {
  if (last === null || id > last) last = id;
}

function again(): void {
  connection.value = "away";
  const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS);
  failures += 1;
  clearTimeout(timer);
  timer = setTimeout(() => void reconnect(), ms * (0.75 + Math.random() / 2));
}

let isAsking = false;

/**
 * Sockets do not say why they were refused: ask first, so that a new beginning is known as one, and
 * that nobody gets the events of somebody else.
 */
async function reconnect(): Promise<void> {
  if (isAsking || socket !== null || polling !== null) return;
  isAsking = true;
  try {
    if (!(await isStillUs())) return;
    if (last !== null) await newer(1);
  } catch (error) {
    if (error instanceof ApiError && error.code === "EVENTS_RESTARTED") {
      last = null; // the server's data is older than what we have seen
    } else {
      await letGo(error);
      again();
      return;
    }
  } finally {
    isAsking = false;
  }
  connect();
}

/** The first reply comes at once, so that one knows that there is a line. */
async function poll(): Promise<void> {
  for (let wait = 0; ; ) {
    const controller = new AbortController();
    polling = controller;
    const asked = performance.now();
    const before = last;
    try {
      const page = await newer(500, wait, controller.signal);
      opened(page.next_after);
      for (const event of page.events) take(event as LiveEvent);
      reached(page.next_after);
      const isFast = performance.now() - asked < FAST_POLL_MS;
      if (wait > 0 && isFast && last === before) await pause(FAST_POLL_MS);
      wait = POLL_SECONDS;
    } catch (error) {
      if (controller.signal.aborted) {
        wait = 0; // somebody wants to know
        continue;
      }
      polling = null;
      if (error instanceof ApiError && error.code === "EVENTS_RESTARTED") last = null;
      again();
      return;
    }
  }
}

let waiting: LiveEvent[] = [];
let handedAt = 0;
let hand: ReturnType<typeof setTimeout> | undefined;

function take(event: LiveEvent): void {
  if (last !== null && event.id <= last) return;
  last = event.id;
  waiting.push(event);
  if (hand !== undefined) return;
  const pause = Math.max(0, handedAt + PACE_MS - performance.now());
  hand = setTimeout(handOn, pause);
}

function handOn(): void {
  hand = undefined;
  handedAt = performance.now();
  const events = waiting;
  waiting = [];
  batch(() => {
    for (const listener of listeners) listener(events);
  });
}
