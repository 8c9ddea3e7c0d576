"""How Celery's commands come by settings and declarations."""

from typing import Any

import django
from celery.loaders.app import AppLoader

from glove_site.starting import in_one_sentence


class Loader(AppLoader):
    """Celery's own; what is wrong in the environment or in a declaration ends the command with one sentence."""

    def config_from_object(self, *args: Any, **kwargs: Any) -> Any:
        with in_one_sentence():
            return super().config_from_object(*args, **kwargs)

    def import_default_modules(self) -> Any:
        with in_one_sentence():
            django.setup()  # Celery would do so in a signal, which writes a traceback of its own
            return super().import_default_modules()
