"use strict";

// The editor begins with a workflow that needs Stable Diffusion. Where no worker has its nodes, it
// begins with one that the engine can run, and where nobody has those either, with an empty canvas.
// And it offers no login at Comfy.org: the page may ask this server only.

const EXAMPLE = {
  last_node_id: 3,
  last_link_id: 2,
  nodes: [
    {"id": 1, "type": "GradientImage", "pos": [60, 160], "size": [300, 242], "flags": {}, "order": 0, "mode": 0, "inputs": [{"name": "width", "type": "INT", "link": null, "widget": {"name": "width"}}, {"name": "height", "type": "INT", "link": null, "widget": {"name": "height"}}, {"name": "colors", "type": "STRING", "link": null, "widget": {"name": "colors"}}, {"name": "angle", "type": "FLOAT", "link": null, "widget": {"name": "angle"}}, {"name": "shape", "type": "COMBO", "link": null, "widget": {"name": "shape"}}], "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [1]}], "properties": {"Node name for S&R": "GradientImage"}, "widgets_values": [640, 360, "#0b1d51, #725ac1, #f2a65a", 90.0, "linear"]},
    {"id": 2, "type": "TextOnImage", "pos": [440, 160], "size": [300, 220], "flags": {}, "order": 1, "mode": 0, "inputs": [{"name": "image", "type": "IMAGE", "link": 1}, {"name": "text", "type": "STRING", "link": null, "widget": {"name": "text"}}, {"name": "size", "type": "INT", "link": null, "widget": {"name": "size"}}, {"name": "color", "type": "STRING", "link": null, "widget": {"name": "color"}}, {"name": "position", "type": "COMBO", "link": null, "widget": {"name": "position"}}], "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [2]}], "properties": {"Node name for S&R": "TextOnImage"}, "widgets_values": ["Hello", 72, "#ffffff", "center"]},
    {"id": 3, "type": "SaveImage", "pos": [820, 160], "size": [360, 320], "flags": {}, "order": 2, "mode": 0, "inputs": [{"name": "images", "type": "IMAGE", "link": 2}, {"name": "filename_prefix", "type": "STRING", "link": null, "widget": {"name": "filename_prefix"}}], "outputs": [], "properties": {"Node name for S&R": "SaveImage"}, "widgets_values": ["hello"]},
  ],
  links: [[1, 1, 0, 2, 0, "IMAGE"], [2, 2, 0, 3, 0, "IMAGE"]],
  groups: [],
  config: {},
  extra: {},
  version: 0.4,
};

function canRun(graph, known) {
  return graph.nodes.every((node) => node.type in known);
}

// The editor has one object for its first workflow, and copies it wherever it needs one.
function chooseFirst(known) {
  const first = window.comfyAPI?.defaultGraph?.defaultGraph;
  if (!first || canRun(first, known)) return;
  for (const name of Object.keys(first)) delete first[name];
  Object.assign(first, canRun(EXAMPLE, known) ? EXAMPLE : { ...EXAMPLE, nodes: [], links: [] });
}

const style = document.createElement("style");
style.textContent = '[data-testid="login-button"] { display: none !important; }';
document.head.append(style);

window.comfyAPI?.app?.app?.registerExtension({
  name: "Comfyrail.FirstScreen",
  addCustomNodeDefs: chooseFirst,
});
