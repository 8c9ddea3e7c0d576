from django.apps import AppConfig


class GloveSiteConfig(AppConfig):
    """The site itself: commands, health and metrics."""

    name = "glove_site"
