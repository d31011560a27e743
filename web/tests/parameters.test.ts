import { describe, expect, it } from "vitest";
import { exactInteger } from "../src/api/exact_json";
import {
  asJson,
  asText,
  compareForms,
  type FormNode,
  interesting,
} from "../src/views/gallery/parameters";

function node(id: string, title: string, fields: Partial<FormNode["fields"][number]>[]): FormNode {
  return {
    node_id: id,
    class_type: `Type${title}`,
    title,
    fields: fields.map((each) => ({ name: "x", type: "INT", value: 1, ...each })),
  };
}

const NODES = [
  node("3", "Sampler", [
    { name: "steps", value: 30, default: 20 },
    { name: "cfg", type: "FLOAT", value: 8, default: 8.0 },
    { name: "seed", value: exactInteger("18446744073709551615"), seed: true },
    { name: "start", value: 0, given: false, default: 0 },
  ]),
  node("6", "Good", [{ name: "text", type: "STRING", value: "a fox", multiline: true }]),
  node("7", "Bad", [{ name: "text", type: "STRING", value: "blur", multiline: true }]),
  node("9", "Save", [{ name: "filename_prefix", type: "STRING", value: "fox" }]),
];

describe("interesting", () => {
  it("has prompts first, then seeds, then what is changed", () => {
    expect(interesting(NODES).map((each) => each.label)).toEqual([
      "Good · text",
      "Bad · text",
      "seed",
      "steps",
    ]);
  });

  it("leaves out texts that are empty", () => {
    expect(interesting([node("1", "A", [{ value: "", type: "STRING", multiline: true }])])).toEqual(
      [],
    );
  });

  it("keeps all digits of a seed", () => {
    const seed = interesting(NODES).find((each) => each.isSeed);
    expect(seed?.text).toBe("18446744073709551615");
    // A number where the runtime can write such a one, else a text: the server takes both.
    expect(asJson(seed === undefined ? [] : [seed])).toMatch(
      /^\{\n {2}"3\.seed": ("?)18446744073709551615\1\n\}$/,
    );
  });

  it("is written for people", () => {
    expect(asText(interesting(NODES))).toBe(
      "Good · text: a fox\nBad · text: blur\nseed: 18446744073709551615\nsteps: 30",
    );
  });
});

describe("compareForms", () => {
  it("tells what differs from what is the same", () => {
    const other = [
      node("3", "Sampler", [
        { name: "steps", value: 40 },
        { name: "cfg", type: "FLOAT", value: 8 },
      ]),
      node("8", "New", [{ name: "on", type: "BOOLEAN", value: true }]),
    ];
    const { differ, same } = compareForms(NODES.slice(0, 1), other);
    expect(differ).toEqual([
      { place: "3.steps", label: "Sampler · steps", a: "30", b: "40" },
      { place: "3.seed", label: "Sampler · seed", a: "18446744073709551615", b: null },
      { place: "3.start", label: "Sampler · start", a: "0", b: null },
      { place: "8.on", label: "New · on", a: null, b: "true" },
    ]);
    expect(same.map((each) => each.place)).toEqual(["3.cfg"]);
  });

  it.each([
    ["all of it", NODES, true],
    ["half of it", NODES.slice(0, 2), true],
    ["less than half", NODES.slice(0, 1), false],
    ["nothing", [node("3", "Other", []), node("6", "One", [])], false],
    ["ids alone", NODES.map((each) => ({ ...each, title: "Else" })), false],
  ])("knows workflows that have %s in common", (_, other, alike) => {
    expect(compareForms(NODES, other).areAlike).toBe(alike);
    expect(compareForms(other, NODES).areAlike).toBe(alike);
  });

  it("does not take nodes of another type for the same", () => {
    const a = [{ ...node("1", "A", [{ name: "v", value: 1 }]), class_type: "One" }];
    const b = [{ ...node("1", "A", [{ name: "v", value: 1 }]), class_type: "Two" }];
    expect(compareForms(a, b).differ).toHaveLength(2);
  });
});
