/** Requests to the server, typed by its own description (`npm run types`). */

import { parseExact } from "./exact_json";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

type Method = "get" | "post" | "put" | "patch" | "delete";
type PathsWith<M extends Method> = {
  [P in keyof paths]: paths[P] extends { [K in M]: { responses: unknown } } ? P : never;
}[keyof paths];
type OperationOf<P extends keyof paths, M extends Method> = paths[P] extends {
  [K in M]: infer O;
}
  ? O
  : never;
type ContentOf<R> = R extends { content: { "application/json": infer B } } ? B : never;
type Good<R> =
  R extends Record<PropertyKey, unknown> ? R[Extract<keyof R, 200 | 201 | 202>] : never;
export type Reply<P extends keyof paths, M extends Method> =
  OperationOf<P, M> extends {
    responses: infer R;
  }
    ? ContentOf<Good<R>>
    : never;
type Part<O, K extends string> = O extends { parameters: infer A }
  ? A extends { [N in K]?: infer V }
    ? V
    : never
  : never;
type Body<O> = O extends { requestBody?: infer B }
  ? NonNullable<B> extends { content: { "application/json": infer C } }
    ? C
    : never
  : never;

type Loose<Q> = { [K in keyof Q]?: Q[K] | null | undefined };

export interface Asked<P extends keyof paths, M extends Method> {
  path?: Part<OperationOf<P, M>, "path">;
  /** Empty ones are left out. */
  query?: Loose<Part<OperationOf<P, M>, "query">>;
  body?: Body<OperationOf<P, M>>;
  /** The same key makes one thing of a request that is sent twice. */
  idempotencyKey?: string;
  signal?: AbortSignal;
  /** How long the whole reply may take. */
  seconds?: number;
}

/** A request that the server has refused, or that did not reach it (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: Record<string, unknown> = {},
    readonly requestId: string | null = null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** Called when the server does not know who asks (any more). Set once, by the shell. */
let onUnknown: () => void = () => {};
export function whenLoggedOut(act: () => void): void {
  onUnknown = act;
}

export function get<P extends PathsWith<"get">>(
  path: P,
  asked: Asked<P, "get"> = {},
): Promise<Reply<P, "get">> {
  return send("GET", path, asked);
}

export function post<P extends PathsWith<"post">>(
  path: P,
  asked: Asked<P, "post"> = {},
): Promise<Reply<P, "post">> {
  return send("POST", path, asked);
}

export function put<P extends PathsWith<"put">>(
  path: P,
  asked: Asked<P, "put"> = {},
): Promise<Reply<P, "put">> {
  return send("PUT", path, asked);
}

export function patch<P extends PathsWith<"patch">>(
  path: P,
  asked: Asked<P, "patch"> = {},
): Promise<Reply<P, "patch">> {
  return send("PATCH", path, asked);
}

export function remove<P extends PathsWith<"delete">>(
  path: P,
  asked: Asked<P, "delete"> = {},
): Promise<void> {
  return send("DELETE", path, asked);
}

/** A request whose body is no JSON of the description: a file, a form. It takes the time it takes. */
export async function sendRaw<T>(
  method: string,
  url: string,
  body: BodyInit,
  contentType: string | null,
  signal?: AbortSignal,
): Promise<T> {
  const headers: Record<string, string> = {};
  if (contentType !== null) headers["Content-Type"] = contentType;
  return reach(url, { method, body, headers, ...(signal ? { signal } : {}) }, read<T>);
}

/** The bytes of a file of the server; null where it has none now (204). */
export async function getBlob(url: string, signal?: AbortSignal): Promise<Blob | null> {
  return reach(url, inTime({ ...(signal ? { signal } : {}) }, FILE_SECONDS), (response) => {
    if (response.status === 204) return Promise.resolve(null);
    return response.ok ? response.blob() : read<never>(response);
  });
}

interface AnyAsked {
  path?: unknown;
  query?: unknown;
  body?: unknown;
  idempotencyKey?: string;
  signal?: AbortSignal;
  seconds?: number;
}

/** After this a server that was reached is taken for one that does not answer. */
const READ_SECONDS = 30;
/** Thousands of jobs may come of one request. */
const WRITE_SECONDS = 120;
const FILE_SECONDS = 120;

async function send<T>(method: string, template: string, asked: AnyAsked): Promise<T> {
  const headers: Record<string, string> = {};
  const init: RequestInit = { method, headers };
  if (asked.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(asked.body);
  }
  if (asked.idempotencyKey !== undefined) headers["Idempotency-Key"] = asked.idempotencyKey;
  if (asked.signal !== undefined) init.signal = asked.signal;
  const url = address(template, asked.path as Params, asked.query as Query);
  const seconds = asked.seconds ?? (method === "GET" ? READ_SECONDS : WRITE_SECONDS);
  return reach(url, inTime(init, seconds), read<T>);
}

function inTime(init: RequestInit, seconds: number): RequestInit {
  const late = AbortSignal.timeout(seconds * 1_000);
  return { ...init, signal: init.signal ? AbortSignal.any([init.signal, late]) : late };
}

type Params = Record<string, string | number> | undefined;
type Query = Record<string, unknown> | undefined;

/** The URL of a route with its parameters filled in. */
export function address(template: string, path?: Params, query?: Query): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = path?.[name];
    if (value === undefined) throw new Error(`${template} needs ${name}`);
    return encodeURIComponent(String(value));
  });
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === undefined || value === null || value === "") continue;
    search.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  const text = search.toString();
  return text === "" ? filled : `${filled}?${text}`;
}

/** The line may break before the reply, or in the middle of it. */
async function reach<T>(
  url: string,
  init: RequestInit,
  take: (response: Response) => Promise<T>,
): Promise<T> {
  try {
    return await take(await fetch(url, { credentials: "same-origin", ...init }));
  } catch (error) {
    if (error instanceof DOMException && error.name === "TimeoutError") {
      throw new ApiError(0, "SERVER_SILENT", "The server does not answer in time. Try again.");
    }
    if (error instanceof TypeError) {
      throw new ApiError(0, "SERVER_AWAY", "The server does not answer. Is it running?");
    }
    throw error;
  }
}

async function read<T>(response: Response): Promise<T> {
  if (response.ok) {
    if (response.status === 204) return undefined as T;
    return parseExact<T>(await response.text());
  }
  const error = await refusal(response);
  if (error.status === 401) onUnknown();
  throw error;
}

async function refusal(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as { error: Schemas["ErrorDetail"] };
    return new ApiError(
      response.status,
      error.code,
      error.message,
      (error.details ?? {}) as Record<string, unknown>,
      error.request_id ?? null,
    );
  } catch {
    return new ApiError(
      response.status,
      "UNREADABLE_REPLY",
      `The server answered ${response.status} with something that is not its own. Is there a proxy in between?`,
    );
  }
}
