/** What a picture was made with, and how that of two differs. Pure. */

import type { Schemas } from "../../api/client";
import { LargeInteger } from "../../api/exact_json";

export type FormNode = Pick<Schemas["FormNode"], "node_id" | "class_type" | "title" | "fields">;
type FormField = FormNode["fields"][number];

export interface Parameter {
  /** `3.seed`: how a request names it. */
  place: string;
  /** `seed`, or `Sampler · seed` where that alone says too little. */
  label: string;
  value: unknown;
  text: string;
  isSeed: boolean;
  isLong: boolean;
}

/** Names that say nothing about what comes out. */
const DULL = /^(filename_prefix|control_after_generate|upload|filename|subfolder)$/;

export function textOf(value: unknown): string {
  if (typeof value === "object" && value !== null && !(value instanceof LargeInteger)) {
    return JSON.stringify(value);
  }
  return value === null || value === undefined ? "" : String(value);
}

/** Names that say nothing without their node's. */
const PLAIN = /^(value|text|string|number)$/;

/** Prompts first, then seeds, then what is other than it is by itself. */
export function interesting(nodes: readonly FormNode[]): Parameter[] {
  const kept = nodes.flatMap((node) =>
    node.fields.filter(isInteresting).map((field) => ({ node, field })),
  );
  const names = new Map<string, number>();
  for (const { field } of kept) names.set(field.name, (names.get(field.name) ?? 0) + 1);
  const found = kept.map(({ node, field }) =>
    parameterOf(node, field, (names.get(field.name) ?? 0) > 1),
  );
  return [
    ...found.filter((each) => each.isLong),
    ...found.filter((each) => each.isSeed),
    ...found.filter((each) => !each.isLong && !each.isSeed),
  ];
}

function isInteresting(field: FormField): boolean {
  if (DULL.test(field.name) || textOf(field.value) === "") return false;
  if (field.seed || field.multiline) return true;
  if (field.given === false) return false;
  const usual = field.default ?? null;
  return usual === null || textOf(usual) !== textOf(field.value);
}

function parameterOf(node: FormNode, field: FormField, isNamed: boolean): Parameter {
  const text = textOf(field.value);
  return {
    place: `${node.node_id}.${field.name}`,
    label:
      isNamed || PLAIN.test(field.name)
        ? `${node.title || node.class_type} · ${field.name}`
        : field.name,
    value: field.value,
    text,
    isSeed: field.seed ?? false,
    isLong: (field.multiline ?? false) || text.length > 60,
  };
}

/** To be read by people, and pasted anywhere. */
export function asText(parameters: readonly Parameter[]): string {
  return parameters.map(({ label, text }) => `${label}: ${text}`).join("\n");
}

/** As `input_params` of a request takes them. */
export function asJson(parameters: readonly Parameter[]): string {
  return JSON.stringify(
    Object.fromEntries(parameters.map(({ place, value }) => [place, value])),
    null,
    2,
  );
}

export interface Difference {
  place: string;
  label: string;
  /** Null: it has no such thing. */
  a: string | null;
  b: string | null;
}

export interface Compared {
  /** Whether at least half of the nodes are those of the other: else rows side by side mislead. */
  areAlike: boolean;
  differ: Difference[];
  same: Difference[];
}

/** All that can be set, node by node; nodes are the same where id, type and title are. */
export function compareForms(a: readonly FormNode[], b: readonly FormNode[]): Compared {
  const ofB = valuesOf(b);
  const found = new Map<string, Difference>();
  for (const [key, { place, label, text }] of valuesOf(a)) {
    found.set(key, { place, label, a: text, b: ofB.get(key)?.text ?? null });
  }
  for (const [key, { place, label, text }] of ofB) {
    if (!found.has(key)) found.set(key, { place, label, a: null, b: text });
  }
  const all = [...found.values()];
  return {
    areAlike: areAlike(a, b),
    differ: all.filter((each) => each.a !== each.b),
    same: all.filter((each) => each.a === each.b && each.a !== ""),
  };
}

function areAlike(a: readonly FormNode[], b: readonly FormNode[]): boolean {
  const keys = new Set(a.map(keyOf));
  const shared = b.filter((node) => keys.has(keyOf(node))).length;
  return shared * 2 >= Math.max(a.length, b.length);
}

function keyOf({ node_id, class_type, title }: FormNode): string {
  return JSON.stringify([node_id, class_type, title]);
}

interface Value {
  place: string;
  label: string;
  text: string;
}

function valuesOf(nodes: readonly FormNode[]): Map<string, Value> {
  const found = new Map<string, Value>();
  for (const node of nodes) {
    for (const field of node.fields) {
      const place = `${node.node_id}.${field.name}`;
      found.set(`${keyOf(node)}.${field.name}`, {
        place,
        label: `${node.title || node.class_type} · ${field.name}`,
        text: textOf(field.value),
      });
    }
  }
  return found;
}
