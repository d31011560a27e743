"""ComfyUI's protocol, client side. Whatever a worker sends is hostile until it is parsed here."""
