import { describe, expect, test } from "vitest";
import type { Schemas } from "../src/api/client";
import {
  howFar,
  NodeBook,
  type NodeStatus,
  spoken,
  tookOf,
  WAITING,
} from "../src/views/jobs/node_states";

type Result = Schemas["NodeResultBody"];

function result(id: string, status: NodeStatus, more: Partial<Result> = {}): Result {
  return {
    node_id: id,
    class_type: "Delay",
    status,
    started_at: null,
    duration: null,
    cached: false,
    error_type: null,
    error_message: null,
    ...more,
  };
}

function event(number: number, type: string, data: Record<string, unknown> = {}) {
  return { number, type: `execution.${type}`, timestamp: "2026-01-01T00:00:00Z", data };
}

function book(...nodes: Result[]): NodeBook {
  const made = new NodeBook();
  made.begin({ event: 10, attempt: 1 });
  made.load(nodes);
  return made;
}

function statuses(of: NodeBook): Record<string, NodeStatus> {
  return Object.fromEntries(of.ids.value.map((id) => [id, of.stateOf(id).value.status]));
}

describe("events on top of what was loaded", () => {
  test("a node begins, tells how far it is, and is done", () => {
    const nodes = book(result("1", "pending"));
    nodes.take([event(11, "node_started", { node_id: "1" })]);
    nodes.take([event(12, "progress", { node_progress: { 1: 0.25 }, node_steps: { 1: [3, 12] } })]);
    expect(spoken("Noise Image", nodes.stateOf("1").value)).toBe(
      "Noise Image, running, 3 of 12 steps",
    );
    nodes.take([event(13, "node_completed", { node_id: "1", cached: false, duration: 1.5 })]);
    expect(nodes.stateOf("1").value).toMatchObject({
      status: "completed",
      duration: 1.5,
      steps: null,
    });
  });

  test("one whose result was there is cached", () => {
    const nodes = book(result("1", "pending"));
    nodes.take([event(11, "node_completed", { node_id: "1", cached: true, duration: null })]);
    expect(nodes.stateOf("1").value).toMatchObject({ status: "cached", duration: 0 });
  });

  test("events from before the load change nothing", () => {
    const nodes = book(result("1", "pending"));
    nodes.take([event(9, "node_completed", { node_id: "1" })]);
    expect(statuses(nodes)).toEqual({ 1: "pending" });
  });

  test("a node that is done does not run again", () => {
    const nodes = book(result("1", "completed"));
    nodes.take([
      event(11, "node_started", { node_id: "1" }),
      event(12, "progress", { node_progress: { 1: 0.5 } }),
    ]);
    expect(statuses(nodes)).toEqual({ 1: "completed" });
  });

  test("a further attempt begins anew", () => {
    const nodes = book(result("1", "completed"), result("2", "running"));
    nodes.take([event(11, "started", { attempt: 2 })]);
    expect(statuses(nodes)).toEqual({ 1: "pending", 2: "pending" });
  });

  test("the attempt that was loaded does not", () => {
    const nodes = book(result("1", "completed"));
    nodes.take([event(11, "started", { attempt: 1 })]);
    expect(statuses(nodes)).toEqual({ 1: "completed" });
  });

  test("a job that is to be tried again waits", () => {
    const nodes = book(result("1", "running"));
    nodes.take([event(11, "queued", { reason: "retrying", attempt: 1 })]);
    expect(nodes.stateOf("1").value).toBe(WAITING);
  });

  test("nodes that only events name are added", () => {
    const nodes = book(result("1", "completed"));
    nodes.take([event(11, "node_started", { node_id: "1.0.5", node_type: "VAEDecode" })]);
    expect(statuses(nodes)).toEqual({ 1: "completed", "1.0.5": "running" });
    expect(nodes.typeOf("1.0.5")).toBe("VAEDecode");
  });
});

test("what happened while it was loaded counts more", () => {
  const nodes = book(result("1", "pending"));
  nodes.begin({ event: 10, attempt: 1 });
  nodes.take([
    event(11, "node_started", { node_id: "1" }),
    event(12, "node_completed", { node_id: "1" }),
  ]);
  nodes.load([result("1", "running")]);
  expect(statuses(nodes)).toEqual({ 1: "completed" });
});

test("only nodes that change are told of", () => {
  const nodes = book(result("1", "running"), result("2", "pending"));
  const [one, two] = [nodes.stateOf("1").value, nodes.stateOf("2").value];
  nodes.take([event(11, "node_completed", { node_id: "1" })]);
  nodes.begin({ event: 11, attempt: 1 });
  nodes.load([result("1", "completed"), result("2", "pending")]);
  expect(nodes.stateOf("1").value).not.toBe(one);
  expect(nodes.stateOf("2").value).toBe(two);
});

test("how far a node is, where it tells", () => {
  expect(howFar({ ...WAITING, status: "running", progress: 0.409 })).toBe("40%");
  expect(howFar({ ...WAITING, status: "running" })).toBeNull();
  expect(howFar({ ...WAITING, status: "completed", progress: 1 })).toBeNull();
});

test("how long a node took, where it ran", () => {
  expect(tookOf({ ...WAITING, status: "completed", duration: 2.5 })).toBe("2.5 s");
  expect(tookOf({ ...WAITING, status: "cached", duration: 0 })).toBeNull();
  expect(tookOf(WAITING)).toBeNull();
});
