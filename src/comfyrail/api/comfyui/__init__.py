"""ComfyUI's own API in front of the fleet [10.5], and its editor."""
