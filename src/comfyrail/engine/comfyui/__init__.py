"""ComfyUI's node classes, run by this engine: adapters, and the world that the classes expect.

ComfyUI itself is loaded from a checkout of the user's, at run time; nothing of it is here.
"""
