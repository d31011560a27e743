import { defineConfig } from "vite";

/** The server serves the build under /page/, and index.html itself at /. */
export default defineConfig({
  base: "/page/",
  build: {
    outDir: "../src/comfyrail/api/page_files",
    emptyOutDir: true,
    target: "es2022",
    // Nothing inline: the page's policy allows only files of the server.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    // `npx vite` beside a server: its API, with this folder's sources.
    fs: { allow: [".."] },
    proxy: Object.fromEntries(
      ["/v1", "/v2", "/ready", "/login", "/logout", "/openapi.json"].map((path) => [
        path,
        { target: "http://127.0.0.1:8080", ws: true },
      ]),
    ),
  },
});
