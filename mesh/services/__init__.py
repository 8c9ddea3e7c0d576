"""The only writers of the mesh's tables."""
