from django.apps import AppConfig


class GloveSiteConfig(AppConfig):
    """The site itself: commands, health and metrics."""

    name = "glove_site"

    def ready(self) -> None:
        from glove_site import checks  # noqa: F401  registers the checks
