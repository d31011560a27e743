import { describe, expect, it } from "vitest";
import { filterOf as galleryFilter, isMoreThanZip } from "../src/views/gallery/outputs_filter";
import { filterOf, isNarrowed } from "../src/views/jobs/history_filter";

const of = (query: string) => filterOf(new URLSearchParams(query));

describe("a link to jobs", () => {
  it("keeps what the server knows of it", () => {
    expect(of("status=queued,queued,").status).toBe("queued");
    expect(of("status=processing,queued").status).toBe("queued,processing");
    expect(of("status=asleep,failed").status).toBe("failed");
    expect(of("workflow_id=aurora&batch_id=b1&text=cat&from=2026-01-31&to=2026-02-01")).toEqual({
      status: "",
      text: "cat",
      workflow_id: "aurora",
      from: "2026-01-31",
      to: "2026-02-01",
      batch_id: "b1",
    });
  });

  it("leaves out what the server would refuse", () => {
    for (const odd of [
      "status=,",
      "status=asleep",
      `workflow_id=${"w".repeat(201)}`,
      `batch_id=${"b".repeat(65)}`,
      "to=9999-12-31",
      "from=2026-02-31",
      "from=today",
      "text=%00",
    ]) {
      expect(isNarrowed(of(odd)), odd).toBe(false);
    }
    expect(of(`text=${"t".repeat(400)}`).text).toHaveLength(300);
  });
});

describe("a link to outputs", () => {
  it("leaves out what the server would refuse", () => {
    const found = galleryFilter(
      new URLSearchParams("kind=odd&to=9999-12-31&from=2026-13-01&text=a%00b"),
    );
    expect([found.kind, found.to, found.from, found.text]).toEqual(["", "", "", "ab"]);
  });
});

describe("a zip of all outputs", () => {
  it("has not all of them where there are more than fit", () => {
    expect(isMoreThanZip(120, true)).toBe(false);
    expect(isMoreThanZip(2000, false)).toBe(false);
    expect(isMoreThanZip(2000, true)).toBe(true);
    expect(isMoreThanZip(2001, false)).toBe(true);
  });
});
