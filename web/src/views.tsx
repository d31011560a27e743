/** Which view is where: each is loaded when somebody first goes there. */

import type { ComponentType } from "preact";
import type { IconName } from "./ui/icons";

export interface ViewProps {
  /** What stands behind the view's own word in the URL. */
  parts: string[];
  query: URLSearchParams;
}

type Load = () => Promise<{ default: ComponentType<ViewProps> }>;

export interface View {
  /** The first part of the URL; empty for the start. */
  word: string;
  name: string;
  load: Load;
  /** Views without an icon are not in the menu. */
  icon?: IconName;
  /** The permission without which there is nothing to see. */
  needs?: string;
}

export const VIEWS: readonly View[] = [
  { word: "", name: "Run", icon: "play", load: () => import("./views/run/start_view") },
  { word: "run", name: "Run", load: () => import("./views/run/run_view") },
  {
    word: "jobs",
    name: "Jobs",
    icon: "list",
    needs: "jobs:read",
    load: () => import("./views/jobs/jobs_view"),
  },
  {
    word: "gallery",
    name: "Gallery",
    icon: "images",
    needs: "jobs:read",
    load: () => import("./views/gallery/gallery_view"),
  },
  {
    word: "compare",
    name: "Compare",
    needs: "jobs:read",
    load: () => import("./views/gallery/compare_view"),
  },
  {
    word: "batches",
    name: "Batches",
    icon: "grid",
    needs: "jobs:read",
    load: () => import("./views/batches/batches_view"),
  },
  {
    word: "fleet",
    name: "Queue & workers",
    icon: "server",
    needs: "fleet:read",
    load: () => import("./views/fleet/fleet_view"),
  },
  {
    word: "webhooks",
    name: "Webhooks",
    icon: "bell",
    needs: "webhooks:read",
    load: () => import("./views/webhooks/webhooks_view"),
  },
  {
    word: "usage",
    name: "Usage",
    icon: "chart",
    needs: "jobs:read",
    load: () => import("./views/usage/usage_view"),
  },
  {
    word: "keys",
    name: "Keys",
    icon: "key",
    needs: "keys:write",
    load: () => import("./views/keys/keys_view"),
  },
];
