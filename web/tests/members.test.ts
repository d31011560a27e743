import { describe, expect, test } from "vitest";
import {
  after,
  labelOf,
  type Member,
  MemberBook,
  tableOf,
  varying,
} from "../src/views/batches/members";

function member(index: number, parameters: Record<string, unknown>, more: Partial<Member> = {}) {
  return {
    index,
    name: null,
    execution_id: `job-${index}`,
    status: "queued",
    progress: 0,
    parameters,
    score: null,
    started_at: null,
    completed_at: null,
    cost: null,
    warning: null,
    error: null,
    ...more,
  } satisfies Member;
}

function event(job: number, type: string, data: Record<string, unknown> = {}) {
  const timestamp = "2026-01-01T00:00:00Z";
  return { execution_id: `job-${job}`, type: `execution.${type}`, timestamp, data };
}

const self = (each: Member) => each;

describe("the table of a grid", () => {
  const grid = [20, 30].flatMap((steps, row) =>
    ["a", "b", "c"].map((prompt, column) =>
      member(row * 3 + column, { "3.steps": steps, "3.cfg": 7, "6.text": prompt }),
    ),
  );

  test("the first target goes down, the last across", () => {
    const table = tableOf(grid, self);
    expect(table?.rows).toEqual({ target: "3.steps", values: ["20", "30"] });
    expect(table?.columns).toEqual({ target: "6.text", values: ["a", "b", "c"] });
    expect(table?.cells[1]?.[2]?.index).toBe(5);
  });

  test("what is not there yet is empty", () => {
    const table = tableOf(grid.slice(0, 5), self);
    expect(table?.cells[1]?.[2]).toBeUndefined();
  });

  test.each([
    ["one thing differs", grid.slice(0, 3)],
    [
      "three things differ",
      grid.map((each) => ({ ...each, parameters: { ...each.parameters, z: each.index } })),
    ],
    ["two jobs are alike", [...grid, member(6, { "3.steps": 20, "6.text": "a" })]],
    ["there are none", []],
  ])("there is none where %s", (_, members) => {
    expect(tableOf(members, self)).toBeNull();
  });

  test("what differs is named in its order", () => {
    expect([...varying(grid).keys()]).toEqual(["3.steps", "6.text"]);
  });
});

describe("events", () => {
  test("a job goes its way", () => {
    let one: Member = member(0, {});
    one = after(one, event(0, "started"));
    one = after(one, event(0, "progress", { progress: 0.4 }));
    expect(one).toMatchObject({ status: "processing", progress: 0.4 });
    one = after(
      one,
      event(0, "failed", { error: { category: "execution", code: "X", message: "no" } }),
    );
    expect(one).toMatchObject({ status: "failed", error: { code: "X", message: "no" } });
  });

  test("what has ended stays so", () => {
    const done = member(0, {}, { status: "completed" });
    expect(after(done, event(0, "progress", { progress: 0.1 }))).toBe(done);
  });

  test("what happens while it is loaded counts more", () => {
    const book = new MemberBook();
    book.load([member(0, {}), member(1, {})]);
    book.begin();
    book.take([event(1, "completed")]);
    book.load([member(0, {}), member(1, {}, { status: "processing" })]);
    book.end();
    expect(book.list.value.map((each) => each.value.status)).toEqual(["queued", "completed"]);
  });

  test("pages come together in order, once each", () => {
    const book = new MemberBook();
    book.load([member(2, {}), member(3, {})]);
    book.load([member(0, {}), member(1, {}), member(2, {})]);
    expect(book.list.value.map((each) => each.value.index)).toEqual([0, 1, 2, 3]);
    expect(book.lastIndex).toBe(3);
    expect(book.has("job-3")).toBe(true);
    expect(book.has("job-9")).toBe(false);
  });
});

test.each([
  ["3.steps", "KSampler: steps"],
  ["9.steps", "9.steps"],
  ["prompt", "prompt"],
  ["3:1.cfg", "Inner: cfg"],
])("the target %s is called %s", (target, label) => {
  const titles = new Map([
    ["3", "KSampler"],
    ["3:1", "Inner"],
  ]);
  expect(labelOf(target, titles)).toBe(label);
});
