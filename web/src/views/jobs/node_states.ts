/** How each node of a job goes: what the server said last, and the events since, node by node. */

import { batch, type Signal, signal } from "@preact/signals";
import type { Schemas } from "../../api/client";
import type { LiveEvent } from "../../live/stream";
import { duration } from "../../ui/format";
import type { IconName } from "../../ui/icons";

export type NodeStatus =
  | "pending"
  | "running"
  | "completed"
  | "cached"
  | "failed"
  | "interrupted"
  | "skipped";

export interface NodeState {
  status: NodeStatus;
  startedAt: string | null;
  /** Seconds. */
  duration: number | null;
  /** 0 to 1, of one that runs and tells of it. */
  progress: number | null;
  steps: readonly [number, number] | null;
  errorType: string | null;
  errorMessage: string | null;
}

export const WAITING: NodeState = {
  status: "pending",
  startedAt: null,
  duration: null,
  progress: null,
  steps: null,
  errorType: null,
  errorMessage: null,
};

export const NODE_WORD: Record<NodeStatus, string> = {
  pending: "waiting",
  running: "running",
  completed: "done",
  cached: "cached",
  failed: "failed",
  interrupted: "stopped",
  skipped: "skipped",
};

export const NODE_ICON: Record<NodeStatus, IconName> = {
  pending: "clock",
  running: "play",
  completed: "check",
  cached: "save",
  failed: "warning",
  interrupted: "stop",
  skipped: "chevron",
};

/** How far the server was when it was last asked: older events say nothing new. */
export interface Floor {
  event: number;
  attempt: number;
}

type Event = Pick<LiveEvent, "type" | "number" | "timestamp" | "data">;

/** One signal a node: only what has changed is painted again. */
export class NodeBook {
  /** All nodes that the server or an event has named, in the order in which they came. */
  readonly ids = signal<readonly string[]>([]);
  readonly #states = new Map<string, Signal<NodeState>>();
  readonly #types = new Map<string, string>();
  #floor: Floor = { event: 0, attempt: 0 };
  /** Events since the load that is under way has begun; null: there is none. */
  #since: Event[] | null = null;

  stateOf(id: string): Signal<NodeState> {
    let found = this.#states.get(id);
    if (found === undefined) {
      found = signal(WAITING);
      this.#states.set(id, found);
    }
    return found;
  }

  typeOf(id: string): string | null {
    return this.#types.get(id) ?? null;
  }

  /** Call before the server is asked. */
  begin(floor: Floor): void {
    this.#floor = floor;
    this.#since = [];
  }

  /** What the server said; what has happened since it was asked is put on top. */
  load(nodes: readonly Schemas["NodeResultBody"][]): void {
    const since = this.#since ?? [];
    this.#since = null;
    batch(() => {
      for (const node of nodes) {
        if (node.class_type !== null) this.#types.set(node.node_id, node.class_type);
        const state = this.stateOf(node.node_id);
        const next = fromServer(node, state.peek());
        if (!isSame(next, state.peek())) state.value = next;
      }
      this.#name(nodes.map((node) => node.node_id));
      for (const event of since) this.#apply(event);
    });
  }

  /** No load is under way any more, whether it came to something or not. */
  endLoad(): void {
    this.#since = null;
  }

  take(events: readonly Event[]): void {
    this.#since?.push(...events);
    batch(() => {
      for (const event of events) this.#apply(event);
    });
  }

  #apply(event: Event): void {
    if (event.number !== null && event.number <= this.#floor.event) return;
    const { data } = event;
    if (event.type === "execution.started") {
      if (Number(data.attempt ?? 0) > this.#floor.attempt) this.#restart();
    } else if (event.type === "execution.queued" && data.reason === "retrying") {
      if (Number(data.attempt ?? 0) >= this.#floor.attempt) this.#restart();
    } else if (event.type === "execution.progress") {
      this.#progress(data);
    } else if (typeof data.node_id === "string") {
      this.#change(data.node_id, data.node_type, (state) => after(state, event));
    }
  }

  #restart(): void {
    for (const state of this.#states.values()) {
      if (state.peek() !== WAITING) state.value = WAITING;
    }
  }

  #progress(data: Record<string, unknown>): void {
    const parts = (data.node_progress ?? {}) as Record<string, unknown>;
    const steps = (data.node_steps ?? {}) as Record<string, unknown>;
    for (const [id, progress] of Object.entries(parts)) {
      if (typeof progress !== "number") continue;
      this.#change(id, null, (state) =>
        state.status === "pending" || state.status === "running"
          ? { ...state, status: "running", progress, steps: pairOf(steps[id]) ?? state.steps }
          : state,
      );
    }
  }

  #change(id: string, type: unknown, how: (state: NodeState) => NodeState): void {
    if (typeof type === "string") this.#types.set(id, type);
    const state = this.stateOf(id);
    const next = how(state.peek());
    if (!isSame(next, state.peek())) state.value = next;
    this.#name([id]);
  }

  #name(ids: readonly string[]): void {
    const known = this.ids.peek();
    const all = new Set(known);
    for (const id of ids) all.add(id);
    if (all.size > known.length) this.ids.value = [...all];
  }
}

/** A node that is done is not started again within an attempt: such an event is an old one. */
function after(state: NodeState, { type, data, timestamp }: Event): NodeState {
  switch (type) {
    case "execution.node_started":
      return state.status === "pending"
        ? { ...state, status: "running", startedAt: timestamp }
        : { ...state, startedAt: state.startedAt ?? timestamp };
    case "execution.node_completed": {
      const isCached = data.cached === true;
      const duration = typeof data.duration === "number" ? data.duration : null;
      return {
        ...state,
        status: isCached ? "cached" : "completed",
        duration: isCached ? 0 : duration,
        progress: null,
        steps: null,
      };
    }
    case "execution.warning":
      return {
        ...state,
        errorType: textOf(data.exception_type),
        errorMessage: textOf(data.message),
      };
    default:
      return state;
  }
}

function fromServer(node: Schemas["NodeResultBody"], old: NodeState): NodeState {
  const status = node.status in NODE_WORD ? (node.status as NodeStatus) : "pending";
  // It does not say how far a running node is; we may know.
  const isSameRun = status === "running" && old.status === "running";
  return {
    status,
    startedAt: node.started_at,
    duration: node.duration,
    progress: isSameRun ? old.progress : null,
    steps: isSameRun ? old.steps : null,
    errorType: node.error_type,
    errorMessage: node.error_message,
  };
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function pairOf(value: unknown): readonly [number, number] | null {
  if (!Array.isArray(value)) return null;
  const [done, all] = value as unknown[];
  return typeof done === "number" && typeof all === "number" ? [done, all] : null;
}

function isSame(a: NodeState, b: NodeState): boolean {
  return (
    a.status === b.status &&
    a.startedAt === b.startedAt &&
    a.duration === b.duration &&
    a.progress === b.progress &&
    a.steps?.[0] === b.steps?.[0] &&
    a.steps?.[1] === b.steps?.[1] &&
    a.errorType === b.errorType &&
    a.errorMessage === b.errorMessage
  );
}

/** `3 of 12 steps`, `40%`, or nothing where nobody knows. */
export function howFar(state: NodeState): string | null {
  if (state.status !== "running") return null;
  if (state.steps !== null) return `${state.steps[0]} of ${state.steps[1]} steps`;
  return state.progress === null ? null : `${Math.floor(state.progress * 100)}%`;
}

/** How long it took, where it ran. */
export function tookOf(state: NodeState): string | null {
  if (state.duration === null || state.status === "cached") return null;
  return duration(state.duration);
}

/** As a reader says it: `Noise Image, running, 3 of 12 steps`. */
export function spoken(title: string, state: NodeState): string {
  const more = howFar(state) ?? tookOf(state);
  return [title, NODE_WORD[state.status], ...(more === null ? [] : [more])].join(", ");
}
