/** Where a workflow comes from: the library, an example, an earlier job, a file. */

import { ApiError, get, type Schemas, sendRaw } from "../../api/client";
import { isImage, pictureOf } from "../../ui/output";
import { EXAMPLES } from "./examples";
import { takeFromShelf } from "./file_shelf";

export type Form = Schemas["FormBody"];

export interface Filled {
  title: string;
  /** Markdown, shown as text. */
  description: string;
  form: Form;
  declared: Schemas["DeclaredInputBody"][];
  /** `name@version` of the library: the server has it, nothing need be sent. */
  workflowId: string | null;
  /** A picture of what comes out. */
  preview: string | null;
  /** An earlier job's seeds are kept: one changes something else. */
  keepsSeeds: boolean;
  /** What it could be called in the library. */
  suggestion: string;
}

const FORM = "/v1/workflows/form";

/** `parts`: what stands behind `#/run/`. */
export async function loadSource(parts: string[], signal: AbortSignal): Promise<Filled> {
  const [kind, name = ""] = parts;
  if (kind === "library") return fromLibrary(name, signal);
  if (kind === "example") return fromExample(name, signal);
  if (kind === "job") return fromJob(name, signal);
  if (kind === "file") return fromFile(name, signal);
  throw new ApiError(404, "NOTHING_HERE", "There is no such workflow. Go back to the start.");
}

async function fromLibrary(name: string, signal: AbortSignal): Promise<Filled> {
  const [plain = "", version] = name.split("@");
  const found = await get("/v1/workflows/{name}", {
    path: { name: plain },
    query: { version: version === undefined ? null : Number(version) },
    signal,
  });
  const form = await sendRaw<Form>("POST", FORM, JSON.stringify(found.workflow), JSON_TYPE, signal);
  return {
    title: found.name,
    description: found.description,
    form,
    declared: found.inputs,
    workflowId: `${found.name}@${found.version}`,
    preview: found.preview,
    keepsSeeds: false,
    suggestion: found.name,
  };
}

const JSON_TYPE = "application/json";

async function fromExample(name: string, signal: AbortSignal): Promise<Filled> {
  const example = EXAMPLES.find((each) => each.name === name);
  if (example === undefined)
    throw new ApiError(404, "NOTHING_HERE", `There is no example ${name}.`);
  const [workflow, preview] = await Promise.all([example.workflow(), example.preview()]);
  return {
    title: example.title,
    description: example.description,
    form: await sendRaw<Form>("POST", FORM, workflow, JSON_TYPE, signal),
    declared: [],
    workflowId: null,
    preview,
    keepsSeeds: false,
    suggestion: example.name,
  };
}

async function fromJob(id: string, signal: AbortSignal): Promise<Filled> {
  const path = { execution_id: id };
  const [found, made] = await Promise.all([
    get("/v2/workflows/executions/{execution_id}/workflow", { path, signal }),
    get("/v2/workflows/executions/{execution_id}/outputs", { path, signal }),
  ]);
  const picture = made.outputs.find((each) => isImage(each.content_type));
  return {
    title: found.workflow_id ?? "An earlier job",
    description: "",
    form: found,
    declared: [],
    workflowId: null,
    preview: picture === undefined ? null : pictureOf(picture, 512),
    keepsSeeds: true,
    suggestion: found.workflow_id?.split("@")[0] ?? "",
  };
}

async function fromFile(key: string, signal: AbortSignal): Promise<Filled> {
  const file = await takeFromShelf(key);
  if (file === null) {
    throw new ApiError(
      404,
      "FILE_IS_ELSEWHERE",
      "This file is only in the browser where it was dropped. Drop it here, or save the workflow to the library there to share it.",
    );
  }
  const type = /^image\/(png|webp)$/.test(file.type) ? file.type : typeByName(file.name);
  return {
    title: file.name,
    description: "",
    form: await sendRaw<Form>("POST", FORM, file.content, type, signal),
    declared: [],
    workflowId: null,
    preview: type.startsWith("image/") ? URL.createObjectURL(file.content) : null,
    keepsSeeds: false,
    suggestion: file.name.replace(/\.[^.]*$/, ""),
  };
}

function typeByName(name: string): string {
  if (/\.png$/i.test(name)) return "image/png";
  if (/\.webp$/i.test(name)) return "image/webp";
  return JSON_TYPE;
}
