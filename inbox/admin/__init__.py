"""The staff's desk in Django's admin. Every write goes through `inbox.services`; no GET changes a row.

queue    which requests there are, in which order          answer   one request, and what a person does to it
bulk     one answer for many                                timeline what has happened to an item
rights   tag groups, canned answers                         trail    read-only pages, keys, links
exports  CSV and JSON                                       reader   what whoever reads the mail adds to these pages
"""

from django.contrib import admin

from inbox.admin import items, keys, rights, schedules, trail

admin.site.site_title = admin.site.site_header = "Glove"
admin.site.index_title = "The desk"

__all__ = ["items", "keys", "rights", "schedules", "trail"]
