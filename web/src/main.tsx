import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/shell.css";
import { render } from "preact";
import { whenLoggedOut } from "./api/client";
import { boot, logIn } from "./boot";
import { startStream } from "./live/stream";
import { Shell } from "./shell";

if (boot.access && boot.user === null) {
  logIn();
} else {
  whenLoggedOut(logIn);
  startStream();
  render(<Shell />, document.getElementById("page") as HTMLElement);
}
