import { describe, expect, it } from "vitest";
import { jobName, stateWord } from "../src/ui/words";
import { failsAgain } from "../src/views/jobs/job_prospect";

describe("the words of jobs", () => {
  it.each([
    ["My fox", "fox", "My fox"],
    [null, "fox", "fox"],
    [null, null, "Job 89abcdef"],
  ])("%s of %s is called %s", (title, workflow_id, name) => {
    expect(jobName({ id: "0123456789abcdef", title, origin: { workflow_id } })).toBe(name);
  });

  it.each([
    ["queued", null, false, "waiting"],
    ["queued", "retrying", false, "retrying"],
    ["processing", null, false, "running"],
    ["processing", null, true, "ending"],
    ["completed", null, true, "done"],
    ["failed", null, false, "failed"],
    ["cancelled", null, true, "cancelled"],
  ] as const)("%s, %s, asked to end %s: %s", (status, reason, cancel_requested, word) => {
    expect(stateWord({ status, reason, cancel_requested })).toBe(word);
  });
});

describe("failsAgain", () => {
  const ALWAYS = "Correct what the node is given: it fails like this every time.";
  const error = (
    category: "execution" | "validation" | "resource" | "system" | "timeout",
    suggested_action: unknown,
    retry_after: number | null = null,
  ) => ({
    category,
    retry_after,
    code: "X",
    message: "m",
    details: { suggested_action } as unknown as Record<string, never>,
  });

  it.each([
    ["what the node is given is at fault", error("execution", ALWAYS), 0, true],
    ["it is of no known sort", error("execution", "Submit the job again."), 0, false],
    ["the advice is no text", error("execution", { every: "time" }), 0, false],
    ["the workflow is refused", error("validation", null), 0, true],
    ["the server had tries left", error("execution", "Upload the file."), 2, true],
    ["the worker was lost", error("system", null), 2, false],
    ["no worker took it", error("timeout", null), 2, false],
    ["it is to be tried later", error("resource", "Make room there.", 300), 2, false],
  ])("where %s", (_, fault, left, fails) => {
    expect(failsAgain({ status: "failed", error: fault, retries: { used: 0, max: left } })).toBe(
      fails,
    );
  });

  it("is only of jobs that failed", () => {
    const retries = { used: 0, max: 1 };
    expect(failsAgain({ status: "completed", error: null, retries })).toBe(false);
  });
});
