import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

type Reply = { status?: number; body: unknown } | "never" | "away";

class Line {
  static all: Line[] = [];
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  isClosed = false;
  constructor(readonly url: URL) {
    Line.all.push(this);
  }
  close(): void {
    this.isClosed = true; // a dead one does not say so
  }
  say(message: unknown): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

const event = (id: number) => ({ id, type: "execution.completed", execution_id: `job-${id}` });
const page = (next_after: number, ...ids: number[]) => ({
  body: { events: ids.map(event), next_after, has_more: false },
});

let answer: (url: string) => Reply;
let asked: string[];
let target: EventTarget;
let doc: EventTarget & { visibilityState: string };
let stream: typeof import("../src/live/stream");
let taken: number[];

beforeEach(async () => {
  vi.useFakeTimers();
  vi.resetModules();
  Line.all = [];
  asked = [];
  taken = [];
  answer = () => page(5);
  target = new EventTarget();
  const boot = { content: JSON.stringify({ events: 5 }) };
  doc = Object.assign(new EventTarget(), { visibilityState: "visible", querySelector: () => boot });
  vi.stubGlobal("document", doc);
  vi.stubGlobal("location", { href: "http://here/", reload: vi.fn() });
  vi.stubGlobal("addEventListener", target.addEventListener.bind(target));
  vi.stubGlobal("WebSocket", Line);
  // The runtime's own clock is not faked by vitest.
  vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
    const late = new AbortController();
    setTimeout(() => late.abort(new DOMException("late", "TimeoutError")), ms);
    return late.signal;
  });
  vi.stubGlobal("fetch", (url: string, { signal }: RequestInit) => {
    asked.push(url);
    const reply = answer(url);
    if (reply === "away") return Promise.reject(new TypeError("no network"));
    if (reply === "never") {
      return new Promise((_, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason));
      });
    }
    return Promise.resolve(
      new Response(JSON.stringify(reply.body), { status: reply.status ?? 200 }),
    );
  });
  stream = await import("../src/live/stream");
  stream.onEvents((events) => taken.push(...events.map((each) => each.id)));
  stream.startStream();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const newest = () => Line.all.at(-1) as Line;
const open = () => newest().say({ type: "open", id: 5 });
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe("a line by socket", () => {
  it("is left alone as long as something comes", async () => {
    open();
    for (let id = 6; id < 16; id += 1) {
      await pass(10_000);
      newest().say(event(id));
    }
    expect(asked).toEqual([]);
    expect(Line.all).toHaveLength(1);
  });

  it("stays where it is silent because nothing happens", async () => {
    open();
    await pass(120_000);
    expect(asked.length).toBeGreaterThan(2);
    expect(Line.all).toHaveLength(1);
    expect(stream.connection.value).toBe("live");
  });

  it.each([
    ["the server has what it did not bring", () => page(6, 6)],
    ["the server does not answer in time", () => "never" as const],
    ["the server cannot be reached", () => "away" as const],
  ])("is given up when %s", async (_, reply) => {
    open();
    answer = reply;
    for (let passed = 0; passed < 34 && !newest().isClosed; passed += 1) await pass(1_000);
    expect(Line.all[0]?.isClosed).toBe(true);
    answer = () => page(6, 6);
    for (let tried = 0; tried < 20 && Line.all.length < 2; tried += 1) await pass(1_000);
    expect(Line.all).toHaveLength(2);
    expect(newest().url.searchParams.get("after")).toBe("5");
    newest().say({ type: "open", id: 5 });
    newest().say(event(6));
    await pass(1_000);
    expect(taken).toEqual([6]);
    expect(stream.connection.value).toBe("live");
  });

  it("is kept when it brings late what the server has", async () => {
    open();
    answer = () => page(6, 6);
    await pass(20_500);
    expect(asked).toHaveLength(1);
    setTimeout(() => newest().say(event(6)), 1_000);
    await pass(8_000);
    expect(Line.all).toHaveLength(1);
    expect(Line.all[0]?.isClosed).toBe(false);
  });

  it("is not looked at while nobody sees the page, and at once when somebody does", async () => {
    open();
    doc.visibilityState = "hidden";
    await pass(120_000);
    expect(asked).toEqual([]);
    doc.visibilityState = "visible";
    doc.dispatchEvent(new Event("visibilitychange"));
    expect(asked).toHaveLength(1);
  });

  it("outlives a browser that thinks it has no network", async () => {
    open();
    target.dispatchEvent(new Event("offline"));
    await pass(5_000);
    expect(asked).toHaveLength(1);
    expect(Line.all).toHaveLength(1);
    expect(stream.connection.value).toBe("live");
  });

  it("is not waited for where it does not open", async () => {
    await pass(12_000);
    expect(Line.all[0]?.isClosed).toBe(true);
    expect(Line.all).toHaveLength(2);
  });
});

describe("a line by long polls", () => {
  beforeEach(async () => {
    for (let tried = 0; tried < 2; tried += 1) {
      newest().onclose?.({ code: 1006 });
      if (tried === 1) answer = (url) => (url.includes("wait=25") ? "never" : page(5));
      await pass(1_000);
    }
  });

  it("is live at once, and waits then", () => {
    expect(stream.connection.value).toBe("live");
    expect(asked.at(-1)).toContain("wait=25");
  });

  it("stays one line when it is looked at", async () => {
    const before = asked.length;
    target.dispatchEvent(new Event("online"));
    target.dispatchEvent(new Event("online"));
    await pass(1_000);
    expect(asked.slice(before).map((each) => each.includes("wait=25"))).toEqual([false, true]);
    expect(Line.all).toHaveLength(2);
  });

  it("never goes back", async () => {
    answer = (url) => (url.includes("wait=25") ? "never" : page(3, 2, 3));
    target.dispatchEvent(new Event("online"));
    await pass(1_000);
    expect(taken).toEqual([]);
    expect(asked.at(-1)).toContain("after=5");
  });
});
