/** The form of a workflow: what can be set, in what order, and what a request says of it. Pure. */

import type { Schemas } from "../../api/client";
import { exactInteger, LargeInteger } from "../../api/exact_json";

export type FormField = Schemas["FormField"];
export type FormNode = Schemas["FormNode"];
export type Finding = Schemas["Finding"];
type Declared = Schemas["DeclaredInputBody"];

/** Something that can be set. */
export interface Control {
  /** How a request names it: `2.seed`, or the name of a declared input. */
  target: string;
  /** What it sets, as node and input. */
  places: string[];
  label: string;
  hint: string | null;
  kind:
    | "text"
    | "lines"
    | "whole"
    | "number"
    | "switch"
    | "choice"
    | "seed"
    | "colour"
    | "file"
    | "json";
  upload: "image" | "video" | "audio" | "file" | null;
  hasMask: boolean;
  /** As it is in the workflow. */
  value: unknown;
  minimum: number | null;
  maximum: number | null;
  step: number | null;
  choices: readonly (string | number | boolean)[];
  /** The workflow leaves it out and its node needs it: a request has to name it. */
  isMissing: boolean;
}

export interface NodeGroup {
  nodeId: string;
  title: string;
  classType: string;
  isKnown: boolean;
  controls: Control[];
}

export interface FormModel {
  main: Control[];
  groups: NodeGroup[];
}

export type Values = ReadonlyMap<string, unknown>;

/** Inputs that people change most, by name. */
const USUAL =
  /^(text|prompt|positive|negative|steps|cfg|denoise|width|height|color|strength|seconds)/i;
const SIZE = /^(width|height)$/i;
const MOST_MAIN = 12;
/** Names that say nothing about what comes out. */
const DULL = /^(filename_prefix|control_after_generate|upload)$/;

export function makeModel(nodes: readonly FormNode[], declared: readonly Declared[]): FormModel {
  const groups = nodes
    .map((node) => ({
      nodeId: node.node_id,
      title: node.title,
      classType: node.class_type,
      isKnown: node.known,
      controls: node.fields.map((field) => controlOf(node, field)),
    }))
    .filter((each) => each.controls.length > 0 || !each.isKnown);
  if (declared.length > 0) {
    return { main: declared.map((each) => declaredControl(each, nodes)), groups };
  }
  return { main: mostWanted(groups, nodes), groups };
}

function controlOf(node: FormNode, field: FormField): Control {
  const place = `${node.node_id}.${field.name}`;
  return {
    target: place,
    places: [place],
    label: field.name,
    hint: field.tooltip ?? null,
    kind: kindOf(field, node.known),
    upload: field.upload ?? null,
    hasMask: field.mask ?? false,
    value: field.value,
    minimum: numberOr(field.minimum),
    maximum: numberOr(field.maximum),
    step: numberOr(field.step),
    choices: field.choices ?? [],
    isMissing: field.given === false && field.required === true && field.value !== null,
  };
}

const WHITE = 0xffffff;

/** Limits of 64 bits are only the nearest number: the server knows them exactly. */
function numberOr(value: number | null | undefined): number | null {
  return value === null || value === undefined ? null : Number(value);
}

function kindOf(field: FormField, isKnown: boolean): Control["kind"] {
  if (field.upload) return "file";
  if (field.seed) return "seed";
  if (field.choices && field.choices.length > 0) return "choice";
  if (/^colou?r$/i.test(field.name) && Number(field.maximum) === WHITE) return "colour";
  if (field.type.includes("INT") && !field.type.includes("FLOAT")) return "whole";
  if (field.type.includes("FLOAT")) return "number";
  if (field.type.includes("BOOLEAN")) return "switch";
  if (
    typeof field.value === "object" &&
    field.value !== null &&
    !(field.value instanceof LargeInteger)
  )
    return "json";
  // Of a type that no worker knows only the name tells.
  const isProse = field.multiline || (!isKnown && /^(text|prompt)$/i.test(field.name));
  return isProse ? "lines" : "text";
}

const DECLARED_KINDS: Record<string, Control["kind"]> = {
  integer: "whole",
  number: "number",
  boolean: "switch",
  text: "text",
  seed: "seed",
  image: "file",
  mask: "file",
  video: "file",
  audio: "file",
};

function declaredControl(declared: Declared, nodes: readonly FormNode[]): Control {
  const places = declared.targets.map((each) => placeOf(each, nodes) ?? each);
  const found = fieldAt(places[0] ?? "", nodes);
  const choices = (declared.choices as Control["choices"] | null) ?? found?.field.choices ?? [];
  const base = found === null ? null : controlOf(found.node, found.field);
  const kind =
    base !== null && (base.kind === "seed" || base.kind === "lines" || base.kind === "file")
      ? base.kind
      : choices.length > 0
        ? "choice"
        : (DECLARED_KINDS[declared.type] ?? base?.kind ?? "text");
  const media = declared.type === "mask" ? "image" : declared.type;
  const isMedia = ["image", "video", "audio", "file"].includes(media);
  return {
    target: declared.name,
    places,
    label: declared.label ?? declared.name,
    hint: declared.description ?? base?.hint ?? null,
    kind,
    upload: base?.upload ?? (isMedia ? (media as "image") : null),
    hasMask: base?.hasMask ?? false,
    value: declared.default ?? base?.value ?? null,
    minimum: declared.minimum ?? base?.minimum ?? null,
    maximum: declared.maximum ?? base?.maximum ?? null,
    step: base?.step ?? null,
    choices,
    isMissing: false,
  };
}

/** `Caption.text` as `10.text`. */
function placeOf(target: string, nodes: readonly FormNode[]): string | null {
  const at = target.lastIndexOf(".");
  const named = target.slice(0, at);
  const node =
    nodes.find((each) => each.node_id === named) ?? nodes.find((each) => each.title === named);
  return node === undefined ? null : `${node.node_id}.${target.slice(at + 1)}`;
}

function fieldAt(place: string, nodes: readonly FormNode[]) {
  for (const node of nodes) {
    const field = node.fields.find((each) => `${node.node_id}.${each.name}` === place);
    if (field !== undefined) return { node, field };
  }
  return null;
}

function mostWanted(groups: readonly NodeGroup[], nodes: readonly FormNode[]): Control[] {
  const roles = rolesOf(nodes);
  const weighed: { control: Control; weight: number }[] = [];
  const sizes = groups.flatMap((each) => each.controls).filter((each) => SIZE.test(each.label));
  // A width that many nodes have each of their own is no main setting.
  const isMuddle = sizes.length > 2;
  for (const group of groups) {
    for (const control of group.controls) {
      const weight = isMuddle && SIZE.test(control.label) ? 0 : weightOf(control);
      if (weight > 0)
        weighed.push({ control: { ...control, label: labelled(control, group, roles) }, weight });
    }
  }
  weighed.sort((one, other) => other.weight - one.weight);
  return weighed.slice(0, MOST_MAIN).map(({ control }) => control);
}

function labelled(control: Control, group: NodeGroup, roles: ReadonlyMap<string, string>): string {
  const role = control.kind === "lines" ? roles.get(group.nodeId) : undefined;
  return role ?? `${group.title}: ${control.label}`;
}

/** Two prompts of one type are told apart by what a sampler takes them as. */
function rolesOf(nodes: readonly FormNode[]): Map<string, string> {
  const roles = new Map<string, string>();
  for (const { links } of nodes) {
    for (const { input, node_id: from } of links) {
      if (input === "positive") roles.set(from, "Prompt");
      if (input === "negative" && !roles.has(from)) roles.set(from, "Negative prompt");
    }
  }
  return roles;
}

function weightOf(control: Control): number {
  if (DULL.test(control.label)) return 0;
  if (control.kind === "file") return 6;
  if (control.kind === "lines") return 5;
  if (control.kind === "text" && USUAL.test(control.label)) return 4;
  if (control.kind === "seed") return 3;
  if (USUAL.test(control.label)) return 2;
  return 0;
}

export function allControls(model: FormModel): Control[] {
  return [...model.main, ...model.groups.flatMap((each) => each.controls)];
}

export function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

/** What a request has to name: what was changed, and what the workflow lacks. */
export function paramsOf(controls: readonly Control[], values: Values): Record<string, unknown> {
  const missing = controls.filter((each) => each.isMissing && !values.has(each.target));
  return Object.fromEntries([
    ...missing.map((each) => [each.target, each.value] as const),
    ...values,
  ]);
}

const LONGEST_IN_URL = 4000;
export const VALUE_PREFIX = "v.";

/** The query with the values in it; those that do not fit are left out, and said to be. */
export function valuesToQuery(values: Values): { query: Record<string, string>; fits: boolean } {
  const query: Record<string, string> = {};
  let length = 0;
  for (const [target, value] of values) {
    const text = JSON.stringify(value);
    length += encodeURIComponent(target).length + encodeURIComponent(text).length;
    query[VALUE_PREFIX + target] = text;
  }
  return length <= LONGEST_IN_URL ? { query, fits: true } : { query: {}, fits: false };
}

export function valuesFromQuery(
  query: URLSearchParams,
  parse: (text: string) => unknown,
): Map<string, unknown> {
  const values = new Map<string, unknown>();
  for (const [name, text] of query) {
    if (!name.startsWith(VALUE_PREFIX)) continue;
    try {
      values.set(name.slice(VALUE_PREFIX.length), parse(text));
    } catch {
      // a link that somebody has cut
    }
  }
  return values;
}

/** What a person typed as a value, or why it is none. */
export function readNumber(text: string, isWhole: boolean): { value: unknown } | { fault: string } {
  const trimmed = text.trim();
  if (isWhole) {
    return /^[+-]?\d+$/.test(trimmed)
      ? { value: exactInteger(trimmed) }
      : { fault: "This has to be a whole number." };
  }
  const value = Number(trimmed);
  return trimmed !== "" && Number.isFinite(value)
    ? { value }
    : { fault: "This has to be a number." };
}

export function showNumber(value: unknown): string {
  return value === null || value === undefined ? "" : String(value);
}

/** A slider where it helps: a range with an end, in steps that a hand can hit. */
export function slides(control: Control): boolean {
  const { minimum, maximum, step } = control;
  if (minimum === null || maximum === null || maximum <= minimum) return false;
  const steps = (maximum - minimum) / (step ?? (control.kind === "whole" ? 1 : 0.01));
  return steps <= 2000 && maximum - minimum <= 10_000;
}

/** Findings by the control they belong to; the rest are of the whole. */
export function findingsByPlace(findings: readonly Finding[]): {
  byPlace: Map<string, Finding[]>;
  others: Finding[];
} {
  const byPlace = new Map<string, Finding[]>();
  const others: Finding[] = [];
  for (const finding of findings) {
    const place = placeOfFinding(finding);
    if (place === null) others.push(finding);
    else byPlace.set(place, [...(byPlace.get(place) ?? []), finding]);
  }
  return { byPlace, others };
}

/** `2.inputs.octaves` and `input_params.2.octaves` are both `2.octaves`. */
function placeOfFinding({ path, node_id: node }: Finding): string | null {
  if (path === null || path === undefined) return null;
  const param = /^input_params\.(.+)$/.exec(path);
  if (param?.[1] !== undefined) return param[1];
  if (node === null || node === undefined) return null;
  const inside = `${node}.inputs.`;
  return path.startsWith(inside) ? `${node}.${path.slice(inside.length)}` : null;
}

export function faultOf(control: Control, byPlace: ReadonlyMap<string, Finding[]>): string | null {
  for (const place of [control.target, ...control.places]) {
    const found = byPlace.get(place)?.find((each) => each.severity === "error");
    if (found !== undefined)
      return found.message.replace(/^Node '[^']*' \([^)]*\), input '[^']*': /, "");
  }
  return null;
}

export function hasFault(control: Control, byPlace: ReadonlyMap<string, Finding[]>): boolean {
  return faultOf(control, byPlace) !== null;
}

const LARGEST_SEED = 2 ** 48;

/** A seed within what the input takes. */
export function randomSeed(control: Control, random: () => number = Math.random): number {
  const low = Math.max(0, control.minimum ?? 0);
  const high = Math.min(control.maximum ?? LARGEST_SEED, LARGEST_SEED);
  return Math.floor(low + random() * Math.max(1, high - low));
}
