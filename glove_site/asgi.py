"""`uvicorn glove_site.asgi:application`"""

import os

from django.core.asgi import get_asgi_application

from inbox.http.body_limit import limit_body

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "glove_site.settings")
application = limit_body(get_asgi_application())
