"""A surface in the shape of RunPod's serverless endpoints [10.7], for programs written for that."""
