/** What the server has written into the page: who looks at it, and what there is. */

export interface Boot {
  version: string;
  /** Whether the server asks for keys. */
  access: boolean;
  /** Null: nobody is logged in. */
  user: { user_id: string; tenant: string; tier: string; permissions: string[] } | null;
  /** Whether ComfyUI's editor is installed. */
  editor: boolean;
  /** The id of the newest event when the page was sent. */
  events: number | null;
}

const NOTHING: Boot = { version: "", access: false, user: null, editor: false, events: null };

function readBoot(): Boot {
  const text = document.querySelector<HTMLMetaElement>('meta[name="comfyrail"]')?.content ?? "";
  try {
    return { ...NOTHING, ...(JSON.parse(text) as Partial<Boot>) };
  } catch {
    return NOTHING; // `vite` alone has no server that fills it in
  }
}

export const boot = readBoot();

/** Whether who looks at the page may do this; `*` is everything. */
export function may(permission: string): boolean {
  const permissions = boot.user?.permissions;
  return permissions === undefined || permissions.includes("*") || permissions.includes(permission);
}

/** To the login page, and back here afterwards. */
export function logIn(): void {
  const here = location.pathname + location.search + location.hash;
  location.assign(`/login?next=${encodeURIComponent(here)}`);
}
