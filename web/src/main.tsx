import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/shell.css";
import { render } from "preact";
import { whenLoggedOut } from "./api/client";
import { boot, logIn, may } from "./boot";
import { watchSession } from "./live/session";
import { startStream } from "./live/stream";
import { Shell } from "./shell";

if (boot.access && boot.user === null) {
  logIn();
} else {
  whenLoggedOut(logIn);
  watchSession();
  if (may("jobs:read")) startStream();
  render(<Shell />, document.getElementById("page") as HTMLElement);
}
