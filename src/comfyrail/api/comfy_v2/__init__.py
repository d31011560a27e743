"""The official Comfy API v2: what its SDKs for Python and TypeScript speak [10.7]."""
