"""A crew that writes a document together: a planner, three writers and a reviewer. For processes of their own."""
