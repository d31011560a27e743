/**
 * Other tabs log out, and in as somebody else: then this one must not go on as if nothing had
 * happened. Who asks is in a cookie that all tabs share, so only the server can tell.
 */

import { ApiError, get } from "../api/client";
import { boot } from "../boot";

const CHANNEL = "comfyrail-session";
const ASK_SECONDS = 8;

interface Who {
  user_id: string;
  tenant: string;
}

export function isSame(one: Who | null, other: Who | null): boolean {
  return one?.user_id === other?.user_id && one?.tenant === other?.tenant;
}

/**
 * Whether who looks at the page is still the one who is logged in. Where somebody else is, the page
 * begins anew. Throws an ApiError where the server does not answer, or knows nobody: then the page
 * is on its way to the login already.
 */
export async function isStillUs(): Promise<boolean> {
  if (!boot.access) return true;
  if (isSame(await get("/v1/session", { seconds: ASK_SECONDS }), boot.user)) return true;
  location.reload();
  return false;
}

/** Tells other tabs who we are, and looks again when one of them is somebody else. */
export function watchSession(): void {
  if (!boot.access || boot.user === null) return;
  const { user_id, tenant } = boot.user;
  const tabs = new BroadcastChannel(CHANNEL);
  tabs.onmessage = ({ data }) => {
    if (!isSame(data as Who | null, boot.user)) void look();
  };
  tabs.postMessage({ user_id, tenant } satisfies Who);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") void look();
  });
  addEventListener("pageshow", ({ persisted }) => {
    if (persisted) void look();
  });
}

async function look(): Promise<void> {
  try {
    await isStillUs();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}
