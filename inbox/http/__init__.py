"""The edge that every HTTP route of the site stands behind. Knows the inbox's models and services, and no route."""
