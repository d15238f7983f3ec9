"""The addresses of the workbench."""

from __future__ import annotations

from django.urls import path

from netweave.web.http import api
from netweave.web.pages import accounts, comparisons, help_page, nets, runs

urlpatterns = [
    path("", nets.show_start, name="new"),
    path("comparisons/", comparisons.index, name="comparisons"),
    path("comparisons/<uuid:key>/", comparisons.show, name="comparison"),
    path("comparisons/<uuid:key>/against/<uuid:other>/", comparisons.against, name="against"),
    path("comparisons/<uuid:key>/rename/", comparisons.rename, name="rename-comparison"),
    path("comparisons/<uuid:key>/delete/", comparisons.delete, name="delete-comparison"),
    path("comparisons/<uuid:key>/cancel/", comparisons.cancel, name="cancel-comparison"),
    path("comparisons/<uuid:key>/swap/", comparisons.swap, name="swap-comparison"),
    path("comparisons/<uuid:key>/share/", comparisons.share, name="share-comparison"),
    path("shared/<str:secret>/", comparisons.shared, name="shared"),
    path("shared/<str:secret>/document", comparisons.shared_document, name="shared-document"),
    path("nets/", nets.index, name="nets"),
    path("nets/<uuid:key>/", nets.show, name="net"),
    path("nets/<uuid:key>/rename/", nets.rename, name="rename-net"),
    path("nets/<uuid:key>/download/", nets.download, name="download-net"),
    path("nets/<uuid:key>/allow-code/", nets.allow_code, name="allow-code"),
    path("nets/<uuid:key>/delete/", nets.delete, name="delete-net"),
    path("runs/", runs.index, name="runs"),
    path("runs/curves", runs.curves, name="curves"),
    path("runs/show", runs.show, name="run"),
    path("runs/start", runs.start, name="start-training"),
    path("runs/stop", runs.stop, name="stop-training"),
    path("runs/resume", runs.resume, name="resume-training"),
    path("help/", help_page.show, name="help"),
    path("programs/", help_page.show_programs, name="programs"),
    path("sign-in/", accounts.SignIn.as_view(), name="sign-in"),
    path("sign-up/", accounts.sign_up, name="sign-up"),
    path("sign-out/", accounts.SignOut.as_view(), name="sign-out"),
    path("api/", api.urls),
]

handler400 = "netweave.web.pages.shared.bad_request"
handler403 = "netweave.web.pages.shared.forbidden"
handler404 = "netweave.web.pages.shared.not_found"
handler500 = "netweave.web.pages.shared.broken"
