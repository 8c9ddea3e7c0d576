"""Every address of the site."""

from django.contrib import admin
from django.urls import include, path

from glove_site.api import api

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("", include("inbox.urls")),
]
