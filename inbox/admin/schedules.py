"""Resolvers' schedules: what runs when, how it went last, pause and change."""

from typing import Any

import django_celery_beat.admin  # noqa: F401  registers its own pages, which these replace
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django_celery_beat import models as beat

from inbox import declare, instants
from inbox.admin.confirm import confirm
from inbox.admin.reader import Link, Panel
from inbox.admin.readonly import ReadOnlyAdmin
from inbox.errors import InboxError
from inbox.models import DeclaredSchedule, ResolverRun
from inbox.services import rescheduling
from inbox.templatetags.desk import inline, stamp

# The package's own pages start any task with any arguments, and need inline scripts, which no page here may have.
for _model in (
    beat.PeriodicTask,
    beat.IntervalSchedule,
    beat.CrontabSchedule,
    beat.SolarSchedule,
    beat.ClockedSchedule,
):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)

LAST_RUNS = 10


class ScheduleForm(forms.Form):
    """When a resolver runs: every so many seconds, or by a crontab."""

    every = forms.IntegerField(
        label="Every", required=False, min_value=1, max_value=366 * 86400, help_text="Seconds between two runs; or:"
    )
    crontab = forms.CharField(
        required=False,
        max_length=200,
        help_text="Minute, hour, day of month, month, day of week: “0 8 * * 1-5” is 8 o'clock from Monday to Friday.",
    )
    zone = forms.CharField(label="Time zone", required=False, max_length=60, help_text="For the crontab.")

    def clean(self) -> dict[str, Any]:
        """Exactly one of the two, as a schedule."""
        data = super().clean() or {}
        if bool(data.get("every")) == bool(data.get("crontab")):
            raise forms.ValidationError("Fill in either the seconds or the crontab.")
        try:
            if data.get("every"):
                data["schedule"] = instants.Every(data["every"])
            else:
                data["schedule"] = instants.from_text(data["crontab"], data.get("zone") or settings.TIME_ZONE)
        except InboxError as error:
            raise forms.ValidationError(str(error)) from None
        return data


@admin.register(DeclaredSchedule)
class DeclaredScheduleAdmin(ReadOnlyAdmin):
    """Schedules of the resolvers that were declared here."""

    list_display = ["name", "answers", "runs", "last_run", "trouble"]
    ordering = ["name"]

    def visible(self, user: Any) -> QuerySet[DeclaredSchedule]:
        return DeclaredSchedule.objects.all()

    def task(self, row: DeclaredSchedule) -> beat.PeriodicTask | None:
        """The schedule's row, as it is now."""
        return beat.PeriodicTask.objects.select_related("interval", "crontab").filter(pk=row.task_id).first()

    def newest(self, row: DeclaredSchedule) -> ResolverRun | None:
        """Its last run."""
        return ResolverRun.objects.filter(name=row.name).order_by("-pk").first()

    @admin.display(description="Answers")
    def answers(self, row: DeclaredSchedule) -> str:
        found = declare.resolvers.get(row.name)
        return found.pattern if found else "no longer declared"

    @admin.display(description="Runs")
    def runs(self, row: DeclaredSchedule) -> str:
        task = self.task(row)
        if task is None:
            return "deleted"
        words = str(task.interval or task.crontab or "never")
        return words if task.enabled else f"paused ({words})"

    @admin.display(description="Last run")
    def last_run(self, row: DeclaredSchedule) -> Any:
        run = self.newest(row)
        return stamp(run.started_at) if run else "–"

    @admin.display(description="Its errors")
    def trouble(self, row: DeclaredSchedule) -> SafeString:
        run = self.newest(row)
        return inline(run.error[:120] if run else "")

    def title_of(self, row: DeclaredSchedule) -> str:
        return f"Schedule of {row.name}"

    def facts(self, user: Any, row: DeclaredSchedule) -> list[tuple[str, Any]]:
        return [
            ("Resolver", row.name),
            ("Answers tags", self.answers(row)),
            ("Runs", self.runs(row)),
            ("Declared", row.declared),
        ]

    def panels(self, user: Any, row: DeclaredSchedule) -> list[Panel]:
        runs = ResolverRun.objects.filter(name=row.name).order_by("-pk")[:LAST_RUNS]
        may_open = user.has_perm("inbox.view_resolverrun")
        return [Panel("Last runs", "admin/inbox/declaredschedule/runs.html", {"runs": runs, "may_open": may_open})]

    def acts(self, request: HttpRequest, row: DeclaredSchedule) -> list[Link]:
        task = self.task(row)
        if task is None or not request.user.has_perm(rescheduling.RIGHT):
            return []
        return [
            Link("Pause…" if task.enabled else "Resume…", reverse("admin:inbox_declaredschedule_pause", args=[row.pk])),
            Link("Change…", reverse("admin:inbox_declaredschedule_when", args=[row.pk])),
        ]

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("<int:row_id>/pause/", wrap(self.pause), name="inbox_declaredschedule_pause"),
            path("<int:row_id>/when/", wrap(self.when), name="inbox_declaredschedule_when"),
            *super().get_urls(),
        ]

    def changeable(self, request: HttpRequest, row_id: int) -> DeclaredSchedule:
        """The row, for whoever may change it."""
        if not self.has_view_permission(request) or not request.user.has_perm(rescheduling.RIGHT):
            raise PermissionDenied
        row = self.visible(request.user).filter(pk=row_id).first()
        if row is None:
            raise Http404
        return row

    def pause(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Pause it, or let it run again: POST says which by `resume`."""
        row = self.changeable(request, row_id)
        task = self.task(row)
        running = task is not None and task.enabled
        if request.method == "POST":
            running = "resume" not in request.POST

        def act() -> str:
            if running:
                return (
                    f"{row.name} is paused."
                    if rescheduling.pause_as(request.user, row)
                    else f"{row.name} was paused already."
                )
            return (
                f"{row.name} runs again." if rescheduling.resume_as(request.user, row) else f"{row.name} runs already."
            )

        return confirm(
            request, self.admin_site, act=act,
            title=f"Pause {row.name}?" if running else f"Let {row.name} run again?",
            button="Pause" if running else "Resume",
            field="" if running else "resume",
            question="It looks for no answers until somebody resumes it; requests wait, and staff can answer them."
            if running else "It looks for answers again, with one run for what it missed.",
            back=reverse("admin:inbox_declaredschedule_change", args=[row.pk]),
        )  # fmt: skip

    def when(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Change when it runs."""
        row = self.changeable(request, row_id)
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        form = ScheduleForm(request.POST if request.method == "POST" else None, initial={"zone": settings.TIME_ZONE})
        back = reverse("admin:inbox_declaredschedule_change", args=[row.pk])
        if form.is_bound and form.is_valid():
            try:
                rescheduling.reschedule_as(request.user, row, form.cleaned_data["schedule"])
            except InboxError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, f"{row.name} runs {form.cleaned_data['schedule']} from now on.")
                return HttpResponseRedirect(back)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"When {row.name} runs",
            "form": form,
            "now": self.runs(row),
            "back": back,
        }
        status = 422 if form.errors else 200
        return TemplateResponse(request, "admin/inbox/declaredschedule/when.html", context, status=status)
