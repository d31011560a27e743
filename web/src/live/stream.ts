/**
 * All events of the account over one socket, resumed by id after every break: nothing is missed and
 * nothing comes twice. Where sockets do not get through, the same by long polls.
 *
 * Events are handed on in groups, at most two a second, so that the page is painted no more often
 * than that, however much happens.
 */

import { batch, signal } from "@preact/signals";
import { ApiError, address, get, type Schemas } from "../api/client";
import { boot } from "../boot";

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
const SOCKETS_TRIED = 3;
const POLL_SECONDS = 25;

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
let timer: ReturnType<typeof setTimeout> | undefined;

export function startStream(): void {
  if (started) return;
  started = true;
  addEventListener("online", reconnectNow);
  addEventListener("offline", () => {
    socket?.close();
    connection.value = "away";
  });
  document.addEventListener("visibilitychange", () => {
    // A machine that slept has a dead socket that does not know it yet.
    if (document.visibilityState === "visible" && connection.value === "away") reconnectNow();
  });
  connect();
}

function reconnectNow(): void {
  failures = 0;
  clearTimeout(timer);
  if (socket === null) connect();
}

function connect(): void {
  if (neverOpened >= SOCKETS_TRIED) {
    void poll();
    return;
  }
  const url = new URL(address("/v1/events/ws", undefined, { after: last }), location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  let isOpen = false;
  const line = new WebSocket(url);
  socket = line;
  line.onmessage = ({ data }) => {
    const message = JSON.parse(data as string) as
      | LiveEvent
      | { type: "open" | "error"; id?: number };
    if (message.type === "open") {
      isOpen = true;
      opened(message.id ?? null);
    } else if (message.type !== "error") {
      take(message as LiveEvent);
    }
  };
  line.onclose = () => {
    if (socket === line) socket = null;
    if (!isOpen) neverOpened += 1;
    again();
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

function again(): void {
  connection.value = "away";
  const pause = Math.min(FIRST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS);
  failures += 1;
  clearTimeout(timer);
  timer = setTimeout(() => void reconnect(), pause * (0.75 + Math.random() / 2));
}

/** Sockets do not say why they were refused: ask first, so that a new beginning is known as one. */
async function reconnect(): Promise<void> {
  if (!navigator.onLine) return; // `online` tells
  if (last !== null) {
    try {
      await get("/v1/events", { query: { after: String(last), limit: 1 } });
    } catch (error) {
      if (error instanceof ApiError && error.code === "EVENTS_RESTARTED") {
        last = null; // the server's data is older than what we have seen
      } else {
        again();
        return;
      }
    }
  }
  connect();
}

async function poll(): Promise<void> {
  try {
    const after = last === null ? {} : { after: String(last) };
    const wait = last === null ? 0 : POLL_SECONDS;
    const page = await get("/v1/events", { query: { ...after, wait, limit: 500 } });
    opened(page.next_after);
    for (const event of page.events) take(event as LiveEvent);
    last = page.next_after;
    void poll();
  } catch (error) {
    if (error instanceof ApiError && error.code === "EVENTS_RESTARTED") last = null;
    again();
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
