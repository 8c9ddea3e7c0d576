"""Every address of the site."""

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path
from django.views.generic import TemplateView

from glove_site.api import api

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("", include("inbox.urls")),
    path("login", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    # The demo's page for customers, or a page that says what this is.
    path("", include("demo.urls"))
    if apps.is_installed("demo")
    else path("", TemplateView.as_view(template_name="site/home.html"), name="home"),
]
