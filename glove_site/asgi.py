"""`uvicorn glove_site.asgi:application`"""

import os

from django.core.asgi import get_asgi_application

from glove_site.starting import in_one_sentence
from inbox.http.body_limit import limit_body

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "glove_site.settings")
with in_one_sentence():
    application = limit_body(get_asgi_application())
