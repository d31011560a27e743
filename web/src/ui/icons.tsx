/** Icons drawn in one style: 24 units, strokes in the colour of the text. */

const PATHS = {
  play: "M7 5l12 7-12 7z",
  images: "M4 5h12a1 1 0 011 1v11H4zM7 20h13V9M4 14l4-4 5 5M12 9h.01",
  list: "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01",
  grid: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  server: "M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01",
  bell: "M6 16V11a6 6 0 0112 0v5l2 2H4zM10 21h4",
  chart: "M4 20V4M4 20h16M8 16v-5M12 16V8M16 16v-3",
  key: "M14 10a4 4 0 10-4 4l1 0 1.5 1.5H14V17h1.5v1.5H17L20 18v-2.5z",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  check: "M5 12l5 5L20 7",
  search: "M11 4a7 7 0 100 14 7 7 0 000-14zM16 16l4 4",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  retry: "M20 11a8 8 0 10-2 6M20 5v6h-6",
  stop: "M7 7h10v10H7z",
  pause: "M8 5v14M16 5v14",
  trash: "M5 7h14M10 4h4M7 7l1 13h8l1-13M10 11v5M14 11v5",
  dice: "M5 5h14v14H5zM9 9h.01M15 15h.01M12 12h.01M15 9h.01M9 15h.01",
  link: "M10 14l4-4M8 12l-2 2a3 3 0 004 4l2-2M16 12l2-2a3 3 0 00-4-4l-2 2",
  external: "M13 5h6v6M19 5l-9 9M9 6H5v13h13v-4",
  compare: "M12 4v16M4 6h5v12H4M20 6h-5v12h5",
  chevron: "M9 6l6 6-6 6",
  down: "M6 9l6 6 6-6",
  left: "M15 6l-6 6 6 6",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M4 12H2M22 12h-2M5 5l1 1M18 18l1 1M19 5l-1 1M6 18l-1 1",
  moon: "M20 14A8 8 0 0110 4a8 8 0 1010 10z",
  auto: "M12 3a9 9 0 100 18 9 9 0 000-18zM12 3v18",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  clock: "M12 3a9 9 0 100 18 9 9 0 000-18zM12 7v5l3 2",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  info: "M12 3a9 9 0 100 18 9 9 0 000-18zM12 11v5M12 8h.01",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  music:
    "M9 18V6l10-2v12M9 18a2.5 2.5 0 11-5 0 2.5 2.5 0 015 0zM19 16a2.5 2.5 0 11-5 0 2.5 2.5 0 015 0z",
  film: "M4 5h16v14H4zM8 5v14M16 5v14M4 10h4M16 10h4M4 14h4M16 14h4",
  edit: "M4 20l1-4L16 5l3 3L8 19z",
  user: "M12 4a4 4 0 100 8 4 4 0 000-8zM5 20a7 7 0 0114 0",
  logout: "M14 5H6v14h8M11 12h9M17 9l3 3-3 3",
  eye: "M3 12s3-6 9-6 9 6 9 6-3 6-9 6-9-6-9-6zM12 10a2 2 0 100 4 2 2 0 000-4z",
  save: "M5 4h11l3 3v13H5zM8 4v5h7V4M8 20v-6h8v6",
} as const;

export type IconName = keyof typeof PATHS;

/** Decoration: what it means is said in words beside it, or by the label of its button. */
export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
