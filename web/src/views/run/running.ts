/** From the form to a job: what is asked of the server. */

import { post } from "../../api/client";
import type { Wish } from "./checks";
import type { Options } from "./draft";
import { allControls, type Control, type FormModel, paramsOf, randomSeed } from "./form_model";
import type { Filled } from "./sources";

/** Each seed once: those of declared inputs, and those of nodes that no declared input sets. */
export function seedsOf(model: FormModel): Control[] {
  const found = new Map<string, Control>();
  for (const control of allControls(model)) {
    if (control.kind !== "seed") continue;
    const place = control.places[0] ?? control.target;
    if (!found.has(place)) found.set(place, control);
  }
  return [...found.values()];
}

export function wishOf(
  filled: Filled,
  controls: readonly Control[],
  values: ReadonlyMap<string, unknown>,
): Wish {
  // What the server's description calls an object is any JSON.
  const params = paramsOf(controls, values) as Record<string, never>;
  if (filled.workflowId !== null) return { workflow_id: filled.workflowId, input_params: params };
  return { workflow: filled.form.workflow as Record<string, never>, input_params: params };
}

export function rollSeeds(
  seeds: readonly Control[],
  fixed: ReadonlySet<string>,
  values: ReadonlyMap<string, unknown>,
): Map<string, unknown> {
  const rolled = new Map(values);
  for (const each of seeds) {
    if (!fixed.has(each.target)) rolled.set(each.target, randomSeed(each));
  }
  return rolled;
}

export async function runMany(
  wish: Wish,
  title: string,
  seeds: readonly Control[],
  { times, name, priority }: Options,
): Promise<string> {
  const items = Array.from({ length: times }, () => ({
    input_params: Object.fromEntries(
      seeds.map((each) => [each.target, randomSeed(each)]),
    ) as Record<string, never>,
  }));
  const made = await post("/v1/batches", {
    body: {
      ...wish,
      items,
      priority,
      name: name.trim() === "" ? `${title}, ${times} seeds` : name.trim(),
    },
    idempotencyKey: newKey(),
  });
  return made.batch_id;
}

export async function runOnce(wish: Wish, { priority }: Options): Promise<string> {
  const accepted = await post("/v2/workflows/execute", {
    body: { ...wish, execution_config: { priority } },
    idempotencyKey: newKey(),
  });
  return accepted.id;
}

/** A request that is sent twice, by whatever is in between, makes one job. */
function newKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}
