"""ComfyUI's editor format, to the API format and back, and where workflows are found: JSON, text
with JSON in it, the metadata of pictures. Pure: bytes and parsed JSON in, values out.

`source.read_workflow_source` finds the JSON, `workflow_from.workflow_from` makes a workflow of it
and `to_editor.workflow_to_editor` goes back.
"""
