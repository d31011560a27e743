/** What the server says of the form as it is: faults, how long it takes, what it costs. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, post, type Schemas } from "../../api/client";
import { asApiError } from "../../live/resource";
import type { Finding } from "./form_model";

export interface Checked {
  report: Schemas["ValidationReport"] | null;
  plan: Schemas["PlanBody"] | null;
  error: ApiError | null;
  isChecking: boolean;
}

const PAUSE_MS = 400;

/** What is checked and what is run: the same. */
export interface Wish {
  workflow?: Record<string, never>;
  workflow_id?: string;
  input_params: Record<string, never>;
}

/** A moment after the last change; an answer to an older question does not count. */
export function useChecks(wish: Wish | null): Checked {
  const [checked, setChecked] = useState<Checked>({
    report: null,
    plan: null,
    error: null,
    isChecking: false,
  });
  const key = wish === null ? null : JSON.stringify([wish.workflow_id ?? null, wish.input_params]);
  const isFirst = useRef(true);
  useEffect(() => {
    if (wish === null) return;
    const controller = new AbortController();
    const { signal } = controller;
    const pause = isFirst.current ? 0 : PAUSE_MS;
    isFirst.current = false;
    setChecked((old) => ({ ...old, isChecking: true }));
    const timer = setTimeout(() => {
      check(wish, signal).then(
        (found) => !signal.aborted && setChecked(found),
        (error) => {
          if (signal.aborted) return;
          setChecked({ report: null, plan: null, error: asApiError(error), isChecking: false });
        },
      );
    }, pause);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [key, wish?.workflow]);
  return checked;
}

async function check(wish: Wish, signal: AbortSignal): Promise<Checked> {
  const report = await post("/v1/workflows/validate", { body: wish, signal });
  // A workflow with faults has no plan, and to ask for one would fail.
  const plan = report.valid ? await post("/v1/workflows/plan", { body: wish, signal }) : null;
  return { report, plan, error: null, isChecking: false };
}

/** The findings of a refused submission. */
export function findingsOf(error: ApiError): Finding[] {
  const found = error.details.findings;
  return Array.isArray(found) ? (found as Finding[]) : [];
}
