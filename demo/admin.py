"""The shop's rows for staff to look at. What changes them is `demo.orders`."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from demo.models import Order, Refund, Shelf


class LookOnly(admin.ModelAdmin):
    """Nothing is added, changed or deleted here."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Order)
class OrderAdmin(LookOnly):
    list_display = ("id", "customer", "name", "bags", "total_cents", "refunded_cents", "created_at", "paid_at")
    list_select_related = ("customer",)


@admin.register(Refund)
class RefundAdmin(LookOnly):
    list_display = ("id", "order", "cents", "approval", "created_at")
    list_select_related = ("order",)


@admin.register(Shelf)
class ShelfAdmin(LookOnly):
    list_display = ("sku", "ordered")
