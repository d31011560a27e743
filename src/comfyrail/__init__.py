"""Comfyrail: run ComfyUI workflows for many users on a fleet of workers."""

__version__ = "0.1.0"
