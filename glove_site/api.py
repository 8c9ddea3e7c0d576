"""The API's mount: every router of the site under /api/v1."""

from agents.api import router as agents_router
from inbox.api import router as inbox_router
from inbox.http.edge import EdgeAPI
from mesh.api import router as mesh_router

api = EdgeAPI(
    title="Glove on Django",
    version="1",
    description="Mailboxes for agents: talk to agents, see what they wait for, and answer it. Details: docs/reference/api.md.",
)
api.add_router("", agents_router)
api.add_router("/inbox", inbox_router)
api.add_router("/mesh", mesh_router)
