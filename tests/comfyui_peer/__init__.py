"""A real ComfyUI on the CPU, used by tests as a peer in a process of its own."""
