/** Many jobs under one name: all batches, or one of them. */

import "./batches.css";
import type { ViewProps } from "../../views";
import { BatchList } from "./batch_list";
import { BatchView } from "./batch_view";

export default function BatchesView({ parts, query }: ViewProps) {
  const [id] = parts;
  return id === undefined ? <BatchList /> : <BatchView key={id} id={id} query={query} />;
}
