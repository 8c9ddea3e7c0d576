"""The shop's addresses."""

from django.urls import path

from demo import views

urlpatterns = [path("", views.talk, name="talk")]
