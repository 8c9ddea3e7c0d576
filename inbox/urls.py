"""The inbox's addresses at the root of the site: links, and webhooks."""

from django.urls import path

from inbox import hooks, links

urlpatterns = [
    path("r/<str:token>", links.link, name="resolve_link"),
    path("hooks/<str:name>", hooks.receive, name="webhook"),
]
